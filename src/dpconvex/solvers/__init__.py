"""Solvers that return a proven accuracy.

A new solver is one new file and its name in `SOLVERS`; the contract tests then check it.
"""

from __future__ import annotations

from dpconvex.solvers.accelerated import AcceleratedGradient
from dpconvex.solvers.base import Solver
from dpconvex.solvers.choice import default_solver
from dpconvex.solvers.coordinate import DualCoordinateAscent
from dpconvex.solvers.guaranteed import Guaranteed
from dpconvex.solvers.katyusha import Katyusha
from dpconvex.solvers.lbfgs import LBFGS
from dpconvex.solvers.newton import NewtonCholesky
from dpconvex.solvers.result import Accuracy, SolverResult
from dpconvex.solvers.smoothed import SmoothedAcceleratedGradient, SmoothedNewton
from dpconvex.solvers.stochastic_subgradient import StochasticSubgradient
from dpconvex.solvers.subgradient import Subgradient

SOLVERS: tuple[type[Solver], ...] = (
    NewtonCholesky,
    LBFGS,
    AcceleratedGradient,
    Subgradient,
    DualCoordinateAscent,
    SmoothedAcceleratedGradient,
    SmoothedNewton,
    StochasticSubgradient,
    Katyusha,
    Guaranteed,
)
"""Every solver of the library."""

__all__ = [
    "LBFGS",
    "SOLVERS",
    "AcceleratedGradient",
    "Accuracy",
    "DualCoordinateAscent",
    "Guaranteed",
    "Katyusha",
    "NewtonCholesky",
    "SmoothedAcceleratedGradient",
    "SmoothedNewton",
    "Solver",
    "SolverResult",
    "StochasticSubgradient",
    "Subgradient",
    "default_solver",
]
