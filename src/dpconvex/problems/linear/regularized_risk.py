"""The objective of most empirical-risk methods here: average loss of a linear model, ridge, linear term."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data.records import RowBlock
from dpconvex.problems.linear.objective import LinearModelObjective, times
from dpconvex.problems.objective import ROUNDING

__all__ = ["ROUNDING", "RegularizedRisk"]


@final
@dataclass(frozen=True, eq=False)
class RegularizedRisk(LinearModelObjective):
    r"""``J(w) = sum_i v_i loss(W x_i, y_i) + l2/2 |w|^2 + <linear, w>``, the mean loss unless weights are given.

    Parameters
    ----------
    loss, records, targets, l2, linear
        As in `LinearModelObjective`.
    weights : array of shape (n,), optional
        At least 0, of sum at most 1; None: ``1/n`` each. So every bound of an average of losses holds.
    """

    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and self.weights.shape != (self.records.n,):
            raise InvalidDataError(f"weights have shape {self.weights.shape}; the records need ({self.records.n},)")

    @property
    def weighted(self) -> bool:
        """Whether weights are given."""
        return self.weights is not None

    @property
    def tilt(self) -> float:
        """0."""
        return 0.0

    def value(self, w: FloatArray) -> float:
        """Return ``J(w)``."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            losses = self.loss.value(block.predict(W), self.targets[block.rows])
            return np.array([times(self.weights, block.rows, losses).sum()])

        return self._value(float(self._total(work)[0]) / self._divisor, w)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return ``J(w)`` and a (sub)gradient, reading the data once."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            z, y = block.predict(W), self.targets[block.rows]
            slopes, losses = (times(self.weights, block.rows, f(z, y)) for f in (self.loss.derivative, self.loss.value))
            return np.append(block.adjoint(slopes), losses.sum())

        total = self._total(work) / self._divisor
        return self._value(float(total[-1]), w), self._gradient(total[:-1], w)

    def subset(self, stride: int) -> RegularizedRisk:
        """Return the objective of every `stride`-th record; their weights grow by that factor."""
        weights = None if self.weights is None else self.weights[::stride] * stride
        records, targets = self.records.subset(stride), self.targets[::stride]
        return replace(self, records=records, targets=targets, weights=weights)

    def _weights(self, w: FloatArray) -> tuple[FloatArray | None, float]:
        return self.weights, self._divisor

    @property
    def _divisor(self) -> float:
        return float(self.records.n) if self.weights is None else 1.0
