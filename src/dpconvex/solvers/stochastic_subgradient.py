"""The stochastic subgradient method, one record at a time, with a certificate after every stage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray, Status
from dpconvex.losses.base import PiecewiseLinearLoss, SmoothLoss
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import _certificates as certificates, _components as components
from dpconvex.solvers.base import Solver, needs_whole_space
from dpconvex.solvers.result import Accuracy, SolverResult

_STAGE = 4096  # least component steps of a stage: certificates must not cost more than steps


@final
@dataclass(frozen=True)
class StochasticSubgradient(Solver):
    r"""``w_t = project(w_{t-1} - eta_{t-1} g_t)`` with one record's subgradient, ``eta_t = 2 / (mu (t + 1))``.

    Returns the mean of the ``w_t`` with weights t. It works in the ball of radius ``(L + |linear|) / mu``, which holds
    the minimiser. Its accuracy is proven in expectation only, which no privacy proof may rest on (measured elsewhere:
    the radius is missed with probability 2e-4 although the expected gap is a tenth of what it asks for). So it
    certifies the mean, gives up after a fixed number of stages, and belongs before a solver that cannot fail:
    ``Guaranteed(StochasticSubgradient(), SmoothedAcceleratedGradient())``. The records' order comes from a fixed
    generator and no data: the method is deterministic, and independent of all noise.

    Parameters
    ----------
    max_steps : int
        Bound on the stages; a stage is n component steps, or 4096 if that is more. Certificates are computed after
        stages 1, 2, 3, ... and later after every tenth of those done.

    Notes
    -----
    Proof of accuracy: C1 (gradient norm) for smooth losses. Else C4 (duality gap), with each record's mean slope along
    the way as its dual variable.

    References
    ----------
    Bubeck (2015), Theorem 6.2; Lowy and Razaviyayn, Algorithm 3.
    """

    treats_weights: ClassVar[bool] = False

    max_steps: int = 100

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Losses of bounded and compiled slope, without a constraint."""
        if math.isinf(loss.slope_bound):
            return "needs a loss of bounded slope"
        if not isinstance(loss, SmoothLoss | PiecewiseLinearLoss):
            return "needs a smooth or piecewise linear loss of a linear model"
        return components.needs_slope_curve(loss) or needs_whole_space(constraint)

    @staticmethod
    def steps_for(lipschitz: float, strong_convexity: float, radius: float) -> int:
        """Component steps whose mean is expected within `radius` of the minimiser (a forecast, not a guarantee).

        Parameters
        ----------
        lipschitz : float
            Of the whole objective on the ball, ridge and linear term included.
        strong_convexity, radius : float

        Notes
        -----
        The expected gap is at most ``2 L^2 / (mu (T + 1))``; ``mu/2 radius^2`` is wanted.
        """
        return max(1, math.ceil(4 * (lipschitz / (strong_convexity * radius)) ** 2 * (1 + 1e-12)) - 1)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        path = _Path(objective, np.zeros(objective.dim) if start is None else start)
        order = np.random.default_rng(0)  # a fixed sequence: neither private nor secret
        best, accuracy = path.mean.copy(), path.certificate()
        stages, calls, check = 0, 2, 1
        size = max(objective.records.n, _STAGE)
        while accuracy.bound > radius and stages < self.max_steps:
            more = min(check, self.max_steps - stages)
            path.follow(more * size, order)
            stages += more
            calls += math.ceil(more * size / objective.records.n) + 2
            check = max(1, stages // 10)
            new = path.certificate()
            if new.bound < accuracy.bound:
                best, accuracy = path.mean.copy(), new
        status = Status.CERTIFIED if accuracy.bound <= radius else Status.STEP_LIMIT
        return SolverResult(best, accuracy, status, stages, calls)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)


@final
class _Path:
    """The iterate, the weighted mean of all iterates, and each record's sums of weights and of weighted slopes."""

    def __init__(self, objective: LinearModelObjective, start: FloatArray) -> None:
        curve = components.slope_curve(objective.loss, objective.targets)
        assert curve is not None  # `refusal`; tells the type checker
        self._objective, self._curve = objective, curve
        self._radius = (objective.lipschitz + objective.linear_norm) / objective.l2
        self._linear = np.zeros(objective.dim) if objective.linear is None else objective.linear
        self._w, self._steps = start.copy(), 0.0
        self.mean = start.copy()
        self._dual = np.zeros((objective.records.n, 2))

    def follow(self, count: int, order: np.random.Generator) -> None:
        """Take `count` component steps."""
        kernel, curve, objective = components.compiled(_steps), self._curve, self._objective
        for index, rows in components.draws(objective.records, count, order):
            self._steps = kernel(
                rows, index, curve.records, curve.shape, curve.scale, self._linear, self._w, self.mean, self._dual,
                self._steps, objective.l2, self._radius,
            )  # fmt: skip

    def certificate(self) -> Accuracy:
        """Return the distance of the mean that is proven."""
        objective, w = self._objective, self.mean
        loss, y, mu = objective.loss, objective.targets, objective.l2
        if not isinstance(loss, PiecewiseLinearLoss):
            return certificates.gradient_norm(objective, w, objective.gradient(w))
        z = objective.records.predict(w)
        seen = self._dual[:, 0] > 0
        means = np.divide(self._dual[:, 1], self._dual[:, 0], out=loss.derivative(z, y), where=seen)
        slopes = np.clip(means, *loss.slope_interval(y))  # rounding
        losses = loss.value(z, y)
        # The dual's own parameters. P(w) - D(slopes) in terms that are at least 0, with no cancellation:
        other = -(self._linear + objective.records.adjoint(slopes) / objective.records.n) / mu
        gap = float(np.mean(losses - slopes * (z - y))) + mu / 2 * float(np.sum((w - other) ** 2))
        return certificates.as_distance(certificates.duality_gap(objective, w, gap, float(np.mean(losses))), mu)


def _steps(
    rows: FloatArray,
    index: AnyArray,
    curves: FloatArray,
    shape: int,
    scale: float,
    linear: FloatArray,
    w: FloatArray,
    mean: FloatArray,
    dual: FloatArray,
    t: float,
    mu: float,
    radius: float,
) -> float:
    """Algorithm 3 over `rows`; `t` counts the steps of all calls."""
    for k in range(len(rows)):
        a, i = rows[k], index[k]
        prediction = 0.0
        for j in range(len(a)):
            prediction += a[j] * w[j]
        u = (prediction - curves[i, 2]) / scale
        if shape == components.CLIP:
            u = min(max(u, -1.0), 1.0)
        elif shape == components.TANH:
            u = math.tanh(u)
        else:
            u = u / math.hypot(1.0, u)
        slope = curves[i, 0] + curves[i, 1] * u
        t += 1
        dual[i, 0] += t
        dual[i, 1] += t * slope
        step, keep, square = 2 / (mu * t), 1 - 2 / t, 0.0
        for j in range(len(a)):
            w[j] = keep * w[j] - step * (slope * a[j] + linear[j])
            square += w[j] * w[j]
        inside = min(1.0, radius / math.sqrt(square)) if square > 0 else 1.0
        for j in range(len(a)):
            w[j] *= inside
            mean[j] += (w[j] - mean[j]) * 2 / (t + 1)
    return t
