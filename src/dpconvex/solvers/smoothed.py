"""A guaranteed solver for piecewise linear losses: accelerated gradient on a smoothed loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self, final

from dpconvex._types import FloatArray
from dpconvex.losses.base import LinearModelLoss, PiecewiseLinearLoss
from dpconvex.problems.erm import RegularizedRisk
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers.accelerated import AcceleratedGradient
from dpconvex.solvers.base import Solver
from dpconvex.solvers.result import Accuracy, SolverResult

_SHARE = 0.25  # of the radius, for the solver; the rest is the cost of smoothing


@final
@dataclass(frozen=True)
class SmoothedAcceleratedGradient(Solver):
    r"""`AcceleratedGradient` on ``loss.smoothed(width)``, the width chosen from public facts.

    Smoothing lowers the objective by between 0 and ``width A^2 / 2``, so its minimiser moves by at most
    ``sqrt(width A^2 / mu)`` (strong convexity of both); the width makes that 3/4 of the radius.

    Parameters
    ----------
    max_steps : int, optional
        None: as many as `steps_for` says, so that success is guaranteed.
    """

    max_steps: int | None = None

    def refusal(self, loss: LinearModelLoss, constraint: ConvexSet, dim: int) -> str | None:
        """Piecewise linear losses, any set."""
        return None if isinstance(loss, PiecewiseLinearLoss) else "needs a piecewise linear loss"

    @staticmethod
    def width_for(slope_bound: float, strong_convexity: float, radius: float) -> float:
        """Width of smoothing for that radius."""
        return strong_convexity * ((1 - _SHARE) * radius / slope_bound) ** 2 * (1 - 1e-12)

    @staticmethod
    def steps_for(
        slope_bound: float, feature_l2: float, strong_convexity: float, initial_gap: float, radius: float
    ) -> int:
        """Steps that bring the point within `radius` of the minimiser, for every data set.

        Parameters
        ----------
        slope_bound : float
            Of the loss, in the prediction.
        feature_l2 : float
            Largest l2 norm of a record.
        strong_convexity, initial_gap, radius : float
            As in `AcceleratedGradient.steps_for`.
        """
        width = SmoothedAcceleratedGradient.width_for(slope_bound, strong_convexity, radius)
        smoothness = feature_l2**2 / width + strong_convexity
        return AcceleratedGradient.steps_for(smoothness, strong_convexity, initial_gap, _SHARE * radius)

    def _solve(
        self, objective: RegularizedRisk, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective.loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        width = self.width_for(objective.loss.slope_bound, objective.l2, radius)
        smooth = RegularizedRisk(
            objective.loss.smoothed(width), objective.records, objective.targets, objective.l2, objective.linear
        )
        inner = AcceleratedGradient(self.max_steps).solve(smooth, _SHARE * radius, constraint, start)
        moved = math.sqrt(width / objective.l2) * objective.loss.slope_bound * (1 + 1e-12)
        bound = inner.accuracy.bound + moved
        accuracy = Accuracy("distance", bound, inner.accuracy.basis, inner.accuracy.lemma + " of the smoothed loss")
        return SolverResult(inner.point, accuracy, inner.status, inner.steps, inner.gradient_calls)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)
