"""Attempts to refute the stages of the geometric median that walk and descend, and its baselines, from outputs alone.

One coordinate, two neighboring data sets that attain the sensitivity, many runs on each, whose outputs are counted by
`dpconvex.audit.prove`: a lower bound on epsilon at the promised delta, wrong with probability at most `ERROR`. A true
promise fails with at most that probability; seeds are fixed. Every audit is repeated with noise of half the size, which
must be caught.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.algorithms.location.base import WarmStart
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.algorithms.location.stable_sgd import plan_stable_sgd
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import SeededSource, exact
from dpconvex_experiments.audit import prove
from dpconvex_experiments.reference import location as baselines
from dpconvex_experiments.reference.location import descend

ERROR = 1e-3
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


def outputs(run, X, seed, runs):
    source = SeededSource(seed)  # every call of its `generator` is a stream of its own
    return np.array([run(X, source) for _ in range(runs)])


def boosted(plan, ball=100.0):
    start, ledger = WarmStart(np.zeros(1), ball, 1.0), AnyLedger()
    return lambda X, source: float(plan.refine(X, start, source, ledger).location[0])


def descended(gradients):
    ledger = AnyLedger()
    return lambda X, source: float(descend(gradients, X, np.zeros(1), 1e9, 1.0, source, ledger)[0])


def located(plan):
    ledger, certificate = AnyLedger(), plan.certificate(SeededSource(0))
    object.__setattr__(plan, "certificate", lambda source: certificate)  # computed once as well
    return lambda X, source: float(plan._run(X, source, ledger).location[0])


def proved(run, X, neighbor, full):
    """Lower bound on epsilon at `DELTA`."""
    runs = 6000 if full else 2500
    first, second = outputs(run, X, 0, runs), outputs(run, neighbor, 1, runs)
    return prove(first[:, None], second[:, None], DELTA, ERROR).epsilon


MU = largest_mu(EPSILON, DELTA) * (1 - 1e-9)
CASES = {
    "descent": (descended(NoisyGradients.of_mu("gradient", N, 1, MU, 1)), (HIGH, LOW)),
    "walk, last iterate": (boosted(plan_stable_sgd(N, 1, MU, phases=1, travel=1e-9, tail=0.1), 1e9), (HIGH, LOW)),
    "clipped mean": (located(baselines.plan_mean(PointDomain(1, 5.0, 1.0), N, PROMISE)), (HIGH, LOW)),
    "coordinate median": (located(baselines.plan_medians(PointDomain(1, 5.0, 1.0), N, PROMISE)), (BALANCED, TIPPED)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.thin
@pytest.mark.dear("coordinate median")
def test_promises_are_not_refuted(name, full) -> None:
    run, (X, neighbor) = CASES[name]
    assert proved(run, X, neighbor, full) <= EPSILON


@pytest.mark.thin
@pytest.mark.parametrize("name", ["descent", "walk, last iterate", "clipped mean"])
def test_half_the_noise_is_refuted(name, full, monkeypatch) -> None:
    whole = exact.discrete_gaussian
    monkeypatch.setattr(exact, "discrete_gaussian", lambda units, sigma, source: whole(units, sigma / 2, source))
    run, (X, neighbor) = CASES[name]
    assert proved(run, X, neighbor, full) > EPSILON
