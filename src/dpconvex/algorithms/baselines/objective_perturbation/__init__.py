"""Objective perturbation with approximate minima, for linear models."""

from dpconvex.algorithms.baselines.objective_perturbation.plan import ObjectivePerturbationPlan
from dpconvex.algorithms.baselines.objective_perturbation.planner import NORMS, plan
from dpconvex.algorithms.baselines.objective_perturbation.run import run

__all__ = ["NORMS", "ObjectivePerturbationPlan", "plan", "run"]
