"""Attacks on means behind a test: exact privacy curves in one dimension, and mutants that an attack must catch.

For a pair of data sets the law of the mechanism is an atom (the test failed) and a scaled Gaussian, so its delta has a
closed form (noise as real numbers; that the grid changes nothing is tested elsewhere). No randomness but the search's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom, norm

from dpconvex.algorithms.erm.user_level import aggregates, guards
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold, RobustMean, ThresholdSession, cohorts
from dpconvex.mechanisms.robust_mean import best_ramp, h_index
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit.replay import replayed
from dpconvex_experiments.reference.outlier_removal import OutlierRemoval
from robust_means import plan_outlier_removal, plan_robust_mean

Law = tuple[float, float]  # probability to pass, mean if passed (in units of the radius)


def law(mean: RobustMean, points: np.ndarray) -> Law:
    """Independent of the library's own loops."""
    counts = (np.abs(points[:, None] - points[None]) <= 1.0).sum(1)
    score = h_index(counts)
    weights = np.clip((counts - mean.low) / (mean.high - mean.low), 0, 1)
    center = float(weights @ points / weights.sum()) if weights.sum() > 0 else 0.0
    return float(norm.sf((mean.threshold - score) / mean.score_sigma)), center


def hockey_stick(first: Law, second: Law, sigma: float, epsilon: float) -> float:
    """Exact delta at epsilon of one law against another."""
    (p, a), (q, b) = first, second
    atom = max(0.0, (1 - p) - math.exp(epsilon) * (1 - q))
    if p == 0:
        return atom
    if q == 0:
        return atom + p
    shifted, mu = epsilon + math.log(q / p), abs(a - b) / sigma
    if mu == 0:
        return atom + max(0.0, p - math.exp(epsilon) * q)
    below = float(norm.cdf(mu / 2 - shifted / mu)) - math.exp(min(700.0, shifted + norm.logcdf(-mu / 2 - shifted / mu)))
    return atom + p * max(0.0, below)


def worst(mean: RobustMean, epsilon: float, tries: int, seed: int) -> float:
    """Largest delta that a random search over hostile pairs finds, both orders."""
    rng, C, found = np.random.default_rng(seed), mean.count, 0.0
    for _ in range(tries):
        far = int(rng.integers(0, C - mean.passing + 2))
        wing = int(rng.integers(0, C - mean.low))
        rest = max(0, C - 1 - far - wing)
        others = np.concatenate(
            [
                np.zeros(rest) if rng.random() < 0.5 else rng.uniform(-0.5, 0.5, rest),
                rng.uniform(0.4, 1.0) + 0.02 * rng.normal(size=min(wing, C - 1 - far)),
                50 + 10 * np.arange(min(far, C - 1)),
            ]
        )[: C - 1]
        ends = rng.choice([-1.0, 0.0, 1.0, 1.5, 300.0, -0.5], 2)
        laws = [law(mean, np.concatenate([[end], others])) for end in ends]
        sigma = mean.deviation
        found = max(found, *(hockey_stick(a, b, sigma, epsilon) for a, b in (laws, laws[::-1])))
    return found


@pytest.mark.parametrize(("C", "epsilon"), [(18, 8.0), (26, 4.0), (44, 2.0), (80, 1.0), (400, 1.0)])
def test_no_pair_is_found_that_costs_more_than_promised(C: int, epsilon: float) -> None:
    mean = plan_robust_mean(C, 1, epsilon, 1e-6)
    assert worst(mean, epsilon, 400 if C <= 80 else 60, C) <= 1e-6


@pytest.mark.gate
def test_a_halved_noise_is_caught() -> None:
    """One point that moves from one end to the other of a crowd in one place; the bound is nearly reached for many."""
    mean = plan_robust_mean(3200, 1, 1.0, 1e-6)
    others = np.zeros(mean.count - 1)
    pair = [law(mean, np.concatenate([[end], others])) for end in (-1.0, 1.0)]
    assert hockey_stick(pair[0], pair[1], mean.deviation, 1.0) <= 1e-6
    assert hockey_stick(pair[0], pair[1], mean.deviation / 2, 1.0) > 1e-6


def test_a_test_without_margin_is_caught() -> None:
    """A crowd of s0 points and one that leaves it: at the threshold s0 the failure itself tells the two apart."""
    mean = plan_robust_mean(100, 1, 4.0, 1e-6)
    sharp = replace(mean, score_sigma=mean.score_sigma / 3)
    far = 50 + 10 * np.arange(mean.count - mean.passing, dtype=float)
    crowd = np.zeros(mean.passing)
    pair = [law(sharp, np.concatenate([crowd[1:], [end], far])) for end in (0.0, 30.0)]
    assert hockey_stick(pair[0], pair[1], sharp.deviation, 4.0) < sharp.event.delta(4.0)
    assert sharp.event.delta(4.0) > 1e-6


def printed_law(mean: OutlierRemoval, points: np.ndarray) -> tuple[float, np.ndarray]:
    """Probability to pass, and how likely each point is kept."""
    near = np.abs(points[:, None] - points[None])
    score = (near <= 1.0).sum() / mean.count
    gap = (mean.threshold - score) / mean.score_scale
    passing = math.exp(-gap) / 2 if gap > 0 else 1 - math.exp(gap) / 2
    half = mean.count / 2
    return passing, np.clip(((near <= 2.0).sum(1) - half) / (half / 3), 0, 1)


@pytest.mark.parametrize("wing", [0, 120, 240])
def test_printed_outlier_removal_moves_no_more_than_its_lemma_says(wing: int) -> None:
    """Good pairs with a wing of points on the ramp: the mean under the maximal coupling, 400 draws.

    A coupling misses the bound with probability zeta = 1.25e-7 each.
    """
    mean = plan_outlier_removal(2400, 1, 1.0, 1e-6)
    rng = np.random.default_rng(wing)
    others = np.concatenate([np.zeros(mean.count - 1 - wing), np.full(wing, 2.0)])
    others[: 2 * wing] = 0.9  # near enough to the wing that its points lie on the ramp
    data = [np.concatenate([[end], others]) for end in (2.0, -1.0)]
    (p, kept), (q, kept_other) = (printed_law(mean, points) for points in data)
    assert max(p, q) / min(p, q) <= math.exp(float(mean.event.pure))
    assert np.abs(kept - kept_other)[1:].max() <= 6 / mean.count + 1e-12
    moved = 0.0
    for _ in range(400):
        coins = rng.random(mean.count)
        means = [points[coins < w].mean() for points, w in zip(data, (kept, kept_other), strict=True)]
        moved = max(moved, abs(means[0] - means[1]))
    assert moved <= mean.reach
    assert binom.sf(mean.flips, mean.count - 1, 6 / mean.count) <= mean.coupling


def test_private_radius_misleads_as_rarely_as_charged() -> None:
    """Exact by numerical integration: above-threshold passes some of 20 queries at s0 with less than delta_t."""
    found = aggregates.searched(900, 1, 2.0, 1e-4, tuple(2.0 ** np.arange(20)), 1e6)
    assert found is not None
    test: AboveThreshold = found.test
    margin = test.threshold - found.passing
    t = np.linspace(-80, 80, 400_001) * test.threshold_scale
    density = np.exp(-np.abs(t) / test.threshold_scale) / (2 * test.threshold_scale)
    gap = (margin + t) / test.query_scale
    one = np.where(gap > 0, np.exp(-np.abs(gap)) / 2, 1 - np.exp(-np.abs(gap)) / 2)
    passes = float(np.trapezoid(density * (1 - (1 - one) ** len(found.grid)), t))
    assert passes <= found.misled
    assert passes > found.misled / 1e4  # the margin is not absurdly wide


PROMISE = PrivacyParams(2.0, 1e-4, unit=Unit.USER)
SEARCHED = aggregates.searched(900, 1, 2.0, 1e-4, tuple(2.0 ** np.arange(6)), 1e4)


def search(points, source):
    """One release at a radius of its own."""
    assert SEARCHED is not None
    ledger = Ledger(PROMISE, SEARCHED.releases("mean", "users"))
    return SEARCHED.release(points, np.zeros(1), "mean", source, ledger, "users")


@pytest.mark.parametrize("spacing", [0.0, 1e-3, 20.0], ids=["first radius", "some radius", "no radius"])
def test_the_mean_at_a_searched_radius_moves_no_further_than_its_noise_hides(spacing: float) -> None:
    """What is released in units of its sensitivity moves by at most 1, also where no radius passed."""
    assert SEARCHED is not None
    others = spacing * (np.arange(899) - 449)
    first, second = (np.append(others, end)[:, None] for end in (1e4, -1e4))
    mine, its = replayed(search, (first,), (second,), (0, 0))
    assert (mine[0].outcome == len(SEARCHED.grid)) == (spacing > 1)
    moved = float(np.abs(mine[1].value - its[1].value)[0])
    assert moved <= 1
    assert moved > 0.99 or spacing < 1  # opposite ends of the domain in a plain mean are the worst case


def ramps():
    """By name: count, lower and upper end, and a function from points to the weights that the mechanism gives them."""
    seen: list[np.ndarray] = []

    def noted(points, weights):
        seen.append(weights)
        return np.zeros(points.shape[1])

    def last(run, answer):
        def weights(points):
            with (
                mock.patch.object(ThresholdSession, "query", return_value=answer),
                mock.patch.object(aggregates, "weighted_mean", noted),
                mock.patch.object(cohorts, "weighted_mean", noted),
            ):
                run(points, SeededSource(0))
            return seen[-1]

        return weights

    def guarded(points, source):
        guard.start(source, Ledger(PROMISE, guard.releases(None)), None)(points)

    means = [plan_robust_mean(90, 1, 4.0, 1e-4)]
    means += [replace(means[0], low=45, high=means[0].passing - 1)]
    for mean in means:
        yield mean.count, mean.low, mean.high, lambda x, mean=mean: mean._examine(x, 0.5, SeededSource(0))[1]
    assert SEARCHED is not None
    yield 900, SEARCHED.low, SEARCHED.high, last(search, True)
    guard = guards.threshold(900, 1, 1, PROMISE, 3, 0.5, 1e4, 0.1)
    assert isinstance(guard, guards.ThresholdGuard)
    ((_, _, low, high),) = guard.cohorts.ramps
    yield 900, low, high, last(guarded, False)


def test_weights_leave_zero_and_reach_one_where_the_lemma_says() -> None:
    """A crowd of exactly A points counts for nothing, one of B points fully; the lemma needs A unchanged neighbors."""
    for count, low, high, weights in ramps():
        assert count <= 2 * low
        for crowd, wanted in ((low - 1, 0.0), (low, 0.0), (low + 1, 1 / (high - low)), (high, 1.0)):
            points = np.concatenate([np.zeros(crowd), 10.0 * np.arange(1, count - crowd + 1)])[:, None]
            found = weights(points)
            np.testing.assert_allclose(found[:crowd], wanted, rtol=1e-12, err_msg=f"{count}, {low}, {high}: {crowd}")
            assert not found[crowd:].any()


def test_printed_weights_leave_zero_above_one_half() -> None:
    """A crowd of half the points is never kept, one of two thirds always; coins fall between."""
    mean = plan_outlier_removal(2400, 1, 1.0, 1e-6)
    for crowd, kept in ((1200, 0), (1600, 1600)):
        points = np.concatenate([np.zeros(crowd), 10.0 * np.arange(1, mean.count - crowd + 1)])[:, None]
        assert mean._examine(points, 1.0, SeededSource(0))[1].sum() == kept


def test_no_ramp_is_planned_that_leaves_zero_below_one_half() -> None:
    """The edge ``A = C/2``: odd and even counts; and the constructor refuses what lies below."""
    for count in range(8, 60):
        for passing in range(count // 2, count + 1):
            found = best_ramp(count, passing)
            assert found is None or found[1] >= count / 2, (count, passing)
    mean = plan_robust_mean(91, 1, 4.0, 1e-4)
    replace(mean, low=46)
    with pytest.raises(InvalidParameterError, match="passing"):
        replace(mean, low=45)
