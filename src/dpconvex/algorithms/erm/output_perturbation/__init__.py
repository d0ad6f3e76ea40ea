"""Output perturbation: solve to a certified accuracy, add noise."""

from dpconvex.algorithms.erm.output_perturbation.plan import TARGETS, OutputPerturbationPlan, plan

__all__ = ["TARGETS", "OutputPerturbationPlan", "plan"]
