r"""Private ranges and bins: histograms of the columns that have none declared, then noisy tables of what was found.

Listing
    1. Count the octaves of every open column (`problems.data.ranges`), with noise, and read its range off them.
    2. Count 128 equal cells of each range, what is exactly 0 and what is missing, with noise. Bins have equal
       shares of what the cells hold, but no cell has more than one; 0 has one where it stands out and a range begins
       there. 3. Release tables of all columns, numbers in their bins, and fit (`noisy_tables`, `noisy_tree`).
Guarantee
    That of the tables, pure epsilon or (epsilon, delta), for the same neighbors: one promise for all steps.
Lemma
    Every number, whatever it is, has exactly one octave, and exactly one of the cells of any given range. So the
    histograms of step 1 are tables of one column, and the Lemma of `noisy_tables` holds as it stands, for users and
    added records, too. Given the outcome of step 1 the cells of step 2 are public; given both the bins are, and a
    record's values are a function of that record alone. Their number, all scales and the tables' plan are fixed before
    records are read: adaptive uses of fixed mechanisms. Pure epsilons add up; with a delta all noise is Gaussian, and
    mu^2 of all steps add up.
Intervals
    From step 3 alone: the noise of step 2 had a part in the choice of the bins, that of step 3 is drawn after it.
Assumptions
    Nothing is refused after a release: every outcome gives a finite range of positive length, and as many increasing
    edges as were planned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _rounding
from dpconvex._types import Array, Floats, forwarded
from dpconvex.algorithms import PredictedError, continued, recorded, stored
from dpconvex.algorithms.queries import noisy_tables
from dpconvex.algorithms.queries.base import Answered, QueryReleasePlan
from dpconvex.algorithms.queries.noisy_tables import NoisyTablesPlan
from dpconvex.algorithms.queries.noisy_tree import NoisyTreePlan
from dpconvex.algorithms.queries.released_tables import ReleasedTables
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Mechanism, Planned
from dpconvex.privacy import Assumption, Ledger, Neighboring, PrivacyParams, Release
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta, largest_mu
from dpconvex.problems import NumberRange
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.rows import mapped, same, totals
from dpconvex.problems.data.summation import Parts
from dpconvex.randomness import BitSource

OCTAVES, CELLS = "octaves of a column without a declared range", "cells of a range that was found"
SHARES = (0.04, 0.2), (0.04, 0.04)
"""Of epsilon, or of mu^2, for the two histograms of all columns: the least and the most, as for linear models."""
NOISY = 0.02  #: Standard deviation of an octave's count, as a share of the records, above which more is spent.
FINE = 128  #: Cells of a range; neither half as many nor twice, nor fewer where noise is large, were better.
STANDS = 3.0  #: Deviations above which 0 may have a bin of its own.
TINY = 2.0**ranges.LOWEST  #: What is smaller than this counts as 0, here as for octaves.
EVEN = 1e-3  #: Share of a bin's numbers that are drawn evenly over it, whatever its cells hold.

Cells = Callable[[Array], NDArray[np.int64]]
Cut = tuple[int, ...]


@stored
@final
@dataclass(frozen=True)
class Open:
    """Columns whose ranges are to be found, by position: public facts."""

    columns: tuple[int, ...]
    linear: tuple[int, ...] = ()  #: Those of them that stay on a linear scale
    missing: tuple[int, ...] = ()  #: Those whose last value stands for missing numbers; of others it is the middle bin


@final
@dataclass(frozen=True)
class FoundBinsPlan(QueryReleasePlan):
    """Ranges and bins of some columns from the data, then noisy tables; a run is given these columns' numbers."""

    then: NoisyTablesPlan | NoisyTreePlan
    open: Open
    parts: tuple[float, float]  #: of epsilon or mu^2, for octaves and for cells
    mu: float  #: Gaussian budget of everything; 0 for Laplace noise
    outer: tuple[NumberRange, ...] = ()  #: Released first
    edges: tuple[Cut, ...] = ()  #: Of the cells of these ranges: the bins' edges
    #: Noisy counts: octaves of each column, then of each the cells of its range, of what is missing, and of 0.
    counted: tuple[Floats, ...] = field(default=(), compare=False, repr=False)
    only_sums: ClassVar[bool] = True
    preferred: ClassVar[bool] = True
    neighbors: ClassVar[tuple[Neighboring, ...]] = NoisyTablesPlan.neighbors  # pyright: ignore[reportIncompatibleVariableOverride]
    constants = "calibrated"
    algorithm = forwarded("then", "algorithm")
    noise_name = forwarded("then", "noise_name")
    ranked = forwarded("then", "ranked")  # pyright: ignore[reportIncompatibleMethodOverride]
    expectation = forwarded("then", "expectation")  # pyright: ignore[reportIncompatibleMethodOverride]
    assumptions = (
        *QueryReleasePlan.assumptions,
        Assumption(
            "the tables depend on bins that were released, and on no other numbers of the data",
            "each record is put into them by itself; the plan is made before the run and does not depend on them",
        ),
    )

    def __post_init__(self) -> None:
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def theorem(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"Adaptive composition of noisy histograms, first of octaves, then of cells, and: {self.then.theorem}"

    @property
    def predicted_error(self) -> PredictedError:
        given = self.then.predicted_error
        return replace(given, source=f"{given.source}; on the bins found", proved=False)

    @cached_property
    def noises(self) -> tuple[tuple[Mechanism[Floats], float], ...]:
        """Of the two histograms of one column: noise, and its deviation in a count."""
        found = []
        for part, size in zip(self.parts, (ranges.CELLS, FINE + 2), strict=True):
            found.append(noisy_tables.table_noise(self.then.law, self.privacy, self.mu, part / self._count, size, 1))
        return tuple(found)

    @property
    def _count(self) -> int:
        return len(self.open.columns)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {label: noise for label, (noise, _) in zip((OCTAVES, CELLS), self.noises, strict=True)}

    @property
    def releases(self) -> tuple[Release, ...]:
        own = (replace(each, times=self._count) for each in super().releases)
        return (*own, *self.then.releases)

    def exact_bits(self, source: BitSource) -> bool:
        return super().exact_bits(source) and self.then.exact_bits(source)

    @property
    def course(self) -> tuple[Any, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (tuple(map(astuple, self.outer)), self.edges) if self.outer else ()

    def resumed(self, *course: Any) -> FoundBinsPlan:
        """Return the plan for released ranges and bins, if they can be released."""
        fields, edges = course
        outer = ranges.read_back(fields, edges, self._count, FINE)
        for k, one, cut in zip(self.open.columns, outer, edges, strict=True):
            if self._bins(k) - len(cut) + 1 not in (0, int(one.lower == cut[0] == 0)):
                raise InvalidParameterError("bins", edges, "must be as many as were planned")
        return continued(self, outer=outer, edges=tuple(map(tuple, edges)))

    def _bins(self, column: int) -> int:
        return self.queries.shape[column] - (column in self.open.missing)

    def describe(self) -> Mapping[str, Any]:
        found = {
            "columns": list(self.open.columns),
            "cells": [ranges.CELLS, FINE],
            "shares": list(self.parts),
            "deviations": [deviation for _, deviation in self.noises],
            "found": [[list(astuple(one)), list(cut)] for one, cut in zip(self.outer, self.edges, strict=True)] or None,
        }
        return {**self.then.describe(), "private_ranges": found}

    @property
    def grids(self) -> tuple[NumberRange, ...]:
        """What cells make up: on a linear scale their width is a power of two, so whole numbers are not cut."""
        found = []
        for one in self.outer:
            step = 2.0 ** math.ceil(math.log2((one.upper - one.lower) / FINE))
            found.append(replace(one, upper=one.lower + FINE * step) if one.transform == "none" else one)
        return tuple(found)

    @property
    def found(self) -> tuple[NumberRange, ...]:
        """The ranges that were found and released; empty before a run."""
        each = zip(self.grids, self.edges, strict=True)
        return tuple(ranges.kept(one, cut[0], cut[-1], FINE) for one, cut in each)

    @property
    def bins(self) -> tuple[tuple[list[float], list[tuple[float, float]]], ...]:
        """For each open column: the edges of its bins, and what share of its numbers lies below each of many places."""
        found = []
        last = self.counted[self._count :]
        for k, one, cut, held in zip(self.open.columns, self.grids, self.edges, last, strict=True):
            shares, own = np.maximum(held[cut[0] : cut[-1]], 0.0), len(cut) <= self._bins(k)
            shares = shares / max(shares.sum(), 1.0) + EVEN / len(shares)
            edges, places = (ranges.knots(one, c, FINE) for c in (cut, range(cut[0], cut[-1] + 1)))
            below = np.append(0.0, np.cumsum(shares)).tolist()
            if own:  # of 0 alone: what lies below the smallest octave
                edges, places, below = [0.0, TINY, *edges[1:]], [0.0, TINY, *places[1:]], [-1.0, *below]
            found.append((edges, list(zip(places, below, strict=True))))
        return tuple(found)

    def _takes(self, records: Array) -> bool:
        return records.shape[1:] == (len(self.queries.shape),) and records.dtype.kind in "iuf"

    def _begun(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> FoundBinsPlan:
        (noise, deviation), (finer, _) = self.noises
        counts = self._counts(records, weights, [ranges.cells] * self._count, ranges.CELLS)
        octaves = [noise.release(each, OCTAVES, source, ledger) for each in counts]
        found = zip(octaves, self.open.columns, strict=True)
        plan = continued(self, outer=tuple(ranges.find(each, deviation, k in self.open.linear) for each, k in found))
        counts = self._counts(records, weights, [partial(_cells, one) for one in plan.grids], FINE + 2)
        held = [finer.release(each, CELLS, source, ledger) for each in counts]
        edges = tuple(map(self._cut, self.open.columns, plan.grids, held))
        return continued(plan, edges=edges, counted=(*octaves, *held))

    def _cut(self, column: int, one: NumberRange, held: Floats) -> Cut:
        """Return the edges of a column's bins among its cells; one less where 0 has a bin of its own."""
        bins, deviation, zeros = self._bins(column), self.noises[1][1], held[-1]
        own = one.lower == 0 and bins > 2 and ranges.knots(one, (0, 1, FINE), FINE)[1] > TINY
        own = own and zeros > max(STANDS * deviation, held.sum() / bins)
        rest = held[:-1].copy()
        if not own:
            rest[ranges.parts(one, np.zeros(1), FINE)] += zeros
        cut = ranges.crowded(one, rest, deviation, bins - own + 1, capped=True)
        return (0, *cut[1:]) if own else cut

    def _counts(self, records: Any, weights: Floats | None, cells: Sequence[Cells], size: int) -> Parts:
        """Return the histogram of every open column; each number is counted in exactly one cell (Lemma)."""

        def work(X: Array, _: Array, own: Floats | None = None) -> Parts:
            columns = zip(cells, self.open.columns, strict=True)
            return tuple(np.bincount(of(X[:, k]), own, size).astype(np.float64) for of, k in columns)

        return totals(records, records, work, weights)

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> Answered:
        return self.then.fitted(self.release(records, source, ledger, weights))

    def release(self, records: Any, source: BitSource, ledger: Ledger, weights: Floats | None = None) -> ReleasedTables:
        """Return noisy tables of records (n, columns), in the bins found."""
        codes, _ = mapped(records, records, self._codes, same)
        return self.then.release(codes, source, ledger, weights)

    def _codes(self, raw: Floats) -> Array:
        """Return the values of all columns of records (n, columns), each record by itself; open ones in their bins."""
        found = np.clip(np.nan_to_num(raw, nan=-1.0), -1, 2**31).astype(np.int64)
        for k, one, cut in zip(self.open.columns, self.grids, self.edges, strict=True):
            found[:, k] = self._bin_of(k, one, cut)[_cells(one, raw[:, k])]
        return found

    def _bin_of(self, column: int, one: NumberRange, cut: Cut) -> Array:
        """Return the bin of each cell of a column's range, of what is missing, and of 0."""
        bins = self._bins(column)
        own = len(cut) <= bins
        found = np.searchsorted(cut[1:-1], np.arange(FINE), side="right") + own
        zero = 0 if own else found[ranges.parts(one, np.zeros(1), FINE)[0]]
        return np.array([*found, bins if column in self.open.missing else bins // 2, zero])


def _cells(found: NumberRange, values: Array) -> Array:
    """Return the cell of every number, (n,): one of the range's, then that of what is missing, then that of 0."""
    with np.errstate(all="ignore"):
        zero = np.abs(np.asarray(values, dtype=np.float64)) < TINY
    return np.where(zero, FINE + 1, ranges.parts(found, values, FINE))


def rest(privacy: PrivacyParams, n: int, columns: int, law: str) -> PrivacyParams:
    """Return the promise that the histograms of so many columns leave for the tables, whose noise has this law."""
    parts = _parts(privacy, n, columns, law)
    left = _rounding.difference_down(1.0, _rounding.sum_up(parts))
    if law != "gaussian":
        return replace(privacy, epsilon=_rounding.product_down(privacy.epsilon, left), delta=0.0)
    mu = _mu(privacy, law) * math.sqrt(left)
    return replace(privacy, epsilon=epsilon_of(lambda epsilon: gaussian_delta(epsilon, mu), privacy.delta))


def _mu(privacy: PrivacyParams, law: str) -> float:
    return largest_mu(privacy.epsilon, privacy.delta) * (1 - 1e-9) if law == "gaussian" else 0.0


def _parts(privacy: PrivacyParams, n: int, columns: int, law: str) -> tuple[float, float]:
    mu = _mu(privacy, law)
    one = noisy_tables.table_noise(law, privacy, mu, 1 / columns, ranges.CELLS, n)[1] / NOISY  # with all of the budget
    needed = one**2 if law == "gaussian" else one
    first, second = (min(max(needed, least), most) for least, most in SHARES)
    return first, second


@recorded("found_bins")
def plan(then: NoisyTablesPlan | NoisyTreePlan, privacy: PrivacyParams, open: Open) -> FoundBinsPlan:
    """Return the plan that finds the bins of some columns for planned tables; `then` keeps a promise of its own."""
    for k in open.columns:
        bins = then.queries.shape[k] - (k in open.missing) if 0 <= k < len(then.queries.shape) else 0
        if not 1 <= bins <= ranges.PARTS:
            raise InvalidParameterError("bins", bins, f"must be 1 to {ranges.PARTS} for a range that is found")
    parts = _parts(privacy, then.n, len(open.columns), then.law)
    return FoundBinsPlan(then.queries, then.n, privacy, then, open, parts, _mu(privacy, then.law))
