"""Logistic loss for two classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _targets
from dpconvex.losses.base import SmoothLoss, Task, quiet


@final
@dataclass(frozen=True)
class LogisticLoss(SmoothLoss):
    """``log(1 + exp(-y z))`` with targets -1 and +1: the negative log-likelihood of logistic regression.

    Targets above 0 become +1, all others (0, NaN) become -1. Slope at most 1, curvature at most 1/4, q = 1.
    """

    name: ClassVar[str] = "logistic"
    task: ClassVar[Task] = "classification"
    sides: ClassVar[Literal[1, 2]] = 1

    @property
    def slope_bound(self) -> float:
        """1."""
        return 1.0

    @property
    def curvature_bound(self) -> float:
        """1/4."""
        return 0.25

    @property
    def self_concordance(self) -> float:
        """1: with ``a = |phi'|``, ``phi'' = a (1 - a) <= 1 - a``."""
        return 1.0

    @property
    def value_at_zero(self) -> float:
        """Log 2."""
        return _rounding.widen_up(math.log(2.0))

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,), with full relative accuracy."""
        margin = z * y
        # Not logaddexp: this form uses vectorised exp and log1p and is three times faster.
        return np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))

    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``-y / (1 + exp(y z))``, of shape (n,)."""
        return -y / (1.0 + np.exp(z * y))

    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``p (1 - p)`` with ``p = 1 / (1 + exp(-z))``, of shape (n,)."""
        small = np.exp(-np.abs(z))
        return small / np.square(1.0 + small)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return +1 where ``y > 0`` and -1 elsewhere, of shape (n,)."""
        return _targets.signs(y)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(),)
