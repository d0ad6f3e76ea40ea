"""Evidence for heavy tails: rates, methods side by side, the lower bound, and from which n a bound says anything."""

from dpconvex_experiments.base import Experiment
from dpconvex_experiments.heavy_tails import audit, lower_bound, mechanisms, methods, parameter_free, rates, surrogates

EXPERIMENTS: tuple[Experiment, ...] = (
    rates.rates, rates.stages, methods.comparison, mechanisms.mechanisms,
    lower_bound.lower_bound, lower_bound.constants, parameter_free.parameter_free, audit.audit, surrogates.surrogates,
)  # fmt: skip
