"""Extragradient for saddle objectives, with a step count that suffices for every data set."""

from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex._types import Status
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.problems.minimax.adversarial import SaddleBounds, SaddleObjective, saddle_constants, saddle_steps
from dpconvex.sets import ConvexSet, L2Ball
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Accuracy, Solver, SolverResult, Start


@final
@dataclass(frozen=True)
class ExtraGradient(Solver):
    r"""Parameters w and attacks v in turn to where both will be: ``z' = P(z - F(z)/(2k))``, ``z = P(z - F(z')/(2k))``.

    F is the saddle operator with a small ridge on the attacks (`saddle_constants`), in whose norm it has
    monotonicity 1 and Lipschitz constant k. Stops when the saddle gap of the *original* objective certifies the
    radius, at the latest after `saddle_steps`.

    Proof of accuracy: C6 (saddle gap). Only w is returned: attacks are functions of single records.

    Source: Korpelevich (1976); stands in for the method that Lowy and Razaviyayn suggest, Algorithm 8 (erratum: its
    pseudocode is not in the paper). Proof of the count: docs, Saddle problems.
    """

    treats_tilt = True

    max_steps: int | None = None

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
            if step in (check, limit):  # certificates cost little, but not nothing
                check = step + 1 + step // 20
                new = certificates.as_distance(certificates.saddle_gap(objective, constraint, w, v, g, a), mu)
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
