"""Rows of a table in memory, in few bytes: numbers, and positions of categories instead of a matrix of zeros and ones.

Features are made of them portion by portion, at each pass. Any plan may run: those that need more than sums get the
matrix (`matrix`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, final

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.problems.data.sources.rows import EncodedRows, Held, Portion, nothing, run_here

LEAST = 2**26  #: Bytes of the smallest matrix that is not made.

_STEP, _PORTION, _LEAST_ROWS = 2**15, 2**20, 256
"""Rows that are read at a time; floats of a portion, and its rows where they are wide."""

Cells = Sequence[Array]
T = TypeVar("T")


@final
class CellRows(EncodedRows):
    """Rows in memory; `read` gives the cells of the columns, each (m,), and the targets of a slice of them."""

    in_memory = True

    def __init__(
        self, n: int, n_features: int, read: Callable[[slice], tuple[Cells, Array]], encode: Callable[[Cells], Floats]
    ) -> None:
        self.n, self.n_features, self._encode = n, n_features, encode
        for rows in _slices(n, _STEP):
            cells, targets = read(rows)
            if rows.start == 0:
                self._cells = [np.empty(n, column.dtype) for column in cells]
                self._targets = np.empty((n, *targets.shape[1:]), targets.dtype)
            self._targets[rows] = targets
            for column, values in zip(self._cells, cells, strict=True):
                column[rows] = values

    def run(self, task: Callable[[Portion, int, Any], T], held: Held = nothing) -> Iterator[T]:
        step = max(_LEAST_ROWS, _PORTION // self.n_features)
        pieces = (range(rows.start, rows.stop) for rows in _slices(self.n, step))
        return run_here(pieces, self._portion, self.n, task, held)

    def _portion(self, rows: range) -> Portion:
        where = slice(rows.start, rows.stop)
        return self._encode([column[where] for column in self._cells]), self._targets[where].astype(np.float64)

    def matrix(self) -> Portion:
        return self._encode(self._cells), self._targets.astype(np.float64)


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(first, min(first + step, n)) for first in range(0, n, step))
