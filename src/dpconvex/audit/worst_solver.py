"""A solver that is as wrong as its certificate allows, so that audits see whether the noise covers the solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import LBFGS, Solver, SolverResult

_SHARE = 1e-3
"""Of the radius, for the solver underneath."""


@final
@dataclass(frozen=True)
class WorstSolver(Solver):
    """Solve nearly exactly, then step away from zero by what is left of the radius.

    Parameters
    ----------
    inner : Solver
        Solves to a thousandth of the radius.
    """

    inner: Solver

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """As `inner`."""
        return self.inner.refusal(loss, constraint, dim)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        found = self.inner.solve(objective, _SHARE * radius, constraint, start)
        length = float(np.linalg.norm(found.point))
        away = found.point / length if length else np.ones_like(found.point) / np.sqrt(objective.dim)
        moved = found.point + (1 - 2 * _SHARE) * radius * away
        return replace(found, point=moved, accuracy=replace(found.accuracy, bound=radius))

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """One."""
        return (cls(LBFGS()),)
