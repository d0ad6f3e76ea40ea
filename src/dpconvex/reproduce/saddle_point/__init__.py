"""Private saddle points and l1 geometry: rates in d, n and epsilon, accountants, sparsification, bias, SCO, queries."""

from dpconvex.reproduce.base import Experiment
from dpconvex.reproduce.saddle_point.constants import ACCOUNTANT, TUNING
from dpconvex.reproduce.saddle_point.games import DIMENSION, RATES
from dpconvex.reproduce.saddle_point.minimisation import SCO
from dpconvex.reproduce.saddle_point.queries import QUERIES
from dpconvex.reproduce.saddle_point.sampling import BIAS_REDUCTION, SPARSIFICATION

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
