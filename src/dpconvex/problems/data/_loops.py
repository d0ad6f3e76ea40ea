"""The compiled loops of `records`, `users` and `points`, cached on disk; imported when needed, for numba loads slowly.

Results for a record depend on that record alone, and are equal on all processors (no fused operations, no order that
depends on vector length): a product with BLAS would depend, in its last bit, on how many records stand before it, and
at a kink of the loss a last bit can decide a gradient. A squared distance is a function of its two points alone, and
no loop over points stops early, so running times do not depend on where points lie. Groups of points are held
transposed, one row a coordinate: then the sums over coordinates of many pairs vectorize.
"""

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import carray

from dpconvex._compiled import njit
from dpconvex._types import Array, Floats

WIDTH = 256  # points against which four others are compared at a time
TILE = 256  # rows of a table that are encoded at a time
SPLITTER = 134217729.0  # 2^27 + 1


@njit(nogil=True)
def predictions(rows: Floats, W: Floats, out: Floats) -> None:
    """Write the product of every row with every row of W to ``out``, shape (m, k), summed in one order everywhere."""
    d = rows.shape[1]
    whole = d - d % 8
    for i in range(len(rows)):
        r = rows[i]
        for k in range(len(W)):
            w = W[k]
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
            for j in range(0, whole, 8):
                a0 += r[j] * w[j]
                a1 += r[j + 1] * w[j + 1]
                a2 += r[j + 2] * w[j + 2]
                a3 += r[j + 3] * w[j + 3]
                a4 += r[j + 4] * w[j + 4]
                a5 += r[j + 5] * w[j + 5]
                a6 += r[j + 6] * w[j + 6]
                a7 += r[j + 7] * w[j + 7]
            for j in range(whole, d):
                a0 += r[j] * w[j]
            out[i, k] = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@njit(nogil=True)
def sparse_predictions(values: Floats, columns: Array, starts: Array, W: Floats, out: Floats) -> None:
    """Do `predictions`, to the last bit, for rows of which entries that are not 0 are given (CSR)."""
    whole, parts = W.shape[1] - W.shape[1] % 8, np.empty(8)
    for i in range(len(starts) - 1):
        for k in range(len(W)):
            parts[:] = 0.0
            for e in range(starts[i], starts[i + 1]):
                j = columns[e]
                parts[j % 8 if j < whole else 0] += values[e] * W[k, j]
            a0, a1, a2, a3, a4, a5, a6, a7 = parts
            out[i, k] = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))


@njit(nogil=True)
def top_scores(scores: Floats, top: Array, odds: Floats) -> None:
    """Write the first column with the largest score of every row, and the log-odds of its softmax probability."""
    for i in range(len(scores)):
        row, best, rest = scores[i], 0, 0.0
        for k in range(1, len(row)):
            if row[k] > row[best]:
                best = k
        for k in range(len(row)):
            if k != best:
                rest += math.exp(row[k] - row[best])
        top[i], odds[i] = best, -math.log(rest) if rest > 0 else math.inf


@njit(nogil=True)
def add_products(rows: Floats, slopes: Floats, step: float, fine: float, high: Floats, low: Floats) -> None:
    """Add every ``slopes[i, k] rows[i]`` to ``high[k] + low[k]``; adding and subtracting `step` rounds to its grid."""
    for i in range(len(rows)):
        row = rows[i]
        for k in range(slopes.shape[1]):
            s, upper, lower = slopes[i, k], high[k], low[k]
            for j in range(len(row)):
                p = s * row[j]
                q = (p + step) - step
                upper[j] += q
                lower[j] += ((p - q) + fine) - fine


@njit(nogil=True)
def add_thin(x: Floats, at: Array, ends: Array, s: Floats, step: float, fine: float, high: Floats, low: Floats) -> None:
    """Do `add_products` with slopes s for rows of which entries x that are not 0 are given (CSR)."""
    for i in range(len(ends) - 1):
        for k in range(s.shape[1]):
            for e in range(ends[i], ends[i + 1]):
                p = s[i, k] * x[e]
                q = (p + step) - step
                high[k, at[e]] += q
                low[k, at[e]] += ((p - q) + fine) - fine


@njit(nogil=True)
def add_digits(bits: Array, table: Array) -> None:
    """Add floats, given by their bits, to a table: 32 bits a digit, then counts of inf, -inf and NaN."""
    places = len(table) - 3
    for i in range(len(bits)):
        exponent, part = (bits[i] >> 52) & 0x7FF, bits[i] & 0xFFFFFFFFFFFFF
        sign = -1 if bits[i] < 0 else 1
        if exponent == 0x7FF:
            table[places + (2 if part else (0 if sign > 0 else 1))] += 1
            continue
        part += (exponent > 0) << 52
        exponent = max(exponent, 1)
        shift, place = exponent & 31, exponent >> 5
        low, high = (part & 0xFFFFFFFF) << shift, (part >> 32) << shift
        table[place] += sign * (low & 0xFFFFFFFF)
        table[place + 1] += sign * ((low >> 32) + (high & 0xFFFFFFFF))
        table[place + 2] += sign * (high >> 32)
    for place in range(places - 1):
        carried = table[place] >> 32
        table[place] -= carried << 32
        table[place + 1] += carried


@njit(nogil=True)
def add_by_user(rows: Floats, slopes: Floats, starts: Array, first: int, steps: Array, high: Array, low: Array) -> None:
    """Do `add_products` to ``high[user]``, shape (users, k, d); row i has the position first + i in the groups."""
    begin, user = 0, 0
    while begin < len(rows):
        while starts[user + 1] <= first + begin:
            user += 1
        end = min(starts[user + 1] - first, len(rows))
        add_products(rows[begin:end], slopes[begin:end], steps[0], steps[1], high[user], low[user])
        begin = end


@njit(nogil=True)
def lengths(rows: Floats, absolute: bool, out: Floats) -> None:
    """Write the l1 norms (`absolute`) or the squared l2 norms of the rows to `out`, summed in one order everywhere."""
    for i in range(len(rows)):
        total = 0.0
        for x in rows[i]:
            total += abs(x) if absolute else x * x
        out[i] = total


@intrinsic
def floats_at(typing_context: Any, address: Any) -> Any:
    """Return a pointer to the floats at an address (int64)."""

    def pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(types.int64), pointer


@njit(nogil=True, error_model="numpy")
def center(addresses: Array, intervals: Floats, places: Array, out: Floats, missing: float) -> None:
    """Clip columns (n,), given by their addresses, into intervals and map them to [-1/2, 1/2]; NaN to `missing`."""
    n = len(out)
    for start in range(0, n, TILE):
        for j in range(len(addresses)):
            values: Floats = carray(floats_at(addresses[j]), n)  # pyright: ignore[reportCallIssue]
            lower, upper = intervals[j]
            middle, width = lower / 2 + upper / 2, upper - lower
            for i in range(start, min(start + TILE, n)):
                x = values[i]
                x = lower if x < lower else x
                x = ((upper if x > upper else x) - middle) / width
                x = -0.5 if x < -0.5 else x  # rounding above must not leave the bound
                x = 0.5 if x > 0.5 else x
                out[i, places[j]] = missing if x != x else x


@njit(nogil=True, error_model="numpy")
def parts(X: Floats, columns: Array, lower: float, upper: float, count: int, out: Array) -> None:
    """Write each number's cell of `count` equal cells of a range, for some columns, (columns, n); `count` for NaN."""
    for i in range(len(X)):
        for j in range(len(columns)):
            x = X[i, columns[j]]
            cell = np.floor((x - lower) / (upper - lower) * count)
            out[j, i] = count if x != x else min(max(cell, 0.0), count - 1.0)


@njit(nogil=True, error_model="numpy")
def keep(X: Floats, columns: Array, ends: Floats) -> None:
    """Clip columns of X between their ends (columns, 2) and map these to [-1/2, 1/2], in place; NaN becomes 0."""
    for i in range(len(X)):
        for j in range(len(columns)):
            lower, upper = ends[j]
            x = X[i, columns[j]]
            x = (min(max(x, lower), upper) - (lower + upper) / 2) / (upper - lower)
            X[i, columns[j]] = 0.0 if x != x else min(max(x, -0.5), 0.5)


@njit(nogil=True)
def inside(rows: Floats, limits: Floats, simplices: Array) -> bool:
    """Say whether absolute entries are within limits, and columns [start, stop) vertices of simplices."""
    for i in range(len(rows)):
        row, outside = rows[i], 0
        for j in range(len(row)):
            outside += 0 if abs(row[j]) <= limits[j] else 1
        for start, stop in simplices:
            ones, others = 0, 0
            for j in range(start, stop):
                ones += row[j] == 1.0
                others += ((row[j] != 0.0) & (row[j] != 1.0)) | np.signbit(row[j])
            outside += others + abs(ones - 1)
        if outside:
            return False
    return True


@njit(nogil=True)
def gather(X: Floats, members: Array, out: Floats) -> None:
    """Copy some rows of X into the columns of `out`."""
    for a in range(len(members)):
        i = members[a]
        for j in range(X.shape[1]):
            out[j, a] = X[i, j]


@njit(nogil=True, fastmath={"contract"})
def four_rows(T: Floats, size: int, b: int, start: int, stop: int, out: Floats) -> None:
    """Write squared distances of columns b, ..., b + 3 (the last one repeated beyond `size`) from [start, stop)."""
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


@njit(nogil=True)
def pair_levels(
    X: Floats, order: Array, bounds: Array, mantissa_square: float, exponent: int, small: int, levels: Floats
) -> None:
    """Count ordered pairs of different records within groups, by group size ``small + row`` and by the least level.

    A pair's level is the least t with distance at most ``r 2^t``, ``r = mantissa 2^exponent``, or the last level.
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


@njit(nogil=True)
def near_counts(X: Floats, order: Array, bounds: Array, first: int, step: int, limit: float, out: Floats) -> None:
    """Count for each record ``order[k]`` the members of its group within squared distance `limit`, into ``out[k]``.

    Only pairs are counted whose later member is in a quadruple ``first, first + step, ...``.
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


@njit(nogil=True)
def weighted_sums(X: Floats, weights: Floats, high: Floats, low: Floats) -> tuple[float, float]:
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
