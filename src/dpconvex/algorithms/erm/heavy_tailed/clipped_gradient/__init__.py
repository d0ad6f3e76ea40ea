"""Noisy gradient descent with clipped per-record gradients: the method to beat under heavy tails."""

from dpconvex.algorithms.erm.heavy_tailed.clipped_gradient.plan import ClippedGradientPlan, plan

__all__ = ["ClippedGradientPlan", "plan"]
