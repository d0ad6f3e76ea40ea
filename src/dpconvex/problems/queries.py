"""Linear queries over a finite domain, which synthetic data should answer accurately.

A record is one of finitely many *cells*, an integer. A query gives every cell a number in a public range, and its
answer on a data set is the mean over the records, hence linear in the histogram of cells. Everything here is public but
the records, and of those only their cells: no content raises.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, set_fields
from dpconvex.errors import InvalidDataError, InvalidParameterError

MOST_MARGINALS = 200_000  #: Largest number of marginal tables that are listed.
Zero = tuple[tuple[int, int], tuple[int, int]]
"""Two (column, value) that no record has together; a public statement about the world, in order of the columns."""
LARGEST = 2**27  # most cells of a histogram: 1 GiB


class LinearQueries(ABC):
    """A family of linear queries ``q_1 .. q_m`` on the cells ``0 .. cells - 1``."""

    shape: tuple[int, ...]  #: number of values of each column; without columns, the cells are one column
    subsets: tuple[tuple[int, ...], ...] = ()  #: columns of each block that is a marginal table
    center: int | None = None  #: the column whose relations to others count most, or None
    impossible: tuple[Zero, ...] = ()  #: pairs of values that synthetic records must not have
    ordered: tuple[int, ...] = ()  #: the columns whose values are ordered, like bins of numbers
    cells: int  #: size of the domain
    count: int  #: number m of queries, negations not counted: an algorithm that needs them adds them
    #: low, high: public range of every query's values, ``low < high``. Sensitivities are computed from it.
    low: float
    high: float
    #: A partition of the queries into those that are measured together: the cells of one marginal table.
    blocks: tuple[slice, ...]
    block_l2: float  #: largest l2 distance between two records' values of the queries of one block
    block_l1: float  #: largest l1 distance between two records' values of the queries of one block

    @abstractmethod
    def answers(self, weights: Floats) -> Floats:
        """Return ``sum_z weights_z q_j(z)`` for every query, (count,), of weights (cells,)."""

    @abstractmethod
    def record_sums(self, records: Array) -> Floats:
        """Return ``sum_i q_j(z_i)`` for every query, (count,), of cells (n,) that come out of `clip_records`."""

    @abstractmethod
    def block_answers(self, block: int, weights: Floats) -> Floats:
        """Return the part of `answers` of one block."""

    @abstractmethod
    def block_combine(self, block: int, values: Floats) -> Floats:
        """Return ``sum_j values_j q_j`` over the queries of one block, (cells,)."""

    @final
    def query(self, index: int) -> Floats:
        """Return the values of one query on all cells, (cells,)."""
        block = bisect_right(self.blocks, index, key=lambda block: block.start) - 1
        first, stop = self.blocks[block].start, self.blocks[block].stop
        return self.block_combine(block, (np.arange(first, stop) == index).astype(np.float64))

    def combine(self, values: Floats) -> Floats:
        """Return ``sum_j values_j q_j`` over all queries, (cells,)."""
        total = self.block_combine(0, values[self.blocks[0]])
        for block in range(1, len(self.blocks)):
            total += self.block_combine(block, values[self.blocks[block]])
        return total

    @final
    def clip_records(self, records: Array) -> Array:
        """Return cells as int64, (n,), of cells (n,) or of all columns' values (n, columns); of others cell or value 0.

        `InvalidDataError` unless `records` are integers of such a shape (public facts).
        """
        if records.ndim == 2:
            return np.asarray(np.ravel_multi_index(tuple(self.codes(records).T), self.shape))
        self._check_records(records)
        return np.where((records >= 0) & (records < self.cells), records, 0).astype(np.int64)

    @final
    def codes(self, records: Array) -> Array:
        """Return the value of every column of each record, int64 (n, columns); as `clip_records` otherwise."""
        if records.ndim != 2:
            return np.stack(np.unravel_index(self.clip_records(records), self.shape), axis=1)
        self._check_records(records)
        return np.where((records >= 0) & (records < np.array(self.shape)), records, 0).astype(np.int64)

    def _check_records(self, records: Array) -> None:
        if records.shape[1:] not in ((), (len(self.shape),)) or records.dtype.kind not in "iu":
            needed = f"one integer cell a record is needed, or integers of shape (records, {len(self.shape)})"
            kind = _validate.dtype_of(records)
            raise InvalidDataError(f"records have {records.ndim} axes and dtype {kind}: {needed}")


@final_dataclass(eq=False)
class DenseQueries(LinearQueries):
    """Queries as the rows of a public matrix."""

    matrix: Floats  #: (count, cells): value of every query on every cell, inside [low, high]
    #: low, high: public range, ``low < high``.
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        _validate.real("low", self.low)
        _validate.real("high", self.high, above=self.low)
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or not matrix.size:
            raise InvalidParameterError("matrix.shape", matrix.shape, "must be (queries, cells), at least one of each")
        if not bool(((matrix >= self.low) & (matrix <= self.high)).all()):
            raise InvalidParameterError("matrix", "...", f"must lie between low={self.low:g} and high={self.high:g}")
        count, cells = matrix.shape
        width = _rounding.widen_up(self.high - self.low)  # width of one query's range, in either norm
        set_fields(self, matrix=matrix, cells=cells, shape=(cells,), count=count, block_l2=width, block_l1=width)
        set_fields(self, blocks=tuple(slice(j, j + 1) for j in range(count)))

    def answers(self, weights: Floats) -> Floats:
        return self.matrix @ weights

    def record_sums(self, records: Array) -> Floats:
        return self.matrix @ np.bincount(records, minlength=self.cells).astype(np.float64)

    def block_answers(self, block: int, weights: Floats) -> Floats:
        return self.matrix[self.blocks[block]] @ weights

    def block_combine(self, block: int, values: Floats) -> Floats:
        return values @ self.matrix[self.blocks[block]]

    def combine(self, values: Floats) -> Floats:
        return values @ self.matrix

    def declared(self) -> "DenseQueries":
        """Return queries of equal sizes and range, without the matrix's entries, which plans do not read."""
        return replace(self, matrix=np.broadcast_to(np.float64(self.low), self.matrix.shape))


@final_dataclass
class Marginals(LinearQueries):
    """Marginal tables of a table of categories: the share of records in every cell of every listed table.

    A record's cell is the row-major number of its categories (``numpy.ravel_multi_index``). Each query is the
    indicator of one combination of categories of one subset of columns, so its range is [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> two_way = Marginals.of_order((2, 3, 2), 2)
    >>> two_way.cells, two_way.count
    (12, 16)
    >>> two_way.answers(np.full(12, 1 / 12))[:6]  # columns 0 and 1
    array([0.16666667, 0.16666667, 0.16666667, 0.16666667, 0.16666667, 0.16666667])
    """

    shape: tuple[int, ...]  #: number of categories of each column; at least one column
    subsets: tuple[tuple[int, ...], ...]  #: columns of each marginal table, distinct and increasing
    low: float = 0.0
    high: float = 1.0
    #: Root of 2: a record is in one cell of a table, and its replacement perhaps in another.
    block_l2 = _rounding.widen_up(math.sqrt(2.0))
    center: int | None = None
    impossible: tuple[Zero, ...] = ()
    ordered: tuple[int, ...] = ()
    block_l1 = 2.0

    def __post_init__(self) -> None:
        for size in self.shape:
            _validate.integer("shape", size, at_least=1)
        if not self.shape:
            raise InvalidParameterError("shape", self.shape, "must have at least one column")
        columns = set(range(len(self.shape)))
        if not self.subsets or any(not s or list(s) != sorted(set(s) & columns) for s in self.subsets):
            raise InvalidParameterError("subsets", self.subsets, "must list distinct columns, in increasing order")
        if (self.low, self.high) != (0.0, 1.0):
            raise InvalidParameterError("low, high", (self.low, self.high), "must be 0 and 1: queries are shares")
        if self.center is not None and self.center not in columns:
            raise InvalidParameterError("center", self.center, "must be the number of a column")
        ends = np.cumsum([0, *(math.prod(self.shape[axis] for axis in subset) for subset in self.subsets)])
        blocks = tuple(slice(*pair) for pair in pairwise(ends.tolist()))
        set_fields(self, cells=math.prod(self.shape), count=int(ends[-1]), blocks=blocks)
        set_fields(self, impossible=_zeros(self.shape, self.impossible))

    @classmethod
    def of_order(cls, shape: tuple[int, ...], order: int) -> "Marginals":
        """Return all marginal tables of `order` columns (at least 1; all columns together if there are fewer)."""
        _validate.integer("order", order, at_least=1)
        if (count := math.comb(len(shape), min(order, len(shape)))) > MOST_MARGINALS:
            what = f"makes {count:,} tables of {len(shape)} columns, and at most {MOST_MARGINALS:,} are released"
            raise InvalidParameterError("order", order, what, "Lower the order, or name fewer columns")
        return cls(tuple(shape), tuple(combinations(range(len(shape)), min(order, len(shape)))))

    def answers(self, weights: Floats) -> Floats:
        found: list[Floats] = [weights] * len(self.subsets)
        self._sum_out(weights.reshape(1, -1), 0, range(len(self.subsets)), found)
        return np.concatenate(found)

    def _sum_out(self, partial: Floats, axis: int, tables: Sequence[int], found: list[Floats]) -> None:
        """Fill in the answers of `tables`, which keep the same columns before `axis`: rows of `partial`."""
        done = [b for b in tables if self.subsets[b][-1] < axis]
        for b in done:
            found[b] = partial.sum(axis=1)
        kept = [b for b in tables if axis in self.subsets[b]]
        left_out = [b for b in tables if axis not in self.subsets[b] and b not in done]
        if not kept and not left_out:
            return
        rows, size = len(partial), self.shape[axis]
        if kept:
            self._sum_out(partial.reshape(rows * size, -1), axis + 1, kept, found)
        if left_out:
            self._sum_out(partial.reshape(rows, size, -1).sum(axis=1), axis + 1, left_out, found)

    def block_answers(self, block: int, weights: Floats) -> Floats:
        rest = tuple(axis for axis in range(len(self.shape)) if axis not in self.subsets[block])
        return weights.reshape(self.shape).sum(axis=rest).ravel()

    def block_combine(self, block: int, values: Floats) -> Floats:
        sides = tuple(size if axis in self.subsets[block] else 1 for axis, size in enumerate(self.shape))
        return np.broadcast_to(values.reshape(sides), self.shape).flatten()

    def record_sums(self, records: Array) -> Floats:
        categories = self.codes(records).T
        sums = np.empty(self.count)
        for block, subset in zip(self.blocks, self.subsets, strict=True):
            places = np.ravel_multi_index([categories[a] for a in subset], [self.shape[a] for a in subset])
            sums[block] = np.bincount(places, minlength=block.stop - block.start)
        return sums


def _zeros(shape: tuple[int, ...], impossible: tuple[Any, ...]) -> tuple[Zero, ...]:
    """Return checked pairs of (column, value), in order; no value may lose all its partners in a column."""
    found: dict[Zero, None] = {}
    lost: dict[tuple[int, int, int], set[int]] = {}
    for k, pair in enumerate(impossible):
        (i, a), (j, b) = sorted((int(column), int(value)) for column, value in pair)
        if not (0 <= i < j < len(shape) and 0 <= a < shape[i] and 0 <= b < shape[j]):
            raise InvalidParameterError(f"impossible[{k}]", pair, "must be values of two different columns")
        found[(i, a), (j, b)] = None
        lost.setdefault((i, a, j), set()).add(b)
        lost.setdefault((j, b, i), set()).add(a)
    for (column, value, other), values in lost.items():
        if len(values) >= shape[other]:
            what = f"leaves value {value} of column {column} no value of column {other}"
            raise InvalidParameterError("impossible", len(found), what, "Leave that value out of the schema")
    return tuple(found)
