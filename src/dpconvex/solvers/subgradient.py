"""Projected subgradient method, for any convex loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray, Status
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.ball_l2 import L2Ball
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Solver
from dpconvex.solvers.result import Accuracy, SolverResult


@final
@dataclass(frozen=True)
class Subgradient(Solver):
    r"""``w_t = project(w_{t-1} - eta_{t-1} g_{t-1})``, ``eta_t = 2 / (mu (t + 1))``; the best iterate or an average.

    Without a constraint it works in the ball of radius ``(L + |linear|) / mu``, which holds the minimiser.

    Parameters
    ----------
    max_steps : int, optional
        None: as many as `steps_for` says, so that success is guaranteed. That is often unaffordable (it grows like
        ``1 / radius^2``).
    output : {"best", "average"}
        The iterate of smallest value, or the average with weights t. One certificate and one step count hold for both;
        the average's step count needs no values, so it is returned as well where values round too coarsely to compare.

    References
    ----------
    Lowy and Razaviyayn, Algorithm 2 and Proposition 3.2 (errata P6); certificate C3: docs, Solver certificates.
    """

    treats_tilt: ClassVar[bool] = True

    max_steps: int | None = None
    output: Literal["best", "average"] = "best"

    def __post_init__(self) -> None:
        _validate.choice("output", self.output, ("best", "average"))

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Any loss whose slope is bounded, or any set that is."""
        if math.isfinite(loss.slope_bound) or math.isfinite(constraint.radius):
            return None
        return "needs a loss of bounded slope or a bounded constraint"

    @staticmethod
    def steps_for(lipschitz: float, strong_convexity: float, radius: float) -> int:
        """Steps whose best iterate and average are within `radius` of the minimiser, for every data set.

        Parameters
        ----------
        lipschitz : float
            Of the whole objective on the constraint, ridge and linear term included.
        strong_convexity, radius : float

        Notes
        -----
        Both gaps are at most ``2 L^2 / (mu (T + 1))``; ``mu/2 radius^2`` suffices.
        """
        return max(1, math.ceil(4 * (lipschitz / (strong_convexity * radius)) ** 2 * (1 + 1e-12)) - 1)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        mu = objective.strong_convexity
        if math.isinf(constraint.radius):
            constraint = L2Ball(objective.minimiser_norm)
        enough = self.steps_for(objective.lipschitz_within(constraint.radius), mu, radius)
        limit = enough if self.max_steps is None else min(enough, self.max_steps)
        average = self.output == "average"
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        value, g = objective.value_and_gradient(w)
        best, best_value, calls = w, value, 1
        model = certificates.LowerModel(objective, constraint)
        model.add(1.0, w, value, g)
        accuracy = certificates.as_distance(model.gap(average=average), mu)
        for step in range(1, limit + 1):
            if accuracy.bound <= radius:
                return SolverResult(best, accuracy, Status.CERTIFIED, step - 1, calls)
            w = constraint.project(w - 2 / (mu * step) * g)
            value, g = objective.value_and_gradient(w)
            calls += 1
            if step == 1:  # the theorem gives the start no weight
                model = certificates.LowerModel(objective, constraint)
            model.add(float(step), w, value, g)
            accuracy = certificates.as_distance(model.gap(average=average), mu)
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

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(), cls(output="average"))
