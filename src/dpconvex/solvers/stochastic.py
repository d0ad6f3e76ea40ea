"""Methods that read one record at a time, with certificates: subgradients, Katyusha, dual coordinate ascent.

The records' order comes from a fixed generator and no data: the methods are deterministic, and independent of all
noise. The accuracy of the first two is proven in expectation only, which no privacy proof may rest on. So they certify
what they found, give up after a fixed number of rounds, and belong before a solver that cannot fail, as in
``Guaranteed(Katyusha(), AcceleratedGradient())``.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from dpconvex import losses
from dpconvex._types import Array, Floats, Status, final_dataclass
from dpconvex.losses import PiecewiseLinearLoss, SmoothLoss
from dpconvex.losses.base import BENT, CLIP, RATIONAL, TANH
from dpconvex.losses.regression import ResidualSplineLoss
from dpconvex.problems import Objective, Records, RegularizedRisk
from dpconvex.problems.base import Bounds
from dpconvex.problems.data.records import as_array
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.sets import ConvexSet, SecondOrderCones
from dpconvex.solvers import base
from dpconvex.solvers.base import Accuracy, Solver, SolverResult, Start, needs_whole_space
from dpconvex.solvers.subgradient import Subgradient

_TINY = 1e-300  # scale that turns `CLIP` into a step function
_HUGE = 1e150  # amplitude that no slope reaches
_SAMPLE = 2**20  # floats that the records drawn at a time hold (8 MB), or n/16 records if that is more


@dataclass(frozen=True, eq=False)
class SlopeCurve:
    """The slope at a prediction z, ``offset + amplitude s((z - shift) / scale)``, of every record; s goes from -1 to 1.

    For a saturating spline (`BENT`) it is ``A s`` between ``offset - amplitude`` and ``offset + amplitude``, where A is
    the larger magnitude of these two bounds and s the slope of `losses.base.Spline` for ``A = 1``.
    """

    shape: int  #: s is ``clip(t, -1, 1)`` (`CLIP`), ``tanh(t)`` (`TANH`) or ``t / sqrt(1 + t^2)`` (`RATIONAL`)
    scale: float
    records: Floats  #: offset, amplitude and shift, shape (n, 3)


@singledispatch
def slope_curve(loss: losses.LinearModelLoss, y: Floats) -> SlopeCurve | None:
    """Return the slopes of a loss for the targets `y` (n,); None for losses that have none: others register here."""
    return None


@slope_curve.register
def _(loss: losses.PiecewiseLinearLoss, y: Floats) -> SlopeCurve:
    lo, hi = loss.slope_interval(y)
    return _curve(CLIP, _TINY, (lo + hi) / 2, (hi - lo) / 2, y)


@slope_curve.register
def _(loss: losses.LogisticLoss, y: Floats) -> SlopeCurve | None:
    # A capped logistic slope has none of the shapes.
    return _curve(TANH, 2.0, -y / 2, 0.5, -loss.offset[0]) if loss.cap == 1 else None


@slope_curve.register
def _(loss: losses.SmoothedHingeLoss, y: Floats) -> SlopeCurve:
    if loss.saturating:
        return _curve(BENT, loss.width, -y / 2, 0.5, loss.end * y)
    return _curve(CLIP, loss.width / 2, -y / 2, 0.5, loss.center * y)


@slope_curve.register
def _(loss: ResidualSplineLoss, y: Floats) -> SlopeCurve:
    spline = loss.spline
    middle, half = (spline.lower + spline.upper) / 2, (spline.upper - spline.lower) / 2
    if spline.saturating:
        return _curve(BENT, spline.width * loss.slope_bound, middle, half, y)
    return _curve(CLIP, spline.width * half, middle, half, y + spline.width * middle)


@slope_curve.register
def _(loss: losses.SquaredLoss, y: Floats) -> SlopeCurve:
    bound = min(loss.prediction_bound, _HUGE)
    return _curve(CLIP, bound, -y, bound, 0.0)


@slope_curve.register
def _(loss: losses.PseudoHuberLoss, y: Floats) -> SlopeCurve:
    return _curve(RATIONAL, loss.width, 0.0, loss.width, y)


@slope_curve.register
def _(loss: losses.LogCoshLoss, y: Floats) -> SlopeCurve:
    return _curve(TANH, loss.width, 0.0, loss.width, y)


def _curve(shape: int, scale: float, *offset_amplitude_shift: Floats | float) -> SlopeCurve:
    return SlopeCurve(shape, scale, np.stack(np.broadcast_arrays(*offset_amplitude_shift), axis=-1))


def needs_slope_curve(loss: losses.LinearModelLoss) -> str | None:
    """Return why a method that runs record by record cannot treat a loss; None if the loss has a compiled slope."""
    return "needs a loss with a compiled slope" if slope_curve(loss, np.zeros(1)) is None else None


def draws(records: Records, count: int, order: np.random.Generator) -> Iterator[tuple[Array, Floats]]:
    """Yield `count` records drawn with replacement, in portions of m (`_SAMPLE`): indices (m,) and copies (m, dim)."""
    most = max(1, _SAMPLE // records.dim, records.n // 16)
    for first in range(0, count, most):
        index = order.integers(records.n, size=min(most, count - first))
        yield index, records.take(index)


_STAGE = 4096  # smallest number of component steps in a stage, so that certificates do not cost more than steps


@final_dataclass
class StochasticSubgradient(Solver):
    r"""``w_t = project(w_{t-1} - eta_{t-1} g_t)`` with one record's subgradient, ``eta_t = 2 / (mu (t + 1))``.

    Returns the mean of the ``w_t`` with weights t. It works in the ball of radius ``(L + |linear|) / mu``, which holds
    the minimizer. (Measured elsewhere: the radius is missed with probability 2e-4 although the expected gap is a tenth
    of what it asks for.)

    A stage is n component steps, or 4096 if that is more; certificates are computed after stages 1, 2, 3, ... and later
    after every tenth of those done.

    Proof of accuracy: C1 (gradient norm) for smooth losses. Else C4 (duality gap), with each record's mean slope along
    the way as its dual variable.

    Source: Bubeck (2015), Theorem 6.2; Lowy and Razaviyayn, Algorithm 3.
    """

    treats_weights, only_sums = False, False
    max_steps: int = 100  #: largest number of stages
    steps_for = staticmethod(Subgradient.steps_for)  #: expected number of component steps: a forecast, no guarantee

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if math.isinf(loss.slope_bound):
            return "needs a loss of bounded slope"
        if not isinstance(loss, SmoothLoss | PiecewiseLinearLoss):
            return "needs a smooth or piecewise linear loss of a linear model"
        return needs_slope_curve(loss) or needs_whole_space(constraint)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        from dpconvex.solvers import _loops

        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        curve = slope_curve(objective.loss, objective.labels)
        assert curve is not None  # `refusal`; tells the type checker
        linear = np.zeros(objective.dim) if objective.linear is None else objective.linear
        ball = (objective.lipschitz + objective.linear_norm) / objective.l2
        w = np.zeros(objective.dim) if start is None else start.copy()
        mean, steps = w.copy(), 0.0
        dual = np.zeros((objective.records.n, 2))  # each record's sums of weights and of weighted slopes
        order = np.random.default_rng(0)  # a fixed sequence: neither private nor secret
        best, accuracy = mean.copy(), _certificate(objective, linear, mean, dual)
        stages, calls, check = 0, 2, 1
        size = max(objective.records.n, _STAGE)
        while accuracy.bound > radius and stages < self.max_steps:
            more = min(check, self.max_steps - stages)
            for index, rows in draws(objective.table, more * size, order):
                steps = _loops.subgradient_steps(
                    rows, index, curve.records, curve.shape, curve.scale, linear, w, mean, dual, steps, objective.l2,
                    ball,
                )  # fmt: skip
            stages += more
            calls += math.ceil(more * size / objective.records.n) + 2
            check = max(1, stages // 10)
            new = _certificate(objective, linear, mean, dual)
            if new.bound < accuracy.bound:
                best, accuracy = mean.copy(), new
        status = Status.CERTIFIED if accuracy.bound <= radius else Status.STEP_LIMIT
        return SolverResult(best, accuracy, status, stages, calls)


def _certificate(objective: LinearModelObjective, linear: Floats, w: Floats, dual: Floats) -> Accuracy:
    """Return a proven distance of the mean `w` to the minimizer; the records' mean slopes are the dual variables."""
    loss, y, mu = objective.loss, objective.labels, objective.l2
    if not isinstance(loss, PiecewiseLinearLoss):
        return base.gradient_norm(objective, w, objective.gradient(w))
    z = objective.table.predict(w)
    means = np.divide(dual[:, 1], dual[:, 0], out=loss.derivative(z, y), where=dual[:, 0] > 0)
    slopes = np.clip(means, *loss.slope_interval(y))  # rounding
    losses = loss.value(z, y)
    size = loss.slope_bound * objective.records.domain.linf
    # `other`: the parameters of the dual variables. P(w) - D(slopes) is a sum of terms >= 0, with no cancellation:
    other = -(linear + objective.table.adjoint(slopes, size) / objective.records.n) / mu
    gap = float(np.mean(losses - slopes * (z - y))) + mu / 2 * float(np.sum((w - other) ** 2))
    return base.as_distance(base.duality_gap(objective, w, gap, float(np.mean(losses))), mu)


@final_dataclass
class Katyusha(Solver):
    r"""Epochs of 2n component steps with negative momentum towards a snapshot; the certificate ends each epoch.

    Proof of accuracy: C1 (gradient norm). An epoch costs about 3n component gradients, as the slopes at the snapshot
    are kept (n floats), and its full gradient serves the certificate too.

    Source: Allen-Zhu (2018), Katyusha, Algorithm 1 and Theorem 2.1; Lowy and Razaviyayn, Algorithm 5, whose
    ``L`` in ``tau_1`` has to be the smoothness.
    """

    treats_weights, only_sums = False, False
    max_steps: int | None = None  #: largest number of epochs; None: three times `steps_for`

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if not isinstance(loss, SmoothLoss):
            return "needs a smooth loss of a linear model"
        return needs_slope_curve(loss) or needs_whole_space(constraint)

    @staticmethod
    def steps_for(smoothness: float, strong_convexity: float, n: int, initial_gap: float, radius: float) -> int:
        """Return how many epochs bring the certified distance to `radius` in expectation: a forecast, not a guarantee.

        The constants are the objective's; `initial_gap` bounds ``J(start) - min J``. With m = 2n an epoch divides the
        mean gap by ``(1 + sqrt(mu / (3 beta m)))^m``, or by 1.5 where ``m mu > 3/4 beta`` (Theorem 2.1; its unstated
        constant is taken as 1); the certificate fires at a gap of ``(mu radius)^2 / (2 beta)``.
        """
        m = 2 * n
        wanted = 2 * (math.log(strong_convexity) + math.log(radius)) - math.log(2 * smoothness)  # logs: no overflow
        fall = math.log(min(max(initial_gap, 1e-300), 1e300)) - wanted
        well = m * strong_convexity > 0.75 * smoothness
        rate = math.log(1.5) if well else m * math.log1p(math.sqrt(strong_convexity / (3 * smoothness * m)))
        return max(1, math.ceil(fall / rate))

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        from dpconvex.solvers import _loops

        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        snapshot = np.zeros(objective.dim) if start is None else start
        slopes, g = _snapshot(objective, snapshot)
        best, accuracy = snapshot, base.gradient_norm(objective, snapshot, g)
        mu, beta, n = objective.strong_convexity, objective.smoothness, objective.records.n
        gap = mu / 2 * accuracy.bound * accuracy.bound  # C1 for values; not **, which raises on overflow
        limit = 3 * self.steps_for(beta, mu, n, gap, radius) if self.max_steps is None else self.max_steps
        order = np.random.default_rng(0)  # a fixed sequence: neither private nor secret
        curve = slope_curve(objective.loss, objective.labels)
        assert curve is not None  # `refusal`; tells the type checker
        x, y, z = snapshot.copy(), snapshot.copy(), snapshot.copy()  # the momentum sequences y and z outlive an epoch
        # beta of the whole objective is at least that of each component, and at least mu.
        pull, epochs = min(math.sqrt(2 * n * mu / (3 * beta)), 0.5), 0
        while accuracy.bound > radius and epochs < limit:
            mean, average, weight = g - objective.l2 * snapshot, snapshot.copy(), 0.0
            for index, rows in draws(objective.table, 2 * n, order):
                weight = _loops.katyusha_steps(
                    rows, slopes[index], curve.records[index], curve.shape, curve.scale, mean, snapshot, x, y, z,
                    average, weight, pull, 1 / (3 * pull * beta), beta, objective.l2,
                )  # fmt: skip
            snapshot, epochs = average, epochs + 1
            slopes, g = _snapshot(objective, snapshot)
            new = base.gradient_norm(objective, snapshot, g)
            if new.bound < accuracy.bound:
                best, accuracy = snapshot, new
        status = Status.CERTIFIED if accuracy.bound <= radius else Status.STEP_LIMIT
        # An epoch: 2n component gradients and the full gradient.
        return SolverResult(best, accuracy, status, epochs, 1 + 3 * epochs)


def _snapshot(objective: LinearModelObjective, w: Floats) -> tuple[Floats, Floats]:
    """Return the slopes of all records at `w`, shape (n,), and the gradient of the objective."""
    slopes = np.empty(objective.records.n)
    for block in objective.table.blocks():
        slopes[block.rows] = objective.loss.derivative(block.predict(w), objective.labels[block.rows])
    linear = 0.0 if objective.linear is None else objective.linear
    slope = objective.loss.slope_within(objective.records.domain.l2 * float(np.linalg.norm(w)))
    total = objective.table.adjoint(slopes, slope * objective.records.domain.linf)
    return slopes, total / objective.records.n + objective.l2 * w + linear


@final_dataclass
class DualCoordinateAscent(Solver):
    r"""Exact maximization of the dual in one record's variable at a time, in a fixed shuffled order.

    With ``loss = max of u (z - y) over u in [lo, hi]`` the dual variable of record i is its slope ``u_i``, and
    ``w = project(-(linear + 1/n sum_i u_i x_i) / mu)``. The duality gap is then
    ``1/n sum_i [loss(z_i, y_i) - u_i (z_i - y_i)]``: terms that are at least 0, with no cancellation. Over cones a step
    maximizes a lower bound of the dual (a projection does not expand), otherwise the dual itself. Weights of records
    widen their intervals.

    Proof of accuracy: C4 (duality gap). No step count is guaranteed; `Guaranteed` adds that.
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
    return v, w, base.as_distance(base.duality_gap(objective, w, gap, value), objective.l2)


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
