"""The exponential mechanism over a public grid, with and without localisation: baselines for one or two parameters."""

from dpconvex.algorithms.baselines.exponential_mechanism.gradient_score import GradientScorePlan, plan_gradient_score
from dpconvex.algorithms.baselines.exponential_mechanism.localised import LocalisedMechanismPlan, plan_localised
from dpconvex.algorithms.baselines.exponential_mechanism.plan import ExponentialMechanismPlan, plan

__all__ = [
    "ExponentialMechanismPlan",
    "GradientScorePlan",
    "LocalisedMechanismPlan",
    "plan",
    "plan_gradient_score",
    "plan_localised",
]
