"""A fast solver with a guaranteed one behind it, and which one fits a problem, from public facts only."""

import math

import numpy as np

from dpconvex._types import Status, final_dataclass, forwarded
from dpconvex.losses import PiecewiseLinearLoss, SmoothLoss
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.problems.minimax.adversarial import SaddleBounds
from dpconvex.sets import ConvexSet, L2Ball, WholeSpace
from dpconvex.solvers.accelerated import AcceleratedGradient, ExtraGradient, SmoothedAcceleratedGradient
from dpconvex.solvers.base import Solver, SolverResult, Start, needs_whole_space
from dpconvex.solvers.newton import LBFGS, BallNewton, NewtonCholesky, SmoothedNewton
from dpconvex.solvers.stochastic import DualCoordinateAscent
from dpconvex.solvers.subgradient import Subgradient


@final_dataclass
class Guaranteed(Solver):
    """Run `fast`; where its certificate does not fire within its steps, continue with `guaranteed`.

    The second solver starts at the point of the first only if its step bound is no worse from there (its own rule).
    So an unlucky data set costs time, never accuracy, and nothing about the release depends on which one finished.

    In an l2 ball that `fast` cannot treat, it runs without the constraint: where the ball of its certified radius lies
    within the constraint, the free minimizer is the constrained one. This needs an objective defined everywhere.
    """

    treats_tilt = True
    fast: Solver
    guaranteed: Solver  #: a solver with a step bound that holds for every data set
    last = forwarded("guaranteed")

    @property
    def only_sums(self) -> bool:
        return self.fast.only_sums and self.guaranteed.only_sums

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Accept the problems that both solvers treat, `fast` perhaps without the constraint."""
        free = self._free(loss, constraint, dim)
        return self.fast.refusal(loss, free, dim) or self.guaranteed.refusal(loss, constraint, dim)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        free = self._free(objective.bounds, constraint, objective.dim)
        first = self.fast.solve(objective, radius, free, start)
        reach = float(np.linalg.norm(first.point)) * (1 + 1e-12) + first.accuracy.bound
        if first.status is Status.CERTIFIED and (free is constraint or reach <= constraint.radius):
            return first
        second = self.guaranteed.solve(objective, radius, constraint, first.point)
        steps, calls = first.steps + second.steps, first.gradient_calls + second.gradient_calls
        return SolverResult(second.point, second.accuracy, second.status, steps, calls)

    def _free(self, loss: Bounds, constraint: ConvexSet, dim: int) -> ConvexSet:
        """Return the set in which `fast` looks for the minimizer: the constraint, or the whole space."""
        refused = self.fast.refusal(loss, constraint, dim) is not None
        return WholeSpace() if refused and isinstance(constraint, L2Ball) else constraint


_CHOLESKY_DIM = 2000  # most parameters for Newton's method: the Hessian then takes 32 MB


def default_solver(loss: Bounds, constraint: ConvexSet | None = None, dim: int = 1, *, tilted: bool = False) -> Solver:
    """Return the solver for problems of a loss, constraint and size: a guaranteed solver where there is one.

    The `loss` is that of a linear model, or the bounds of another objective (`Objective.bounds`); `dim` counts all
    outputs; `tilted` losses are aggregated by a log-sum-exp instead of an average.

    Smooth loss: Newton, also in an l2 ball (up to 2000 parameters), or L-BFGS, then accelerated gradient; with other
    constraints the last alone. Piecewise linear loss: dual coordinate ascent (also over cones), then smoothed
    accelerated gradient; with other constraints the last alone; if tilted, also in an l2 ball, Newton on the smoothed
    loss first. No linear model: L-BFGS, then accelerated gradient if smooth, else the subgradient method.
    """
    free = needs_whole_space(WholeSpace() if constraint is None else constraint) is None
    if isinstance(loss, SmoothLoss):
        small, ball = dim <= _CHOLESKY_DIM, isinstance(constraint, L2Ball)
        if not (free or ball):
            return AcceleratedGradient()
        fast = (BallNewton() if ball else NewtonCholesky()) if small else LBFGS()
        return Guaranteed(fast, AcceleratedGradient())
    if isinstance(loss, PiecewiseLinearLoss):
        fallback = SmoothedAcceleratedGradient()
        if tilted and dim <= _CHOLESKY_DIM and (free or isinstance(constraint, L2Ball)):
            return Guaranteed(SmoothedNewton(), fallback)
        dual = DualCoordinateAscent()
        applies = not tilted and dual.refusal(loss, constraint or WholeSpace(), dim) is None
        return Guaranteed(dual, fallback) if applies else fallback
    if math.isfinite(loss.curvature_bound):
        either = Guaranteed(LBFGS(), AcceleratedGradient())
        return either if free or isinstance(constraint, L2Ball) else AcceleratedGradient()
    return ExtraGradient() if isinstance(loss, SaddleBounds) else Subgradient()
