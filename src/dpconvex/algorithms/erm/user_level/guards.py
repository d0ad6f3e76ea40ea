r"""Private means of user gradients at a fixed number of steps on the same users: four mechanisms (guards).

`TestedSteps` (Theorem B-5)
    Every step tests and releases with Gaussian noise: `GuardedGaussianNoise`, composed.
`ThresholdGuard` (Theorem B-7, the paper's structure)
    AboveThreshold on ``-H_t`` (H the h-index of neighbor counts, of sensitivity 1), pure ``e_1`` for all steps; the
    means get Gaussian noise. A step with ``min(H, H') < s0`` passes only if the threshold's noise and the query's
    together exceed ``theta - s0``: `FailureAllowance` (docs, User gradients, Theorem 1).
`SampledGuard` (Balle, Barthe and Gaboardi 2018)
    Every step tests and releases on a fresh secret subset: `SampledSteps`. No AboveThreshold across steps: passing
    would tell about the subset (erratum E6).
`ClippedSteps`
    No test: vectors of length at most L have a mean of sensitivity ``2L/C``. Taken where its noise is the least.

With disjoint batches of users in turn (Lemma B-8) each batch has a guard of its own, for its share of the steps.
Cohorts (`mechanisms.cohorts`) are drawn anew by coins at every step. AboveThreshold asks for the smallest excess of
``H_g`` over ``s_g``: it moves by at most 1 when one user is replaced, and a step is bad if it is negative on either
side, so that on both it is at most 0.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpconvex import mechanisms
from dpconvex._types import REQUIRED, Floats, final_dataclass, forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.cohorts import SUM_LEMMA
from dpconvex.mechanisms.robust_mean import best_ramp, budget
from dpconvex.privacy import Ledger, PrivacyParams, Release, SampledSteps, Sensitivity
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.problems.base import ROUNDING
from dpconvex.problems.data.points import clip_points, weighted_mean
from dpconvex.randomness import BitSource

Mean = Callable[[Floats], Floats | None]  #: Noisy mean of vectors (count, dim); None: the test failed.
MEAN, TESTS, WRONG = "mean user gradient", "tests of all steps", "tests that pass wrongly"  #: Labels of the releases.
FALSE_ALARM = 1e-3  #: Probability that any test fails although all users are alike; privacy does not depend on it.


@dataclass(frozen=True)
class Guard(ABC):
    """Public constants of a fixed number of noisy means on the same units."""

    count: int  #: Number of vectors in each mean
    steps: int  #: Number of means that the budget covers
    radius: float  #: Distance within which vectors count as close; infinite: no test
    clip: float  #: Length to which vectors are cut
    name: ClassVar[str]
    #: Mean squared change of a mean by users who are left out although all users are alike
    scatter: ClassVar[float] = 0.0
    deviation: ClassVar[float] = REQUIRED  #: Standard deviation of the noise in each coordinate of a mean.

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants of the test."""
        return {}

    @abstractmethod
    def releases(self, block: str | None) -> tuple[Release, ...]:
        """Return the releases that are entered in the ledger."""

    @abstractmethod
    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        """Return the mechanism, for at most `steps` uses."""


@dataclass(frozen=True)
class TestedSteps(Guard):
    """A robust mean at every step, of all vectors or of cohorts, each with a ledger entry of its own."""

    mean: mechanisms.GuardedMean
    name: ClassVar[str] = "tested"
    describe = forwarded("mean", "describe")
    __test__: ClassVar[bool] = False

    @property
    def deviation(self) -> float:
        return self.mean.unit_length(self.radius, self.clip) * self.mean.sigma * self.mean.noise_factor

    @property
    def scatter(self) -> float:
        return self.mean.missed * self.radius**2 / (2 * self.count)  # vectors within the radius of one another

    def releases(self, block: str | None) -> tuple[Release, ...]:
        return (replace(self.mean.planned(MEAN, block), times=self.steps),)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        return lambda points: self.mean.release(points, self.radius, self.clip, MEAN, source, ledger, block)


@final_dataclass
class SampledGuard(TestedSteps):
    """A robust mean of a fresh secret subset at every step, one ledger entry for all; the caller draws the subsets."""

    event: SampledSteps
    name: ClassVar[str] = "sampled"

    def releases(self, block: str | None) -> tuple[Release, ...]:
        # The event covers all steps: tests are amplified together with their release, or not at all (E6).
        return (Release(MEAN, "robust mean of sampled users", self.event, self.mean.sensitivity, block),)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        ledger.record(self.releases(block)[0])
        uses = iter(range(self.steps))

        def mean(points: Floats) -> Floats | None:
            next(uses)  # no step beyond those that the budget covers
            return self.mean.draw(points, self.radius, self.clip, source)

        return mean


@dataclass(frozen=True)
class ClippedSteps(Guard):
    """The plain mean of vectors cut to their largest length, with Gaussian noise."""

    noise: mechanisms.GaussianMechanism  #: the noise of one mean
    name: ClassVar[str] = "clipped"
    deviation = forwarded("noise", "sigma")

    def cut(self, points: Floats) -> Floats:
        """Return the vectors (count, dim), each cut to length `clip`."""
        return clip_points(points, PointDomain(self.noise.dim, self.clip, self.clip / 2))

    def releases(self, block: str | None) -> tuple[Release, ...]:
        return (replace(self.noise.planned(MEAN, block), times=self.steps),)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        each = np.ones(self.count)  # a plain sum of many vectors rounds by more than `ROUNDING`
        return lambda points: self.noise.release(weighted_mean(self.cut(points), each), MEAN, source, ledger, block)


@final_dataclass
class ThresholdGuard(ClippedSteps):
    """AboveThreshold across the steps, Gaussian noise for the means."""

    test: mechanisms.AboveThreshold  #: the test of minus the smallest excess of an h-index
    cohorts: mechanisms.Cohorts
    allowance: mechanisms.FailureAllowance  #: the part of delta for a bad step that passes
    name: ClassVar[str] = "threshold"

    def describe(self) -> Mapping[str, Any]:
        return {**self.cohorts.describe(), "threshold": -self.test.threshold}

    def releases(self, block: str | None) -> tuple[Release, ...]:
        return self.test.planned(TESTS, block), self.allowance.planned(WRONG, block), *super().releases(block)

    def start(self, source: BitSource, ledger: Ledger, block: str | None) -> Mean:
        ledger.record(self.allowance.planned(WRONG, block))
        session = self.test.start(TESTS, source, ledger, block)  # one threshold for all steps (erratum E3)

        def mean(points: Floats) -> Floats | None:
            excesses, means = self.cohorts.examine(self.cut(points), self.radius, source)
            if session.query(-excesses.min()):
                return None
            total = self.cohorts.total(means, np.ones(len(means), dtype=bool))
            return self.noise.release(total, MEAN, source, ledger, block)

        return mean


def tested(
    count: int, cohorts: int, dim: int, privacy: PrivacyParams, steps: int, radius: float, clip: float, outliers: float
) -> Guard:
    """Plan `TestedSteps`; raises `InvalidParameterError` where the test could not pass."""
    mu, wrong = budget(privacy.epsilon, privacy.delta, steps)
    failure, unit = FALSE_ALARM / steps, privacy.unit
    mean = mechanisms.plan_cohorts(count, cohorts, dim, mu, wrong, failure=failure, outliers=outliers, unit=unit)
    if mean is None:
        raise _too_few(count, cohorts, privacy)
    return TestedSteps(count, steps, radius, clip, mean)


def clipped(count: int, dim: int, privacy: PrivacyParams, steps: int, clip: float) -> Guard:
    """Plan `ClippedSteps`."""
    lemma = "a mean of C vectors of length at most L changes by at most 2L/C when one is replaced, plus rounding"
    sensitivity = Sensitivity((2 * clip / count + 2 * ROUNDING * clip) * (1 + 1e-12), "l2", lemma, unit=privacy.unit)
    mu = largest_mu(privacy.epsilon, privacy.delta) / math.sqrt(steps) * (1 - 1e-12)
    return ClippedSteps(count, steps, math.inf, clip, mechanisms.GaussianMechanism.of_mu(sensitivity, mu, dim))


def sampled(
    population: int, count: int, cohorts: int, dim: int, privacy: PrivacyParams,
    steps: int, radius: float, clip: float, outliers: float,
) -> Guard:  # fmt: skip
    """Plan `SampledGuard` with the least noise that the budget allows; half of delta is for tests that pass wrongly."""
    if privacy.delta < 1e-11:
        what = "must be at least 1e-11 for sampled steps"
        raise InvalidParameterError("delta", privacy.delta, what, "Use all users in every step")
    test = privacy.delta * population / (2 * count * steps) * (1 - 1e-9)

    def option(epsilon: float) -> tuple[mechanisms.GuardedMean, SampledSteps] | None:
        mu, wrong = budget(epsilon, min(test, 0.1))
        failure, unit = FALSE_ALARM / steps, privacy.unit
        mean = mechanisms.plan_cohorts(count, cohorts, dim, mu, wrong, failure=failure, outliers=outliers, unit=unit)
        return None if mean is None else (mean, SampledSteps(population, count, steps, mean.event))

    low, high, best = privacy.epsilon / steps, 64.0 + privacy.epsilon, None
    for _ in range(18):
        middle = math.sqrt(low * high)
        found = option(middle)
        if found is None or found[1].delta(privacy.epsilon) <= privacy.delta:
            low, best = middle, found or best
        else:
            high = middle
    if best is None:
        raise _too_few(count, cohorts, privacy)
    return SampledGuard(count, steps, radius, clip, *best)


def threshold(
    count: int, cohorts: int, dim: int, privacy: PrivacyParams, steps: int, radius: float, clip: float, outliers: float
) -> Guard:
    """Plan `ThresholdGuard`: the split of epsilon with the least noise; half of delta is the allowance."""
    wrong, unit, size = privacy.delta / 2, privacy.unit, count // cohorts
    score = Sensitivity(1.0, "absolute", "one user changes the h-index of one cohort by at most 1", unit=unit)
    allowance = mechanisms.FailureAllowance(wrong * (1 - 1e-9), "noises exceed their margin", unit)
    share = mechanisms.crowded(size, outliers, FALSE_ALARM / (steps * cohorts)) if cohorts > 1 else outliers

    def option(part: float) -> ThresholdGuard | None:
        pure = part * privacy.epsilon
        scales = mechanisms.AboveThreshold(score, pure, 0.0)
        # The margin exceeds the tails by 1e-5: the samplers are discrete, on a grid finer than that.
        margin = _tails(scales, steps, wrong) * (1 + 1e-5)
        passing = math.floor(size * (1 - share) - margin - _tails(scales, steps, FALSE_ALARM))  # s0
        if best_ramp(size, passing) is None:
            return None
        found = mechanisms.Cohorts(count, cohorts, mechanisms.cohort_ramps(count, cohorts, passing))
        # The rounding of distances and of the mean is that of `GuardedMean.unit_length`.
        length = (found.reach * radius * (1 + 2 * (dim + 8) * 2.0**-52) + 2.0**-49 * clip) * (1 + 1e-12)
        mu = largest_mu(privacy.epsilon - pure, privacy.delta - wrong) / math.sqrt(steps) * (1 - 1e-9)
        test = mechanisms.AboveThreshold(score, pure * (1 - 1e-12), -margin)
        noise = mechanisms.GaussianMechanism.of_mu(Sensitivity(length, "l2", SUM_LEMMA, unit=unit), mu, dim)
        return ThresholdGuard(count, steps, radius, clip, noise, test, found, allowance)

    possible = [found for found in map(option, np.linspace(0.1, 0.9, 17)) if found is not None]
    if not possible:
        raise _too_few(count, cohorts, privacy)
    return min(possible, key=lambda guard: guard.deviation)


def _too_few(count: int, cohorts: int, privacy: PrivacyParams) -> InvalidParameterError:
    where = f"{count} users" + (f" in {cohorts} cohorts" if cohorts > 1 else "")
    what = f"is too small for {where}: the test could not pass"
    return InvalidParameterError("epsilon", privacy.epsilon, what, "Use more users, or a larger epsilon or delta")


def _tails(test: mechanisms.AboveThreshold, steps: int, probability: float) -> float:
    """Return the margin that threshold noise plus any query's noise exceeds with the given probability."""
    return test.threshold_scale * math.log(1 / probability) + test.query_scale * math.log(steps / probability)
