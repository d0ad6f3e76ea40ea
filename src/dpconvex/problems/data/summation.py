r"""Sums over records that do not depend on their order, nor on blocks, threads, files or machines.

Every summand is rounded, by itself, to a public grid; its remainder to a finer grid. Sums of multiples of a grid
are exact in float64 below 2^53 steps of the grid, and exact sums may be added in any order: a sum depends only on
the *set* of records. Errors, and their proofs (docs, Solver certificates, Exact sums), for n <= 2^32 records:

- vectors (`vector_parts`): a mean of products of slopes up to S and records up to L errs by less than ``1e-14 S L``;
- weighted vectors (`by_weight`), in 8 classes of weights: by less than ``5e-14 S L`` in a weighted mean;
- numbers (`number_parts`): a table of 32-bit digits holds the exact sum, and `number` rounds it once;
- second moments (`gram_parts`): entries are rounded to ``2^-21 T`` by the caller's choice, towards zero (so that a
  record stays in its domain and sensitivities are exact), or to the nearest (a Hessian that serves as a metric).

A record's summand is a function of that record alone: predictions are added up in a fixed order
(`_loops.predictions`), without fused operations. One thing remains that may differ between types of processor: the last
digit of NumPy's ``exp`` and ``log``. Machines of one cluster should be of one type where bits must agree.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, reduce
from threading import local
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.problems.data import _loops

Parts = tuple[Any, ...]
"""Partial sums, each an array (or a `Largest`); parts of two groups of records are added entry by entry, exactly."""
MOST_ROWS = 2**14  #: Most rows of a block whose vectors are summed at a time
SPARSE = 16  #: Rows stay sparse if at most one entry in so many is not 0.
PANEL_ROWS = 2**11  #: Most rows of a panel whose second moments are summed at a time
_MAGIC = 1.5 * 2.0**52  # adding and subtracting this many steps rounds to whole steps
_COARSE, _FINE, _FINEST, _ENTRY = 2.0**-12, 2.0**-38, 2.0**-60, 2.0**-21
_CLASS, _CLASSES = 4, 8  # binary digits of a class of weights, and the number of classes
_DIGITS = 71  # entries of a table: 68 digits, then the counts of inf, -inf and NaN


def power_above(size: float) -> float:
    """Return the power of two T with ``size < T <= 2 size``; NaN if there is none; tiny sizes have a larger T."""
    return math.ldexp(1.0, math.frexp(max(size, 1e-280))[1]) if size < 1e280 else math.nan


def steps(size: float) -> tuple[float, float]:
    """Return the two numbers that `_loops` adds and subtracts to round summands of at most `size` to the two grids."""
    top = power_above(size)
    return _MAGIC * _FINE * top, _MAGIC * _FINEST * top


def vector_parts(rows: Any, factors: Floats, size: float) -> Array:
    """Return the parts of ``sum_i factors_i rows_i``: (3, d) for factors (m,), (3, k, d) for (m, k).

    `rows` are C-contiguous or sparse (CSR), at most `MOST_ROWS`; `size` bounds every ``|factor x|``, and is the same in
    all calls whose parts are added.
    """
    slopes = np.ascontiguousarray(factors.reshape(len(factors), math.prod(factors.shape[1:])))
    high, low = np.zeros((2, slopes.shape[1], rows.shape[1]))
    if issparse(rows):
        _loops.add_thin(rows.data, rows.indices, rows.indptr, slopes, *steps(size), high, low)
    else:
        _loops.add_products(rows, slopes, *steps(size), high, low)
    parts = np.empty((3, *high.shape))
    parts[:2] = _split(high, _COARSE * power_above(size))
    parts[2] = low
    return parts[:, 0] if factors.ndim == 1 else parts


def vector(parts: Array) -> Floats:
    """Return the sum of which `vector_parts`, added up, are the parts."""
    return (parts[0] + parts[1]) + parts[2]


def by_weight(weights: Floats, largest: float, size: float, sums: Callable[[Any, float], Array]) -> Array:
    """Return the parts (8, 3, ...) of a sum of weighted vectors.

    ``sums(rows, size)`` returns the parts for some rows, a mask or a slice, whose products are at most `size`; `size`
    bounds those of all rows. Weights (m,) are at most `largest`, which is the same in all calls whose parts are added.
    """
    _, exponents = np.frexp(weights / largest)
    classes = np.clip((1 - exponents) // _CLASS, 0, _CLASSES - 1)
    found = np.unique(classes).tolist() or [0]
    rows = [classes == k for k in found] if len(found) > 1 else [slice(None)]
    parts = list(map(sums, rows, [size * 2.0 ** (1 - _CLASS * k) if k else size for k in found]))
    out = np.zeros((_CLASSES, *parts[0].shape))
    out[found] = parts
    return out


def weighted_vector(parts: Array) -> Floats:
    """Return the sum of which `by_weight`, added up, are the parts."""
    return np.sum([vector(part) for part in parts[::-1]], axis=0)


def number_parts(values: Floats) -> Array:
    """Return the table of ``sum(values)``, shape (71,), for values of any shape."""
    table = np.zeros(_DIGITS, dtype=np.int64)
    _loops.add_digits(np.ascontiguousarray(values, dtype=np.float64).ravel().view(np.int64), table)
    return table


def number(table: Array) -> float:
    """Return the float nearest to the exact sum."""
    above, below, missing = table[-3:].tolist()
    if missing or (above and below):
        return math.nan
    if above or below:
        return math.inf if above else -math.inf
    whole = sum(digit << (32 * k) for k, digit in enumerate(table[:-3].tolist()))
    try:
        return whole / 2**1075
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def exact_sum(values: Floats) -> float:
    """Return the float nearest to the exact sum of `values`."""
    return number(number_parts(values))


@final_dataclass
class Largest:
    """A part of which the larger value counts, and not the sum, when two groups of records are joined."""

    value: float

    @classmethod
    def of(cls, values: Floats) -> "Largest":
        """Return the largest value; NaN if a value is NaN."""
        return cls(float(np.max(values, initial=-math.inf)))

    def __add__(self, other: "Largest") -> "Largest":
        return Largest(float(np.maximum(self.value, other.value)))


Rounded = Callable[[Floats], Floats]


def gram_parts(rows: Floats, factors: Floats, size: float, rounded: Rounded, right: Floats | None = None) -> Array:
    """Return the parts (2, d, d) of ``A^T A`` or ``A^T right``, A = diag(factors) rows rounded, and overwrite `rows`.

    `size` bounds every entry of A, and is the same in all calls whose parts are added; `right` is made by `on_grid`. At
    most `PANEL_ROWS` rows.
    """
    left = on_grid(rows, factors, size, rounded)
    if right is None and SPARSE * np.count_nonzero(left) < left.size:  # the same bits, for sums are exact
        few = csr_array(left)
        return _split((few.T @ few).toarray(), 2.0**26)
    return _split(left.T @ (left if right is None else right), 2.0**26)


def on_grid(rows: Floats, factors: Floats, size: float, rounded: Rounded) -> Floats:
    """Return ``diag(factors) rows / (2^-21 T)`` rounded to whole numbers, in the memory of `rows`."""
    rows *= (factors / (_ENTRY * power_above(size)))[:, None]
    return rounded(rows, rows)  # pyright: ignore[reportCallIssue]


def gram(parts: Array, size: float, right: float | None = None) -> Floats:
    """Return the matrix of which `gram_parts`, added up, are the parts."""
    return (parts[0] + parts[1]) * (_ENTRY * power_above(size)) * (_ENTRY * power_above(right or size))


def _split(values: Floats, step: float) -> Floats:
    """Return values rounded to multiples of a power of two, and the rest, which is exact, in one array."""
    out = np.empty((2, *values.shape))
    np.add(values, _MAGIC * step, out=out[0])
    out[0] -= _MAGIC * step
    np.subtract(values, out[0], out=out[1])
    return out


T = TypeVar("T")
_MOST = 4  # most threads: more would wait for memory
_LEAST_PARTS = 4  # least number of blocks for which starting a thread pays
_OWN = local()  # facts of a thread: `busy` is set while other threads work beside it


def total(parts: int, work: Callable[[int], Parts]) -> Parts:
    """Return ``work(0) + ... + work(parts - 1)``; since sums are exact, threads and their order do not matter."""
    return reduce(add, _shared(parts, lambda indices: reduce(add, map(work, indices))))


def each(parts: int, work: Callable[[int], T]) -> list[T]:
    """Return ``[work(0), ..., work(parts - 1)]``."""
    return [found for some in _shared(parts, lambda indices: [work(i) for i in indices]) for found in some]


def _shared(parts: int, work: Callable[[range], T]) -> list[T]:
    """Return the results of `work` on each thread's share of some blocks, in order."""

    def quiet(indices: range) -> T:
        with np.errstate(all="ignore"):  # a thread has settings of its own; what floats meet depends on the data
            return work(indices)

    count = 1 if hasattr(_OWN, "busy") else min(threads(), max(1, parts // _LEAST_PARTS))
    if count == 1:
        return [quiet(range(parts))]
    bounds = np.linspace(0, parts, count + 1).astype(int).tolist()
    with one_blas_thread(), ThreadPoolExecutor(count) as pool:
        return list(pool.map(quiet, map(range, bounds[:-1], bounds[1:])))


@contextmanager
def workers() -> Iterator[tuple[ThreadPoolExecutor, int]]:
    """Start threads whose own work is not split over further threads, and yield them with their number."""
    count = threads()

    def alone() -> None:
        _OWN.busy = True

    with one_blas_thread(), ThreadPoolExecutor(count, initializer=alone) as pool:
        yield pool, count


def add(one: Parts, other: Parts) -> Parts:
    """Add parts entry by entry."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep BLAS from starting threads of its own: passes over the data are split here, and solvers have a single block.

    Threaded BLAS gains little on blocks of 1 MB, and its busy waiting makes it tens of times slower when another
    process wants a core.
    """
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def threads() -> int:
    """Return the number of cores that this process may use, or fewer if the usual environment variables say so."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    asked = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    return max(1, min([_MOST, cores, *(int(text) for text in asked if text.isdecimal())]))
