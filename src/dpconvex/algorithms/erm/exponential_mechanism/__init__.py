"""The exponential mechanism over a public grid, with and without localisation: baselines for one or two parameters."""

from dpconvex.algorithms.erm.exponential_mechanism.localised import LocalisedMechanismPlan, plan_localised
from dpconvex.algorithms.erm.exponential_mechanism.plan import ExponentialMechanismPlan, plan

__all__ = [
    "ExponentialMechanismPlan",
    "LocalisedMechanismPlan",
    "plan",
    "plan_localised",
]
