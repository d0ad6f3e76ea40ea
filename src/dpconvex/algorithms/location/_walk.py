"""Compiled loops of `stable_sgd` and `halving`, cached on disk, one thread; imported late, for numba loads slowly."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpconvex._types import AnyArray, FloatArray
from dpconvex.solvers._loops import difference
from dpconvex.solvers._unit_vectors import COINCIDENT


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def walk(
    points: FloatArray, visits: AnyArray, center: FloatArray, z: FloatArray, step: float, ball: float, first: int
) -> FloatArray:
    """Take one step of length `step` towards each visited row; return the mean of the iterates ``first, ..., T``.

    Iterates are relative to the center of the ball; z is the first one, and overwritten by the last. A `first` of -1
    stands for ``0, ..., T - 1``.
    """
    d, steps = len(z), len(visits)
    row, kept, count = np.empty(d), np.zeros(d), 0
    for t in range(steps + 1):
        if first <= t and (first >= 0 or t < steps):
            count += 1
            for j in range(d):
                kept[j] += z[j]
        if t == steps:
            break
        square = 0.0
        for j in range(d):
            row[j] = difference(points[visits[t], j], center[j], z[j])
            square += row[j] * row[j]
        if square < COINCIDENT:
            continue
        scale, square = step / np.sqrt(square), 0.0
        for j in range(d):
            z[j] += scale * row[j]
            square += z[j] * z[j]
        if square > ball * ball:
            scale = ball / np.sqrt(square)
            for j in range(d):
                z[j] *= scale
    return kept / count


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def neighbors(X: FloatArray, squares: FloatArray, counts: AnyArray) -> None:
    """Count, for every point, the others by the first grid radius (its square, ascending) that reaches them.

    `counts` (T + 1, n) begins with zeros; pairs beyond the last radius go to the last row.
    """
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
