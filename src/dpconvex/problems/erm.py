"""The objective of most empirical-risk methods here: average loss of a linear model, ridge, linear term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.problems.linear_objective import LinearModelObjective
from dpconvex.problems.objective import ROUNDING
from dpconvex.problems.records import RowBlock

__all__ = ["ROUNDING", "RegularizedRisk"]


@final
@dataclass(frozen=True, eq=False)
class RegularizedRisk(LinearModelObjective):
    r"""``J(w) = mean_i loss(W x_i, y_i) + l2/2 |w|^2 + <linear, w>``; parameters as `LinearModelObjective` has them."""

    @property
    def tilt(self) -> float:
        """0."""
        return 0.0

    def value(self, w: FloatArray) -> float:
        """Return ``J(w)``."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            return np.array([self.loss.value(block.predict(W), self.targets[block.rows]).sum()])

        return self._value(float(self._total(work)[0]) / self.records.n, w)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return ``J(w)`` and a (sub)gradient, reading the data once."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            z, y = block.predict(W), self.targets[block.rows]
            return np.append(block.adjoint(self.loss.derivative(z, y)), self.loss.value(z, y).sum())

        total = self._total(work)
        n = self.records.n
        return self._value(float(total[-1]) / n, w), self._gradient(total[:-1] / n, w)

    def _weights(self, w: FloatArray) -> tuple[FloatArray | None, float]:
        return None, self.records.n
