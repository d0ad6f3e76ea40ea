"""The compiled loops of `user_gradients`, cached on disk; imported when needed, for numba loads slowly.

What is computed for a record is a function of that record alone: a product with BLAS would depend, in its last bit, on
how many records of other users stand before it, and where a loss has a kink a last bit can decide a gradient.
"""

from __future__ import annotations

from numba import njit

from dpconvex._types import AnyArray, FloatArray


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def predictions(rows: FloatArray, W: FloatArray, out: FloatArray) -> None:
    """Write the product of every row with every row of W to ``out``, shape (m, k)."""
    for i in range(len(rows)):
        row = rows[i]
        for k in range(len(W)):
            one, total = W[k], 0.0
            for j in range(len(row)):
                total += row[j] * one[j]
            out[i, k] = total


@njit(cache=True, nogil=True, fastmath={"contract"})
def add_by_user(rows: FloatArray, slopes: FloatArray, starts: AnyArray, first: int, out: FloatArray) -> None:
    """Add ``slopes[i, k] rows[i]`` to part k of its user's row of ``out``; row i has the grouped position first + i."""
    d, user = rows.shape[1], 0
    for i in range(len(rows)):
        while starts[user + 1] <= first + i:
            user += 1
        for k in range(slopes.shape[1]):
            s = slopes[i, k]
            for j in range(d):
                out[user, k * d + j] += s * rows[i, j]
