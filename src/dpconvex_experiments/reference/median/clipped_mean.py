r"""The mean of points clipped to a ball, with Gaussian noise: what most people would try first. It is not robust.

Guarantee
    (epsilon, delta) for neighbours that replace one record.
Lemma
    The mean of n points of norm at most R has l2 sensitivity ``2 R / n``. Rounding of the sums, at most ``n 2^-53`` of
    R on either data set, is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.algorithms.location.base import LocationPlan, check
from dpconvex.algorithms.recipes import recorded
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.problems.data.points import PointDomain
from dpconvex.randomness import BitSource

LABEL = "mean"


@final
@dataclass(frozen=True)
class ClippedMeanPlan(LocationPlan):
    """Constants of one noisy mean."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    mechanism: GaussianMechanism
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    algorithm: ClassVar[str] = "clipped_mean"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.mechanism.planned(LABEL),)

    @property
    def theorem(self) -> str:
        return "Gaussian mechanism on the mean of clipped points, exact profile (Balle and Wang 2018)"

    def describe(self) -> Mapping[str, Any]:
        return {"sigma": self.mechanism.sigma}

    def exact_bits(self, source: BitSource) -> bool:
        return self.mechanism.exact_bits(source)

    def _listing(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        return self.mechanism.release(points.mean(axis=0), LABEL, source, ledger)


@recorded("clipped_mean")
def plan_clipped_mean(domain: PointDomain, n: int, privacy: PrivacyParams) -> ClippedMeanPlan:
    """Plan a noisy mean; it needs ``delta > 0``."""
    check(n, privacy)
    R = domain.radius_bound
    reach = _rounding.sum_up((_rounding.ratio_up(2 * R, n), _rounding.product_up(2.0**-51, n, R)))
    sensitivity = Sensitivity(reach, "l2", "the mean of n points of a ball moves by at most 2 R / n, plus rounding")
    mechanism = GaussianMechanism.calibrate(sensitivity, privacy.epsilon, privacy.delta, domain.dim)
    return ClippedMeanPlan(domain, n, privacy, mechanism)
