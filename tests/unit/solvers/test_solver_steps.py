"""Step counts that suffice for every data set, step limits, and the fall-back."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex._types import Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
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

pytestmark = pytest.mark.thin


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
@pytest.mark.thin
@pytest.mark.dear("one direction-best", "decaying-average", "cancelling-best")
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


def test_p6_the_last_iterate_misses_the_accuracy_but_not_the_distance():
    """Erratum P6: ``T = 2 L^2/(mu alpha)`` steps bring the best and the average to alpha, not the last iterate.

    Maximum of 401 linear functions and ``|w|^2/2`` over a small ball, after Harvey, Liaw, Plan and Randhawa (2019): its
    value rises with every late step. Its minimum is at most 0. The distance that privacy needs holds all the same:
    ``<g, w - w*> >= mu |w - w*|^2`` gives ``D_t <= (1 - 4/t) D_(t-1) + 4 (L/(mu t))^2``, hence
    ``D_T <= 4 L^2/(mu^2 (T+1))`` for squared distances, the square of what `Subgradient.steps_for` promises.
    """
    T, R = 400, 0.05
    rise = np.minimum(0.5 / np.arange(T, 0, -1), 0.3)
    H = np.tril(np.tile(rise, (T + 1, 1)), -1)
    H[np.arange(T), np.arange(T)] = -1
    alpha = 2 * (np.linalg.norm(H, axis=1).max() + R) ** 2 / T
    w, average = np.zeros(T), np.zeros(T)
    for t in range(1, T + 1):
        slopes = H @ w
        w = w - 2 / t * (H[np.argmax(slopes >= slopes.max() - 1e-12)] + w)
        w *= min(1.0, R / np.linalg.norm(w))
        average += 2 * t / (T * (T + 1)) * w
    last, mean = (float((H @ u).max() + u @ u / 2) for u in (w, average))
    assert last > 1.15 * alpha
    assert mean < 0.4 * alpha
    squared = 1.0  # no point is further than L/mu from the minimizer
    for t in range(1, 10_001):
        squared = min(1.0, max(0.0, 1 - 4 / t) * squared + 4 / t**2)
        assert squared <= 4 / (t + 1)


def test_p6_one_record_n_times_is_no_subgradient():
    """Erratum P6, line 5 as printed: stepping along ``n`` times one record's subgradient, it runs from wall to wall."""
    n, mu, a, T = 1000, 1.0, 1.0, 200
    w = 0.0
    for t in range(1, T + 1):  # records +-a in turn: the mean of (w - x)^2/2 has its minimum at 0
        w = float(np.clip(w - 2 / (mu * t) * n * mu * (w - a * (-1) ** t), -a, a))
        assert abs(w) == a
    assert abs(w) > 3 * 2 * (2 * mu * a) / (mu * math.sqrt(T))  # the distance that T steps are said to reach


@pytest.mark.parametrize("steps", [0, 1])
def test_p7_the_printed_count_of_algorithm_4_needs_the_start_0(steps):
    """Erratum P7: ``sqrt(kappa) log((mu + beta) R^2/(2 alpha))`` steps from ``w_0 = -R`` miss alpha.

    From 0 they do not. Huber's loss of w - R with slope 2/3 and a small ridge; projected to [-R, R].
    """
    R, mu, slope = 1.0, 0.01, 2 / 3
    domain = DataDomain.box(1, 1.0)
    loss = HuberLoss(slope, target_bound=R)
    risk = RegularizedRisk(loss, Records.clipped(np.ones((1, 1)), domain), np.array([R]), mu)
    beta, ball = risk.smoothness, L2Ball(R)
    scale = math.sqrt(beta / mu)
    alpha = (mu + beta) * R**2 / 2 * math.exp(-0.9 * steps / scale)
    assert max(0, math.ceil(scale * math.log((mu + beta) * R**2 / (2 * alpha)) - 1e-9)) == steps
    least = risk.value(NewtonCholesky().solve(risk, 1e-9).point)

    def gap(start):
        w = np.array([start])
        for _ in range(steps):
            w = ball.project(w - risk.gradient(w) / beta)
        return risk.value(w) - least

    assert gap(0.0) <= alpha < 0.8 * gap(-R)
    found = AcceleratedGradient().solve(risk, math.sqrt(2 * alpha / mu), ball, np.array([-R]))
    assert found.status is Status.CERTIFIED
    assert risk.value(found.point) - least <= alpha


@pytest.mark.parametrize("constraint", [WholeSpace(), L2Ball(0.3), Simplex(6)], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.dear("orthogonal", "cancelling")
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
@pytest.mark.dear("HingeLoss()-orthogonal")
def test_smoothed_count_suffices_and_its_bound_holds(kind, loss):
    objective, radius = extreme(loss, 0.2, kind), 0.02
    width = SmoothedAcceleratedGradient.width_for(loss.slope_bound, 0.2, radius)
    count = AcceleratedGradient.steps_for(1 / width + 0.2, 0.2, objective.initial_gap, 0.25 * radius)
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


@pytest.mark.parametrize("l2", [3e-7, 1e-7])
def test_newton_bears_a_ridge_that_the_grid_of_exact_sums_hides(l2) -> None:
    """Softmax has directions without curvature: there the ridge is all, and operands are rounded by 2^-22."""
    rng = np.random.default_rng(0)
    X, y = np.where(rng.random((40, 3)) < 0.6, 0, rng.random((40, 3))), rng.integers(0, 3, 40)
    records = Records.clipped(X, DataDomain.l2_ball(3, 20.0))
    objective = RegularizedRisk(SoftmaxLoss(3), records, y, l2, linear=1e-8 * rng.standard_normal(9))
    found = NewtonCholesky().solve(objective, 1e-3)
    assert found.status is Status.CERTIFIED
    assert found.steps < 60
