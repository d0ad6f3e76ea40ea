"""A fast solver with a guaranteed one behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dpconvex._types import FloatArray, Status
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.ball_l2 import L2Ball
from dpconvex.sets.base import ConvexSet
from dpconvex.sets.whole_space import WholeSpace
from dpconvex.solvers.accelerated import AcceleratedGradient
from dpconvex.solvers.base import Solver
from dpconvex.solvers.newton import NewtonCholesky
from dpconvex.solvers.result import SolverResult


@final
@dataclass(frozen=True)
class Guaranteed(Solver):
    """Run `fast`; where its certificate does not fire within its steps, continue with `guaranteed`.

    The second solver starts at the point of the first only if its step bound is no worse from there (its own rule).
    So an unlucky data set costs time, never accuracy, and nothing about the release depends on which one finished.

    In an l2 ball that `fast` cannot treat, it runs without the constraint: where the ball of its certified radius lies
    within the constraint, the free minimiser is the constrained one.

    Parameters
    ----------
    fast : Solver
    guaranteed : Solver
        With a step bound that holds for every data set.
    """

    treats_tilt: ClassVar[bool] = True

    fast: Solver
    guaranteed: Solver

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Problems that both solvers treat, `fast` perhaps without the constraint."""
        free = self._free(loss, constraint, dim)
        return self.fast.refusal(loss, free, dim) or self.guaranteed.refusal(loss, constraint, dim)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        free = self._free(objective.bounds, constraint, objective.dim)
        first = self.fast.solve(objective, radius, free, start)
        reach = float(np.linalg.norm(first.point)) * (1 + 1e-12) + first.accuracy.bound
        if first.status is Status.CERTIFIED and (free is constraint or reach <= constraint.radius):
            return first
        second = self.guaranteed.solve(objective, radius, constraint, first.point)
        steps, calls = first.steps + second.steps, first.gradient_calls + second.gradient_calls
        return SolverResult(second.point, second.accuracy, second.status, steps, calls)

    def _free(self, loss: Bounds, constraint: ConvexSet, dim: int) -> ConvexSet:
        """Return where `fast` looks for the minimiser."""
        refused = self.fast.refusal(loss, constraint, dim) is not None
        return WholeSpace() if refused and isinstance(constraint, L2Ball) else constraint

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(NewtonCholesky(max_steps=1), AcceleratedGradient()),)
