"""Noisy gradient descent, gradients clipped per record or user: full batch, samples, one pass, after a look."""

from dpconvex.algorithms.erm.gradient_descent.informed import InformedPlan, plan_informed
from dpconvex.algorithms.erm.gradient_descent.plan import NoisyGradientPlan, plan

__all__ = ["InformedPlan", "NoisyGradientPlan", "plan", "plan_informed"]
