"""A ready-made function, the distance to a record, and objectives that are no average of records' losses."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, forwarded
from dpconvex.problems.base import Aggregation
from dpconvex.problems.custom.functions import ConvexFunction, RecordLoss, of_shape
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records


@final
@dataclass(frozen=True)
class LocationLoss(RecordLoss):
    r"""Smoothed distance to a record, ``f(w, x) = sqrt(|w - x|^2 + width^2) - width``: a robust center of the records.

    Slope at most ``D / sqrt(D^2 + width^2) < 1`` at distances up to D, curvature at most ``1 / width``. As the width
    goes to 0 the minimizer becomes the geometric median, as it grows the mean.
    """

    domain: DataDomain  #: of the records, which are points
    width: float = 1.0  #: positive, in the unit of the records
    name = "smoothed distance"
    dim = forwarded("domain", "n_features")

    def __post_init__(self) -> None:
        _validate.real("width", self.width, above=1e-150, below=1e150)  # squares are floats
        _validate.real("domain.l2", self.domain.l2, below=1e150)

    @property
    def smoothness(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _rounding.ratio_up(1.0, self.width)

    @property
    def value_at_zero(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _rounding.widen_up(math.hypot(self.domain.l2, self.width)) - self.width * (1 - _rounding.SLACK)

    def lipschitz(self, radius: float) -> float:
        far = (radius + self.domain.l2) * (1 + 1e-15)
        return min(1.0, _rounding.widen_up(far / math.hypot(far, self.width)))

    def value(self, w: Floats, records: Floats) -> Floats:
        squares = np.square(w - records).sum(1)
        return squares / (np.sqrt(squares + self.width**2) + self.width)  # without cancellation

    def gradient(self, w: Floats, records: Floats) -> Floats:
        differences = w - records
        return differences / np.sqrt(np.square(differences).sum(1, keepdims=True) + self.width**2)


class WholeObjective(ConvexFunction):
    """A convex function F(w, X) of the parameters and *all* records, in any way; one record may decide everything.

    Its minimizers can be as far apart as the ball allows, however many records there are: the noise does not shrink
    with n. Bounds are vacuous (`PredictedError.vacuous`) unless epsilon is well above the number of parameters.
    """

    aggregation: ClassVar[Aggregation] = "whole"

    @abstractmethod
    def value_and_gradient(self, w: Floats, records: Floats) -> tuple[float, Floats]:
        """Return F at `w` (dim,) for `records` (n, n_features), and a (sub)gradient (dim,)."""

    def total(self, w: Floats, records: Records) -> tuple[float, Floats]:
        value, gradient = self.value_and_gradient(w, records.rows(slice(None)))
        return float(value), of_shape("gradient", gradient, (self.dim,))
