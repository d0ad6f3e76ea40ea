r"""Noisy gradient descent from the origin over the whole ball: what private optimisation does without a warm start.

Listing (Haghifam, Steinke and Ullman 2024, plain baseline of their reference implementation)
    ``T = n^2 rho / (128 d)`` steps (at most 1000) of size ``2 R sqrt(d / (12 rho n^2))``, projected onto the ball of
    radius R; the average of all iterates.
Guarantee
    (epsilon, delta) for neighbours that replace one record: T gradients of sensitivity ``2 / n`` (`noisy_descent`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.location.base import LocationPlan, check
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.algorithms.recipes import recorded
from dpconvex.privacy import Ledger, PrivacyParams, Release
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.data.points import PointDomain
from dpconvex.randomness import BitSource

MOST_STEPS = 1000


@final
@dataclass(frozen=True)
class OriginDescentPlan(LocationPlan):
    """Constants of one descent."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    gradients: NoisyGradients
    step: float  # step size
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    algorithm: ClassVar[str] = "origin_descent"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradients.release,)

    @property
    def theorem(self) -> str:
        return "Noisy gradient descent (Bassily, Smith and Thakurta 2014), full gradients"

    def describe(self) -> Mapping[str, Any]:
        return {"steps": self.gradients.times, "step": self.step}

    def exact_bits(self, source: BitSource) -> bool:
        return self.gradients.mechanism.exact_bits(source)

    def _listing(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        origin, ball = np.zeros(self.domain.dim), self.domain.radius_bound
        return self.gradients.descend(points, origin, ball, self.step, source, ledger)


@recorded("origin_descent")
def plan_origin_descent(domain: PointDomain, n: int, privacy: PrivacyParams) -> OriginDescentPlan:
    """Plan a descent from the origin; it needs ``delta > 0``."""
    check(n, privacy)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12)  # accountants round up; rho = mu^2 / 2
    steps = min(MOST_STEPS, max(1, round(n**2 * mu**2 / (256 * domain.dim))))
    step = 2 * domain.radius_bound * math.sqrt(domain.dim / 6) / (mu * n)
    gradients = NoisyGradients.of_mu("gradient from the origin", n, domain.dim, mu, steps)
    return OriginDescentPlan(domain, n, privacy, gradients, step)
