"""Which solver fits a problem, from public facts only."""

from __future__ import annotations

import math

from dpconvex.losses.base import PiecewiseLinearLoss, SmoothLoss
from dpconvex.problems.minimax.adversarial import SaddleBounds
from dpconvex.problems.objective import Bounds
from dpconvex.sets.ball_l2 import L2Ball
from dpconvex.sets.base import ConvexSet
from dpconvex.sets.whole_space import WholeSpace
from dpconvex.solvers.accelerated import AcceleratedGradient
from dpconvex.solvers.ball_newton import BallNewton
from dpconvex.solvers.base import Solver, needs_whole_space
from dpconvex.solvers.coordinate import DualCoordinateAscent
from dpconvex.solvers.extragradient import ExtraGradient
from dpconvex.solvers.guaranteed import Guaranteed
from dpconvex.solvers.lbfgs import LBFGS
from dpconvex.solvers.newton import NewtonCholesky
from dpconvex.solvers.smoothed import SmoothedAcceleratedGradient, SmoothedNewton
from dpconvex.solvers.subgradient import Subgradient

_CHOLESKY_DIM = 2000  # a Hessian of 32 MB


def default_solver(loss: Bounds, constraint: ConvexSet | None = None, dim: int = 1, *, tilted: bool = False) -> Solver:
    """Return the solver for problems of that loss, constraint and size; guaranteed where one exists.

    Parameters
    ----------
    loss : Bounds
        The loss of a linear model, or the bounds of another objective (`Objective.bounds`).
    constraint : ConvexSet, optional
        None means the whole space.
    dim : int
        Length of a parameter vector, all outputs together.
    tilted : bool
        Whether the losses are aggregated by a log-sum-exp instead of an average.

    Returns
    -------
    Solver
        Smooth loss: Newton, also in an l2 ball (up to 2000 parameters), or L-BFGS, then accelerated gradient; with
        another constraint the latter alone. Piecewise linear loss: dual coordinate ascent (also over cones), then
        smoothed accelerated gradient; with another constraint the latter alone; tilted, also in an l2 ball, Newton on
        the smoothed loss first. Bounds of no linear model: where smooth, L-BFGS, then accelerated gradient; else the
        subgradient method.
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
