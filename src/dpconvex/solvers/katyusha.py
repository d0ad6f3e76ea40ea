"""Katyusha: accelerated variance reduction, one record at a time, for smooth losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dpconvex._types import FloatArray, Status
from dpconvex.losses.base import SmoothLoss
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import _certificates as certificates, _components as components
from dpconvex.solvers.base import Solver, needs_whole_space
from dpconvex.solvers.result import SolverResult


@final
@dataclass(frozen=True)
class Katyusha(Solver):
    r"""Epochs of 2n component steps with negative momentum towards a snapshot; the certificate ends each epoch.

    Its accuracy is proven in expectation only, which no privacy proof may rest on. So it certifies the snapshot of
    every epoch, gives up after a fixed number of them, and belongs before a solver that cannot fail:
    ``Guaranteed(Katyusha(), AcceleratedGradient())``. The records' order comes from a fixed generator and no data: the
    method is deterministic, and independent of all noise.

    Parameters
    ----------
    max_steps : int, optional
        Bound on the epochs. None: three times `steps_for`.

    Notes
    -----
    Proof of accuracy: C1 (gradient norm). An epoch costs about 3n component gradients, as the slopes at the snapshot
    are kept (n floats), and its full gradient serves the certificate too.

    References
    ----------
    Allen-Zhu (2018), Katyusha, Algorithm 1 and Theorem 2.1; Lowy and Razaviyayn, Algorithm 5, whose ``L`` in ``tau_1``
    has to be the smoothness.
    """

    treats_weights: ClassVar[bool] = False

    max_steps: int | None = None

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Smooth losses of one output with a compiled slope, without a constraint."""
        if not isinstance(loss, SmoothLoss):
            return "needs a smooth loss of a linear model"
        return components.needs_slope_curve(loss) or needs_whole_space(constraint)

    @staticmethod
    def steps_for(smoothness: float, strong_convexity: float, n: int, initial_gap: float, radius: float) -> int:
        """Epochs that bring the certified distance to `radius` in expectation (a forecast, not a guarantee).

        Parameters
        ----------
        smoothness, strong_convexity : float
            Of the objective.
        n : int
            Number of records.
        initial_gap : float
            Bound on ``J(start) - min J``.
        radius : float

        Notes
        -----
        With m = 2n the expected gap falls by ``(1 + sqrt(mu / (3 beta m)))^m`` an epoch, or by 1.5 where ``m mu >
        3/4 beta`` (Theorem 2.1, its unstated constant taken as 1), and the certificate fires at a gap of
        ``(mu radius)^2 / (2 beta)``.
        """
        m = 2 * n
        wanted = 2 * (math.log(strong_convexity) + math.log(radius)) - math.log(2 * smoothness)  # logs: no overflow
        fall = math.log(min(max(initial_gap, 1e-300), 1e300)) - wanted
        well = m * strong_convexity > 0.75 * smoothness
        rate = math.log(1.5) if well else m * math.log1p(math.sqrt(strong_convexity / (3 * smoothness * m)))
        return max(1, math.ceil(fall / rate))

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        snapshot = np.zeros(objective.dim) if start is None else start.copy()
        slopes, g = _snapshot(objective, snapshot)
        best, accuracy = snapshot.copy(), certificates.gradient_norm(objective, snapshot, g)
        mu, beta, n = objective.strong_convexity, objective.smoothness, objective.records.n
        gap = mu / 2 * accuracy.bound * accuracy.bound  # C1 for values; not **, which raises on overflow
        limit = 3 * self.steps_for(beta, mu, n, gap, radius) if self.max_steps is None else self.max_steps
        order = np.random.default_rng(0)  # a fixed sequence: neither private nor secret
        state, epochs = _State(objective, snapshot), 0
        while accuracy.bound > radius and epochs < limit:
            state.epoch(snapshot, slopes, g, order)
            epochs += 1
            slopes, g = _snapshot(objective, snapshot)
            new = certificates.gradient_norm(objective, snapshot, g)
            if new.bound < accuracy.bound:
                best, accuracy = snapshot.copy(), new
        status = Status.CERTIFIED if accuracy.bound <= radius else Status.STEP_LIMIT
        # An epoch: 2n component gradients and the full gradient.
        return SolverResult(best, accuracy, status, epochs, 1 + 3 * epochs)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)


def _snapshot(objective: LinearModelObjective, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the slopes of all records at `w`, shape (n,), and the gradient of the objective."""
    slopes, total = np.empty(objective.records.n), np.zeros(objective.dim)
    for block in objective.records.blocks():
        slopes[block.rows] = objective.loss.derivative(block.predict(w), objective.targets[block.rows])
        total += block.adjoint(slopes[block.rows])
    linear = 0.0 if objective.linear is None else objective.linear
    return slopes, total / objective.records.n + objective.l2 * w + linear


@final
class _State:
    """The two momentum sequences y and z, which outlive an epoch, and the constants of the steps."""

    def __init__(self, objective: LinearModelObjective, start: FloatArray) -> None:
        curve = components.slope_curve(objective.loss, objective.targets)
        assert curve is not None  # `refusal`; tells the type checker
        self._objective, self._curve = objective, curve
        self._y, self._z, self._x = start.copy(), start.copy(), start.copy()
        # beta of the whole objective is at least that of each component, and at least mu.
        mu, beta = objective.strong_convexity, objective.smoothness
        self._pull = min(math.sqrt(2 * objective.records.n * mu / (3 * beta)), 0.5)
        self._gamma = 1 / (3 * self._pull * beta)

    def epoch(self, snapshot: FloatArray, slopes: FloatArray, g: FloatArray, order: np.random.Generator) -> None:
        """Take 2n component steps and replace `snapshot` by their weighted mean."""
        objective, curve = self._objective, self._curve
        mean, mu = g - objective.l2 * snapshot, objective.l2
        kernel = components.compiled(_steps)
        average, weight = snapshot.copy(), 0.0
        for index, rows in components.draws(objective.records, 2 * objective.records.n, order):
            weight = kernel(
                rows, slopes[index], curve.records[index], curve.shape, curve.scale, mean, snapshot,
                self._x, self._y, self._z, average, weight, self._pull, self._gamma, objective.smoothness, mu,
            )  # fmt: skip
        snapshot[:] = average


def _steps(
    rows: FloatArray,
    old_slopes: FloatArray,
    curves: FloatArray,
    shape: int,
    scale: float,
    mean: FloatArray,
    snapshot: FloatArray,
    x: FloatArray,
    y: FloatArray,
    z: FloatArray,
    average: FloatArray,
    weight: float,
    pull: float,
    gamma: float,
    beta: float,
    mu: float,
) -> float:
    """Algorithm 5's inner loop over `rows`; `mean` is the gradient of the loss at `snapshot`, linear term included.

    The j-th y has weight ``(1 + gamma mu)^j`` in `average`; `weight` is the sum of weights so far over the last one.
    """
    shrink, shorten = 1 / (1 + gamma * mu), 1 / (3 * beta + mu)
    for i in range(len(rows)):
        a = rows[i]
        prediction = 0.0
        for j in range(len(a)):
            x[j] = pull * z[j] + 0.5 * snapshot[j] + (0.5 - pull) * y[j]
            prediction += a[j] * x[j]
        t = (prediction - curves[i, 2]) / scale
        if shape == components.CLIP:
            t = min(max(t, -1.0), 1.0)
        elif shape == components.TANH:
            t = math.tanh(t)
        else:
            t = t / math.hypot(1.0, t)
        change = curves[i, 0] + curves[i, 1] * t - old_slopes[i]
        weight = 1 + weight * shrink
        for j in range(len(a)):
            v = mean[j] + change * a[j]
            z[j] = (z[j] - gamma * v) * shrink
            y[j] = (3 * beta * x[j] - v) * shorten
            average[j] += (y[j] - average[j]) / weight
    return weight
