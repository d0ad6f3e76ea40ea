"""Noisy gradient descent, gradients clipped per record or user: full batch, secret samples, one pass (DP-SGD)."""

from dpconvex.algorithms.baselines.noisy_gradient.plan import NoisyGradientPlan
from dpconvex.algorithms.baselines.noisy_gradient.planner import plan

__all__ = ["NoisyGradientPlan", "plan"]
