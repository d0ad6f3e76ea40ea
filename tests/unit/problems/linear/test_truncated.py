"""The truncated risk: derivatives, constants, the sensitivity of its minimizer, and the bias lemma."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex._types import Status
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, PinballLoss, SoftmaxLoss, SquaredLoss
from dpconvex.problems import DataDomain, Records
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation
from dpconvex.sets import L2Ball
from dpconvex.solvers import AcceleratedGradient, BallNewton

LOSSES = (SquaredLoss(50.0), HuberLoss(), LogisticLoss(), AbsoluteLoss(), HingeLoss(), PinballLoss(0.8))
DIM = 3
DOMAIN = DataDomain.l2_ball(DIM, 300.0).with_intercept()


def heavy(loss, n=60, seed=0, truncation=None, l2=0.7, center=True, dim=DIM):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2.1, (n, dim)) * 3
    y = X @ np.ones(dim) + rng.standard_t(2.1, n)
    records = Records.clipped(X, DOMAIN)
    middle = 0.2 * rng.standard_normal(dim + 1) if center else None
    return TruncatedRisk(loss, records, y, l2, truncation or Truncation(1.5, 1.0, 0.05), middle)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.thin
@pytest.mark.dear("SquaredLoss")
def test_derivatives_and_constants(loss) -> None:
    risk = heavy(loss)
    rng = np.random.default_rng(1)
    for scale in (0.3, 1.0, 5.0):
        w, v = scale * rng.standard_normal((2, risk.dim))
        value, g = risk.value_and_gradient(w)
        assert value == pytest.approx(risk.value(w), rel=1e-13)
        assert np.allclose(g, risk.gradient(w), rtol=1e-12)
        step = 1e-6
        slope = (risk.value(w + step * v) - risk.value(w - step * v)) / (2 * step)
        assert slope == pytest.approx(float(g @ v), rel=1e-4, abs=1e-4)
        assert np.allclose(risk.hessian(w) @ v, risk.hessian_product(w, v), rtol=1e-4, atol=1e-4)
        data = risk.gradient(w) - risk.l2 * (w - risk.center)
        assert np.linalg.norm(data) <= risk.truncation.level * (1 + 1e-12)
        assert np.linalg.eigvalsh(risk.hessian(w))[-1] <= risk.smoothness
        assert np.linalg.norm(risk.gradient(w) - risk.gradient(v)) <= risk.smoothness * np.linalg.norm(w - v)
        assert np.linalg.norm(g) <= risk.lipschitz_within(float(np.linalg.norm(w)))
    best = AcceleratedGradient().solve(risk, 1e-6).point
    assert np.linalg.norm(best) <= risk.minimizer_norm
    assert risk.value(np.zeros(risk.dim)) - risk.value(best) <= risk.initial_gap


@pytest.mark.parametrize("loss", [SquaredLoss(50.0), LogisticLoss(), AbsoluteLoss(), HingeLoss()], ids=repr)
def test_the_curvature_constant_is_attained(loss) -> None:
    """Step sizes and certificates of gradient methods rest on it: the longest record, where the loss bends most."""
    domain = DataDomain.l2_ball(1, 3.0)
    records = Records.clipped(np.array([[3.0]]), domain)
    for smoothing in (0.01, 1.0):
        risk = TruncatedRisk(loss, records, np.array([1.0]), 0.1, Truncation(1e3, 5.0, smoothing))
        kink = 0.0 if isinstance(loss, LogisticLoss) else 1 / 3
        found = max(float(risk.hessian(np.array([kink + s]))[0, 0]) for s in (-1e-4, 0.0, 1e-4))
        assert 0.999 * risk.smoothness <= found <= risk.smoothness


@pytest.mark.parametrize("loss", [SquaredLoss(50.0), HuberLoss()], ids=repr)
def test_the_slack_covers_the_rounding_of_gradients(loss) -> None:
    """Against extended precision."""
    worst = 0.0
    for seed in range(5):
        risk = heavy(loss, seed=seed, truncation=Truncation(1e4, 1.0, 1.0))
        X, y = (np.asarray(part, dtype=np.longdouble) for part in (risk.records.rows(slice(None)), risk.targets))
        w = np.random.default_rng(seed).standard_normal(risk.dim)
        w *= 0.9 * risk.truncation.radius / np.linalg.norm(w)  # clipped gradients are the truth in this ball
        z = (X * w).sum(1)
        bound = risk.truncation.level / np.sqrt(np.square(X).sum(1))
        slope = z - y if isinstance(loss, SquaredLoss) else np.clip(z - y, -1, 1)
        exact = (np.clip(slope, -bound, bound)[:, None] * X).mean(0) + risk.l2 * (w - risk.center)
        error = float(np.linalg.norm(np.asarray(risk.gradient(w) - exact, dtype=np.float64)))
        worst = max(worst, error / risk.gradient_rounding(w))
    assert 0 < worst < 1


def test_light_records_are_left_alone() -> None:
    """With a level above every gradient norm the risk is the plain one."""
    loss, rng = LogisticLoss(), np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (40, DIM)), rng.choice([-1.0, 1.0], 40)
    risk = TruncatedRisk(loss, Records.clipped(X, DOMAIN), y, 1.0, Truncation(5.0, 10.0, 1.0))
    w = rng.standard_normal(risk.dim)
    z = X @ w[:-1] + w[-1]
    assert risk.value(w) == pytest.approx(float(loss.value(z, y).mean()) + 0.5 * float(w @ w), rel=1e-13)


@pytest.mark.parametrize("trials", [12, pytest.param(24, marks=pytest.mark.gate)])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.thin
@pytest.mark.dear("SquaredLoss(target_bound=50.0, prediction_bound=inf)")
def test_the_minimizer_moves_by_at_most_its_sensitivity(loss, trials) -> None:
    """2 C / (l2 n), whatever the replaced record holds: a search over extreme records, in the ball and without it."""
    n, worst = 4, 0.0
    rng = np.random.default_rng(2)
    for trial in range(trials):
        level, l2 = 10.0 ** rng.uniform(-1, 1), 10.0 ** rng.uniform(-1, 1)
        truncation = Truncation(level, 1.0, 10.0 ** rng.uniform(-3, 0))
        X = rng.standard_normal((n, DIM)) * 10.0 ** rng.uniform(-1, 3)
        y = rng.standard_normal(n) * 10.0 ** rng.uniform(-1, 3)
        points = []
        for sign in (1, -1):
            X2, y2 = X.copy(), y.copy()
            X2[0] = rng.standard_normal(DIM) * 10.0 ** rng.uniform(0, 9)
            y2[0] = sign * 10.0 ** rng.uniform(0, 9)
            risk = TruncatedRisk(loss, Records.clipped(X2, DOMAIN), y2, l2, truncation)
            constraint = L2Ball(1.0) if trial % 2 else None
            radius = 1e-4 * level / (l2 * n)
            found = BallNewton().solve(risk, radius, constraint)
            if found.status is not Status.CERTIFIED:
                found = AcceleratedGradient().solve(risk, radius, constraint)
            assert found.status is Status.CERTIFIED
            points.append(found.point)
        worst = max(worst, np.linalg.norm(points[0] - points[1]) / (2 * level / (l2 * n)))
    assert worst <= 1 + 2e-4
    assert worst > 0.1


def test_the_sensitivity_is_attained() -> None:
    """Two opposite gradients of length C and no other record: absolute loss, one parameter."""
    level, l2, domain = 0.3, 2.0, DataDomain.box(1, 100.0)
    points = []
    for y in (100.0, -100.0):
        risk = TruncatedRisk(
            AbsoluteLoss(), Records.clipped(np.array([[5.0]]), domain), np.array([y]), l2, Truncation(level, 1.0, 1e-3)
        )
        points.append(BallNewton().solve(risk, 1e-9).point)
    assert abs(points[0] - points[1])[0] == pytest.approx(2 * level / l2, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), level=st.floats(0.2, 20.0), l2=st.floats(0.1, 5.0))
def test_bias_lemma(seed, level, l2) -> None:
    """Truncation moves the minimizer by at most ``mean (A_i - C)_+ / l2`` (specification, T4)."""
    truncation = Truncation(level, 1.0, 1e-6)
    risk = heavy(SquaredLoss(100.0), 30, seed, truncation, l2)
    everything = TruncatedRisk(risk.loss, risk.records, risk.targets, l2, Truncation(2e5, 1.0, 1e-6), risk.center)
    ball = L2Ball(1.0)
    found = [BallNewton().solve(r, 1e-6, ball) for r in (risk, everything)]
    assert all(result.status is Status.CERTIFIED for result in found)
    a, b = (result.point for result in found)
    norms = np.sqrt(risk.records.squared_norms())
    largest = norms * (norms + np.abs(risk.targets))  # sup of the gradient norm over the ball
    bound = np.maximum(largest - level, 0).mean() / l2
    assert np.linalg.norm(a - b) <= bound + 3e-6


def test_bias_lemma_is_tight() -> None:
    """One parameter, one heavy record: the bound is attained while the ball does not bind (specification: 0.999)."""
    domain, l2, level = DataDomain.box(1, 100.0), 50.0, 1.0
    X, y = np.array([[4.0]]), np.array([-1e6])
    risks = [
        TruncatedRisk(AbsoluteLoss(), Records.clipped(X, domain), y, l2, Truncation(c, 1.0, 1e-6)) for c in (level, 1e9)
    ]
    a, b = (BallNewton().solve(risk, 1e-9, L2Ball(1.0)).point for risk in risks)
    assert abs(a - b)[0] == pytest.approx((4.0 - level) / l2, rel=1e-6)


@pytest.mark.gate
def test_degenerate_data_are_solved_quietly() -> None:
    accuracy = 1e-4
    for loss, fill in itertools.product(LOSSES, (np.nan, np.inf, 0.0, 1e300, 1e-300)):
        X, y = np.full((5, DIM), fill), np.full(5, fill)
        risk = TruncatedRisk(loss, Records.clipped(X, DOMAIN), y, 0.5, Truncation(1.0, 1.0, 0.01))
        for constraint in (None, L2Ball(0.1)):
            assert AcceleratedGradient().solve(risk, accuracy, constraint).status is Status.CERTIFIED
            assert np.isfinite(BallNewton().solve(risk, 1e-4, constraint).point).all()


def test_public_mistakes_raise() -> None:
    records = Records.clipped(np.zeros((3, DIM)), DOMAIN)
    truncation = Truncation(1.0, 1.0, 1.0)
    with pytest.raises(InvalidParameterError, match="one prediction"):
        TruncatedRisk(SoftmaxLoss(3), records, np.zeros(3), 1.0, truncation)
    with pytest.raises(InvalidParameterError, match="level"):
        Truncation(0.0, 1.0, 1.0)
    with pytest.raises(InvalidDataError, match="targets"):
        TruncatedRisk(LogisticLoss(), records, np.zeros(2), 1.0, truncation)
    with pytest.raises(InvalidDataError, match="center"):
        TruncatedRisk(LogisticLoss(), records, np.zeros(3), 1.0, truncation, np.zeros(2))
