r"""The geometric median, not private, with a proof of its accuracy: private medians are compared with it.

The method takes Weiszfeld's step with the correction of Vardi and Zhang (2000), or Newton's step where that is slow and
Newton's lowers objective and gradient; nearby data points are tried as candidates (docs, Solvers).

Certificate
    ``min f >= f(z) (1 - 2 ||gradient||)``, as ``f(z) - min f <= ||gradient|| ||z - z*||`` and ``||z - z*|| <= 2 f(z)``;
    at a point of the data ``max(0, ||g|| - k) / n`` takes the gradient's place. Rounding is charged (`rounding`).
Precision
    A position is ``anchor + offset``: ``(x - anchor) - offset`` is exact to the last place near the anchor.
"""

import math
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import summation

_SAMPLE = 2**15  # number of rows whose coordinate-wise median is the start, or that are compared at a time
_MAX_STEPS = 1000  # largest number of steps
_SLOW = 0.3  # Newton's step is tried after a step that leaves more than this share of the gradient
_NEWTON_DIM = 512  # largest dimension in which Newton's step is tried
_NEWTON_BLOCK = 2**20  # most floats that a Newton step holds at a time: 8 MB


@final_dataclass(eq=False)
class GeometricMedianSolution:
    """A point, and how far its objective can be from the minimum. All fields depend on the data: never release them."""

    point: Floats  #: the point found, shape (d,)
    value: float  #: mean distance of the data points from `point`
    gap_bound: float  #: proven bound on `value` minus the least value
    #: ``CERTIFIED`` if the bound is at most ``tol * value``; ``STALLED`` where rounding stops all progress.
    status: Status
    steps: int  #: number of passes over the data points


def geometric_median(X: Floats, tol: float = 1e-10) -> GeometricMedianSolution:
    """Minimize the mean distance to the points.

    `X` (n, d) is finite with norms at most 1e150 (`clip_points` ensures both); for other numbers the result's bound is
    not finite. `InvalidDataError` unless X is a real matrix with a row and a column. Distances below 1e-145 count as
    0. `tol` is the wanted bound on ``value / least value - 1``, in [1e-13, 1).
    """
    _validate.real("tol", tol, at_least=1e-13, below=1.0)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiub":
        raise InvalidDataError(f"X has {X.ndim} axes and dtype {_validate.dtype_of(X)}; a real matrix (n, d) is needed")
    points = np.ascontiguousarray(X, dtype=np.float64)
    search = _Search(points)
    status = search.run(tol)
    point = search.best.anchor + search.best.offset
    here = _Position.at(points, point, np.zeros_like(point))  # `point` is the float nearest to the best position
    gap = max(0.0, here.value - max(here.lower, search.best.lower)) + 2 * here.slack * here.value
    gap = gap if math.isfinite(gap) else math.inf
    if gap <= tol * here.value:
        status = Status.CERTIFIED
    elif status is Status.CERTIFIED:  # the best position was certified, but no float is as good
        status = Status.STALLED
    return GeometricMedianSolution(point, here.value, gap, status, search.steps + 1)


@final_dataclass(eq=False)
class _Position:
    """A position ``anchor + offset``, with the sums of `UnitVectorSums` there."""

    anchor: Floats
    offset: Floats
    sums: "UnitVectorSums"
    n: int

    @classmethod
    def at(cls, X: Floats, anchor: Floats, offset: Floats) -> "_Position":
        return cls(anchor, offset, unit_vector_sums(X, anchor, offset), len(X))

    def moved(self, X: Floats, change: Floats) -> "_Position":
        """Return the position after a move; its anchor is the nearest float vector (an exact two-sum)."""
        offset = self.offset + change
        anchor = self.anchor + offset
        back = anchor - self.anchor
        return _Position.at(X, anchor, (self.anchor - (anchor - back)) + (offset - back))

    @property
    def slack(self) -> float:
        return rounding(self.n, len(self.anchor))

    @property
    def value(self) -> float:
        return self.sums.distance / self.n

    @property
    def excess(self) -> float:
        """Length of the sum of unit vectors, less the number of points at the position (at least 0)."""
        return max(0.0, float(np.linalg.norm(self.sums.direction)) - self.sums.coincident)

    @property
    def lower(self) -> float:
        """Proven lower bound on the least mean distance."""
        gradient = self.excess / self.n
        gradient += self.slack if gradient > 0 or self.sums.coincident < self.n else 0.0
        return self.value * (1 - self.slack) * max(0.0, 1 - 2 * gradient)

    def step(self) -> Floats:
        """Vardi and Zhang's step."""
        length = float(np.linalg.norm(self.sums.direction))
        return (self.excess / length) * self.sums.direction / self.sums.weight if self.excess > 0 else 0 * self.offset


@final
class _Search:
    """The iteration, with the best position so far."""

    def __init__(self, X: Floats) -> None:
        self._X, self._newton = X, 2 <= X.shape[1] <= _NEWTON_DIM
        rows = X if X.shape[1] == 1 else X[:: -(-len(X) // _SAMPLE)]
        self.best = _Position.at(X, np.median(rows, axis=0), np.zeros(X.shape[1]))
        self.steps = 1

    def run(self, tol: float) -> Status:
        """Move until the bound holds, nothing changes any more, or the steps are used up."""
        tried, still = -1, 0
        while not self.best.value - self.best.lower <= tol / 2 * self.best.value:
            if self.steps >= _MAX_STEPS or not math.isfinite(self.best.value):
                return Status.STEP_LIMIT
            before = self.best
            sums = before.sums
            if sums.nearest not in (-1, tried) and sums.nearest_distance * sums.weight < 10:
                tried = sums.nearest
                self._try(_Position.at(self._X, self._X[tried].copy(), np.zeros_like(before.offset)))
            if self.best is before:
                self.best = after = before.moved(self._X, before.step())
                self.steps += 1
                if after.excess > max(_SLOW * before.excess, 0.0) and self._newton:
                    self._try(after.moved(self._X, _newton_step(self._X, after)))
            still = 0 if self.best.excess < before.excess or self.best.value < before.value else still + 1
            if still >= 3:
                return Status.STALLED
        return Status.CERTIFIED

    def _try(self, position: _Position) -> None:
        """Accept a position whose value is no higher, and whose `excess` is halved or whose lower bound is better."""
        self.steps += 1
        no_higher = position.value <= self.best.value * (1 + 2 * self.best.slack)
        if no_higher and (position.excess < 0.5 * self.best.excess or position.lower > self.best.lower):
            self.best = position


def _newton_step(X: Floats, at: _Position) -> Floats:
    """Solve ``H change = g`` with ``H = sum (I - u u^T) / distance``, tilted a little to be invertible."""
    d = len(at.anchor)
    hessian = at.sums.weight * (1 + 1e-12) * np.eye(d)
    size = max(1, _NEWTON_BLOCK // d)
    for first in range(0, len(X), size):
        rows = (X[first : first + size] - at.anchor) - at.offset
        square = np.einsum("ij,ij->i", rows, rows)
        far = square >= COINCIDENT
        rows *= np.where(far, square, 1.0)[:, None] ** -0.75 * far[:, None]
        hessian -= rows.T @ rows
    return np.asarray(np.linalg.lstsq(hessian, at.sums.direction, rcond=None)[0], dtype=np.float64)


UNIT_ROUNDOFF = 2.0**-53
PORTION = 256  # number of rows that are summed before their sum is added to the total
COINCIDENT = 1e-290
"""Squared distances below this count as 0: there squares lose digits, and a "unit" vector could be longer than 1."""


@final_dataclass(eq=False)
class UnitVectorSums:
    """Sums that one pass over the data collects at a position z."""

    direction: Floats  #: sum of ``(x - z) / ||x - z||`` over the points x that do not coincide with z, shape (d,)
    distance: float  #: sum of ``||x - z||``
    weight: float  #: sum of ``1 / ||x - z||`` over the same points as `direction`
    coincident: int  #: number of points that coincide with z
    nearest: int  #: row of the nearest point that does not coincide with z, -1 if there is none
    nearest_distance: float  #: distance of that point, infinity if there is none


def unit_vector_sums(X: Floats, anchor: Floats, offset: Floats) -> UnitVectorSums:
    """Return the sums at ``anchor + offset`` over points X (n, d), contiguous finite float64 of norms below 1e150."""
    from dpconvex.solvers import _loops

    direction = np.zeros(X.shape[1])
    distance, weight, coincident, nearest, square = _loops.sums(X, anchor, offset, PORTION, COINCIDENT, direction)
    return UnitVectorSums(direction, distance, weight, coincident, nearest, float(np.sqrt(square)))


def direction_parts(X: Floats, anchor: Floats, offset: Floats) -> Floats:
    """Return parts (3, d) of `UnitVectorSums.direction` that add up to it exactly (`summation`)."""
    from dpconvex.solvers import _loops

    most, out = summation.MOST_ROWS, np.zeros((3, X.shape[1]))
    for rows in (X[i : i + most] for i in range(0, len(X), most)):
        units = np.empty_like(rows)
        _loops.unit_vectors(rows, anchor, offset, COINCIDENT, units)
        out += summation.vector_parts(units, np.ones(len(rows)), 1.0 + 1e-9)
    return out


def rounding(n: int, dim: int) -> float:
    """Bound on the relative error of the sum of distances, and on the l2 error of the mean unit vector.

    A sum of m terms in any order errs by at most ``(m - 1) u`` of the sum of magnitudes: 255 u within a portion, and u
    for each further portion. A distance errs by ``(dim + 4) u`` of itself, a unit vector by 2 u more.
    """
    return 2 * UNIT_ROUNDOFF * (PORTION + n / PORTION + dim + 8)
