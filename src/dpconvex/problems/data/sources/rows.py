"""Encoded rows that are read portion by portion, and the clipped records that they become.

A source knows how many rows it has before it reads them (public), yields the same *set* of rows every time, in any
order and any portions, and encodes each row by itself. Nothing of the size of the data is kept. As sums are exact
(`summation`), what is released from a source has the same bits as from the same rows in memory.

A pass is a *task* for each portion (`EncodedRows.run`): clip, `work`, return the parts. An engine overrides `run` alone
and sends tasks to where portions are. A task may run twice if a worker is lost, for the parts of a portion are counted
once. Tasks draw no random bits: noise is drawn once, by the plan, where `run` is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import _threads
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records, RecordSource, RowBlock, clipped_blocks
from dpconvex.problems.data.summation import Parts

Portion = tuple[FloatArray, FloatArray]
"""Encoded features (m, n_features), and targets (m,) as a plan takes them."""

T = TypeVar("T")


def expanding(
    encode: Callable[[Any], tuple[Any, Any]], expand: Callable[[AnyArray], AnyArray]
) -> Callable[[Any], tuple[Any, Any]]:
    """Return the encoding whose features are expanded; it travels to workers without the rows."""

    def both(table: Any) -> tuple[Any, Any]:
        features, targets = encode(table)
        return expand(features), targets

    return both


class EncodedRows(ABC):
    """What a plan that needs only sums (`ConvexPlan.only_sums`) takes in the place of both X and y."""

    n: int
    n_features: int

    def __len__(self) -> int:
        return self.n

    @property
    def shape(self) -> tuple[int, int]:
        """As a matrix has it."""
        return self.n, self.n_features

    @abstractmethod
    def portions(self) -> Iterator[Portion]:
        """Yield all rows, from the first again at each call."""

    def run(self, task: Callable[[Portion, int], T]) -> Iterator[T]:
        """Yield what `task` returns for each portion and the number of its first row, once, in any order."""
        first = 0
        with closing(self.ahead()) as portions:
            for portion in portions:
                yield task(portion, first)
                first += len(portion[1])

    @final
    def mapped(self, change: Callable[[FloatArray], FloatArray]) -> EncodedRows:
        """Return the same rows, with features that a function of single rows makes of them."""
        return MappedRows(self, change)

    @final
    def ahead(self) -> Generator[Portion, None, None]:
        """Yield all rows, the next portion being read while the last one is used; check their number."""
        portions, seen = self.portions(), 0
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(_next, portions)
            while (portion := coming.result()) is not None:
                coming = reader.submit(_next, portions)
                seen += len(portion[1])
                yield portion
        if seen != self.n:
            what = f"X had {self.n} rows when it was opened and {seen} when it was read"
            raise InvalidDataError(f"{what}. Keep its files as they are during a fit")


def _next(portions: Iterator[Portion]) -> Portion | None:
    with np.errstate(all="ignore"):  # a thread has settings of its own; what floats meet depends on the data
        return next(portions, None)


@final
class MappedRows(EncodedRows):
    """Rows with features that are functions of those of other rows, one by one."""

    def __init__(self, rows: EncodedRows, change: Callable[[FloatArray], FloatArray]) -> None:
        self.n, self._rows, self._change = rows.n, rows, change
        self.n_features = change(np.zeros((1, rows.n_features))).shape[1]

    def portions(self) -> Iterator[Portion]:
        return ((self._change(X), y) for X, y in self._rows.portions())

    def run(self, task: Callable[[Portion, int], T]) -> Iterator[T]:
        change = self._change  # not the rows: tasks travel
        return self._rows.run(lambda portion, first: task((change(portion[0]), portion[1]), first))


def mapped(
    X: AnyArray | EncodedRows, y: AnyArray | EncodedRows, change: Callable[[FloatArray], FloatArray]
) -> tuple[Any, Any]:
    """Return features that a function of single rows makes of others, and their targets: arrays, or rows twice."""
    if isinstance(X, EncodedRows):
        rows = X.mapped(change)
        return rows, rows
    return change(X), y


def totals(X: AnyArray | EncodedRows, y: AnyArray | EncodedRows, work: Callable[[Any, Any], Parts]) -> Parts:
    """Return the sum of `work` of features and targets over portions; arrays are one."""
    if isinstance(X, EncodedRows):
        return reduce(_threads.add, X.run(lambda portion, first: work(*portion)))
    return work(X, y)


@final
@dataclass(frozen=True)
class Clipping:
    """How a portion becomes blocks of clipped records; it travels with tasks, and holds no rows."""

    domain: DataDomain
    targets: Callable[[AnyArray], FloatArray]
    changes: tuple[Callable[[RowBlock], RowBlock | None], ...] = ()  #: None: no record is left

    def __call__(self, portion: Portion, first: int) -> list[RowBlock]:
        """Return the records of a portion; the first one has the number `first`."""
        X, y = portion
        targets, found = self.targets(y), []
        for clipped in clipped_blocks(X, self.domain, first):
            rows = clipped.rows
            block: RowBlock | None = replace(clipped, targets=targets[rows.start - first : rows.stop - first])
            for change in self.changes:
                block = None if block is None else change(block)
            found += [] if block is None else [block]
        return found


@final
class StreamedRecords(RecordSource):
    """Rows clipped into a domain, and their targets into those of a loss, at each pass."""

    def __init__(self, rows: EncodedRows | None, domain: DataDomain, clipping: Clipping, n: int | None = None) -> None:
        self.domain, self._rows, self._clipping = domain, rows, clipping
        self.n = rows.n if rows is not None and n is None else n or 0

    def __reduce__(self) -> Any:
        """Leave the rows here: a task has its portion, and needs no more than facts of the records."""
        return StreamedRecords, (None, self.domain, self._clipping, self.n)

    def total(self, work: Callable[[RowBlock], Parts]) -> Parts:
        found = (parts for parts in self._run(lambda blocks: parts_of(blocks, work)) if parts is not None)
        return reduce(_threads.add, found)

    def subset(self, stride: int, targets: AnyArray | None = None) -> tuple[Records, AnyArray, None]:
        def some(blocks: list[RowBlock]) -> list[tuple[FloatArray, AnyArray]]:
            picked = (block.part(block.picked(stride)) for block in blocks)
            return [(part.dense(), part.targets_in(None)) for part in picked]

        found = [(np.empty((0, self.dim)), np.empty(0)), *(pair for pairs in self._run(some) for pair in pairs)]
        chosen, labels = zip(*found, strict=True)
        return Records.of_rows(self.domain, np.concatenate(chosen)), np.concatenate(labels), None

    def chosen(self, index: AnyArray, targets: AnyArray | None) -> StreamedRecords:
        def change(block: RowBlock) -> RowBlock | None:
            start, stop = np.searchsorted(index, [block.rows.start, block.rows.stop]).tolist()
            return block.part(index[start:stop] - block.rows.start) if stop > start else None

        return self._changed(change, self.domain, len(index))

    def lifted(
        self, column: Callable[[FloatArray], FloatArray], targets: AnyArray | None, domain: DataDomain
    ) -> StreamedRecords:
        copies, intercept = domain.n_features - self.domain.n_features, domain.intercept

        def change(block: RowBlock) -> RowBlock:
            return replace(block, extra=column(block.targets_in(None)), copies=copies, intercept=intercept)

        return self._changed(change, domain, self.n)

    def _changed(self, change: Callable[[RowBlock], RowBlock | None], domain: DataDomain, n: int) -> StreamedRecords:
        clipping = replace(self._clipping, changes=(*self._clipping.changes, change))
        return StreamedRecords(self._rows, domain, clipping, n)

    def _run(self, work: Callable[[list[RowBlock]], T]) -> Iterator[T]:
        assert self._rows is not None  # where tasks are sent from
        clipping = self._clipping
        return self._rows.run(lambda portion, first: work(clipping(portion, first)))


def streamed(rows: EncodedRows, domain: DataDomain, targets: Callable[[AnyArray], FloatArray]) -> StreamedRecords:
    """Return rows as records of a domain, with targets that a loss clips."""
    return StreamedRecords(rows, domain, Clipping(domain, targets))


def parts_of(blocks: list[RowBlock], work: Callable[[RowBlock], Parts]) -> Parts | None:
    """Return the sum of `work` over some blocks, by several threads; None of none."""
    return _threads.total(len(blocks), lambda index: work(blocks[index].ready())) if blocks else None
