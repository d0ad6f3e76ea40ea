"""Private saddle points and l1 geometry: rates in d, n and epsilon, accountants, sparsification, bias, SCO, queries."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.saddle_point.constants import ACCOUNTANT, TUNING
from dpconvex_experiments.saddle_point.games import DIMENSION, RATES
from dpconvex_experiments.saddle_point.minimisation import SCO
from dpconvex_experiments.saddle_point.queries import QUERIES
from dpconvex_experiments.saddle_point.sampling import BIAS_REDUCTION, SPARSIFICATION

EXPERIMENTS: tuple[Experiment, ...] = (
    DIMENSION,
    RATES,
    ACCOUNTANT,
    TUNING,
    SPARSIFICATION,
    BIAS_REDUCTION,
    SCO,
    QUERIES,
)
