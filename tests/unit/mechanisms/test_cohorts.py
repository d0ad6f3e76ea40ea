"""Robust means of cohorts: the exact law by enumeration of all partitions, sensitivities, coins, plans."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import CohortMean, Cohorts, RobustMean, plan_cohorts
from dpconvex.mechanisms.robust_mean import budget
from dpconvex.randomness import SeededSource, SystemSource

MU, WRONG = budget(1.0, 1e-6, 4)


def ordered(order):
    """A source whose next permutation is this one."""
    return SimpleNamespace(generator=lambda: SimpleNamespace(permutation=lambda n: np.asarray(order)))


def small(score_sigma: float, sigma: float, margin: float) -> CohortMean:
    """Two cohorts of six points in one dimension."""
    return CohortMean(Cohorts(12, 2, ((6, 5, 3, 4),)), 1, margin, score_sigma, sigma, 0.01)


def laws(mean: CohortMean, points: np.ndarray, orders) -> Counter:
    """How often each pair (excesses, means) of the two cohorts occurs among the partitions."""
    found: Counter = Counter()
    alike = Counter(tuple(np.sort(points[order[:6]])) + tuple(np.sort(points[order[6:]])) for order in orders)
    for table, times in alike.items():
        excesses, means = mean.cohorts.examine(np.array(table)[:, None], 1.0, ordered(range(12)))
        found[tuple(excesses), tuple(means[:, 0].round(12))] += times / len(orders)
    return found


def density(mean: CohortMean, law: Counter, y: np.ndarray) -> dict:
    """Density of the noisy sum with each pattern of bits, written from the docstring of the mechanism."""
    scale = mean.reach * mean.sigma
    out = {bits: np.zeros(len(y)) for bits in itertools.product((False, True), repeat=2)}
    for (excesses, means), weight in law.items():
        passes = norm.sf((mean.threshold - np.array(excesses)) / mean.score_sigma)
        for bits in out:
            chance = np.prod(np.where(bits, passes, 1 - passes))
            center = np.array(bits) @ (np.array([6, 6]) / 12 * means)
            out[bits] += weight * chance * norm.pdf((y - center) / scale) / scale
    return out


def truth(mean: CohortMean, first: Counter, second: Counter, epsilon: float) -> float:
    """Exact delta of bits and sum, by integration, the worse of both orders."""
    far = 12 * mean.reach * mean.sigma + 4
    y = np.linspace(-far, far, 8001)
    p, q = density(mean, first, y), density(mean, second, y)
    step = y[1] - y[0]
    return max(
        sum(float(np.maximum(a[bits] - math.exp(epsilon) * b[bits], 0).sum()) * step for bits in a)
        for a, b in ((p, q), (q, p))
    )


HALVES = [
    [*half, *(i for i in range(12) if i not in half)] for half in itertools.combinations(range(12), 6)
]  # all 924 partitions
OTHERS = {
    "a crowd": np.zeros(11),
    "a wing": np.array([0.0] * 7 + [0.8] * 4),
    "one away": np.array([0.0] * 10 + [40.0]),
    "two camps": np.array([0.0] * 6 + [30.0] * 5),
    "three away": np.array([0.0] * 8 + [20.0, 40.0, 60.0]),
}


@pytest.mark.thin
@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("noise", [(0.8, 0.7, 1.5), (3.0, 0.4, 1.0), (0.5, 3.0, 0.8)])
def test_the_exact_law_over_all_partitions_keeps_the_claim(others, noise) -> None:
    """Good and bad pairs, both orders: the mixture over every partition, with all bits, against the claimed event."""
    mean = small(*noise)
    for ends in ((-1.0, 1.0), (0.0, 50.0)):
        first, second = (laws(mean, np.append(others, end), HALVES) for end in ends)
        for epsilon in (0.0, 0.5, 2.0):
            assert truth(mean, first, second, epsilon) <= mean.event.delta(epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("crowd", [4, 5, 6])
def test_the_excess_is_counted_from_the_score_that_the_lemma_needs(crowd) -> None:
    points = np.concatenate([np.zeros(crowd), 9.0 * np.arange(1, 13 - crowd)])[:, None]
    excesses, _ = small(1.0, 1.0, 1.0).cohorts.examine(points, 1.0, ordered(range(12)))
    assert excesses.tolist() == [crowd - 5, 1 - 5]


def test_bad_pairs_attain_the_claim() -> None:
    """A cohort of five at the threshold: what it does is charged, and not much less could be."""
    mean = small(0.8, 50.0, 1.5)
    points = np.append(OTHERS["two camps"], 0.0)
    order = [[*range(5), 11, *range(5, 11)]]
    first, second = laws(mean, points, order), laws(mean, np.append(points[:11], 99.0), order)
    shift = truth(mean, first, second, 0.0)
    assert 0.3 * mean.event.delta(0.0) < shift <= mean.event.delta(0.0)


def test_a_partition_that_follows_the_order_of_users_breaks_the_claim() -> None:
    """Another label sends one user from the first place to the last, and everybody else a place forward.

    With pieces of the sorted labels as cohorts *two* scores move; with secret places one does.
    """
    mean = CohortMean(Cohorts(384, 64, ((6, 5, 3, 4),)), 1, 6.0, 3.0, 1e6, 0.01)
    table = np.zeros(384)
    table[6::12] = 40.0  # the first of every second cohort, who moves into the one before
    shifted = np.append(table[1:], 0.0)
    mine, its = (mean.cohorts.examine(p[:, None], 1.0, ordered(range(384)))[0] for p in (table, shifted))
    assert np.abs(mine - its).sum() == 64
    # The bits alone: two binomial numbers, of cohorts with all users near and of those with one away.
    near, away = norm.sf((6 - np.array([1, 0])) / 3)
    k = np.arange(33)
    p = np.outer(binom.pmf(k, 32, near), binom.pmf(k, 32, away))
    delta = np.maximum(p - math.exp(0.3) * p.T, 0).sum()
    assert delta > 2 * mean.event.delta(0.3)


@pytest.mark.thin
@pytest.mark.parametrize(("count", "number"), [(9, 2), (13, 3), (10, 2)])
def test_one_point_moves_one_score_by_one_and_the_sum_by_the_reach(count, number) -> None:
    """Random pairs around the threshold, cohorts of unequal sizes, the partition of places held fixed."""
    least = count // number
    kinds = sorted({least, least + (count % number > 0)})
    cohorts = Cohorts(count, number, tuple((n, n - (n > 5), (n + 1) // 2, n - 1 - (n > 5)) for n in kinds))
    rng, good, most = np.random.default_rng(count), 0, 0.0
    for _ in range(700):
        points = rng.choice([0.0, 0.4, 0.9, 5.0], count, p=[0.6, 0.2, 0.15, 0.05])
        other, who = points.copy(), rng.integers(count)
        other[who] = rng.choice([-1.0, 0.0, 1.0, 1.4, 9.0])
        order = rng.permutation(count)
        (a, x), (b, z) = (cohorts.examine(p[:, None], 1.0, ordered(order)) for p in (points, other))
        mine = np.searchsorted(np.cumsum(cohorts.sizes), np.flatnonzero(order == who)[0], side="right")
        assert np.abs(a - b).max() <= 1
        assert not np.delete(a - b, mine).any()
        assert abs(a.min() - b.min()) <= 1
        if min(a[mine], b[mine]) >= 0:
            bits = np.ones(number, dtype=bool)
            good += 1
            most = max(most, abs(float((cohorts.total(x, bits) - cohorts.total(z, bits))[0])))
    assert good > 200
    assert most <= cohorts.reach


def test_the_reach_is_that_of_the_dearest_cohort() -> None:
    """A moved point of a crowd in one place: far more than a cohort's share of the claim, or than 1/G of it."""
    mean = plan_cohorts(8001, 4, 1, MU, WRONG)
    assert isinstance(mean, CohortMean)
    ends = []
    for end in (-1.0, 1.0):
        points = np.append(np.zeros(8000), end)[:, None]
        _, means = mean.cohorts.examine(points, 1.0, SeededSource(0))
        ends.append(mean.cohorts.total(means, np.ones(4, dtype=bool))[0])
    assert 0.3 * mean.reach < abs(ends[1] - ends[0]) <= mean.reach
    assert mean.unit_length(1.0, 1.0) > mean.reach


def orders(mean: CohortMean, source, times: int, monkeypatch) -> list[np.ndarray]:
    """Partitions of so many uses."""
    from dpconvex.mechanisms import cohorts

    seen: list[np.ndarray] = []
    near = cohorts.near_counts
    monkeypatch.setattr(cohorts, "near_counts", lambda p, g, r: (seen.append(g.order), near(p, g, r))[1])
    for _ in range(times):
        mean.draw(np.zeros((mean.count, mean.dim)), 1.0, 1.0, source)
    return seen


@pytest.mark.parametrize("source", [SeededSource(3), SystemSource()], ids=["seed", "system"])
@pytest.mark.dear("system")
def test_partitions_are_fresh_and_uniform(source, monkeypatch) -> None:
    """Chi-square over the slots of one user and of its neighbor, 400 uses; a false alarm has probability 1e-6."""
    mean = small(1.0, 1.0, 1.0)
    seen = np.array(orders(mean, source, 400, monkeypatch))
    assert len({tuple(order) for order in seen}) > 390
    for user in (0, 11):
        counts = np.bincount(np.argwhere(seen == user)[:, 1], minlength=12)
        assert ((counts - 400 / 12) ** 2 / (400 / 12)).sum() < chi2.isf(5e-7, 11)


def test_a_failed_cohort_is_left_out_and_what_is_left_is_divided_after_the_noise() -> None:
    """Half of the users are apart: the mean is that of the others, with twice the noise."""
    mean = CohortMean(Cohorts(200, 2, ((100, 70, 50, 69),)), 40, 10.0, 2.0, 1.0, 0.01)
    points = np.ones((200, 40))
    points[100:] = 30.0 * np.arange(1, 101)[:, None]
    source = SeededSource(0)
    bits, value = mean.noisy(
        *mean.cohorts.examine(points, 1.0, ordered(range(200))), mean.unit_length(1.0, 1e4), source
    )
    assert bits.tolist() == [True, False]
    deviation = mean.unit_length(1.0, 1e4) * mean.sigma
    assert abs(value.mean() - 0.5) < 6 * deviation / math.sqrt(40)
    drawn = []
    fixed = ordered(range(200)).generator

    class Fixed(SeededSource):
        def generator(self):
            coins = super().generator()
            return SimpleNamespace(permutation=fixed().permutation, standard_normal=coins.standard_normal)

    source = Fixed(1)
    for _ in range(20):
        found = mean.draw(points, 1.0, 1e4, source)
        assert found is not None
        drawn.append(found - 1)
    assert np.std(drawn) == pytest.approx(2 * deviation, rel=5 / math.sqrt(1600))


def test_scattered_and_degenerate_points_end_in_nothing_or_finite_numbers() -> None:
    mean = plan_cohorts(400, 2, 3, *budget(8.0, 1e-4, 1))
    assert isinstance(mean, CohortMean)
    far = 10.0 * np.arange(1200.0).reshape(400, 3)
    assert mean.draw(far, 1.0, 1e6, SeededSource(0)) is None
    for content in (np.nan, np.inf, 1e300, 0.0):
        found = mean.draw(np.full((400, 3), content), 1.0, 2.0, SeededSource(0))
        assert found is not None
        assert np.isfinite(found).all()


def test_plans_keep_their_budget_and_one_cohort_is_a_robust_mean() -> None:
    one, four = (plan_cohorts(8001, number, 2, MU, WRONG, outliers=0.02) for number in (1, 4))
    assert isinstance(one, RobustMean)
    assert isinstance(four, CohortMean)
    for mean in (one, four):
        assert mean.event.mu <= MU * (1 + 1e-12)
        assert mean.event.failure <= WRONG
    assert [n for n, *_ in four.cohorts.ramps] == [2000, 2001]
    assert sorted(four.cohorts.sizes.tolist()) == [2000, 2000, 2000, 2001]
    assert one.deviation < four.deviation < 2 * one.deviation
    assert four.describe()["cohorts"] == 4
    assert plan_cohorts(8001, 400, 2, MU, WRONG) is None


@pytest.mark.parametrize("ramps", [((6, 5, 2, 4),), ((6, 4, 3, 4),), ((5, 5, 3, 4),), ((6, 7, 3, 4),)])
def test_ramps_that_the_lemma_does_not_cover_are_refused(ramps) -> None:
    with pytest.raises(InvalidParameterError, match="ramps"):
        Cohorts(12, 2, ramps)
