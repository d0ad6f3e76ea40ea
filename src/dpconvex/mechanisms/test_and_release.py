r"""Means of points that are released only if a noisy test finds most points close together: what all of them share.

The test makes the sensitivity of the mean proportional to a public radius instead of the diameter of the domain.
Points are one for each unit (a user, or a group of users that holds one unit's records only).

Rounding
    Displacements are clipped to a public radius r, one by one: without it the rounding of sums could exceed the noise.
    A squared distance is a function of its two points alone, and is compared once for both; it errs by a factor
    ``1 +- (d + 8) 2^-52``. The mean errs by `WEIGHTED_MEAN_ROUNDING` times r on either data set. Both are in `unit`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, final

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.errors import InvalidDataError
from dpconvex.mechanisms.base import Mechanism, Planned, exact_as_source
from dpconvex.mechanisms.gaussian import GaussianMechanism, add_gaussian
from dpconvex.privacy import GuardedGaussianNoise, Ledger, Sensitivity, Unit
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import (
    WEIGHTED_MEAN_ROUNDING,
    Groups,
    IntArray,
    clip_points,
    near_counts,
    weighted_mean,
)
from dpconvex.randomness import BitSource

UNIT_LEMMA = "in units of reach times radius (rounding included) the weighted mean of a good pair moves by at most 1: "


class GuardedMean(Planned):
    """Test, then release a weighted mean of `count` points with Gaussian noise.

    `threshold` is what the noisy score must reach, `sigma` the standard deviation of the noise in units of the mean's
    sensitivity; `lemma` says why the mean has the sensitivity `reach`, and `unit` what one point stands for.
    """

    count: int
    dim: int
    threshold: float
    sigma: float
    unit: Unit
    lemma: str
    event: GuardedGaussianNoise  # pyright: ignore[reportIncompatibleVariableOverride]
    missed: float = 0.0  #: planned share of points that are left out although all are alike
    noise_factor = 1.0  #: what points left out multiply the noise by, in the root mean square
    exact_bits = exact_as_source

    @property
    @abstractmethod
    def reach(self) -> float:
        """Sensitivity of the mean in units of the radius, for a good pair, without rounding."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants, from which a reader can check `reach` and the event again."""

    @abstractmethod
    def draw(self, points: Array, radius: float, clip: float, source: BitSource) -> Floats | None:
        """As `release`, without an entry: for a caller that has entered an event that covers this use."""

    @property
    def sensitivity(self) -> Sensitivity:  # pyright: ignore[reportIncompatibleVariableOverride]
        """1, in units of `unit_length`."""
        return Sensitivity(1.0, "l2", UNIT_LEMMA + self.lemma, unit=self.unit)

    @property
    def deviation(self) -> float:
        """Standard deviation of each coordinate of the noise in units of the radius, but for rounding."""
        return self.reach * self.sigma

    @cached_property
    def noise(self) -> GaussianMechanism:
        """The noise of the mean, in units of its sensitivity."""
        return GaussianMechanism(self.sensitivity, self.sigma, self.dim)

    @final
    def unit_length(self, radius: float, clip: float) -> float:
        """Absolute l2 sensitivity of the mean at this radius, rounding included; `clip` bounds displacements."""
        distances = 1 + 2 * (self.dim + 8) * 2.0**-52
        rounding = 2 * (WEIGHTED_MEAN_ROUNDING + 2.0**-51) * clip
        return (self.reach * radius * distances + rounding) * (1 + 1e-12)

    @final
    def release(
        self,
        points: Array,
        radius: float,
        clip: float,
        label: str,
        source: BitSource,
        ledger: Ledger,
        block: str | None = None,
    ) -> Floats | None:
        """Record the release, then test, then release the mean; None if the test failed.

        `points` (count, dim) are displacements from a public or released point: NaN counts as 0, and longer ones than
        `clip`, in [1e-99, 1e100], are shortened. Pairs within `radius`, in [1e-100, 1e100], count as close. Both are
        public or released.
        """
        ledger.record(self.planned(label, block))
        return self.draw(points, radius, clip, source)


class OneTest(GuardedMean):
    """All points are tested together."""

    score_noise: Mechanism[Floats]  #: noise of the score

    @abstractmethod
    def _examine(self, points: Floats, radius: float, source: BitSource) -> tuple[float, Floats]:
        """Return the score, and the weights (count,) of the mean; `source` is for coins apart from all noise."""

    @final
    def draw(self, points: Array, radius: float, clip: float, source: BitSource) -> Floats | None:
        displacements = clipped(self, points, clip)
        score, weights = self._examine(displacements, radius, source)
        if self.score_noise._sample(np.array([score]), source)[0] < self.threshold:
            return None
        length = self.unit_length(radius, clip)
        mean = weighted_mean(displacements, weights) / length
        return length * add_gaussian(mean, self.noise.sigma, self.noise.step, source)


def clipped(mean: GuardedMean, points: Array, clip: float) -> Floats:
    """Return points of the planned number and dimension, cut to length `clip`; raise for another shape."""
    if np.shape(points) != (mean.count, mean.dim):
        raise InvalidDataError(f"points have shape {np.shape(points)}, but the plan is for {mean.count, mean.dim}")
    return clip_points(points, PointDomain(mean.dim, clip, clip / 2))


def ramp(counts: Array, low: float, high: float) -> Floats:
    """Return the weights of points: 0 up to `low` near ones, 1 from `high` on, linear between."""
    return np.clip((counts - low) / (high - low), 0.0, 1.0)


def counts_within(points: Floats, radius: float) -> IntArray:
    """Return how many points lie within the radius of each, itself included, shape (n,)."""
    n = len(points)
    return near_counts(points, Groups(np.arange(n), np.array([0, n])), radius)
