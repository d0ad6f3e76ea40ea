"""Evidence for user-level privacy: rates, numbers of gradients, methods side by side, hostile and unlike users."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.user_level import crossover, rates, robustness

EXPERIMENTS: tuple[Experiment, ...] = (
    rates.rates, rates.one_pass, rates.strongly_convex, rates.gradients, crossover.crossover, robustness.robustness
)  # fmt: skip
