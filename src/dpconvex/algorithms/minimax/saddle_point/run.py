"""Mirror descent with vertex sampling (Gonzalez, Guzman and Paquette 2024, Algorithm 1), line by line.

=========== ======================== ==============================================================
Letter      Name here                Meaning
=========== ======================== ==============================================================
x^t, y^t    ``state``                log-weights of the iterates, secret: only vertices leave them
K           ``layout.K``             vertices that are averaged to one query point
x-hat^t     ``points``               query points, at which gradients are taken
B^t         ``rows``                 fresh records
tau         ``schedule.steps``       steps of x and y
=========== ======================== ==============================================================

Erratum E1: y ascends. (The paper prints a minus in the gradient *and* in the update.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.minimax.base import SaddleResult, batch_slices
from dpconvex.mechanisms import VertexSession
from dpconvex.privacy import Ledger
from dpconvex.problems.minimax.base import SimplexPoint
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.minimax.saddle_point.plan import VertexDescentPlan

SIGNS = (-1.0, 1.0)
"""Descent in x, ascent in y."""


def run(plan: VertexDescentPlan, records: Any, source: BitSource) -> SaddleResult:
    """Release an average of vertices drawn along the path of entropic mirror descent.

    Parameters
    ----------
    plan : VertexDescentPlan
        Public constants.
    records : object
        Of the problem's form; clipped there.
    source : BitSource
        Where the vertices are drawn from.
    """
    problem, schedule, layout, mechanism = plan.problem, plan.schedule, plan.schedule.layout, plan.mechanism
    session = mechanism.start(plan.releases[0].label, source, Ledger(plan.privacy, plan.releases))
    state: list[FloatArray] = [np.zeros(problem.dx), np.zeros(problem.dy)]
    output = [np.zeros_like(s) for s in state]
    batches = (*batch_slices(schedule.sizes), None)  # the last iterate is released, and never queried
    for rows, weight in zip(batches, layout.output_weights.tolist(), strict=True):
        points = _averages(session, state, layout.K) if layout.reuse or rows is not None else []
        released = points if layout.reuse else _averages(session, state, 1)
        for total, point in zip(output, released, strict=True):
            total[point.indices] += weight * point.weights
        if rows is not None:
            gradients = problem.gradient_sums(records, rows, points[0], points[1])
            for s, g, step, sign in zip(state, gradients, schedule.steps, SIGNS, strict=True):
                s += mechanism.on_grid(sign * step / (rows.stop - rows.start) * g)
    x, y = (total / total.sum() for total in output)  # rounding only
    return plan.finish(x, y, source)


def _averages(session: VertexSession, state: list[FloatArray], count: int) -> list[SimplexPoint]:
    """Average `count` vertices of each block; a block of one vertex needs no draw."""
    draws = [session.draw(s, count) if len(s) > 1 else np.zeros(1, np.int64) for s in state]
    return [SimplexPoint.average(vertices, len(s)) for vertices, s in zip(draws, state, strict=True)]
