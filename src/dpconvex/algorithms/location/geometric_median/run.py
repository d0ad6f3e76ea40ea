"""The private geometric median, stage by stage. Constants, lemmas and symbols: `plan.py` and the stages' files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.algorithms.location.geometric_median.plan import GeometricMedianResult, MedianStatus
from dpconvex.privacy import Ledger
from dpconvex.problems.data.points import clip_points
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.location.geometric_median.plan import GeometricMedianPlan


def run(plan: GeometricMedianPlan, X: AnyArray, source: BitSource) -> GeometricMedianResult:
    """Release radius, centre and geometric median.

    Parameters
    ----------
    plan : GeometricMedianPlan
        Public constants.
    X : array of shape (n, dim)
        Points, sanitised here.
    source : BitSource
        Where noise and coins come from.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    points = clip_points(X, plan.domain)  # stage 0: records of the public domain
    found = plan.radius_stage.find(points, source, ledger)  # stage 1: Algorithm 2, FastRadius
    start = plan.centre_stage.find(points, found.radius, source, ledger)  # stage 2: Algorithm 3, FastCenter
    status = MedianStatus.RADIUS_AT_TOP if found.at_top else MedianStatus.OK
    if start is None:
        start, status = plan.fallback, MedianStatus.CENTER_FAILED
    location = start.centre
    if plan.booster is not None and start.ball > 0:  # stage 3: Algorithm 4, or descent
        location = plan.booster.refine(points, start, source, ledger)
    R = plan.domain.radius_bound
    location = location * min(1.0, R / max(float(np.linalg.norm(location)), R))  # post-processing: the domain is public
    return GeometricMedianResult(location, found.radius, start.centre, status, plan.certificate(source), plan)
