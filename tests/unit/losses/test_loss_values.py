"""Particular losses: known values, relations between losses, accuracy in the tails, parameter checks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import special
from sklearn.metrics import mean_pinball_loss

from dpconvex.errors import InvalidParameterError
from dpconvex.losses import (
    AbsoluteLoss,
    HingeLoss,
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    PinballLoss,
    PseudoHuberLoss,
    SmoothedAbsoluteLoss,
    SmoothedHingeLoss,
    SmoothedPinballLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from dpconvex.problems import DataDomain, LinearModelProblem

pytestmark = pytest.mark.together

GRID = np.concatenate([np.linspace(-9, 9, 1001), [-800.0, -1e-8, 1e-12, 800.0]])
ONES = np.ones_like(GRID)
ZEROS = np.zeros_like(GRID)


def test_logistic_is_minus_log_expit() -> None:
    for sign in (-1.0, 1.0):
        value = LogisticLoss().value(GRID, sign * ONES)
        np.testing.assert_allclose(value, -special.log_expit(sign * GRID), rtol=1e-14)
        slope = LogisticLoss().derivative(GRID, sign * ONES)
        # expit itself loses relative accuracy where it underflows
        np.testing.assert_allclose(slope, -sign * special.expit(-sign * GRID), rtol=1e-14, atol=1e-307)


def test_logistic_tail_keeps_relative_accuracy() -> None:
    """log(1 + e^-m) = e^-m (1 - e^-m / 2 + ...) for large m."""
    assert LogisticLoss().value(np.array([50.0]), np.ones(1))[0] == pytest.approx(math.exp(-50), rel=1e-15)
    assert LogisticLoss().hessian_weights(np.array([50.0]), np.ones(1))[0] == pytest.approx(math.exp(-50), rel=1e-14)


def test_logistic_constants() -> None:
    """Slope at most 1, curvature at most 1/4: X and X^2 / 4 for features of norm X."""
    task = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(2, 3.0), 100, 1.0)
    assert (task.lipschitz, task.smoothness) == (pytest.approx(3.0, rel=1e-14), pytest.approx(2.25, rel=1e-14))


def test_constants_are_rounded_up() -> None:
    task = LinearModelProblem(HuberLoss(0.1), DataDomain.l2_ball(2, 0.3), 100, 1.0)
    assert Fraction(task.lipschitz) >= Fraction(0.1) * Fraction(0.3)
    assert Fraction(task.smoothness) >= Fraction(0.3) ** 2
    assert Fraction(SoftmaxLoss(2).slope_bound) ** 2 >= 2
    assert all(Fraction(SoftmaxLoss(k).curvature_trace) >= 1 - Fraction(1, k) for k in range(2, 60))
    assert all(Fraction(SmoothedHingeLoss(h).curvature_bound) * Fraction(h) >= 1 for h in (0.1, 0.3, 0.7, 3.0))


def test_softmax_of_scipy() -> None:
    rng = np.random.default_rng(0)
    z, y = 5 * rng.standard_normal((500, 4)), rng.integers(0, 4, 500)
    loss, own = SoftmaxLoss(4), np.arange(500)
    np.testing.assert_allclose(loss.value(z, y.astype(float)), -special.log_softmax(z, axis=1)[own, y], rtol=1e-10)
    expected = special.softmax(z, axis=1)
    np.testing.assert_allclose(loss.probabilities(z), expected, rtol=1e-13)
    expected[own, y] -= 1
    np.testing.assert_allclose(loss.derivative(z, y.astype(float)), expected, atol=1e-15)


def test_softmax_of_two_classes_is_logistic_in_the_difference() -> None:
    z = np.column_stack([0 * GRID, GRID])
    for label in (0.0, 1.0):
        sign = (2 * label - 1) * ONES
        np.testing.assert_allclose(
            SoftmaxLoss(2).value(z, label * ONES), LogisticLoss().value(GRID, sign), rtol=1e-12, atol=1e-15
        )
        np.testing.assert_allclose(
            SoftmaxLoss(2).derivative(z, label * ONES)[:, 1], LogisticLoss().derivative(GRID, sign), atol=1e-15
        )


def test_softmax_derivative_does_not_cancel_near_a_sure_class() -> None:
    slope = SoftmaxLoss(3).derivative(np.array([[60.0, 0.0, 0.0]]), np.zeros(1))
    np.testing.assert_allclose(slope, [[-2 * math.exp(-60), math.exp(-60), math.exp(-60)]], rtol=1e-13)


def test_huber_and_pseudo_huber_of_scipy() -> None:
    for width in (0.3, 1.0, 4.0):
        np.testing.assert_allclose(HuberLoss(width).value(GRID, ZEROS), special.huber(width, GRID), rtol=1e-14)
        expected = special.pseudo_huber(width, GRID)
        np.testing.assert_allclose(PseudoHuberLoss(width).value(GRID, ZEROS), expected, rtol=1e-7)


@pytest.mark.parametrize("width", [1e-3, 1.0, 40.0])
def test_log_cosh(width: float) -> None:
    moderate = GRID[np.abs(GRID / width) < 300]
    t = moderate / width
    # log cosh t = log1p(2 sinh(t / 2)^2), accurate for every t whose cosh is finite
    expected = width**2 * np.log1p(2 * np.square(np.sinh(t / 2)))
    value = LogCoshLoss(width).value(moderate, 0 * moderate)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    far = LogCoshLoss(width).value(np.array([1e6 * width]), np.zeros(1))[0]
    assert far == pytest.approx(width**2 * (1e6 - math.log(2)), rel=1e-15)


def test_small_residuals_are_quadratic_to_full_accuracy() -> None:
    r = np.array([1e-12, 1e-9, 1e-6])
    for loss in (HuberLoss(), PseudoHuberLoss(), LogCoshLoss(), SmoothedAbsoluteLoss()):
        np.testing.assert_allclose(loss.value(r, 0 * r), r * r / 2, rtol=1e-11)


def test_smoothed_absolute_is_huber_over_its_width() -> None:
    np.testing.assert_allclose(
        0.3 * SmoothedAbsoluteLoss(0.3).value(GRID, ZEROS), HuberLoss(0.3).value(GRID, ZEROS), rtol=1e-14
    )


def test_pinball_of_sklearn() -> None:
    for quantile in (0.05, 0.5, 0.9):
        value = PinballLoss(quantile).value(GRID, np.cos(GRID)).mean()
        assert value == pytest.approx(mean_pinball_loss(np.cos(GRID), GRID, alpha=quantile), rel=1e-13)
    half = PinballLoss(0.5).value(GRID, ZEROS)
    np.testing.assert_array_equal(2 * half, AbsoluteLoss().value(GRID, ZEROS))


def test_smoothed_pinball_of_one_half() -> None:
    """max over |u| <= 1/2 of u r - w u^2 / 2 is half the smoothed absolute loss of width w / 2."""
    np.testing.assert_allclose(
        SmoothedPinballLoss(0.5, 0.8).value(GRID, ZEROS), SmoothedAbsoluteLoss(0.4).value(GRID, ZEROS) / 2, rtol=1e-14
    )


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.85])
def test_smoothed_pinball_about_its_middle_is_the_mean_over_moved_targets(quantile: float) -> None:
    width = 0.8
    loss, moves = SmoothedPinballLoss(quantile, width), (np.arange(4000) + 0.5) / 4000 - 0.5
    slopes = [PinballLoss(quantile).derivative(np.full(4000, z), width * moves).mean() for z in GRID]
    np.testing.assert_allclose(loss.derivative(GRID - loss.offset[0], ZEROS), slopes, atol=3e-4)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_smoothed_hinge_is_a_clipped_ramp_in_slope(sign: float) -> None:
    """Slope ``-clip((1 + h/2 - m) / h, 0, 1)`` in the margin m; with center 1 above the hinge by at most h / 8."""
    h = 0.6
    z = np.append(GRID, sign)
    y = np.full_like(z, sign)
    margin = sign * z
    slope = SmoothedHingeLoss(h).derivative(z, y)
    np.testing.assert_allclose(sign * slope, -np.clip((1 + h / 2 - margin) / h, 0, 1), rtol=1e-13, atol=1e-15)
    gap = SmoothedHingeLoss(h).value(z, y) - HingeLoss().value(z, y)
    assert gap.min() >= -1e-13
    assert gap.max() == pytest.approx(h / 8, rel=1e-12)


def test_smoothed_hinge_from_the_hinge_has_its_end_at_one() -> None:
    loss = HingeLoss().smoothed(0.5)
    assert loss == SmoothedHingeLoss(0.5, center=0.75)
    assert loss.value(np.array([0.5, 1.0]), np.ones(2)).tolist() == [0.25, 0.0]


def test_squared_loss_continues_along_its_tangent() -> None:
    plain, bounded = SquaredLoss(2.0), SquaredLoss(2.0, prediction_bound=3.0)
    y = np.array([-2.0, 0.5, 2.0])
    inside = np.array([-3.0, 1.0, 3.0])
    np.testing.assert_array_equal(bounded.value(inside, y), (inside - y) ** 2 / 2)
    outside = np.array([-7.0, 4.0, 9.0])
    edge = np.clip(outside, -3, 3)
    np.testing.assert_allclose(bounded.value(outside, y), (edge - y) ** 2 / 2 + (edge - y) * (outside - edge))
    np.testing.assert_array_equal(plain.value(outside, y), (outside - y) ** 2 / 2)
    assert bounded.slope_bound == 5.0
    assert plain.slope_bound == math.inf


def test_rules_for_targets() -> None:
    raw = np.array([np.nan, -np.inf, np.inf, 0.0, 0.4, 1.6, -3.0, 9.0])
    assert LogisticLoss().clip_targets(raw).tolist() == [-1, -1, 1, -1, 1, 1, -1, 1]
    assert SoftmaxLoss(3).clip_targets(raw).tolist() == [0, 0, 2, 0, 0, 2, 0, 2]
    assert SquaredLoss(2.0).clip_targets(raw).tolist() == [0, -2, 2, 0, 0.4, 1.6, -2, 2]
    assert AbsoluteLoss().clip_targets(raw).tolist() == [0, -1e100, 1e100, 0, 0.4, 1.6, -3, 9]


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda bad: SoftmaxLoss(bad), "n_classes"),
        (lambda bad: SquaredLoss(bad), "target_bound"),
        (lambda bad: SquaredLoss(1.0, bad), "prediction_bound"),
        (lambda bad: HuberLoss(bad), "width"),
        (lambda bad: HuberLoss(1.0, bad), "target_bound"),
        (lambda bad: PseudoHuberLoss(bad), "width"),
        (lambda bad: LogCoshLoss(bad), "width"),
        (lambda bad: SmoothedHingeLoss(bad), "width"),
        (lambda bad: SmoothedAbsoluteLoss(bad), "width"),
        (lambda bad: SmoothedPinballLoss(0.5, bad), "width"),
        (lambda bad: AbsoluteLoss(bad), "target_bound"),
        (lambda bad: PinballLoss(bad), "quantile"),
        (lambda bad: SmoothedPinballLoss(bad), "quantile"),
    ],
)
@pytest.mark.parametrize("bad", [0, -1.0, math.nan, -math.inf, 1e200, True, "1", None])
def test_parameters_are_checked(build: Any, name: str, bad: Any) -> None:
    with pytest.raises(InvalidParameterError, match=f"^{name}="):
        build(bad)


def test_center_and_missing_bound_are_checked() -> None:
    with pytest.raises(InvalidParameterError, match=r"^center="):
        SmoothedHingeLoss(1.0, center=math.nan)
    with pytest.raises(InvalidParameterError, match=r"^target_bound=inf.*public knowledge"):
        SquaredLoss(math.inf)
    with pytest.raises(InvalidParameterError, match=r"^n_classes=1"):
        SoftmaxLoss(1)


def test_squared_loss_keeps_a_minimum_for_every_target():
    from dpconvex.errors import InvalidParameterError
    from dpconvex.losses import SquaredLoss

    with pytest.raises(InvalidParameterError, match=r"prediction_bound=0\.5: must be a finite number >= 1"):
        SquaredLoss(1.0, prediction_bound=0.5)
