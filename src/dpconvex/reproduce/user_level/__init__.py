"""Evidence for user-level privacy: rates, numbers of gradients, methods side by side, hostile and unlike users."""

from dpconvex.reproduce.base import Experiment
from dpconvex.reproduce.user_level.crossover import CROSSOVER
from dpconvex.reproduce.user_level.gradients import GRADIENTS
from dpconvex.reproduce.user_level.rates import RATES
from dpconvex.reproduce.user_level.robustness import ROBUSTNESS

EXPERIMENTS: tuple[Experiment, ...] = (RATES, GRADIENTS, CROSSOVER, ROBUSTNESS)
