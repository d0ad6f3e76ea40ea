"""Step counts that suffice for every data set, step limits, and the fall-back."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex._types import Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from dpconvex.problems import DataDomain, Records, RegularizedRisk
from dpconvex.sets import Box, L2Ball, Simplex, WholeSpace
from dpconvex.solvers import (
    LBFGS,
    AcceleratedGradient,
    BallNewton,
    DualCoordinateAscent,
    Guaranteed,
    NewtonCholesky,
    SmoothedAcceleratedGradient,
    Subgradient,
    default_solver,
)


def extreme(loss, l2, kind, d=6):
    """Records at the border of the domain, with second moments from 1 down to 0: hard for gradient methods."""
    X = {
        "one direction": np.tile(np.eye(d)[:1], (20, 1)),
        "decaying": np.repeat(np.eye(d), [2 ** (d - j) for j in range(d)], axis=0),
        "orthogonal": np.eye(d),
        "cancelling": np.concatenate([np.eye(d), -np.eye(d)]),
    }[kind]
    rng = np.random.default_rng(0)
    y = np.where(np.arange(len(X)) % 5 == 0, -1.0, 1.0)
    b = rng.standard_normal(d) * l2
    return RegularizedRisk(loss, Records.clipped(X, DataDomain.l2_ball(d, 1.0)), y, l2, b)


KINDS = ("one direction", "decaying", "orthogonal", "cancelling")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [SquaredLoss(1.0), LogisticLoss()], ids=repr)
@pytest.mark.parametrize("constraint", [WholeSpace(), L2Ball(0.3), Simplex(6), Box(0.1, 0.2, dim=6)], ids=repr)
@pytest.mark.parametrize(("l2", "radius"), [(1e-1, 1e-6), (1e-3, 1e-4), (1e-2, 1.0)])
def test_accelerated_gradient_count_suffices_without_any_certificate(kind, loss, constraint, l2, radius):
    objective = extreme(loss, l2, kind)
    zero = constraint.project(np.zeros(6))
    gap = (objective.lipschitz_within(np.linalg.norm(zero))) ** 2 / (2 * l2) if zero.any() else objective.initial_gap
    count = AcceleratedGradient.steps_for(objective.smoothness, l2, gap, radius)
    exact = AcceleratedGradient().solve(objective, 1e-9, constraint)
    assert exact.status is Status.CERTIFIED
    # A radius that no certificate reaches makes the solver use exactly `count` steps from 0.
    blind = AcceleratedGradient(max_steps=count).solve(objective, 1e-18, constraint)
    assert blind.steps == count
    assert np.linalg.norm(blind.point - exact.point) <= radius + 1e-9
    assert AcceleratedGradient().solve(objective, radius, constraint).steps <= count


@pytest.mark.parametrize("output", ["best", "average"])
@pytest.mark.parametrize("kind", KINDS)
def test_subgradient_count_suffices_without_any_certificate(kind, output):
    objective = extreme(AbsoluteLoss(), 0.3, kind)
    radius, ball = 0.2, L2Ball((objective.lipschitz + objective.linear_norm) / 0.3)
    count = Subgradient.steps_for(objective.lipschitz_within(ball.radius), 0.3, radius)
    blind = Subgradient(max_steps=count, output=output).solve(objective, 1e-9)
    exact = DualCoordinateAscent().solve(objective, 1e-4)
    assert exact.status is Status.CERTIFIED
    assert blind.steps == count
    assert np.linalg.norm(blind.point - exact.point) <= radius


def test_the_subgradient_average_is_the_papers():
    """``sum_t 2t/(T(T+1)) w_t`` of the iterates after the start (Lowy and Razaviyayn, Algorithm 2)."""
    objective, ball, w, iterates = extreme(AbsoluteLoss(), 0.3, "cancelling"), L2Ball(0.3), np.full(6, 0.1), []
    for step in range(1, 6):
        w = ball.project(w - 2 / (0.3 * step) * objective.gradient(w))
        iterates.append(w)
    found = Subgradient(max_steps=5, output="average").solve(objective, 1e-9, ball, np.full(6, 0.1))
    np.testing.assert_allclose(found.point, np.average(iterates, axis=0, weights=range(1, 6)), rtol=1e-12)


@pytest.mark.parametrize("constraint", [WholeSpace(), L2Ball(0.3), Simplex(6)], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_certificates_of_subgradient_averages_are_true(kind, constraint):
    """From any start, after few and many steps; the average is a member, and no iterate."""
    objective, start = extreme(AbsoluteLoss(), 0.3, kind), np.full(6, 3.0)
    exact = SmoothedAcceleratedGradient().solve(objective, 0.02, constraint)
    assert exact.status is Status.CERTIFIED
    for steps in (1, 2, 5, 50, 1000):
        average = Subgradient(max_steps=steps, output="average").solve(objective, 1e-9, constraint, start)
        assert average.status is Status.STEP_LIMIT
        assert constraint.contains(average.point)
        assert np.linalg.norm(average.point - exact.point) <= average.accuracy.bound + exact.accuracy.bound
        gap = objective.value(average.point) - objective.value(exact.point)
        assert gap <= 0.3 / 2 * average.accuracy.bound**2
    with pytest.raises(InvalidParameterError, match="output="):
        Subgradient(output="last")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [AbsoluteLoss(), HingeLoss()], ids=repr)
def test_smoothed_count_suffices_and_its_bound_holds(kind, loss):
    objective, radius = extreme(loss, 0.2, kind), 0.02
    count = SmoothedAcceleratedGradient.steps_for(loss.slope_bound, 1.0, 0.2, objective.initial_gap, radius)
    exact = DualCoordinateAscent().solve(objective, 1e-5)
    result = SmoothedAcceleratedGradient().solve(objective, radius)
    assert exact.status is result.status is Status.CERTIFIED
    assert result.steps <= count
    assert np.linalg.norm(result.point - exact.point) <= result.accuracy.bound + 1e-5


def test_a_priori_basis_when_no_certificate_can_fire():
    """A radius just above the rounding slack: the certificate of the last point may fail, the count does not."""
    objective = extreme(SquaredLoss(1.0), 1e-3, "decaying")
    point = AcceleratedGradient().solve(objective, 1e-6).point
    radius = 1.02 * objective.gradient_rounding(point) / objective.l2
    result = AcceleratedGradient().solve(objective, radius)
    assert result.status is Status.CERTIFIED
    assert result.accuracy.basis == "a priori"
    assert AcceleratedGradient().solve(objective, radius / 2).status is Status.STALLED


@pytest.mark.parametrize(
    ("solver", "loss", "constraint"),
    [
        (NewtonCholesky(max_steps=1), LogisticLoss(), None),
        (LBFGS(max_steps=1), LogisticLoss(), None),
        (AcceleratedGradient(max_steps=1), LogisticLoss(), L2Ball(5.0)),
        (Subgradient(max_steps=1), HingeLoss(), None),
        (DualCoordinateAscent(max_steps=1), HingeLoss(), None),
        (SmoothedAcceleratedGradient(max_steps=1), HingeLoss(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_one_step_is_not_enough_and_says_so(solver, loss, constraint):
    objective = extreme(loss, 1e-2, "decaying")
    result = solver.solve(objective, 1e-6, constraint)
    assert result.status is Status.STEP_LIMIT
    assert result.steps == 1
    exact = default_solver(loss, None, 6).solve(objective, 1e-4)  # the ball is not active
    assert 1e-6 < np.linalg.norm(result.point - exact.point) <= result.accuracy.bound + 1e-4


def test_fall_back_takes_over_from_where_the_fast_solver_stopped():
    objective = extreme(LogisticLoss(), 1e-3, "decaying")
    cold = AcceleratedGradient().solve(objective, 1e-8)
    both = Guaranteed(NewtonCholesky(max_steps=4), AcceleratedGradient()).solve(objective, 1e-8)
    assert cold.status is both.status is Status.CERTIFIED
    assert both.steps < cold.steps


def test_a_bad_start_costs_no_steps():
    objective = extreme(LogisticLoss(), 1e-3, "decaying")
    count = AcceleratedGradient.steps_for(objective.smoothness, 1e-3, objective.initial_gap, 1e-6)
    result = AcceleratedGradient().solve(objective, 1e-6, start=np.full(6, 1e9))
    assert result.status is Status.CERTIFIED
    assert result.steps <= count


def test_step_counts_of_easy_problems():
    assert AcceleratedGradient.steps_for(1.0, 1.0, 5.0, 1e-9) == 1  # condition number 1
    assert AcceleratedGradient.steps_for(4.0, 1.0, 1e-9, 1.0) == 1  # already there
    expected = math.ceil(math.log(4 / 1e-4) / -math.log(1 - 0.5))
    assert AcceleratedGradient.steps_for(4.0, 1.0, 1.0, 1e-2) == expected
    assert Subgradient.steps_for(3.0, 1.0, 0.5) == 144


@pytest.mark.parametrize(
    ("loss", "constraint", "dim", "expected"),
    [
        (LogisticLoss(), None, 2000, Guaranteed(NewtonCholesky(), AcceleratedGradient())),
        (SoftmaxLoss(3), WholeSpace(), 2001, Guaranteed(LBFGS(), AcceleratedGradient())),
        (LogisticLoss(), L2Ball(1.0), 10, Guaranteed(BallNewton(), AcceleratedGradient())),
        (LogisticLoss(), L2Ball(1.0), 2001, Guaranteed(LBFGS(), AcceleratedGradient())),
        (LogisticLoss(), Box(0.0, 1.0, dim=10), 10, AcceleratedGradient()),
        (HingeLoss(), None, 10, Guaranteed(DualCoordinateAscent(), SmoothedAcceleratedGradient())),
        (HingeLoss(), Box(0.0, 1.0, dim=10), 10, SmoothedAcceleratedGradient()),
    ],
)
def test_default_solver(loss, constraint, dim, expected):
    assert default_solver(loss, constraint, dim) == expected
