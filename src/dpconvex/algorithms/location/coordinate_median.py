"""The median of every coordinate by the exponential mechanism: strong on symmetric data, biased on skewed ones.

Guarantee
    Pure epsilon where ``delta = 0``, else (epsilon, delta), for neighbors that replace one record (or user).
Lemma
    Each coordinate's median is ``epsilon_0``-DP (`MedianMechanism`). With ``delta = 0``, ``epsilon_0 = epsilon / d``.
    Otherwise each is charged as the Gaussian that covers it (`BoundedRange`), and ``d mu_0^2 <= mu^2``, which grants
    each coordinate about ``1.6 mu / sqrt(d)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.algorithms import recorded
from dpconvex.algorithms.location.base import LocationResult, OneStagePlan, check
from dpconvex.mechanisms import MedianMechanism
from dpconvex.mechanisms.selection import RANK
from dpconvex.privacy import Ledger, PrivacyParams, Release
from dpconvex.privacy.events.basic import covered_range
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource

COORDINATE = "median of a coordinate"


@final
@dataclass(frozen=True)
class CoordinateMedianPlan(OneStagePlan):
    """Constants of d medians."""

    mechanism: MedianMechanism  #: for one coordinate
    algorithm: ClassVar[str] = "coordinate_median"
    noise_name = "exponential mechanism"
    theorem = "Exponential mechanism with rank utility for every coordinate (McSherry and Talwar 2007)"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (replace(self.mechanism.planned(COORDINATE), times=self.domain.dim),)

    def describe(self) -> Mapping[str, Any]:
        return {"epsilon_of_a_coordinate": self.mechanism.epsilon}

    def exact_bits(self, source: BitSource) -> bool:
        return self.mechanism.exact_bits(source)

    def _run(self, points: FloatArray, source: BitSource, ledger: Ledger) -> LocationResult:
        columns = points.T  # one release a coordinate
        location = np.array([self.mechanism.release(column, COORDINATE, source, ledger) for column in columns])
        return LocationResult(location, self.certificate(source), self)


@recorded("coordinate_median")
def plan(domain: PointDomain, n: int, privacy: PrivacyParams) -> CoordinateMedianPlan:
    """Plan a median for each coordinate."""
    check(n, privacy, pure=True)
    R, d, rank = domain.radius_bound, domain.dim, replace(RANK, unit=privacy.unit)
    if privacy.pure:
        each = MedianMechanism(_rounding.ratio_down(privacy.epsilon, d), -R, R, n, sensitivity=rank)
        return CoordinateMedianPlan(domain, n, privacy, each)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12) / math.sqrt(d)  # accountants round up
    return CoordinateMedianPlan(domain, n, privacy, MedianMechanism(covered_range(mu), -R, R, n, "gaussian", rank))
