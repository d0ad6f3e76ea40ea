"""Compiled loops of `halving` and `printed_median`; imported when needed, for numba loads slowly."""

import numpy as np

from dpconvex._compiled import njit
from dpconvex._types import Array, Floats
from dpconvex.solvers._loops import _reordered


@_reordered
def neighbors(X: Floats, squares: Floats, counts: Array) -> None:
    """Count for every point the others by the first squared radius that reaches them, (T + 1, n): the last for none."""
    n, d = X.shape
    for i in range(n):
        for k in range(i):
            square = 0.0
            for j in range(d):
                t = X[i, j] - X[k, j]
                square += t * t
            level = np.searchsorted(squares, square)
            counts[level, i] += 1
            counts[level, k] += 1


@njit(nogil=True)
def near_partners(X: Floats, partners: Array, limit: float, out: Array) -> None:
    """Add 1 to ``out[i]`` where record ``partners[i]`` lies within the limit of record i."""
    d = X.shape[1]
    for i in range(len(X)):
        total = 0.0
        for j in range(d):
            t = X[i, j] - X[partners[i], j]
            total += t * t
        out[i] += total <= limit
