"""Least squares from noisy second moments: refined by noisy gradients of cut residuals, or as published (AdaSSP)."""

from dpconvex.algorithms.erm.sufficient_statistics.adassp import AdasspPlan, plan_adaptive_ridge
from dpconvex.algorithms.erm.sufficient_statistics.plan import SufficientStatisticsPlan, plan

__all__ = ["AdasspPlan", "SufficientStatisticsPlan", "plan", "plan_adaptive_ridge"]
