r"""Private means of user gradients, step after step on the same users: four ways to pay for a fixed number of them.

tested (Theorem B-5)
    Every step tests and releases with Gaussian noise: `GuardedGaussianNoise`, composed.
threshold (Theorem B-7, the paper's structure)
    AboveThreshold on ``-H_t`` (H the h-index of neighbour counts, of sensitivity 1), pure ``e_1`` for all steps; the
    means get Gaussian noise. Call a step bad if ``min(H, H') < s0``, so that both are at most s0. A bad step passes
    only if the threshold's noise and the query's together exceed ``theta - s0``; the union bound over the fresh query
    noises and the one threshold noise is `FailureAllowance`. On all other transcripts the density is that of
    AboveThreshold interleaved with Gaussian mechanisms, ``a_t g_t``, and ``a_t <= e^{e_1} a'_t`` is a stopping rule.
sampled (Balle, Barthe and Gaboardi 2018)
    Every step tests and releases on a fresh secret subset: `SampledSteps`. No AboveThreshold across steps: passing
    would tell about the subset (erratum E6).
clipped
    No test: vectors of length at most L have a mean of sensitivity ``2L/C``. Taken where its noise is the least.

With disjoint batches of users in turn (Lemma B-8) each batch has a guard of its own, for its share of the steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold, FailureAllowance, GaussianMechanism
from dpconvex.mechanisms.base import Planned
from dpconvex.mechanisms.robust_mean import RobustMean, h_index, kappa, plan_robust_mean
from dpconvex.mechanisms.test_and_release import counts_within, ramp
from dpconvex.privacy import Ledger, PrivacyParams, Release, SampledSteps, Sensitivity
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems.data.points import PointDomain, clip_points, weighted_mean
from dpconvex.problems.objective import ROUNDING
from dpconvex.randomness import BitSource

Mean = Callable[[FloatArray], FloatArray | None]
"""Noisy mean of vectors (count, dim); None: the test failed."""
LABEL = "mean user gradient"


class Guard(ABC):
    """Public constants of `steps` noisy means on the same units.

    Attributes
    ----------
    count : int
        Number of vectors in each mean.
    steps : int
        How many means.
    radius, clip : float
        Distance within which vectors count as close, and their largest length.
    """

    name: ClassVar[str]
    count: int
    steps: int
    radius: float
    clip: float

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Standard deviation of the noise in each coordinate of a mean."""

    @abstractmethod
    def releases(self, block: str | None) -> tuple[Release, ...]:
        """What is entered in the ledger."""

    @abstractmethod
    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        """Return the mechanism, for at most `steps` uses."""


@final
@dataclass(frozen=True)
class TestedSteps(Guard):
    """A robust mean at every step.

    Parameters
    ----------
    mean : RobustMean
    steps, radius, clip
        As in `Guard`.
    """

    mean: RobustMean
    steps: int
    radius: float
    clip: float
    name: ClassVar[str] = "tested"
    __test__: ClassVar[bool] = False

    @property
    def count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the robust mean."""
        return self.mean.count

    @property
    def deviation(self) -> float:
        """Of the robust mean."""
        return self.mean.unit_length(self.radius, self.clip) * self.mean.sigma

    def releases(self, block: str | None) -> tuple[Release, ...]:
        """One test and release a step."""
        return (replace(self.mean.planned(LABEL, block), times=self.steps),)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        """Each use records itself."""
        return lambda points: self.mean.release(points, self.radius, self.clip, LABEL, source, ledger, block)


@final
@dataclass(frozen=True)
class SampledMean(Planned):
    """All steps of a sampled guard, as the ledger sees them.

    Parameters
    ----------
    mean : RobustMean
        One step on its subset.
    event : SampledSteps
    """

    mean: RobustMean
    event: SampledSteps  # pyright: ignore[reportIncompatibleVariableOverride]
    name: ClassVar[str] = "robust mean of sampled users"

    @property
    def sensitivity(self) -> Sensitivity:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of one step."""
        return self.mean.sensitivity

    def exact_bits(self, source: BitSource) -> bool:
        """As the mean."""
        return self.mean.exact_bits(source)


@final
@dataclass(frozen=True)
class SampledGuard(Guard):
    """A robust mean of a fresh secret subset at every step; the caller draws the subset.

    Parameters
    ----------
    sampled : SampledMean
    radius, clip
        As in `Guard`.
    """

    sampled: SampledMean
    radius: float
    clip: float
    name: ClassVar[str] = "sampled"

    @property
    def count(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Size of a subset."""
        return self.sampled.mean.count

    @property
    def steps(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All of them."""
        return self.sampled.event.steps

    @property
    def deviation(self) -> float:
        """Of one step."""
        return self.sampled.mean.unit_length(self.radius, self.clip) * self.sampled.mean.sigma

    def releases(self, block: str | None) -> tuple[Release, ...]:
        """One entry for all steps."""
        return (self.sampled.planned(LABEL, block),)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        """Enter all steps at once, then use the mean that often."""
        ledger.record(self.sampled.planned(LABEL, block))
        uses = iter(range(self.steps))

        def mean(points: FloatArray) -> FloatArray | None:
            next(uses)  # no step beyond those that were paid for
            return self.sampled.mean.draw(points, self.radius, self.clip, source)

        return mean


@final
@dataclass(frozen=True)
class ThresholdGuard(Guard):
    """AboveThreshold across the steps, Gaussian noise for the means.

    Parameters
    ----------
    count, dim, steps, radius, clip
        As in `Guard`, and the dimension.
    test : AboveThreshold
        On ``-H``.
    passing, low : int
        s0 and A; the ramp ends at ``s0 - 1``.
    allowance : FailureAllowance
        For a bad step that passes.
    noise : GaussianMechanism
        Of one mean.
    """

    count: int
    dim: int
    steps: int
    radius: float
    clip: float
    test: AboveThreshold
    passing: int
    low: int
    allowance: FailureAllowance
    noise: GaussianMechanism
    name: ClassVar[str] = "threshold"

    @property
    def deviation(self) -> float:
        """Of one mean."""
        return self.noise.sigma

    def releases(self, block: str | None) -> tuple[Release, ...]:
        """The test, its allowance, the means."""
        return (
            self.test.planned("tests of all steps", block),
            self.allowance.planned("tests that pass wrongly", block),
            replace(self.noise.planned(LABEL, block), times=self.steps),
        )

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        """Open one session of the test for all steps."""
        ledger.record(self.allowance.planned("tests that pass wrongly", block))
        session = self.test.start("tests of all steps", source, ledger, block)

        def mean(points: FloatArray) -> FloatArray | None:
            near = clip_points(points, PointDomain(self.dim, self.clip, self.clip / 2))
            counts = counts_within(near, self.radius)
            if session.query(-h_index(counts)):
                return None
            weights = ramp(counts, self.low, self.passing - 1)
            return self.noise.release(weighted_mean(near, weights), LABEL, source, ledger, block)

        return mean


@final
@dataclass(frozen=True)
class ClippedSteps(Guard):
    """The plain mean of vectors cut to their largest length, with Gaussian noise.

    Parameters
    ----------
    count, steps, clip
        As in `Guard`.
    noise : GaussianMechanism
        Of one mean.
    """

    count: int
    steps: int
    clip: float
    noise: GaussianMechanism
    name: ClassVar[str] = "clipped"
    radius: ClassVar[float] = math.inf  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
    def domain(self) -> PointDomain:
        """Where the vectors are put."""
        return PointDomain(self.noise.dim, self.clip, self.clip / 2)

    @property
    def deviation(self) -> float:
        """Of one mean."""
        return self.noise.sigma

    def releases(self, block: str | None) -> tuple[Release, ...]:
        """The means."""
        return (replace(self.noise.planned(LABEL, block), times=self.steps),)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        """Each use records itself."""
        return lambda points: self.noise.release(
            clip_points(points, self.domain).mean(axis=0), LABEL, source, ledger, block
        )


def tested(
    count: int, dim: int, privacy: PrivacyParams, steps: int, radius: float, clip: float, outliers: float
) -> Guard:
    """Plan `TestedSteps`; raises `InvalidParameterError` where the test could not pass."""
    mean = plan_robust_mean(
        count, dim, privacy.epsilon, privacy.delta, releases=steps, outliers=outliers, unit=privacy.unit
    )
    return TestedSteps(mean, steps, radius, clip)


def clipped(count: int, dim: int, privacy: PrivacyParams, steps: int, clip: float) -> Guard:
    """Plan `ClippedSteps`."""
    lemma = "a mean of C vectors of length at most L changes by at most 2L/C when one is replaced, plus rounding"
    sensitivity = Sensitivity((2 * clip / count + 2 * ROUNDING * clip) * (1 + 1e-12), "l2", lemma, unit=privacy.unit)
    mu = largest_mu(privacy.epsilon, privacy.delta) / math.sqrt(steps) * (1 - 1e-12)
    return ClippedSteps(count, steps, clip, GaussianMechanism.of_mu(sensitivity, mu, dim))


def sampled(
    population: int,
    count: int,
    dim: int,
    privacy: PrivacyParams,
    steps: int,
    radius: float,
    clip: float,
    outliers: float,
) -> Guard:
    """Plan `SampledGuard`: the dearest step that fits, found by bisection on its own epsilon.

    Half of delta, as amplified, pays for tests that pass wrongly.
    """
    if privacy.delta < 1e-11:
        raise InvalidParameterError(
            "delta", privacy.delta, "must be at least 1e-11 for sampled steps", "Use all users in every step"
        )
    test = privacy.delta * population / (2 * count * steps) * (1 - 1e-9)

    def option(epsilon: float) -> tuple[RobustMean, SampledSteps] | None:
        try:
            mean = plan_robust_mean(
                count, dim, epsilon, min(test, 0.1), failure=1e-3 / steps, outliers=outliers, unit=privacy.unit
            )
        except InvalidParameterError:
            return None
        return mean, SampledSteps(population, count, steps, mean.event)

    low, high, best = privacy.epsilon / steps, 64.0 + privacy.epsilon, None
    for _ in range(18):
        middle = math.sqrt(low * high)
        found = option(middle)
        if found is None or found[1].delta(privacy.epsilon) <= privacy.delta:
            low, best = middle, found or best
        else:
            high = middle
    if best is None:
        what = f"is too small for {count} sampled users: the test could not pass"
        raise InvalidParameterError("epsilon", privacy.epsilon, what, "Use larger batches")
    return SampledGuard(SampledMean(*best), radius, clip)


def threshold(
    count: int, dim: int, privacy: PrivacyParams, steps: int, radius: float, clip: float, outliers: float
) -> Guard:
    """Plan `ThresholdGuard`: the split of epsilon with the least noise; half of delta is the allowance."""
    options = (
        _threshold(count, dim, privacy, steps, radius, clip, outliers, share) for share in np.linspace(0.1, 0.9, 17)
    )
    possible = [option for option in options if option is not None]
    if not possible:
        what = f"is too small for {count} users: the test could not pass"
        raise InvalidParameterError("epsilon", privacy.epsilon, what, "Use more users, or a larger epsilon or delta")
    return min(possible, key=lambda option: option.deviation)


def _threshold(
    count: int,
    dim: int,
    privacy: PrivacyParams,
    steps: int,
    radius: float,
    clip: float,
    outliers: float,
    share: float,
) -> ThresholdGuard | None:
    pure, wrong, unit = share * privacy.epsilon, privacy.delta / 2, privacy.unit
    score = Sensitivity(1.0, "absolute", "one user changes the h-index of neighbour counts by at most 1", unit=unit)
    scales = AboveThreshold(score, pure, 0.0)
    # A hundredth of a thousandth more than the tails need: the samplers are discrete, on a grid finer than that.
    margin = _tails(scales, steps, wrong) * (1 + 1e-5)
    passing = math.floor(count * (1 - outliers) - margin - _tails(scales, steps, FALSE_ALARM))
    lows = np.arange((count + 1) // 2, passing - 1)
    if not len(lows):
        return None
    reaches = kappa(count, passing, lows.astype(float), np.full(len(lows), passing - 1.0))
    at = int(np.argmin(reaches))
    # Rounding of distances and of the mean, as `GuardedMean.unit_length` has it.
    length = (float(reaches[at]) * radius * (1 + 2 * (dim + 8) * 2.0**-52) + 2.0**-49 * clip) * (1 + 1e-12)
    lemma = "robust mean, Lemma 2 (h-index): kappa times the radius if both h-indices reach s0"
    mu = largest_mu(privacy.epsilon - pure, privacy.delta - wrong) / math.sqrt(steps) * (1 - 1e-9)
    allowance = FailureAllowance(wrong * (1 - 1e-9), "noises of threshold and queries exceed theta - s0", unit)
    test = AboveThreshold(score, pure * (1 - 1e-12), -(passing + margin))
    noise = GaussianMechanism.of_mu(Sensitivity(length, "l2", lemma, unit=unit), mu, dim)
    return ThresholdGuard(count, dim, steps, radius, clip, test, passing, int(lows[at]), allowance, noise)


def _tails(test: AboveThreshold, steps: int, probability: float) -> float:
    """Margin that the noises of the threshold and of any of the queries exceed together with that probability."""
    return test.threshold_scale * math.log(1 / probability) + test.query_scale * math.log(steps / probability)


FALSE_ALARM = 1e-3
"""Probability that any test fails although all users are alike; privacy does not depend on it."""
