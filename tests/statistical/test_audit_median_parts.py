"""Attempts to refute the stages of the geometric median that walk and descend, and its baselines, from outputs alone.

One coordinate, two neighbouring data sets that attain the sensitivity, many runs on each. A threshold is chosen on half
of the outputs; on the other half Clopper-Pearson bounds give a lower bound on delta at the promised epsilon, wrong with
probability at most `ERROR`. A true promise fails with at most that probability; seeds are fixed. Every audit is
repeated with noise of half the size, which must be caught.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from dpconvex.algorithms.baselines.median import plan_clipped_mean, plan_coordinate_median
from dpconvex.algorithms.geometric_median.booster import WarmStart
from dpconvex.algorithms.geometric_median.stable_sgd import plan_stable_sgd
from dpconvex.algorithms.noisy_descent import NoisyGradients
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.points import PointDomain
from dpconvex.randomness import SeededSource, exact

ERROR = 1e-3
RUNS = 6000
EPSILON, DELTA = 1.0, 0.05
N = 8
PROMISE = PrivacyParams(EPSILON, DELTA)
HIGH, LOW = np.full((N, 1), 5.0), np.full((N, 1), 5.0)
LOW[0] = -5.0
BALANCED = np.array([[5.0], [5], [5], [5], [-5], [-5], [-5], [-5]])
TIPPED = BALANCED.copy()
TIPPED[0] = -5.0


class AnyLedger(Ledger):
    """Lets everything pass: the price of a plan is computed once, by the tests of plans, not at every run."""

    def __init__(self):
        pass

    def record(self, release):
        pass


def outputs(run, X, seed):
    source = SeededSource(seed)  # every call of its `generator` is a stream of its own
    return np.array([run(X, source) for _ in range(RUNS)])


def boosted(plan, ball=100.0):
    start, ledger = WarmStart(np.zeros(1), ball, 1.0), AnyLedger()
    return lambda X, source: float(plan.refine(X, start, source, ledger)[0])


def descended(gradients):
    ledger = AnyLedger()
    return lambda X, source: float(gradients.descend(X, np.zeros(1), 1e9, 1.0, source, ledger)[0])


def located(plan):
    ledger = AnyLedger()
    return lambda X, source: float(plan._listing(X, source, ledger)[0])


def proven_delta(first, second):
    """Lower bound on ``sup_E P(E) - e^epsilon Q(E)`` over threshold events."""
    half = RUNS // 2
    thresholds = np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0.01, 0.99, 99))
    best = max(
        ((sign, t) for sign in (1, -1) for t in thresholds),
        key=lambda event: (
            np.mean(event[0] * first[:half] > event[0] * event[1])
            - np.exp(EPSILON) * np.mean(event[0] * second[:half] > event[0] * event[1])
        ),
    )
    hits, misses = (int((best[0] * side[half:] > best[0] * best[1]).sum()) for side in (first, second))
    low = beta.ppf(ERROR / 2, hits, half - hits + 1) if hits else 0.0
    high = beta.ppf(1 - ERROR / 2, misses + 1, half - misses)
    return low - np.exp(EPSILON) * high


MU = largest_mu(EPSILON, DELTA) * (1 - 1e-9)
CASES = {
    "descent": (descended(NoisyGradients.of_mu("gradient", N, 1, MU, 1)), (HIGH, LOW)),
    "walk, last iterate": (boosted(plan_stable_sgd(N, 1, MU, phases=1, travel=1e-9, tail=0.1), 1e9), (HIGH, LOW)),
    "clipped mean": (located(plan_clipped_mean(PointDomain(1, 5.0, 1.0), N, PROMISE)), (HIGH, LOW)),
    "coordinate median": (
        located(plan_coordinate_median(PointDomain(1, 5.0, 1.0), N, PROMISE)),
        (BALANCED, TIPPED),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_promises_are_not_refuted(name) -> None:
    run, (X, neighbour) = CASES[name]
    assert proven_delta(outputs(run, X, 0), outputs(run, neighbour, 1)) <= DELTA


@pytest.mark.parametrize("name", ["descent", "walk, last iterate", "clipped mean"])
def test_half_the_noise_is_refuted(name, monkeypatch) -> None:
    whole = exact.discrete_gaussian
    monkeypatch.setattr(exact, "discrete_gaussian", lambda units, sigma, source: whole(units, sigma / 2, source))
    run, (X, neighbour) = CASES[name]
    assert proven_delta(outputs(run, X, 0), outputs(run, neighbour, 1)) > DELTA
