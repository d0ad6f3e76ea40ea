"""Validation of output perturbation: experiments E1 to E13."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.output_perturbation.comparisons import E11, E12, E13
from dpconvex_experiments.output_perturbation.noise import E1, E2
from dpconvex_experiments.output_perturbation.promises import E3, E4, E5
from dpconvex_experiments.output_perturbation.rates import E6, E7, E8
from dpconvex_experiments.output_perturbation.variants import E9, E10

EXPERIMENTS: tuple[Experiment, ...] = (E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12, E13)
