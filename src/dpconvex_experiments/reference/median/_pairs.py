"""The compiled loop of `radius_finder`, cached on disk; imported when it is needed, for numba loads slowly."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpconvex._types import AnyArray, FloatArray


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def neighbours(X: FloatArray, squares: FloatArray, counts: AnyArray) -> None:
    """Count, for every point, the others by the first grid radius (squared: `squares`) that reaches them.

    Parameters
    ----------
    X : array of shape (n, d)
    squares : array of shape (T,)
        Ascending.
    counts : array of shape (T + 1, n)
        Zeros; pairs beyond the last radius go to the last row.
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
