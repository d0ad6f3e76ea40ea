"""The objective against a dense oracle and finite differences, and its constants against searches."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LOSSES, HingeLoss, LogisticLoss, SmoothLoss, SoftmaxLoss, SquaredLoss
from dpconvex.problems import DataDomain, Records, RegularizedRisk
from instances import instances

pytestmark = pytest.mark.together

EXAMPLES = [loss for kind in LOSSES for loss in instances(kind)]


def make(loss, n=60, p=3, l2=0.1, linear=True, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = rng.integers(0, loss.n_outputs, n) if loss.n_outputs > 1 else rng.standard_normal(n)
    records = Records.clipped(X, DataDomain.l2_ball(p, 1.5).with_intercept())
    b = rng.standard_normal(loss.n_outputs * records.dim) if linear else None
    return RegularizedRisk(loss, records, y, l2, b)


def oracle_value(objective, w):
    X = objective.records.rows(slice(None))
    W = w.reshape(objective.loss.n_outputs, -1)
    z = X @ W[0] if len(W) == 1 else X @ W.T
    linear = 0.0 if objective.linear is None else objective.linear @ w
    return objective.loss.value(z, objective.targets).mean() + objective.l2 / 2 * w @ w + linear


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
@pytest.mark.parametrize("linear", [False, True])
def test_values_and_gradients(loss, linear):
    objective = make(loss, linear=linear)
    rng = np.random.default_rng(1)
    for _ in range(5):
        w, v = rng.standard_normal((2, objective.dim))
        value, g = objective.value_and_gradient(w)
        assert value == objective.value(w) == pytest.approx(oracle_value(objective, w), rel=1e-12)
        np.testing.assert_array_equal(g, objective.gradient(w))
        h = 1e-6
        slope = (objective.value(w + h * v) - objective.value(w - h * v)) / (2 * h)
        assert slope == pytest.approx(g @ v, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("loss", [loss for loss in EXAMPLES if isinstance(loss, SmoothLoss)], ids=repr)
def test_hessians(loss):
    objective = make(loss)
    rng = np.random.default_rng(2)
    w, v = rng.standard_normal((2, objective.dim))
    H = objective.hessian(w)
    np.testing.assert_allclose(H, H.T, rtol=1e-12)
    np.testing.assert_allclose(objective.hessian_product(w, v), H @ v, rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(H)[0] >= objective.strong_convexity * (1 - 1e-4)
    assert np.linalg.eigvalsh(H)[-1] <= objective.smoothness
    h = 1e-7  # small: second derivatives of some losses jump
    change = (objective.gradient(w + h * v) - objective.gradient(w - h * v)) / (2 * h)
    np.testing.assert_allclose(change, H @ v, atol=1e-5)


def test_softmax_passes_in_several_blocks_agree_with_one_record_at_a_time():
    objective = make(SoftmaxLoss(3), n=50_000, p=5)
    rng = np.random.default_rng(3)
    w, v = rng.standard_normal((2, objective.dim))
    X = objective.records.rows(slice(None))
    p = objective.loss.probabilities(X @ w.reshape(3, -1).T)
    dz = X @ v.reshape(3, -1).T
    expected = ((p * dz - p * (p * dz).sum(1, keepdims=True)).T @ X).ravel() / len(X) + objective.l2 * v
    np.testing.assert_allclose(objective.hessian_product(w, v), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(objective.hessian(w) @ v, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", EXAMPLES, ids=repr)
def test_initial_gap_and_lipschitz_constants_hold(loss):
    for seed in range(5):
        objective = make(loss, seed=seed)
        rng = np.random.default_rng(seed)
        start = objective.value(np.zeros(objective.dim))
        for size in (0.1, 1.0, 10.0):
            w = rng.standard_normal(objective.dim)
            w *= size / np.linalg.norm(w)
            assert start - objective.value(w) <= objective.initial_gap
            assert np.linalg.norm(objective.gradient(w)) <= objective.lipschitz_within(size)


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(1.0), SquaredLoss(1e6)], ids=repr)
def test_rounding_slack_covers_the_error_of_float64(loss):
    objective = make(loss, n=3000, p=40)
    w = 20 * np.random.default_rng(4).standard_normal(objective.dim)
    X = objective.records.rows(slice(None)).astype(np.longdouble)
    y = objective.targets.astype(np.longdouble)
    z = X @ w.astype(np.longdouble)
    slopes = z - y if loss.name == "squared" else -y / (1 + np.exp(y * z))
    exact = slopes @ X / len(X) + objective.l2 * w.astype(np.longdouble) + objective.linear
    g = objective.gradient(w)
    error = float(np.linalg.norm(g - exact))
    assert 0 < error <= objective.gradient_rounding(w)
    assert objective.gradient_norm_bound(g, w) >= np.linalg.norm(exact)


@pytest.mark.parametrize(("n", "p"), [(200_000, 3), (50_000, 8), (5_000, 300)])
@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_rounding_slack_covers_equal_records_and_predictions_that_cancel(n, p, size):
    """Equal summands round alike, and a prediction of 1 is the difference of numbers of the size of the parameters."""
    generator = np.random.default_rng(p)
    x = generator.uniform(0.5, 1.0, p)
    w = size * generator.standard_normal(p)
    w -= x * (w @ x - 1.0) / (x @ x)
    X, y = np.tile(x, (n, 1)), np.ones(n)
    objective = RegularizedRisk(LogisticLoss(), Records.clipped(X, DataDomain.box(p, 1.0)), y, 1e-6)
    z = x.astype(np.longdouble) @ w.astype(np.longdouble)
    exact = -x.astype(np.longdouble) / (1 + np.exp(z)) + np.longdouble(1e-6) * w.astype(np.longdouble)
    error = float(np.linalg.norm(objective.gradient(w) - exact))
    slack = objective.gradient_rounding(w)
    assert error <= slack
    alike = 1e-13 * (objective.lipschitz + objective.smoothness * np.linalg.norm(w))
    assert slack < (0.05 if size == 1e6 and p < 10 else 1.01) * alike  # few terms err less


@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss()], ids=repr)
@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_rounding_slack_covers_many_equal_records_of_few_columns(loss, p):
    """Summands that all round the same way: 200,000 in one sum would err by 8 times the slack."""
    generator = np.random.default_rng(p)
    worst, n = 0.0, 200_000
    for _ in range(8):
        x, w = generator.uniform(0.9, 1.0, p), generator.uniform(-0.3, 0.3, p)
        records = Records.clipped(np.tile(x, (n, 1)), DataDomain.box(p, 1.0))
        objective = RegularizedRisk(loss, records, np.ones(n), 1e-3)
        slope = float(loss.derivative(np.array([w @ x]), np.ones(1))[0])
        exact = slope * x.astype(np.longdouble) + np.longdouble(1e-3) * w.astype(np.longdouble)
        error = float(np.linalg.norm(objective.gradient(w) - exact))
        worst = max(worst, error / objective.gradient_rounding(w))
    assert worst <= 0.5


def test_targets_of_any_content_are_moved_into_the_domain():
    X = np.zeros((4, 2))
    records = Records.clipped(X, DataDomain.box(2, 1.0))
    objective = RegularizedRisk(HingeLoss(), records, np.array([np.nan, np.inf, -np.inf, 7.0]), 1.0)
    assert set(objective.targets) <= {-1.0, 1.0}


def test_public_form_is_checked():
    records = Records.clipped(np.zeros((4, 2)), DataDomain.box(2, 1.0))
    with pytest.raises(InvalidDataError, match="targets"):
        RegularizedRisk(HingeLoss(), records, np.zeros(5), 1.0)
    with pytest.raises(InvalidDataError, match="linear"):
        RegularizedRisk(HingeLoss(), records, np.zeros(4), 1.0, np.zeros(3))
    with pytest.raises(InvalidParameterError, match="l2="):
        RegularizedRisk(HingeLoss(), records, np.zeros(4), -1.0)
    with pytest.raises(InvalidParameterError, match="smooth"):
        RegularizedRisk(HingeLoss(), records, np.zeros(4), 1.0).hessian(np.zeros(2))
