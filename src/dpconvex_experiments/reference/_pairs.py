"""The compiled loop of `radius_finder`, cached on disk; imported when it is needed, for numba loads slowly."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpconvex._types import AnyArray, FloatArray


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def neighbours(X: FloatArray, squares: FloatArray, counts: AnyArray) -> None:
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
