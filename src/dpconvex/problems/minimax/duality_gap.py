"""The duality gap of a pair, with a certificate: exact for bilinear problems, enclosed in an interval for others.

For simulations, public data and held-out data whose owners agreed: the gap on private records is *not* private.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle


@final
@dataclass(frozen=True)
class DualityGap:
    """``max_w F(x, w) - min_v F(v, y)`` lies between `lower` and `upper`, up to rounding.

    Parameters
    ----------
    lower, upper : float
    """

    lower: float
    upper: float


def duality_gap(
    problem: SimplexSaddle, records: Any, x: FloatArray, y: FloatArray, *, steps: int = 200, tolerance: float = 1e-4
) -> DualityGap:
    """Enclose the strong duality gap of (x, y) on the mean of the records. Not private.

    Each side is a concave maximisation over a simplex, solved by Frank-Wolfe: a point gives a value from below, its
    gradient an upper bound on all others. Where the problem is linear in a block one step is exact.

    Parameters
    ----------
    problem : SimplexSaddle
    records : object
        Of the problem's form.
    x : array of shape (dx,)
        Probability vector.
    y : array of shape (dy,)
        Probability vector; ``[1.0]`` for minimisation, where the gap is the excess over the minimum.
    steps : int
        Most steps for each side, at least 1.
    tolerance : float
        Stop when both sides are known up to this share of the problem's value range.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex.problems import MatrixGame
    >>> pennies = np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    >>> duality_gap(MatrixGame(1, 2, 2), pennies, np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    DualityGap(lower=1.0, upper=1.0)
    """
    problem.check(records)
    _validate.integer("steps", steps, at_least=1)
    at_x, at_y = SimplexPoint.full(x), SimplexPoint.full(y)
    low, high = problem.value_range
    wanted = tolerance * (high - low)
    best = _extreme(problem, records, at_x, at_y, 1, steps, wanted)
    least = _extreme(problem, records, at_x, at_y, 0, steps, wanted)
    return DualityGap(best[0] - least[1], best[1] - least[0])


def _extreme(
    problem: SimplexSaddle,
    records: Any,
    x: SimplexPoint,
    y: SimplexPoint,
    block: int,
    steps: int,
    wanted: float,
) -> tuple[float, float]:
    """Enclose the maximum over y (block 1) or the minimum over x (block 0), as (least, largest)."""
    sign, everything = (1.0, slice(0, problem.n)) if block else (-1.0, slice(0, problem.n))
    inner, outer = -np.inf, np.inf  # of the maximum of sign * F
    for k in range(steps):
        value = sign * problem.value_sum(records, everything, x, y) / problem.n
        gradient = sign * problem.gradient_sums(records, everything, x, y)[block] / problem.n
        moving = y if block else x
        j = int(np.argmax(gradient))
        inner, outer = max(inner, value), min(outer, value + float(gradient[j] - moving.combine(gradient)))
        if outer - inner <= wanted:
            break
        moved = moving.plus_vertex(j, 2 / (k + 2))
        x, y = (x, moved) if block else (moved, y)
    return (inner, outer) if block else (-outer, -inner)
