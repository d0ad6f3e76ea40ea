"""Absolute and pinball losses: medians and other quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _targets
from dpconvex.losses.base import PiecewiseLinearLoss, Task
from dpconvex.losses.huber import SmoothedAbsoluteLoss, SmoothedPinballLoss


@final
@dataclass(frozen=True)
class AbsoluteLoss(PiecewiseLinearLoss):
    """``|z - y|``: least absolute deviations, the regression of the median.

    Parameters
    ----------
    target_bound : float, optional
        Targets are clipped to it (NaN becomes 0). The slope bound does not need it; `value_at_zero` is
        infinite without it.
    """

    name: ClassVar[str] = "absolute"
    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2

    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _targets.check_bound(self.target_bound)

    @property
    def slope_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def value_at_zero(self) -> float:
        """The target bound."""
        return self.target_bound

    def slope_interval(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return [-1, 1] for every record, each end of shape (n,)."""
        return np.full_like(y, -1.0), np.ones_like(y)

    def smoothed(self, width: float) -> SmoothedAbsoluteLoss:
        """Return Huber's loss divided by its width, at most ``width / 2`` below the absolute loss."""
        return SmoothedAbsoluteLoss(width, self.target_bound)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return `y` (n,) clipped to the target bound (1e100 if that is infinite); NaN becomes 0."""
        return _targets.reals(y, self.target_bound)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(2.0))


@final
@dataclass(frozen=True)
class PinballLoss(PiecewiseLinearLoss):
    """``max(quantile (y - z), (1 - quantile) (z - y))``: the regression of a quantile.

    Parameters
    ----------
    quantile : float
        Between 0 and 1, exclusive; 1/2 gives half the absolute loss.
    target_bound : float, optional
        Targets are clipped to it (NaN becomes 0). The slope bound does not need it; `value_at_zero` is
        infinite without it.
    """

    name: ClassVar[str] = "pinball"
    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2

    quantile: float = 0.5
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        _validate.real("quantile", self.quantile, above=0.0, below=1.0)
        _targets.check_bound(self.target_bound)

    @property
    def slope_bound(self) -> float:
        """The larger of ``quantile`` and ``1 - quantile``."""
        return max(self.quantile, 1.0 - self.quantile)

    @property
    def value_at_zero(self) -> float:
        """``target_bound`` times the slope bound."""
        if self.target_bound == math.inf:
            return math.inf
        return _rounding.product_up(self.slope_bound, self.target_bound)

    def slope_interval(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return [-quantile, 1 - quantile] for every record, each end of shape (n,)."""
        return np.full_like(y, -self.quantile), np.full_like(y, 1.0 - self.quantile)

    def smoothed(self, width: float) -> SmoothedPinballLoss:
        """Return the pinball loss with a parabola at its kink; see `PiecewiseLinearLoss.smoothed`."""
        return SmoothedPinballLoss(self.quantile, width, self.target_bound)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return `y` (n,) clipped to the target bound (1e100 if that is infinite); NaN becomes 0."""
        return _targets.reals(y, self.target_bound)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.9, 2.0), cls(0.05, 2.0))
