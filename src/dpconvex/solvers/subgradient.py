"""Methods for any convex objective, smooth or not: projected subgradients, and cutting planes."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.sets import ConvexSet, L2Ball
from dpconvex.sets.balls import project_onto_simplex
from dpconvex.solvers.base import Accuracy, Counted, LowerModel, Solver, SolverResult, Start, as_distance

_PLANES = 150  # largest number of planes; beyond it, the planes of smallest weight are merged into one
_ASCENT = 3000  # most ascent steps on the weights per plane; any number keeps the certificate and the step bound
_SHARE = 0.05  # ascent on the weights stops when it could gain less than this share of the gap


@final_dataclass
class Subgradient(Counted, Solver):
    r"""``w_t = project(w_{t-1} - eta_{t-1} g_{t-1})``, ``eta_t = 2 / (mu (t + 1))``; the best iterate or an average.

    Without a constraint it works in the ball of radius ``(L + |linear|) / mu``, which holds the minimizer.

    Source: Lowy and Razaviyayn, Algorithm 2 and Proposition 3.2 (errata P6); certificate C3: docs, Solver certificates.
    """

    #: The iterate of smallest value, or the average with weights t. One certificate and one step count hold for both;
    #: where values round too coarsely to compare iterates, the average is returned, as it needs no values.
    output: Literal["best", "average"] = "best"

    def __post_init__(self) -> None:
        _validate.choice("output", self.output, ("best", "average"))

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if math.isfinite(loss.slope_bound) or math.isfinite(constraint.radius):
            return None
        return "needs a loss of bounded slope or a bounded constraint"

    @staticmethod
    def steps_for(lipschitz: float, strong_convexity: float, radius: float) -> int:
        """Return how many steps bring best iterate and average within `radius` of the minimizer, for every data set.

        L is the Lipschitz constant of the whole objective on the constraint, with ridge and linear term. Both gaps are
        at most ``2 L^2 / (mu (T + 1))``; ``mu/2 radius^2`` suffices.
        """
        return max(1, math.ceil(4 * (lipschitz / (strong_convexity * radius)) ** 2 * (1 + 1e-12)) - 1)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        mu = objective.strong_convexity
        if math.isinf(constraint.radius):
            constraint = L2Ball(objective.minimizer_norm)
        enough = self.steps_for(objective.lipschitz_within(constraint.radius), mu, radius)
        limit = enough if self.max_steps is None else min(enough, self.max_steps)
        average = self.output == "average"
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        value, g = objective.value_and_gradient(w)
        best, best_value, calls = w, value, 1
        model = LowerModel(objective, constraint)
        model.add(1.0, w, value, g)
        accuracy = as_distance(model.gap(average=average), mu)
        for step in range(1, limit + 1):
            if accuracy.bound <= radius:
                return SolverResult(best, accuracy, Status.CERTIFIED, step - 1, calls)
            w = constraint.project(w - 2 / (mu * step) * g)
            value, g = objective.value_and_gradient(w)
            calls += 1
            if step == 1:  # the theorem gives the start no weight
                model = LowerModel(objective, constraint)
            model.add(float(step), w, value, g)
            accuracy = as_distance(model.gap(average=average), mu)
            if average:
                best, best_value = model.average, value
            elif value < best_value:
                best, best_value = w, value
        if accuracy.bound <= radius:
            return SolverResult(best, accuracy, Status.CERTIFIED, limit, calls)
        if limit < enough:
            return SolverResult(best, accuracy, Status.STEP_LIMIT, limit, calls)
        enough_digits = mu / 2 * radius**2
        if objective.value_rounding(best_value, best) > enough_digits:
            best = model.average  # values are too coarse to tell the best iterate; the average needs none
        if 2 * constraint.radius * objective.gradient_rounding(best) > enough_digits:
            return SolverResult(best, accuracy, Status.STALLED, limit, calls)
        proven = Accuracy("distance", radius, "a priori", "subgradient step count (docs, Solver certificates)")
        return SolverResult(best, proven, Status.CERTIFIED, limit, calls)


@final_dataclass
class CuttingPlane(Counted, Solver):
    r"""Minimize ``mu/2 |u|^2 + max_j (<g_j, u> + h_j)``, add the plane at the minimizer, repeat.

    Weights theta of the planes, ``theta >= 0`` with sum 1, give the lower bound
    ``D(theta) = min over the set of mu/2 |u|^2 + <g_theta, u> + h_theta`` whatever their accuracy; the best value seen
    minus the largest lower bound is the certificate. The number of steps from `steps_for` is seldom affordable, but
    runs mostly end after tens to hundreds of steps.

    Oracle interface. At a member w `Objective.value_and_gradient` returns a lower value l and a slope g with
    ``J(u) >= l + <g, u - w> + mu/2 |u - w|^2`` for all members u, and ``J(w) <= l + value_rounding <= l + B``, B being
    `Objective.oracle_error`. With ``alpha = mu/2 radius^2`` public ``4 B <= alpha`` is required; then neither the step
    limit nor the stall test ends a run that has no certificate, whatever the data.

    Source: Teo, Vishwanathan, Smola and Le 2010, "Bundle methods for regularized risk minimization"; docs, Heavy tails.
    """

    refusal = Subgradient.refusal

    @staticmethod
    def steps_for(lipschitz: float, strong_convexity: float, radius: float, oracle_error: float = 0.0) -> int:
        """Return how many steps bring the best point within `radius` of the minimizer, for every data set.

        L is `Objective.plane_slope`. Along the segment from theta to the new plane D is concave with slope at least
        the gap e at its start and curvature at most ``4 L^2/mu``, so D grows by at least ``min(e/2, e^2 mu/(8 L^2))``.
        A gap below ``8 L^2 / mu`` after t steps is then at most ``8 L^2 / (mu t)``. The certificate pays the oracle's
        error B twice, for the value and for the planes: ``e + 2 B <= alpha = mu/2 radius^2`` suffices.
        """
        share = 1 - 4 * oracle_error / (strong_convexity * radius**2)
        return math.ceil(16 / share * (lipschitz / (strong_convexity * radius)) ** 2 * (1 + 1e-12)) + 64

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        mu, error = objective.strong_convexity, objective.oracle_error
        if 8 * error > mu * radius**2:  # 4 B <= alpha: the certificate fires before rounding does
            least = math.sqrt(8 * error / mu)
            raise InvalidParameterError("radius", radius, f"must be at least {least:.6g} for an oracle of this error")
        if math.isinf(constraint.radius):
            constraint = L2Ball(objective.minimizer_norm)
        enough = self.steps_for(objective.plane_slope(constraint.radius), mu, radius, error)
        limit = enough if self.max_steps is None else min(enough, self.max_steps)
        planes = _Planes(objective, constraint)
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        best, best_value, accuracy = w, math.inf, Accuracy("distance", math.inf, "a posteriori", "C3 cutting planes")
        for step in range(1, limit + 1):
            value, g = objective.value_and_gradient(w)
            if value < best_value:
                best, best_value = w, value
            w = planes.add(w, value, g, best_value)
            accuracy = as_distance(planes.gap(best_value, best), mu)
            if accuracy.bound <= radius:
                return SolverResult(best, accuracy, Status.CERTIFIED, step, step)
            if planes.drowned(best_value, best):
                return SolverResult(best, accuracy, Status.STALLED, step, step)
        return SolverResult(best, accuracy, Status.STEP_LIMIT, limit, limit)


@dataclass
class _Planes:
    """Planes ``<g_j, u> + h_j``, lower bounds of the objective less ``mu/2 |u|^2``, and their weights theta."""

    objective: Objective
    constraint: ConvexSet
    lower: float = -math.inf
    slack: float = 0.0
    slopes: Floats = field(default_factory=lambda: np.empty((0, 0)))
    offsets: Floats = field(default_factory=lambda: np.empty(0))
    weights: Floats = field(default_factory=lambda: np.empty(0))

    def add(self, w: Floats, value: float, g: Floats, best: float) -> Floats:
        """Add the plane at `w`, improve the weights, and return the model's minimizer."""
        mu = self.objective.strong_convexity
        plane, offset = g - mu * w, value - float(g @ w) + mu / 2 * float(w @ w)
        size = (float(np.linalg.norm(g)) + mu * float(np.linalg.norm(w))) * float(np.linalg.norm(w))
        self.slack = max(self.slack, self.objective.value_rounding(value, w) + 1e-14 * size)
        if len(self.offsets) >= _PLANES:
            self._merge()
        self.slopes = np.vstack([self.slopes.reshape(-1, len(w)), plane])
        self.offsets = np.append(self.offsets, offset)
        self.weights = self._ascend(np.append(self.weights, 0.0 if len(self.weights) else 1.0), best)
        dual, u = self._dual(self.weights)
        self.lower = max(self.lower, dual)
        return u

    def gap(self, best: float, point: Floats) -> Accuracy:
        """Return the certified gap of a point of value `best`."""
        bound = best - self.lower + self.objective.value_rounding(best, point) + self.slack
        return Accuracy("gap", max(bound, 0.0) * (1 + 1e-10), "a posteriori", "C3 cutting planes")

    def drowned(self, best: float, point: Floats) -> bool:
        """Whether the gap is no larger than what rounding can cause."""
        return best - self.lower <= self.slack + self.objective.value_rounding(best, point)

    def _dual(self, weights: Floats) -> tuple[float, Floats]:
        """Return ``D(weights)``, rounded down, and the point at which its minimum is attained."""
        least, u = self.constraint.ridge_minimum(weights @ self.slopes, self.objective.strong_convexity)
        return least + float(weights @ self.offsets), u

    def _ascend(self, weights: Floats, primal: float) -> Floats:
        """Improve the weights: first along the segment to the newest plane, then by accelerated projected ascent."""
        newest = np.eye(1, len(weights), len(weights) - 1)[0]
        value, u = self._dual(weights)
        mu = self.objective.strong_convexity
        planes = self.slopes - self.slopes.mean(0)
        rise = float(self.slopes[-1] @ u + self.offsets[-1] - weights @ (self.slopes @ u + self.offsets))
        bend = float(np.square(self.slopes[-1] - weights @ self.slopes).sum()) / mu
        part = min(1.0, max(0.0, rise / bend)) if bend > 0 else 1.0
        best, best_value = weights, value
        step = mu / max(float(np.linalg.norm(planes, 2)) ** 2, 1e-300)
        x, y, t = weights + part * (newest - weights), weights + part * (newest - weights), 1.0
        last = -math.inf
        for _ in range(_ASCENT):
            value, u = self._dual(y)
            if value > best_value:
                best, best_value = y, value
            slope = self.slopes @ u + self.offsets
            new = project_onto_simplex(y + step * (slope - slope.mean()), 1.0)
            if value < last:  # restart the momentum
                t = 1.0
            last, t_new = value, 0.5 + math.sqrt(0.25 + t * t)
            y = new + (t - 1) / t_new * (new - x)
            y = project_onto_simplex(y, 1.0)
            if float(slope.max()) - float(slope @ new) <= max(_SHARE * (primal - best_value), self.slack):
                break
            x, t = new, t_new
        value, _ = self._dual(x)
        return x if value > best_value else best

    def _merge(self) -> None:
        """Keep the planes of the largest weights, and replace the other planes by the weighted sum of all planes."""
        keep = np.argsort(self.weights)[-_PLANES // 2 :]
        slope, offset = self.weights @ self.slopes, self.weights @ self.offsets
        self.slopes = np.vstack([slope, self.slopes[keep]])
        self.offsets = np.append(offset, self.offsets[keep])
        self.weights = np.eye(1, len(keep) + 1)[0]
