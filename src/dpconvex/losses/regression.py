"""Losses of regression: squared, Huber's and its relatives, absolute and pinball, with their smoothings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import REQUIRED, Array, Floats, final_dataclass, forwarded, quiet, set_fields
from dpconvex.losses import base


class _NumericLoss(base.LinearModelLoss):
    """A loss of numbers, which are clipped to the target bound; NaN becomes 0."""

    task = "regression"
    target_bound: float

    def __post_init__(self) -> None:
        base.check_bound(self.target_bound)

    def clip_targets(self, y: Array) -> Floats:
        return base.reals(y, self.target_bound)


class _WideLoss(_NumericLoss, base.SmoothLoss):
    """A loss whose slope, a function of the residual ``r = z - y``, changes over a stretch of the order of `width`."""

    width: float

    def __post_init__(self) -> None:
        base.check_width(self.width)
        super().__post_init__()

    @property
    def value_at_zero(self) -> float:
        if self.target_bound == math.inf:
            return math.inf
        ends = np.array([-self.target_bound, self.target_bound])
        return _rounding.widen_up(float(self.value(ends, np.zeros(2)).max()))


@final_dataclass
class SquaredLoss(_NumericLoss, base.SmoothLoss):
    """``(z - y)^2 / 2`` with bounded targets, extended linearly beyond the prediction bound.

    For ``|z| > prediction_bound`` the loss continues along its tangent, so that its slope bound ``prediction_bound +
    target_bound`` holds for every prediction. Over parameters of norm at most R and features of norm at most X,
    ``prediction_bound = R X`` leaves the problem unchanged.
    """

    name = "squared"
    curvature_bound = 1.0
    target_bound: float  #: positive, at most 1e100, in the unit of the target
    #: At least `target_bound`, at most 1e100. Infinite (the default): no extension and no slope bound.
    prediction_bound: float = math.inf

    def __post_init__(self) -> None:
        base.check_bound(self.target_bound, finite=True)
        if self.prediction_bound != math.inf:
            least, most = self.target_bound, base.LARGEST_TARGET
            remedy = "A tangent line begun short of a target would fall without bound"
            _validate.real("prediction_bound", self.prediction_bound, at_least=least, at_most=most, remedy=remedy)

    @property
    def slope_bound(self) -> float:
        if self.prediction_bound == math.inf:
            return math.inf
        return _rounding.sum_up((self.prediction_bound, self.target_bound))

    @property
    def value_at_zero(self) -> float:
        return _rounding.product_up(0.5, self.target_bound, self.target_bound)

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        inside = self._inside(z)
        slope = inside - y
        # Half of the slope first: the square of the slope may overflow where the loss does not.
        return slope * (0.5 * slope + (z - inside))

    def derivative(self, z: Floats, y: Floats) -> Floats:
        return self._inside(z) - y

    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        return np.where(np.abs(z) <= self.prediction_bound, 1.0, 0.0)

    def cut(self, level: float) -> "HuberLoss | None":
        """Return Huber's loss: the same slopes over predictions within the bound, clipped to [-level, level]."""
        return HuberLoss(level, self.target_bound) if level < self.slope_bound else None

    def _inside(self, z: Floats) -> Floats:
        return np.clip(z, -self.prediction_bound, self.prediction_bound)


class ResidualSplineLoss(_WideLoss):
    """``max of u r - width u^2 / 2 over u in [lower, upper]``, slope ``clip(r/width, lower, upper)``, ``r = z - y``.

    Or a `saturating` spline, whose curvature vanishes as the slope nears its largest size.
    """

    spline: base.Spline = REQUIRED  #: The slopes ``lower < 0 < upper`` and the ``width``.
    self_concordance = forwarded("spline", "self_concordance")

    @property
    def slope_bound(self) -> float:
        return max(-self.spline.lower, self.spline.upper)

    @property
    def curvature_bound(self) -> float:
        return _rounding.ratio_up(1.0, self.spline.width)

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        return self.spline.value(z - y)

    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        return self.spline.slope(z - y)

    @quiet
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        return self.spline.curvature(z - y)


@final_dataclass
class HuberLoss(ResidualSplineLoss):
    """``r^2 / 2`` for ``|r| <= width``, else ``width (|r| - width / 2)``, with the residual ``r = z - y``.

    Slope at most `width`, curvature at most 1; no q, since the curvature is 1 right up to the largest slope, unless it
    is `saturating`: then the slope bends from two thirds of `width` on, and q is 3.
    """

    name = "huber"
    width: float = 1.0  #: residual at which the loss turns linear; between 1e-100 and 1e100, in the unit of the target
    target_bound: float = math.inf  #: targets are clipped to it; `value_at_zero` is infinite without it
    #: Whether it is a surrogate of the squared loss, in which errors are then judged. Needs a target bound.
    of_mean: bool = False
    saturating: bool = False  #: whether the slope bends before it reaches `width`, as in `base.Spline`

    def __post_init__(self) -> None:
        base.check_width(self.width)
        base.check_bound(self.target_bound, finite=self.of_mean)

    @property
    def usual(self) -> base.LinearModelLoss:
        return SquaredLoss(self.target_bound, prediction_bound=self.target_bound) if self.of_mean else self

    @property
    def facts(self) -> Mapping[str, float]:
        return {"residual_cap": self.width} if self.of_mean else {}

    @property
    def spline(self) -> base.Spline:
        return base.Spline(-self.width, self.width, 1.0, self.saturating)


@final_dataclass
class SmoothedAbsoluteLoss(ResidualSplineLoss):
    """The absolute loss with its kink replaced by a parabola: ``max of u r - width u^2 / 2 over |u| <= 1``.

    At most ``width / 2`` below ``|z - y|``; slope at most 1, curvature at most ``1 / width``. Huber's loss / `width`.
    """

    name = "smoothed_absolute"
    width: float = 1.0  #: residual at which the loss turns linear; between 1e-100 and 1e100, in the unit of the target
    target_bound: float = math.inf  #: targets are clipped to it; `value_at_zero` is infinite without it

    @property
    def spline(self) -> base.Spline:
        return base.Spline(-1.0, 1.0, self.width)


@final_dataclass
class SmoothedPinballLoss(ResidualSplineLoss):
    """The pinball loss with its kink replaced by a parabola.

    ``max of u r - width u^2 / 2 over u in [-quantile, 1 - quantile]``: below the pinball loss by at most ``width
    max(quantile, 1 - quantile)^2 / 2`` (5/9 for 1/2 where it is `saturating`); curvature at most ``1 / width``.

    The parabola ends ``width quantile`` below the target and ``width (1 - quantile)`` above it. About its middle, which
    is where `offset` moves predictions, it is the pinball loss averaged over targets moved by up to half of the width:
    where their density is even, its minimizer is the quantile (Fernandes, Guerre and Horta 2021). Where it is
    `saturating`, the slopes bend, the steeper one from two thirds of its size on, and so does `offset`.
    """

    name = "smoothed_pinball"
    quantile: float = 0.5  #: between 0 and 1, exclusive
    width: float = 1.0  #: between 1e-100 and 1e100, in the unit of the target
    target_bound: float = math.inf  #: targets are clipped to it; `value_at_zero` is infinite without it
    saturating: bool = False  #: whether slopes bend before they reach an end, as in `base.Spline`

    def __post_init__(self) -> None:
        set_fields(self, quantile=_validate.real("quantile", self.quantile, above=0.0, below=1.0))
        super().__post_init__()

    @property
    def spline(self) -> base.Spline:
        return base.Spline(-self.quantile, 1.0 - self.quantile, self.width, self.saturating)

    @property
    def spare_tail(self) -> float:
        """Targets pull at a quantile alike wherever they are beyond it; so that others' quantiles stay in the range."""
        return 0.04 * min(self.quantile, 1.0 - self.quantile)

    @property
    def offset(self) -> Floats:
        spline = self.spline
        return np.array([self.width * (spline.short(-spline.lower) - spline.short(spline.upper))])


@dataclass(frozen=True)
class _SaturatingLoss(_WideLoss):
    """Base of the next two losses, which are even in the residual; curvature vanishes as the slope saturates."""

    curvature_bound = 1.0
    #: Largest slope; about ``r^2 / 2`` for residuals well below it. Between 1e-100 and 1e100, in the target's unit.
    width: float = 1.0
    target_bound: float = math.inf  #: targets are clipped to it; `value_at_zero` is infinite without it
    slope_bound = forwarded("width")


@final_dataclass
class PseudoHuberLoss(_SaturatingLoss):
    """``width^2 (sqrt(1 + (r / width)^2) - 1)``, ``r = z - y``. Slope at most `width`, curvature at most 1."""

    name = "pseudo_huber"
    # 3 sqrt(3) / 4: with a = |phi'| / A, phi'' = (1 - a^2)^1.5; attained at a = 1/2.
    self_concordance = _rounding.widen_up(0.75 * math.sqrt(3.0))

    @property
    def spare_tail(self) -> float:
        """Far beyond `width` targets pull alike. Else range and default width grow with the records, up to the mean."""
        return 0.04 * min(1.0, 0.2 / self.width) ** 2

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        r = np.abs(z - y)
        return self.width * r * (r / (np.hypot(self.width, r) + self.width))

    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return ``r / sqrt(1 + (r / width)^2)``, of shape (n,)."""
        r = z - y
        return self.width * (r / np.hypot(self.width, r))

    @quiet
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        """Return ``(1 + (r / width)^2)^(-3/2)``, of shape (n,)."""
        cosine = self.width / np.hypot(self.width, z - y)
        return cosine * cosine * cosine


@final_dataclass
class LogCoshLoss(_SaturatingLoss):
    """``width^2 log cosh(r / width)`` with the residual ``r = z - y``. Slope at most `width`, curvature at most 1."""

    name = "log_cosh"
    self_concordance = 2.0  # with a = |phi'| / A, phi'' = (1 - a) (1 + a)

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        r = np.abs(z - y)
        t = r / self.width
        # log cosh t = -log(1 - tanh^2 t) / 2 for small t; t - log 2 + log(1 + exp(-2 t)) for large t.
        small = -0.5 * np.log1p(-np.square(np.tanh(np.minimum(t, 1.0))))
        large = self.width * r + self.width**2 * (np.log1p(np.exp(-2.0 * t)) - math.log(2.0))
        return np.where(t < 1.0, self.width**2 * small, large)

    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        return self.width * np.tanh((z - y) / self.width)

    @quiet
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        """Return ``1 / cosh(r / width)^2``, of shape (n,)."""
        small = np.exp(-np.abs(z - y) / self.width)
        return np.square(2.0 * small / (1.0 + small * small))


@final_dataclass
class AbsoluteLoss(_NumericLoss, base.PiecewiseLinearLoss):
    """``|z - y|``: least absolute deviations, the regression of the median."""

    name = "absolute"
    slope_bound = 1.0
    target_bound: float = math.inf  #: targets are clipped to it; `value_at_zero` is infinite without it
    value_at_zero = forwarded("target_bound")

    def slope_interval(self, y: Floats) -> tuple[Floats, Floats]:
        return np.full_like(y, -1.0), np.ones_like(y)

    def smoothed(self, width: float) -> SmoothedAbsoluteLoss:
        return SmoothedAbsoluteLoss(width, self.target_bound)


@final_dataclass
class PinballLoss(_NumericLoss, base.PiecewiseLinearLoss):
    """``max(quantile (y - z), (1 - quantile) (z - y))``: the regression of a quantile."""

    name = "pinball"
    quantile: float = 0.5  #: between 0 and 1, exclusive; 1/2 gives half the absolute loss
    target_bound: float = math.inf  #: targets are clipped to it; `value_at_zero` is infinite without it

    def __post_init__(self) -> None:
        set_fields(self, quantile=_validate.real("quantile", self.quantile, above=0.0, below=1.0))
        super().__post_init__()

    @property
    def slope_bound(self) -> float:
        return max(self.quantile, 1.0 - self.quantile)

    @property
    def value_at_zero(self) -> float:
        bound = self.target_bound
        return bound if bound == math.inf else _rounding.product_up(self.slope_bound, bound)

    def slope_interval(self, y: Floats) -> tuple[Floats, Floats]:
        return np.full_like(y, -self.quantile), np.full_like(y, 1.0 - self.quantile)

    @property
    def spare_tail(self) -> float:
        return self.smoothed(1.0).spare_tail

    def smoothed(self, width: float) -> SmoothedPinballLoss:
        return SmoothedPinballLoss(self.quantile, width, self.target_bound)
