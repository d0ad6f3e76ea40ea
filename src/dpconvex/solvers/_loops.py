"""Loops that numba compiles, cached on disk; imported when they are needed, for numba loads slowly."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpconvex._types import AnyArray, FloatArray


@njit(cache=True)
def onto_cones(v: FloatArray, w: FloatArray, count: int, size: int, slope: float) -> None:
    """Write the projection of `v` onto `SecondOrderCones` into `w`."""
    p = count * size
    for g in range(count):
        squared = 0.0
        for j in range(g * size, (g + 1) * size):
            squared += v[j] * v[j]
        length, q = np.sqrt(squared), v[p + g]
        shrink, bound = 1.0, q
        if slope * length > q:
            ray = max(length + slope * q, 0.0) / (1.0 + slope * slope)
            shrink, bound = (ray / length if length > 0.0 else 1.0), slope * ray
        for j in range(g * size, (g + 1) * size):
            w[j] = shrink * v[j]
        w[p + g] = bound
    for j in range(p + count, len(v)):
        w[j] = v[j]


@njit(cache=True)
def ascend(
    features: FloatArray,
    factor: FloatArray,
    extra: FloatArray,
    intercept: float,
    targets: FloatArray,
    slopes: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    curvature: FloatArray,
    step: float,
    order: AnyArray,
    count: int,
    size: int,
    slope: float,
    v: FloatArray,
    w: FloatArray,
) -> None:
    """Maximize the dual over each slope in turn; ``z = <w, x>``, ``v -= step * change * x``, w its projection."""
    p = features.shape[1]
    if count == 0:
        v = w
    for i in order:
        z = 0.0
        for j in range(p):
            z += features[i, j] * w[j]
        z *= factor[i]
        for j in range(p, p + count):
            z += extra[i] * w[j]
        if intercept > 0:
            z += intercept * w[p + count]
        if curvature[i] > 0:
            best = min(max(slopes[i] + (z - targets[i]) / curvature[i], lo[i]), hi[i])
        else:  # a record of zeros: its best slope does not depend on w
            best = hi[i] if targets[i] < 0 else lo[i]
        change = best - slopes[i]
        if change != 0:
            slopes[i] = best
            for j in range(p):
                v[j] -= step * change * factor[i] * features[i, j]
            for j in range(p, p + count):
                v[j] -= step * change * extra[i]
            if intercept > 0:
                v[p + count] -= step * change * intercept
            if count > 0:
                onto_cones(v, w, count, size, slope)


@njit(cache=True)
def difference(x: float, anchor: float, offset: float) -> float:
    """Return ``x - (anchor + offset)``, near to the last place when anchor is near x."""
    return (x - anchor) - offset


@njit(cache=True, nogil=True)
def unit_vectors(
    X: FloatArray, anchor: FloatArray, offset: FloatArray, coincident_square: float, out: FloatArray
) -> None:
    """Write the unit vector towards each row to `out`, 0 for points that coincide: each a function of its row alone."""
    for i in range(len(X)):
        square = 0.0
        for j in range(len(anchor)):
            out[i, j] = difference(X[i, j], anchor[j], offset[j])
            square += out[i, j] * out[i, j]
        scale = 0.0 if square < coincident_square else 1.0 / np.sqrt(square)
        for j in range(len(anchor)):
            out[i, j] *= scale


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sums(
    X: FloatArray, anchor: FloatArray, offset: FloatArray, portion: int, coincident_square: float, direction: FloatArray
) -> tuple[float, float, int, int, float]:
    """Add the unit vectors to `direction`; return the other sums of `UnitVectorSums`, the nearest squared.

    Sums within a row may be reordered (so that they vectorize); differences may not, hence `difference` is compiled
    without that license.
    """
    n, d = X.shape
    row, part = np.empty(d), np.empty(d)
    distance, weight, coincident, nearest, least = 0.0, 0.0, 0, -1, np.inf
    for first in range(0, n, portion):
        part[:] = 0.0
        part_distance, part_weight = 0.0, 0.0
        for i in range(first, min(first + portion, n)):
            square = 0.0
            for j in range(d):
                row[j] = difference(X[i, j], anchor[j], offset[j])
                square += row[j] * row[j]
            if square < coincident_square:
                coincident += 1
                continue
            if square < least:
                least, nearest = square, i
            length = np.sqrt(square)
            inverse = 1 / length
            part_distance += length
            part_weight += inverse
            for j in range(d):
                part[j] += row[j] * inverse
        distance += part_distance
        weight += part_weight
        for j in range(d):
            direction[j] += part[j]
    return distance, weight, coincident, nearest, least


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def lengths(X: FloatArray, anchor: FloatArray, offset: FloatArray, out: FloatArray) -> None:
    """Write the distance of every row."""
    for i in range(len(X)):
        square = 0.0
        for j in range(X.shape[1]):
            t = difference(X[i, j], anchor[j], offset[j])
            square += t * t
        out[i] = np.sqrt(square)
