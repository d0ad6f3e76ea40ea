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

import numpy as np

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.algorithms import PredictedError, recorded
from dpconvex.algorithms.location.base import LocationResult, OneStagePlan, Points, check
from dpconvex.mechanisms import GaussianMechanism, Planned
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import PointDomain
from dpconvex.problems.data import summation
from dpconvex.problems.data.sources import totals
from dpconvex.randomness import BitSource

MEAN = "mean"
LEMMA = "the mean of n points of a ball moves by at most 2 R / n, plus rounding"


@final
@dataclass(frozen=True)
class ClippedMeanPlan(OneStagePlan):
    """Constants of one noisy mean."""

    mechanism: GaussianMechanism
    algorithm: ClassVar[str] = "clipped_mean"
    only_sums: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride]
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

    def _run(self, points: Points, source: BitSource, ledger: Ledger) -> LocationResult:
        size = self.domain.radius_bound * (1 + 1e-9)
        parts = totals(points, points, lambda X, _: (_sums(X, size),))[0]
        location = self.mechanism.release(summation.vector(parts) / self.n, MEAN, source, ledger)
        return LocationResult(location, self.certificate(source), self)


def _sums(X: FloatArray, size: float) -> FloatArray:
    """Return the parts (3, dim) of the sum of some points (`summation`)."""
    panels = (X[i : i + summation.MOST_ROWS] for i in range(0, len(X), summation.MOST_ROWS))
    found = [summation.vector_parts(rows, np.ones(len(rows)), size) for rows in panels]
    return np.sum([np.zeros((3, X.shape[1])), *found], axis=0)


@recorded("clipped_mean")
def plan(domain: PointDomain, n: int, privacy: PrivacyParams) -> ClippedMeanPlan:
    """Plan a noisy mean; it needs ``delta > 0``."""
    check(n, privacy)
    R = domain.radius_bound
    reach = _rounding.sum_up((_rounding.ratio_up(2 * R, n), _rounding.product_up(2.0**-51, n, R)))
    moved = Sensitivity(reach, "l2", LEMMA, unit=privacy.unit)
    mechanism = GaussianMechanism.calibrate(moved, privacy.epsilon, privacy.delta, domain.dim)
    return ClippedMeanPlan(domain, n, privacy, mechanism)
