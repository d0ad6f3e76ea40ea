"""Softmax (multinomial logistic) loss for several classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.losses import _targets
from dpconvex.losses.base import CurvatureLaw, SmoothLoss, Task, quiet


@final
@dataclass(frozen=True)
class SoftmaxLoss(SmoothLoss):
    """``logsumexp(z) - z[y]`` with targets 0, ..., n_classes - 1: multinomial logistic regression.

    The derivative is ``p - e_y``, the Hessian ``S = diag(p) - p p^T`` with the probabilities ``p``. Targets
    are rounded to the nearest class; NaN becomes class 0.

    Parameters
    ----------
    n_classes : int
        At least 2; public.
    rates : tuple of float, optional
        Public shares of the classes, positive, adding up to 1. Predictions then start from their logarithms: `offset`.

    Notes
    -----
    Constants (proofs: docs, Objective perturbation, Several outputs): ``|p - e_y|_2 <= sqrt 2``,
    ``|p - e_y|_1 <= 2``, ``|S| <= 1/2``, rank ``k - 1``, trace ``<= 1 - 1/k``. With
    ``a = |p - e_y|_2 / sqrt 2``, ``trace S <= 2 (1 - a^2) <= 4 (1 - a)``, so that q = 4 for noise in the Frobenius
    norm; for two classes ``a = 1 - p_y`` and ``trace S = 2 a (1 - a)``, so that q = 2. For l1 noise and three
    classes or more there is no q: at ``p_y = 0`` the slope is saturated and the curvature is not 0.
    """

    name: ClassVar[str] = "softmax"
    task: ClassVar[Task] = "classification"
    sides: ClassVar[Literal[1, 2]] = 2

    n_classes: int
    rates: tuple[float, ...] | None = None  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        _validate.integer("n_classes", self.n_classes, at_least=2)
        if self.rates is not None:
            object.__setattr__(self, "rates", _validate.shares("rates", self.rates, self.n_classes))

    @property
    def facts(self) -> Mapping[str, Any]:
        """The rates, if they are known."""
        return {} if self.rates is None else {"rates": list(self.rates)}

    @property
    def offset(self) -> FloatArray:
        """Logarithms of the rates, of mean 0."""
        logs = np.log(np.ones(self.n_classes) if self.rates is None else self.rates)
        return logs - logs.mean()

    @property
    def n_outputs(self) -> int:
        """One prediction per class."""
        return self.n_classes

    @property
    def slope_bound(self) -> float:
        """Square root of 2 (this float lies above it)."""
        return math.sqrt(2.0)

    @property
    def slope_bound_l1(self) -> float:
        """2."""
        return 2.0

    @property
    def curvature_bound(self) -> float:
        """1/2, attained by two classes of probability 1/2."""
        return 0.5

    @property
    def curvature_rank(self) -> int:
        """``n_classes - 1``."""
        return self.n_classes - 1

    @property
    def curvature_trace(self) -> float:
        """``1 - 1 / n_classes``, attained by equal probabilities."""
        return _rounding.ratio_up(self.n_classes - 1, self.n_classes)

    @property
    def frobenius_self_concordance(self) -> float:
        """4, or 2 for two classes."""
        return 2.0 if self.n_classes == 2 else 4.0

    @property
    def curvature_law(self) -> CurvatureLaw:
        """The slope is ``p - e_y``."""
        return CurvatureLaw.SOFTMAX

    @property
    def value_at_zero(self) -> float:
        """Logarithm of the number of classes; with rates, of one over the smallest."""
        rates = self.rates or (1 / self.n_classes,)
        return _rounding.widen_up(math.log(max(1.0, math.fsum(rates)) / min(rates)))

    @property
    def trivial(self) -> float:
        """The entropy of the rates, without a matrix of all classes."""
        return self.value_at_zero if self.rates is None else -math.fsum(rate * math.log(rate) for rate in self.rates)

    @quiet
    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return the loss of every record, of shape (n,)."""
        z = self._shifted(z)
        shifted = z - z.max(axis=1, keepdims=True)
        own = np.take_along_axis(shifted, _column(y), axis=1)[:, 0]
        return np.log(np.exp(shifted).sum(axis=1)) - own

    @quiet
    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``p - e_y``, of shape (n, n_classes); rows sum to 0 up to rounding."""
        out = self.probabilities(z)
        own = _column(y)
        # 1 - p_y as the sum of the other probabilities: no cancellation when p_y is near 1.
        np.put_along_axis(out, own, 0.0, axis=1)
        np.put_along_axis(out, own, -out.sum(axis=1, keepdims=True), axis=1)
        return out

    @quiet
    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        """Return ``diag(p) - p p^T``, of shape (n, n_classes, n_classes)."""
        p = self.probabilities(z)
        out = -p[:, :, None] * p[:, None, :]
        diagonal = np.arange(self.n_classes)
        out[:, diagonal, diagonal] += p
        return out

    @quiet
    def probabilities(self, z: FloatArray) -> FloatArray:
        """Return the class probabilities, of shape (n, n_classes)."""
        z = self._shifted(z)
        out = z - z.max(axis=1, keepdims=True)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)
        return out

    def clip_targets(self, y: AnyArray) -> FloatArray:
        """Return the nearest class index as float64, of shape (n,); NaN becomes 0."""
        return _targets.class_indices(y, self.n_classes)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(2), cls(3), cls(7), cls(3, (0.7, 0.2, 0.1)))

    def _shifted(self, z: FloatArray) -> FloatArray:
        return z if self.rates is None else z + self.offset


def _column(y: FloatArray) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    return y.astype(np.intp)[:, None]
