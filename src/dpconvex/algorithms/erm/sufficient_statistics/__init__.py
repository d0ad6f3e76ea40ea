"""Least squares from noisy second moments: refined by noisy gradients of cut residuals, or as published (AdaSSP)."""

from dpconvex.algorithms.erm.sufficient_statistics.adassp import AdaptiveRidgePlan, plan_adaptive_ridge
from dpconvex.algorithms.erm.sufficient_statistics.plan import SufficientStatisticsPlan, plan

__all__ = ["AdaptiveRidgePlan", "SufficientStatisticsPlan", "plan", "plan_adaptive_ridge"]
