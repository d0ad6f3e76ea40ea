"""Public domains of data, clipped records, and the objectives that solvers minimize."""

from dpconvex.problems.base import Objective
from dpconvex.problems.custom.functions import ConvexFunction, LocationLoss, RecordLoss, WholeObjective
from dpconvex.problems.custom.jax import jax_loss
from dpconvex.problems.custom.problem import CustomProblem
from dpconvex.problems.data.domain import Block, DataDomain
from dpconvex.problems.data.factor import Factor
from dpconvex.problems.data.points import PointDomain
from dpconvex.problems.data.ranges import NumberRange
from dpconvex.problems.data.records import Records
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.adversarial import Attack, Lift
from dpconvex.problems.linear.objective import RegularizedRisk, TiltedRisk
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.minimax.adversarial import SaddleLoss
from dpconvex.problems.minimax.base import SimplexPoint, SimplexSaddle
from dpconvex.problems.minimax.games import (
    DualityGap, MatrixGame, PlayLog, PolytopeSaddle, RankOneGame, duality_gap, jax_saddle,
)  # fmt: skip
from dpconvex.problems.minimax.group_loss import WorstGroupLoss, l1_ball_loss, single_group

CONVEX_FUNCTIONS: tuple[type[ConvexFunction], ...] = (LocationLoss,)
"""Every ready-made convex function that is no loss of a linear model."""

__all__ = [
    "CONVEX_FUNCTIONS", "Attack", "Block", "ConvexFunction", "CustomProblem", "DataDomain", "DualityGap", "Factor",
    "Lift", "LinearModelProblem", "LocationLoss", "MatrixGame", "NumberRange", "Objective", "PlayLog",
    "PointDomain", "PolytopeSaddle", "RankOneGame", "RecordLoss", "Records", "RegularizedRisk", "SaddleLoss",
    "SimplexPoint", "SimplexSaddle", "TiltedRisk", "UserGroups", "WholeObjective", "WorstGroupLoss", "duality_gap",
    "jax_loss", "jax_saddle", "l1_ball_loss", "single_group",
]  # fmt: skip
