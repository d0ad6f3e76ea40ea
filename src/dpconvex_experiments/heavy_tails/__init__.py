"""Evidence for heavy tails: rates, methods side by side, the lower bound, and from which n a bound says anything."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.heavy_tails.audit import AUDIT
from dpconvex_experiments.heavy_tails.constants import CONSTANTS
from dpconvex_experiments.heavy_tails.lower_bound import LOWER_BOUND
from dpconvex_experiments.heavy_tails.methods import COMPARISON
from dpconvex_experiments.heavy_tails.rates import RATES
from dpconvex_experiments.heavy_tails.stages import STAGES

EXPERIMENTS: tuple[Experiment, ...] = (RATES, STAGES, COMPARISON, LOWER_BOUND, CONSTANTS, AUDIT)
