"""Quadratic splines of the residual: Huber's loss, and the smoothed absolute and pinball losses."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _spline, _targets
from dpconvex.losses.base import LinearModelLoss, SmoothLoss, Task, quiet


class ResidualSplineLoss(SmoothLoss):
    """``max of u r - width u^2 / 2 over u in [lower, upper]`` with the residual ``r = z - y``.

    The slope is ``clip(r / width, lower, upper)``. Targets are clipped to the target bound; NaN becomes 0.
    """

    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2

    target_bound: float

    @property
    @abstractmethod
    def spline(self) -> _spline.Spline:
        """The slopes ``lower < 0 < upper`` and the ``width``."""

    @final
    @property
    def slope_bound(self) -> float:
        """The larger of the two extreme slopes."""
        return max(-self.spline.lower, self.spline.upper)

    @final
    @property
    def curvature_bound(self) -> float:
        """``1 / width`` of the spline."""
        return _rounding.ratio_up(1.0, self.spline.width)

    @final
    @property
    def value_at_zero(self) -> float:
        """The loss of the worst residual, plus or minus the target bound."""
        if self.target_bound == math.inf:
            return math.inf
        worst = self.spline.value(np.array([-self.target_bound, self.target_bound]))
        return _rounding.widen_up(float(worst.max()))

    @final
    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,)."""
        return self.spline.value(z - y)

    @final
    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slope in `z`, of shape (n,)."""
        return self.spline.slope(z - y)

    @final
    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``1 / width`` where the slope is not clipped, else 0, of shape (n,)."""
        return self.spline.curvature(z - y)

    @final
    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return `y` (n,) clipped to the target bound (1e100 if that is infinite); NaN becomes 0."""
        return _targets.reals(y, self.target_bound)


@final
@dataclass(frozen=True)
class HuberLoss(ResidualSplineLoss):
    """``r^2 / 2`` for ``|r| <= width``, else ``width (|r| - width / 2)``, with the residual ``r = z - y``.

    Slope at most `width`, curvature at most 1; no q, since the curvature is 1 right up to the largest slope.

    Parameters
    ----------
    width : float
        Residual at which the loss turns linear; between 1e-100 and 1e100, in the unit of the target.
    target_bound : float, optional
        Targets are clipped to it. The slope bound does not need it; `value_at_zero` is infinite without it.
    of_mean : bool
        Whether it stands in for the squared loss: errors are then judged by that one. Needs a target bound.
    """

    name: ClassVar[str] = "huber"

    width: float = 1.0
    target_bound: float = math.inf
    of_mean: bool = False

    def __post_init__(self) -> None:
        _spline.check_width(self.width)
        _targets.check_bound(self.target_bound, finite=self.of_mean)

    @property
    def usual(self) -> LinearModelLoss:
        """The squared loss, where this one stands in for it."""
        from dpconvex.losses.squared import SquaredLoss  # which cuts itself to this one

        return SquaredLoss(self.target_bound, prediction_bound=self.target_bound) if self.of_mean else self

    @property
    def facts(self) -> Mapping[str, float]:
        """The width as ``residual_cap``, where it stands in for the squared loss."""
        return {"residual_cap": self.width} if self.of_mean else {}

    @property
    def spline(self) -> _spline.Spline:
        """Slopes between ``-width`` and ``width``, curvature 1."""
        return _spline.Spline(-self.width, self.width, 1.0)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.3, target_bound=2.0), cls(5.0, target_bound=2.0), cls(0.1, 0.5, of_mean=True))


@final
@dataclass(frozen=True)
class SmoothedAbsoluteLoss(ResidualSplineLoss):
    """The absolute loss with its kink replaced by a parabola: ``max of u r - width u^2 / 2 over |u| <= 1``.

    At most ``width / 2`` below ``|z - y|``. Slope at most 1, curvature at most ``1 / width``; Huber's loss
    divided by `width`.

    Parameters
    ----------
    width : float
        Residual at which the loss turns linear; between 1e-100 and 1e100, in the unit of the target.
    target_bound : float, optional
        Targets are clipped to it; `value_at_zero` is infinite without it.
    """

    name: ClassVar[str] = "smoothed_absolute"

    width: float = 1.0
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _spline.check_width(self.width)
        _targets.check_bound(self.target_bound)

    @property
    def spline(self) -> _spline.Spline:
        """Slopes between -1 and 1."""
        return _spline.Spline(-1.0, 1.0, self.width)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.05, target_bound=2.0))


@final
@dataclass(frozen=True)
class SmoothedPinballLoss(ResidualSplineLoss):
    """The pinball loss with its kink replaced by a parabola.

    ``max of u r - width u^2 / 2 over u in [-quantile, 1 - quantile]``. Below the pinball loss by at most
    ``width max(quantile, 1 - quantile)^2 / 2``; curvature at most ``1 / width``.

    Parameters
    ----------
    quantile : float
        Between 0 and 1, exclusive.
    width : float
        Between 1e-100 and 1e100, in the unit of the target.
    target_bound : float, optional
        Targets are clipped to it; `value_at_zero` is infinite without it.
    """

    name: ClassVar[str] = "smoothed_pinball"

    quantile: float = 0.5
    width: float = 1.0
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _validate.real("quantile", self.quantile, above=0.0, below=1.0)
        _spline.check_width(self.width)
        _targets.check_bound(self.target_bound)

    @property
    def spline(self) -> _spline.Spline:
        """Slopes between ``-quantile`` and ``1 - quantile``."""
        return _spline.Spline(-self.quantile, 1.0 - self.quantile, self.width)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.9, 0.1, target_bound=2.0))
