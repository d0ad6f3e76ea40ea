"""Solvers that prove their accuracy. A new one is one class and its name in `SOLVERS`: contract tests check it."""

import re

from dpconvex.solvers.accelerated import AcceleratedGradient, ExtraGradient, SmoothedAcceleratedGradient
from dpconvex.solvers.base import Accuracy, Solver, SolverResult
from dpconvex.solvers.choice import Guaranteed, default_solver
from dpconvex.solvers.newton import LBFGS, BallNewton, NewtonCholesky, SmoothedNewton
from dpconvex.solvers.stochastic import DualCoordinateAscent, Katyusha, StochasticSubgradient
from dpconvex.solvers.subgradient import CuttingPlane, Subgradient
from dpconvex.solvers.weiszfeld import GeometricMedianSolution, geometric_median

SOLVERS: tuple[type[Solver], ...] = (
    NewtonCholesky, BallNewton, LBFGS, AcceleratedGradient, Subgradient, DualCoordinateAscent,
    SmoothedAcceleratedGradient, SmoothedNewton, StochasticSubgradient, Katyusha, ExtraGradient, CuttingPlane,
    Guaranteed,
)  # fmt: skip
"""Every solver of the library."""
NAMED_SOLVERS: dict[str, type[Solver]] = {
    re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower(): kind for kind in SOLVERS if kind is not Guaranteed
}  #: The solvers that a user may ask for, by name.

__all__ = [
    "LBFGS", "NAMED_SOLVERS", "SOLVERS", "AcceleratedGradient", "Accuracy", "BallNewton", "CuttingPlane",
    "DualCoordinateAscent", "ExtraGradient", "GeometricMedianSolution", "Guaranteed", "Katyusha", "NewtonCholesky",
    "SmoothedAcceleratedGradient", "SmoothedNewton", "Solver", "SolverResult", "StochasticSubgradient", "Subgradient",
    "default_solver", "geometric_median",
]  # fmt: skip
