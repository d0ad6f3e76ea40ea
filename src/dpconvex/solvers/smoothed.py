"""Solvers for piecewise linear losses that minimize a smoothed one: a guaranteed and a fast method."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

from dpconvex._types import FloatArray, Status
from dpconvex.losses.base import PiecewiseLinearLoss
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers.accelerated import AcceleratedGradient
from dpconvex.solvers.base import Accuracy, Solver, SolverResult, needs_whole_space
from dpconvex.solvers.newton import NewtonCholesky

_SHARE = 0.25  # of the radius, for the solver; the rest is the cost of smoothing


@final
@dataclass(frozen=True)
class SmoothedAcceleratedGradient(Solver):
    r"""`AcceleratedGradient` on ``loss.smoothed(width)``, the width chosen from public facts.

    Smoothing lowers every loss, hence the objective, by between 0 and ``width A^2 / 2``, so its minimizer moves by at
    most ``sqrt(width A^2 / mu)`` (strong convexity of both); the width makes that 3/4 of the radius.
    """

    treats_tilt = True

    max_steps: int | None = None

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return None if isinstance(loss, PiecewiseLinearLoss) else "needs a piecewise linear loss of a linear model"

    @staticmethod
    def width_for(slope_bound: float, strong_convexity: float, radius: float) -> float:
        """Return the width of smoothing for that radius."""
        return strong_convexity * ((1 - _SHARE) * radius / slope_bound) ** 2 * (1 - 1e-11)

    @staticmethod
    def steps_for(
        slope_bound: float, feature_l2: float, strong_convexity: float, initial_gap: float, radius: float
    ) -> int:
        """Return how many steps suffice for every data set, as `AcceleratedGradient.steps_for` does."""
        width = SmoothedAcceleratedGradient.width_for(slope_bound, strong_convexity, radius)
        smoothness = feature_l2**2 / width + strong_convexity
        return AcceleratedGradient.steps_for(smoothness, strong_convexity, initial_gap, _SHARE * radius)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        assert isinstance(objective.loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        width = self.width_for(objective.loss.slope_bound, objective.l2, radius)
        smooth = replace(objective, loss=objective.loss.smoothed(width))
        inner = AcceleratedGradient(self.max_steps).solve(smooth, _SHARE * radius, constraint, start)
        moved = math.sqrt(width / objective.l2) * objective.loss.slope_bound * (1 + 1e-12)
        bound = inner.accuracy.bound + moved
        accuracy = Accuracy("distance", bound, inner.accuracy.basis, inner.accuracy.lemma + " of the smoothed loss")
        return SolverResult(inner.point, accuracy, inner.status, inner.steps, inner.gradient_calls)


@final
@dataclass(frozen=True)
class SmoothedNewton(Solver):
    r"""Newton's method on ``loss.smoothed(width)`` for widths that fall tenfold, each from the last one's minimizer.

    The last width is `SmoothedAcceleratedGradient.width_for`. Its fast companion where dual methods do not apply.

    Proof of accuracy: C1 for the smoothed loss and the distance that smoothing moves the minimizer. No step count is
    guaranteed; `Guaranteed` adds that.
    """

    treats_tilt = True

    max_steps: int = 60  # at each width

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if not isinstance(loss, PiecewiseLinearLoss):
            return "needs a piecewise linear loss of a linear model"
        return needs_whole_space(constraint)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        loss, mu = objective.loss, objective.l2
        assert isinstance(loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        slope, newton = loss.slope_bound, NewtonCholesky(self.max_steps)
        width = SmoothedAcceleratedGradient.width_for(slope, mu, radius)
        wide = min(loss.value_at_zero / slope, objective.lipschitz**2 / (mu * slope))  # about the size of predictions
        highest = max(0, math.ceil(math.log10(wide / width)))
        widths = [width * 10.0**power for power in range(highest, -1, -1)]
        moves = [math.sqrt(one / mu) * slope * (1 + 1e-12) for one in widths]
        inner = newton.solve(replace(objective, loss=loss.smoothed(widths[0])), moves[0] / 3, start=start)
        moved, steps, calls = moves[-1], inner.steps, inner.gradient_calls
        for one, move in zip(widths[1:], moves[1:], strict=True):
            inner = newton.solve(replace(objective, loss=loss.smoothed(one)), move / 3, start=inner.point)
            steps, calls = steps + inner.steps, calls + inner.gradient_calls
        bound = inner.accuracy.bound + moved
        accuracy = Accuracy("distance", bound, inner.accuracy.basis, inner.accuracy.lemma + " of the smoothed loss")
        status = Status.CERTIFIED if bound <= radius else inner.status
        return SolverResult(inner.point, accuracy, status, steps, calls)
