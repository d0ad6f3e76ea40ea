"""Objectives that are no average of records' losses: any convex function of the data set, and the largest loss."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.problems.base import Aggregation
from dpconvex.problems.custom.functions import ConvexFunction, RecordLoss, of_shape, row_blocks
from dpconvex.problems.custom.losses import LocationLoss
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records


class WholeObjective(ConvexFunction):
    """A convex function F(w, X) of the parameters and *all* records, in any way; one record may decide everything.

    Its minimisers can be as far apart as the ball allows, however many records there are: the noise does not shrink
    with n. Bounds are vacuous (`PredictedError.vacuous`) unless epsilon is well above the number of parameters.
    """

    aggregation: ClassVar[Aggregation] = "whole"

    @abstractmethod
    def value_and_gradient(self, w: FloatArray, records: FloatArray) -> tuple[float, FloatArray]:
        """Return F at `w` (dim,) for `records` (n, n_features), and a (sub)gradient (dim,)."""

    def total(self, w: FloatArray, records: Records) -> tuple[float, FloatArray]:
        """Return value and (sub)gradient on a dense copy of the records."""
        value, gradient = self.value_and_gradient(w, records.rows(slice(None)))
        return float(value), of_shape("gradient", gradient, (self.dim,))


@final
@dataclass(frozen=True)
class MaxRisk(WholeObjective):
    """The largest loss, ``F(w, X) = max_i f(w, x_i)``: the worst-served record counts. Not smooth.

    Parameters
    ----------
    loss : RecordLoss
        Its Lipschitz constant is that of the maximum.
    """

    loss: RecordLoss

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """``max of`` the loss."""
        return f"max of {self.loss.name}"

    @property
    def domain(self) -> DataDomain:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss's."""
        return self.loss.domain

    @property
    def dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The loss's."""
        return self.loss.dim

    @property
    def smoothness(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Infinite: the largest loss changes from record to record."""
        return math.inf

    @property
    def value_at_zero(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Infinite, hence ``L R`` in a problem: the largest loss at 0 and elsewhere may be of different records."""
        return math.inf

    def lipschitz(self, radius: float) -> float:
        """Return the loss's constant: a maximum of L-Lipschitz functions is L-Lipschitz."""
        return self.loss.lipschitz(radius)

    def contrast(self, radius: float) -> float:
        """Return the loss's: a changed record may be the largest in one data set only."""
        return self.loss.contrast(radius)

    def value_and_gradient(self, w: FloatArray, records: FloatArray) -> tuple[float, FloatArray]:
        """Return the largest loss and the gradient of the first record that has it."""
        value, worst = self._largest(w, records)
        return value, of_shape("gradient", self.loss.gradient(w, worst), (1, self.dim))[0]

    def total(self, w: FloatArray, records: Records) -> tuple[float, FloatArray]:
        """Return value and (sub)gradient, block by block."""
        best = max((self._largest(w, rows) for rows in row_blocks(records)), key=lambda found: found[0])
        return best[0], of_shape("gradient", self.loss.gradient(w, best[1]), (1, self.dim))[0]

    def _largest(self, w: FloatArray, rows: FloatArray) -> tuple[float, FloatArray]:
        losses = of_shape("value", self.loss.value(w, rows), (len(rows),))
        worst = int(np.argmax(losses))
        return float(losses[worst]), rows[worst : worst + 1]

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return tuple(cls(loss) for loss in LocationLoss.examples())
