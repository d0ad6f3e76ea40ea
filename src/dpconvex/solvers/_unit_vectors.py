"""One pass over points: the sum of the unit vectors towards them, of their distances and inverse distances.

A position is held as ``anchor + offset``, so that distances far below the spacing of floats at the points' distance
from the origin come out right: ``(x - anchor) - offset`` is exact to the last place when the anchor is near x. Sums run
over portions of 256 rows, one thread, always in the same order; `rounding` bounds what that costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.problems.data import summation

UNIT_ROUNDOFF = 2.0**-53
PORTION = 256  # rows that are summed before they join the total
COINCIDENT = 1e-290
"""Squared distances below this count as 0: there squares lose digits, and a "unit" vector could be longer than 1."""


@final
@dataclass(frozen=True, eq=False)
class UnitVectorSums:
    """What one pass collects at a position z."""

    direction: FloatArray  #: sum of ``(x - z) / ||x - z||`` over the points x that do not coincide with z, shape (d,)
    distance: float  #: sum of ``||x - z||``
    weight: float  #: sum of ``1 / ||x - z||`` over the same points as `direction`
    coincident: int  #: points at z
    nearest: int  #: row of the nearest point that does not coincide, -1 if there is none
    nearest_distance: float  #: its distance, infinity if there is none


def unit_vector_sums(X: FloatArray, anchor: FloatArray, offset: FloatArray) -> UnitVectorSums:
    """Sum over all points X (n, d), seen from ``anchor + offset``: finite, contiguous float64, norms below 1e150."""
    from dpconvex.solvers import _loops

    direction = np.zeros(X.shape[1])
    distance, weight, coincident, nearest, square = _loops.sums(X, anchor, offset, PORTION, COINCIDENT, direction)
    return UnitVectorSums(direction, distance, weight, coincident, nearest, float(np.sqrt(square)))


def direction_parts(X: FloatArray, anchor: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the parts (3, d) of `UnitVectorSums.direction` (`summation`), which add up exactly; X as above."""
    from dpconvex.solvers import _loops

    most, out = summation.MOST_ROWS, np.zeros((3, X.shape[1]))
    for rows in (X[i : i + most] for i in range(0, len(X), most)):
        units = np.empty_like(rows)
        _loops.unit_vectors(rows, anchor, offset, COINCIDENT, units)
        out += summation.vector_parts(units, np.ones(len(rows)), 1.0 + 1e-9)
    return out


def distances(X: FloatArray, anchor: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the distance of every point from ``anchor + offset``, shape (n,)."""
    from dpconvex.solvers import _loops

    out = np.empty(len(X))
    _loops.lengths(X, anchor, offset, out)
    return out


def rounding(n: int, dim: int) -> float:
    """Bound on the relative error of the sum of distances, and on that of the mean unit vector (l2, against 1).

    A sum of m terms in any order errs by at most ``(m - 1) u`` of the sum of magnitudes: 255 within a portion, one a
    portion beyond. A distance errs by ``(dim + 4) u`` of itself, a unit vector by that and 2 u more.
    """
    return 2 * UNIT_ROUNDOFF * (PORTION + n / PORTION + dim + 8)
