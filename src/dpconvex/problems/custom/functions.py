"""Convex functions of your own: what they must provide, and averages of one function of a record.

Records are rows of numbers (features, targets, whatever the function reads), clipped into a `DataDomain` before the
function sees them. The constants are the caller's claims. `attack_constants` tries to refute them.

`LocationLoss` is ready-made, the distance to a record; a `WholeObjective` is no average of records' losses.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded, forwards, set_fields
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.base import ROUNDING, UP, Aggregation, Bounds, Objective, StatedBounds
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records, as_array

_HUGE = 1e100  # replaces values that are not finite
_BLOCK = 2**20  # number of floats of gradients computed at a time (8 MB)


class ConvexFunction(ABC):
    """A function F(w, X), convex in parameters w (dim,), of a data set X (n, n_features), with claimed constants."""

    name: str  #: name in plans and certificates
    #: Domain into which every record is clipped, without an intercept (add a column of ones if the function needs it).
    domain: DataDomain
    dim: int  #: length of w
    #: Largest change of the gradient per unit of w (l2), for all w and every data set; infinite if it jumps.
    smoothness: float = math.inf
    #: Bound on ``F(0, X) - min F(., X)`` for every data set; infinite if unknown. Only what a plan says about
    #: predicting with 0 rests on it.
    value_at_zero: float = math.inf
    aggregation: ClassVar[Aggregation]

    @abstractmethod
    def lipschitz(self, radius: float) -> float:
        """Return the largest l2 norm of a (sub)gradient at parameters of norm at most `radius`.

        They are gradients of one record's function if F is an average, otherwise of F, for every data set. Rounded up.
        """

    def contrast(self, radius: float) -> float:
        """Return the largest l2 distance of two gradients at the same w, of that norm at most, when a record changes.

        Of two records' functions where the data enter by an average, else of F on neighboring data sets. It sets the
        noise. By default twice `lipschitz`; replace it where the gradients differ by less than they are long.
        """
        return 2 * self.lipschitz(radius)

    @abstractmethod
    def total(self, w: Floats, records: Records) -> tuple[float, Floats]:
        """Return ``F(w, X)`` and a (sub)gradient (dim,), in float64, for any finite `w`."""

    @property
    def bounds(self) -> Bounds:
        """The bounds by which solvers are chosen."""
        return StatedBounds(curvature_bound=self.smoothness)  # the slope is bounded in a ball only

    def objective(self, records: Records, l2: float, radius: float) -> Objective:
        """Return the objective with a ridge on clipped records, over parameters of norm at most `radius`."""
        return CustomObjective(self, records, l2, radius)

    def certifiable_radius(self, l2: float, radius: float, max_steps: int) -> float:
        """Return the smallest distance to the minimizer that is certified for every data set.

        It is three times the certificates' rounding slack; for kinks, the distance after `max_steps` subgradient steps.
        """
        L, R, beta = self.lipschitz(radius), radius, self.smoothness
        if math.isfinite(beta):  # accelerated steps look up to 3R far
            return 3 * ROUNDING * (L + 2 * (beta + l2) * R) / l2
        drowned = 3 * math.sqrt(2 * ROUNDING * 4 * (L + l2 * R) * R / l2)
        return max(drowned, 2 * (L + l2 * R) / (l2 * math.sqrt(max_steps)))

    def claims(self, radius: float) -> tuple[str, ...]:
        """Return, in words, the claims on which privacy rests."""
        average, smooth = self.aggregation == "average", math.isfinite(self.smoothness)
        what = "the loss of every record" if average else "the objective of every data set"
        where = "everywhere, and" if smooth else "and"  # accelerated steps look outside the ball
        return (
            f"{what} is convex {where} {self.lipschitz(radius):g}-Lipschitz in the ball of radius {radius:g}",
            f"another record changes its gradient by at most {self.contrast(radius):g}",
            *((f"its gradient changes by at most {self.smoothness:g} a unit of length, everywhere",) if smooth else ()),
            *(("the loss of a record depends on that record and the parameters alone",) if average else ()),
            "values and gradients are computed to 13 digits of the size of these constants",
        )

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for tests of your own; by default none."""
        return ()


@dataclass(frozen=True, eq=False)
@forwards("function", "bounds dim")
class CustomObjective(Objective):
    """``J(w) = F(w, X) + l2/2 |w|^2`` over parameters of norm at most `radius`; both numbers positive."""

    function: ConvexFunction
    records: Records
    l2: float
    radius: float
    minimizer_norm = math.inf  # nothing is known outside the ball  # pyright: ignore[reportAssignmentType]

    @cached_property
    def _lipschitz(self) -> float:
        return self.function.lipschitz(self.radius)

    @property
    def smoothness(self) -> float:
        return (self.function.smoothness + self.l2) * UP

    @property
    def initial_gap(self) -> float:
        L = self._lipschitz
        return min(L * self.radius, L**2 / (2 * self.l2)) * UP

    def lipschitz_within(self, radius: float) -> float:
        return (self.function.lipschitz(radius) + self.l2 * radius) * UP

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        fixed = w.view()
        fixed.flags.writeable = False
        value, gradient = self.function.total(fixed, self.records)
        if not (math.isfinite(value) and np.all(np.isfinite(gradient))):  # a broken claim: carry on, certify nothing
            value, gradient = _HUGE, np.where(np.isfinite(gradient), gradient, _HUGE)
        return value + self.l2 / 2 * float(w @ w), gradient + self.l2 * w

    def gradient_rounding(self, w: Floats) -> float:
        """Return `ROUNDING` times the size of what is summed; one of the claims is that the function computes so."""
        growth = self.l2 if math.isinf(self.function.smoothness) else self.smoothness
        return ROUNDING * (self._lipschitz + growth * float(np.linalg.norm(w)))

    def value_rounding(self, value: float, w: Floats) -> float:
        norm = float(np.linalg.norm(w))
        return ROUNDING * (abs(value) + (self._lipschitz + self.l2 * norm) * (self.radius + norm))


class RecordLoss(ConvexFunction):
    """``F(w, X) = mean_i f(w, x_i)`` for a function f of one record, convex in w.

    Write `value` and `gradient`, for many records at once and without a loop over them. Replace `sums` where the sum of
    gradients is cheaper than all of them. Records are read-only: they may be the caller's own array.
    """

    aggregation: ClassVar[Aggregation] = "average"

    @abstractmethod
    def value(self, w: Floats, records: Floats) -> Floats:
        """Return f at `w` (dim,) for `records` (m, n_features), shape (m,)."""

    @abstractmethod
    def gradient(self, w: Floats, records: Floats) -> Floats:
        """Return a (sub)gradient of f in w for each of `records` (m, n_features), shape (m, dim)."""

    def each(self, points: Floats, records: Floats) -> tuple[Floats, Floats]:
        """Return f and a (sub)gradient of each of `records` (m, n_features) at its own row of `points` (m, dim).

        For the Lipschitz extension, which moves a steep record's parameters alone. Here `value` and `gradient` are
        called for every point that differs from the one before: replace it where the function takes all rows at once.
        """
        values, gradients = np.empty(len(records)), np.empty((len(records), self.dim))
        ends = np.flatnonzero(np.any(points[1:] != points[:-1], axis=1)) + 1
        for first, last in zip([0, *ends.tolist()], [*ends.tolist(), len(records)], strict=True):
            some, w = records[first:last], points[first]
            values[first:last] = of_shape("value", self.value(w, some), (len(some),))
            gradients[first:last] = of_shape("gradient", self.gradient(w, some), (len(some), self.dim))
        return values, gradients

    def sums(self, w: Floats, records: Floats) -> tuple[float, Floats]:
        """Return the sum of the values of `records` (m, n_features), and of their gradients (dim,)."""
        values = of_shape("value", self.value(w, records), (len(records),))
        gradients = of_shape("gradient", self.gradient(w, records), (len(records), self.dim))
        # Along contiguous memory NumPy sums in pairs: equal summands then round a thousand times less.
        return float(np.sum(values)), np.sum(np.ascontiguousarray(gradients.T), axis=1)

    @final
    def total(self, w: Floats, records: Records) -> tuple[float, Floats]:
        value, gradient = 0.0, np.zeros(self.dim)
        for rows in row_blocks(records, self.dim):
            v, g = self.sums(w, rows)
            value, gradient = value + float(v), gradient + of_shape("sums", g, (self.dim,))
        return value / records.n, gradient / records.n


def dense_blocks(records: Records) -> Iterator[tuple[Floats, slice]]:
    """Yield the records as read-only arrays (m, n_features), and the slice of all records that each holds."""
    for block in records.blocks():
        rows = (as_array(block.features) if block.factor is None else block.dense()).view()
        rows.flags.writeable = False
        yield rows, block.rows


def row_blocks(records: Records, width: int = 1) -> Iterator[Floats]:
    """Yield the rows of `dense_blocks`, fewer at a time if results have many (`width`) columns."""
    most = max(1, _BLOCK // width)
    for rows, _ in dense_blocks(records):
        for first in range(0, len(rows), most):
            yield rows[first : first + most]


def of_shape(name: str, array: Array, shape: tuple[int, ...]) -> Floats:
    """Return the result of a caller's method `name` in float64; raise `InvalidParameterError` for a wrong shape."""
    if np.shape(array) != shape:
        raise InvalidParameterError(f"{name}(...).shape", np.shape(array), f"must be {shape}")
    return np.asarray(array, dtype=np.float64)


@final_dataclass
class LocationLoss(RecordLoss):
    r"""Smoothed distance to a record, ``f(w, x) = sqrt(|w - x|^2 + width^2) - width``: a robust center of the records.

    Slope at most ``D / sqrt(D^2 + width^2) < 1`` at distances up to D, curvature at most ``1 / width``. As the width
    goes to 0 the minimizer becomes the geometric median, as it grows the mean.
    """

    domain: DataDomain  #: domain of the records, which are points
    width: float = 1.0  #: positive, in the unit of the records
    name = "smoothed distance"
    dim = forwarded("domain", "n_features")

    def __post_init__(self) -> None:
        set_fields(self, width=_validate.real("width", self.width, above=1e-150, below=1e150))  # squares are floats
        _validate.real("domain.l2", self.domain.l2, below=1e150)

    @property
    def smoothness(self) -> float:
        return _rounding.ratio_up(1.0, self.width)

    @property
    def value_at_zero(self) -> float:
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
