"""Mirror descent with bias-reduced gradients (Algorithms 2 and 3), line by line. Constants: `bias_reduced.py`.

=========== ====================== ===============================================================
Letter      Name here              Meaning
=========== ====================== ===============================================================
N_t, M      ``level``, ``M``       level of a step, and the largest
x^t, y^t    ``state``              log-weights of the iterates, secret
x+, y+      ``fine``               average of all ``2^(N+1)`` draws
x-, y-      ``coarse``             average of the first half (antithetic: each half)
x^1, y^1    ``first``              the first draw
B^t         ``rows``               fresh records
=========== ====================== ===============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import FloatArray
from dpconvex.algorithms.minimax.base import SaddleResult, batch_slices
from dpconvex.algorithms.minimax.saddle_point.bias_reduced_schedule import normaliser
from dpconvex.privacy import Ledger
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.minimax.saddle_point.bias_reduced import BiasReducedPlan

Draws = tuple[NDArray[np.int64], NDArray[np.int64]]
SIGNS = (-1.0, 1.0)
"""Descent in x, ascent in y (erratum E1)."""


def run(plan: BiasReducedPlan, records: Any, source: BitSource) -> SaddleResult:
    """Release the average of one fresh draw of every iterate.

    Parameters
    ----------
    plan : BiasReducedPlan
        Public constants, levels included.
    records : object
        Of the problem's form; clipped there.
    source : BitSource
        Where the vertices are drawn from.
    """
    problem, sampling = plan.problem, plan.sampling
    session = sampling.start(plan.releases[0].label, source, Ledger(plan.privacy, plan.releases))
    state: list[FloatArray] = [np.zeros(problem.dx), np.zeros(problem.dy)]
    output = [np.zeros_like(s) for s in state]

    def draw(count: int) -> Draws:
        x, y = (session.draw(s, count) if len(s) > 1 else np.zeros(count, np.int64) for s in state)
        return x, y

    for level, rows in zip(plan.levels.tolist(), (*batch_slices(plan.sizes), None), strict=True):
        gradients = ()
        if rows is not None:
            vertices = draw(2 ** (level + 1))
            gradients = bias_reduced_sums(problem, records, rows, vertices, plan.budget.M, plan.antithetic)
        for total, vertex in zip(output, draw(1), strict=True):
            total[vertex] += 1.0
        if rows is not None:
            scale = 1 / (rows.stop - rows.start)
            for s, g, step, sign in zip(state, gradients, plan.steps, SIGNS, strict=True):
                s += sampling.on_grid(sign * step * scale * g)
    T = len(plan.levels)
    return plan.finish(output[0] / T, output[1] / T, source)


def bias_reduced_sums(
    problem: SimplexSaddle, records: Any, rows: slice, vertices: Draws, M: int, antithetic: bool
) -> tuple[FloatArray, FloatArray]:
    """Return Algorithm 2's combination of the sums of clipped gradients over `rows`, in x (dx,) and y (dy,).

    Parameters
    ----------
    problem : SimplexSaddle
    records : object
    rows : slice
    vertices : pair of arrays of shape (2^(N+1),)
        Draws of x and y.
    M : int
        Truncation; the weight of the difference is ``(2 - 2^-M) 2^N = 1/P[N]`` (erratum E2).
    antithetic : bool
    """
    half = len(vertices[0]) // 2  # 2^N

    def at(part: slice) -> tuple[FloatArray, FloatArray]:
        x, y = (SimplexPoint.average(v[part], d) for v, d in zip(vertices, (problem.dx, problem.dy), strict=True))
        return problem.gradient_sums(records, rows, x, y)

    fine, coarse, first = at(slice(None)), at(slice(0, half)), at(slice(0, 1))
    if antithetic:
        other = at(slice(half, None))
        coarse = ((coarse[0] + other[0]) / 2, (coarse[1] + other[1]) / 2)
    weight = normaliser(M) * half
    x, y = (weight * (a - b) + c for a, b, c in zip(fine, coarse, first, strict=True))
    return x, y
