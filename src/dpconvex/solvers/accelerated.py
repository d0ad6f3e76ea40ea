"""First-order methods with step counts that suffice for every data set: projected accelerated gradient, the same for
smoothed losses, and extragradient for saddle objectives.
"""

import math
from dataclasses import replace

import numpy as np

from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.minimax.adversarial import SaddleBounds, SaddleObjective, saddle_constants, saddle_steps
from dpconvex.sets import ConvexSet, L2Ball
from dpconvex.solvers import base
from dpconvex.solvers.base import Accuracy, Counted, Solver, SolverResult, Start

_SHARE = 0.25  # share of the radius left to the solver of a smoothed loss; smoothing takes the rest


@final_dataclass
class AcceleratedGradient(Counted, Solver):
    r"""Nesterov's method for smooth, strongly convex objectives over any set with a projection.

    ``y_t = project(w_{t-1} - gradient(w_{t-1}) / beta)``, ``w_t = (1 + theta) y_t - theta y_{t-1}``,
    ``theta = (sqrt kappa - 1) / (sqrt kappa + 1)``; returns ``y_t``. It stops when the distance certificate of the
    projected step fires, at the latest after `steps_for` steps.

    Guarantee: with ``max_steps=None`` and ``initial_gap`` finite, status ``CERTIFIED`` for every data set, unless
    the radius is so small that float64 rounding forbids it (then ``STALLED``).

    Source: Lowy and Razaviyayn, Algorithm 4, with the count of V-FISTA (Beck 2017, *First-order methods in
    optimization*, Theorem 10.42); docs, Solver certificates.
    """

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return None if math.isfinite(loss.curvature_bound) else "needs a smooth loss"

    @staticmethod
    def steps_for(smoothness: float, strong_convexity: float, initial_gap: float, radius: float) -> int:
        """Return how many steps bring the point within `radius` of the minimizer, for every data set.

        The constants are those of the whole objective; `initial_gap` bounds ``J(start) - min J``.
        ``J(y_T) - J* <= (1 - kappa^-1/2)^T (gap + mu/2 |start - w*|^2) <= (1 - kappa^-1/2)^T 2 gap``, and
        ``J(y_T) - J* <= mu/2 radius^2`` suffices.
        """
        if smoothness <= strong_convexity or initial_gap <= 0:
            return 1
        ratio = math.log(4 * initial_gap / strong_convexity) - 2 * math.log(radius)  # a tiny radius squared underflows
        return max(1, math.ceil(ratio / -math.log1p(-math.sqrt(strong_convexity / smoothness)) * (1 + 1e-12)))

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        mu, beta = objective.strong_convexity, objective.smoothness
        root = math.sqrt(beta / mu)
        theta = (root - 1) / (root + 1)
        y, first_gap, calls = _begin(objective, constraint, start)
        enough = self.steps_for(beta, mu, first_gap, radius)
        limit = enough if self.max_steps is None else min(enough, self.max_steps)
        w, accuracy = y, Accuracy("distance", math.sqrt(2 * first_gap / mu), "a posteriori", "C2 constrained gap")
        for step in range(1, limit + 1):
            previous, y = y, constraint.project(w - objective.gradient(w) / beta)
            accuracy = base.projected_step(objective, w, y, constraint.projection_error)
            if accuracy.bound <= radius:
                return SolverResult(y, accuracy, Status.CERTIFIED, step, calls + step)
            w = (1 + theta) * y - theta * previous
        calls += limit
        if limit < enough:
            return SolverResult(y, accuracy, Status.STEP_LIMIT, limit, calls)
        if objective.gradient_rounding(y) + (beta + mu) * constraint.projection_error > mu * radius:
            return SolverResult(y, accuracy, Status.STALLED, limit, calls)
        proven = Accuracy("distance", radius, "a priori", "V-FISTA step count (Beck 2017, theorem 10.42)")
        return SolverResult(y, proven, Status.CERTIFIED, limit, calls)


def _begin(objective: Objective, constraint: ConvexSet, start: Floats | None) -> tuple[Floats, float, int]:
    """Return the better of `start` and 0, a bound on its gap (at most the bound for 0), and the gradient calls."""
    zero = constraint.project(np.zeros(objective.dim))
    gap = base.constrained_gap(objective, constraint, zero, objective.gradient(zero)).bound
    gap = gap if zero.any() else min(gap, objective.initial_gap)
    if start is None:
        return zero, gap, 1
    warm = constraint.project(start)
    warm_gap = base.constrained_gap(objective, constraint, warm, objective.gradient(warm)).bound
    return (warm, warm_gap, 2) if warm_gap < gap else (zero, gap, 2)


@final_dataclass
class SmoothedAcceleratedGradient(Counted, Solver):
    r"""`AcceleratedGradient` on ``loss.smoothed(width)``, the width chosen from public facts.

    Smoothing lowers every loss, hence the objective, by between 0 and ``width A^2 / 2``, so its minimizer moves by at
    most ``sqrt(width A^2 / mu)`` (strong convexity of both); the width makes that 3/4 of the radius.
    """

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return None if isinstance(loss, PiecewiseLinearLoss) else "needs a piecewise linear loss of a linear model"

    @staticmethod
    def width_for(slope_bound: float, strong_convexity: float, radius: float) -> float:
        """Return the width at which smoothing moves the minimizer by at most 3/4 of the radius."""
        return strong_convexity * ((1 - _SHARE) * radius / slope_bound) ** 2 * (1 - 1e-11)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        assert isinstance(objective.loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        width = self.width_for(objective.loss.slope_bound, objective.l2, radius)
        smooth = replace(objective, loss=objective.loss.smoothed(width))
        inner = AcceleratedGradient(self.max_steps).solve(smooth, _SHARE * radius, constraint, start)
        moved = math.sqrt(width / objective.l2) * objective.loss.slope_bound * (1 + 1e-12)
        bound = inner.accuracy.bound + moved
        accuracy = Accuracy("distance", bound, inner.accuracy.basis, inner.accuracy.lemma + " of the smoothed loss")
        return SolverResult(inner.point, accuracy, inner.status, inner.steps, inner.gradient_calls)


@final_dataclass
class ExtraGradient(Counted, Solver):
    r"""Extragradient: parameters and attacks z = (w, v) move by ``z' = P(z - F(z)/(2k))``, ``z = P(z - F(z')/(2k))``.

    F is the saddle operator with a small ridge on the attacks (`saddle_constants`), in whose norm it has
    monotonicity 1 and Lipschitz constant k. Stops when the saddle gap of the *original* objective certifies the
    radius, at the latest after `saddle_steps`.

    Proof of accuracy: C6 (saddle gap). Only w is returned: attacks are functions of single records.

    Source: Korpelevich (1976); stands in for the method that Lowy and Razaviyayn suggest, Algorithm 8 (erratum: its
    pseudocode is not in the paper). Proof of the count: docs, Saddle problems.
    """

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if not isinstance(loss, SaddleBounds):
            return "needs a saddle objective"
        return None if isinstance(constraint, L2Ball) else "needs an l2 ball as constraint"

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        assert isinstance(objective, SaddleObjective)  # `refusal`; tells the type checker
        loss, mu = objective.function, objective.l2
        enough = saddle_steps(loss, mu, constraint.radius, radius)
        limit = enough if self.max_steps is None else min(enough, self.max_steps)
        constants = saddle_constants(loss, mu, radius)
        sigma, length = constants.sigma, 0.5 / constants.condition
        step_w, step_v = length / mu, length / constants.concavity
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        v = np.zeros((objective.records.n, loss.attack.size))
        best, accuracy, calls, check = w, Accuracy("distance", np.inf, "a posteriori", "C6 saddle gap"), 0, 1
        for step in range(limit + 1):
            g, a = objective.payoff_gradients(w, v)
            calls += 1
            if step in (check, limit):  # a certificate at every step would cost too much
                check = step + 1 + step // 20
                new = base.as_distance(base.saddle_gap(objective, constraint, w, v, g, a), mu)
                if new.bound < accuracy.bound:
                    best, accuracy = w, new
                if accuracy.bound <= radius:
                    return SolverResult(best, accuracy, Status.CERTIFIED, step, calls)
            if step == limit:
                break
            ahead_w = constraint.project(w - step_w * g)
            ahead_v = objective.project_attacks(v + step_v * (a - sigma * v))
            g, a = objective.payoff_gradients(ahead_w, ahead_v)
            calls += 1
            w = constraint.project(w - step_w * g)
            v = objective.project_attacks(v + step_v * (a - sigma * ahead_v))
        return SolverResult(best, accuracy, Status.STEP_LIMIT if limit < enough else Status.STALLED, limit, calls)
