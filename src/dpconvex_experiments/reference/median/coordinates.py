r"""The median of every coordinate by the exponential mechanism: strong on symmetric data, biased on skewed ones.

Guarantee
    Pure epsilon where ``delta = 0``, else (epsilon, delta), for neighbours that replace one record.
Lemma
    Each coordinate's median is ``epsilon_0``-DP (`MedianMechanism`). With ``delta = 0``, ``epsilon_0 = epsilon / d``.
    Otherwise each is charged as the Gaussian that covers it (`BoundedRange`), and ``d mu_0^2 <= mu^2``, which
    grants each coordinate about ``1.6 mu / sqrt(d)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.algorithms.location.base import LocationPlan, check
from dpconvex.algorithms.recipes import recorded
from dpconvex.mechanisms import MedianMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Release
from dpconvex.privacy.events.gaussian_cover import covered_range
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.data.points import PointDomain
from dpconvex.randomness import BitSource

LABEL = "median of a coordinate"


@final
@dataclass(frozen=True)
class CoordinateMedianPlan(LocationPlan):
    """Constants of d medians."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    mechanism: MedianMechanism  # for one coordinate
    constants: str = "calibrated"
    noise_name: str = "exponential mechanism"
    algorithm: ClassVar[str] = "coordinate_median"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (replace(self.mechanism.planned(LABEL), times=self.domain.dim),)

    @property
    def theorem(self) -> str:
        return "Exponential mechanism with rank utility for every coordinate (McSherry and Talwar 2007)"

    def describe(self) -> Mapping[str, Any]:
        return {"epsilon_of_a_coordinate": self.mechanism.epsilon}

    def exact_bits(self, source: BitSource) -> bool:
        return self.mechanism.exact_bits(source)

    def _listing(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        columns = points.T  # one release a coordinate
        return np.array([self.mechanism.release(column, LABEL, source, ledger) for column in columns])


@recorded("coordinate_median")
def plan_coordinate_median(domain: PointDomain, n: int, privacy: PrivacyParams) -> CoordinateMedianPlan:
    """Plan a median for each coordinate."""
    check(n, privacy, pure=True)
    R, d = domain.radius_bound, domain.dim
    if privacy.pure:
        return CoordinateMedianPlan(
            domain, n, privacy, MedianMechanism(_rounding.ratio_down(privacy.epsilon, d), -R, R, n)
        )
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12) / math.sqrt(d)  # accountants round up
    epsilon = covered_range(mu)
    return CoordinateMedianPlan(domain, n, privacy, MedianMechanism(epsilon, -R, R, n, "gaussian"))
