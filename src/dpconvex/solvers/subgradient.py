"""Projected subgradient method, for any convex loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dpconvex._types import FloatArray, Status
from dpconvex.losses.base import LinearModelLoss
from dpconvex.problems.objective import Objective
from dpconvex.sets.ball_l2 import L2Ball
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Solver
from dpconvex.solvers.result import Accuracy, SolverResult


@final
@dataclass(frozen=True)
class Subgradient(Solver):
    r"""``w_t = project(w_{t-1} - eta_{t-1} g_{t-1})``, ``eta_t = 2 / (mu (t + 1))``; returns the best iterate.

    Without a constraint it works in the ball of radius ``(L + |linear|) / mu``, which holds the minimiser.

    Parameters
    ----------
    max_steps : int, optional
        None: as many as `steps_for` says, so that success is guaranteed. That is often unaffordable (it grows like
        ``1 / radius^2``).

    References
    ----------
    Lowy and Razaviyayn, Algorithm 2 and Proposition 3.2 (errata P6); certificate C3: docs, Solver certificates.
    """

    treats_tilt: ClassVar[bool] = True

    max_steps: int | None = None

    def refusal(self, loss: LinearModelLoss, constraint: ConvexSet, dim: int) -> str | None:
        """Any loss whose slope is bounded, or any set that is."""
        if math.isfinite(loss.slope_bound) or math.isfinite(constraint.radius):
            return None
        return "needs a loss of bounded slope or a bounded constraint"

    @staticmethod
    def steps_for(lipschitz: float, strong_convexity: float, radius: float) -> int:
        """Steps whose best iterate is within `radius` of the minimiser, for every data set.

        Parameters
        ----------
        lipschitz : float
            Of the whole objective on the constraint, ridge and linear term included.
        strong_convexity, radius : float

        Notes
        -----
        The best gap is at most ``2 L^2 / (mu (T + 1))``; ``mu/2 radius^2`` suffices.
        """
        return max(1, math.ceil(4 * (lipschitz / (strong_convexity * radius)) ** 2 * (1 + 1e-12)) - 1)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        mu = objective.strong_convexity
        if math.isinf(constraint.radius):
            constraint = L2Ball((objective.lipschitz + objective.linear_norm) / mu)
        enough = self.steps_for(objective.lipschitz_within(constraint.radius), mu, radius)
        limit = enough if self.max_steps is None else min(enough, self.max_steps)
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        value, g = objective.value_and_gradient(w)
        best, best_value, calls = w, value, 1
        model = certificates.LowerModel(objective, constraint)
        model.add(1.0, w, value, g)
        accuracy = certificates.as_distance(model.gap(), mu)
        for step in range(1, limit + 1):
            if accuracy.bound <= radius:
                return SolverResult(best, accuracy, Status.CERTIFIED, step - 1, calls)
            w = constraint.project(w - 2 / (mu * step) * g)
            value, g = objective.value_and_gradient(w)
            calls += 1
            if value < best_value:
                best, best_value = w, value
            model.add(step + 1.0, w, value, g)
            accuracy = certificates.as_distance(model.gap(), mu)
        if accuracy.bound <= radius:
            return SolverResult(best, accuracy, Status.CERTIFIED, limit, calls)
        if limit < enough:
            return SolverResult(best, accuracy, Status.STEP_LIMIT, limit, calls)
        if objective.value_rounding(best_value, best) > mu / 2 * radius**2:
            return SolverResult(best, accuracy, Status.STALLED, limit, calls)
        proven = Accuracy("distance", radius, "a priori", "subgradient step count (docs, Solver certificates)")
        return SolverResult(best, proven, Status.CERTIFIED, limit, calls)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)
