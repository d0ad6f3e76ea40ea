"""Objective perturbation with approximate minima, for linear models."""

from dpconvex.algorithms.erm.objective_perturbation.plan import ObjectivePerturbationPlan
from dpconvex.algorithms.erm.objective_perturbation.planner import NORMS, plan

__all__ = ["NORMS", "ObjectivePerturbationPlan", "plan"]
