"""Dual coordinate ascent for piecewise linear losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Self, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray, Status
from dpconvex.losses.base import LinearModelLoss, PiecewiseLinearLoss
from dpconvex.problems.objective import Objective
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Solver, needs_whole_space
from dpconvex.solvers.result import Accuracy, SolverResult


@final
@dataclass(frozen=True)
class DualCoordinateAscent(Solver):
    r"""Exact maximisation of the dual in one record's variable at a time, in a fixed shuffled order.

    With ``loss = max of u (z - y) over u in [lo, hi]`` the dual variable of record i is its slope ``u_i``, and
    ``w = -(linear + 1/n sum_i u_i x_i) / mu``. The duality gap is then
    ``1/n sum_i [loss(z_i, y_i) - u_i (z_i - y_i)]``: terms that are at least 0, with no cancellation.

    Parameters
    ----------
    max_steps : int
        Bound on the passes over the data.

    Notes
    -----
    Proof of accuracy: C4 (duality gap). No step count is guaranteed; `Guaranteed` adds that. The order comes from a
    fixed generator and no data: the method is deterministic.
    """

    max_steps: int = 20_000

    def refusal(self, loss: LinearModelLoss, constraint: ConvexSet, dim: int) -> str | None:
        """Piecewise linear losses without a constraint."""
        if not isinstance(loss, PiecewiseLinearLoss):
            return "needs a piecewise linear loss"
        return needs_whole_space(constraint)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective.loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        lo, hi = objective.loss.slope_interval(objective.targets)
        # 0 lies in every interval; a start gives the slopes at its predictions.
        slopes = (
            np.zeros(len(lo))
            if start is None
            else objective.loss.derivative(objective.records.predict(start), objective.targets)
        )
        order = np.random.default_rng(0)  # a fixed sequence: neither private nor secret
        curvature = objective.records.squared_norms() / (objective.l2 * objective.records.n)
        w, accuracy = _primal(objective, slopes)
        epochs, calls, check = 0, 2, 1
        while accuracy.bound > radius and epochs < self.max_steps:
            for _ in range(min(check, self.max_steps - epochs)):
                _epoch(objective, w, slopes, lo, hi, curvature, order)
                epochs, calls = epochs + 1, calls + 1
            w, accuracy = _primal(objective, slopes)
            calls += 2
            check = max(1, epochs // 10)  # certificates cost a tenth of the time
        status = Status.CERTIFIED if accuracy.bound <= radius else Status.STEP_LIMIT
        return SolverResult(w, accuracy, status, epochs, calls)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)


def _primal(objective: Objective, slopes: FloatArray) -> tuple[FloatArray, Accuracy]:
    """Return the parameters of dual variables, and the distance that their duality gap proves."""
    linear = 0.0 if objective.linear is None else objective.linear
    w = -(linear + objective.records.adjoint(slopes) / objective.records.n) / objective.l2
    z, y = objective.records.predict(w), objective.targets
    losses = objective.loss.value(z, y)
    gap, value = float(np.mean(losses - slopes * (z - y))), float(np.mean(losses))
    return w, certificates.as_distance(certificates.duality_gap(objective, w, gap, value), objective.l2)


def _epoch(
    objective: Objective,
    w: FloatArray,
    slopes: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    curvature: FloatArray,
    order: np.random.Generator,
) -> None:
    """One pass over all records; changes `w` and `slopes` in place."""
    kernel, step = _kernel(), 1 / (objective.l2 * objective.records.n)
    for index in order.permutation(objective.records.n_blocks):
        block = objective.records.block(int(index))
        rows = block.rows
        features = np.ascontiguousarray(block.features)
        factor = np.ones(len(features)) if block.factor is None else block.factor
        kernel(
            features, factor, block.intercept, objective.targets[rows], slopes[rows], lo[rows], hi[rows],
            curvature[rows], step, order.permutation(len(features)), w,
        )  # fmt: skip


@cache
def _kernel() -> Callable[..., None]:
    """Compile the loop over the records of a block (cached on disk)."""
    from numba import njit

    return njit(cache=True)(_ascend)


def _ascend(
    features: FloatArray,
    factor: FloatArray,
    intercept: float,
    targets: FloatArray,
    slopes: FloatArray,
    lo: FloatArray,
    hi: FloatArray,
    curvature: FloatArray,
    step: float,
    order: AnyArray,
    w: FloatArray,
) -> None:
    """Maximise the dual over each slope in turn; ``z = <w, x>``, ``w -= step * change * x``."""
    p = features.shape[1]
    for i in order:
        z = 0.0
        for j in range(p):
            z += features[i, j] * w[j]
        z *= factor[i]
        if intercept > 0:
            z += intercept * w[p]
        if curvature[i] > 0:
            slope = min(max(slopes[i] + (z - targets[i]) / curvature[i], lo[i]), hi[i])
        else:  # a record of zeros: its best slope does not depend on w
            slope = hi[i] if targets[i] < 0 else lo[i]
        change = slope - slopes[i]
        if change != 0:
            slopes[i] = slope
            for j in range(p):
                w[j] -= step * change * factor[i] * features[i, j]
            if intercept > 0:
                w[p] -= step * change * intercept
