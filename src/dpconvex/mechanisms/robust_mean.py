r"""Robust means behind a test, with an h-index and deterministic weights.

Mechanism, for C points, a radius rho, integers ``C/2 <= A < B <= s0 - 1 < C``
    ``h_j = #{k : |x_j - x_k| <= rho}`` (j included); ``H = max{t : #{j : h_j >= t} >= t}``. If ``H + N(0, sigma_H^2) <
    theta``: fail. Else release ``sum w_j x_j / sum w_j + N(0, sigma^2 I)``, ``w_j = clip((h_j - A)/(B - A), 0, 1)``.
Lemma 1
    Replacing one point changes H by at most 1: if ``H = t``, at least t - 1 unchanged points keep ``h >= t - 1``.
Lemma 2
    If ``min(H, H') >= s0``, the mean moves by at most ``kappa rho``, ``kappa = (2 - max(A + s0 - C, 0)/C) (2 + (C -
    s0)/(B - A)) / s0``. (Proof: docs, User-level privacy, Lemma 2.)
Theorem
    A pair with ``min(H, H') < s0`` is bad, and then both are at most s0: the noise must exceed ``theta - s0``.
    Everything else is `GuardedGaussianNoise`.

All such means are released only if a noisy test finds most points close together. It makes the sensitivity of the mean
proportional to a public radius instead of the diameter of the domain. Points are one for each unit (a user, or a group
of users that holds one unit's records only).

Rounding
    Displacements are clipped to a public radius r, one by one: without it the rounding of sums could exceed the noise.
    A squared distance is a function of its two points alone, and is compared once for both; it errs by a factor
    ``1 +- (d + 8) 2^-52``. The mean errs by `WEIGHTED_MEAN_ROUNDING` times r on either data set. Both are in `unit`.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, ClassVar, final

import numpy as np
from scipy.special import ndtri

from dpconvex import _validate
from dpconvex._types import REQUIRED, Array, Floats, IntArray, final_dataclass
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.mechanisms.base import Mechanism, Planned, exact_as_source
from dpconvex.mechanisms.gaussian import GaussianMechanism, add_gaussian
from dpconvex.privacy import GuardedGaussianNoise, Ledger, Sensitivity, Unit
from dpconvex.privacy.events.basic import TAIL_SLACK
from dpconvex.privacy.profiles import charge, largest_mu
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import WEIGHTED_MEAN_ROUNDING, Groups, clip_points, near_counts, weighted_mean
from dpconvex.randomness import BitSource, exact

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
    event: GuardedGaussianNoise
    missed: float = 0.0  #: planned share of points that are left out although all are alike
    noise_factor = 1.0  #: factor by which left out points raise the noise, in root mean square
    exact_bits = exact_as_source
    reach: float = REQUIRED  #: Sensitivity of the mean in units of the radius, for a good pair, without rounding.

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants, from which a reader can check `reach` and the event again."""

    @abstractmethod
    def draw(self, points: Array, radius: float, clip: float, source: BitSource) -> Floats | None:
        """As `release`, without an entry: for a caller that has entered an event that covers this use."""

    @property
    def sensitivity(self) -> Sensitivity:
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
        self, points: Array, radius: float, clip: float, label: str,
        source: BitSource, ledger: Ledger, block: str | None = None,
    ) -> Floats | None:  # fmt: skip
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


SPLITS = np.linspace(0.02, 0.9, 45)  #: Shares of the squared Gaussian budget that are tried for the test.


@final_dataclass
class RobustMean(OneTest):
    """Constants of the mechanism; made by `robust_mean_of`."""

    count: int  #: number C of points
    dim: int  #: their dimension
    passing: int  #: score s0 above which the sensitivity holds
    low: int  #: count A up to which weights are 0
    high: int  #: count B from which weights are 1
    threshold: float  #: threshold theta of the test
    score_sigma: float  #: standard deviation of the score's noise
    sigma: float  #: standard deviation of the mean's noise, in units of its sensitivity
    unit: Unit = Unit.USER
    name: ClassVar[str] = "robust mean"
    lemma: ClassVar[str] = "user-level robust mean, Lemma 2 (h-index)"

    def __post_init__(self) -> None:
        if not self.count / 2 <= self.low < self.high < self.passing <= self.count:
            order = "count/2 <= low < high < passing <= count"
            raise InvalidParameterError("passing", self.passing, f"must satisfy {order}", "Use robust_mean_of")
        _ = self.event

    @property
    def margin(self) -> float:
        """The value that the noise must exceed for a bad pair to pass."""
        return (self.threshold - self.passing) * (1 - 1e-12)

    @property
    def reach(self) -> float:
        return float(kappa(self.count, self.passing, np.array(self.low), np.array(self.high)))

    @cached_property
    def event(self) -> GuardedGaussianNoise:
        one = exact.enlarged(1.0)
        return GuardedGaussianNoise("gaussian", one, self.score_sigma, self.margin, 0.0, one, self.sigma)

    @cached_property
    def score_noise(self) -> GaussianMechanism:
        lemma = "one point changes the h-index by at most 1 (Lemma 1)"
        return GaussianMechanism(Sensitivity(1.0, "absolute", lemma, unit=self.unit), self.score_sigma, 1)

    def describe(self) -> Mapping[str, Any]:
        score = {"points": self.count, "score": "h_index", "passing": self.passing, "ramp": [self.low, self.high]}
        return {**score, "threshold": self.threshold, "sensitivity_in_radii": self.reach}

    def _examine(self, points: Floats, radius: float, source: BitSource) -> tuple[float, Floats]:
        counts = counts_within(points, radius)
        return h_index(counts), ramp(counts, self.low, self.high)


def h_index(counts: Array) -> float:
    """Return the largest t such that at least t of the counts are at least t."""
    ordered = np.sort(counts)[::-1]
    return float(np.count_nonzero(ordered >= np.arange(1, len(ordered) + 1)))


def kappa(count: int, passing: int, low: Array, high: Array) -> Floats:
    """Return kappa of Lemma 2, rounded up: how far the mean moves, in radii, if both h-indices reach `passing`."""
    near = np.maximum(low + passing - count, 0) / count
    return (2 - near) * (2 + (count - passing) / (high - low)) / passing * (1 + 1e-12)


def robust_mean_of(
    count: int, dim: int, mu: float, test: float,
    *, failure: float = 1e-3, outliers: float = 0.0, unit: Unit = Unit.USER,
) -> RobustMean | None:  # fmt: skip
    """Return the mechanism with the least noise for a Gaussian budget, or None if there are too few points.

    `mu` is the sensitivity over deviation of score and mean together, `test` the probability with which the test may
    let a bad pair pass. `failure`, in (0, 1/2), is the probability that the test fails although all but the share
    `outliers`, in [0, 1/2), of the points are within the radius of one another; privacy does not depend on it.
    """
    _validate.integer("count", count, at_least=1)
    _validate.real("mu", mu, above=0.0)
    _validate.real("test", test, above=0.0, below=0.5)
    _validate.real("failure", failure, above=0.0, below=0.5)
    _validate.real("outliers", outliers, at_least=0.0, below=0.5)
    charge(60)
    best = _search(count, mu, test, failure, outliers)
    return None if best is None else RobustMean(count, dim, *best, unit)


@lru_cache(maxsize=256)
def budget(epsilon: float, delta: float, releases: int = 1) -> tuple[float, float]:
    """Return mu and the probability with which a test may err, for each of `releases` on the same points."""
    if releases == 1:
        return largest_mu(epsilon, delta) * (1 - 1e-9), delta
    return largest_mu(epsilon, delta / 2 * (1 - 1e-9)) / math.sqrt(releases) * (1 - 1e-9), delta / (2 * releases)


@lru_cache(maxsize=1024)
def _search(
    count: int, mu: float, test: float, failure: float, outliers: float
) -> tuple[int, int, int, float, float, float] | None:
    """Return passing score, ramp, threshold and deviations of score and mean with the least noise, or None."""
    above, below = -float(ndtri(test * (1 - 1e-6))), -float(ndtri(failure))
    best, least = None, math.inf
    for share in SPLITS:
        score_sigma = exact.enlarged(1.0) / (mu * math.sqrt(share))
        margin = score_sigma * (above * (1 + 3 * TAIL_SLACK) + 3 * TAIL_SLACK)
        passing = math.floor(count * (1 - outliers) - margin - below * score_sigma)
        if (found := best_ramp(count, passing)) is None:
            continue
        reach, low, high = found
        sigma = exact.enlarged(1.0) / (mu * math.sqrt(1 - share)) * (1 + 1e-12)
        if reach * sigma < least:
            least, best = reach * sigma, (passing, low, high, (passing + margin) * (1 + 1e-15), score_sigma, sigma)
    return best


def best_ramp(count: int, passing: int) -> tuple[float, int, int] | None:
    """Return the least sensitivity with its ramp, or None if no ramp is allowed."""
    first = (count + 1) // 2
    if passing - 1 <= first:
        return None
    lows = np.arange(first, passing - 1)
    reaches = kappa(count, passing, lows, np.array(passing - 1))
    at = int(np.argmin(reaches))
    return float(reaches[at]), int(lows[at]), passing - 1
