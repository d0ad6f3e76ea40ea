"""Private algorithms by the problem that they solve; here, what all of them share."""

from dpconvex.algorithms.base import (
    ConvexPlan, LinearModelPlan, Plan, PrivateResult, StatedPlan, begin, check_average, check_relation, check_unit,
    in_units, require, require_average, require_delta, require_plain, require_runnable, uses, within_floats,
)  # fmt: skip
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import Recipe, continued, recorded, stored

__all__ = [
    "ConvexPlan", "LinearModelPlan", "Plan", "PredictedError", "PrivateResult", "Recipe", "StatedPlan", "begin",
    "check_average", "check_relation", "check_unit", "continued", "in_units", "recorded", "require", "require_average",
    "require_delta", "require_plain", "require_runnable", "stored", "uses", "within_floats",
]  # fmt: skip
