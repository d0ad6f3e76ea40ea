"""Encoded rows that are read portion by portion, and the clipped records that they become.

A source knows how many rows it has before it reads them (public), yields the same *set* of rows every time, in any
order and any portions, and encodes each row by itself. Nothing of the size of the data is kept. As sums are exact
(`summation`), what is released from a source has the same bits as from the same rows in memory.

A worker of an engine does what `StreamedRecords.total` does with one portion: clip, `work`, return the parts. It may do
so twice if it is lost, for the caller counts the parts of a portion once. Workers draw no random bits: noise is drawn
once, by the plan, where `total` is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.problems.data import _threads
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.data.records import Records, RecordSource, RowBlock, clipped_blocks
from dpconvex.problems.data.summation import Parts

Portion = tuple[FloatArray, FloatArray]
"""Encoded features (m, n_features), and targets (m,) as a plan takes them."""


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
class StreamedRecords(RecordSource):
    """Rows clipped into a domain, and their targets into those of a loss, at each pass."""

    def __init__(self, rows: EncodedRows, domain: DataDomain, clip_targets: Callable[[AnyArray], FloatArray]) -> None:
        self.domain, self.n, self._rows, self._clip_targets = domain, rows.n, rows, clip_targets

    def total(self, work: Callable[[RowBlock], Parts]) -> Parts:
        with closing(self._portions()) as portions:
            found = next(parts_of(blocks, work) for blocks in portions)
            for blocks in portions:
                found = _threads.add(found, parts_of(blocks, work))
        return found

    def subset(self, stride: int, targets: AnyArray | None = None) -> tuple[Records, AnyArray, None]:
        chosen, labels = [np.empty((0, self.dim))], [np.empty(0)]
        with closing(self._portions()) as portions:
            for block in (block for blocks in portions for block in blocks):
                index = block.picked(stride)
                chosen.append(block.part(index).dense())
                assert block.targets is not None  # `_portions`
                labels.append(block.targets[index])
        return Records.of_rows(self.domain, np.concatenate(chosen)), np.concatenate(labels), None

    def _portions(self) -> Generator[list[RowBlock], None, None]:
        first = 0
        with closing(self._rows.ahead()) as portions:
            for X, y in portions:
                targets = self._clip_targets(y)
                blocks = clipped_blocks(X, self.domain, first)
                yield [replace(b, targets=targets[b.rows.start - first : b.rows.stop - first]) for b in blocks]
                first += len(X)


def parts_of(blocks: list[RowBlock], work: Callable[[RowBlock], Parts]) -> Parts:
    """Return the sum of `work` over some blocks, by several threads."""
    return _threads.total(len(blocks), lambda index: work(blocks[index].ready()))
