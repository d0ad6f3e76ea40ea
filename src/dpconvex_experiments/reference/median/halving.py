r"""The earlier private geometric median: radius finder, a warm start by halving balls, noisy gradient descent.

Listing (Haghifam, Steinke and Ullman 2024; constants of their reference implementation)
    1. ``r`` from `radius_finder`.
    2. From 0 with ``R' = R``: ``ceil(log2(R / r))`` rounds of noisy descent inside the ball of radius R' about the
       current point, step ``R' sqrt(2 d / (3 rho_j n^2))``, average of all iterates; then ``R' <- R' / 2 + 12 r``.
    3. Noisy descent inside the ball of radius 25 r, step ``50 r sqrt(d / (6 rho n^2))``, average of all iterates.
Guarantee
    (epsilon, delta) for neighbours that replace one record.
Lemma
    Stage 1 is pure. Stages 2 and 3 release gradients of sensitivity ``2 / n`` (`noisy_descent`). The number of rounds
    depends on the released radius, so the *total* number of gradients of stage 2 is fixed and shared by the rounds.
Choices of ours
    A tenth of epsilon for stage 1; a third of mu^2 for stage 2; 1000 gradients in stage 2, at most 1000 in stage 3
    (they have 1000 a round, and ``n^2 rho / (256 d)``).
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
from dpconvex_experiments.reference.median.radius_finder import RadiusFinder, plan_radius_finder

RADIUS_SHARE = 0.1
START_SHARE = 1 / 3
START_STEPS = 1000
MOST_STEPS = 1000


@final
@dataclass(frozen=True)
class HalvingPlan(LocationPlan):
    """Constants of one run."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    finder: RadiusFinder
    warm: NoisyGradients  # of stages 2 and 3
    fine: NoisyGradients
    warm_mu: float  # warm_mu, fine_mu: their Gaussian budgets
    fine_mu: float
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    algorithm: ClassVar[str] = "halving"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.finder.releases, self.warm.release, self.fine.release)

    @property
    def theorem(self) -> str:
        return "Radius finder, halving and noisy gradient descent (Haghifam, Steinke and Ullman 2024)"

    def describe(self) -> Mapping[str, Any]:
        return {"warm_gradients": self.warm.times, "fine_gradients": self.fine.times}

    def exact_bits(self, source: BitSource) -> bool:
        parts = (self.finder.mechanism, self.warm.mechanism, self.fine.mechanism)
        return all(mechanism.exact_bits(source) for mechanism in parts)

    def _listing(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        d, n = self.domain.dim, self.n
        radius = self.finder.find(points, source, ledger)  # stage 1
        z, ball = np.zeros(d), self.domain.radius_bound
        rounds = max(1, math.ceil(math.log2(max(ball / radius, 1.0))))
        for _ in range(rounds):  # stage 2; rho_j = warm_mu^2 / (2 rounds)
            step = ball * 2 * math.sqrt(d * rounds / 3) / (self.warm_mu * n)
            z = self.warm.descend(points, z, ball, step, source, ledger, steps=self.warm.times // rounds)
            ball = ball / 2 + 12 * radius
        step = 50 * radius * math.sqrt(d / 3) / (self.fine_mu * n)  # stage 3; rho = fine_mu^2 / 2
        return self.fine.descend(points, z, 25 * radius, step, source, ledger)


@recorded("halving")
def plan_halving(domain: PointDomain, n: int, privacy: PrivacyParams) -> HalvingPlan:
    """Plan the earlier pipeline, for ``delta > 0`` and at most `radius_finder.MAX_RECORDS` records."""
    check(n, privacy)
    pure = RADIUS_SHARE * privacy.epsilon
    mu = largest_mu(privacy.epsilon, privacy.delta, pure) * (1 - 1e-12)  # accountants round up
    warm_mu, fine_mu = math.sqrt(START_SHARE) * mu, math.sqrt(1 - START_SHARE) * mu * (1 - 1e-12)
    steps = min(MOST_STEPS, max(1, round(n**2 * fine_mu**2 / (512 * domain.dim))))
    # No round has fewer than one gradient.
    start_steps = max(START_STEPS, math.ceil(math.log2(domain.radius_bound / domain.min_radius)) + 1)
    return HalvingPlan(
        domain,
        n,
        privacy,
        plan_radius_finder(domain, n, pure),
        NoisyGradients.of_mu("gradient of a halving round", n, domain.dim, warm_mu, start_steps),
        NoisyGradients.of_mu("gradient of the last descent", n, domain.dim, fine_mu, steps),
        warm_mu,
        fine_mu,
    )
