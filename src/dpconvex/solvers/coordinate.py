"""Dual coordinate ascent for piecewise linear losses."""

import math

import numpy as np

from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.problems import Objective, RegularizedRisk
from dpconvex.problems.base import Bounds
from dpconvex.problems.data.records import as_array
from dpconvex.sets import ConvexSet, SecondOrderCones
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Accuracy, Solver, SolverResult, Start, needs_whole_space


@final_dataclass
class DualCoordinateAscent(Solver):
    r"""Exact maximization of the dual in one record's variable at a time, in a fixed shuffled order.

    With ``loss = max of u (z - y) over u in [lo, hi]`` the dual variable of record i is its slope ``u_i``, and
    ``w = project(-(linear + 1/n sum_i u_i x_i) / mu)``. The duality gap is then
    ``1/n sum_i [loss(z_i, y_i) - u_i (z_i - y_i)]``: terms that are at least 0, with no cancellation. Over cones a step
    maximizes a lower bound of the dual (a projection does not expand), otherwise the dual itself. Weights of records
    widen their intervals.

    Proof of accuracy: C4 (duality gap). No step count is guaranteed; `Guaranteed` adds that. The order comes from a
    fixed generator and no data: the method is deterministic.
    """

    only_sums = False
    max_steps: int = 20_000  #: largest number of passes over the data

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if not isinstance(loss, PiecewiseLinearLoss):
            return "needs a piecewise linear loss of a linear model"
        if isinstance(constraint, SecondOrderCones) and math.isinf(constraint.radius):
            return None
        return needs_whole_space(constraint)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        assert isinstance(objective, RegularizedRisk)  # `refusal`, no tilt; tells the type checker
        assert isinstance(objective.loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        scale = _scale(objective)
        lo, hi = (scale * end for end in objective.loss.slope_interval(objective.labels))
        # 0 lies in every interval; a start gives the slopes at its predictions.
        loss, y = objective.loss, objective.labels
        slopes = np.zeros(len(lo)) if start is None else scale * loss.derivative(objective.table.predict(start), y)
        order = np.random.default_rng(0)  # a fixed sequence: neither private nor secret
        curvature = objective.table.squared_norms() / (objective.l2 * objective.records.n)
        cones = constraint if isinstance(constraint, SecondOrderCones) else None
        v, w, accuracy = _primal(objective, constraint, slopes)
        epochs, calls, check = 0, 2, 1
        while accuracy.bound > radius and epochs < self.max_steps:
            for _ in range(min(check, self.max_steps - epochs)):
                _epoch(objective, cones, v, w, slopes, lo, hi, curvature, order)
                epochs, calls = epochs + 1, calls + 1
            v, w, accuracy = _primal(objective, constraint, slopes)
            calls += 2
            check = max(1, epochs // 10)  # so that certificates take at most a tenth of the time
        status = Status.CERTIFIED if accuracy.bound <= radius else Status.STEP_LIMIT
        return SolverResult(w, accuracy, status, epochs, calls)


def _scale(objective: RegularizedRisk) -> Floats | float:
    """Return n times each record's weight: ``scale * loss`` is the same maximum over ``scale * [lo, hi]``."""
    if objective.weights is not None:
        return objective.records.n * objective.weights
    return 1.0 if objective.counted is None else objective.records.n / objective.counted[1]


def _primal(objective: RegularizedRisk, constraint: ConvexSet, slopes: Floats) -> tuple[Floats, Floats, Accuracy]:
    """Return the dual variables' parameters before and after projection, and the distance that their gap proves."""
    linear = 0.0 if objective.linear is None else objective.linear
    v = -(linear + objective.table.adjoint(slopes) / objective.records.n) / objective.l2
    w = constraint.project(v)
    z, y = objective.table.predict(w), objective.labels
    losses = _scale(objective) * objective.loss.value(z, y)
    gap, value = float(np.mean(losses - slopes * (z - y))), float(np.mean(losses))
    return v, w, certificates.as_distance(certificates.duality_gap(objective, w, gap, value), objective.l2)


def _epoch(
    objective: RegularizedRisk, cones: SecondOrderCones | None, v: Floats, w: Floats, slopes: Floats,
    lo: Floats, hi: Floats, curvature: Floats, order: np.random.Generator,
) -> None:  # fmt: skip
    """Run one pass over all records, which changes `v`, `w` and `slopes` in place."""
    from dpconvex.solvers._loops import ascend  # loads numba

    step = 1 / (objective.l2 * objective.records.n)
    shape = (0, 0, 1.0) if cones is None else (cones.count, cones.size, cones.slope)
    for index in order.permutation(objective.table.n_blocks):
        block = objective.table.block(int(index))
        rows = block.rows
        features = np.ascontiguousarray(as_array(block.features))
        factor = np.ones(len(features)) if block.factor is None else block.factor
        extra = np.zeros(len(features)) if block.extra is None else block.extra
        ascend(
            features, factor, extra, block.intercept, objective.labels[rows], slopes[rows], lo[rows], hi[rows],
            curvature[rows], step, order.permutation(len(features)), *shape, v, w,
        )  # fmt: skip
