"""Noisy gradient descent, gradients clipped per record or user: full batch, secret samples, one pass (DP-SGD)."""

from dpconvex.algorithms.erm.gradient_descent.plan import NoisyGradientPlan
from dpconvex.algorithms.erm.gradient_descent.planner import plan

__all__ = ["NoisyGradientPlan", "plan"]
