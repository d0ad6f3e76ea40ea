"""Lemmas of the radius and center stages attacked on neighboring data; printed constants; mutants of both."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import binom, hypergeom, laplace, norm

from dpconvex.algorithms.location.radius_and_center import GroupedCenter, least_group, plan_center, plan_radius
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.gaussian import INFLATION
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import Groups, covered_shares, group_sizes, near_counts, weighted_mean
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments.geometric_median.radius import LEVEL, QUANTILE
from dpconvex_experiments.reference import printed_median as printed

DOMAIN = PointDomain(2, 1000.0, 1e-3)


def center_of(
    n: int, dim: int = 2, exact_up_to: int = 10_000, domain: PointDomain | None = None, mu: float = 0.5
) -> GroupedCenter:
    domain = domain or PointDomain(dim, 1000.0, 1e-3)
    return plan_center(domain, n, mu, mu, 1e-6, level=0.775, exact_up_to=exact_up_to)


def weighed(stage: GroupedCenter, X: np.ndarray, radius: float) -> tuple[float, np.ndarray]:
    groups = Groups.random(len(X), len(X), np.random.default_rng(0))
    weights = stage.ramp.weights(near_counts(X, groups, 2 * radius), groups.sizes)
    return float(weights.sum()), weighted_mean(X, weights)


def tight_pair(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A record in the middle of two wings; most weights sit on the ramp and see it leave."""
    wing = n // 2 - 3
    X = np.zeros((n, 2))
    X[:wing, 0], X[wing : 2 * wing, 0] = 1.5, -1.5
    Y = X.copy()
    Y[-1] = [500.0, 0.0]
    return X, Y


@pytest.mark.parametrize("n", [20, 60, 400])
def test_own_weight_and_others_both_move_the_sum_of_weights(n: int) -> None:
    stage = center_of(n)
    others = stage.ramp.others(n)
    assert others == pytest.approx((n - 1) / (n / 4 - 1))
    X, Y = tight_pair(n)
    change = abs(weighed(stage, X, 1.0)[0] - weighed(stage, Y, 1.0)[0])
    assert change <= stage.test.sensitivity.value
    if n == 400:  # nearly tight; a sensitivity without the own-row term would be beaten
        assert change > others > 0.98 * stage.test.sensitivity.value - 1


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(20, 48), d=st.integers(1, 3))
def test_means_and_sums_of_neighbors_keep_within_the_lemma(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    stage, radius = center_of(n, d), 1.0
    best = 0.0
    X = rng.integers(-2, 3, (n, d)) * rng.choice([0.5, 0.9, 1.0], n)[:, None]
    X[rng.random(n) < 0.1] *= 40
    Y = X.copy()
    Y[rng.integers(n)] = rng.integers(-3, 4, d) * rng.choice([0.5, 1.0, 100.0])
    for _ in range(12):  # hill climbing over the shared records
        A, B = X.copy(), Y.copy()
        i = rng.integers(n)
        move = rng.integers(-2, 3, d) * 0.5
        A[i] += move
        B[i] += move
        (z, mean), (other, moved) = weighed(stage, A, radius), weighed(stage, B, radius)
        assert abs(z - other) <= stage.test.sensitivity.value
        if min(z, other) > 0:
            bound = 4 * radius * stage.test.sensitivity.value / max(z, other)
            ratio = float(np.linalg.norm(mean - moved)) / bound
            assert ratio <= 1 + 1e-9
            if ratio >= best:
                best, X, Y = ratio, A, B


@pytest.mark.parametrize("n", [10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("low", [0.55, 0.6, 0.7])
def test_groups_are_large_enough_for_the_exact_law(n: int, low: float) -> None:
    failure = 5e-8
    size = least_group(n, failure, low)
    for s in set(group_sizes(n, size).tolist()):
        floor = math.ceil(s * low)
        chance = hypergeom.sf(floor - 1, n - 1, (n + 1) // 2 - 1, s - 1)  # f - 1 >= floor
        assert 2 * n * chance <= failure
    if low == 0.6:  # 1336, 1451, 1565 by the specification's formula
        assert size == {10_000: 1336, 100_000: 1451, 1_000_000: 1565}[n]
    small = group_sizes(n, size // 3)[0]
    assert 2 * n * hypergeom.sf(math.ceil(small * low) - 1, n - 1, (n + 1) // 2 - 1, small - 1) > failure


def test_every_weight_needs_more_than_half_of_all_records_near() -> None:
    n = 40
    stage = center_of(n)
    X = np.zeros((n, 2))
    X[n // 2 + 1 :] = 100.0  # n/2 + 1 records see n/2 + 1 near: weight 0
    assert weighed(stage, X, 1.0)[0] == 0.0
    X[n // 2 + 1] = 0.0
    assert weighed(stage, X, 1.0)[0] > 0.0


def released(stage: GroupedCenter, X: np.ndarray, source, radius: float = 1.0):
    return stage.find(X, radius, source, Ledger(PrivacyParams(1e6, 0.4), stage.releases))


def test_noise_of_the_center_is_scaled_by_the_released_bound_and_not_by_the_true_weight() -> None:
    # Balls are 2 radius + sigma_c (sqrt d + 2) with sigma_c inverse to z: so z can be read off. It must spread as the
    # noise of the test does (un-noised it would not spread at all), below the true sum of weights.
    stage, X = center_of(400), np.zeros((400, 2))
    balls = np.array([released(stage, X, SeededSource(k)).ball for k in range(60)])
    z = 4 * stage.test.sensitivity.value * stage.mechanism.sigma * (math.sqrt(2) + 2) / (balls - 2)
    sigma = stage.test.sigma
    assert 0.6 * sigma < z.std() < 1.5 * sigma
    assert z.mean() == pytest.approx(400 - stage.threshold_margin, abs=6 * sigma / math.sqrt(60))
    assert z.max() < 400


def test_a_light_crowd_fails_the_test() -> None:
    stage = center_of(400)
    X = np.random.default_rng(0).standard_normal((400, 2)) * 300
    assert all(released(stage, X, SeededSource(k)) is None for k in range(20))


@pytest.mark.parametrize("source", [SeededSource(1), SystemSource()], ids=["seeded", "system"])
def test_a_range_of_a_trillion_costs_nothing_but_floats(source) -> None:
    # Error probability: 6 standard deviations of the planned noise per coordinate, below 1e-7.
    n, radius = 20_000, 1e-12
    domain = PointDomain(3, 1.0, 1e-12)
    stage = center_of(n, exact_up_to=0, domain=domain)
    assert stage.coarse is not None
    X = np.tile(np.array([0.6, -0.5, 0.3]), (n, 1))
    start = released(stage, X, source, radius)
    sigma = (start.ball - 2 * radius) / (math.sqrt(3) + 2)
    assert np.abs(start.center - X[0]).max() < 6 * sigma + 2e-16
    assert sigma < 0.2 * radius


def released_bound(stage: GroupedCenter, X: np.ndarray, source) -> float:
    """The lower bound of the sum of weights that a run released, read off the ball about its center."""
    start = released(stage, X, source)
    assert start is not None
    reach = 4 * stage.test.sensitivity.value * stage.mechanism.sigma * (math.sqrt(X.shape[1]) + 2)
    return reach / (start.ball - 2)


@pytest.mark.parametrize("n", [20, 400, 30_000])
def test_public_constants_cover_the_lemmas(n: int) -> None:
    stage = center_of(n, exact_up_to=5000)
    assert norm.sf(stage.threshold_margin / (stage.test.sigma * INFLATION)) <= stage.margin
    assert stage.least_weight > stage.test.sensitivity.value  # else a neighbor may have no mean
    assert stage.allowance.probability >= stage.margin + stage.misled
    if not stage.ramp.exact:
        assert stage.group_size >= least_group(n, stage.misled, stage.ramp.low)


def test_the_unit_of_the_noise_includes_rounding() -> None:
    fine = center_of(20_000, exact_up_to=0, domain=PointDomain(3, 1.0, 1e-12))
    reach = fine.test.sensitivity.value / 18_000
    assert fine.unit(1e-12, 18_000) >= 4e-12 * reach + 2.0**-50  # two means, each 2^-51 off
    high = center_of(20, dim=10**6, domain=PointDomain(10**6, 1.0, 0.5))
    errors = 2 * 10**6 * 2.0**-52  # of distances, relative
    assert high.unit(0.5, 18) >= 4 * 0.5 * high.test.sensitivity.value / 18 * (1 + errors)


def test_a_crowd_of_positive_weight_may_still_be_too_light() -> None:
    stage = center_of(400, mu=50.0)  # hardly any noise
    X = np.zeros((400, 2))
    X[:, 0] = 10.0 * np.arange(400)
    X[:220] = 0.0
    assert weighed(stage, X, 1.0)[0] == pytest.approx(220 * 19 / 99)
    assert released(stage, X, SeededSource(0)) is None


def test_near_is_within_two_radii() -> None:
    stage = center_of(400, mu=50.0)
    X = np.zeros((400, 2))
    X[200:, 0] = 3.0
    assert released(stage, X, SeededSource(0), radius=1.0) is None
    assert released(stage, X, SeededSource(0), radius=1.5) is not None


def test_groups_and_samples_follow_from_fresh_coins() -> None:
    # Hardly any noise: what differs from run to run are the coins. 75 % near each other, so that weights are in
    # between; the first records of the array are far off, so that a sample of the first ones would see no crowd.
    stage = center_of(6000, exact_up_to=0, mu=500.0)
    X = np.zeros((6000, 2))
    X[:1500, 0] = 10.0 * np.arange(1, 1501) * (-1.0) ** np.arange(1500)
    bounds = [released_bound(stage, X, SeededSource(k)) for k in range(6)]
    assert np.ptp(bounds) > 1.0
    small = center_of(1000, mu=500.0)
    assert released(small, X, SeededSource(0)) is not None
    radius = plan_radius(DOMAIN, 6000, 1e4, sample=1000, level=0.5)
    assert not radius.find(X, SeededSource(0), Ledger(PrivacyParams(1e4), radius.releases)).at_top


def test_the_planned_sensitivity_of_the_radius_is_attained() -> None:
    stage = plan_radius(DOMAIN, 400, 1.0)
    X = np.zeros((400, 2))
    Y = X.copy()
    Y[7] = 900.0
    groups = Groups.random(400, stage.group_size, np.random.default_rng(0))
    change = np.abs(covered_shares(X, groups, DOMAIN.grid) - covered_shares(Y, groups, DOMAIN.grid)).max()
    assert change == pytest.approx(2.0)
    assert change <= stage.mechanism.sensitivity.value * (1 + 1e-12)


def test_a_sample_is_read_where_it_will_do() -> None:
    stage = center_of(600)
    X = np.zeros((5000, 2))
    assert stage.n == 600
    start = released(stage, X, SeededSource(0))
    assert np.linalg.norm(start.center) < start.ball


@pytest.mark.parametrize(("size", "n"), [(64, 5000), (200, 200)])
def test_the_radius_is_near_that_of_the_crowd(size: int, n: int) -> None:
    stage = plan_radius(DOMAIN, n, 2.0, group_size=size)
    X = np.random.default_rng(0).standard_normal((n, 2))
    X[: n // 20] += 500
    for k in range(5):
        found = stage.find(X, SeededSource(k), Ledger(PrivacyParams(2.0), stage.releases))
        assert not found.at_top
        assert 1.0 <= found.radius <= 8.0


def test_without_a_crowd_the_radius_is_at_the_top() -> None:
    stage = plan_radius(PointDomain(1, 1.0, 0.5), 40, 50.0)
    X = np.repeat([[-1.0], [1.0]], 20, axis=0)  # half of the pairs are 2 apart: only the top covers them
    found = stage.find(X, SeededSource(0), Ledger(PrivacyParams(50.0), stage.releases))
    assert found.at_top
    assert found.radius == 2.0


def test_printed_constants() -> None:
    # Specification, section 3.6: R/r = 1e4, delta = 1e-5.
    stage = printed.plan_printed_radius(PointDomain(10, 1e4, 1.0), 1000, 0.25, 1e-5, Unit.RECORD)
    assert (stage.rounds, stage.draws) == (14, 47)
    assert stage.mechanism.threshold_scale == pytest.approx(6 / 0.25, rel=1e-5)
    assert stage.mechanism.query_scale == pytest.approx(12 / 0.25, rel=1e-5)
    center = printed.plan_printed_center(PointDomain(10, 1e4, 1.0), 1000, 0.25, 1e-5, Unit.RECORD)
    assert center.draws == 12787
    # Failing draws, both data sets: delta/4 for the radius; delta/18 + 2 delta/9 for the center.
    assert stage.allowance.probability == pytest.approx(1e-5 / 4)
    assert center.allowance.probability == pytest.approx(1e-5 * (1 / 18 + 2 / 9))
    # sigma n / radius = 1600 / epsilon sqrt(log(12 / delta)), here in units of 400 radius / n
    assert 400 * center.mechanism.sigma == pytest.approx(1600 / 0.25 * math.sqrt(math.log(12e5)))
    assert center.test.scale == pytest.approx(24 / 0.25, rel=1e-5)
    assert center.test.bound == pytest.approx(24 / 0.25 * math.log(24e5), rel=1e-5)


def test_printed_stages_find_a_heavy_crowd() -> None:
    n, domain = 4000, PointDomain(2, 100.0, 0.1)
    X = np.random.default_rng(0).standard_normal((n, 2)) + 20
    radius = printed.plan_printed_radius(domain, n, 2.0, 1e-3, Unit.RECORD)
    found = radius.find(X, SeededSource(0), Ledger(PrivacyParams(2.0, 1e-3), radius.releases))
    assert 1.0 <= found.radius <= 8.0
    center = printed.plan_printed_center(domain, n, 2.0, 1e-3, Unit.RECORD)
    start = center.find(X, found.radius, SeededSource(0), Ledger(PrivacyParams(2.5, 1e-3), center.releases))
    assert start is not None
    assert np.linalg.norm(start.center - 20) < 6 * found.radius
    noise = 400 * found.radius / n * center.mechanism.sigma  # of a coordinate, by which its ball is measured
    assert start.ball == pytest.approx(6 * found.radius + 3 * noise * math.sqrt(2 * math.log(4 / 1e-3)))


def test_the_printed_test_passes_only_where_the_crowd_is_certain() -> None:
    # The margin is 0.9 n, so that even a sum of weights of n passes with probability 1e-4 only (four runs: below 1e-3).
    n = 453
    center = printed.plan_printed_center(PointDomain(2, 100.0, 0.1), n, 1.0, 1e-6, Unit.RECORD)
    assert 0.85 * n < center.test.bound < 0.95 * n
    for k in range(4):
        ledger = Ledger(PrivacyParams(2.0, 1e-5), center.releases)
        assert center.find(np.zeros((n, 2)), 1.0, SeededSource(k), ledger) is None


def test_scores_drawn_from_their_law_are_those_of_drawn_indices() -> None:
    # 300 records, 90 of them apart; k = 2000 draws. Error probability below 1e-8 (6 standard deviations of the mean).
    n = 300
    X = np.zeros((n, 2))
    X[:90] = 50.0
    stage = printed.plan_printed_center(PointDomain(2, 100.0, 0.1), n, 1.0, 1e-2, Unit.RECORD)
    by_law = stage._scores(X, 1.0, np.random.default_rng(0))
    assert n <= 2 * stage.draws
    for rows, share in ((slice(90, n), 0.7), (slice(0, 90), 0.3)):
        m, deviation = len(by_law[rows]), math.sqrt(stage.draws * 0.21)
        assert abs(by_law[rows].mean() - stage.draws * share) < 6 * deviation / math.sqrt(m)
        assert 0.7 * deviation < by_law[rows].std() < 1.4 * deviation


# Errata of the paper (docs, Errata)


def test_p1_the_event_that_lemma_9_conditions_on_differs_between_neighbors() -> None:
    """P1: an index of 0.45 n near points is bound to a score of at most k/2; with one point more it is not.

    Conditioned on the event, the neighbor's score alone exceeds k/2. The repair counts the event on both data sets.
    """
    n, delta = 10_000, 1e-5
    stage = printed.plan_printed_center(PointDomain(10, 1e4, 1.0), n, 0.25, delta, Unit.RECORD)
    k = stage.draws
    bound, free = binom.sf(k / 2, k, 0.45), binom.sf(k / 2, k, 0.45 + 1 / n)
    assert 0 < bound < free <= delta / 9 / n  # what each record may fail with
    assert stage.allowance.probability == pytest.approx(delta / 18 + 2 * delta / 9)
    spent = stage.test.event.parts.failure + delta / 6 + stage.allowance.probability
    assert spent <= 11 / 18 * delta * (1 + 1e-9)


def test_p3_inserting_a_record_moves_scores_beyond_the_sensitivity() -> None:
    """P3: one record more in front shifts all others to other places: replace-one is what the proofs are about."""
    order, bounds, grid = np.arange(80), np.arange(0, 81, 4), np.ldexp(1.0, np.arange(12))
    X = np.repeat(100.0 * (np.arange(20) % 2), 4)[:, None]  # groups of four, all members of one at one place
    Y = np.concatenate([[[0.0]], X])[:80]  # the added record takes the first place, the last one falls off the groups
    scores = [covered_shares(points, Groups(order, bounds), grid)[0] for points in (X, Y)]
    assert scores[0] == 80
    assert scores[0] - scores[1] > 10 * 2


def test_u1_fast_radius_may_return_less_than_lemma_7_asks_for() -> None:
    """U1, Theorem 3: three quarters of all pairs within 1, and ``r^(0.75) = 1.5``. Repaired: all weight within 6."""
    X = np.repeat([[0.0], [1.0], [1.5], [2.0], [3.0]], [146, 354, 1, 354, 146], axis=0)
    n, everyone = len(X), Groups.random(len(X), len(X), np.random.default_rng(0))
    median = geometric_median(X).point
    assert near_counts(X, everyone, 1.0).mean() >= 0.75 * n
    assert np.sort(np.abs(X[:, 0] - median))[math.ceil(0.75 * n) - 1] == pytest.approx(1.5, abs=1e-6)
    weights = np.clip((near_counts(X, everyone, 2.0) / n - 0.5) / 0.25, 0.0, 1.0)
    assert weights.sum() >= 0.6 * n
    assert np.abs(X[weights > 0] - median).max() <= 6.0


def test_u3_the_sample_size_of_theorem_4_lacks_the_number_of_radii() -> None:
    """U3: of T empty rounds some one passes with a probability that grows with ``T = log2(R/r)``, by quadrature."""
    stopped, u = {}, (np.arange(4000) + 0.5) / 4000
    for rounds in (10, 600):
        stage = printed.plan_printed_radius(
            PointDomain(2, 2.0 ** (rounds / 2), 2.0 ** (-rounds / 2)), 100, 1.0, 1e-5, Unit.RECORD
        )
        assert stage.rounds == rounds
        level = stage.mechanism.threshold + laplace.ppf(u, scale=stage.mechanism.threshold_scale)
        passes = laplace.sf(level - 1, scale=stage.mechanism.query_scale)  # a record is always near itself
        stopped[rounds] = 1 - ((1 - passes) ** rounds).mean()
    assert stopped[10] < 0.03
    assert stopped[600] > 0.3


def test_u6_u7_the_printed_grid_is_empty_at_one_radius_and_never_reaches_the_largest() -> None:
    """U6: ``T = log2(R/r) = 0`` and ``log(4T/delta)`` is none. U7: ``r 2^(T-1) < R``; R answers where none passes."""
    with pytest.raises(InvalidParameterError, match="min_radius"):
        PointDomain(2, 1.0, 1.0)
    for ratio in (2.0, 3.0, 4.0, 1000.0, 1024.0):
        domain = PointDomain(2, ratio, 1.0)
        stage = printed.plan_printed_radius(domain, 400, 1.0, 1e-2, Unit.RECORD)
        assert domain.grid[stage.rounds - 1] < ratio <= domain.grid[stage.rounds]
        assert domain.grid[-1] >= 2 * ratio  # ours reaches the diameter
    far = np.array([[-1000.0], [1000.0]]).repeat(200, axis=0)
    stage = printed.plan_printed_radius(PointDomain(1, 1000.0, 1.0), 400, 1.0, 1e-2, Unit.RECORD)
    found = stage.find(far, SeededSource(0), Ledger(PrivacyParams(1.0, 1e-2), stage.releases))
    assert (found.radius, found.at_top) == (1000.0, True)


def test_u11_algorithm_2_and_its_experiment_have_different_levels() -> None:
    """U11: 0.775 n is the threshold of the algorithm and of all plans; 0.75 is the quantile of the plotted ratio."""
    domain = PointDomain(2, 100.0, 1.0)
    assert printed.plan_printed_radius(domain, 1000, 1.0, 1e-5, Unit.RECORD).mechanism.threshold == pytest.approx(775)
    assert plan_radius(domain, 1000, 1.0).mechanism.threshold == pytest.approx(775)
    assert (LEVEL, QUANTILE) == (0.775, 0.75)
