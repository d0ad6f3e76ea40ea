r"""Stage 2: a private centre of the crowd, the weighted mean of the points that have most others near.

Guarantee
    Given a released radius rho, the test is mu_t-GDP and the centre mu_c-GDP for neighbours that replace one record,
    except with probability delta_1 (the test errs by more than its margin) plus delta_2 (groups mislead; 0 for exact
    counts). Kumar, Liu, Tian and Yang 2025, Algorithm 3 (FastCenter) and Lemmas 8 and 9, with tight constants.
Symbols
    ``f_i`` members of i's group within 2 rho, itself included; ``p_i = clip((f_i - floor_s) / width_s, 0, 1)``, where
    ``floor_s`` and ``width_s`` depend on the group's size s only; ``Z = sum p_i``; ``S`` a bound on
    ``sum_{i != h} |p_i - p_i'|`` when record h is replaced.
Lemma 1 (weights)
    The own weight changes by at most 1, each other weight of the group by at most ``1 / width_s``. So ``S = (s-1) /
    width_s <= 1 / (high - low)``, and ``|Z - Z'| <= S + 1``.
Lemma 2 (geometry)
    A record of positive weight has more than ``n/2 + 1`` points within 2 rho: with exact counts because
    ``floor = n/2 + 1``; with groups except with probability delta_2 (Lemma 4). Two such records, even one from each of
    two neighbouring data sets, share two near positions, hence one that was not replaced: they are within 4 rho.
Lemma 3 (mean)
    Write ``m = sum p_i x_i / Z``. As ``sum p_i' (x_i' - m') = 0``, ``Z (m - m')`` is the sum over ``i != h`` of
    ``(p_i - p_i') (x_i - m')``, of norm at most ``4 rho S``, plus ``p_h (x_h - m') - p_h' (x_h' - m')``. For
    ``p_h >= p_h'`` the latter is ``p_h' (x_h - x_h') + (p_h - p_h') (x_h - m')``, of norm at most ``4 rho``; otherwise
    exchange the roles. So ``||m - m'|| <= 4 rho (S + 1) / max(Z, Z')`` wherever both Z are positive. The released z, a
    noisy Z less a margin that noise exceeds with probability delta_1, is at most ``max(Z, Z')`` in all other cases; a
    run goes on only if ``z > S + 1``, so that both means exist, and then noise is scaled to ``4 rho (S + 1) / z``.
Lemma 4 (groups)
    A record with at most ``n/2 + 1/2`` near points has ``f - 1`` hypergeometric, and ``P(f > a s) <= exp(-(s-1)
    KL(a || 1/2) + (1-a) log(a/(1-a)))``. `least_group` makes this at most ``delta_2 / (2 n)``: one union over both data
    sets. The coins must be fresh: independent of the data and of the radius. Every group must have that size.
Sample
    Where a rough centre will do, the stage reads a random sample of records, chosen by position and coins. For fixed
    coins a replaced record is in it or not, so all lemmas hold with n the size of the sample. No amplification claimed.
Rounding
    Distances err by a factor ``1 + (d + 8) 2^-52``, the mean by `WEIGHTED_MEAN_ROUNDING` times R on either data set:
    both are in the unit. Where R is so many units that the grid of the noise does not reach, the same mean with 2^25
    times the noise is released first (for 2^-20 of the budget), and the precise one relative to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.location.geometric_median.booster import WarmStart
from dpconvex.mechanisms import FailureAllowance, GaussianMechanism
from dpconvex.mechanisms.gaussian import INFLATION
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.problems.data.points import (
    WEIGHTED_MEAN_ROUNDING,
    Groups,
    PointDomain,
    group_sizes,
    near_counts,
    weighted_mean,
)
from dpconvex.randomness import BitSource

TEST, CENTRE, COARSE, FAILURE = "weight of the crowd", "centre of the crowd", "coarse centre", "failing lemmas"
LEVEL = 0.25
"""Share of records that the crowd must weigh, by its private lower bound."""
COARSE_UNITS = 2.0**20
COARSE_SENSITIVITY = 2.0**-5
"""Claimed in coarse units, where the truth is 2^-20: it makes the grid fine enough and the range wide enough."""
COARSE_SHARE = 2.0**-10
"""Of the centre's mu that the coarse centre spends."""
SUMS = 1 + 1e-7
"""What rounding adds to differences of sums of weights."""


class CentreFinder(ABC):
    """Public constants of the stage that finds a centre."""

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """Everything that `find` may record."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants."""

    @abstractmethod
    def exact_bits(self, source: BitSource) -> bool:
        """As `Planned.exact_bits`."""

    @abstractmethod
    def find(self, points: FloatArray, radius: float, source: BitSource, ledger: Ledger) -> WarmStart | None:
        """Release a centre of sanitised points (n, d), or None if the test failed.

        Parameters
        ----------
        radius : float
            Released before; positive.
        """


@final
@dataclass(frozen=True)
class Ramp:
    """How counts become weights: 0 up to `floor`, 1 from ``floor + width``, by group size.

    Parameters
    ----------
    low, high : float
        Shares of a group at which weights leave 0 and reach 1.
    exact : bool
        Whether counts are exact: then ``low`` is one half and a record more.
    """

    low: float
    high: float
    exact: bool

    def floor(self, size: float | AnyArray) -> FloatArray:
        """Largest count of weight 0 (exact: half a group and 1)."""
        sizes = np.asarray(size, dtype=np.float64)
        return sizes / 2 + 1 if self.exact else np.ceil(sizes * self.low)

    def width(self, size: float | AnyArray) -> FloatArray:
        """Count from weight 0 to weight 1."""
        sizes = np.asarray(size, dtype=np.float64)
        return sizes * self.high - self.floor(sizes) if self.exact else sizes * (self.high - self.low)

    def weights(self, counts: AnyArray, sizes: AnyArray) -> FloatArray:
        """Weights (n,) of records with these counts in groups of these sizes."""
        return np.clip((counts - self.floor(sizes)) / self.width(sizes), 0.0, 1.0)

    def others(self, size: int) -> float:
        """Bound S of Lemma 1 for groups of at least `size` records."""
        return (size - 1) / float(self.width(size)) if self.exact else 1 / (self.high - self.low)


@final
@dataclass(frozen=True)
class GroupedCentre(CentreFinder):
    """Exact counts, or counts within random groups.

    Parameters
    ----------
    domain : PointDomain
    n : int
        Records of the sample that is read, at most all.
    ramp : Ramp
    group_size : int
        Least size of a group; n for exact counts.
    test : GaussianMechanism
        Of the sum of weights.
    mechanism : GaussianMechanism
        Of the mean, in units of its sensitivity.
    coarse : GaussianMechanism or None
        Of the mean in coarse units, where the range of the domain asks for it.
    margin : float
        Probability delta_1.
    misled : float
        Probability delta_2, 0 for exact counts.
    """

    domain: PointDomain
    n: int
    ramp: Ramp
    group_size: int
    test: GaussianMechanism
    mechanism: GaussianMechanism
    coarse: GaussianMechanism | None
    margin: float
    misled: float

    @property
    def allowance(self) -> FailureAllowance:
        """For the two failures together."""
        lemma = "the margin of the test fails with probability delta_1, random groups mislead with delta_2 (Lemma 4)"
        total = _rounding.sum_up((self.margin, self.misled))
        return FailureAllowance(total, lemma, self.test.sensitivity.unit)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The allowance, the test, the centre."""
        coarse = () if self.coarse is None else (self.coarse.planned(COARSE),)
        return (self.allowance.planned(FAILURE), self.test.planned(TEST), *coarse, self.mechanism.planned(CENTRE))

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {
            "centre_counts": "exact" if self.ramp.exact else "groups",
            "centre_sample": self.n,
            "centre_group_size": self.group_size,
            "centre_ramp": [self.ramp.low, self.ramp.high],
            "centre_delta_margin": self.margin,
            "centre_delta_groups": self.misled,
            "centre_least_weight": LEVEL * self.n,
        }

    def exact_bits(self, source: BitSource) -> bool:
        """As the mechanisms."""
        return self.test.exact_bits(source)

    def find(self, points: FloatArray, radius: float, source: BitSource, ledger: Ledger) -> WarmStart | None:
        """Test whether there is a crowd; if so release its mean."""
        coins = source.generator()
        if self.n < len(points):
            points = points[np.sort(coins.permutation(len(points))[: self.n])]
        groups = Groups.random(self.n, self.group_size, coins)
        weights = self.ramp.weights(near_counts(points, groups, 2 * radius), groups.sizes)
        self.allowance.charge(FAILURE, ledger)
        noisy = self.test.release(np.array([weights.sum()]), TEST, source, ledger)
        z = min(float(self.n), float(noisy[0]) - self.threshold_margin)
        if z <= self.least_weight:
            return None
        unit = self.unit(radius, z)
        centre = self._release_mean(weighted_mean(points, weights), unit, source, ledger)
        deviation = unit * self.mechanism.sigma
        ball = 2 * radius + deviation * (math.sqrt(self.domain.dim) + 2)
        R = self.domain.radius_bound
        return WarmStart(centre, min(ball, R + float(np.linalg.norm(centre))), min(radius, R))

    @property
    def threshold_margin(self) -> float:
        """What the noise of the test exceeds with probability at most delta_1."""
        from scipy.special import ndtri

        # Up by 1e-5: inflated noise, its grid, and the rounding of the sum and of this line.
        return float(self.test.sigma * INFLATION * (-ndtri(self.margin) * (1 + 1e-5) + 1e-5))

    @property
    def least_weight(self) -> float:
        """What the private lower bound of Z must exceed: far above S + 1, so that neighbours have a mean too."""
        return LEVEL * self.n + self.test.sensitivity.value

    def unit(self, radius: float, z: float) -> float:
        """Sensitivity of the mean (Lemma 3) for a released radius and lower bound of Z, rounding included."""
        distances = 1 + 2 * (self.domain.dim + 8) * 2.0**-52
        spread = 4 * radius * distances * self.test.sensitivity.value / z
        # The mean of either data set, its quotient by the unit, and the difference from the coarse centre.
        rounding = 2 * (WEIGHTED_MEAN_ROUNDING + 2.0**-51) * self.domain.radius_bound
        return (spread + rounding) * (1 + 1e-12)

    def _release_mean(self, mean: FloatArray, unit: float, source: BitSource, ledger: Ledger) -> FloatArray:
        if self.coarse is None:
            return unit * self.mechanism.release(mean / unit, CENTRE, source, ledger)
        far = COARSE_UNITS * unit
        R = self.domain.radius_bound
        anchor = far * self.coarse.release(mean / far, COARSE, source, ledger)
        anchor *= min(1.0, R / max(float(np.linalg.norm(anchor)), R))
        return anchor + unit * self.mechanism.release((mean - anchor) / unit, CENTRE, source, ledger)


def least_group(n: int, failure: float, low: float) -> int:
    """Least group size at which counts mislead with probability at most `failure`, over both data sets (Lemma 4)."""
    divergence = low * math.log(2 * low) + (1 - low) * math.log(2 * (1 - low))
    wanted = math.log(2 * n) - math.log(failure) + (1 - low) * math.log(low / (1 - low))
    return math.ceil((1 + wanted / divergence) * (1 + 1e-9))


def plan_centre(
    domain: PointDomain,
    n: int,
    mu_test: float,
    mu_centre: float,
    failure: float,
    *,
    level: float,
    exact_up_to: int,
    unit: Unit = Unit.RECORD,
) -> GroupedCentre:
    """Fix the constants of the stage.

    Parameters
    ----------
    domain : PointDomain
    n : int
        Records that the stage reads.
    mu_test, mu_centre : float
        Budgets, positive.
    failure : float
        Probability of both failures together; exact counts leave all of it to the margin of the test.
    level : float
        Share of points near each other that the radius was asked for: groups' weights begin a little below it.
    exact_up_to : int
        Largest n with exact counts.
    unit : Unit
    """
    low = min(max(level - 0.05, 0.55), 0.7)
    size = least_group(n, failure / 2, low)
    exact = n <= exact_up_to or len(group_sizes(n, size)) == 1
    ramp = Ramp(0.5 + 1 / n, 0.75, True) if exact else Ramp(low, min(low + 0.2, 0.85), False)
    size = n if exact else size
    reach = (ramp.others(size) + 1) * SUMS
    weights = Sensitivity(reach, "absolute", "the sum of weights changes by at most S + 1 (Lemma 1)", unit=unit)
    lemma = (
        "in units of 4 radius (S + 1) / z, the weighted mean moves by at most 1 (Lemma 3; both z and radius released)"
    )
    mean = Sensitivity(1.0, "l2", lemma, unit=unit)
    wide = domain.radius_bound / domain.min_radius * n * math.sqrt(domain.dim) > 2.0**36
    coarse = GaussianMechanism.of_mu(
        Sensitivity(COARSE_SENSITIVITY, "l2", lemma + ", and a coarse unit is 2^20 of these", unit=unit),
        mu_centre * COARSE_SHARE,
        domain.dim,
    )
    return GroupedCentre(
        domain=domain,
        n=n,
        ramp=ramp,
        group_size=size,
        test=GaussianMechanism.of_mu(weights, mu_test, 1),
        mechanism=GaussianMechanism.of_mu(mean, mu_centre * (1 - COARSE_SHARE**2), domain.dim),
        coarse=coarse if wide else None,
        margin=failure if exact else failure / 2,
        misled=0.0 if exact else failure / 2,
    )
