"""The mean of points clipped to a ball, with Gaussian noise: what most people would try first. It is not robust.

Guarantee
    (epsilon, delta) for neighbors that replace one record (or user, of one point).
Lemma
    The mean of n points of norm at most R has l2 sensitivity ``2 R / n``. Rounding of the sums, at most ``n 2^-53``
    of R on either data set, is added.
Error
    The mean is at most ``f(median)`` from the median, so it loses at most R on the objective; noise adds its length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.algorithms import PredictedError, recorded
from dpconvex.algorithms.location.base import LocationResult, OneStagePlan, check
from dpconvex.mechanisms import GaussianMechanism, Planned
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource

MEAN = "mean"
LEMMA = "the mean of n points of a ball moves by at most 2 R / n, plus rounding"


@final
@dataclass(frozen=True)
class ClippedMeanPlan(OneStagePlan):
    """Constants of one noisy mean."""

    mechanism: GaussianMechanism
    algorithm: ClassVar[str] = "clipped_mean"
    theorem = "Gaussian mechanism on the mean of clipped points, exact profile (Balle and Wang 2018)"

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {MEAN: self.mechanism}

    @property
    def predicted_error(self) -> PredictedError:
        R, noise = self.domain.radius_bound, self.mechanism.sigma * math.sqrt(self.domain.dim)
        return PredictedError(min(2 * R, R + noise), R, "the mean loses at most R, and noise its root mean square")

    def describe(self) -> Mapping[str, Any]:
        return {"sigma": self.mechanism.sigma}

    def _run(self, points: FloatArray, source: BitSource, ledger: Ledger) -> LocationResult:
        location = self.mechanism.release(points.mean(axis=0), MEAN, source, ledger)
        return LocationResult(location, self.certificate(source), self)


@recorded("clipped_mean")
def plan(domain: PointDomain, n: int, privacy: PrivacyParams) -> ClippedMeanPlan:
    """Plan a noisy mean; it needs ``delta > 0``."""
    check(n, privacy)
    R = domain.radius_bound
    reach = _rounding.sum_up((_rounding.ratio_up(2 * R, n), _rounding.product_up(2.0**-51, n, R)))
    moved = Sensitivity(reach, "l2", LEMMA, unit=privacy.unit)
    mechanism = GaussianMechanism.calibrate(moved, privacy.epsilon, privacy.delta, domain.dim)
    return ClippedMeanPlan(domain, n, privacy, mechanism)
