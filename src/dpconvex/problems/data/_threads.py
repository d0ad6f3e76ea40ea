"""Threads over row blocks, with one BLAS thread each.

Threaded BLAS gains little on blocks of 1 MB, and its busy waiting makes it tens of times slower when another process
wants a core. So passes over the data are split here, and solvers run inside `one_blas_thread` (their small
problems have a single block).
"""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache, reduce
from threading import local
from typing import Any, TypeVar

import numpy as np

from dpconvex.problems.data.summation import Parts

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
    """Keep BLAS from starting threads of its own."""
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
