"""Validation of output perturbation: experiments E1 to E15."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.output_perturbation import comparisons, conceptual, promises, rates, variants

EXPERIMENTS: tuple[Experiment, ...] = (
    promises.sampler, promises.calibration, promises.sensitivity, promises.audit, promises.certificates,
    rates.strongly_convex, rates.convex, rates.population, variants.accuracy, variants.tilted,
    comparisons.adversarial, comparisons.baselines, comparisons.diameter, conceptual.exponential, conceptual.worst_case,
)  # fmt: skip
