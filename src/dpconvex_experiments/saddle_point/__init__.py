"""Private saddle points and l1 geometry: rates in d, n and epsilon, accountants, sparsification, bias, SCO, queries."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.saddle_point import constants, games, minimisation, queries, sampling

EXPERIMENTS: tuple[Experiment, ...] = (
    games.dimension,
    games.rates,
    constants.accountant,
    constants.tuning,
    sampling.sparsification,
    sampling.bias_reduction,
    minimisation.minimization,
    queries.queries,
)
