"""Robust regression losses whose curvature vanishes as the slope saturates: pseudo-Huber, log-cosh."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _targets
from dpconvex.losses.base import SmoothLoss, Task, quiet


class _SaturatingLoss(SmoothLoss):
    """What the two losses share: slope at most `width`, curvature at most 1, even in the residual."""

    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2

    width: float
    target_bound: float

    @final
    @property
    def slope_bound(self) -> float:
        """The `width`."""
        return self.width

    @final
    @property
    def curvature_bound(self) -> float:
        """1."""
        return 1.0

    @final
    @property
    def value_at_zero(self) -> float:
        """The loss of a residual of `target_bound`."""
        if self.target_bound == math.inf:
            return math.inf
        worst = self.value(np.array([self.target_bound]), np.zeros(1))
        return _rounding.widen_up(float(worst[0]))

    @final
    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return `y` (n,) clipped to the target bound (1e100 if that is infinite); NaN becomes 0."""
        return _targets.reals(y, self.target_bound)

    @final
    def _check(self) -> None:
        _validate.real("width", self.width, at_least=1e-100, at_most=_targets.LARGEST_TARGET)
        _targets.check_bound(self.target_bound)


@final
@dataclass(frozen=True)
class PseudoHuberLoss(_SaturatingLoss):
    """``width^2 (sqrt(1 + (r / width)^2) - 1)`` with the residual ``r = z - y``.

    Slope at most `width`, curvature at most 1.

    Parameters
    ----------
    width : float
        Largest slope; about ``r^2 / 2`` for residuals well below it. Between 1e-100 and 1e100, in the unit of
        the target.
    target_bound : float, optional
        Targets are clipped to it. The slope bound does not need it; `value_at_zero` is infinite without it.
    """

    name: ClassVar[str] = "pseudo_huber"

    width: float = 1.0
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        self._check()

    @property
    def self_concordance(self) -> float:
        """``3 sqrt(3) / 4``: with ``a = |phi'| / A``, ``phi'' = (1 - a^2)^1.5``; attained at ``a = 1/2``."""
        return _rounding.widen_up(0.75 * math.sqrt(3.0))

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,)."""
        r = np.abs(z - y)
        return self.width * r * (r / (np.hypot(self.width, r) + self.width))

    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``r / sqrt(1 + (r / width)^2)``, of shape (n,)."""
        r = z - y
        return self.width * (r / np.hypot(self.width, r))

    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``(1 + (r / width)^2)^(-3/2)``, of shape (n,)."""
        cosine = self.width / np.hypot(self.width, z - y)
        return cosine * cosine * cosine

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.3, target_bound=2.0))


@final
@dataclass(frozen=True)
class LogCoshLoss(_SaturatingLoss):
    """``width^2 log cosh(r / width)`` with the residual ``r = z - y``.

    Slope at most `width`, curvature at most 1.

    Parameters
    ----------
    width : float
        Largest slope; about ``r^2 / 2`` for residuals well below it. Between 1e-100 and 1e100, in the unit of
        the target.
    target_bound : float, optional
        Targets are clipped to it. The slope bound does not need it; `value_at_zero` is infinite without it.
    """

    name: ClassVar[str] = "log_cosh"

    width: float = 1.0
    target_bound: float = math.inf

    def __post_init__(self) -> None:
        self._check()

    @property
    def self_concordance(self) -> float:
        """2: with ``a = |phi'| / A``, ``phi'' = (1 - a) (1 + a)``."""
        return 2.0

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,), with full relative accuracy."""
        r = np.abs(z - y)
        t = r / self.width
        # log cosh t = -log(1 - tanh^2 t) / 2 for small t; t - log 2 + log(1 + exp(-2 t)) for large t.
        small = -0.5 * np.log1p(-np.square(np.tanh(np.minimum(t, 1.0))))
        large = self.width * r + self.width**2 * (np.log1p(np.exp(-2.0 * t)) - math.log(2.0))
        return np.where(t < 1.0, self.width**2 * small, large)

    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``width tanh(r / width)``, of shape (n,)."""
        return self.width * np.tanh((z - y) / self.width)

    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``1 / cosh(r / width)^2``, of shape (n,)."""
        small = np.exp(-np.abs(z - y) / self.width)
        return np.square(2.0 * small / (1.0 + small * small))

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.3, target_bound=2.0))
