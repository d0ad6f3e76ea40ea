"""Validation of output perturbation: experiments E1 to E13."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.output_perturbation.e01_sampler import E1
from dpconvex_experiments.output_perturbation.e02_gaussian import E2
from dpconvex_experiments.output_perturbation.e03_sensitivity import E3
from dpconvex_experiments.output_perturbation.e04_audit import E4
from dpconvex_experiments.output_perturbation.e05_certificates import E5
from dpconvex_experiments.output_perturbation.e06_strongly_convex import E6
from dpconvex_experiments.output_perturbation.e07_convex import E7
from dpconvex_experiments.output_perturbation.e08_population import E8
from dpconvex_experiments.output_perturbation.e09_accuracy import E9
from dpconvex_experiments.output_perturbation.e10_tilted import E10
from dpconvex_experiments.output_perturbation.e11_adversarial import E11
from dpconvex_experiments.output_perturbation.e12_baselines import E12
from dpconvex_experiments.output_perturbation.e13_diameter import E13

EXPERIMENTS: tuple[Experiment, ...] = (E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11, E12, E13)
