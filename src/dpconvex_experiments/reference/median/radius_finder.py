r"""The earlier private radius finder (Haghifam, Steinke and Ullman 2024), from its reference implementation.

Listing
    Radii ``r 2^i`` up to 2 R; ``M = ceil(gamma n)``; the query at a radius is the mean of the M largest numbers of
    neighbours (self included). Above-threshold with threshold ``M + (18 / epsilon) log(2 T / beta)``, noise
    Laplace(6 / epsilon) on it and Laplace(12 / epsilon) on each query. A random radius if none passes.
Guarantee
    Pure epsilon for neighbours that replace one record.
Lemma
    Replacing a record moves other counts by at most 1 and its own by at most n: the sum of the M largest by at most
    ``n + M``, so the query by at most ``1 + 1 / gamma``, which is at most the printed 3 for ``gamma >= 1/2``. A pair's
    comparison depends on that pair alone, so rounding joins nothing else.
Cost
    All pairs: ``n^2 d / 2`` operations, once for all radii.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import AboveThreshold
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.problems.data.points import PointDomain
from dpconvex.randomness import BitSource

LABEL = "radius by all pairs"
MAX_RECORDS = 50_000
"""Most records: a few minutes for 50 coordinates."""
SHIFT = 18.0
DELTA = 3.0
"""The printed sensitivity."""


@final
@dataclass(frozen=True)
class RadiusFinder:
    """Public constants of one search."""

    grid: tuple[float, ...]  # radii, ascending
    most: int  # M, how many of the largest counts are averaged
    mechanism: AboveThreshold

    @property
    def releases(self) -> tuple[Release, ...]:
        """One."""
        return (self.mechanism.planned(LABEL),)

    def queries(self, points: FloatArray) -> FloatArray:
        """Mean of the M largest numbers of neighbours within each radius, shape (T,). Private: not for release."""
        from dpconvex_experiments.reference.median._pairs import neighbours

        counts = np.zeros((len(self.grid) + 1, len(points)), dtype=np.int64)
        neighbours(points, np.square(self.grid), counts)
        within = 1 + np.cumsum(counts[:-1], axis=0)
        return np.partition(within, -self.most, axis=1)[:, -self.most :].mean(axis=1)

    def find(self, points: FloatArray, source: BitSource, ledger: Ledger) -> float:
        """Release a radius for points (n, dim) of the domain; the ledger must list `releases`."""
        fallback = source.generator().integers(len(self.grid))
        index = self.mechanism.release(self.queries(points), LABEL, source, ledger)
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
    sensitivity = Sensitivity(DELTA, "absolute", "mean of the M largest counts: 1 + n / M <= 3", unit=unit)
    return RadiusFinder(grid, most, AboveThreshold(sensitivity, epsilon, threshold, 0.5))
