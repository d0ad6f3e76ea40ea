"""Public domains of data, clipped records, and the objectives that solvers minimise."""

from __future__ import annotations

from dpconvex.problems.adversarial import Attack, Lift
from dpconvex.problems.custom import ConvexFunction, RecordLoss
from dpconvex.problems.custom_attack import ConstantsAttack, attack_constants
from dpconvex.problems.custom_jax import jax_loss
from dpconvex.problems.custom_losses import LocationLoss, LogLinearDensity
from dpconvex.problems.custom_problem import CustomProblem
from dpconvex.problems.domain import Block, DataDomain
from dpconvex.problems.erm import RegularizedRisk
from dpconvex.problems.nonerm import MaxRisk, WholeObjective
from dpconvex.problems.objective import Objective
from dpconvex.problems.points import PointDomain
from dpconvex.problems.records import Records
from dpconvex.problems.saddle import SaddleLoss, ShiftedMeanLoss
from dpconvex.problems.tilted import TiltedRisk

CONVEX_FUNCTIONS: tuple[type[ConvexFunction], ...] = (LocationLoss, LogLinearDensity, MaxRisk, ShiftedMeanLoss)
"""Every ready-made convex function that is no loss of a linear model."""

__all__ = [
    "CONVEX_FUNCTIONS",
    "Attack",
    "Block",
    "ConstantsAttack",
    "ConvexFunction",
    "CustomProblem",
    "DataDomain",
    "Lift",
    "LocationLoss",
    "LogLinearDensity",
    "MaxRisk",
    "Objective",
    "PointDomain",
    "RecordLoss",
    "Records",
    "RegularizedRisk",
    "SaddleLoss",
    "ShiftedMeanLoss",
    "TiltedRisk",
    "WholeObjective",
    "attack_constants",
    "jax_loss",
]
