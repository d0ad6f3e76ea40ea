"""Private Frank-Wolfe over a simplex or polytope: full batch, and one pass with variance reduction."""

from dpconvex.algorithms.minimax.frank_wolfe.full_batch import FrankWolfePlan, plan
from dpconvex.algorithms.minimax.frank_wolfe.variance_reduced import VarianceReducedPlan, plan_variance_reduced

__all__ = ["FrankWolfePlan", "VarianceReducedPlan", "plan", "plan_variance_reduced"]
