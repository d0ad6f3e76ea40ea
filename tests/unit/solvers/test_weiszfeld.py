"""The non-private geometric median: known answers, true certificates, degenerate data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from dpconvex._types import Status
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.solvers import geometric_median, weiszfeld
from dpconvex.solvers.weiszfeld import _Position

CLOUDS = arrays(
    np.float64,
    st.tuples(st.integers(1, 12), st.integers(1, 4)),
    elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3, width=32)),
)


def exact_value(X, z):
    difference = X.astype(np.longdouble) - z
    return np.sqrt(np.square(difference).sum(1)).mean()


@pytest.mark.parametrize(
    ("points", "median", "value"),
    [
        ([[0, 0], [4, 0], [2, 2 * 3**0.5]], [2, 2 / 3**0.5], 4 / 3**0.5),  # equilateral: Fermat point is the center
        ([[0, 0], [2, 0], [-1, 3**0.5]], [0, 0], 4 / 3),  # an angle of 120 degrees: its vertex
        ([[0, 0], [1, 0.01], [-1, 0.01]], [0, 0], 2 * np.hypot(1, 0.01) / 3),  # a wider one
        ([[-1, -1], [1, 1], [-1, 1], [1, -1]], [0, 0], 2**0.5),  # crossing of the diagonals
        ([[0], [1], [10]], [1], 10 / 3),  # the median
        ([[5, 7]], [5, 7], 0),
        ([[1, 2]] * 4 + [[9, 9]] * 3, [1, 2], 3 * np.hypot(8, 7) / 7),  # a majority at one point
    ],
)
def test_known_medians(points, median, value) -> None:
    solution = geometric_median(np.array(points, dtype=float), 1e-12)
    assert solution.status is Status.CERTIFIED
    np.testing.assert_allclose(solution.point, median, atol=1e-6)
    assert solution.value == pytest.approx(value, rel=1e-12, abs=1e-300)


@given(CLOUDS, st.integers(0, 2**32 - 1))
def test_no_point_beats_the_certificate(X, seed) -> None:
    """Try to find a value below ``value - gap_bound``: the data themselves, and random moves of shrinking size."""
    solution = geometric_median(X, 1e-9)
    floor = exact_value(X, solution.point) - solution.gap_bound
    rng = np.random.default_rng(seed)
    best = solution.point.astype(np.longdouble)
    spread = max(float(np.abs(X - solution.point).max()), 1e-300)
    for z in X:
        assert exact_value(X, z) >= floor
    for scale in np.logspace(0, -12, 60):
        candidate = best + spread * scale * rng.standard_normal(X.shape[1])
        if exact_value(X, candidate) < exact_value(X, best):
            best = candidate
    assert exact_value(X, best) >= floor
    assert solution.value == pytest.approx(float(exact_value(X, solution.point)), rel=1e-12, abs=1e-300)


@given(CLOUDS, st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 30.0, 1e6]))
def test_the_lower_bound_holds_wherever_it_is_computed(X, seed, distance) -> None:
    """Far from the data a gradient of length 1 is all there is to see, and the least value a small part of this one."""
    rng = np.random.default_rng(seed)
    z = X[0] + distance * rng.standard_normal(X.shape[1])
    least = geometric_median(X).value
    for at in (z, X[0], X.mean(axis=0)):
        assert _Position.at(X, at, np.zeros_like(at)).lower <= least * (1 + 1e-15)


def test_the_certificate_is_no_claim_where_the_iteration_is_cut(monkeypatch) -> None:
    """Stopped at once, at a start that is far off, the bound still covers the true gap."""
    monkeypatch.setattr("dpconvex.solvers.weiszfeld._MAX_STEPS", 0)
    X = np.random.default_rng(0).exponential(size=(200, 3)) ** 2
    rough = geometric_median(X)
    monkeypatch.undo()
    true = geometric_median(X)
    assert rough.status is Status.STEP_LIMIT
    assert true.status is Status.CERTIFIED
    assert 1e-4 < rough.value / true.value - 1 < rough.gap_bound / true.value


@pytest.mark.parametrize("dim", [2, 10, 50])
def test_random_clouds_are_solved_in_few_steps(dim) -> None:
    rng = np.random.default_rng(dim)
    for X in (rng.standard_normal((3000, dim)), rng.standard_t(2, (3000, dim)), rng.exponential(size=(3000, dim))):
        solution = geometric_median(X)
        assert solution.status is Status.CERTIFIED
        assert solution.gap_bound <= 1e-10 * solution.value
        assert solution.steps < 40


@pytest.mark.parametrize("ratio", [1e6, 1e12, 1e15])
def test_a_tiny_cluster_in_a_huge_domain(ratio) -> None:
    """Differences must be taken before anything is squared or summed: the cluster is 1e-12 of its distance from 0."""
    rng = np.random.default_rng(3)
    far = 1e6 * rng.standard_normal(5)
    cluster = rng.standard_normal((900, 5)) / ratio * 1e6
    X = np.concatenate([far + cluster, 1e6 * rng.standard_normal((100, 5))])
    solution = geometric_median(X)
    assert solution.status is Status.CERTIFIED
    resolution = 1e-15 * np.linalg.norm(far)
    assert np.linalg.norm(solution.point - far) <= 1e6 / ratio + resolution


def test_degenerate_content_never_raises_or_warns() -> None:
    for X in (np.zeros((4, 2)), np.full((3, 2), np.nan), np.array([[np.inf, 0], [1, 2]]), np.full((3, 1), 1e150)):
        solution = geometric_median(X)
        assert solution.gap_bound >= 0
        assert solution.status is Status.CERTIFIED or not np.isfinite(solution.value)
    assert geometric_median(np.full((3, 2), np.nan)).status is not Status.CERTIFIED


def test_public_form_is_checked() -> None:
    for X in (np.zeros(3), np.zeros((0, 2)), np.zeros((2, 0)), np.array([["a"]])):
        with pytest.raises(InvalidDataError):
            geometric_median(X)
    with pytest.raises(InvalidParameterError):
        geometric_median(np.zeros((2, 2)), 0.0)


@given(CLOUDS)
def test_sums_agree_with_plain_ones_and_points_at_the_position_do_not_count(X) -> None:
    z = X[-1].copy()
    sums = weiszfeld.unit_vector_sums(X, z, np.zeros_like(z))
    lengths = np.sqrt(np.square((X - z).astype(np.longdouble)).sum(1))
    away = lengths > 1e-145
    units = (X - z)[away] / lengths[away, None]
    assert sums.coincident == (~away).sum() >= 1
    np.testing.assert_allclose(sums.direction, units.sum(0).astype(float), atol=1e-12)
    assert sums.distance == pytest.approx(float(lengths[away].sum()), rel=1e-12)
    if away.any():
        assert sums.weight == pytest.approx(float((1 / lengths[away]).sum()), rel=1e-12)
        assert sums.nearest_distance == pytest.approx(float(lengths[away].min()), rel=1e-12)
        assert np.linalg.norm(X[sums.nearest] - z) == pytest.approx(sums.nearest_distance, rel=1e-12)
    else:
        assert sums.nearest == -1


def test_rounding_of_long_sums_is_within_its_bound() -> None:
    """All summands equal and not representable: rounding accumulates as far as it can."""
    X = np.full((300_000, 3), 1 / 3) * np.array([1.0, 1.1, 0.7])
    sums = weiszfeld.unit_vector_sums(X, np.zeros(3), np.zeros(3))
    row = X[0].astype(np.longdouble)
    length = np.sqrt(np.square(row).sum())
    error = np.linalg.norm((sums.direction - len(X) * row / length).astype(float)) / len(X)
    assert error <= weiszfeld.rounding(len(X), 3)
    assert abs(float(sums.distance / (len(X) * length) - 1)) <= weiszfeld.rounding(len(X), 3)
