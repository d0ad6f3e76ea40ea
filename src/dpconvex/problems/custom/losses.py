"""Ready-made functions: distances to records, a density, and objectives that are no average of records' losses."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np
from scipy.special import softmax

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray, forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.base import Aggregation
from dpconvex.problems.custom.functions import ConvexFunction, RecordLoss, of_shape, row_blocks
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records


@final
@dataclass(frozen=True)
class LocationLoss(RecordLoss):
    r"""Smoothed distance to a record, ``f(w, x) = sqrt(|w - x|^2 + width^2) - width``: a robust centre of the records.

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

    def value(self, w: FloatArray, records: FloatArray) -> FloatArray:
        squares = np.square(w - records).sum(1)
        return squares / (np.sqrt(squares + self.width**2) + self.width)  # without cancellation

    def gradient(self, w: FloatArray, records: FloatArray) -> FloatArray:
        differences = w - records
        return differences / np.sqrt(np.square(differences).sum(1, keepdims=True) + self.width**2)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(DataDomain.l2_ball(3, 1.0), 0.1), cls(DataDomain.box(1, 2.0), 1.0))


@final
@dataclass(frozen=True, eq=False)
class LogLinearDensity(RecordLoss):
    r"""Negative log-likelihood of a density ``p_w(x) ~ exp(<w, T(x)>)`` of one number on a public grid.

    ``f(w, x) = log sum_j exp(<w, T(g_j)>) - <w, T(x)> - log m`` with grid points ``g_j``, j = 1..m, of the interval
    ``[-1, 1]`` and T the first `terms` cosines ``cos(pi k (x + 1) / 2) / sqrt(terms)``. The gradient is the mean of T
    under p_w less ``T(x)``, the Hessian the covariance of T under p_w. ``|T| <= 1``, so slopes are at most 2, and
    curvature at most 1, for the covariance of vectors of a unit ball has no larger eigenvalue.
    """

    terms: int  #: number of parameters
    points: int = 200  #: Number m of grid points. Records, numbers in ``[-1, 1]``, are moved to the nearest.
    name = "log-linear density"
    domain = DataDomain.box(1, 1.0)
    smoothness = 1 + 1e-12
    dim = forwarded("terms")

    def __post_init__(self) -> None:
        _validate.integer("terms", self.terms, at_least=1)
        _validate.integer("points", self.points, at_least=2)
        if self.terms >= self.points:
            raise InvalidParameterError("terms", self.terms, f"must be below points={self.points}")

    @cached_property
    def _grid(self) -> FloatArray:
        return np.linspace(-1.0, 1.0, self.points)

    @cached_property
    def _statistics(self) -> FloatArray:
        angles = np.pi * np.outer(self._grid + 1, np.arange(1, self.terms + 1)) / 2
        return np.cos(angles) / math.sqrt(self.terms)

    @property
    def value_at_zero(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """``log m``: no grid point is more probable than 1."""
        return _rounding.widen_up(math.log(self.points))

    def lipschitz(self, radius: float) -> float:
        """Return 2, the largest distance of two statistics."""
        return 2 * (1 + 1e-12)

    def contrast(self, radius: float) -> float:
        """Return 2 as well: gradients differ by the records' statistics only."""
        return 2 * (1 + 1e-12)

    def density(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the grid (m,) and the probabilities of its points (m,) under parameters `w` (terms,)."""
        return self._grid, softmax(self._statistics @ w)

    def value(self, w: FloatArray, records: FloatArray) -> FloatArray:
        log_weights = self._statistics @ w
        return float(np.logaddexp.reduce(log_weights)) - math.log(self.points) - log_weights[self._nearest(records)]

    def gradient(self, w: FloatArray, records: FloatArray) -> FloatArray:
        return softmax(self._statistics @ w) @ self._statistics - self._statistics[self._nearest(records)]

    def sums(self, w: FloatArray, records: FloatArray) -> tuple[float, FloatArray]:
        """Return the sums over records, from their counts on the grid."""
        counts = np.bincount(self._nearest(records), minlength=self.points)
        log_weights = self._statistics @ w
        excess = float(np.logaddexp.reduce(log_weights)) - math.log(self.points)
        gradient = len(records) * (softmax(log_weights) @ self._statistics) - counts @ self._statistics
        return len(records) * excess - float(counts @ log_weights), gradient

    def _nearest(self, records: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.rint((records[:, 0] + 1) / 2 * (self.points - 1)).astype(np.intp)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(3, 20), cls(1, 5))


class WholeObjective(ConvexFunction):
    """A convex function F(w, X) of the parameters and *all* records, in any way; one record may decide everything.

    Its minimizers can be as far apart as the ball allows, however many records there are: the noise does not shrink
    with n. Bounds are vacuous (`PredictedError.vacuous`) unless epsilon is well above the number of parameters.
    """

    aggregation: ClassVar[Aggregation] = "whole"

    @abstractmethod
    def value_and_gradient(self, w: FloatArray, records: FloatArray) -> tuple[float, FloatArray]:
        """Return F at `w` (dim,) for `records` (n, n_features), and a (sub)gradient (dim,)."""

    def total(self, w: FloatArray, records: Records) -> tuple[float, FloatArray]:
        value, gradient = self.value_and_gradient(w, records.rows(slice(None)))
        return float(value), of_shape("gradient", gradient, (self.dim,))


@final
@dataclass(frozen=True)
class MaxRisk(WholeObjective):
    """The largest loss, ``F(w, X) = max_i f(w, x_i)``: the worst-served record counts.

    Not smooth, and of unknown value at 0: the largest loss changes from record to record.
    """

    loss: RecordLoss  #: its Lipschitz constant is that of the maximum
    domain = forwarded("loss", "domain")
    dim = forwarded("loss", "dim")

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"max of {self.loss.name}"

    def lipschitz(self, radius: float) -> float:
        """Return the loss's constant: a maximum of L-Lipschitz functions is L-Lipschitz."""
        return self.loss.lipschitz(radius)

    def contrast(self, radius: float) -> float:
        """Return the loss's: a changed record may be the largest in one data set only."""
        return self.loss.contrast(radius)

    def value_and_gradient(self, w: FloatArray, records: FloatArray) -> tuple[float, FloatArray]:
        losses = of_shape("value", self.loss.value(w, records), (len(records),))
        worst = int(np.argmax(losses))
        gradient = self.loss.gradient(w, records[worst : worst + 1])
        return float(losses[worst]), of_shape("gradient", gradient, (1, self.dim))[0]

    def total(self, w: FloatArray, records: Records) -> tuple[float, FloatArray]:
        return max((self.value_and_gradient(w, rows) for rows in row_blocks(records)), key=lambda found: found[0])

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return tuple(cls(loss) for loss in LocationLoss.examples())
