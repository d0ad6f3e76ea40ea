"""The compiled loops of `_unit_vectors`, cached on disk; imported when they are needed, for numba loads slowly.

Sums within a row may be reordered (so that they vectorise); differences may not, hence `difference` is compiled
without that licence.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dpconvex._types import FloatArray
from dpconvex.solvers._unit_vectors import COINCIDENT, PORTION


@njit(cache=True)
def difference(x: float, anchor: float, offset: float) -> float:
    """Return ``x - (anchor + offset)``, near to the last place when anchor is near x."""
    return (x - anchor) - offset


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def sums(
    X: FloatArray, anchor: FloatArray, offset: FloatArray, direction: FloatArray
) -> tuple[float, float, int, int, float]:
    """Add the unit vectors to `direction`; return the other sums of `UnitVectorSums`, the nearest squared."""
    n, d = X.shape
    row, part = np.empty(d), np.empty(d)
    distance, weight, coincident, nearest, least = 0.0, 0.0, 0, -1, np.inf
    for first in range(0, n, PORTION):
        part[:] = 0.0
        part_distance, part_weight = 0.0, 0.0
        for i in range(first, min(first + PORTION, n)):
            square = 0.0
            for j in range(d):
                row[j] = difference(X[i, j], anchor[j], offset[j])
                square += row[j] * row[j]
            if square < COINCIDENT:
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
