"""The tilted objective against dense oracles, finite differences, its two limits, and searches for its constants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import logsumexp

from dpconvex._types import Status
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LOSSES, AbsoluteLoss, HingeLoss, LogisticLoss, SmoothLoss, SoftmaxLoss, WeightedLoss
from dpconvex.problems import DataDomain, LinearModelProblem, Objective, Records, RegularizedRisk, TiltedRisk
from dpconvex.sets import L2Ball
from dpconvex.solvers import AcceleratedGradient, DualCoordinateAscent, NewtonCholesky, Subgradient, default_solver
from instances import instances

pytestmark = pytest.mark.together

EXAMPLES = [loss for kind in LOSSES for loss in instances(kind) if math.isfinite(loss.value_at_zero)]
SMOOTH = [loss for loss in EXAMPLES if isinstance(loss, SmoothLoss)]
DOMAIN = DataDomain.l2_ball(3, 1.5).with_intercept()


def make(loss, tilt=0.7, n=60, l2=0.1, linear=True, seed=0) -> TiltedRisk:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = rng.integers(0, loss.n_outputs, n) if loss.n_outputs > 1 else rng.standard_normal(n)
    records = Records.clipped(X, DOMAIN)
    b = rng.standard_normal(loss.n_outputs * records.dim) if linear else None
    return TiltedRisk(loss, records, y, l2, b, tilt=tilt)


def losses_of(objective, w):
    X, W = objective.records.rows(slice(None)), w.reshape(objective.loss.n_outputs, -1)
    return objective.loss.value(X @ W[0] if len(W) == 1 else X @ W.T, objective.targets)


def oracle_value(objective, w):
    tilted = (logsumexp(objective.tilt * losses_of(objective, w)) - math.log(objective.records.n)) / objective.tilt
    linear = 0.0 if objective.linear is None else objective.linear @ w
    return tilted + objective.l2 / 2 * w @ w + linear


@pytest.mark.thin
@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
@pytest.mark.parametrize("tilt", [0.1, 3.0])
def test_values_and_gradients(loss, tilt) -> None:
    objective = make(loss, tilt)
    rng = np.random.default_rng(1)
    for _ in range(5):
        w, v = rng.standard_normal((2, objective.dim))
        value, g = objective.value_and_gradient(w)
        assert value == objective.value(w) == pytest.approx(oracle_value(objective, w), rel=1e-12)
        np.testing.assert_array_equal(g, objective.gradient(w))
        h = 1e-6
        slope = (objective.value(w + h * v) - objective.value(w - h * v)) / (2 * h)
        assert slope == pytest.approx(g @ v, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@pytest.mark.parametrize("tilt", [0.1, 3.0])
def test_hessians(loss, tilt) -> None:
    objective = make(loss, tilt)
    w, v = np.random.default_rng(2).standard_normal((2, objective.dim))
    H = objective.hessian(w)
    np.testing.assert_allclose(objective.hessian_product(w, v), H @ v, rtol=2e-4, atol=2e-4)
    assert np.linalg.eigvalsh(H)[0] >= objective.strong_convexity * (1 - 1e-3)
    assert np.linalg.eigvalsh(H)[-1] <= objective.smoothness
    h = 1e-7  # small: second derivatives of some losses jump
    change = (objective.gradient(w + h * v) - objective.gradient(w - h * v)) / (2 * h)
    np.testing.assert_allclose(change, H @ v, rtol=1e-4, atol=1e-4)


def test_passes_in_several_blocks_and_threads_agree_with_a_dense_oracle() -> None:
    objective = make(SoftmaxLoss(3), n=50_000)
    rng = np.random.default_rng(3)
    w, v = rng.standard_normal((2, objective.dim))
    X, losses = objective.records.rows(slice(None)), losses_of(objective, w)
    weights = np.exp(objective.tilt * losses - logsumexp(objective.tilt * losses))
    slopes = objective.loss.derivative(X @ w.reshape(3, -1).T, objective.targets)
    g = (slopes[:, :, None] * X[:, None, :]).reshape(len(X), -1)
    mean = weights @ g
    np.testing.assert_allclose(objective.gradient(w), mean + objective.l2 * w + objective.linear, rtol=1e-9)
    p = objective.loss.probabilities(X @ w.reshape(3, -1).T)
    dz = X @ v.reshape(3, -1).T
    curved = ((p * dz - p * (p * dz).sum(1, keepdims=True)) * weights[:, None]).T @ X
    covariance = g.T @ (weights * (g @ v)) - mean * (mean @ v)
    expected = curved.ravel() + objective.tilt * covariance + objective.l2 * v
    np.testing.assert_allclose(objective.hessian_product(w, v), expected, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(objective.hessian(w) @ v, expected, rtol=1e-4, atol=1e-4)


def test_smoothness_is_attained() -> None:
    """Specification 4.1: two records of opposite slope L at weight 1/2 have covariance L^2."""
    domain = DataDomain.box(1, 2.0)
    records = Records.clipped(np.full((2, 1), 2.0), domain)
    objective = TiltedRisk(HingeLoss().smoothed(1e-3), records, np.array([1.0, -1.0]), 0.5, tilt=0.3)
    h = 1e-6
    change = (objective.gradient(np.array([h])) - objective.gradient(np.array([-h]))) / (2 * h)
    assert change[0] == pytest.approx(0.3 * 2.0**2 + 0.5, rel=1e-6)  # the hinge is linear at 0


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_a_small_tilt_is_the_average_and_a_large_one_the_maximum(loss) -> None:
    w = np.random.default_rng(4).standard_normal(make(loss).dim)
    small, large = make(loss, 1e-9), make(loss, 1e6)
    average = RegularizedRisk(loss, small.records, small.targets, small.l2, small.linear)
    assert small.value(w) == pytest.approx(average.value(w), rel=1e-6)
    np.testing.assert_allclose(small.gradient(w), average.gradient(w), rtol=1e-6, atol=1e-7)
    rest = average.value(w) - losses_of(small, w).mean()
    assert large.value(w) == pytest.approx(losses_of(small, w).max() + rest, abs=1e-4)


@pytest.mark.parametrize("tilt", [1e-12, 1e-6, 1e-3, 1.0, 1e3])
def test_values_keep_their_accuracy_at_every_tilt(tilt) -> None:
    mpmath = pytest.importorskip("mpmath")
    objective = make(LogisticLoss(), tilt, n=50, linear=False)
    w = np.random.default_rng(5).standard_normal(objective.dim)
    with mpmath.workdps(60):
        mean = sum(mpmath.exp(mpmath.mpf(tilt) * mpmath.mpf(x)) for x in losses_of(objective, w)) / 50
        exact = float(mpmath.log(mean) / tilt) + objective.l2 / 2 * float(w @ w)
    assert abs(objective.value(w) - exact) <= objective.value_rounding(exact, w) / 10


@pytest.mark.parametrize("tilt", [0.1, 10.0])
def test_rounding_slack_covers_the_error_of_float64(tilt) -> None:
    objective = make(LogisticLoss(), tilt, n=3000)
    w = 20 * np.random.default_rng(4).standard_normal(objective.dim)
    X, y = objective.records.rows(slice(None)).astype(np.longdouble), objective.targets.astype(np.longdouble)
    margin = y * (X @ w.astype(np.longdouble))
    losses = np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin)))
    weights = np.exp(tilt * (losses - losses.max()))
    exact = (-y / (1 + np.exp(margin)) * weights) @ X / weights.sum() + objective.l2 * w + objective.linear
    error = float(np.linalg.norm(objective.gradient(w) - exact))
    assert 0 < error <= objective.gradient_rounding(w)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_initial_gap_and_lipschitz_constants_hold(loss) -> None:
    for seed in range(3):
        objective = make(loss, tilt=5.0, seed=seed)
        rng = np.random.default_rng(seed)
        start = objective.value(np.zeros(objective.dim))
        for size in (0.1, 1.0, 10.0):
            w = rng.standard_normal(objective.dim)
            w *= size / np.linalg.norm(w)
            assert start - objective.value(w) <= objective.initial_gap
            assert np.linalg.norm(objective.gradient(w)) <= objective.lipschitz_within(size)


@pytest.mark.gate
@given(
    loss=st.sampled_from([loss for loss in EXAMPLES if math.isfinite(loss.slope_bound)]),  # others: no finite curvature
    tilt=st.sampled_from([1e-6, 0.5, 5.0]),
    n=st.sampled_from([1, 2, 20]),
    ball=st.sampled_from([None, 0.05, 2.0]),
    seed=st.integers(0, 1000),
)
def test_solvers_certify_true_bounds(loss, tilt, n, ball, seed) -> None:
    """The default solver against accelerated gradient (smooth) or the subgradient method, with other certificates."""
    objective = make(loss, tilt, n=n, l2=0.5, seed=seed, linear=False)
    smooth = isinstance(loss, SmoothLoss)
    radius, other = (1e-7, AcceleratedGradient()) if smooth else (0.1, Subgradient(max_steps=300))
    constraint = None if ball is None else L2Ball(ball)
    found = default_solver(loss, constraint, objective.dim, tilted=True).solve(objective, radius, constraint)
    check = other.solve(objective, radius, constraint)
    assert found.status is Status.CERTIFIED
    assert found.accuracy.bound <= radius
    assert constraint is None or constraint.contains(found.point)
    assert np.linalg.norm(found.point - check.point) <= found.accuracy.bound + check.accuracy.bound


def test_newton_needs_few_passes_over_many_records() -> None:
    objective = make(LogisticLoss(), 1.0, n=40_000, l2=1e-3, linear=False)
    result = NewtonCholesky().solve(objective, 1e-8)
    assert result.status is Status.CERTIFIED
    assert result.gradient_calls <= 15


@pytest.mark.thin
@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
@pytest.mark.parametrize("radius", [0.3, 3.0])
@pytest.mark.gate
def test_the_range_of_the_loss_is_never_beaten_and_not_loose(loss, radius) -> None:
    """Differences of two records' losses at the same parameters; the worst records are looked for along w."""
    problem = LinearModelProblem(loss, DOMAIN, 10, 1.0)
    rng, worst = np.random.default_rng(6), 0.0
    for trial in range(300):
        w = rng.standard_normal(problem.dim)
        w *= radius / np.linalg.norm(w)
        x = rng.standard_normal((40, 3))
        if trial % 2:  # the longest predictions: w along the features, intercept included
            x = np.tile(rng.standard_normal(3), (40, 1)) * np.array([1.0, -1.0] * 20)[:, None]
            if loss.n_outputs == 1:
                w = np.append(x[0] / np.linalg.norm(x[0]) * 1.5, 1.0) * radius / DOMAIN.l2 * rng.choice([-1, 1])
        y = rng.uniform(-10, 10, 40)
        y = rng.integers(0, max(2, loss.n_outputs), 40) if loss.task == "classification" else y
        if isinstance(loss, WeightedLoss):  # a record of weight 0 loses nothing
            y = loss.packed(y, rng.integers(0, 2, 40).astype(float))
        losses = losses_of(RegularizedRisk(loss, Records.clipped(10 * x, DOMAIN), y, 0.0), w)
        worst = max(worst, losses.max() - losses.min())
    bound = problem.loss_range(radius)
    assert worst <= bound
    assert worst >= (0.95 if loss.n_outputs == 1 else 0.2) * bound


def test_public_errors() -> None:
    records = Records.clipped(np.zeros((2, 3)), DOMAIN)
    for tilt in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(InvalidParameterError, match="tilt="):
            TiltedRisk(LogisticLoss(), records, np.zeros(2), 1.0, tilt=tilt)
    with pytest.raises(InvalidParameterError, match="target_bound"):
        TiltedRisk(AbsoluteLoss(), records, np.zeros(2), 1.0, tilt=1.0)
    with pytest.raises(InvalidParameterError, match="average"):
        DualCoordinateAscent().solve(TiltedRisk(HingeLoss(), records, np.zeros(2), 1.0, tilt=1.0), 0.1)
    assert issubclass(TiltedRisk, Objective)
