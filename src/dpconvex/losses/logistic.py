"""Logistic loss for two classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _targets
from dpconvex.losses.base import CurvatureLaw, SmoothLoss, Task, quiet


@final
@dataclass(frozen=True)
class LogisticLoss(SmoothLoss):
    """``log(1 + exp(-m))`` of the margin ``m = y z``, targets -1 and +1, continued by its tangent where it is steep.

    Below the margin at which the slope reaches `cap` the loss is linear: a record that is badly misclassified pulls
    with the slope `cap`, not more. With ``cap = 1`` that never happens: the negative log-likelihood of logistic
    regression. Targets above 0 become +1, all others (0, NaN) become -1.

    Slope at most `cap`; curvature ``a (1 - a)`` at every slope ``a < cap``, 0 at the slope `cap`; q = 1 for
    ``cap = 1``, else none (docs, Objective perturbation, section 1). With a `rate` the margin is ``y (z + offset)``:
    the graph moves sideways, so all this stays true.

    Parameters
    ----------
    cap : float
        Largest slope, between 1e-100 and 1.
    rate : float, optional
        Public share of the class +1, above 0 and below 1. Predictions then start from it: `offset`.
    """

    name: ClassVar[str] = "logistic"
    task: ClassVar[Task] = "classification"
    sides: ClassVar[Literal[1, 2]] = 1

    cap: float = 1.0
    rate: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", _validate.real("cap", self.cap, at_least=1e-100, at_most=1.0))
        if self.rate is not None:
            object.__setattr__(self, "rate", _validate.shares("rate", (1 - self.rate, self.rate), 2)[1])

    @cached_property
    def _offset(self) -> float:
        """The constant of least mean loss: where the slopes of the two classes, times their shares, are equal.

        With the probability s of the rarer class and its share p, ``p min(cap, 1 - s) = (1 - p) s``: s is p, or
        ``cap p / (1 - p)`` where the rarer class is capped.
        """
        if self.rate is None or self.rate == 0.5:
            return 0.0
        p = min(self.rate, 1 - self.rate)
        s = p if 1 - p <= self.cap else self.cap * p / (1 - p)
        return math.copysign(math.log(s) - math.log1p(-s), self.rate - 0.5)

    @property
    def slope_bound(self) -> float:
        """The cap."""
        return self.cap

    @property
    def curvature_bound(self) -> float:
        """``a (1 - a)`` at the slope ``a = 1/2``, or at the cap if that is smaller."""
        return 0.25 if self.cap >= 0.5 else _rounding.product_up(self.cap, math.nextafter(1 - self.cap, 1.0))

    @property
    def self_concordance(self) -> float | None:
        """1 without a cap (``a (1 - a) <= 1 - a``), else None: curvature jumps to 0 at the cap."""
        return 1.0 if self.cap == 1 else None

    @property
    def curvature_law(self) -> CurvatureLaw:
        """``a (1 - a)`` at every slope ``a`` below the cap, as without one; 0 at the cap."""
        return CurvatureLaw.LOGISTIC

    @cached_property
    def value_at_zero(self) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Log 2; less if the cap is below 1/2; with a rate, that of the rarer class. Plans ask often."""
        return _rounding.widen_up(float(self.value(np.zeros(2), np.array([-1.0, 1.0])).max()))

    @property
    def usual(self) -> LogisticLoss:
        """The loss without a cap."""
        return LogisticLoss(rate=self.rate)

    @property
    def facts(self) -> Mapping[str, float]:
        """The cap as ``slope_cap`` and the rate as ``rate``, if there are such."""
        rate = {} if self.rate is None else {"rate": self.rate}
        return rate if self.cap == 1 else {"slope_cap": self.cap, **rate}

    @property
    def rates(self) -> tuple[float, ...] | None:
        """Of the classes -1 and +1."""
        return None if self.rate is None else (1 - self.rate, self.rate)

    @property
    def offset(self) -> FloatArray:
        """The log-odds of the rate; with a cap, what capped slopes make of them."""
        return np.array([self._offset])

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,), with full relative accuracy."""
        margin = self._shifted(z) * y
        curved = np.maximum(margin, self._kink)
        # Not logaddexp: this form uses vectorised exp and log1p and is three times faster.
        loss = np.maximum(-curved, 0.0) + np.log1p(np.exp(-np.abs(curved)))
        return loss if self.cap == 1 else loss + self.cap * (curved - margin)

    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``-y min(cap, 1 / (1 + exp(y z)))``, of shape (n,)."""
        return -y * np.minimum(self.cap, 1.0 / (1.0 + np.exp(self._shifted(z) * y)))

    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``p (1 - p)``, ``p = 1 / (1 + exp(-z))``, where the slope is below the cap, else 0, of shape (n,)."""
        z = self._shifted(z)
        small = np.exp(-np.abs(z))
        curvature = small / np.square(1.0 + small)
        return curvature if self.cap == 1 else np.where(z * y >= self._kink, curvature, 0.0)

    @quiet
    def log_odds(self, z: FloatArray) -> FloatArray:
        """Return the log-odds of +1 for which `z` is the best prediction, of shape (n,); without a cap `z` itself.

        ``min(log s(z), log A) - min(log s(-z), log A)`` with ``s`` the logistic function and A the cap: where the
        expected loss of one record is smallest, the slopes of its two halves balance (docs, Objective perturbation).
        Odd, finite, and strictly increasing for ``A >= 1/2``; for smaller A it is 0 where both slopes are capped.
        """
        from scipy.special import log_expit

        size = np.abs(z)
        inside = z if self.cap >= 0.5 else np.zeros_like(z)
        # In this form it is exactly `z`, or exactly 0, where it should be.
        outside = np.copysign(math.log(self.cap) - log_expit(-size), z)
        return np.where(size <= abs(self._kink), inside, outside)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return +1 where ``y > 0`` and -1 elsewhere, of shape (n,)."""
        return _targets.signs(y)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(0.7), cls(0.3), cls(rate=0.14), cls(0.7, 0.14))

    def _shifted(self, z: FloatArray) -> FloatArray:
        return z + self._offset if self._offset else z

    @property
    def _kink(self) -> float:
        """The margin below which the loss is linear; minus infinity without a cap."""
        return -math.inf if self.cap == 1 else math.log1p(-self.cap) - math.log(self.cap)
