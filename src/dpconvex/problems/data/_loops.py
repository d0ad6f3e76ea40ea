"""The compiled loops of `users` and `points`, cached on disk; imported when needed, for numba loads slowly.

What is computed for a record is a function of that record alone: a product with BLAS would depend, in its last bit, on
how many records of other users stand before it, and where a loss has a kink a last bit can decide a gradient. A squared
distance is a function of its two points alone, and no loop over points stops early, so no running time depends on where
points lie. Groups of points are held transposed, one row a coordinate: then the sums over coordinates of many pairs
vectorize.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from dpconvex._types import AnyArray, FloatArray

WIDTH = 256  # points against which four others are compared at a time
SPLITTER = 134217729.0  # 2^27 + 1


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


@njit(cache=True, nogil=True)
def gather(X: FloatArray, members: AnyArray, out: FloatArray) -> None:
    """Copy some rows of X into the columns of `out`."""
    for a in range(len(members)):
        i = members[a]
        for j in range(X.shape[1]):
            out[j, a] = X[i, j]


@njit(cache=True, nogil=True, fastmath={"contract"})
def four_rows(T: FloatArray, size: int, b: int, start: int, stop: int, out: FloatArray) -> None:
    """Squared distances of columns b, ..., b + 3 (the last one repeated beyond `size`) from columns [start, stop)."""
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    out[:] = 0.0
    b1, b2, b3 = min(b + 1, size - 1), min(b + 2, size - 1), min(b + 3, size - 1)
    for j in range(T.shape[0]):
        row = T[j, start:stop]
        x0, x1, x2, x3 = T[j, b], T[j, b1], T[j, b2], T[j, b3]
        for a in range(stop - start):
            t0, t1, t2, t3 = row[a] - x0, row[a] - x1, row[a] - x2, row[a] - x3
            out0[a] += t0 * t0
            out1[a] += t1 * t1
            out2[a] += t2 * t2
            out3[a] += t3 * t3


@njit(cache=True, nogil=True)
def pair_levels(
    X: FloatArray,
    order: AnyArray,
    bounds: AnyArray,
    mantissa_square: float,
    exponent: int,
    small: int,
    levels: FloatArray,
) -> None:
    """Count ordered pairs of different records within groups, by group size ``small + row`` and by the least level.

    That is the least t with distance at most ``r 2^t``, ``r = mantissa 2^exponent``; the last level takes the rest.
    """
    top = levels.shape[1] - 1
    T, squares = np.empty((X.shape[1], small + 1)), np.empty((4, WIDTH))
    for g in range(len(bounds) - 1):
        size = bounds[g + 1] - bounds[g]
        gather(X, order[bounds[g] : bounds[g + 1]], T)
        counts = levels[size - small]
        for b in range(0, size, 4):
            for start in range(0, b + 4, WIDTH):
                stop = min(start + WIDTH, size)
                four_rows(T, size, b, start, stop, squares)
                for k in range(min(4, size - b)):
                    for a in range(start, min(stop, b + k)):
                        part, power = math.frexp(squares[k, a - start] / mantissa_square)
                        power -= 2 * exponent + (part == 0.5)
                        level = min(max((power + 1) // 2, 0), top) if part > 0 else 0
                        counts[level] += 2


@njit(cache=True, nogil=True)
def near_counts(
    X: FloatArray, order: AnyArray, bounds: AnyArray, first: int, step: int, limit: float, out: FloatArray
) -> None:
    """Count for each record ``order[k]`` the members of its group within squared distance `limit`, into ``out[k]``.

    Of the pairs only those are counted whose later member is in a quadruple ``first, first + step, ...``.
    """
    largest = 0
    for g in range(len(bounds) - 1):
        largest = max(largest, bounds[g + 1] - bounds[g])
    T, squares = np.empty((X.shape[1], largest)), np.empty((4, WIDTH))
    for g in range(len(bounds) - 1):
        lo, size = bounds[g], bounds[g + 1] - bounds[g]
        gather(X, order[lo : lo + size], T)
        for b in range(4 * first, size, 4 * step):
            for start in range(0, b + 4, WIDTH):
                stop = min(start + WIDTH, size)
                four_rows(T, size, b, start, stop, squares)
                for k in range(min(4, size - b)):
                    found = 0
                    for a in range(start, min(stop, b + k)):
                        near = squares[k, a - start] <= limit
                        out[lo + a] += near
                        found += near
                    out[lo + b + k] += found
            for k in range(min(4, size - b)):
                out[lo + b + k] += 1  # itself


@njit(cache=True, nogil=True)
def near_partners(X: FloatArray, partners: AnyArray, limit: float, out: AnyArray) -> None:
    """Add 1 to ``out[i]`` where record ``partners[i]`` lies within the limit of record i."""
    d = X.shape[1]
    for i in range(len(X)):
        total = 0.0
        for j in range(d):
            t = X[i, j] - X[partners[i], j]
            total += t * t
        out[i] += total <= limit


@njit(cache=True, nogil=True)
def weighted_sums(X: FloatArray, weights: FloatArray, high: FloatArray, low: FloatArray) -> tuple[float, float]:
    """Add ``sum_i w_i x_i`` to ``high + low``, as if in twice the precision; return the sum of weights likewise."""
    total, rest = 0.0, 0.0
    for i in range(len(X)):
        w = weights[i]
        scaled = SPLITTER * w
        w_high = scaled - (scaled - w)
        w_low = w - w_high
        s = total + w
        b = s - total
        rest += (total - (s - b)) + (w - b)
        total = s
        for j in range(X.shape[1]):
            x = X[i, j]
            scaled = SPLITTER * x
            x_high = scaled - (scaled - x)
            x_low = x - x_high
            p = w * x
            error = ((x_high * w_high - p) + x_high * w_low + x_low * w_high) + x_low * w_low
            s = high[j] + p
            b = s - high[j]
            low[j] += ((high[j] - (s - b)) + (p - b)) + error
            high[j] = s
    return total, rest
