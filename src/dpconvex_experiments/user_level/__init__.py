"""Evidence for user-level privacy: rates, numbers of gradients, methods side by side, hostile and unlike users."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.user_level.crossover import CROSSOVER
from dpconvex_experiments.user_level.gradients import GRADIENTS
from dpconvex_experiments.user_level.rates import RATES
from dpconvex_experiments.user_level.robustness import ROBUSTNESS

EXPERIMENTS: tuple[Experiment, ...] = (RATES, GRADIENTS, CROSSOVER, ROBUSTNESS)
