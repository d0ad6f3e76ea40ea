"""A fast solver with a guaranteed one behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

from dpconvex._types import FloatArray, Status
from dpconvex.losses.base import LinearModelLoss
from dpconvex.problems.erm import RegularizedRisk
from dpconvex.sets.base import ConvexSet
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

    Parameters
    ----------
    fast : Solver
    guaranteed : Solver
        With a step bound that holds for every data set.
    """

    fast: Solver
    guaranteed: Solver

    def refusal(self, loss: LinearModelLoss, constraint: ConvexSet, dim: int) -> str | None:
        """Problems that both solvers treat."""
        return self.fast.refusal(loss, constraint, dim) or self.guaranteed.refusal(loss, constraint, dim)

    def _solve(
        self, objective: RegularizedRisk, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        first = self.fast.solve(objective, radius, constraint, start)
        if first.status is Status.CERTIFIED:
            return first
        second = self.guaranteed.solve(objective, radius, constraint, first.point)
        steps, calls = first.steps + second.steps, first.gradient_calls + second.gradient_calls
        return SolverResult(second.point, second.accuracy, second.status, steps, calls)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(NewtonCholesky(max_steps=1), AcceleratedGradient()),)
