r"""Stages 1 and 2, calibrated: the effective radius, and a private center of the crowd.

Kumar, Liu, Tian and Yang 2025, Algorithms 2 and 3, Lemmas 5, 8 and 9, with groups by position and coins in place of
random indices, and tight constants. Proofs: docs, Geometric median. Neighbors replace one record. Coins may be public;
where the points are users, whose places depend on labels, they are secret and uniform.

Stage 1: the radius, the scale at which most points have most others near (FastRadius)
    Pure epsilon-DP. The score of a radius rho is ``q(rho) = sum_i |{j in group(i), j != i: ||x_i - x_j|| <= rho}| /
    (s_i - 1)`` with group sizes ``s_i``. Replacing a record changes all scores by at most 2, either way, for *every*
    partition, known or not: AboveThreshold for general, not monotone, queries.
Stage 2: the center, the weighted mean of the points that have most others near (FastCenter)
    Given a released radius rho, the test is mu_t-GDP and the center mu_c-GDP, except with probability delta_1 (the test
    errs by more than its margin) plus delta_2 (groups mislead; 0 for exact counts). With ``f_i`` members of i's group
    within 2 rho, itself included, and weights ``p_i = clip((f_i - floor_s) / width_s, 0, 1)`` by the group's size s:
Lemmas 1 (weights), 2 (geometry), 3 (mean) and 4 (groups)
    ``Z = sum p_i`` changes by at most ``S + 1``, ``S = (s-1) / width_s``; records of positive weight are within 4 rho;
    so ``m = sum p_i x_i / Z`` moves by at most ``4 rho (S + 1) / max(Z, Z')``. The released z, a noisy Z less a margin
    that noise exceeds with probability delta_1, is at most that maximum in all other cases: noise is scaled to
    ``4 rho (S + 1) / z``. `least_group` keeps groups from misleading; their coins must be fresh.
Samples
    A stage may read a random sample of records, chosen by position and coins. For fixed coins a replaced record is in
    it or not, so all lemmas hold with n the size of the sample. No amplification is claimed.
Rounding
    Of distances and of the mean is in the unit. Where R is so many units that the grid of the noise does not reach, the
    same mean with 2^25 times the noise is released first (for 2^-20 of the budget), and the precise one relative to it.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms import uses
from dpconvex.algorithms.location.base import CenterFinder, FoundRadius, Points, RadiusFinder, WarmStart, sample_of
from dpconvex.mechanisms import AboveThreshold, FailureAllowance, GaussianMechanism
from dpconvex.mechanisms.gaussian import INFLATION
from dpconvex.privacy import Ledger, Sensitivity, Unit
from dpconvex.problems import PointDomain
from dpconvex.problems.data import points as sums
from dpconvex.randomness import BitSource

RADIUS_LEMMA = (
    "the sum over records of the share of the others in their group within a radius changes by at most 2: the replaced "
    "record's own share by at most 1, those of the others in its group together by at most 1"
)
RADIUS_SENSITIVITY = 2.0
TEST, CENTER, COARSE, FAILURE = "weight of the crowd", "center of the crowd", "coarse center", "failing lemmas"
LEVEL = 0.25  # Least weight of the crowd, as a share of the records, by its private lower bound
COARSE_UNITS = 2.0**20
COARSE_SENSITIVITY = 2.0**-5
"""Claimed sensitivity in coarse units; the true one is 2^-20. It makes the grid fine and the range wide enough."""
COARSE_SHARE = 2.0**-10  # Share of the center's mu that the coarse center spends
SUMS = 1 + 1e-7  # Factor for the rounding of differences of sums of weights


@final_dataclass
class GroupedRadius(RadiusFinder):
    """The search for the radius by counting near pairs within groups of records."""

    domain: PointDomain
    mechanism: AboveThreshold  #: search of sensitivity 2, whose threshold is a share of the number of records
    group_size: int  #: least size of a group; the number of records for exact scores
    sample: int  #: number of records that are read, chosen by position and coins
    only_sums: ClassVar[bool] = True

    def describe(self) -> Mapping[str, Any]:
        facts = {"radius_group_size": self.group_size, "radius_sample": self.sample}
        return {**super().describe(), **facts, "radius_queries": len(self.domain.grid) - 1}

    def find(self, points: Points, source: BitSource, ledger: Ledger) -> FoundRadius:
        grid = self.domain.grid
        coins = source.generator()
        points = sample_of(points, self.sample, coins)
        scores = sums.covered_shares(points, sums.Groups.random(self.sample, self.group_size, coins), grid)
        return self.first(zip(grid[:-1].tolist(), scores[:-1].tolist(), strict=True), float(grid[-1]), source, ledger)


@final_dataclass
class Ramp:
    """The map from counts to weights, by group size: 0 up to `floor`, 1 from ``floor + width`` on, linear between."""

    low: float  #: share of a group up to which weights are 0; one half and a record more where counts are exact
    high: float  #: share of a group from which weights are 1
    exact: bool

    def floor(self, size: float | Array) -> Floats:
        """Return the largest count of weight 0 (exact: half a group and 1)."""
        sizes = np.asarray(size, dtype=np.float64)
        return sizes / 2 + 1 if self.exact else np.ceil(sizes * self.low)

    def width(self, size: float | Array) -> Floats:
        """Return the difference of counts from weight 0 to weight 1."""
        sizes = np.asarray(size, dtype=np.float64)
        return sizes * self.high - self.floor(sizes) if self.exact else sizes * (self.high - self.low)

    def weights(self, counts: Array, sizes: Array) -> Floats:
        """Return the weights (n,) of records with these counts in groups of these sizes."""
        return np.clip((counts - self.floor(sizes)) / self.width(sizes), 0.0, 1.0)

    def others(self, size: int) -> float:
        """Return the bound S of Lemma 1 for groups of at least `size` records."""
        return (size - 1) / float(self.width(size)) if self.exact else 1 / (self.high - self.low)


@final_dataclass
class GroupedCenter(CenterFinder):
    """The center of the crowd, from exact counts of near points or from counts within random groups."""

    domain: PointDomain
    n: int  #: number of records in the sample that is read
    ramp: Ramp
    group_size: int  #: least size of a group; n for exact counts
    test: GaussianMechanism  #: noise of the sum of weights
    mechanism: GaussianMechanism  #: noise of the mean, in units of its sensitivity
    coarse: GaussianMechanism | None  #: noise of the mean in coarse units, if the range of the domain requires it
    margin: float  #: probability delta_1 that the test errs by more than its margin
    misled: float  #: probability delta_2 that groups mislead, 0 for exact counts
    only_sums: ClassVar[bool] = True
    mechanisms = uses({FAILURE: "allowance", TEST: "test", COARSE: "coarse", CENTER: "mechanism"})

    @property
    def allowance(self) -> FailureAllowance:
        """The allowance that pays for both failures together."""
        lemma = "the margin of the test fails with probability delta_1, random groups mislead with delta_2 (Lemma 4)"
        return FailureAllowance(_rounding.sum_up((self.margin, self.misled)), lemma, self.test.sensitivity.unit)

    def describe(self) -> Mapping[str, Any]:
        counts = {"center_counts": "exact" if self.ramp.exact else "groups", "center_sample": self.n}
        weights = {"center_group_size": self.group_size, "center_ramp": [self.ramp.low, self.ramp.high]}
        deltas = {"center_delta_margin": self.margin, "center_delta_groups": self.misled}
        return {**counts, **weights, **deltas, "center_least_weight": LEVEL * self.n}

    def find(self, points: Points, radius: float, source: BitSource, ledger: Ledger) -> WarmStart | None:
        """Test whether there is a crowd; if so release its mean."""
        coins = source.generator()
        points = sample_of(points, self.n, coins)
        groups = sums.Groups.random(self.n, self.group_size, coins)
        weights = self.ramp.weights(sums.near_counts(points, groups, 2 * radius), groups.sizes)
        self.allowance.charge(FAILURE, ledger)
        noisy = self.test.release(np.array([weights.sum()]), TEST, source, ledger)
        z = min(float(self.n), float(noisy[0]) - self.threshold_margin)  # at most max(Z, Z') except with delta_1
        if z <= self.least_weight:  # otherwise both means exist (Lemma 3)
            return None
        unit = self.unit(radius, z)
        center = self._release_mean(sums.weighted_mean(points, weights), unit, source, ledger)
        ball = 2 * radius + unit * self.mechanism.sigma * (math.sqrt(self.domain.dim) + 2)
        R = self.domain.radius_bound
        return WarmStart(center, min(ball, R + float(np.linalg.norm(center))), min(radius, R))

    @property
    def threshold_margin(self) -> float:
        """The margin that the noise of the test exceeds with probability at most delta_1."""
        # Up by 1e-5: inflated noise, its grid, and the rounding of the sum and of this line.
        return float(self.test.sigma * INFLATION * (-ndtri(self.margin) * (1 + 1e-5) + 1e-5))

    @property
    def least_weight(self) -> float:
        """The least private lower bound of Z that passes: far above S + 1, so that neighbors have a mean too."""
        return LEVEL * self.n + self.test.sensitivity.value

    def unit(self, radius: float, z: float) -> float:
        """Return the sensitivity of the mean (Lemma 3) for a released radius and bound of Z, rounding included."""
        distances = 1 + 2 * (self.domain.dim + 8) * 2.0**-52
        spread = 4 * radius * distances * self.test.sensitivity.value / z  # 4 rho (S + 1) / z
        # Rounding of the mean of either data set, its quotient by the unit, and its difference to the coarse center.
        rounding = 2 * (sums.WEIGHTED_MEAN_ROUNDING + 2.0**-51) * self.domain.radius_bound
        return (spread + rounding) * (1 + 1e-12)

    def _release_mean(self, mean: Floats, unit: float, source: BitSource, ledger: Ledger) -> Floats:
        if self.coarse is None:
            return unit * self.mechanism.release(mean / unit, CENTER, source, ledger)
        far = COARSE_UNITS * unit
        R = self.domain.radius_bound
        anchor = far * self.coarse.release(mean / far, COARSE, source, ledger)
        anchor *= min(1.0, R / max(float(np.linalg.norm(anchor)), R))
        return anchor + unit * self.mechanism.release((mean - anchor) / unit, CENTER, source, ledger)


def plan_radius(
    domain: PointDomain, n: int, epsilon: float,
    *, level: float = 0.775, group_size: int = 64, sample: int | None = None, unit: Unit = Unit.RECORD,
) -> GroupedRadius:  # fmt: skip
    """Fix the constants of stage 1 for a pure epsilon; `level` is the share of others near a record on average.

    Groups of all n records have exact scores, in time quadratic in n. All records are read, or a `sample`.
    """
    _validate.integer("n", n, at_least=2)
    level = _validate.real("level", level, above=0.0, below=1.0)
    read = n if sample is None else min(_validate.integer("sample", sample, at_least=2), n)
    size = min(_validate.integer("group_size", group_size, at_least=2), read)
    query = Sensitivity(RADIUS_SENSITIVITY, "absolute", RADIUS_LEMMA, unit=unit)
    return GroupedRadius(domain, AboveThreshold(query, epsilon, level * read), size, read)


def least_group(n: int, failure: float, low: float) -> int:
    """Return the least size at which groups mislead, on either of two data sets, with probability at most `failure`."""
    divergence = low * math.log(2 * low) + (1 - low) * math.log(2 * (1 - low))  # Lemma 4, solved for the size.
    wanted = math.log(2 * n) - math.log(failure) + (1 - low) * math.log(low / (1 - low))
    return math.ceil((1 + wanted / divergence) * (1 + 1e-9))


def plan_center(
    domain: PointDomain, n: int, mu_test: float, mu_center: float, failure: float,
    *, level: float, exact_up_to: int, unit: Unit = Unit.RECORD,
) -> GroupedCenter:  # fmt: skip
    """Fix the constants of stage 2, which reads n records; up to `exact_up_to` of them counts are exact.

    `failure` is the probability of both failures together; exact counts leave all of it to the margin of the test.
    """
    low = min(max(level - 0.05, 0.55), 0.7)  # the radius was found for `level`, and weights begin a little below it
    size = least_group(n, failure / 2, low)
    exact = n <= exact_up_to or len(sums.group_sizes(n, size)) == 1
    ramp = Ramp(0.5 + 1 / n, 0.75, True) if exact else Ramp(low, min(low + 0.2, 0.85), False)
    size = n if exact else size
    reach = (ramp.others(size) + 1) * SUMS  # S + 1 (Lemma 1)
    weights = Sensitivity(reach, "absolute", "the sum of weights changes by at most S + 1 (Lemma 1)", unit=unit)
    lemma = "in units of 4 radius (S + 1) / z the weighted mean moves by at most 1 (Lemma 3; z, radius released)"
    mean = Sensitivity(1.0, "l2", lemma, unit=unit)
    wide = domain.radius_bound / domain.min_radius * n * math.sqrt(domain.dim) > 2.0**36
    far = Sensitivity(COARSE_SENSITIVITY, "l2", lemma + ", and a coarse unit is 2^20 of these", unit=unit)
    coarse = GaussianMechanism.of_mu(far, mu_center * COARSE_SHARE, domain.dim)
    test = GaussianMechanism.of_mu(weights, mu_test, 1)
    mechanism = GaussianMechanism.of_mu(mean, mu_center * (1 - COARSE_SHARE**2), domain.dim)
    margin, misled = (failure, 0.0) if exact else (failure / 2, failure / 2)
    return GroupedCenter(domain, n, ramp, size, test, mechanism, coarse if wide else None, margin, misled)
