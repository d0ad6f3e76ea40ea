"""Evidence for user-level privacy: rates, numbers of gradients, methods side by side, hostile and unlike users."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.user_level import crossover, gradients, rates, robustness

EXPERIMENTS: tuple[Experiment, ...] = (rates.rates, gradients.gradients, crossover.crossover, robustness.robustness)
