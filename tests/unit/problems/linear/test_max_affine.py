"""The oracle for maxima of affine functions: published values, brute force, planes that hold everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.sets import Box, Ellipsoid, L2Ball, Polytope, WholeSpace
from max_affine import MaxAffine, max_affine_extension

DOMAINS = (
    L2Ball(1.0, dim=2),
    Box([-1.0, -0.5], [0.5, 1.0]),
    Ellipsoid([1.0, 0.3]),
    Polytope([[-1, 0], [0, -1], [1, 2]], [0.3, 0.3, 1]),
)
GOLDEN = [  # the table of T1 of the specification: signs of the pieces, a, b, C, w, value, subgradient
    ((1,), (3, 4), 1, 2, (0.6, 0.5), -0.4666527509, (1.3153012759, 1.5066461276)),
    ((0, 1), (3, 0), 4, 1, (0.8, 0.1), 2.8021733878, (0.9990552876, 0.0434572462)),
    ((0, 1), (3, 0), 2.9, 1, (0.1, 0.9), 1.2459793692, (0.8560869410, 0.5168318387)),
    ((-1, 1), (2, 1), -2, 1, (-0.5, 0.5), 1.1401754251, (-0.9647638212, -0.2631174058)),
    ((-1, 1), (0.3, 0.4), -2, 1, (-0.5, 0.5), 1.95, (-0.3, -0.4)),
]


@pytest.mark.parametrize(("signs", "a", "b", "level", "w", "value", "slope"), GOLDEN)
def test_published_values(signs, a, b, level, w, value, slope) -> None:
    t = np.array(signs, dtype=float)
    found = max_affine_extension(
        MaxAffine(t[:, None] * np.array(a, dtype=float), t * b), np.array(w), level, DOMAINS[0], 1e-9
    )
    assert found.lower - 1e-9 <= value <= found.upper + 1e-9
    assert found.upper - found.lower <= 1e-8
    assert np.allclose(found.slope, slope, atol=1e-4)


@pytest.mark.gate
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), which=st.integers(0, len(DOMAINS) - 1), pieces=st.integers(1, 6))
def test_brackets_and_planes_against_brute_force(seed, which, pieces) -> None:
    """T10: the B-subgradient inequality at members, a slope of at most C, and a bracket that meets the tolerance."""
    rng, domain = np.random.default_rng(seed), DOMAINS[which]
    f = MaxAffine(3 * rng.standard_normal((pieces, 2)), rng.standard_normal(pieces))
    w, level = domain.project(rng.standard_normal(2)), 1.3
    members = domain.project_rows(2 * rng.uniform(-1, 1, (3000, 2)))
    values = (members @ f.slopes.T + f.offsets).max(1)

    def least(u):
        return float((values + level * np.linalg.norm(members - u, axis=1)).min())

    found = max_affine_extension(f, w, level, domain, 1e-6)
    assert found.upper - found.lower <= 1e-6
    assert found.lower <= least(w)
    assert found.upper >= least(w) - 0.4, "the grid is that coarse"
    assert np.linalg.norm(found.slope) <= level
    for u in members[:40]:
        assert found.lower + float(found.slope @ (u - w)) <= least(u)


def test_a_bound_holds_even_where_the_weights_have_not_converged() -> None:
    """Steep pieces: the certificate may be wide, never wrong."""
    rng = np.random.default_rng(0)
    for size in (1e2, 1e4):
        f = MaxAffine(size * rng.standard_normal((3, 2)), size * rng.standard_normal(3))
        w = DOMAINS[0].project(rng.standard_normal(2))
        found = max_affine_extension(f, w, 1.0, DOMAINS[0], 0.1)
        members = DOMAINS[0].project_rows(2 * rng.uniform(-1, 1, (5000, 2)))
        values = (members @ f.slopes.T + f.offsets).max(1) + np.linalg.norm(members - w, axis=1)
        assert found.lower <= min(found.upper, float(values.min()))


def test_public_mistakes_raise() -> None:
    with pytest.raises(InvalidDataError, match="offset"):
        MaxAffine(np.zeros((2, 3)), np.zeros(3))
    f = MaxAffine(np.ones((1, 2)), np.zeros(1))
    with pytest.raises(InvalidParameterError, match="level="):
        max_affine_extension(f, np.zeros(2), 0.0, DOMAINS[0], 1e-3)
    with pytest.raises(InvalidParameterError, match="diameter="):
        max_affine_extension(f, np.zeros(2), 1.0, WholeSpace(), 1e-3)
