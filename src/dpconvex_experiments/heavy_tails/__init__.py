"""Evidence for heavy tails: rates, methods side by side, the lower bound, and from which n a bound says anything."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.heavy_tails import audit, constants, lower_bound, methods, rates, stages

EXPERIMENTS: tuple[Experiment, ...] = (
    rates.rates,
    stages.stages,
    methods.comparison,
    lower_bound.lower_bound,
    constants.constants,
    audit.audit,
)
