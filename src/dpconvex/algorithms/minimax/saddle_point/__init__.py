"""Private stochastic saddle points over simplices (Gonzalez, Guzman and Paquette 2024)."""

from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult, batch_sizes, batch_slices
from dpconvex.algorithms.minimax.saddle_point.plan import VertexDescentPlan, plan

__all__ = ["SaddlePlan", "SaddleResult", "VertexDescentPlan", "batch_sizes", "batch_slices", "plan"]
