r"""Robust means of any number of points: cohorts of points, each with a separate test, and one noise for all.

Mechanism, for G cohorts of public sizes n_g, with integers ``s_g, A_g, B_g`` as in `RobustMean`
    Draw a uniform partition of the points, afresh, by coins that nobody sees. In each cohort ``b_g = [H_g - s_g +
    N(0, sigma_H^2) >= theta]``, with noise of its own, and m_g is the weighted mean. Release the bits, and ``M = sum_g
    b_g n_g m_g / n + N(0, sigma^2 I)``: *one* noise. Used is M over the share of users whose cohort passed, divided
    after noise is added; where that is below one half nothing is.
Theorem (cohorts)
    With ``Delta = rho max_g n_g kappa_g / n`` and ``delta_t = Phi(-theta/sigma_H)`` one use costs what one
    `RobustMean` does: `GuardedGaussianNoise` with score sensitivity 1, margin theta, sensitivity Delta (docs,
    User-level privacy, Theorem 3'). The partition must be secret, and not follow labels, sizes or the order of points.
Rounding
    Means of other cohorts are the same bits on both sides; the sum over cohorts is exact but for one rounding, relative
    to the total. `unit_length` charges ``2^-49`` times the largest length, of which 7/8 are used.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from dpconvex import _validate
from dpconvex._types import Array, BoolArray, Floats, IntArray, final_dataclass, forwards
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms.gaussian import GaussianMechanism, add_gaussian
from dpconvex.mechanisms.robust_mean import GuardedMean, best_ramp, clipped, h_index, kappa, ramp, robust_mean_of
from dpconvex.privacy import GuardedGaussianNoise, Sensitivity, Unit
from dpconvex.problems.data.points import Groups, near_counts, weighted_mean
from dpconvex.randomness import BitSource, exact

SUM_LEMMA = "user-level robust mean, theorem on cohorts: largest n_g kappa_g / n (Lemma 2 in the changed cohort)"
MISSED = 1e-4
"""Largest probability that a cohort of users who are all alike fails its test; privacy does not depend on it."""


@final_dataclass
class Cohorts:
    """Public sizes and integers of all cohorts."""

    count: int  #: number of all points
    number: int  #: number G of cohorts
    ramps: tuple[tuple[int, int, int, int], ...]  #: size n_g, passing s_g, low A_g, high B_g of each kind of cohort

    def __post_init__(self) -> None:
        if sorted({int(n) for n in self.sizes}) != sorted(n for n, *_ in self.ramps):
            raise InvalidParameterError("ramps", self.ramps, "must have one entry for every size", "Use plan_cohorts")
        for n, passing, low, high in self.ramps:
            if not n / 2 <= low < high < passing <= n:
                order = "size/2 <= low < high < passing <= size"
                raise InvalidParameterError("ramps", self.ramps, f"must satisfy {order}", "Use plan_cohorts")

    @property
    def sizes(self) -> IntArray:
        """Size of each cohort, shape (G,); they differ by at most one."""
        return np.full(self.number, self.count // self.number) + (np.arange(self.number) < self.count % self.number)

    @cached_property
    def shares(self) -> Floats:
        """Share of the points in each cohort, shape (G,)."""
        return self.sizes / self.count

    @property
    def reach(self) -> float:
        """Largest ``n_g kappa_g / n``, rounded up: sensitivity of the sum in units of the radius."""
        found = [n / self.count * float(kappa(n, s, np.array(low), np.array(high))) for n, s, low, high in self.ramps]
        return max(found) * (1 + 1e-12)

    def examine(self, points: Floats, radius: float, source: BitSource) -> tuple[Floats, Floats]:
        """Return by how much each h-index exceeds its passing score, (G,), and the means, (G, dim).

        The partition is a fresh one in every call; one cohort needs none.
        """
        constants = {n: rest for n, *rest in self.ramps}
        order = source.generator().permutation(self.count) if self.number > 1 else np.arange(self.count)
        groups = Groups(order, np.concatenate([[0], np.cumsum(self.sizes)]))
        counts = near_counts(points, groups, radius)
        excesses, means = np.empty(self.number), np.empty((self.number, points.shape[1]))
        for g, members in enumerate(np.split(order, groups.bounds[1:-1])):
            passing, low, high = constants[len(members)]
            near = counts[members]
            excesses[g] = h_index(near) - passing
            means[g] = weighted_mean(points[members], ramp(near, low, high))
        return excesses, means

    def total(self, means: Floats, bits: BoolArray) -> Floats:
        """Return the sum of ``n_g m_g / n`` over the cohorts that passed: exact, then rounded once."""
        return np.array([math.fsum(column) for column in (means * self.shares[:, None])[bits].T.tolist()])

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants, from which a reader can recompute `reach`."""
        partition = "uniform, drawn anew for every release, secret"
        sizes = {"points": self.count, "cohorts": self.number, "size_passing_ramp": [list(ramp) for ramp in self.ramps]}
        return {**sizes, "sensitivity_in_radii": self.reach, "partition": partition}


@final_dataclass
@forwards("cohorts", "count reach")
class CohortMean(GuardedMean):
    """Constants of the mechanism; made by `plan_cohorts`."""

    cohorts: Cohorts
    dim: int  #: dimension of points
    threshold: float  #: theta, the excess over its passing score that each noisy h-index must reach
    score_sigma: float  #: standard deviation of the scores' noise
    sigma: float  #: standard deviation of the sum's noise, in units of its sensitivity
    missed: float  #: planned probability that a cohort of users who are alike fails
    unit: Unit = Unit.USER
    name: ClassVar[str] = "robust mean of cohorts"
    lemma: ClassVar[str] = SUM_LEMMA

    @property
    def passing(self) -> int:
        """Sum over cohorts of the number of points that must be near one another for the cohort's test to pass."""
        constants = {n: passing for n, passing, _, _ in self.cohorts.ramps}
        return sum(constants[n] for n in self.cohorts.sizes.tolist())

    @cached_property
    def event(self) -> GuardedGaussianNoise:
        margin = self.threshold * (1 - 1e-12)
        one = exact.enlarged(1.0)
        return GuardedGaussianNoise("gaussian", one, self.score_sigma, margin, 0.0, one, self.sigma)

    @cached_property
    def score_noise(self) -> GaussianMechanism:
        """Noise of one cohort's score."""
        lemma = "one point changes the h-index of its cohort by at most 1 (Lemma 1), and no other"
        return GaussianMechanism(Sensitivity(1.0, "absolute", lemma, unit=self.unit), self.score_sigma, 1)

    @property
    def noise_factor(self) -> float:
        G = self.cohorts.number
        k = np.arange(G // 2 + 1)
        return math.sqrt(float(binom.pmf(k, G, self.missed) @ (G / (G - k)) ** 2))

    def describe(self) -> Mapping[str, Any]:
        return {**self.cohorts.describe(), "threshold": self.threshold, "score_noise": self.score_sigma}

    def draw(self, points: Array, radius: float, clip: float, source: BitSource) -> Floats | None:
        excesses, means = self.cohorts.examine(clipped(self, points, clip), radius, source)
        bits, value = self.noisy(excesses, means, self.unit_length(radius, clip), source)
        return value / float(self.cohorts.shares @ bits) if 2 * bits.sum() >= len(bits) else None

    def noisy(self, excesses: Floats, means: Floats, length: float, source: BitSource) -> tuple[BoolArray, Floats]:
        """Return the release: which cohorts passed, and the noisy sum of their means."""
        bits = add_gaussian(excesses, self.score_sigma, self.score_noise.step, source) >= self.threshold
        value = self.cohorts.total(means, bits) / length
        return bits, length * add_gaussian(value, self.noise.sigma, self.noise.step, source)


def plan_cohorts(
    count: int, number: int, dim: int, mu: float, test: float,
    *, failure: float = 1e-3, outliers: float = 0.0, unit: Unit = Unit.USER,
) -> GuardedMean | None:  # fmt: skip
    """Return the mechanism with the least noise for this number of cohorts, or None if their tests could not pass.

    One cohort is a `RobustMean`. `mu` is the sensitivity over deviation of score and mean together, `test` the
    probability with which a bad cohort may pass. `failure` is the probability that no mean is released although all but
    the share `outliers` of the points are within the radius of one another.
    """
    if number == 1:
        return robust_mean_of(count, dim, mu, test, failure=failure, outliers=outliers, unit=unit)
    _validate.integer("number", number, at_least=2)
    missed = next(p for p in (MISSED / 2**k for k in range(64)) if binom.sf(number // 2, number, p) <= failure)
    least = count // number
    share = crowded(least, outliers, missed / 2)
    mean = robust_mean_of(least, dim, mu, test, failure=missed / 2, outliers=share, unit=unit) if share < 0.5 else None
    if mean is None:
        return None
    ramps = cohort_ramps(count, number, mean.passing)
    theta = (mean.threshold - mean.passing) * (1 + 1e-12)
    return CohortMean(Cohorts(count, number, ramps), dim, theta, mean.score_sigma, mean.sigma, missed, unit)


def cohort_ramps(count: int, number: int, passing: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return size, passing score and best ramp of each kind of cohort; `passing` has a ramp at the smaller size."""
    out: list[tuple[int, int, int, int]] = []
    for size in (count // number,) if count % number == 0 else (count // number, count // number + 1):
        score = passing + (passing - 1 <= (size + 1) // 2)  # where a larger cohort leaves no room for its ramp
        found = best_ramp(size, score)
        assert found is not None
        out.append((size, score, found[1], found[2]))
    return tuple(out)


def crowded(size: int, outliers: float, failure: float) -> float:
    """Return the largest share of outliers in a cohort of `size` points, except with probability `failure`.

    `outliers` is their share among all points; the number in a cohort is taken as normal.
    """
    return outliers - float(ndtri(failure)) * math.sqrt(outliers * (1 - outliers) / size)
