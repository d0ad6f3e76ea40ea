"""Accelerated stochastic approximation: measured gaps against every bound, plans, early ends; the printed schedule."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpconvex.algorithms.erm.accelerated_sgd import (
    balanced_stage,
    chained_stages,
    many_stages,
    plan_descent,
    single_stage,
)
from dpconvex_experiments.reference.printed_users import Accelerated, accelerated, refusal

DIM = 20


def gap(descent, smoothness, convexity, deviation, seeds=20) -> float:
    """Mean gap on a quadratic with eigenvalues from the convexity to the smoothness, start at distance 2."""
    values = np.geomspace(max(convexity, 1e-4 * smoothness), smoothness, DIM)
    start = np.full(DIM, 2 / math.sqrt(DIM))
    total = 0.0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)

        def gradient(w):
            return values * w + deviation / math.sqrt(DIM) * rng.standard_normal(DIM)  # noqa: B023

        w, passed = descent.minimize(start, gradient, lambda w: w)
        assert passed
        total += 0.5 * float(values @ w**2)
    return total / seeds


@pytest.mark.thin
@pytest.mark.parametrize("condition", [10.0, 1000.0])
@pytest.mark.parametrize("deviation", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 20, 200])
def test_a_stage_stays_below_its_bounds(condition, deviation, steps) -> None:
    """Means of 20 seeded runs; the bounds are on expectations and have room."""
    single = single_stage(1.0, 1 / condition, 2.0, lambda _: deviation**2, steps)
    balanced = balanced_stage(1.0, 0.0, 2.0, lambda _: deviation**2, steps)
    assert gap(single, 1.0, 1 / condition, deviation) <= single.excess
    assert gap(balanced, 1.0, 1 / condition, deviation) <= balanced.excess


@pytest.mark.parametrize("condition", [1.0, 30.0])
@pytest.mark.parametrize("deviation", [0.0, 0.1])
def test_short_stages_and_a_long_one_stay_below_their_bound(condition, deviation) -> None:
    """As above; without noise every short stage divides the gap by 4 at least."""
    chain = chained_stages(1.0, 1 / condition, 2.0, lambda _: deviation**2, 256, 4)
    assert chain is not None
    assert chain.steps == 256
    assert gap(chain, 1.0, 1 / condition, deviation) <= chain.excess
    if not deviation:
        assert chain.excess <= 2 / condition / 4**4
    assert chained_stages(1.0, 1 / condition, 2.0, lambda _: 0.0, 8, 2) is None


def test_the_balanced_bound_is_not_loose_by_more_than_ten_on_its_worst_case() -> None:
    """A linear function: no curvature helps, the noise term is what is left."""
    steps, deviation = 64, 1.0
    plan = balanced_stage(1e-9, 0.0, 1.0, lambda _: deviation**2, steps)
    found = 0.0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        noise = deviation * rng.standard_normal((steps, 1))
        slope = 0.1
        turn = iter(noise)
        w, _ = plan.minimize(np.zeros(1), lambda w: slope + next(turn), lambda w: np.clip(w, -1, 1))  # noqa: B023
        found += slope * (float(w[0]) + 1) / 200
    assert plan.excess / 10 <= found <= plan.excess


def test_many_stages_halve_the_gap_each() -> None:
    for stages in (1, 3, 6):
        plan = many_stages(1.0, 0.01, 2.0, lambda _: 1e-4, stages)
        assert plan is not None
        assert len(plan.stages) == stages
        assert plan.excess == 2.0 * 2.0**-stages
        assert gap(plan, 1.0, 0.01, 1e-2) <= plan.excess


def test_noise_that_grows_with_the_steps_stops_the_stages() -> None:
    assert many_stages(1.0, 0.01, 2.0, lambda T: 1e-3 * T, 20) is None
    assert many_stages(1.0, 0.01, 2.0, lambda T: math.inf, 1) is None


def test_the_plan_takes_the_least_bound_with_few_steps() -> None:
    lengths = (2, 4, 8, 16, 32, 64, 128)
    plan = plan_descent(1.0, 0.0, 1.0, 1.0, lambda T: 1e-6 * T, lengths)
    bounds = [balanced_stage(1.0, 0.0, 1.0, lambda T: 1e-6 * T, T).excess for T in lengths]
    assert plan.excess <= 1.02 * min(bounds)
    noisy = plan_descent(1.0, 0.0, 1.0, 1.0, lambda T: T, lengths)
    assert noisy.steps < plan.steps


def test_a_failed_test_ends_the_run_with_what_was_reached() -> None:
    plan = balanced_stage(1.0, 0.0, 1.0, lambda _: 0.0, 10)
    answers = iter([np.ones(2), np.ones(2), None])
    w, passed = plan.minimize(np.zeros(2), lambda _: next(answers), lambda w: w)
    assert not passed
    assert np.all(w < 0)


# Printed constants: the test vectors of the specification, section 8


def fits(found: Accelerated) -> bool:
    """Whether every minibatch fits into its phase."""
    return all(phase.batch <= phase.users for phase in found.phases)


def test_the_printed_schedule_has_the_numbers_of_the_specification() -> None:
    found = accelerated(10**6, 10**3, 100, 1.0, 1e-10, q=0.1)
    assert found.growth == pytest.approx(3.05)
    assert found.l2 == pytest.approx(3.1939004e-5, rel=1e-7)
    assert found.radius == pytest.approx(0.8009555, rel=1e-7)
    first, second, last = found.phases[0], found.phases[1], found.phases[18]
    assert len(found.phases) == 19
    assert [first.l2, first.steps, first.batch, first.deviation] == pytest.approx(
        [2.64523e-4, 1582.65, 9.83724e6, 21.6463], rel=1e-5
    )
    assert [second.l2, second.steps, second.batch, second.deviation] == pytest.approx(
        [2.19081e-3, 566.464, 1.52896e7, 13.8798], rel=1e-5
    )
    assert [last.l2, last.steps, last.batch, last.deviation] == pytest.approx(
        [8.89221e12, 25.3284, 2.13646e7, 9.53566], rel=1e-5
    )


@pytest.mark.parametrize(
    ("epsilon", "n", "m", "ratio", "bound"),
    [(0.5, 1e6, 1e4, 61, 5.6e6), (1.0, 1e8, 1e4, 68, 5.1e3), (8.0, 1e6, 1e4, 1070, 3.1e4)],
)
def test_printed_minibatches_never_fit(epsilon, n, m, ratio, bound) -> None:
    """Specification, section 4.1: K_1 over n_1, and the bound of the proof."""
    found = accelerated(n, m, 100, epsilon, min(n**-1.5, 1 / (n * m)))
    assert found.phases[0].batch / found.phases[0].users == pytest.approx(ratio, rel=0.02)
    assert found.bound == pytest.approx(bound, rel=0.03)
    assert not fits(found)


def test_the_refusal_says_why() -> None:
    text = str(refusal(1000, 10, 5, 1.0, 1e-6, 1.0))
    assert "minibatch" in text
    assert "calibrated" in text


# Errata of the paper (docs, Errata)


def test_e8_e9_the_printed_batches_never_fit_and_may_cover_too_little() -> None:
    """E8: ``K_i <= n_i`` fails at every size. E9: ``K_i T_i >= n_i`` needs ``T_i >= 1/epsilon^2``."""
    for epsilon in (0.1, 1.0, 10.0):
        for n in (1e3, 1e6, 1e9, 1e12):
            for m in (1, 1e4):
                assert not fits(accelerated(n, m, 100, epsilon, min(n**-1.5, 1 / (n * m))))
    n, steps, epsilon = 10**6, 25.0, 0.1  # without the factor 500 log
    assert max(1 / epsilon, n * epsilon / math.sqrt(steps)) * steps < n
    for phase in accelerated(1e6, 10, 100, epsilon, 1e-9, logarithms=False).phases:
        assert phase.batch * phase.steps >= phase.users * (1 - 1e-12)


def test_e11_the_printed_weight_of_theorem_d3_is_not_optimal_in_high_dimension() -> None:
    """E11: ``d L^2/(epsilon^2 n^2 m lambda)``; ``1/sqrt(mn)`` is too small for ``d > epsilon^2 n``."""
    n, m, epsilon = 10**4, 10, 1.0
    for d in (10**2, 10**6):
        best = math.sqrt(d) / (epsilon * n * math.sqrt(m)) + 1 / math.sqrt(n * m)
        assert accelerated(n, m, d, epsilon, 1e-9).l2 == pytest.approx(best)  # of Theorem C.3

        def risk(weight, d=d):
            return weight + (d / (epsilon * n) ** 2 / m + 1 / (n * m)) / weight

        ratio = risk(1 / math.sqrt(m * n)) / risk(best)
        assert (ratio > 2) == (d > epsilon**2 * n)


def test_e13_full_batches_have_no_variance_and_smaller_ones_have() -> None:
    """E13: the printed indicator is that of K = n. Exactly, over all subsets of eight numbers."""
    values = np.random.default_rng(0).standard_normal(8)
    spread = [np.var([np.mean(some) for some in itertools.combinations(values, K)]) for K in (4, 8)]
    assert spread[0] == pytest.approx(values.var() / 4 * (8 - 4) / 7)
    assert spread[1] < 1e-30


def test_e23_e24_neither_printed_batch_size_implies_the_other_and_failures_add_up_over_the_steps() -> None:
    """E23: ``log(n m d ...)`` in the proof, ``log(n_i^2 m^2 ...)`` in the algorithm. E24: failure ``T_i/(nm)``."""
    m = 10
    for n, d, larger in ((10**6, 10, "algorithm"), (10**3, 10**9, "proof")):
        found = accelerated(n, m, d, 1.0, 1e-9).phases[0]
        sizes = {"proof": math.log(n * m * d), "algorithm": 2 * math.log(found.users * m)}
        assert max(sizes, key=sizes.__getitem__) == larger
        assert found.steps > 10  # tests that may fail, each with 1/(nm); said is 1/(nm) for all
