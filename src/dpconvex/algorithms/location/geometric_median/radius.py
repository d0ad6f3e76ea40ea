r"""Stage 1: the effective radius, the scale at which most points have most others near (FastRadius, calibrated).

Guarantee
    Pure epsilon-DP for the radius, for neighbours that replace one record.
Lemma
    Records are partitioned into groups by position and public coins. The score of a radius rho is
    ``q(rho) = sum_i |{j in group(i), j != i: ||x_i - x_j|| <= rho}| / (s_i - 1)`` with group sizes ``s_i``. Replacing
    record h changes its own term by at most 1, and each of the other ``s-1`` terms of its group by at most
    ``1/(s-1)``: together by at most 2, for *every* partition, known or not, and for all radii at once. So
    AboveThreshold with sensitivity 2 over the radii is pure epsilon-DP (Kumar, Liu, Tian and Yang 2025, Algorithm 2 and
    Lemma 5, with groups in place of random indices, and a record not its own neighbour). The noise is that of general,
    not monotone, queries: the changes may have either sign. All scores come from one pass.
Deviations
    With many records a random sample of them is scored, chosen by position and coins: for fixed coins a replaced record
    is in it or not. The last radius of the grid covers the diameter, so it is never asked about: it is the answer when
    none passed. With one group of all records the scores are exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.mechanisms import AboveThreshold
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.problems.data.points import Groups, PointDomain, covered_shares
from dpconvex.randomness import BitSource

LABEL = "effective radius"
LEMMA = (
    "the sum over records of the share of the others in their group within a radius changes by at most 2: the replaced "
    "record's own share by at most 1, those of the others in its group together by at most 1"
)
SENSITIVITY = 2.0


@dataclass(frozen=True)
class FoundRadius:
    """A released radius.

    Parameters
    ----------
    radius : float
        In the unit of the data.
    at_top : bool
        Whether no radius of the grid passed, so that this is the largest one.
    """

    radius: float
    at_top: bool


class RadiusFinder(ABC):
    """Public constants of the stage that finds the effective radius."""

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """Everything that `find` records."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants."""

    @abstractmethod
    def exact_bits(self, source: BitSource) -> bool:
        """As `Planned.exact_bits`."""

    @abstractmethod
    def find(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FoundRadius:
        """Release the effective radius of sanitised points (n, d)."""


@final
@dataclass(frozen=True)
class GroupedRadius(RadiusFinder):
    """All pairs within groups of records.

    Parameters
    ----------
    domain : PointDomain
        Its grid of radii.
    mechanism : AboveThreshold
        Of sensitivity 2; its threshold is a share of the number of records.
    group_size : int
        Least size of a group; the number of records for exact scores.
    sample : int
        Records that are read, chosen by position and coins.
    """

    domain: PointDomain
    mechanism: AboveThreshold
    group_size: int
    sample: int

    @property
    def releases(self) -> tuple[Release, ...]:
        """One, for the whole search."""
        return (self.mechanism.planned(LABEL),)

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {
            "radius_epsilon": self.mechanism.epsilon,
            "radius_threshold": self.mechanism.threshold,
            "radius_group_size": self.group_size,
            "radius_sample": self.sample,
            "radius_queries": len(self.domain.grid) - 1,
        }

    def exact_bits(self, source: BitSource) -> bool:
        """As the mechanism."""
        return self.mechanism.exact_bits(source)

    def find(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FoundRadius:
        """Return the first radius at which the noisy score reaches the noisy threshold."""
        grid = self.domain.grid
        coins = source.generator()
        if self.sample < len(points):
            points = points[np.sort(coins.permutation(len(points))[: self.sample])]
        scores = covered_shares(points, Groups.random(self.sample, self.group_size, coins), grid)
        session = self.mechanism.start(LABEL, source, ledger)
        for radius, score in zip(grid[:-1].tolist(), scores[:-1].tolist(), strict=True):
            if session.query(score):
                return FoundRadius(radius, False)
        return FoundRadius(float(grid[-1]), True)


def plan_grouped(
    domain: PointDomain,
    n: int,
    epsilon: float,
    *,
    level: float = 0.775,
    group_size: int = 64,
    sample: int | None = None,
    unit: Unit = Unit.RECORD,
) -> GroupedRadius:
    """Fix the constants of the stage, which can be used alone.

    Parameters
    ----------
    domain : PointDomain
    n : int
        Records, at least 2.
    epsilon : float
        Pure, positive.
    level : float
        Share of the others that must be near a record on average, in (0, 1).
    group_size : int
        At least 2; n for exact scores, in time quadratic in n.
    sample : int or None
        Records to read, at least 2; None: all.
    unit : Unit
    """
    _validate.integer("n", n, at_least=2)
    _validate.real("level", level, above=0.0, below=1.0)
    read = n if sample is None else min(_validate.integer("sample", sample, at_least=2), n)
    size = min(_validate.integer("group_size", group_size, at_least=2), read)
    query = Sensitivity(SENSITIVITY, "absolute", LEMMA, unit=unit)
    return GroupedRadius(domain, AboveThreshold(query, epsilon, level * read), size, read)
