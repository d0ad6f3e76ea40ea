"""Private minimization of custom losses and of objectives that are no average: sensitivity attacked, mutants, bounds.

"Specification" is the one of output perturbation; sections 3.6(b) and 8 (E13) are about objectives that are no average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from dpconvex import DataDomain, budget_context, plan_minimize, private_minimize
from dpconvex._types import Status
from dpconvex.algorithms.erm import output_perturbation
from dpconvex.algorithms.erm.output_perturbation.schedules import printed_bound
from dpconvex.errors import AccuracyError, InvalidDataError, InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import CustomProblem, LocationLoss, RecordLoss, WholeObjective
from dpconvex.randomness import SeededSource
from dpconvex.solvers import AcceleratedGradient, Accuracy, Solver, SolverResult
from dpconvex_experiments.reference import printed_constants
from dpconvex_experiments.reference.objectives import LogLinearDensity, MaxRisk

DISC = DataDomain.l2_ball(2, 1.0)
LINE = DataDomain.box(1, 1.0)


@dataclass(frozen=True)
class Linear(RecordLoss):
    """``f(w, x) = -<w, x>``: the instance that attains the sensitivity (specification, 3.1, Appendix F repaired)."""

    domain: DataDomain = LINE
    smoothness = 1e-3
    name = "linear"

    @property
    def dim(self):
        return self.domain.n_features

    def lipschitz(self, radius):
        return self.domain.l2

    def value(self, w, records):
        return -(records @ w)

    def gradient(self, w, records):
        return -records


def center(plan, X):
    """What the plan releases before the noise."""
    risk = plan.problem.objective(X, np.zeros(len(X)), plan.l2)
    return plan.ball.project(plan.solver.solve(risk, plan.solver_radius, plan.constraint).point)


# Sensitivity and privacy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3, 20])
def test_the_sensitivity_is_attained_and_never_exceeded(n) -> None:
    """Neighbors that differ by x = 1 and -1 in the linear instance: exactly ``2L/(l2 n)`` while the ball is free."""
    plan = plan_minimize(Linear(), n, epsilon=1.0, radius=3.0, l2=1.0)
    first, second = np.full((n, 1), 0.5), np.full((n, 1), 0.5)
    first[-1], second[-1] = 1.0, -1.0
    moved = float(np.abs(center(plan, first) - center(plan, second))[0])
    assert plan.schedule.sensitivity == pytest.approx(2 / n)
    assert 2 / n - 2 * plan.solver_radius <= moved <= plan.schedule.reach
    # Densities of 1-d norm noise: the log ratio is at most the distance over the scale, and attained.
    loss = moved / plan.mechanism.scale
    assert 0.97 <= loss <= 1.0
    halved = plan_minimize(Linear(), n, epsilon=2.0, radius=3.0, l2=1.0)  # half the noise: a mutant that must show
    assert moved / halved.mechanism.scale > 1.5


@pytest.mark.thin
@pytest.mark.parametrize(
    "loss", [LocationLoss(DISC, 0.05), LogLinearDensity(3, 30), Linear(DISC)], ids=lambda f: f.name
)
@pytest.mark.parametrize("settings", [{}, {"l2": 0.05}, {"radius": 0.3}], ids=str)
def test_no_neighbors_are_further_apart(loss, settings) -> None:
    """Random and extreme data sets; the ball is active in some of them."""
    rng, worst = np.random.default_rng(0), 0.0
    for n in (1, 2, 5, 5, 5):
        plan = plan_minimize(loss, n, **{"epsilon": 1.0, "radius": 1.0, **settings})
        for _ in range(6):
            X = rng.choice([0.2, 5.0]) * rng.standard_normal((n, loss.domain.n_features))
            if rng.random() < 0.5:
                X[:] = X[0]
            other = X.copy()
            other[rng.integers(n)] = -10 * X[0]
            moved = float(np.linalg.norm(center(plan, X) - center(plan, other)))
            assert moved <= plan.mechanism.sensitivity.value
            worst = max(worst, moved / plan.mechanism.sensitivity.value)
    assert worst > 0.3  # the attack is not blunt


def test_a_release_is_the_center_with_the_planned_noise() -> None:
    """Kolmogorov-Smirnov, 250 seeded runs in one dimension; false alarms with probability 1e-4."""
    plan = plan_minimize(Linear(), 4, epsilon=1.0, radius=3.0, l2=1.0)
    X = np.array([[1.0], [0.5], [-0.2], [0.1]])
    draws = [plan.run(X, np.zeros(4), SeededSource(seed)).point[0] for seed in range(250)]
    exact = laplace(center(plan, X)[0], plan.mechanism.scale)
    assert kstest(draws, exact.cdf).pvalue > 1e-4
    mutant = laplace(exact.mean(), plan.mechanism.scale / 2)
    assert kstest(draws, mutant.cdf).pvalue < 1e-4


class Liar(WholeObjective):
    """Claims to be 1-Lipschitz, and follows the sign of the last record as steeply as it likes."""

    name, domain, dim = "liar", LINE, 1

    def lipschitz(self, radius):
        return 1.0

    def value_and_gradient(self, w, records):
        slope = np.array([-1e6 * np.sign(records[-1, 0])])
        return float(slope @ w), slope


class LyingLoss(RecordLoss):
    """The same, as a record loss that claims to be smooth too."""

    name, domain, dim, smoothness = "lying loss", LINE, 1, 1.0

    def lipschitz(self, radius):
        return 1.0

    def value(self, w, records):
        return -1e6 * np.sign(records[:, 0]) * w[0]

    def gradient(self, w, records):
        return -1e6 * np.sign(records)


@pytest.mark.parametrize("function", [Liar(), LyingLoss()], ids=lambda f: f.name)
def test_without_trust_no_claim_is_needed(function) -> None:
    """Whatever the function is, the centers lie in the ball and the noise covers it; nothing is refused."""
    plan = plan_minimize(function, 3, epsilon=1.0, radius=2.0, trusted=False, max_steps=100)
    assert plan.mechanism.sensitivity.value == pytest.approx(4.0)
    X = np.array([[0.1], [0.1], [1.0]])
    reached = [center(plan, sign * X) for sign in (1, -1)]
    assert abs(reached[0] - reached[1])[0] <= plan.mechanism.sensitivity.value
    result = plan.run(X, np.zeros(3), SeededSource(0))
    assert abs(result.point[0]) <= 2.0
    assert not any("declared by the caller" in a.enforced_by for a in result.certificate.assumptions)
    assert "no constant of the objective" in result.certificate.theorem
    assert any("neither raises" in a.statement for a in result.certificate.assumptions)


@dataclass(frozen=True)
class Stray(Solver):
    """Returns a point far outside of the ball."""

    def refusal(self, loss, constraint, dim):
        return None

    def _solve(self, objective, radius, constraint, start):
        return SolverResult(np.full(objective.dim, 1e9), Accuracy("distance", math.inf, "", ""), Status.STALLED, 0, 0)


def test_without_trust_the_solver_may_do_anything() -> None:
    """The point is projected before the noise; without that every release would be 2.0, whatever the noise."""
    plan = plan_minimize(Liar(), 3, epsilon=1.0, radius=2.0, trusted=False)
    stray = replace(plan, solver=Stray())
    points = [stray.run(np.ones((3, 1)), np.zeros(3), SeededSource(seed)).point[0] for seed in range(10)]
    assert min(points) < 1.9


def test_with_trust_a_lie_is_written_in_the_certificate() -> None:
    plan = plan_minimize(LyingLoss(), 30, epsilon=1.0, radius=2.0)
    certificate = plan.certificate(SeededSource(0))
    declared = [a.statement for a in certificate.assumptions if "declared by the caller" in a.enforced_by]
    assert any("convex everywhere, and 1-Lipschitz" in text for text in declared)
    assert not any("declared by the caller" in a.enforced_by for a in certificate.assumptions[:4])


# Schedules -----------------------------------------------------------------------------------------------------------


@pytest.mark.gate
def test_bounds_hold_on_data() -> None:
    """The mean excess of 30 releases stays below the predicted bound, for each class and kind of target."""
    loss, n = LocationLoss(DISC, 0.2), 300
    X = np.random.default_rng(1).normal([0.5, 0.2], 0.3, (n, 2))
    for settings in ({}, {"l2": 0.2}, {"radius": 0.4}, {"constants": "paper"}, {"delta": 1e-6}, {"trusted": False}):
        plan = plan_minimize(loss, n, **{"epsilon": 3.0, "radius": 1.0, **settings})
        ridge = plan.l2 if "l2" in settings else 0.0
        risk = plan.problem.objective(X, np.zeros(n), max(ridge, 1e-9))
        found = plan.solver.solve(risk, 1e-3, plan.constraint).point
        excess = [risk.value(plan.run(X, np.zeros(n), SeededSource(s)).point) - risk.value(found) for s in range(30)]
        assert -1e-6 <= np.mean(excess) <= plan.predicted_error.bound, settings


def test_records_help_an_average_and_no_other_objective() -> None:
    loss = LocationLoss(DISC, 0.2)
    averages = [plan_minimize(loss, n, epsilon=1.0, radius=1.0).predicted_error for n in (10**2, 10**4, 10**6)]
    assert averages[0].bound > 4 * averages[1].bound > 16 * averages[2].bound
    wholes = [plan_minimize(MaxRisk(loss), n, epsilon=1.0, radius=1.0).predicted_error for n in (10**2, 10**6)]
    assert wholes[0] == wholes[1]
    assert wholes[0].vacuous
    assert not plan_minimize(MaxRisk(loss), 100, epsilon=100.0, radius=1.0).predicted_error.vacuous


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_e13_the_diameter_beats_the_regularized_mechanism(d, delta) -> None:
    """Specification, 3.6(b) and E13: less noise and a smaller bound at every epsilon from 1 to 100."""
    problem = CustomProblem(MaxRisk(LocationLoss(DataDomain.l2_ball(d, 1.0), 0.5)), 100, 1.0)
    for epsilon in np.geomspace(1, 100, 9):
        paper = printed_constants.output_perturbation(problem, None, epsilon, delta)
        moves = paper.sensitivity + 2 * paper.solver_radius  # what the paper's noise covers
        kinds = {"constants": "calibrated", "noise": "gaussian" if delta else "l2"}
        (plan,) = output_perturbation.plan(problem, PrivacyParams(epsilon, delta), **kinds)
        assert plan.schedule.reach <= 2.0 * (1 + 1e-12) <= moves
        assert plan.predicted_error.bound <= paper.bound
        printed = printed_bound(problem, None, epsilon, delta)
        assert printed is None or plan.predicted_error.bound <= printed


def test_e13_measured() -> None:
    """Excess largest loss of both mechanisms, 300 seeds, one dimension; the paper's noise is for its own reach."""
    problem = CustomProblem(MaxRisk(LocationLoss(LINE, 0.5)), 20, 1.0, max_steps=2000)
    X = np.linspace(-0.2, 0.9, 20)[:, None]
    risk = problem.objective(X, np.zeros(20), 1e-9)
    best = min(risk.value(np.array([w])) for w in np.linspace(-1, 1, 2001))
    for epsilon in (5.0, 50.0):
        (ours,) = output_perturbation.plan(problem, PrivacyParams(epsilon))
        paper = printed_constants.output_perturbation(problem, None, epsilon, 0.0)
        scale = (paper.sensitivity + 2 * paper.solver_radius) / epsilon
        theirs = center(replace(ours, schedule=paper), X)
        rng, mine = np.random.default_rng(0), center(ours, X)
        noise = rng.laplace(size=300)
        losses = [
            np.mean([risk.value(np.clip(point + s * z, -1, 1)) for z in noise]) - best
            for point, s in ((mine, ours.mechanism.scale), (theirs, scale))
        ]
        assert losses[0] < losses[1]


def test_certifiable_radii_are_reached_within_the_steps() -> None:
    """A kinked loss of records: the planned radius is what `max_steps` subgradient steps guarantee."""

    class Corner(Linear):
        smoothness = math.inf

        def value(self, w, records):
            return np.abs(w[0] - records[:, 0])

        def gradient(self, w, records):
            return np.sign(w[0] - records)

    for steps in (50, 5000):
        plan = plan_minimize(Corner(), 10, epsilon=1.0, radius=1.0, max_steps=steps)
        risk = plan.problem.objective(np.linspace(-1, 1, 10)[:, None], np.zeros(10), plan.l2)
        count = plan.solver.steps_for(risk.lipschitz_within(1.0), plan.l2, plan.solver_radius)
        assert count <= steps + 1
        assert plan.solver.solve(risk, plan.solver_radius, plan.constraint).accuracy.bound <= plan.solver_radius


def test_names_of_algorithms_are_told() -> None:
    loss = LocationLoss(DataDomain.l2_ball(2, 1.0), 0.2)
    for name in ("nonsense", "heavy_tailed"):
        with pytest.raises(InvalidParameterError) as refused:
            private_minimize(loss, np.zeros((9, 2)), epsilon=1.0, radius=1.0, algorithm=name)
        known = "one of 'heavy_tailed', 'localized_exponential_mechanism'"
        assert str(refused.value) == f"algorithm={name!r}: must be 'auto', or with heavy_tailed=(k, G_k) {known}."


def test_public_errors() -> None:
    loss, X = LocationLoss(DISC), np.zeros((5, 2))
    with pytest.raises(InvalidParameterError, match="trusted=False"):
        plan_minimize(loss, 5, epsilon=1.0, radius=1.0, trusted=False, constants="paper")
    with pytest.raises(InvalidParameterError, match="whole objective"):
        plan_minimize(MaxRisk(loss), 5, epsilon=1.0, radius=1.0, target="population")
    with pytest.raises(InvalidParameterError, match="epsilon="):
        private_minimize(loss, X, epsilon=0.0, radius=1.0)
    for wrong in (np.zeros(5), np.zeros((0, 2)), np.zeros((5, 3)), np.full((5, 2), "a")):
        with pytest.raises(InvalidDataError):
            private_minimize(loss, wrong, epsilon=1.0, radius=1.0)
    with pytest.raises(InvalidDataError, match="list"):  # one None would change its dtype
        private_minimize(loss, X.tolist(), epsilon=1.0, radius=1.0)
    for extreme in ({"l2": 1e-300}, {"radius": 1e149}, {"epsilon": 1e-300}):
        with pytest.raises(InvalidParameterError, match="Rescale"):
            plan_minimize(loss, 5, **{"epsilon": 1.0, "radius": 1.0, **extreme})
    plan = plan_minimize(loss, 6, epsilon=1.0, radius=1.0)
    with pytest.raises(InvalidDataError, match="n=6"):
        plan.run(X, np.zeros(5), SeededSource(0))


class Broken(LyingLoss):
    """Not even finite."""

    def value(self, w, records):
        return np.full(len(records), np.nan)

    def gradient(self, w, records):
        return np.full_like(records, -np.inf)


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("function", [Broken(), MaxRisk(Broken())], ids=["record", "whole"])
def test_a_broken_function_raises_nothing(function, trusted) -> None:
    settings = {"epsilon": 1.0, "radius": 1.0, "trusted": trusted, "max_steps": 50}
    result = private_minimize(function, np.ones((30, 1)), random_state=0, **settings)
    assert np.isfinite(result.point).all()


@dataclass(frozen=True)
class Aloft(RecordLoss):
    """Distance to the record, and a constant: values so large that they round more coarsely than the gap."""

    height: float = 1e18
    name, domain, dim = "aloft", LINE, 1

    def lipschitz(self, radius):
        return 1.0

    def value(self, w, records):
        return self.height * (records[:, 0] > 0) + np.abs(w[0] - records[:, 0])

    def gradient(self, w, records):
        return np.sign(w[0] - records)


@pytest.mark.gate
def test_large_values_are_no_reason_to_refuse() -> None:
    """No claim bounds the values, so whether they round coarsely may depend on the data."""
    plan = plan_minimize(Aloft(), 10, epsilon=1.0, radius=1.0, max_steps=3000)
    assert plan.schedule.needs_accuracy
    for sign in (1.0, -1.0):
        X = sign * np.array([[0.9], [0.8], [0.9], [0.9], [0.7], [0.9], [0.9], [0.9], [1.0], [0.9]])
        plan.run(X, np.zeros(10), SeededSource(0))
        grid = np.linspace(-1, 1, 20_001)[:, None]
        low = replace(plan.problem, function=Aloft(0.0)).objective(X, np.zeros(10), plan.l2)
        best = min(grid, key=low.value)
        assert abs(center(plan, X) - best)[0] <= plan.solver_radius + 1e-4


@pytest.mark.parametrize("X", [np.array([["1", "2"]] * 50), np.ones((50, 3)), np.ones((50, 2), complex)])
def test_records_of_another_form_cost_nothing(X: np.ndarray) -> None:
    with budget_context(epsilon=1.0) as budget:
        with pytest.raises(InvalidDataError, match="X has"):
            private_minimize(LocationLoss(DISC, width=0.2), X, epsilon=1.0, radius=1.0)
        assert budget.account().left[0] == 1


def test_nothing_is_released_without_the_accuracy() -> None:
    """A plan that was tampered with: two steps where it takes hundreds."""
    plan = plan_minimize(LogLinearDensity(3, 30), 30, epsilon=1.0, radius=1.0)
    with pytest.raises(AccuracyError):
        replace(plan, solver=AcceleratedGradient(max_steps=2)).run(np.ones((30, 1)), np.zeros(30), SeededSource(0))
