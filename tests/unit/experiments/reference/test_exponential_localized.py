"""The localized exponential mechanism: its score sensitivity, its exact law in one dimension, its bound."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy import integrate, stats

from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss
from dpconvex.privacy import PrivacyParams, Sensitivity, verify
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference import exponential_mechanism
from dpconvex_experiments.reference.exponential_mechanism import LocalizedMechanismPlan, overshoot, relative_risk

pytestmark = pytest.mark.thin

LOSSES = [LogisticLoss(), HingeLoss(), AbsoluteLoss(1.0)]


def problem(loss, n: int = 500, dim: int = 1, radius: float = 3.0, **more) -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain.box(dim, 1.0), n, radius, **more)


def planned(task: LinearModelProblem, epsilon: float = 1.0, l2: float | None = None) -> LocalizedMechanismPlan:
    (plan,) = exponential_mechanism.plan_localized(task, PrivacyParams(epsilon), l2)
    return plan


def data(loss, n: int, dim: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, dim))
    return X, loss.clip_targets(np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0.1, 1.0, -1.0))


def law(scores: np.ndarray, scale: float) -> np.ndarray:
    """Exact law of permute-and-flip: candidate r is visited at a uniform time, and all visited before it refused."""
    p = np.exp((scores - scores.max()) / scale)
    t, weights = np.polynomial.legendre.leggauss(80)
    t, weights = (t + 1) / 2, weights / 2
    return np.array(
        [
            p[r] * sum(w * np.prod(np.delete(1 - s * p, r)) for s, w in zip(t, weights, strict=True))
            for r in range(len(p))
        ]
    )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("dim", [1, 2])
def test_no_neighbor_moves_a_score_beyond_the_sensitivity(loss, dim: int) -> None:
    task = problem(loss, n=5, dim=dim)
    plan = planned(task, l2=0.5)
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(60):
        X = rng.choice([-1.0, 0.0, 1.0], (6, dim))
        y = loss.clip_targets(rng.choice([-1.0, 1.0], 6))
        center = rng.choice([-1.0, 0.0, 0.1, 1.0], dim) * plan.reach_of_minimizers / math.sqrt(dim)
        points = center + plan.grid
        scores = [
            relative_risk(loss, Records.clipped(np.delete(X, i, 0), task.domain), np.delete(y, i), points, center)
            for i in (0, 1)
        ]
        worst = max(worst, float(np.abs(scores[0] - scores[1]).max()))
    assert 0.2 * plan.choice.sensitivity.value < worst <= plan.choice.sensitivity.value


def privacy_loss(plan: LocalizedMechanismPlan, sets: list[tuple[np.ndarray, np.ndarray]], minima: list[float]) -> float:
    """Largest log ratio of the exact joint law of center and choice between two data sets, over many centers."""
    loss, domain = plan.problem.loss, plan.problem.domain
    worst = 0.0
    for c in np.linspace(-2, 2, 21) * plan.reach_of_minimizers:
        center = np.array([c])
        inside = np.clip(center, -plan.reach_of_minimizers, plan.reach_of_minimizers)
        logs = []
        for (X, y), minimum in zip(sets, minima, strict=True):
            F = relative_risk(loss, Records.clipped(X, domain), y, inside + plan.grid, inside)
            ridge = plan.l2 / 2 * (((inside + plan.grid) ** 2).sum(1) - float(inside @ inside))
            logs.append(-abs(c - minimum) / plan.center.scale + np.log(law(-(F + ridge), plan.choice.scale)))
        worst = max(worst, float(np.abs(logs[0] - logs[1]).max()))
    return worst


def doubled(mechanism):
    """A mechanism with half the noise: the mistake of a forgotten factor 2."""
    halved = Sensitivity(mechanism.sensitivity.value / 2, mechanism.sensitivity.norm, "mistaken")
    return dataclasses.replace(mechanism, sensitivity=halved)


def test_exact_law_in_one_dimension_and_two_mistakes_that_it_catches() -> None:
    """One record, hinge loss: minimizers at +-1/l2 and scores that move by the full sensitivity."""
    epsilon, l2 = 1.0, 4.0
    plan = dataclasses.replace(planned(problem(HingeLoss(), n=1), epsilon, l2), side=7)
    sets = [(np.array([[1.0]]), np.array([y])) for y in (1.0, -1.0)]
    minima = [1 / l2, -1 / l2]
    found = privacy_loss(plan, sets, minima)
    assert 0.75 * epsilon < found <= epsilon
    for mistake in ({"center": doubled(plan.center)}, {"choice": doubled(plan.choice)}):
        assert privacy_loss(dataclasses.replace(plan, **mistake), sets, minima) > epsilon


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("n", [3, 10**6])
def test_sensitivities_count_the_solver_s_error_and_rounding(loss, n: int) -> None:
    task = problem(loss, n=n, dim=2)
    plan = planned(task, l2=0.5)
    L, l2, rho = task.lipschitz, plan.l2, plan.radius
    assert plan.center.sensitivity.value >= 2 * L / (l2 * n) + 2 * plan.solver_radius
    largest = loss.value_at_zero + L * (plan.reach_of_minimizers + rho)  # a loss at a point of the grid
    assert plan.choice.sensitivity.value >= 2 * L * rho / n + 2e-13 * largest


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("l2", [None, 0.05])
def test_runs_verify_and_beat_the_bound(loss, dim: int, l2: float | None) -> None:
    task = problem(loss, n=600, dim=dim)
    X, y = data(loss, 600, dim)
    plan = planned(task, 2.0, l2)
    result = plan.run(X, y, SystemSource())
    assert verify(result.certificate).passed
    assert result.certificate.spent_epsilon <= 2.0
    records, lam = Records.clipped(X, task.domain), 0.0 if l2 is None else l2

    def risk(points: np.ndarray) -> np.ndarray:
        return relative_risk(loss, records, y, points) + lam / 2 * (points**2).sum(1)

    axis = np.linspace(-3, 3, 61)
    rivals = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), -1).reshape(-1, dim)
    best = risk(rivals[np.linalg.norm(rivals, axis=1) <= task.radius]).min()
    excess = [float(risk(plan.run(X, y, SeededSource(seed)).point[None])[0] - best) for seed in range(4)]
    assert np.mean(excess) <= plan.predicted_error.bound


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("x", [0.0, 0.7, 5.0])
def test_overshoot_is_the_moment_of_the_gamma_law(d: int, x: float) -> None:
    found = overshoot(d, np.array(x))
    for power, value in zip((1, 2), found, strict=True):
        expected, _ = integrate.quad(lambda g, k=power: (g - x) ** k * stats.gamma(d).pdf(g), x, math.inf)
        assert float(value) == pytest.approx(expected, rel=1e-7)


def test_the_bound_follows_from_the_plan_that_it_comes_with() -> None:
    """Strongly convex and not smooth: recomputed from the released constants alone (docs, Localisation)."""
    task = problem(HingeLoss(), n=4000)
    plan = planned(task, 1.0, 0.1)
    theta, r, rho = plan.center.scale, plan.solver_radius, plan.radius
    first, second = overshoot(1, np.array((rho - r) / theta))
    g = 2 * rho / (plan.side - 1)
    one, two = g + theta * float(first), g**2 + 2 * g * theta * float(first) + theta**2 * float(second)
    moved = (task.lipschitz + plan.l2 * plan.reach_of_minimizers) * one + plan.l2 / 2 * two
    selection = plan.choice.scale * math.log(plan.side)
    assert plan.bound == pytest.approx(selection + moved, rel=1e-4)


def test_its_bound_is_the_best_for_strongly_convex_kinks_only() -> None:
    """As the paper says: for strongly convex losses that are not smooth it beats output perturbation by far."""
    for loss, n, l2, wins in (
        (HingeLoss(), 10_000, 0.1, True),
        (LogisticLoss(), 10_000, 0.1, False),
        (HingeLoss(), 100, 0.1, False),
    ):
        found = plans(problem(loss, n), PrivacyParams(1.0), "auto", Options(l2=l2))
        best = min(found, key=lambda plan: plan.predicted_error.bound)
        assert isinstance(best, LocalizedMechanismPlan) == wins
    output = plans(problem(HingeLoss(), 10_000), PrivacyParams(1.0), "output_perturbation", Options(l2=0.1))[0]
    best = planned(problem(HingeLoss(), 10_000), l2=0.1)
    assert best.predicted_error.bound < output.predicted_error.bound / 5


@pytest.mark.parametrize("content", [np.nan, np.inf, 1e300, 0.0, 0.5], ids=str)
def test_content_never_speaks(content: float) -> None:
    task = problem(HingeLoss(), n=50, dim=2)
    plan = planned(task, l2=0.1)
    result = plan.run(np.full((50, 2), content), np.full(50, content), SystemSource())
    assert np.isfinite(result.point).all()
    assert verify(result.certificate).passed


def test_where_it_does_not_apply() -> None:
    for task in (problem(LogisticLoss(), dim=3), problem(AbsoluteLoss())):
        with pytest.raises(InvalidParameterError, match="needs a bounded loss of one score, and at most 2 parameters"):
            exponential_mechanism.plan_localized(task, PrivacyParams(1.0))


def test_unbounded_targets_are_left_out_because_floats_would_break_privacy() -> None:
    """One target of 1e20 absorbs every other record's loss: scores move 26 times further than 2 L R / n."""
    task, loss = problem(AbsoluteLoss(), n=100), AbsoluteLoss()
    with pytest.raises(InvalidParameterError, match="needs a bounded loss"):
        exponential_mechanism.plan(task, PrivacyParams(1.0))
    X = np.random.default_rng(0).uniform(-1, 1, (100, 1))
    y, z = 2 * X[:, 0], 2 * X[:, 0]
    z[0] = 1e20
    records, grid = Records.clipped(X, task.domain), np.linspace(-3, 3, 101)[:, None]
    moved = relative_risk(loss, records, loss.clip_targets(y), grid) - relative_risk(
        loss, records, loss.clip_targets(z), grid
    )
    assert np.abs(moved).max() > 10 * 2 * task.lipschitz * task.radius / task.n
