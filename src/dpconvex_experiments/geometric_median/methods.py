"""The methods that the accuracy experiments compare: the pipeline's variants and every baseline, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dpconvex._types import FloatArray
from dpconvex.algorithms.location import geometric_median as pipeline
from dpconvex.estimators.median import LEVEL
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments.reference.median import MEDIAN_BASELINES

Method = Callable[[FloatArray, PointDomain, PrivacyParams, BitSource], FloatArray]
"""Releases a location (d,) of points (n, d)."""


def _pipeline(boost: str, level: float = LEVEL) -> Method:
    def method(points: FloatArray, domain: PointDomain, privacy: PrivacyParams, source: BitSource) -> FloatArray:
        return pipeline.plan(domain, len(points), privacy, boost=boost, level=level).run(points, source).location

    return method


def _baseline(name: str) -> Method:
    def method(points: FloatArray, domain: PointDomain, privacy: PrivacyParams, source: BitSource) -> FloatArray:
        return MEDIAN_BASELINES[name](domain, len(points), privacy).run(points, source).location

    return method


def _exact(points: FloatArray, domain: PointDomain, privacy: PrivacyParams, source: BitSource) -> FloatArray:
    return geometric_median(points).point


METHODS: Mapping[str, Method] = {
    "private median": _pipeline("descent"),
    "private median, one pass": _pipeline("fixed_order"),
    "centre only": _pipeline("none"),
    "halving (HSU24)": _baseline("halving"),
    "descent from the origin": _baseline("origin_descent"),
    "coordinate-wise median": _baseline("coordinate_median"),
    "clipped mean": _baseline("clipped_mean"),
}
"""The first three are the library's pipeline, as the estimator has it, with different last stages."""

FAST = {name: METHODS[name] for name in METHODS if name not in ("halving (HSU24)", "descent from the origin")}
"""Without those that take thousands of gradients."""

ROBUST: Mapping[str, Method] = {
    "median, not private": _exact,
    "private median": METHODS["private median"],
    "private median, level 0.6": _pipeline("descent", 0.6),
    "private median, level 0.775": _pipeline("descent", 0.775),
    **{name: METHODS[name] for name in ("halving (HSU24)", "coordinate-wise median", "clipped mean")},
}
"""What is compared under contamination."""
