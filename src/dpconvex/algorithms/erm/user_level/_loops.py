"""The compiled loop of one-pass SGD, cached on disk; imported when needed, for numba loads slowly."""

from __future__ import annotations

import math

from numba import njit

from dpconvex._types import FloatArray
from dpconvex.solvers._components import CLIP, TANH


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def one_pass(
    rows: FloatArray,
    curves: FloatArray,
    shape: int,
    scale: float,
    start: FloatArray,
    step: float,
    radius: float,
    moved: FloatArray,
    total: FloatArray,
) -> None:
    """Take one projected step a row; ``moved`` is the iterate minus ``start``, ``total`` the sum of these before steps.

    Iterates are kept as displacements, so that small steps from a distant start are not lost in rounding.
    """
    d = len(start)
    for i in range(len(rows)):
        prediction = 0.0
        for j in range(d):
            total[j] += moved[j]
            prediction += rows[i, j] * (start[j] + moved[j])
        u = (prediction - curves[i, 2]) / scale
        if shape == CLIP:
            u = min(max(u, -1.0), 1.0)
        elif shape == TANH:
            u = math.tanh(u)
        else:
            u = u / math.hypot(1.0, u)
        change, square = step * (curves[i, 0] + curves[i, 1] * u), 0.0
        for j in range(d):
            moved[j] -= change * rows[i, j]
            square += (start[j] + moved[j]) ** 2
        if square > radius * radius:
            inside = radius / math.sqrt(square)
            for j in range(d):
                moved[j] = (start[j] + moved[j]) * inside - start[j]
