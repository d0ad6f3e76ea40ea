"""All methods for a private center of points by name, and their planner."""

from functools import partial
from typing import Any

from dpconvex import _validate
from dpconvex.algorithms.location import geometric_median
from dpconvex.algorithms.location.base import LocationPlan
from dpconvex.algorithms.select import Method, Registry
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PointDomain

_PIPELINE = ("constants", "level")
LOCATION_METHODS = Registry(
    "location",
    Method("geometric_median", geometric_median.plan, _PIPELINE),
    Method("stable_sgd", partial(geometric_median.plan, boost="stable_sgd"), _PIPELINE),
    Method("fixed_order", partial(geometric_median.plan, boost="fixed_order"), _PIPELINE),
    Method("center_only", partial(geometric_median.plan, boost="none"), _PIPELINE),
)
"""``planner(domain, n, privacy, **options) -> LocationPlan``; options: constants and level, where `takes` has them.

Methods for comparison (RadiusFinder, plain descent, clipped mean, coordinate medians) are found by entry points.
"""


def plan_location(
    domain: PointDomain, n: int, privacy: PrivacyParams, algorithm: str = "geometric_median", **options: Any
) -> LocationPlan:
    """Return the plan of one method; an option of None means the method's default. Sees no data.

    Raises `InvalidParameterError` for unknown names, for options that the method lacks, and where it does not apply.
    """
    method = LOCATION_METHODS[_validate.choice("algorithm", algorithm, tuple(LOCATION_METHODS))]
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in method.takes:
            remedy = "Leave it out, or use algorithm='geometric_median'"
            raise InvalidParameterError(name, given[name], f"is not for algorithm={algorithm!r}", remedy)
    return method.planner(domain, n, privacy, **given)
