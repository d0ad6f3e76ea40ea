"""DP-GD: noisy gradient descent from the origin over the whole ball, what is done without a warm start.

Listing (Haghifam, Steinke and Ullman 2024, plain baseline of their reference implementation)
    ``T = n^2 rho / (128 d)`` steps (at most 1000) of size ``2 R sqrt(d / (12 rho n^2))``, projected onto the ball of
    radius R; the average of all iterates.
Guarantee
    (epsilon, delta) for neighbors that replace one record: T gradients of sensitivity ``2 / n`` (`noisy_descent`).
Error
    Gradients have length at most 1 and a minimizer lies in the ball, so the expected excess of the average is at most
    ``R^2 / (2 T eta) + eta (1 + d sigma^2) / 2`` (projected subgradient descent).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex.algorithms import PredictedError, recorded
from dpconvex.algorithms.location.base import LocationResult, OneStagePlan, Points, check
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.privacy import Ledger, PrivacyParams, Release
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource

MOST_STEPS = 1000


@final
@dataclass(frozen=True)
class OriginDescentPlan(OneStagePlan):
    """Constants of one descent."""

    gradients: NoisyGradients
    step: float  #: step size
    algorithm: ClassVar[str] = "origin_descent"
    only_sums: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride]
    theorem = "Noisy gradient descent (Bassily, Smith and Thakurta 2014), full gradients"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradients.release,)

    @property
    def predicted_error(self) -> PredictedError:
        R, squares = self.domain.radius_bound, 1 + self.domain.dim * self.gradients.mechanism.sigma**2
        bound = R**2 / (2 * self.gradients.times * self.step) + self.step * squares / 2
        return PredictedError(min(2 * R, bound), R, "projected subgradient descent, in expectation")

    def describe(self) -> Mapping[str, Any]:
        return {"steps": self.gradients.times, "step": self.step}

    def exact_bits(self, source: BitSource) -> bool:
        return self.gradients.mechanism.exact_bits(source)

    def _run(self, points: Points, source: BitSource, ledger: Ledger) -> LocationResult:
        origin, ball = np.zeros(self.domain.dim), self.domain.radius_bound
        location = self.gradients.descend(points, origin, ball, self.step, source, ledger)
        return LocationResult(location, self.certificate(source), self)


@recorded("origin_descent")
def plan(domain: PointDomain, n: int, privacy: PrivacyParams) -> OriginDescentPlan:
    """Plan a descent from the origin; it needs ``delta > 0``."""
    check(n, privacy)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12)  # accountants round up; rho = mu^2 / 2
    steps = min(MOST_STEPS, max(1, round(n**2 * mu**2 / (256 * domain.dim))))
    step = 2 * domain.radius_bound * math.sqrt(domain.dim / 6) / (mu * n)
    gradients = NoisyGradients.of_mu("gradient from the origin", n, domain.dim, mu, steps, privacy.unit)
    return OriginDescentPlan(domain, n, privacy, gradients, step)
