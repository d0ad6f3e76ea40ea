"""Threads over row blocks, with one BLAS thread each.

Threaded BLAS gains little on blocks of 1 MB, and its busy waiting makes it tens of times slower when another process
wants a core. So passes over the data are split here, and solvers run inside `one_blas_thread` (their small
problems have a single block).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from dpconvex.problems.data.summation import Parts

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_MOST = 4  # threads: more would wait for memory
_LEAST_PARTS = 4  # a thread must have at least so many blocks to be worth its start


def total(parts: int, work: Callable[[int], Parts]) -> Parts:
    """Return ``work(0) + ... + work(parts - 1)``, parts that add up exactly: neither threads nor their order matter."""

    def some(indices: range) -> Parts:
        with np.errstate(all="ignore"):  # a thread has settings of its own; what floats meet depends on the data
            return reduce(add, map(work, indices))

    threads = min(_threads(), max(1, parts // _LEAST_PARTS))
    if threads == 1:
        return some(range(parts))
    bounds = np.linspace(0, parts, threads + 1).astype(int).tolist()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        return reduce(add, pool.map(some, map(range, bounds[:-1], bounds[1:])))


def add(one: Parts, other: Parts) -> Parts:
    """Add parts entry by entry."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def one_blas_thread() -> AbstractContextManager[object]:
    """Keep BLAS from starting threads of its own."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _threads() -> int:
    """Cores that this process may use, fewer where the usual environment variables say so."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    asked = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    return max(1, min([_MOST, cores, *(int(text) for text in asked if text.isdecimal())]))
