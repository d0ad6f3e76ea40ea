"""Attempts to refute the promises of whole runs, from their outputs alone.

Two neighboring data sets, many runs on each through `plan.run`. On half of the runs the best threshold event is
chosen; on the other half Clopper-Pearson bounds turn its two frequencies into a lower bound on epsilon, wrong with
probability at most `ERROR` for one audit. A true promise thus fails a test with probability at most `ERROR`; seeds are
fixed, so the verdict does not vary. The neighbors are the worst ones known (linear part of the hinge, where the
sensitivity is attained), so that noise of half the size is caught: every audit is repeated with it.

As the docs, Objective perturbation, section 6, say, audits see the noise part of objective perturbation, not the
determinant; the exact density tests cover that.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dpconvex.algorithms import base
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.losses import HingeLoss, LogisticLoss, SmoothedHingeLoss, SoftmaxLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource, exact, real
from dpconvex.solvers import Solver
from dpconvex_experiments.audit import prove

ERROR = 1e-2
DELTA = 0.1  # large, so that the best events are frequent enough to be measured
N = 3


class Remembered(Solver):
    """The solver's answer to one data set, for algorithms that solve before they draw noise."""

    def __init__(self, answer):
        self.answer = answer

    def refusal(self, loss, constraint, dim):
        return None

    def _solve(self, objective, radius, constraint, start):
        return self.answer


def plan_for(algorithm, noise, bound, epsilon):
    """One feature of absolute value at most `bound`; ridge so large that all margins stay where the hinge is linear."""
    pure = "gaussian" not in noise
    domain = DataDomain((Block(1, "linf", bound),))
    if algorithm == "output_perturbation":
        loss, l2 = HingeLoss(), 4 * bound**2
    else:
        loss = SmoothedHingeLoss(0.5)
        l2 = 100 * loss.curvature_bound * bound**2 / (N * epsilon)
    problem = LinearModelProblem(loss, domain, N, 1.0)
    privacy = PrivacyParams(epsilon, 0.0 if pure else DELTA)
    return plans(problem, privacy, algorithm, Options(l2=l2, noise=noise))[0]


def neighbors(bound):
    """Equal but for the last label."""
    X = np.full((N, 1), bound)
    return (X, np.array([1.0, -1.0, 1.0])), (X, np.array([1.0, -1.0, -1.0]))


def draws(plan, data, count, source):
    X, y = data
    if plan.algorithm == "output_perturbation":
        seen = []
        spy = Remembered(None)
        spy._solve = lambda objective, radius, constraint, start: (
            seen.append(plan.solver.solve(objective, radius)) or seen[0]
        )
        dataclasses.replace(plan, solver=spy).run(X, y, source)
        plan = dataclasses.replace(plan, solver=Remembered(seen[0]))
    return np.array([plan.run(X, y, source).point[0] for _ in range(count)])


def lower_bound(first, second, delta, error=ERROR):
    return prove(first[:, None], second[:, None], delta, error).epsilon


def halve_noise(monkeypatch):
    """Mutants: every sampler draws at half its scale; events and certificates stay as they are."""
    add, draw, gaussian = real.add_noise, real.draw, exact.discrete_gaussian
    monkeypatch.setattr(real, "add_noise", lambda value, norm, scale, *a: add(value, norm, scale / 2, *a))
    monkeypatch.setattr(real, "draw", lambda *a: 0.5 * draw(*a))
    monkeypatch.setattr(exact, "discrete_gaussian", lambda units, sigma, source: gaussian(units, sigma / 2, source))


CONFIGURATIONS = [
    ("output_perturbation", "l2"),
    ("output_perturbation", "gaussian"),
    ("objective_perturbation", "grouped"),
    ("objective_perturbation", "l2"),
    ("objective_perturbation", "gaussian"),
]
QUICK = [  # kinds, bound, epsilon, and how many runs on each table are enough to catch the mutant
    (*CONFIGURATIONS[0], 100.0, 2.0, 1000),
    (*CONFIGURATIONS[1], 1.0, 2.0, 600),
]  # of objective perturbation exact losses are quick (test_audits.py)
FAST = [  # every configuration, every bound and both epsilons once or more
    (*CONFIGURATIONS[0], 0.1, 0.5),
    pytest.param(*CONFIGURATIONS[0], 100.0, 2.0, marks=pytest.mark.slow),
    pytest.param(*CONFIGURATIONS[1], 1.0, 2.0, marks=pytest.mark.slow),
    (*CONFIGURATIONS[1], 100.0, 0.5),
    pytest.param(*CONFIGURATIONS[2], 100.0, 0.5, marks=pytest.mark.slow),  # half a minute
    (*CONFIGURATIONS[3], 1.0, 2.0),
    pytest.param(*CONFIGURATIONS[4], 0.1, 2.0, marks=pytest.mark.slow),
]
ALL = [(*kind, bound, epsilon) for kind in CONFIGURATIONS for bound in (0.1, 1.0, 100.0) for epsilon in (0.5, 2.0)]


def audit(algorithm, noise, bound, epsilon, count, monkeypatch, seed):
    """Proven epsilon of the library, then of the mutant; the certificate is the same for all runs, so made once."""
    plan = plan_for(algorithm, noise, bound, epsilon)
    left, right = neighbors(bound)
    delta = plan.privacy.delta
    certificate = plan.run(*left, SeededSource(0)).certificate
    monkeypatch.setattr(base, "certify", lambda **_: certificate)
    source = SeededSource(seed)
    honest = lower_bound(draws(plan, left, count, source), draws(plan, right, count, source), delta)
    halve_noise(monkeypatch)
    mutant = lower_bound(draws(plan, left, count, source), draws(plan, right, count, source), delta)
    return honest, mutant


@pytest.mark.parametrize(("algorithm", "noise", "bound", "epsilon", "count"), QUICK)
@pytest.mark.dear("gaussian-1.0")
def test_few_runs_keep_their_promise_and_catch_halved_noise(
    algorithm, noise, bound, epsilon, count, monkeypatch
) -> None:
    """Each wrong with probability at most `ERROR`."""
    honest, mutant = audit(algorithm, noise, bound, epsilon, count, monkeypatch, seed=1)
    assert 0 < honest <= epsilon
    assert mutant > epsilon


@pytest.mark.gate
@pytest.mark.parametrize(("algorithm", "noise", "bound", "epsilon"), FAST)
def test_runs_keep_their_promise_and_halved_noise_is_caught(algorithm, noise, bound, epsilon, monkeypatch) -> None:
    """Each wrong with probability at most `ERROR`; where epsilon is large, half the runs catch the mutant as well."""
    honest, mutant = audit(algorithm, noise, bound, epsilon, 1000 if epsilon > 1 else 2000, monkeypatch, seed=1)
    assert 0 < honest <= epsilon
    assert mutant > epsilon


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "noise", "bound", "epsilon"), ALL)
def test_more_runs_keep_their_promise(algorithm, noise, bound, epsilon, monkeypatch) -> None:
    """Every kind, bound and epsilon; each wrong with probability at most `ERROR`."""
    honest, mutant = audit(algorithm, noise, bound, epsilon, 6000, monkeypatch, seed=2)
    assert 0.3 * epsilon < honest <= epsilon
    assert mutant > 1.1 * epsilon


@pytest.mark.parametrize(
    "algorithm", ["output_perturbation", pytest.param("objective_perturbation", marks=pytest.mark.slow)]
)
def test_logistic_runs_in_one_dimension_keep_their_promise(algorithm, monkeypatch) -> None:
    """Not tight (at most about 0.53 epsilon), so no mutant; wrong with probability at most `ERROR`."""
    epsilon = 2.0
    problem = LinearModelProblem(LogisticLoss(), DataDomain((Block(1, "linf", 100.0),)), N, 0.05)
    plan = plans(problem, PrivacyParams(epsilon), algorithm)[0]
    left, right = neighbors(100.0)
    certificate = plan.run(*left, SeededSource(0)).certificate
    monkeypatch.setattr(base, "certify", lambda **_: certificate)
    source = SeededSource(3)
    assert lower_bound(draws(plan, left, 1000, source), draws(plan, right, 1000, source), 0.0) <= epsilon


def test_the_audit_reads_laplace_noise_correctly() -> None:
    """The instrument itself: Laplace noise of exactly epsilon 1 is never refuted, and of epsilon 2 it is."""
    rng = np.random.default_rng(0)
    first, second = rng.laplace(0, 1, 20_000), rng.laplace(1, 1, 20_000)
    assert 0.8 < lower_bound(first, second, 0.0) <= 1.0
    assert 1.6 < lower_bound(first / 1.0, second + 1.0, 0.0) <= 2.0


# Laws that hold run by run with equal seeds ------------------------------------------------------------------------


def mixed_data(n, scale):
    rng = np.random.default_rng(7)
    X = scale * rng.uniform(-1, 1, (n, 3))
    return X, (X @ [1, -2, 0.5] / scale + rng.logistic(size=n) > 0).astype(float)


@pytest.mark.thin
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(2)], ids=repr)
@pytest.mark.parametrize("scale", [0.125, 0.3, 1000.0])
def test_runs_are_equivariant_in_the_unit_of_the_features(loss, scale) -> None:
    """Features, bounds and intercept times s: ``s`` times the new parameters are the old ones, seed by seed."""
    n = 200

    def offered(s):
        domain = DataDomain((Block(2, "l2", s), Block(1, "linf", s)), intercept=s)
        problem = LinearModelProblem(loss, domain, n, 2.0 / s)
        return {(p.algorithm, p.noise_name): p for p in plans(problem, PrivacyParams(1.0, 1e-6))}

    X, y = mixed_data(n, 1.0)
    plain, scaled = offered(1.0), offered(scale)
    assert plain.keys() == scaled.keys()
    for key, plan in plain.items():
        first = plan.run(X, y, SeededSource(5)).point
        second = scaled[key].run(scale * X, y, SeededSource(5)).point
        # What may differ: where the solvers stopped, and the grids.
        tolerance = 2 * getattr(plan, "solver_radius", 0.0) + 1e-5 * float(plan.coefficient_deviation.max())
        assert np.abs(scale * second - first).max() <= tolerance * 1.01, key
        assert scaled[key].predicted_error.bound == pytest.approx(plan.predicted_error.bound, rel=1e-3)


@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss()], ids=repr)
def test_runs_do_not_depend_on_the_order_of_records(loss) -> None:
    n = 200
    domain = DataDomain((Block(3, "l2", 1.0),), intercept=1.0)
    X, y = mixed_data(n, 1.0)
    order = np.random.default_rng(8).permutation(n)
    for plan in plans(LinearModelProblem(loss, domain, n, 2.0), PrivacyParams(1.0, 1e-6)):
        first, second = (plan.run(X[o], y[o], SeededSource(5)) for o in (slice(None), order))
        tolerance = 2 * getattr(plan, "solver_radius", 0.0) + 1e-5 * float(plan.coefficient_deviation.max())
        assert np.abs(first.point - second.point).max() <= tolerance * 1.01, plan
        assert first.certificate == second.certificate
