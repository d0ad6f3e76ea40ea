r"""Convex-concave problems over two simplices: records' gradients, and the most that a record can move their mean.

``min over x, max over y of (1/n) sum_i f(x, y; z_i)``, x a probability vector of length dx, y one of length dy. With
``dy = 1`` it is plain stochastic convex optimization over one simplex. Polytopes with few vertices are simplices in
disguise: `games.PolytopeSaddle`, and `group_loss.WorstGroupLoss` for linear models over an l1 ball.

Privacy rests on `SimplexSaddle.spread` alone, so each class enforces it *record by record* before anything is summed:
entries are clamped, non-finite numbers become 0, nothing is dropped. The other constants serve accuracy.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import numpy as np
from scipy.sparse import issparse

from dpconvex import _validate
from dpconvex._types import REQUIRED, Array, Floats, IntArray, attributes, final_dataclass, finite, forwarded, forwards
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.data.sources.rows import EncodedRows

Pair = tuple[Floats, Floats]  # an array for x, and an array for y
_CHUNK = 2**20  # number of floats of records worked on at a time (8 MB)
_MOST_ROWS = 4096  # most records summed at a time; the sums of these parts are added up pairwise


@final_dataclass(eq=False)
class SimplexPoint:
    """A probability vector, given by the entries that are not 0."""

    indices: IntArray  #: (k,): different vertices
    weights: Floats  #: (k,): non-negative, of sum 1
    dim: int  #: number of vertices of the simplex

    @classmethod
    def average(cls, draws: IntArray, dim: int) -> "SimplexPoint":
        """Return the average of drawn vertices, shape (K,), repetitions counted."""
        if len(draws) == 1:
            return cls(draws, np.ones(1), dim)
        indices, counts = np.unique(draws, return_counts=True)
        return cls(indices, counts / len(draws), dim)

    @classmethod
    def full(cls, weights: Floats) -> "SimplexPoint":
        """Return the point with these weights, shape (dim,)."""
        return cls(np.arange(len(weights)), np.asarray(weights, dtype=np.float64), len(weights))

    @classmethod
    def uniform(cls, dim: int) -> "SimplexPoint":
        """Return the center of the simplex."""
        return cls.full(np.full(dim, 1 / dim))

    def dense(self) -> Floats:
        """Return all weights, shape (dim,)."""
        out = np.zeros(self.dim)
        out[self.indices] = self.weights
        return out

    def combine(self, M: Array) -> Floats:
        """Return the weighted sum of columns of `M` (..., dim), reading only columns of positive weight."""
        return (M if len(self.indices) == self.dim else M[..., self.indices]) @ self.weights

    def plus_vertex(self, index: int, share: float) -> "SimplexPoint":
        """Return the point moved towards a vertex by this share of the way."""
        weights = (1 - share) * self.dense()
        weights[index] += share
        return SimplexPoint.full(weights)


class SimplexSaddle(ABC):
    """One convex-concave problem over two simplices, for a public number of records."""

    name: ClassVar[str]  #: name of the problem in plans and certificates
    #: n, dx, dy: records; vertices of the two simplices. With ``dy = 1`` there is no maximization.
    n: int
    dx: int
    dy: int
    #: L1: most that a gradient coordinate changes per unit of ``||x||_1 + ||y||_1``; infinite if not smooth.
    smoothness: float = math.inf
    #: L2: the same for the derivatives of gradient coordinates; 0 for quadratics, infinite if unknown.
    second_smoothness: float = math.inf
    bilinear: bool = False  #: whether f is linear in x for fixed y and linear in y for fixed x
    #: For x and y, most that ``max_j D_j - min_j D_j`` changes per unit (l1) that the player's own point moves.
    #:
    #: D is the difference of two records' gradients, the other player's point fixed. Privacy-critical where a method
    #: releases differences of gradients: 0 or finite only where clipping enforces it.
    drift: tuple[float, float] = (math.inf, math.inf)
    #: What the x that predicts a constant exceeds the best one by; infinite where there is no such x.
    constant_excess: float = math.inf
    #: For x and y, the largest ``max_j D_j - min_j D_j``, where D is the difference of two records' gradients.
    #:
    #: At any point. If coordinate j of every record's gradient lies in an interval of length R (which may depend on j),
    #: it is at most 2 R. Privacy-critical. 0 where the gradient depends on no record.
    spread: tuple[float, float] = REQUIRED
    #: For x and y, largest half range ``(max_j g_j - min_j g_j)/2`` of the mean gradient over the records.
    #:
    #: A constant common to all coordinates does not matter on a simplex. It serves accuracy only, like `smoothness`.
    lipschitz: tuple[float, float] = REQUIRED
    value_range: tuple[float, float] = REQUIRED  #: Least and largest value of f over the simplices and all records.

    @property
    def trivial_gap(self) -> float:
        """Bound on every pair's duality gap (with ``dy = 1`` its excess), from the range of values or of gradients."""
        low, high = self.value_range
        return min(high - low, 2 * sum(self.lipschitz))

    @abstractmethod
    def check(self, records: Any) -> None:
        """Raise `InvalidDataError` unless `records` has the public form (shape, dtype) of n records."""

    @abstractmethod
    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        """Sum the clipped gradients of some records, or return parts of them; rows are few enough to be held dense."""

    @abstractmethod
    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        """Return the values of some records, each clipped to `value_range`."""

    def record_size(self, records: Any) -> int:
        """Number of floats that one record takes while it is worked on."""
        return self.dx + self.dy

    def count(self, records: Any) -> int:
        """Number of the records, fewer in a portion; by default all."""
        return self.n

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready facts."""
        sizes = {"problem": self.name, **attributes(self, "n", "dx", "dy")}
        slopes = {"spread": list(self.spread), "lipschitz": list(self.lipschitz)}
        curvatures = attributes(self, "smoothness", "second_smoothness")
        return {**sizes, **slopes, **{k: v if math.isfinite(v) else "infinite" for k, v in curvatures.items()}}

    @property
    def sum_rounding(self) -> float:
        """Share of `spread` by which two sums over all records may differ more than exact ones do, from public sizes.

        A sum of m numbers of size at most B, added within a part one after the other and then pairwise, errs by at most
        ``m k 2^-53 B``, where k counts the rounded operations behind a summand: at most `_MOST_ROWS` additions in a
        part, one a level of pairs, a product over the coordinates of x and y, and a few more. Coordinates lie within B
        of 0 and `spread` is at least B; two data sets and two coordinates make it four times that. At least 1e-6.
        """
        operations = _MOST_ROWS + self.dx + self.dy + 2 * self.n.bit_length() + 64
        return max(1e-6, 4 * self.n * operations / 2**53)

    @final
    def gradient_sums(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        """Return the sums over `rows` of the records' clipped gradients in x (dx,) and in y (dy,).

        Replacing one record changes the two sums by vectors of range at most `spread`. In float64, a few thousand
        records at a time; no array of n records times d coordinates is made.

        `rows` is of stride 1; `x` and `y` are *released* or public points, never the private state of an algorithm.
        """
        with np.errstate(all="ignore"):
            if isinstance(records, EncodedRows):  # for plans that need sums over all records alone
                assert rows == slice(0, self.n)
                found = records.run(lambda portion, *_: self._sums(self.of_portion(*portion), rows, x, y))
                sums = _added_pairwise(each for each in found if each is not None)
            else:
                sums = self._sums(records, rows, x, y)
            return (np.zeros(self.dx), np.zeros(self.dy)) if sums is None else self._finished(sums)

    def _sums(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair | None:
        """Return the sum of `_gradients` over the `rows` that exist; None if there are none."""
        return _added_pairwise(self._gradients(records, part, x, y) for part in self._parts(records, rows))

    def of_portion(self, X: Array, y: Array) -> Any:
        """Return records of this problem's form from a portion of `EncodedRows`."""
        raise NotImplementedError(f"{self.name}: records are not read portion by portion")

    def _finished(self, sums: Pair) -> Pair:
        """Return the gradients from the sums of the parts that `_gradients` returns; by default the sums themselves."""
        return sums

    @final
    def value_sum(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> float:
        """Return the sum over `rows` of the values, each clipped to `value_range`; arguments as `gradient_sums`."""
        with np.errstate(all="ignore"):
            low, high = self.value_range
            return math.fsum(
                float(np.clip(np.nan_to_num(self._values(records, part, x, y)), low, high).sum())
                for part in self._parts(records, rows)
            )

    def _parts(self, records: Any, rows: slice) -> list[slice]:
        start, stop, _ = rows.indices(self.count(records))
        step = min(_MOST_ROWS, max(1, _CHUNK // self.record_size(records)))
        return [slice(i, min(i + step, stop)) for i in range(start, stop, step)]


def _added_pairwise(terms: Iterable[Pair]) -> Pair | None:
    """Add terms like a balanced tree: m terms meet about log2(m) roundings, in memory for as many. None if m = 0."""
    waiting: list[Pair] = []
    for count, term in enumerate(terms, start=1):
        waiting.append(term)
        for _ in range((count & -count).bit_length() - 1):  # as many pairs are complete as count has final zeros
            last = waiting.pop()
            waiting[-1] = (waiting[-1][0] + last[0], waiting[-1][1] + last[1])
    while len(waiting) > 1:
        last = waiting.pop()
        waiting[-1] = (waiting[-1][0] + last[0], waiting[-1][1] + last[1])
    return waiting[0] if waiting else None


def _left(name: str) -> Any:
    """Return a section's property: the whole problem's pair, or for one player that player's entry."""

    def pair(section: "SaddleSection") -> tuple[float, float]:
        both = getattr(section.whole, name)
        return both if section.player == "both" else (both[section.player == "y"], 0.0)

    return property(pair)


@final_dataclass(eq=False)
@forwards("whole", "record_size second_smoothness bilinear")
class SaddleSection(SimplexSaddle):
    """Records ``start .. start + n - 1`` of a problem, read from all of its records; of one player or of both."""

    whole: SimplexSaddle
    start: int
    n: int
    # "x": minimize over x with y fixed. "y": minimize *minus* the value over y with x fixed; the remaining player is
    # called x either way, and dy = 1.
    player: str = "both"
    fixed: SimplexPoint | None = None  #: the other player's point: released or public
    name: ClassVar[str] = "section of a saddle problem"
    sum_rounding = forwarded("whole", "sum_rounding")  # of fewer records, but gradients are computed as the whole's
    spread, lipschitz, drift = map(_left, ("spread", "lipschitz", "drift"))

    def __post_init__(self) -> None:
        _validate.integer("start", self.start, at_least=0)
        _validate.integer("n", self.n, at_least=1)
        _validate.choice("player", self.player, ("both", "x", "y"))
        if self.start + self.n > self.whole.n:
            raise InvalidParameterError("n", self.n, f"must leave start + n within the {self.whole.n} records")
        if (self.player == "both") != (self.fixed is None):
            what = "must be given for a section with one player, and only there"
            raise InvalidParameterError("fixed", self.fixed, what)

    @property
    def dx(self) -> int:
        return self.whole.dy if self.player == "y" else self.whole.dx

    @property
    def dy(self) -> int:
        return self.whole.dy if self.player == "both" else 1

    @property
    def smoothness(self) -> float:
        return 0.0 if self.player != "both" and self.whole.bilinear else self.whole.smoothness

    @property
    def value_range(self) -> tuple[float, float]:
        low, high = self.whole.value_range
        return (-high, -low) if self.player == "y" else (low, high)

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "whole": self.whole.name, "start": self.start, "player": self.player}

    def check(self, records: Any) -> None:
        self.whole.check(records)

    def _there(self, rows: slice, x: SimplexPoint, y: SimplexPoint) -> tuple[slice, SimplexPoint, SimplexPoint]:
        """Return the corresponding rows and points of the whole problem."""
        shifted = slice(rows.start + self.start, rows.stop + self.start)
        if self.fixed is None:
            return shifted, x, y
        return (shifted, self.fixed, x) if self.player == "y" else (shifted, x, self.fixed)

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        gx, gy = self.whole._finished(self.whole._gradients(records, *self._there(rows, x, y)))
        if self.player == "both":
            return gx, gy
        return (-gy if self.player == "y" else gx), np.zeros(1)

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        values = self.whole._values(records, *self._there(rows, x, y))
        return -values if self.player == "y" else values


def clamped(values: Any, bound: float) -> Any:
    """Return a float64 copy with NaN replaced by 0 and every entry clipped to ``[-bound, bound]``; CSR in place."""
    if issparse(values):
        values.sum_duplicates()
        values.data = clamped(values.data, bound)
        return values
    with np.errstate(all="ignore"):  # long doubles beyond float64 become infinities
        return np.require(finite(values, bound), requirements="C")


def sums_by(index: IntArray, values: Floats, size: int) -> Floats:
    """Return the sum of the `values` (m,) of each index (m,), shape (size,)."""
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)


def check_sizes(n: int, dx: int, dy: int, least_dy: int = 1) -> None:
    """Raise `InvalidParameterError` unless these are sizes of a problem."""
    _validate.records("n", n)
    _validate.integer("dx", dx, at_least=2)
    _validate.integer("dy", dy, at_least=least_dy)


def check_array(name: str, array: Any, shape: tuple[int, ...], sparse: tuple[int, int] | None = None) -> None:
    """Raise `InvalidDataError` unless `array` is a real NumPy array of this shape, or CSR of the shape `sparse`."""
    if sparse is not None and issparse(array):
        shape = sparse
        if array.format != "csr":
            raise InvalidDataError(f"{name} has sparse format {array.format!r}; 'csr' is needed. Use {name}.tocsr()")
    elif not isinstance(array, np.ndarray):
        raise InvalidDataError(f"{name} is a {type(array).__name__}; a NumPy array is needed")
    if tuple(array.shape) != shape:
        raise InvalidDataError(f"{name} has shape {array.shape}; {shape} is needed")
    if array.dtype.kind not in "fiub":
        raise InvalidDataError(f"{name} has dtype {_validate.dtype_of(array)}; a real numeric dtype is needed")


def check_bound(name: str, value: float) -> float:
    """Return a positive bound of moderate size, or raise `InvalidParameterError`."""
    number = _validate.real(name, value, above=0.0, at_most=1e50)
    if number < 1e-50:
        raise InvalidParameterError(name, value, "must be at least 1e-50", "Rescale the data")
    return number
