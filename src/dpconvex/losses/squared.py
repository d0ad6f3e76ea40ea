"""Squared loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _targets
from dpconvex.losses.base import SmoothLoss, Task, quiet
from dpconvex.losses.huber import HuberLoss


@final
@dataclass(frozen=True)
class SquaredLoss(SmoothLoss):
    """``(z - y)^2 / 2`` with bounded targets, extended linearly beyond the prediction bound.

    For ``|z| > prediction_bound`` the loss continues along its tangent line, so that its slope bound
    ``prediction_bound + target_bound`` holds for every prediction. Over parameters of norm at most R and
    features of norm at most X, ``prediction_bound = R X`` leaves the problem unchanged. Targets are
    clipped; NaN becomes 0.

    Parameters
    ----------
    target_bound : float
        Positive, at most 1e100, in the unit of the target.
    prediction_bound : float, optional
        At least `target_bound`, at most 1e100, in the unit of the target. Infinite (the default): no extension and no
        slope bound.
    """

    name: ClassVar[str] = "squared"
    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2

    target_bound: float
    prediction_bound: float = math.inf

    def __post_init__(self) -> None:
        _targets.check_bound(self.target_bound, finite=True)
        if self.prediction_bound != math.inf:
            _validate.real(
                "prediction_bound",
                self.prediction_bound,
                at_least=self.target_bound,
                at_most=_targets.LARGEST_TARGET,
                remedy="A tangent line begun short of a target would fall without bound",
            )

    @property
    def slope_bound(self) -> float:
        """``prediction_bound + target_bound``."""
        if self.prediction_bound == math.inf:
            return math.inf
        return _rounding.sum_up((self.prediction_bound, self.target_bound))

    @property
    def curvature_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def value_at_zero(self) -> float:
        """``target_bound ** 2 / 2``."""
        return _rounding.product_up(0.5, self.target_bound, self.target_bound)

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,)."""
        inside = self._inside(z)
        slope = inside - y
        # Half of the slope first: the square of the slope may overflow where the loss does not.
        return slope * (0.5 * slope + (z - inside))

    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the residual of the prediction clipped to its bound, of shape (n,)."""
        return self._inside(z) - y

    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return 1 within the prediction bound and 0 beyond, of shape (n,)."""
        return np.where(np.abs(z) <= self.prediction_bound, 1.0, 0.0)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return `y` clipped to the target bound, of shape (n,); NaN becomes 0."""
        return _targets.reals(y, self.target_bound)

    def cut(self, level: float) -> HuberLoss | None:
        """Return Huber's loss: the same slopes over predictions within the bound, clipped to [-level, level].

        None where the level is above every slope.

        Parameters
        ----------
        level : float
            Positive.
        """
        return HuberLoss(level, self.target_bound) if level < self.slope_bound else None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(1.0), cls(2.0, prediction_bound=3.0))

    def _inside(self, z: FloatArray) -> FloatArray:
        return np.clip(z, -self.prediction_bound, self.prediction_bound)
