"""Point domains, sanitising, means of users, counts of neighbors within groups."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.spatial.distance import cdist

from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import (
    WEIGHTED_MEAN_ROUNDING,
    Groups,
    clip_points,
    covered_shares,
    group_sizes,
    near_counts,
    user_points,
    weighted_mean,
)
from dpconvex_experiments.reference import printed_median


@given(exponent=st.floats(-84, 90), ratio=st.floats(2.0, 1e15))
def test_only_the_last_radius_of_the_grid_reaches_the_diameter(exponent: float, ratio: float) -> None:
    domain = PointDomain(3, 10.0**exponent, 10.0**exponent / ratio)
    grid = domain.grid
    assert grid[0] == domain.min_radius
    assert (grid[1:] == 2 * grid[:-1]).all()
    assert grid[-1] >= 2 * domain.radius_bound > grid[-2]


@pytest.mark.parametrize(
    ("dim", "bound", "least"),
    [(0, 1.0, 0.1), (2, 0.0, 0.1), (2, 1.0, 0.6), (2, 1.0, 0.0), (2, 1e101, 1.0), (2, 1, 1e-101)],
)
def test_bad_domains_are_refused(dim: int, bound: float, least: float) -> None:
    with pytest.raises(InvalidParameterError):
        PointDomain(dim, bound, least)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_sanitising_is_record_wise_and_total(dtype: type) -> None:
    domain = PointDomain(3, 10.0, 0.1)
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((50, 3)) * 20).astype(dtype)
    if dtype is not np.int64:
        X[0], X[1], X[2] = np.nan, np.inf, [-np.inf, 1.0, 0.0]
        X[3] = np.finfo(dtype).max
    before = X.copy()
    points = clip_points(X, domain)
    np.testing.assert_array_equal(X, before)
    assert points.shape == (50, 3)
    assert points.dtype == np.float64
    assert points.flags.c_contiguous
    assert np.linalg.norm(points, axis=1).max() <= 10.0
    for i in range(50):  # one record at a time gives the same
        np.testing.assert_array_equal(clip_points(X[i : i + 1], domain), points[i : i + 1])


def test_points_of_the_domain_are_not_copied() -> None:
    X = np.random.default_rng(1).standard_normal((40, 3))
    domain = PointDomain(3, 100.0, 0.1)
    assert clip_points(X, domain) is X
    assert clip_points(X[:, ::-1], domain).flags.c_contiguous


@pytest.mark.parametrize("X", [np.zeros((4, 2)), np.zeros(3), np.zeros((0, 3)), np.array([["a", "b", "c"]])])
def test_only_public_form_is_refused(X: np.ndarray) -> None:
    with pytest.raises(InvalidDataError):
        clip_points(X, PointDomain(3, 1.0, 0.1))


@given(seed=st.integers(0, 2**32 - 1), dim=st.integers(1, 6))
def test_no_record_changes_the_bits_of_another(seed: int, dim: int) -> None:
    # Norms within a few units in the last place of the bound: whether they count as inside must not depend on others.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, dim))
    X *= (3.0 / np.linalg.norm(X, axis=1) * (1 + rng.integers(-4, 5, 40) * 2.0**-52))[:, None]
    domain = PointDomain(dim, 3.0, 0.1)
    alone = clip_points(X, domain)
    for value in (0.0, 50.0, np.nan, np.inf):
        Y = X.copy()
        Y[7, 0] = value
        others = np.arange(40) != 7
        np.testing.assert_array_equal(clip_points(Y, domain)[others], alone[others])


@pytest.mark.parametrize("far", [0.0, 1.0, 1e12])
def test_weighted_mean_errs_by_no_more_than_its_bound(far: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, 2)) + far
    X[::2] *= -1  # cancellation
    weights = np.clip(rng.random(2000) * 1.4 - 0.2, 0, 1)
    exact = [
        float(
            sum((Fraction(w) * Fraction(x) for w, x in zip(weights, column, strict=True)), Fraction(0))
            / Fraction(math.fsum(weights))
        )
        for column in X.T
    ]
    error = float(np.linalg.norm(weighted_mean(X, weights) - exact))
    assert error <= (WEIGHTED_MEAN_ROUNDING + 2.0**-53) * np.linalg.norm(X, axis=1).max()
    np.testing.assert_array_equal(weighted_mean(X, np.zeros(2000)), [0.0, 0.0])


def test_a_user_is_the_mean_of_their_points_however_many_there_are() -> None:
    domain = PointDomain(2, 10.0, 0.1)
    X = np.array([[1.0, 0.0], [3.0, 0.0], [np.nan, 4.0], [0.0, 1e300]])
    points = user_points(X, np.array(["b", "b", "a", "c"]), domain)
    np.testing.assert_allclose(points, [[0.0, 4.0], [2.0, 0.0], [0.0, 10.0]], rtol=1e-12)
    with pytest.raises(InvalidDataError):
        user_points(X, np.array([1, 2]), domain)


@pytest.mark.parametrize("bound", [0.1, 1.0, 3.0])
@pytest.mark.together
def test_means_of_users_at_the_edge_do_not_leave_the_ball_by_their_last_digits(bound: float) -> None:
    users = np.repeat(np.arange(1, 60), np.arange(1, 60))  # user k has k points, whose shares 1 / k are rounded
    means = user_points(np.full((len(users), 1), bound), users, PointDomain(1, bound, bound / 4))
    assert bound * (1 - 1e-13) < means.min() <= means.max() <= bound


def test_labels_of_users_may_be_anything_and_others_rows_change_no_bit() -> None:
    domain = PointDomain(2, 3.0, 0.1)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 2)) * 3
    labels = np.array([None, "a", 3, None, 2.5, "a", (1, 2), 3, None], dtype=object)
    points = user_points(X, labels, domain)
    assert points.shape == (5, 2)
    texts = ["" if label is None else str(label) for label in labels]
    for name, point in zip(sorted(set(texts)), points, strict=True):
        own = [text == name for text in texts]
        np.testing.assert_array_equal(user_points(X[own], labels[own], domain)[0], point)
    X, whose = rng.standard_normal((2000, 2)), rng.integers(7, size=2000)
    for user, point in enumerate(user_points(X, whose, domain)):  # in the order in which each one's rows stand
        np.testing.assert_array_equal(user_points(X[whose == user], whose[whose == user], domain)[0], point)


def test_a_record_alone_is_as_among_others_however_long_it_is() -> None:
    # NumPy sums 9000 numbers in another order where there is but one row.
    rng = np.random.default_rng(1)
    for _ in range(20):
        row = rng.standard_normal(9000)
        bound = float(np.sqrt(np.einsum("ij,ij->i", row[None], row[None])[0]))
        for scale in (1 - 2.0**-53, 1.0, 1 + 2.0**-52):
            domain = PointDomain(9000, bound * scale, bound / 4)
            np.testing.assert_array_equal(clip_points(np.stack([row, row]), domain)[:1], clip_points(row[None], domain))


def brute(X: np.ndarray, groups: Groups, radius: float) -> np.ndarray:
    whose = np.empty(len(X), dtype=int)
    for g in range(len(groups.bounds) - 1):
        whose[groups.order[groups.bounds[g] : groups.bounds[g + 1]]] = g
    return ((cdist(X, X) <= radius) & (whose[:, None] == whose)).sum(1)


@pytest.mark.parametrize(("n", "size"), [(30, 30), (31, 7), (700, 300), (700, 700), (641, 64), (20, 3), (1, 5)])
@pytest.mark.parametrize("d", [1, 3, 17])
def test_counts_agree_with_brute_force(n: int, size: int, d: int) -> None:
    rng = np.random.default_rng(n + d)
    X = rng.standard_normal((n, d))
    X[n // 2 :] = X[: n - n // 2]  # coincident points
    groups = Groups.random(n, size, rng)
    assert sorted(groups.order) == list(range(n))
    radius = math.sqrt(d)
    np.testing.assert_array_equal(near_counts(X, groups, radius), brute(X, groups, radius))
    if n > 1:
        grid = np.ldexp(radius / 8, np.arange(7))
        expected = [((brute(X, groups, r) - 1) / (groups.sizes - 1)).sum() for r in grid]
        np.testing.assert_allclose(covered_shares(X, groups, grid)[:-1], expected[:-1], rtol=1e-12)
        assert covered_shares(X, groups, grid)[-1] == pytest.approx(n)


@given(n=st.integers(1, 5000), size=st.integers(1, 300))
def test_every_group_has_the_least_size(n: int, size: int) -> None:
    sizes = group_sizes(n, size)
    assert sizes.sum() == n
    assert sizes.max() - sizes.min() <= 1
    assert sizes.min() >= min(size, n)


@pytest.mark.parametrize("scale", [1e-90, 1.0, 1e90])
def test_levels_are_exact_at_the_radii_and_over_all_scales(scale: float) -> None:
    X = np.array([[0.0], [1.0], [2.0], [4.0 * (1 + 1e-12)], [1e9]]) * scale
    groups = Groups(np.arange(5), np.array([0, 5]))
    grid = np.ldexp(scale, np.arange(40))
    # Pairs (ordered) within 1: 0-1, 1-2; within 2: 0-2; within 4: 1-3, 2-3; within 8: 0-3; the rest near 1e9.
    np.testing.assert_allclose(covered_shares(X, groups, grid)[:4] * 4, [4, 6, 10, 12])
    np.testing.assert_allclose(covered_shares(X, groups, grid)[29:31] * 4, [12, 20])


def test_draws_follow_the_binomial_law_of_the_true_share() -> None:
    # Error probability: the mean of 300 records' counts leaves 6 standard deviations, below 1e-8.
    X = np.concatenate([np.zeros((200, 2)), np.full((100, 2), 9.0)])
    counts = printed_median.near_draws(X, 1.0, 50, np.random.default_rng(0))
    for rows, share in ((slice(0, 200), 2 / 3), (slice(200, 300), 1 / 3)):
        m = len(counts[rows])
        assert abs(counts[rows].mean() - 50 * share) < 6 * math.sqrt(50 * 2 / 9 / m)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(4, 24), size=st.integers(2, 24), d=st.integers(1, 3))
def test_scores_of_radii_change_by_at_most_two(seed: int, n: int, size: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, (n, d)).astype(float)
    Y = X.copy()
    Y[rng.integers(n)] = rng.integers(-9, 10, d)
    groups = Groups.random(n, size, rng)
    grid = np.ldexp(0.5, np.arange(7))
    change = np.abs(covered_shares(X, groups, grid) - covered_shares(Y, groups, grid))
    assert change.max() <= 2 + 1e-9


def test_the_bound_of_two_is_attained() -> None:
    # All at one place, and one leaves: its own share falls by 1, those of its group by 1 together (own row alone: 1).
    X = np.zeros((12, 2))
    Y = X.copy()
    Y[5] = 100.0
    groups, grid = Groups.random(12, 4, np.random.default_rng(0)), np.ldexp(1.0, np.arange(9))
    assert covered_shares(X, groups, grid)[0] - covered_shares(Y, groups, grid)[0] == pytest.approx(2.0)
