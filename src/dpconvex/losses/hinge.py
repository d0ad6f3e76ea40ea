"""Hinge loss and its quadratic smoothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _spline, _targets
from dpconvex.losses.base import PiecewiseLinearLoss, SmoothLoss, Task, quiet


@final
@dataclass(frozen=True)
class HingeLoss(PiecewiseLinearLoss):
    """``max(1 - y z, 0)`` with targets -1 and +1: the loss of the support vector machine.

    Equal to ``max of u (z - y)`` over u between 0 and ``-y``. Targets above 0 become +1, all others (0,
    NaN) -1.
    """

    name: ClassVar[str] = "hinge"
    task: ClassVar[Task] = "classification"
    sides: ClassVar[Literal[1, 2]] = 1

    @property
    def slope_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def value_at_zero(self) -> float:
        """1."""
        return 1.0

    def slope_interval(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return [-1, 0] for the target 1 and [0, 1] for the target -1, each end of shape (n,)."""
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)

    def smoothed(self, width: float) -> SmoothedHingeLoss:
        """Return the one that is quadratic for margins in ``[1 - width, 1]``, at most ``width / 2`` below."""
        _spline.check_width(width)
        return SmoothedHingeLoss(width, center=1.0 - 0.5 * width)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return +1 where ``y > 0`` and -1 elsewhere, of shape (n,)."""
        return _targets.signs(y)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(),)


@final
@dataclass(frozen=True)
class SmoothedHingeLoss(SmoothLoss):
    """A hinge whose slope in the margin ``m = y z`` is ``-clip((center + width / 2 - m) / width, 0, 1)``.

    With ``center = 1`` it lies above the hinge by at most ``width / 8``. Slope at most 1, curvature at most
    ``1 / width``; no q, since the curvature is ``1 / width`` right up to the largest slope. Targets above 0
    become +1, all others (0, NaN) -1.

    Parameters
    ----------
    width : float
        Length of the quadratic piece, in units of the margin, between 1e-100 and 1e100.
    center : float
        Its middle, where the slope is -1/2; between -1e100 and 1e100.
    """

    name: ClassVar[str] = "smoothed_hinge"
    task: ClassVar[Task] = "classification"
    sides: ClassVar[Literal[1, 2]] = 1

    width: float = 1.0
    center: float = 1.0

    def __post_init__(self) -> None:
        _spline.check_width(self.width)
        _validate.real("center", self.center, at_least=-1e100, at_most=1e100)

    @property
    def slope_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """``1 / width``."""
        return _rounding.ratio_up(1.0, self.width)

    @property
    def value_at_zero(self) -> float:
        """The loss of the margin 0."""
        return _rounding.widen_up(float(self._piece.value(np.array([-self._end]))[0]))

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,)."""
        return self._piece.value(z * y - self._end)

    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the slope in `z`, of shape (n,)."""
        return y * self._piece.slope(z * y - self._end)

    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``1 / width`` on the quadratic piece and 0 elsewhere, of shape (n,)."""
        return self._piece.curvature(z * y - self._end)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return +1 where ``y > 0`` and -1 elsewhere, of shape (n,)."""
        return _targets.signs(y)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.05), cls(0.5, center=0.75))

    @property
    def _piece(self) -> _spline.Spline:
        return _spline.Spline(-1.0, 0.0, self.width)

    @property
    def _end(self) -> float:
        """The margin from which the loss is 0."""
        return self.center + 0.5 * self.width
