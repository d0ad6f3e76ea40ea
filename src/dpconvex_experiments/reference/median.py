"""Private medians of points that users know from elsewhere, to be compared with the private geometric median."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms import recorded
from dpconvex.algorithms.location.base import LocationPlan, LocationResult, check
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold, GaussianMechanism, MedianMechanism, Planned
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity, Unit
from dpconvex.privacy.events.basic import covered_range
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource


@dataclass(frozen=True)
class _Baseline(LocationPlan[LocationResult]):
    """What the baselines share."""

    domain: PointDomain
    n: int
    privacy: PrivacyParams
    theorem: ClassVar[str]  # pyright: ignore[reportIncompatibleMethodOverride]
    constants = "calibrated"
    noise_name = "gaussian"


# The mean of points clipped to a ball, with Gaussian noise: what most people would try first. It is not robust.
#
# Guarantee
#     (epsilon, delta) for neighbours that replace one record.
# Lemma
#     The mean of n points of norm at most R has l2 sensitivity ``2 R / n``. Rounding of the sums, at most ``n 2^-53``
#     of R on either data set, is added.

MEAN = "mean"


@final
@dataclass(frozen=True)
class ClippedMeanPlan(_Baseline):
    """Constants of one noisy mean."""

    mechanism: GaussianMechanism
    algorithm: ClassVar[str] = "clipped_mean"
    theorem = "Gaussian mechanism on the mean of clipped points, exact profile (Balle and Wang 2018)"

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {MEAN: self.mechanism}

    def describe(self) -> Mapping[str, Any]:
        return {"sigma": self.mechanism.sigma}

    def _run(self, points: FloatArray, source: BitSource, ledger: Ledger) -> LocationResult:
        location = self.mechanism.release(points.mean(axis=0), MEAN, source, ledger)
        return LocationResult(location, self.certificate(source), self)


@recorded("clipped_mean")
def plan_clipped_mean(domain: PointDomain, n: int, privacy: PrivacyParams) -> ClippedMeanPlan:
    """Plan a noisy mean; it needs ``delta > 0``."""
    check(n, privacy)
    R = domain.radius_bound
    reach = _rounding.sum_up((_rounding.ratio_up(2 * R, n), _rounding.product_up(2.0**-51, n, R)))
    sensitivity = Sensitivity(reach, "l2", "the mean of n points of a ball moves by at most 2 R / n, plus rounding")
    mechanism = GaussianMechanism.calibrate(sensitivity, privacy.epsilon, privacy.delta, domain.dim)
    return ClippedMeanPlan(domain, n, privacy, mechanism)


# The median of every coordinate by the exponential mechanism: strong on symmetric data, biased on skewed ones.
#
# Guarantee
#     Pure epsilon where ``delta = 0``, else (epsilon, delta), for neighbours that replace one record.
# Lemma
#     Each coordinate's median is ``epsilon_0``-DP (`MedianMechanism`). With ``delta = 0``, ``epsilon_0 = epsilon / d``.
#     Otherwise each is charged as the Gaussian that covers it (`BoundedRange`), and ``d mu_0^2 <= mu^2``, which
#     grants each coordinate about ``1.6 mu / sqrt(d)``.

COORDINATE = "median of a coordinate"


@final
@dataclass(frozen=True)
class CoordinateMedianPlan(_Baseline):
    """Constants of d medians."""

    mechanism: MedianMechanism  #: for one coordinate
    noise_name = "exponential mechanism"
    algorithm: ClassVar[str] = "coordinate_median"
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


# Noisy gradient descent from the origin over the whole ball: what private optimisation does without a warm start.
#
# Listing (Haghifam, Steinke and Ullman 2024, plain baseline of their reference implementation)
#     ``T = n^2 rho / (128 d)`` steps (at most 1000) of size ``2 R sqrt(d / (12 rho n^2))``, projected onto the ball of
#     radius R; the average of all iterates.
# Guarantee
#     (epsilon, delta) for neighbours that replace one record: T gradients of sensitivity ``2 / n`` (`noisy_descent`).

MOST_STEPS = 1000


@final
@dataclass(frozen=True)
class OriginDescentPlan(_Baseline):
    """Constants of one descent."""

    gradients: NoisyGradients
    step: float  #: step size
    algorithm: ClassVar[str] = "origin_descent"
    theorem = "Noisy gradient descent (Bassily, Smith and Thakurta 2014), full gradients"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradients.release,)

    def describe(self) -> Mapping[str, Any]:
        return {"steps": self.gradients.times, "step": self.step}

    def exact_bits(self, source: BitSource) -> bool:
        return self.gradients.mechanism.exact_bits(source)

    def _run(self, points: FloatArray, source: BitSource, ledger: Ledger) -> LocationResult:
        origin, ball = np.zeros(self.domain.dim), self.domain.radius_bound
        location = self.gradients.descend(points, origin, ball, self.step, source, ledger)
        return LocationResult(location, self.certificate(source), self)


@recorded("origin_descent")
def plan_origin_descent(domain: PointDomain, n: int, privacy: PrivacyParams) -> OriginDescentPlan:
    """Plan a descent from the origin; it needs ``delta > 0``."""
    check(n, privacy)
    mu = largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-12)  # accountants round up; rho = mu^2 / 2
    steps = min(MOST_STEPS, max(1, round(n**2 * mu**2 / (256 * domain.dim))))
    step = 2 * domain.radius_bound * math.sqrt(domain.dim / 6) / (mu * n)
    gradients = NoisyGradients.of_mu("gradient from the origin", n, domain.dim, mu, steps)
    return OriginDescentPlan(domain, n, privacy, gradients, step)


# The earlier private radius finder (Haghifam, Steinke and Ullman 2024), from its reference implementation.
#
# Listing
#     Radii ``r 2^i`` up to 2 R; ``M = ceil(gamma n)``; the query at a radius is the mean of the M largest numbers of
#     neighbours (self included). Above-threshold with threshold ``M + (18 / epsilon) log(2 T / beta)``, noise
#     Laplace(6 / epsilon) on it and Laplace(12 / epsilon) on each query. A random radius if none passes.
# Guarantee
#     Pure epsilon for neighbours that replace one record.
# Lemma
#     Replacing a record moves other counts by at most 1 and its own by at most n: the sum of the M largest by at most
#     ``n + M``, so the query by at most ``1 + 1 / gamma``, which is at most the printed 3 for ``gamma >= 1/2``. The
#     comparison of a pair depends on that pair alone, so rounding joins nothing else.
# Cost
#     All pairs: ``n^2 d / 2`` operations, once for all radii.

RADIUS = "radius by all pairs"
MAX_RECORDS = 50_000
"""Most records: a few minutes for 50 coordinates."""
SHIFT = 18.0
PRINTED = 3.0
"""The printed sensitivity."""


@final
@dataclass(frozen=True)
class RadiusFinder:
    """Public constants of one search."""

    grid: tuple[float, ...]  #: radii, ascending
    most: int  #: M, how many of the largest counts are averaged
    mechanism: AboveThreshold

    @property
    def releases(self) -> tuple[Release, ...]:
        """One draw of the radius."""
        return (self.mechanism.planned(RADIUS),)

    def queries(self, points: FloatArray) -> FloatArray:
        """Mean of the M largest numbers of neighbours within each radius, shape (T,). Private: not for release."""
        from dpconvex_experiments.reference._pairs import neighbours

        counts = np.zeros((len(self.grid) + 1, len(points)), dtype=np.int64)
        neighbours(points, np.square(self.grid), counts)
        within = 1 + np.cumsum(counts[:-1], axis=0)
        return np.partition(within, -self.most, axis=1)[:, -self.most :].mean(axis=1)

    def find(self, points: FloatArray, source: BitSource, ledger: Ledger) -> float:
        """Release a radius for points (n, dim) of the domain; the ledger must list `releases`."""
        fallback = source.generator().integers(len(self.grid))
        index = self.mechanism.release(self.queries(points), RADIUS, source, ledger)
        return self.grid[index if index < len(self.grid) else int(fallback)]


def plan_radius_finder(
    domain: PointDomain,
    n: int,
    epsilon: float,
    *,
    gamma: float = 0.75,
    beta: float = 0.05,
    unit: Unit = Unit.RECORD,
) -> RadiusFinder:
    """Plan a pure search for a ball that holds a share `gamma` in [1/2, 1] of at most `MAX_RECORDS` points.

    `beta` is the failure probability behind the threshold's shift: 0.05 reproduces what the papers report, while one
    as small as a usual delta lifts the threshold above n for a thousand records.
    """
    if _validate.integer("n", n, at_least=1) > MAX_RECORDS:
        raise InvalidParameterError("n", n, f"must be at most {MAX_RECORDS}", "It compares all pairs of records")
    _validate.real("gamma", gamma, at_least=0.5, at_most=1.0)
    _validate.real("beta", beta, above=0.0, below=1.0)
    grid = tuple(radius for radius in domain.grid.tolist() if radius <= 2 * domain.radius_bound)
    most = math.ceil(gamma * n)
    threshold = most + SHIFT / epsilon * math.log(2 * len(grid) / beta)
    sensitivity = Sensitivity(PRINTED, "absolute", "mean of the M largest counts: 1 + n / M <= 3", unit=unit)
    return RadiusFinder(grid, most, AboveThreshold(sensitivity, epsilon, threshold, 0.5))


# The earlier private geometric median: radius finder, a warm start by halving balls, noisy gradient descent.
#
# Listing (Haghifam, Steinke and Ullman 2024; constants of their reference implementation)
#     1. ``r`` from `radius_finder`.
#     2. From 0 with ``R' = R``: ``ceil(log2(R / r))`` rounds of noisy descent inside the ball of radius R' about the
#        current point, step ``R' sqrt(2 d / (3 rho_j n^2))``, average of all iterates; then ``R' <- R' / 2 + 12 r``.
#     3. Noisy descent inside the ball of radius 25 r, step ``50 r sqrt(d / (6 rho n^2))``, average of all iterates.
# Guarantee
#     (epsilon, delta) for neighbours that replace one record.
# Lemma
#     Stage 1 is pure. Stages 2 and 3 release gradients of sensitivity ``2 / n`` (`noisy_descent`). The number of rounds
#     depends on the released radius, so the *total* number of gradients of stage 2 is fixed and shared by the rounds.
# Choices of ours
#     A tenth of epsilon for stage 1; a third of mu^2 for stage 2; 1000 gradients in stage 2, at most 1000 in stage 3
#     (they have 1000 a round, and ``n^2 rho / (256 d)``).

RADIUS_SHARE = 0.1
START_SHARE = 1 / 3
START_STEPS = 1000


@final
@dataclass(frozen=True)
class HalvingPlan(_Baseline):
    """Constants of one run."""

    finder: RadiusFinder
    warm: NoisyGradients  #: of stages 2 and 3
    fine: NoisyGradients
    warm_mu: float  #: warm_mu, fine_mu: their Gaussian budgets
    fine_mu: float
    algorithm: ClassVar[str] = "halving"
    theorem = "Radius finder, halving and noisy gradient descent (Haghifam, Steinke and Ullman 2024)"

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*self.finder.releases, self.warm.release, self.fine.release)

    def describe(self) -> Mapping[str, Any]:
        return {"warm_gradients": self.warm.times, "fine_gradients": self.fine.times}

    def exact_bits(self, source: BitSource) -> bool:
        parts = (self.finder.mechanism, self.warm.mechanism, self.fine.mechanism)
        return all(mechanism.exact_bits(source) for mechanism in parts)

    def _run(self, points: FloatArray, source: BitSource, ledger: Ledger) -> LocationResult:
        d, n = self.domain.dim, self.n
        radius = self.finder.find(points, source, ledger)  # stage 1
        z, ball = np.zeros(d), self.domain.radius_bound
        rounds = max(1, math.ceil(math.log2(max(ball / radius, 1.0))))
        for _ in range(rounds):  # stage 2; rho_j = warm_mu^2 / (2 rounds)
            step = ball * 2 * math.sqrt(d * rounds / 3) / (self.warm_mu * n)
            z = self.warm.descend(points, z, ball, step, source, ledger, steps=self.warm.times // rounds)
            ball = ball / 2 + 12 * radius
        step = 50 * radius * math.sqrt(d / 3) / (self.fine_mu * n)  # stage 3; rho = fine_mu^2 / 2
        location = self.fine.descend(points, z, 25 * radius, step, source, ledger)
        return LocationResult(location, self.certificate(source), self)


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


MEDIAN_BASELINES = {
    "coordinate_median": plan_coordinate_median,
    "clipped_mean": plan_clipped_mean,
    "halving": plan_halving,
    "origin_descent": plan_origin_descent,
}
"""Planner of each baseline: ``plan(domain, n, privacy) -> LocationPlan``."""
