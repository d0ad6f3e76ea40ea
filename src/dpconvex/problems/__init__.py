"""Public domains of data, clipped records, and the objectives that solvers minimise."""

from __future__ import annotations

from dpconvex.problems.adversarial import Attack, Lift
from dpconvex.problems.custom import ConvexFunction, RecordLoss
from dpconvex.problems.custom_attack import ConstantsAttack, attack_constants
from dpconvex.problems.custom_jax import jax_loss
from dpconvex.problems.custom_losses import LocationLoss, LogLinearDensity
from dpconvex.problems.custom_problem import CustomProblem
from dpconvex.problems.domain import Block, DataDomain
from dpconvex.problems.duality_gap import DualityGap, duality_gap
from dpconvex.problems.erm import RegularizedRisk
from dpconvex.problems.lifted import PolytopeSaddle, jax_saddle, l1_ball_vertices
from dpconvex.problems.matrix_games import MatrixGame, PlayLog, QuadraticGame, RankOneGame
from dpconvex.problems.nonerm import MaxRisk, WholeObjective
from dpconvex.problems.objective import Objective
from dpconvex.problems.points import PointDomain
from dpconvex.problems.records import Records
from dpconvex.problems.saddle import SaddleLoss, ShiftedMeanLoss
from dpconvex.problems.simplex_saddle import SimplexPoint, SimplexSaddle
from dpconvex.problems.tilted import TiltedRisk
from dpconvex.problems.worst_loss import WorstGroupLoss, l1_ball_loss, single_group

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
    "DualityGap",
    "Lift",
    "LocationLoss",
    "LogLinearDensity",
    "MatrixGame",
    "MaxRisk",
    "Objective",
    "PlayLog",
    "PointDomain",
    "PolytopeSaddle",
    "QuadraticGame",
    "RankOneGame",
    "RecordLoss",
    "Records",
    "RegularizedRisk",
    "SaddleLoss",
    "ShiftedMeanLoss",
    "SimplexPoint",
    "SimplexSaddle",
    "TiltedRisk",
    "WholeObjective",
    "WorstGroupLoss",
    "attack_constants",
    "duality_gap",
    "jax_loss",
    "jax_saddle",
    "l1_ball_loss",
    "l1_ball_vertices",
    "single_group",
]
