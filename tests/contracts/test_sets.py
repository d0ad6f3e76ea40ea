"""What every constraint set promises. A set added to `SETS` is tested here without further work."""

from __future__ import annotations

import inspect
import math
import pickle
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from dpconvex import sets
from dpconvex.errors import InvalidParameterError
from dpconvex.sets import SETS, ConvexSet
from instances import instances

pytestmark = pytest.mark.together

EXAMPLES = [constraint for cls in SETS for constraint in instances(cls)]
BOUNDED = [constraint for constraint in EXAMPLES if math.isfinite(constraint.radius)]
NUMBERS = st.one_of(st.floats(-10, 10), st.floats(-1e9, 1e9), st.floats(-1e-4, 1e-4), st.sampled_from([0.0, 1.0]))


def each(examples: list) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("constraint", examples, ids=repr)


def length(constraint: ConvexSet) -> int:
    return constraint.dim or 4


def vectors(constraint: ConvexSet, count: int, seed: int = 0) -> np.ndarray:
    """Vectors inside and far outside."""
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 3, size=(count, 1))
    return scale * min(constraint.radius, 10.0) * rng.standard_normal((count, length(constraint)))


@cache
def members(constraint: ConvexSet, count: int = 200, seed: int = 1) -> np.ndarray:
    found = np.array([constraint.project(w) for w in vectors(constraint, count, seed)])
    found.flags.writeable = False
    return found


def test_every_concrete_set_is_exported_once() -> None:
    kinds = (ConvexSet, *ConvexSet.__subclasses__())
    own = {c for kind in kinds for c in kind.__subclasses__() if c.__module__.startswith("dpconvex.")}
    assert {c for c in own if not inspect.isabstract(c)} == set(SETS)
    assert len(set(SETS)) == len(SETS)
    assert {c.__name__ for c in SETS} <= set(sets.__all__)


@pytest.mark.parametrize("cls", SETS)
def test_sets_are_final_values(cls: type[ConvexSet]) -> None:
    assert getattr(cls, "__final__", False)
    assert instances(cls)
    for constraint in instances(cls):
        again = pickle.loads(pickle.dumps(constraint))
        assert again == constraint
        assert hash(again) == hash(constraint)


@each(EXAMPLES)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_projection(constraint: ConvexSet, data: st.DataObject) -> None:
    """Member, idempotent, non-expansive, and nearest: the variational inequality against every member found."""
    w, other = (data.draw(hnp.arrays(float, length(constraint), elements=NUMBERS)) for _ in range(2))
    before = w.copy()
    p, q = constraint.project(w), constraint.project(other)
    assert np.array_equal(w, before)
    assert not np.shares_memory(p, w)
    rounding = 1e-13 * (1 + np.abs(w).max() + np.abs(other).max())
    assert constraint.contains(p)
    assert constraint.contains(q)
    assert np.linalg.norm(constraint.project(p) - p) <= 1e-13 * np.linalg.norm(p)
    assert np.linalg.norm(p - q) <= np.linalg.norm(w - other) + rounding
    if math.isfinite(constraint.radius):
        rivals = np.vstack([members(constraint, 50), q, constraint.linear_minimizer(p - w)])
        assert np.all((rivals - p) @ (w - p) <= rounding * constraint.radius)


@each(EXAMPLES)
@pytest.mark.thin
def test_members_do_not_move(constraint: ConvexSet) -> None:
    for w in members(constraint):
        np.testing.assert_allclose(constraint.project(w), w, rtol=1e-13, atol=1e-15)
        inside = (w + constraint.project(np.zeros_like(w))) / 2
        np.testing.assert_allclose(constraint.project(inside), inside, rtol=1e-13, atol=1e-15)


@each(BOUNDED)
@pytest.mark.thin
def test_membership_is_not_too_generous(constraint: ConvexSet) -> None:
    """A vector whose projection moves by more than the tolerance is no member."""
    for w in vectors(constraint, 300):
        moved = float(np.linalg.norm(constraint.project(w) - w))
        if moved > 1e-6 * constraint.radius:
            assert not constraint.contains(w)
            assert constraint.contains(w, tolerance=length(constraint) * 1.01 * moved / constraint.radius)
    assert not constraint.contains(np.full(length(constraint), np.nan))
    assert not constraint.contains(np.full(length(constraint), np.inf))


@each(BOUNDED)
def test_radius_and_diameter_hold_and_are_attained(constraint: ConvexSet) -> None:
    found = members(constraint)
    assert np.linalg.norm(found, axis=1).max() <= constraint.radius * (1 + 1e-15)
    rng = np.random.default_rng(5)
    d = length(constraint)
    directions = np.vstack([rng.standard_normal((50, d)), np.ones(d), np.eye(d)])
    if d > 1:
        directions = np.vstack([directions, np.eye(d)[0] - np.eye(d)[1]])
    corners = np.array([constraint.linear_minimizer(g) for g in np.vstack([directions, -directions])])
    apart = max(np.linalg.norm(corners - corner, axis=1).max() for corner in corners)
    assert apart <= constraint.diameter
    assert apart == pytest.approx(constraint.diameter, rel=1e-12)
    assert np.linalg.norm(corners, axis=1).max() == pytest.approx(constraint.radius, rel=1e-12)
    for corner in found[:20]:
        assert np.linalg.norm(found - corner, axis=1).max() <= constraint.diameter


@each(EXAMPLES)
def test_unbounded_means_both(constraint: ConvexSet) -> None:
    assert math.isinf(constraint.radius) == math.isinf(constraint.diameter)


@each(BOUNDED)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
@pytest.mark.thin
def test_linear_minimizer(constraint: ConvexSet, data: st.DataObject) -> None:
    g = data.draw(hnp.arrays(float, length(constraint), elements=NUMBERS))
    best = constraint.linear_minimizer(g)
    assert constraint.contains(best)
    assert np.array_equal(best, constraint.linear_minimizer(g))
    rounding = 1e-13 * np.abs(g).max() * constraint.radius + 1e-300  # the last for products below the normal range
    assert np.all(members(constraint, 100) @ g >= best @ g - rounding)


@each([constraint for constraint in EXAMPLES if math.isinf(constraint.radius)])
@pytest.mark.parametrize("fill", [0.0, 1.0, math.nan])
def test_unbounded_sets_refuse_whatever_the_content(constraint: ConvexSet, fill: float) -> None:
    with pytest.raises(InvalidParameterError, match="must be bounded"):
        constraint.linear_minimizer(np.full(length(constraint), fill))


@each(EXAMPLES)
@pytest.mark.thin
def test_degenerate_content(constraint: ConvexSet) -> None:
    """Neither warnings (they are errors here) nor exceptions, and always a member."""
    d = length(constraint)
    values = np.array([0.0, -0.0, 5e-324, -1e-300, 1.0, 1e154, -1e308, 1.79e308, np.inf, -np.inf, np.nan])
    drawn = np.random.default_rng(6).choice(values, size=(300, d))
    for w in np.vstack([np.repeat(values[:, None], d, axis=1), drawn]):
        constraint.contains(w)
        assert constraint.contains(constraint.project(w))
        if math.isfinite(constraint.radius):
            assert constraint.contains(constraint.linear_minimizer(w))


@each(EXAMPLES)
def test_wrong_shapes_are_refused(constraint: ConvexSet) -> None:
    d = length(constraint)
    bad = [np.zeros((d, 1)), np.zeros(0), np.float64(1.0)] + ([np.zeros(d + 1)] if constraint.dim else [])
    for w in bad:
        for method in (constraint.contains, constraint.project):
            with pytest.raises(InvalidParameterError, match="shape"):
                method(w)  # type: ignore[arg-type]
        if math.isfinite(constraint.radius):
            with pytest.raises(InvalidParameterError, match="shape"):
                constraint.linear_minimizer(w)  # type: ignore[arg-type]
