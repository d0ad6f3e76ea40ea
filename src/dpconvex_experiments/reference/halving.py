r"""The earlier private geometric median: search over all pairs (RadiusFinder), halving balls, noisy gradient descent.

Haghifam, Steinke and Ullman 2024, with the constants of their reference implementation. Ours: a tenth of epsilon for
stage 1; a third of mu^2 for stage 2; 1000 gradients in stage 2 and at most 1000 in stage 3 (they have 1000 a round, and
``n^2 rho / (256 d)``). All pairs cost ``n^2 d / 2`` operations, once for all radii.

Guarantee
    (epsilon, delta) for neighbors that replace one record (or user); stage 1 alone is pure.
Lemma
    Stage 1: replacing a record moves other counts by at most 1 and its own by at most n: the sum of the M largest by at
    most ``n + M``, so the query by at most ``1 + 1 / gamma``, at most the printed 3 for ``gamma >= 1/2``. Whether a
    pair is near depends on that pair alone, so rounding joins nothing else. Stages 2 and 3 release gradients of
    sensitivity ``2 / n`` (`noisy_descent`). The number of rounds depends on the released radius, so the *total* number
    of gradients of stage 2 is fixed and shared by the rounds.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import recorded
from dpconvex.algorithms.location.base import CenterFinder, FoundRadius, RadiusFinder, WarmStart
from dpconvex.algorithms.location.geometric_median import GeometricMedianPlan, fallback
from dpconvex.algorithms.location.noisy_descent import NoisyGradients, OfGradients
from dpconvex.algorithms.select import Method
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity, Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource
from dpconvex_experiments.reference.location import MOST_STEPS, check, descend, plan_constant_steps

MAX_RECORDS = 50_000  #: Largest number of records: a search takes a few minutes for 50 coordinates.
SHIFT, PRINTED = 18.0, 3.0  #: Factor in the threshold's shift; sensitivity, as printed.
FAILURE = 0.05
"""Probability behind the shift, as the papers report; a usual delta lifts the threshold above n for 1,000 records."""
RADIUS_SHARE, START_SHARE, START_STEPS = 0.1, 1 / 3, 1000
THEOREM = "Radius finder, halving and noisy gradient descent (Haghifam, Steinke and Ullman 2024)"


@final_dataclass
class PairsRadius(RadiusFinder):
    """Public constants of one search."""

    grid: tuple[float, ...]  #: radii, ascending
    most: int  #: M, how many of the largest counts are averaged
    mechanism: AboveThreshold
    label: ClassVar[str] = "radius by all pairs"

    def queries(self, points: Floats) -> Floats:
        """Mean of the M largest numbers of neighbors within each radius, shape (T,). Private: not for release."""
        from dpconvex_experiments.reference._loops import neighbors

        counts = np.zeros((len(self.grid) + 1, len(points)), dtype=np.int64)
        neighbors(points, np.square(self.grid), counts)
        return np.partition(1 + np.cumsum(counts[:-1], axis=0), -self.most, axis=1)[:, -self.most :].mean(axis=1)

    def find(self, points: Floats, source: BitSource, ledger: Ledger) -> FoundRadius:
        other = source.generator().integers(len(self.grid))
        index = self.mechanism.release(self.queries(points), self.label, source, ledger)
        found = index < len(self.grid)
        return FoundRadius(self.grid[index if found else int(other)], not found)


@final_dataclass
class HalvingCenter(OfGradients, CenterFinder):
    """Public constants of the rounds of halving."""

    domain: PointDomain
    n: int
    gradients: NoisyGradients  #: noisy gradients of all rounds
    mu: float  #: the cost of all gradients together

    def describe(self) -> Mapping[str, Any]:
        return {"warm_gradients": self.gradients.times}

    def find(self, points: Floats, radius: float, source: BitSource, ledger: Ledger) -> WarmStart:
        z, ball = np.zeros(self.domain.dim), self.domain.radius_bound
        rounds = max(1, math.ceil(math.log2(max(ball / radius, 1.0))))
        for _ in range(rounds):  # rho_j = mu^2 / (2 rounds)
            step = ball * 2 * math.sqrt(self.domain.dim * rounds / 3) / (self.mu * self.n)
            z = descend(self.gradients, points, z, ball, step, source, ledger, steps=self.gradients.times // rounds)
            ball = ball / 2 + 12 * radius
        return WarmStart(z, 25 * radius, radius)


def plan_radius(
    domain: PointDomain, n: int, epsilon: float, *, gamma: float = 0.75, unit: Unit = Unit.RECORD
) -> PairsRadius:
    """Plan a pure search for a ball that holds a share `gamma` in [1/2, 1] of at most `MAX_RECORDS` points."""
    if _validate.integer("n", n, at_least=1) > MAX_RECORDS:
        raise InvalidParameterError("n", n, f"must be at most {MAX_RECORDS}", "It compares all pairs of records")
    _validate.real("gamma", gamma, at_least=0.5, at_most=1.0)
    grid = tuple(radius for radius in domain.grid.tolist() if radius <= 2 * domain.radius_bound)
    most = math.ceil(gamma * n)
    threshold = most + SHIFT / epsilon * math.log(2 * len(grid) / FAILURE)
    sensitivity = Sensitivity(PRINTED, "absolute", "mean of the M largest counts: 1 + n / M <= 3", unit=unit)
    return PairsRadius(grid, most, AboveThreshold(sensitivity, epsilon, threshold, 0.5))


@recorded("halving")
def plan(domain: PointDomain, n: int, privacy: PrivacyParams) -> GeometricMedianPlan:
    """Plan the earlier pipeline, for ``delta > 0`` and at most `MAX_RECORDS` records."""
    check(n, privacy)
    pure, d, unit = RADIUS_SHARE * privacy.epsilon, domain.dim, privacy.unit
    mu = largest_mu(privacy.epsilon, privacy.delta, pure) * (1 - 1e-12)  # accountants round up
    warm_mu, fine_mu = math.sqrt(START_SHARE) * mu, math.sqrt(1 - START_SHARE) * mu * (1 - 1e-12)
    steps = min(MOST_STEPS, max(1, round(n**2 * fine_mu**2 / (512 * d))))
    # No round has fewer than one gradient.
    start_steps = max(START_STEPS, math.ceil(math.log2(domain.radius_bound / domain.min_radius)) + 1)
    warm = NoisyGradients.of_mu("gradient of a halving round", n, d, warm_mu, start_steps, unit)
    radius, center = plan_radius(domain, n, pure, unit=unit), HalvingCenter(domain, n, warm, warm_mu)
    booster = plan_constant_steps(n, d, fine_mu, steps=steps, step=50 * math.sqrt(d / 3) / (fine_mu * n), unit=unit)
    end = fallback(domain, False)
    return GeometricMedianPlan(domain, n, privacy, "calibrated", radius, center, booster, end, THEOREM, "halving")


METHOD = Method("halving", plan, kind="location")
