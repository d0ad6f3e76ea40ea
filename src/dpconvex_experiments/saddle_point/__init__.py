"""Private saddle points and l1 geometry: rates in d, n and epsilon, accountants, sparsification, bias, SCO, queries."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.saddle_point import games, hard, methods, sampling

EXPERIMENTS: tuple[Experiment, ...] = (
    games.dimension, games.rates, games.accountant, games.tuning,
    hard.tightness, hard.boosting, hard.boosted_bound, hard.exponents, sampling.sparsification, sampling.bias_reduction,
    methods.minimization, methods.queries,
)  # fmt: skip
