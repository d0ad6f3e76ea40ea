r"""Results of a release of queries: noisy tables with intervals for the data's own shares, and models of the tables.

Guarantee
    Functions of released numbers and public facts only: no record reaches this module.
Intervals
    The noise of a cell has a known law, so ``Y +- t/n`` contains the data's share with the stated probability, whatever
    was fitted: ``t = sigma z`` for Gaussian noise, ``t = b log(c/alpha)`` for Laplace noise (c cells together; on the
    grid of the mechanism the tail is below ``exp(-t/b)`` once t is a step longer).
    Matrix noise of a cell is ``sum_k e_k (A_k - B_k)`` with independent chi-squares of q + 1 degrees of freedom, whose
    excess kurtosis is at most ``6 / (q + 1)``; the normal quantile is corrected for that (Cornish and Fisher 1938), so
    intervals are a little long, and not proved. Tables with matrix noise have the known total without any correction.
Known total (Gaussian)
    The cells of a table add up to n, or nearly (`users.exact_weights`), so the mean residual is pure noise; without it
    the variance is ``(1 - 1/cells) sigma^2``. A one-way table is pooled with the row sums of the pairs that contain its
    column, weights inverse to the variances. It is not pooled with pairs that were chosen after its release, because
    its own noise influenced the choice: so its interval is the same function of the same noise whatever is chosen. The
    noise of a chosen pair is drawn after the choice, so its interval holds given the choice. Nothing is pooled for
    Laplace noise, whose sums are not Laplace variables.
Private total
    Where the number n of records is private, shares are noisy counts over an estimate N of n, the mean of the tables'
    noisy sums with weights inverse to their variances. If ``|N - n| <= r`` and ``|Y - c| <= t``, each with probability
    ``1 - alpha/2``, the share ``c/n`` lies between ``(Y - t)/(N + r)`` and ``(Y + t)/(N - r)``. For Laplace noise r is
    a Chernoff bound: a cell of scale a in N has ``log E exp(s Z) = -log(1 - s^2 a^2)``, on the grid no more, and that
    is at most ``2 log(2) s^2 a^2`` for ``s a <= 1/sqrt(2)``.
Models
    Models are distributions over the values of all columns. Records are drawn by *systematic rounding*: shares times
    the number of records are rounded with one uniform number, so that counts are within 1 of their expectations.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from scipy.special import ndtri

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.errors import InvalidParameterError, UnavailableError
from dpconvex.problems.queries import LARGEST, Zero

REDRAWS = 100
SMOOTH = 3  #: Largest degree of the cosines in which relations are smooth
GRID = 1 + 2.0**-18  # covers one step of the mechanism's grid, which is below 2^-20 of the scale


@final_dataclass(eq=False)
class Marginal:
    """A table of shares with an interval for each of them."""

    #: Shares of the fitted model, one axis a column; they agree with every other table and with sampled records.
    shares: Floats
    #: `low` and `high` are the ends of intervals for the shares of the *data*, from the noisy table alone: they hold
    #: for any model.
    low: Floats
    high: Floats
    level: float  #: Probability with which each interval contains its share, or with ``together`` all of them do

    @property
    def fits(self) -> bool:
        """Whether the model lies inside all intervals."""
        return bool(((self.low <= self.shares) & (self.shares <= self.high)).all())


@final_dataclass
class ReleasedTotal:
    """An estimate of the private number of records: a function of noisy tables and of public facts."""

    value: float  #: at least 1
    deviation: float  #: standard deviation of its noise
    steepest: float  #: largest standard deviation that the noise of a single cell contributes to `value`
    law: str  #: law of the cells' noise

    @classmethod
    def of(cls, noisy: Sequence[Floats], deviations: Sequence[float], law: str) -> "ReleasedTotal":
        """Return the estimate from tables of noisy counts whose cells have noise of these deviations."""
        weights = [1 / (table.size * noise**2) for table, noise in zip(noisy, deviations, strict=True)]
        whole = math.fsum(weights)
        value = math.fsum(w / whole * float(table.sum()) for w, table in zip(weights, noisy, strict=True))
        steepest = max(w / whole * noise for w, noise in zip(weights, deviations, strict=True))
        return cls(max(1.0, value), 1 / math.sqrt(whole), steepest, law)

    def reach(self, tail: float) -> float:
        """Return a distance from n that the estimate exceeds with at most this probability, if n is at least 1."""
        if self.law == "gaussian":
            return self.deviation * -float(ndtri(tail / 2))
        need, bend = math.log(2 / tail), math.log(2) * self.deviation**2
        s = min(math.sqrt(need / bend), 1 / self.steepest)
        return need / s + bend * s


@final_dataclass(eq=False)
class ReleasedTables:
    """Noisy shares of the tables that a plan lists, in its order, as fresh arrays, never views of private data."""

    shape: tuple[int, ...]  #: number of values of each column
    subsets: tuple[tuple[int, ...], ...]  #: the columns of each table, one or two
    noisy: tuple[Floats, ...]  #: noisy shares of each table, one axis a column; they may be negative
    deviations: tuple[float, ...]  #: standard deviation of the noise of a share, for each table
    law: str  #: "laplace", "gaussian" or "matrix"
    #: How many of the last tables were chosen after the others were released; the others are not pooled with them.
    chosen: int = 0
    #: With matrix noise, deviations of the coordinates of columns and pairs, whose noise is uncorrelated; else empty.
    coordinates: tuple[float, ...] = ()
    total: ReleasedTotal | None = None  #: divisor of the noisy counts; None: the public number of records

    def _reach(self, tail: float) -> float:
        """Return the number of deviations that the noise of a cell exceeds with this probability."""
        if self.law == "laplace":
            return GRID * -math.log(tail) / math.sqrt(2)
        z = -float(ndtri(tail / 2))
        free = 2 + sum(self.shape) - len(self.shape)  # Matrix noise (Intervals)
        return z if self.law == "gaussian" else z + max(0.0, z**3 - 3 * z) / (4 * free)

    def estimate(self, axes: tuple[int, ...]) -> tuple[Floats, float]:
        """Return the best unbiased shares of a measured table, in the order of `axes`, and its noise's deviation."""
        if (key := tuple(sorted(axes))) not in self.subsets:
            what = "must be one or two columns whose table was measured, for an interval"
            raise InvalidParameterError("columns", axes, what, "Leave interval out: the model has every table")
        table = self.subsets.index(key)
        shares, noise = self.noisy[table], self.deviations[table]
        if self.law == "gaussian" and not self.coordinates:
            total, weights = shares / noise**2, noise**-2
            fixed = len(self.subsets) - self.chosen
            for subset, pair, deviation in list(zip(self.subsets, self.noisy, self.deviations, strict=True))[:fixed]:
                if len(subset) == 2 and len(key) == 1 and key[0] in subset:
                    other = subset.index(key[0]) ^ 1
                    weight = deviation**-2 / pair.shape[other]
                    total, weights = total + weight * pair.sum(axis=other), weights + weight
            shares, known = total / weights, self.total is None
            shares = shares - (shares.sum() - 1) / shares.size * known
            noise = math.sqrt((1 - known / shares.size) / weights)
        return (shares if tuple(axes) == key else shares.T), noise

    def interval(self, axes: tuple[int, ...], shares: Floats, level: float, together: bool) -> Marginal:
        """Return the model's `shares` of a measured table with intervals for the shares of the data."""
        _validate.real("interval", level, above=0.0, below=1.0)
        found, noise = self.estimate(axes)
        missed = (1 - level) if self.total is None else (1 - level) / 2
        reach = noise * self._reach(missed / (found.size if together else 1))
        off = 0.0 if self.total is None else self.total.reach(missed) / self.total.value
        low, high = (found - reach) / (1 + off), (found + reach) / (1 - off) if off < 1 else np.ones(found.shape)
        return Marginal(shares, np.clip(low, 0, 1), np.clip(high, 0, 1), level)

    def report(self, names: Sequence[str], model: Callable[[tuple[int, ...]], Floats]) -> list[dict[str, Any]]:
        """Return for each table its noise, how many noise deviations the model is off, and if it fits (level 0.95).

        The `trend` of a pair is how many deviations it is off in the smoothest relations of both columns, at most.
        """
        rows: list[dict[str, Any]] = []
        for subset, noisy, deviation in zip(self.subsets, self.noisy, self.deviations, strict=True):
            shares = model(subset)
            misfit = float(np.sqrt(np.mean((shares - noisy) ** 2))) / deviation
            fits, columns = self.interval(subset, shares, 0.95, True).fits, [names[axis] for axis in subset]
            both = [cosines(size)[:, :SMOOTH] for size in shares.shape]
            trend = None if len(both) == 1 else float(np.abs(both[0].T @ (shares - noisy) @ both[1]).max()) / deviation
            rows.append({"columns": columns, "deviation": deviation, "misfit": misfit, "trend": trend, "fits": fits})
        return rows


def cosines(size: int) -> Floats:
    """Return an orthonormal basis (size, size - 1) of the vectors of sum 0: cosines of rising degree."""
    return np.sqrt(2 / size) * np.cos(np.pi / size * np.outer(np.arange(size) + 0.5, np.arange(1, size)))


class ReleasedModel(ABC):
    """A public distribution over the combinations of values of some columns."""

    shape: tuple[int, ...]  #: number of values of each column
    impossible: tuple[Zero, ...] = ()  #: pairs of values that never occur together in sampled records and tables

    @final
    def marginal(self, axes: Sequence[int]) -> Floats:
        """Return the shares of all combinations of values of the columns `axes`, one axis a column, in that order.

        Raises `UnavailableError` for more than 2^27 combinations.
        """
        sides = [self.shape[axis] for axis in axes]
        if math.prod(sides) > LARGEST:
            what = f"must have at most {LARGEST} combinations of values together"
            raise UnavailableError("columns", tuple(axes), what, "Ask for fewer columns, or sample records")
        table = self._marginal(tuple(axes)).reshape(sides)
        zeros = [{i: a, j: b} for (i, a), (j, b) in self.impossible if i in axes and j in axes]
        if not zeros:
            return table
        table = table.copy()
        for zero in zeros:
            table[tuple(zero.get(axis, slice(None)) for axis in axes)] = 0.0
        return table / table.sum()

    @final
    def answers(self, subsets: Sequence[Sequence[int]]) -> Floats:
        """Return the shares of the tables of these columns, one table after the other."""
        return np.concatenate([self.marginal(subset).ravel() for subset in subsets])

    @abstractmethod
    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        """Return the shares for distinct columns, in an array of any shape, with impossible pairs not yet removed."""

    @final
    def sample(self, size: int, generator: np.random.Generator) -> Array:
        """Return `size` records, int64 (size, columns), in random order, by systematic rounding.

        Impossible records are drawn again, at most `REDRAWS` times; then they become copies of possible records.
        """
        found = self._sample(_validate.integer("size", size, at_least=1), generator)
        bad = self._violates(found)
        for _ in range(REDRAWS):
            if not bad.any():
                break
            found[bad] = self._sample(int(bad.sum()), generator)
            bad = self._violates(found)
        if bad.all():
            what = "leaves no record that the model would draw"
            raise InvalidParameterError("impossible", len(self.impossible), what, "Declare fewer pairs")
        found[bad] = found[~bad][generator.integers(0, int((~bad).sum()), int(bad.sum()))]
        return generator.permutation(found)

    def _violates(self, records: Array) -> Array:
        bad = np.zeros(len(records), dtype=bool)
        for (i, a), (j, b) in self.impossible:
            bad |= (records[:, i] == a) & (records[:, j] == b)
        return bad

    @abstractmethod
    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        """Return records, in any order, possible or not."""


@final_dataclass(eq=False)
class Histogram(ReleasedModel):
    """One weight for every combination of values."""

    shape: tuple[int, ...]
    weights: Floats  #: shares of all combinations, (cells,): at least 0, of sum 1

    def _marginal(self, axes: tuple[int, ...]) -> Floats:
        table = self.weights.reshape(self.shape).sum(axis=tuple(set(range(len(self.shape))) - set(axes)))
        return table.transpose([sorted(axes).index(axis) for axis in axes])

    def _sample(self, size: int, generator: np.random.Generator) -> Array:
        cells = systematic(self.weights, size, generator)
        return np.stack(np.unravel_index(cells, self.shape), axis=1).astype(np.int64)


def systematic(weights: Floats, size: int, generator: np.random.Generator) -> Array:
    """Return `size` positions, ascending, with counts within 1 of their expectations, by a single uniform number."""
    points = (np.arange(size) + generator.random()) / size
    ends = np.cumsum(weights)
    return np.minimum(np.searchsorted(ends / ends[-1], points, side="right"), len(weights) - 1)


def within(groups: Array, shares: Floats, generator: np.random.Generator) -> Array:
    """Return a value for each record, int64 (size,), with counts in each group within 1 of their expectations.

    `groups` holds the group of each record, integers (size,); `shares` a distribution for each group, (groups, values).
    Which of a group's records get a value is random, so columns drawn one after the other are independent in a group.
    """
    size, count = len(groups), len(shares)
    mine = np.sort(groups, kind="stable")
    counts = np.bincount(groups, minlength=count)
    rank = np.arange(size) - (np.cumsum(counts) - counts)[mine]
    points = mine + np.minimum((rank + generator.random(count)[mine]) / counts[mine], 1 - 1e-9)
    ends = np.arange(count)[:, None] + np.cumsum(shares, axis=1)
    ends[:, -1] = np.arange(count) + 1.0
    values = np.searchsorted(ends.ravel(), points, side="right") - mine * shares.shape[1]
    found = np.empty(size, dtype=np.int64)
    found[np.lexsort((generator.random(size), groups))] = np.clip(values, 0, shares.shape[1] - 1)
    return found
