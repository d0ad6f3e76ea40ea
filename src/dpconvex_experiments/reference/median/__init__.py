"""Private medians of points that users know from elsewhere, to be compared with the private geometric median."""

from dpconvex.algorithms.location.base import LocationPlan, LocationResult
from dpconvex_experiments.reference.median.clipped_mean import ClippedMeanPlan, plan_clipped_mean
from dpconvex_experiments.reference.median.coordinates import CoordinateMedianPlan, plan_coordinate_median
from dpconvex_experiments.reference.median.halving import HalvingPlan, plan_halving
from dpconvex_experiments.reference.median.origin_descent import OriginDescentPlan, plan_origin_descent
from dpconvex_experiments.reference.median.radius_finder import RadiusFinder, plan_radius_finder

MEDIAN_BASELINES = {
    "coordinate_median": plan_coordinate_median,
    "clipped_mean": plan_clipped_mean,
    "halving": plan_halving,
    "origin_descent": plan_origin_descent,
}
"""Planner of each baseline: ``plan(domain, n, privacy) -> LocationPlan``."""

__all__ = [
    "MEDIAN_BASELINES",
    "ClippedMeanPlan",
    "CoordinateMedianPlan",
    "HalvingPlan",
    "LocationPlan",
    "LocationResult",
    "OriginDescentPlan",
    "RadiusFinder",
    "plan_clipped_mean",
    "plan_coordinate_median",
    "plan_halving",
    "plan_origin_descent",
    "plan_radius_finder",
]
