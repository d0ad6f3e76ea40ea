"""The exponential mechanism over a public grid: a baseline for one or two parameters."""

from dpconvex.algorithms.baselines.exponential_mechanism.plan import ExponentialMechanismPlan, plan

__all__ = ["ExponentialMechanismPlan", "plan"]
