r"""Noisy tables of one and two columns as they were released, and intervals for the data's own shares.

Guarantee
    Functions of released numbers and public facts only: no record reaches this module.
Intervals
    The noise of a cell has a known law, so ``Y +- t/n`` holds the data's share with the stated probability, whatever
    was fitted: ``t = sigma z`` for Gaussian noise, ``t = b log(c/alpha)`` for Laplace noise (c cells together; on the
    grid of the mechanism the tail is below ``exp(-t/b)`` once t is a step longer).
Known total (Gaussian)
    The cells of a table add up to n, so the mean residual is pure noise; without it the variance is
    ``(1 - 1/cells) sigma^2``. A one-way table is pooled with the row sums of the pairs that hold its column, weights
    inverse to the variances. Neither is used for Laplace noise, whose sums are no Laplace variables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtri

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError


@final
@dataclass(frozen=True, eq=False)
class Marginal:
    """A table of shares with an interval for each of them.

    Parameters
    ----------
    shares : array, one axis a column
        Shares of the fitted model; they agree with every other table and with sampled records.
    low, high : arrays of the same shape
        Intervals for the shares of the *data*, from the noisy table alone, so they hold whatever the model does.
    level : float
        Probability with which each interval holds its share; with ``together`` all of them at once.
    """

    shares: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    @property
    def fits(self) -> bool:
        """Whether the model lies inside all intervals."""
        return bool(((self.low <= self.shares) & (self.shares <= self.high)).all())


@final
@dataclass(frozen=True, eq=False)
class ReleasedTables:
    """Noisy shares of the tables that a plan lists, in its order; fresh arrays, no view of anything private."""

    shape: tuple[int, ...]  #: number of values of each column
    n: int  #: public number of records
    subsets: tuple[tuple[int, ...], ...]  #: the columns of each table, one or two
    noisy: tuple[FloatArray, ...]  #: shares, one axis a column; of any sign
    #: The noise of each table in counts: the scale of Laplace noise, the standard deviation of Gaussian noise.
    scales: tuple[float, ...]
    law: str  #: "laplace" or "gaussian"

    def variance(self, table: int) -> float:
        """Variance of the noise of one cell, in squared shares."""
        return (2.0 if self.law == "laplace" else 1.0) * (self.scales[table] / self.n) ** 2

    def estimate(self, axes: tuple[int, ...]) -> tuple[FloatArray, float]:
        """Return the best unbiased shares of a measured table, in the order of `axes`, and the scale of their noise."""
        key = tuple(sorted(axes))
        if key not in self.subsets:
            what = "must be one or two columns whose table was measured, for an interval"
            raise InvalidParameterError("columns", axes, what, "Leave interval out: the model has every table")
        table = self.subsets.index(key)
        shares, scale = self.noisy[table], self.scales[table] / self.n
        if self.law == "gaussian":
            variance = scale**2
            if len(key) == 1:
                shares, variance = self._pooled(key[0], shares, variance)
            shares = shares - (shares.sum() - 1) / shares.size
            scale = math.sqrt(variance * (1 - 1 / shares.size))
        return (shares.T if tuple(axes) != key else shares), scale

    def _pooled(self, axis: int, own: FloatArray, variance: float) -> tuple[FloatArray, float]:
        total, weights = own / variance, 1 / variance
        for table, subset in enumerate(self.subsets):
            if len(subset) == 2 and axis in subset:
                other = subset.index(axis) ^ 1
                weight = 1 / (self.variance(table) * self.shape[subset[other]])
                total, weights = total + weight * self.noisy[table].sum(axis=other), weights + weight
        return total / weights, 1 / weights

    def interval(self, axes: tuple[int, ...], shares: FloatArray, level: float, together: bool) -> Marginal:
        """Return the model's `shares` of a measured table with intervals for the data's."""
        _validate.real("interval", level, above=0.0, below=1.0)
        found, scale = self.estimate(axes)
        tail = (1 - level) / (found.size if together else 1)
        reach = scale * (-float(ndtri(tail / 2)) if self.law == "gaussian" else (1 + 2**-18) * -math.log(tail))
        return Marginal(shares, np.clip(found - reach, 0, 1), np.clip(found + reach, 0, 1), level)

    def misfit(self, axes: tuple[int, ...], shares: FloatArray) -> float:
        """Return the root mean square of (model - released) over a table in units of the noise: about 1 if it fits."""
        table = self.subsets.index(axes)
        return float(np.sqrt(np.mean((shares - self.noisy[table]) ** 2) / self.variance(table)))
