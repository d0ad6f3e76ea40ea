"""Noisy gradient descent with gradients clipped per record or per user, full batch or one pass (DP-GD, DP-FedAvg)."""

from dpconvex.algorithms.baselines.noisy_gradient.plan import NoisyGradientPlan
from dpconvex.algorithms.baselines.noisy_gradient.planner import plan

__all__ = ["NoisyGradientPlan", "plan"]
