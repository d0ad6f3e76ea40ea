"""Noisy gradient descent with clipped per-record gradients: the method to beat under heavy tails."""

from dpconvex.algorithms.baselines.clipped_gradient.plan import ClippedGradientPlan, plan

__all__ = ["ClippedGradientPlan", "plan"]
