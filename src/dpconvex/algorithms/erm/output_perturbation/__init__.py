"""Output perturbation: solve to a certified accuracy, add noise."""

from dpconvex.algorithms.erm.output_perturbation.plan import TARGETS, OutputPerturbationPlan, plan
from dpconvex.algorithms.erm.output_perturbation.run import run

__all__ = ["TARGETS", "OutputPerturbationPlan", "plan", "run"]
