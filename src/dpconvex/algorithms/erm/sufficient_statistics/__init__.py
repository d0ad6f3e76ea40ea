"""Least squares from noisy second moments, refined by noisy gradients of cut residuals; as published: AdaSSP."""

from dpconvex.algorithms.erm.sufficient_statistics.plan import SufficientStatisticsPlan, plan, plan_adaptive_ridge

__all__ = ["SufficientStatisticsPlan", "plan", "plan_adaptive_ridge"]
