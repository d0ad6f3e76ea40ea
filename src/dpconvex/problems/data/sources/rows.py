"""Encoded rows that are read portion by portion, and the clipped records that they become.

A source knows how many rows it has before it reads them (public), yields the same *set* of rows every time, in any
portions, and encodes each row by itself. Nothing of the size of the data is kept. As sums are exact (`summation`), what
is released from a source has the same bits as from the same rows in memory, in any order.

A pass is a *task* for each portion (`EncodedRows.run`): clip, `work`, return the parts. An engine overrides `run` alone
and sends tasks to where portions are. A task may run twice if a worker is lost, for the parts of a portion are counted
once. Tasks draw no random bits: noise is drawn once, by the plan, where `run` is called.

Facts of single rows by index (membership in a secret sample, its user, its weight) stay with the driver as vectors;
each task gets the entries for the rows of its portion (`Held`), and nothing else. A fresh sample may be of any order.
But users, and the parts of a search, are the same rows in all passes only if rows keep their order: otherwise a user's
rows would count as those of others, and nobody would be protected. Joins and groups of lazy frames and SQL have another
order each time. Whether a source keeps its order is declared (`in_order`), or known for files, but never read off the
rows: that would depend on what they hold.

`CellRows` are rows in memory, in few bytes: numbers, and positions of categories instead of a matrix of zeros and ones.
Features are computed from them portion by portion, at each pass. Any plan may run: plans that need more than sums get
the matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any, ClassVar, TypeVar, cast, final

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import summation
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records, RecordSource, RowBlock, Subset, clipped_blocks
from dpconvex.problems.data.summation import Parts

Portion = tuple[Floats, Floats]  #: Encoded features (m, n_features), and targets (m,) as a plan takes them.
Held = Callable[[int, int], Any]
"""Returns what a task needs to know about rows ``first, ..., stop - 1``: called by the driver, with public numbers."""
T = TypeVar("T")
Encode = Callable[[Any], Any]  #: Encodes a portion of a table, or its features or targets, each row by itself.
Task = Callable[[Portion, int, Any], T]  #: Gets a portion, the index of its first row, and what is held of its rows.


def nothing(first: int, stop: int) -> None:
    """Return None: tasks need nothing but their rows."""


class TableSource(ABC):
    """A table with a known number of rows that can be read repeatedly, wherever it is."""

    n: int
    empty: Any  #: the table's columns without rows
    ordered: bool = True  #: whether all passes have the same order of rows, which is known or declared

    def __len__(self) -> int:
        return self.n

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n, self.empty.shape[1]

    @final
    def require_order(self, what: str) -> None:
        """Raise `InvalidDataError` unless all passes have one order; `what` goes by row number in the caller."""
        if not self.ordered:
            reason = f"X may give its rows in another order each time, as joins and groups do, and {what} go by place"
            raise InvalidDataError(f"{reason}. Write it to Parquet, or declare the order: dpconvex.data.in_order(X)")

    @final
    def encoded(self, encode: Encode, n_features: int, sparse: Encode | None = None) -> EncodedTables:
        """Return the rows, each encoded by itself, where they are; `sparse` makes the same features sparse (CSR)."""
        return EncodedTables(self, encode, n_features, sparse)

    def portions(self, n_features: int) -> Iterator[Any]:
        """Yield all rows, as tables whose features fit in memory; not used if tasks are sent to the rows (`sent`)."""
        raise NotImplementedError

    def sent(self, encode: Encode, task: Task[T], held: Held) -> Iterator[T] | None:
        """Run a task where portions are (`EncodedRows.run`); None where they are read here."""
        return None

    @abstractmethod
    def taken(self, index: Array) -> TableSource:
        """Return the rows with the given ascending indices (m,), m >= 1."""


@final_dataclass
class InOrder:
    """A table of which it is declared that all passes have the same rows in the same order."""

    table: Any


def in_order(table: Any) -> InOrder:
    """Declare that a table outside of memory has the same rows, in the same order, whenever it is read.

    Fits that protect users, and searches, need that: whose row it is, and which part it is in, goes by row number. It
    is true of scans and filters of files, of sorted queries without ties, and of Dask frames that are persisted, and
    false of joins, groups and windows unless they are sorted. Privacy rests on it. Files need no declaration.

    Give `fit` what is returned, in the place of the table: a polars.LazyFrame, relation, stream or Dask frame, which is
    not read here.
    """
    return InOrder(table)


def chosen_columns(columns: Sequence[str] | None, header: Sequence[str]) -> list[str]:
    """Return the names of columns that are read (None: all), or raise `InvalidDataError` for one that is missing."""
    for name in columns or ():
        if name not in header:
            raise InvalidDataError(f"X lacks the schema's column {name!r}. Check the header; targets are in X, too")
    return list(header if columns is None else columns)


def each_row(table: Any, values: Callable[[Any], Array]) -> Array:
    """Return the results of `values`, (m,) for a portion, for all rows, (n,); a frame in memory is one portion."""
    if not isinstance(table, TableSource):
        return values(table)

    def encode(part: Any) -> tuple[Array, Array]:
        found = values(part) if len(part) else np.empty(0)
        return found, found

    found = list(table.encoded(encode, 1).run(lambda portion, first, _: (first, portion[0])))
    return np.concatenate([part for _, part in sorted(found, key=lambda each: each[0])])


def inside(index: Array, first: int, stop: int) -> Array:
    """Return the ascending indices that lie in ``[first, stop)``, counted from `first`."""
    start, end = np.searchsorted(index, [first, stop]).tolist()
    return index[start:end] - first


class EncodedRows(ABC):
    """Rows that plans which need only sums (`ConvexPlan.only_sums`) take in the place of both X and y."""

    n: int
    n_features: int
    in_memory: ClassVar[bool] = False  #: If True, any plan may run; plans that need more than sums use `matrix`.

    def __len__(self) -> int:
        return self.n

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of features, like the shape of a matrix."""
        return self.n, self.n_features

    whole: bool = False  #: Whether methods use `matrix`, for features take longer to make than to read.

    def matrix(self) -> Portion:
        """Return features and targets of rows that are `in_memory`, made portion by portion."""
        X, y = np.empty(self.shape), None
        for first, features, targets in self.run(lambda portion, first, _: (first, *portion)):
            y, here = np.empty((self.n, *targets.shape[1:])) if y is None else y, slice(first, first + len(targets))
            X[here], y[here] = features, targets
        return X, cast(Array, y)

    def sparse(self) -> EncodedRows:
        """Return the same rows with sparse features (CSR), for `clipped_blocks`, where few entries are not 0."""
        return self

    @abstractmethod
    def run(self, task: Task[T], held: Held = nothing) -> Iterator[T]:
        """Yield the result of `task` for each portion, once, in any order.

        `task` also gets the index of the portion's first row, and the result of `held` for its rows.
        """


def run_here(pieces: Iterator[Any], encode: Encode, n: int, task: Task[T], held: Held) -> Iterator[T]:
    """Run a task on pieces of n rows: one thread encodes and uses a piece, while the next piece is read."""

    def work(piece: Any, first: int, given: Any) -> T:
        with np.errstate(all="ignore"):  # a thread has settings of its own; what floats meet depends on the data
            return task(encode(piece), first, given)

    waiting, first = deque[Future[T]](), 0
    with closing(_ahead(pieces)) as coming, summation.workers() as (pool, count):
        for piece in coming:
            stop = first + len(piece)
            if stop > n:  # nothing is held for these rows
                first = stop
                break
            waiting.append(pool.submit(work, piece, first, held(first, stop)))
            if len(waiting) > count:
                yield waiting.popleft().result()
            first = stop
        while waiting:
            yield waiting.popleft().result()
    if first != n:
        what = f"X had {n} rows when it was opened and {first} when it was read"
        raise InvalidDataError(f"{what}. Keep its files as they are during a fit")


def _ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield items, and compute the next item in a thread while the last one is used."""
    with ThreadPoolExecutor(1) as maker:
        coming = maker.submit(_next, items)
        while (item := coming.result()) is not None:
            coming = maker.submit(_next, items)
            yield item


def _next(items: Iterator[T]) -> T | None:
    with np.errstate(all="ignore"):  # a thread has settings of its own; what floats meet depends on the data
        return next(items, None)


@final
class EncodedTables(EncodedRows):
    """Rows of a table, each encoded by itself, where they are."""

    def __init__(self, table: TableSource, encode: Encode, n_features: int, sparse: Encode | None = None) -> None:
        self._table, self._encode, self.n_features, self.n, self._sparse = table, encode, n_features, table.n, sparse
        if self.n < 1:
            raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")

    def sparse(self) -> EncodedRows:
        return self if self._sparse is None else EncodedTables(self._table, self._sparse, self.n_features)

    def then(self, expand: Callable[[Array], Array], n_features: int) -> EncodedTables:
        """Return the same rows with their features expanded; the encoding travels to workers without the rows."""
        encode = self._encode

        def both(table: Any) -> tuple[Any, Any]:
            features, targets = encode(table)
            return expand(features), targets

        return EncodedTables(self._table, both, n_features)

    def run(self, task: Task[T], held: Held = nothing) -> Iterator[T]:
        if (found := self._table.sent(self._encode, task, held)) is None:
            return run_here(self._table.portions(self.n_features), self._encode, self.n, task, held)
        return found


@final
class MappedRows(EncodedRows):
    """Rows whose features and targets are functions of another source's rows, applied row by row."""

    def __init__(self, rows: EncodedRows, change: Encode, targets: Encode, thin: bool = False) -> None:
        self.n, self._rows, self._changes, self._thin, self.whole = rows.n, rows, (change, targets), thin, rows.whole
        self.n_features = change(np.zeros((1, rows.n_features))).shape[1]

    def sparse(self) -> EncodedRows:
        return MappedRows(self._rows.sparse(), *self._changes) if self._thin else self

    def run(self, task: Task[T], held: Held = nothing) -> Iterator[T]:
        change, targets = self._changes  # tasks are sent to workers, so they must not hold `self`, which has the rows
        return self._rows.run(lambda portion, *more: task((change(portion[0]), targets(portion[1])), *more), held)


Rows = Array | EncodedRows


def same(values: Any) -> Any:
    """Return the argument unchanged."""
    return values


def mapped(X: Rows, y: Rows, change: Encode, targets: Encode = same, *, thin: bool = False) -> tuple[Any, Any]:
    """Return features and targets after functions of single rows: two arrays, or the same `EncodedRows` twice.

    `thin`: features may be sparse (CSR), and `change` keeps them so.
    """
    if isinstance(X, EncodedRows):
        rows = MappedRows(X, change, targets, thin)
        return rows, rows
    return change(X), targets(y)


def totals(X: Rows, y: Rows, work: Callable[..., Parts], own: Array | None = None) -> Parts:
    """Return the sum of `work` over portions (arrays are one), given features, targets, and their part of `own`."""
    if not isinstance(X, EncodedRows):
        return work(X, y) if own is None else work(X, y, own)
    if own is None:
        return reduce(summation.add, X.run(lambda portion, *_: work(*portion)))
    return reduce(summation.add, X.run(lambda portion, _, held: work(*portion, held), lambda i, j: own[i:j]))


def picked(X: Rows, index: Array) -> Floats:
    """Return the features of the rows with the given ascending indices (m,), in memory."""
    if not isinstance(X, EncodedRows):
        return X if len(index) == len(X) else X[index]
    found = list(X.run(lambda part, first, own: (first, part[0][own]), lambda first, stop: inside(index, first, stop)))
    return np.concatenate([rows for _, rows in sorted(found, key=lambda each: each[0])])


Change = Callable[[RowBlock, Any, slice], "RowBlock | None"]
"""Returns another block for a block, what is held of its portion, and its rows there; None: no record is left."""


@final_dataclass
class Clipping:
    """A function from portions to blocks of clipped records; it is sent to workers with tasks, and holds no rows."""

    domain: DataDomain
    targets: Callable[[Array], Floats]
    changes: tuple[Change, ...] = ()

    def __call__(self, portion: Portion, first: int, held: tuple[Any, ...]) -> list[RowBlock]:
        """Return the records of a portion; the first one has the index `first`; changes use `held`."""
        X, y = portion
        targets, found = self.targets(y), []
        for clipped in clipped_blocks(X, self.domain, first):
            rows = slice(clipped.rows.start - first, clipped.rows.stop - first)
            block: RowBlock | None = replace(clipped, targets=targets[rows])
            for change, given in zip(self.changes, held, strict=True):
                block = None if block is None else change(block, given, rows)
            found += [] if block is None else [block]
        return found


@final
class StreamedRecords(RecordSource):
    """Rows clipped into a domain, with targets clipped into a loss's range, in each pass anew."""

    def __init__(
        self, rows: EncodedRows | None, domain: DataDomain, clipping: Clipping, n: int, held: tuple[Held, ...] = ()
    ) -> None:
        self.domain, self._rows, self._clipping, self.n, self._held = domain, rows, clipping, n, held

    def __reduce__(self) -> Any:
        """Pickle public facts only: a task gets its portion, so rows and what is held of them stay here."""
        return StreamedRecords, (None, self.domain, self._clipping, self.n)

    def total(self, work: Callable[[RowBlock], Parts]) -> Parts:
        found = (parts for parts in self.each_portion(lambda blocks: parts_of(blocks, work)) if parts is not None)
        return reduce(summation.add, found)

    def subset(self, stride: int, targets: Array | None = None, weights: Array | None = None) -> Subset:
        def some(blocks: list[RowBlock]) -> list[tuple[Floats, Array, Array]]:
            parts = (block.part(block.picked(stride)) for block in blocks)
            return [(part.dense(), part.targets_in(None), part.weights_in(None)) for part in parts]

        chosen, labels, counted = np.empty((0, self.dim)), [np.empty(0)], [np.empty(0)]
        for part, targets_of, weights_of in chain.from_iterable(self.each_portion(some)):
            chosen.resize((len(chosen) + len(part), self.dim), refcheck=False)  # in place: rows are held once
            chosen[len(chosen) - len(part) :] = part
            labels.append(targets_of)
            counted.append(weights_of)
        return Records.of_rows(self.domain, chosen), np.concatenate(labels), np.concatenate(counted)

    def chosen(self, index: Array, targets: Array | None) -> StreamedRecords:
        def change(block: RowBlock, numbers: Array, rows: slice) -> RowBlock | None:
            here = inside(numbers, rows.start, rows.stop)
            return block.part(here) if len(here) else None

        return self._changed(change, self.domain, len(index), lambda first, stop: inside(index, first, stop))

    def weighted(self, weights: Floats) -> StreamedRecords:
        change: Change = lambda block, own, rows: replace(block, weights=own[rows])  # noqa: E731
        return self._changed(change, self.domain, self.n, lambda first, stop: weights[first:stop])

    def lifted(self, column: Callable[[Floats], Floats], targets: Array | None, domain: DataDomain) -> StreamedRecords:
        copies, intercept = domain.n_features - self.domain.n_features, domain.intercept

        def change(block: RowBlock, none: None, rows: slice) -> RowBlock:
            return replace(block, extra=column(block.targets_in(None)), copies=copies, intercept=intercept)

        return self._changed(change, domain, self.n)

    def _changed(self, change: Change, domain: DataDomain, n: int, held: Held = nothing) -> StreamedRecords:
        clipping = replace(self._clipping, changes=(*self._clipping.changes, change))
        return StreamedRecords(self._rows, domain, clipping, n, (*self._held, held))

    def each_portion(self, work: Callable[..., T], *own: Held) -> Iterator[T]:
        """Yield the result of `work` for the blocks of each portion, and for what `own` holds of its rows."""
        assert self._rows is not None  # the driver, which sends tasks, has the rows
        clipping, count = self._clipping, len(self._held)
        all_held = (*self._held, *own)
        return self._rows.run(
            lambda portion, first, held: work(clipping(portion, first, held[:count]), *held[count:]),
            lambda first, stop: tuple(each(first, stop) for each in all_held),
        )


def streamed(rows: EncodedRows, domain: DataDomain, targets: Callable[[Array], Floats]) -> StreamedRecords:
    """Return rows as records of a domain, with targets that a loss clips."""
    return StreamedRecords(rows.sparse(), domain, Clipping(domain, targets), rows.n)


def parts_of(blocks: list[RowBlock], work: Callable[[RowBlock], Parts]) -> Parts | None:
    """Return the sum of `work` over some blocks, by several threads; None without blocks."""
    return summation.total(len(blocks), lambda index: work(blocks[index].ready())) if blocks else None


LEAST = 2**26  #: Features are kept as cells, and not as a matrix, if the matrix has at least this many bytes.
_STEP, _PORTION, _LEAST_ROWS, _ENTRY = 2**15, 2**20, 1024, 16
"""Rows that are read at a time; floats of a portion; least rows of a portion where rows are wide; floats that a cell of
sparse rows counts."""
Cells = Sequence[Array]


@final
class CellRows(EncodedRows):
    """Rows in memory: the cells of each column (n,), or of several together (n, k), and the targets.

    `encode` makes the features of cells, and `sparse` the same as sparse matrices, if few entries are not 0.
    """

    in_memory = True

    def __init__(
        self, cells: Cells, targets: Array, n_features: int, encode: Callable[[Cells], Any],
        sparse: Callable[[Cells], Any] | None = None, whole: bool = False,
    ) -> None:  # fmt: skip
        self.n, self.n_features, self._width, self.whole = len(targets), n_features, n_features, whole
        self._cells, self._targets, self._encode, self._sparse = cells, targets, encode, sparse

    def run(self, task: Task[T], held: Held = nothing) -> Iterator[T]:
        step = max(_LEAST_ROWS, min(_PORTION // self._width, 4 * _PORTION // self.n_features))  # if rows are dense
        pieces = (range(rows.start, rows.stop) for rows in _slices(self.n, step))
        return run_here(pieces, self._portion, self.n, task, held)

    def _portion(self, rows: range) -> Portion:
        where = slice(rows.start, rows.stop)
        return self._encode([column[where] for column in self._cells]), self._targets[where].astype(np.float64)

    def sparse(self) -> EncodedRows:
        found = copy(self)
        if self._sparse is not None:
            found._encode, found._width = self._sparse, _ENTRY * len(self._cells)
        return found


def gathered(n: int, read: Callable[[slice], tuple[Cells, Array]]) -> tuple[Cells, Array]:
    """Return the cells of each column (n,) and the targets of n rows, which `read` returns for slices of rows."""
    cells, targets = read(slice(0, 0))
    found, own = [np.empty(n, column.dtype) for column in cells], np.empty((n, *targets.shape[1:]), targets.dtype)
    for rows in _slices(n, _STEP):
        cells, own[rows] = read(rows)
        for column, values in zip(found, cells, strict=True):
            column[rows] = values
    return found, own


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, n)) for first in range(0, n, step))
