"""Private geometric median: a robust centre of points, from nothing but a crude bound on where they lie."""

from dpconvex.algorithms.location.geometric_median.booster import Booster, WarmStart
from dpconvex.algorithms.location.geometric_median.plan import (
    BOOSTS,
    GeometricMedianPlan,
    GeometricMedianResult,
    MedianStatus,
    Shares,
    plan,
)

__all__ = [
    "BOOSTS",
    "Booster",
    "GeometricMedianPlan",
    "GeometricMedianResult",
    "MedianStatus",
    "Shares",
    "WarmStart",
    "plan",
]
