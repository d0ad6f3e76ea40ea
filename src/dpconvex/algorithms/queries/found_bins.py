r"""Private bins, and ranges where none are declared: histograms of columns, then noisy tables of what was found.

Listing
    1. Count with noise the octaves (powers of two of either sign, `problems.data.ranges`) of every column without a
       range, and derive its range from them. 2. Count with noise the cells of every range, found or declared, and the
       missing values. Bins hold equal shares of the records, as far as noise allows; a cell that stands out is a bin.
    3. Release tables of all columns, numbers in their bins, and fit (`noisy_tables`, `noisy_tree`, `grouped_tables`).
Guarantee
    The guarantee of the tables, pure epsilon or (epsilon, delta), for their neighbors: one promise for all steps.
Lemma
    Every number has exactly one octave. The cells of a range are given by increasing edges; the first and the last cell
    extend beyond the ends, and missing values have one more cell, so every number lies in exactly one cell. So the
    histograms of both steps are tables of one column, and the Lemma of `noisy_tables` holds unchanged, for users and
    added records too. Cells of a declared range are public, cells of a found range are public given step 1, bins given
    step 2, and a record's values are a function of that record alone. The number of bins, all scales and the tables'
    plan are fixed before records are read: adaptive uses of fixed mechanisms. Pure epsilons add up; with a delta all
    noise is Gaussian, and mu^2 of all steps add up.
Intervals
    From step 3 alone, whose noise is drawn after the bins were chosen; the noise of step 2 influenced that choice.
Assumptions
    Nothing is refused after a release: every outcome gives a finite range of positive length, and as many increasing
    edges as were planned.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, cast

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Array, Floats, IntArray, final_dataclass
from dpconvex.algorithms import PredictedError, continued, recorded, stored
from dpconvex.algorithms.queries import noisy_tables
from dpconvex.algorithms.queries.base import Answered, QueryReleasePlan, StagedPlan, mu_of
from dpconvex.algorithms.queries.grouped_tables import GroupedTablesPlan
from dpconvex.algorithms.queries.noisy_tree import NoisyTreePlan
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Mechanism, Planned
from dpconvex.privacy import Assumption, Ledger, Neighboring, PrivacyParams, Release
from dpconvex.privacy.params import check_part
from dpconvex.problems import NumberRange
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.rows import mapped, same, totals
from dpconvex.problems.data.summation import Parts
from dpconvex.randomness import BitSource

OCTAVES, CELLS = "octaves of a column without a declared range", "cells of a column's range"
SHARES = (0.04, 0.2), (0.04, 0.04)
"""Least and most share of the budget (epsilon or mu^2) that all octave histograms together get, and least and most
share of all cell histograms; the values of linear models."""
NOISY = 0.02  #: Octaves get more than their least share where their noise exceeds this share of the records.
SIZE = ranges.GRID + 3  #: Largest number of cells: those of a grid, 0, one beside 0, and last missing values.
EVEN = 1e-3  #: This share of a bin's numbers is drawn evenly over its cells, whatever the noisy counts are.
PAYS = 0.15  #: Bins of declared ranges are found by default if a cell's noise is at most this share of the records.
OfBins = noisy_tables.NoisyTablesPlan | NoisyTreePlan | GroupedTablesPlan  #: Plans that may release tables of the bins.


@stored
@final_dataclass
class Open:
    """Columns whose bins are to be found, all given by position: public facts."""

    columns: tuple[int, ...]
    linear: tuple[int, ...] = ()  #: Columns that stay on a linear scale if their range is found
    missing: tuple[int, ...] = ()  #: Columns with an extra last value for missing numbers; others use the middle bin
    #: Columns with a declared range: position, lower and upper end, transform, scale, and step.
    within: tuple[tuple[int, float, float, str, float, float], ...] = ()

    @cached_property
    def grids(self) -> dict[int, Array]:
        """Edges of the public cells of declared ranges, by position."""
        return {k: np.array(ranges.grid(NumberRange(*one), step)) for k, *one, step in cast(Any, self.within)}

    @property
    def unranged(self) -> tuple[int, ...]:
        """Columns whose ranges are to be found."""
        return tuple(k for k in self.columns if k not in self.grids)


@final_dataclass
class FoundBinsPlan(StagedPlan):
    """Private bins, and ranges, of some columns, then noisy tables; a run takes the raw numbers of these columns."""

    then: OfBins
    open: Open
    parts: tuple[float, float]  #: shares of epsilon or mu^2 that the octave and the cell histograms get
    mu: float  #: Gaussian budget of the whole release; 0 for Laplace noise
    outer: tuple[NumberRange, ...] = ()  #: The found ranges of the columns without one, released in step 1
    edges: tuple[tuple[int, ...], ...] = ()  #: For each open column, the edges of its bins, as cell indices
    #: Noisy counts: octaves of each column without a range, then the cells of each open column's range.
    counted: tuple[Floats, ...] = field(default=(), compare=False, repr=False)
    neighbors: ClassVar[tuple[Neighboring, ...]] = noisy_tables.NoisyTablesPlan.neighbors
    assumptions = (
        *QueryReleasePlan.assumptions,
        Assumption(
            "the tables depend on bins that were released, and on no other numbers of the data",
            "each record is put into them by itself; the plan is made before the run and does not depend on them",
        ),
    )

    @property
    def theorem(self) -> str:
        return f"Adaptive composition of noisy histograms, first of octaves, then of cells, and: {self.then.theorem}"

    @property
    def predicted_error(self) -> PredictedError:
        given = self.then.predicted_error
        return replace(given, source=f"{given.source}; on the bins found", proved=False)

    @cached_property
    def noises(self) -> dict[str, tuple[Mechanism[Floats], float, int]]:
        """For both kinds of histograms: noise, its deviation in a count, and the number of such histograms."""
        times, sizes = (len(self.open.unranged), len(self.open.columns)), (ranges.CELLS, SIZE)
        each = zip((OCTAVES, CELLS), self.parts, times, sizes, strict=True)
        noise = partial(noisy_tables.table_noise, self.then.law, self.privacy, self.mu)
        return {label: (*noise(part / many, size, 1), many) for label, part, many, size in each if many}

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {label: noise for label, (noise, *_) in self.noises.items()}

    @property
    def releases(self) -> tuple[Release, ...]:
        own = (replace(each, times=self.noises[each.label][2]) for each in super().releases)
        return (*own, *self.then.releases)

    @property
    def course(self) -> tuple[Any, ...]:
        return (tuple(map(astuple, self.outer)), self.edges) if self.edges else ()

    def resumed(self, *course: Any) -> "FoundBinsPlan":
        fields, edges = course[0], tuple(map(tuple, course[1]))
        if [len(cut) for cut in edges] != [self._bins(k) + 1 for k in self.open.columns]:
            raise InvalidParameterError("bins", edges, "must be as many as were planned")
        own = [cut for k, cut in zip(self.open.columns, edges, strict=True) if k not in self.open.grids]
        plan = continued(self, outer=ranges.read_back(fields, own, len(self.open.unranged), SIZE), edges=edges)
        for k, grid, cut in zip(self.open.columns, plan.grids, edges, strict=True):
            whole = cut[:1] + cut[-1:] == (0, len(grid) - 1) or k not in self.open.grids
            if cut[-1] >= len(grid) or min(np.diff(cut)) < 1 or not whole:
                raise InvalidParameterError("bins", edges, "must be edges of the column's cells")
        return plan

    def _bins(self, column: int) -> int:
        return self.queries.shape[column] - (column in self.open.missing)

    def describe(self) -> Mapping[str, Any]:
        facts = {"columns": list(self.open.columns), "cells": [ranges.CELLS, SIZE], "shares": list(self.parts)}
        facts |= {"deviations": [deviation for _, deviation, _ in self.noises.values()]}
        found = {"ranges": [list(astuple(one)) for one in self.outer], "found": [*map(list, self.edges)] or None}
        return {**self.then.describe(), "private_bins": facts | found}

    @cached_property
    def grids(self) -> tuple[Array, ...]:
        """Edges of the cells of every column's range; empty before ranges are found."""
        waiting = map(_grid, self.outer)
        return tuple(self.open.grids[k] if k in self.open.grids else next(waiting) for k in self.open.columns)

    @property
    def found(self) -> dict[int, NumberRange]:
        """The ranges that were found and released, by position; empty before a run."""
        cells = {k: (grid, cut) for k, grid, cut in zip(self.open.columns, self.grids, self.edges, strict=True)}
        each = ((k, one, *cells[k]) for k, one in zip(self.open.unranged, self.outer, strict=True))
        return {k: replace(one, lower=grid[cut[0]].item(), upper=grid[cut[-1]].item()) for k, one, grid, cut in each}

    @property
    def bins(self) -> tuple[tuple[list[float], list[tuple[float, float]]], ...]:
        """For each open column: the edges of its bins, and for each cell edge the share of numbers below it."""
        found = []
        for grid, cut, held in zip(self.grids, self.edges, self.counted[len(self.outer) :], strict=True):
            first, stop = cut[0], cut[-1]
            held = ranges.shares(held[first:stop], self.noises[CELLS][1]) + EVEN / (stop - first)
            below = np.append(0.0, np.cumsum(held)).tolist()
            found.append((grid[list(cut)].tolist(), list(zip(grid[first : stop + 1].tolist(), below, strict=True))))
        return tuple(found)

    def _takes(self, records: Array) -> bool:
        return records.shape[1:] == (len(self.queries.shape),) and records.dtype.kind in "iuf"

    def _begun(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> "FoundBinsPlan":
        unranged, octaves, plan = self.open.unranged, [], self
        if unranged:
            noise, deviation, _ = self.noises[OCTAVES]
            counts = self._counts(records, weights, unranged, [ranges.cells] * len(unranged), ranges.CELLS)
            octaves = [noise.release(each, OCTAVES, source, ledger) for each in counts]
            pairs = zip(octaves, unranged, strict=True)
            plan = continued(self, outer=tuple(ranges.find(c, deviation, k in self.open.linear) for c, k in pairs))
        noise, deviation, _ = self.noises[CELLS]
        counts = self._counts(records, weights, self.open.columns, [partial(_cells, one) for one in plan.grids], SIZE)
        held = [noise.release(each, CELLS, source, ledger) for each in counts]
        waiting, edges = iter(plan.outer), []
        for k, grid, each in zip(self.open.columns, plan.grids, held, strict=True):
            bins, (first, stop) = self._bins(k), (0, len(grid) - 1)
            if k not in self.open.grids:
                first, *_, stop = ranges.crowded(next(waiting), each[: stop + 1], deviation, bins + 1)
            edges.append(tuple(first + c for c in ranges.split(each[first:stop], deviation, bins)))
        return continued(plan, edges=tuple(edges), counted=(*octaves, *held))

    def _counts(
        self, records: Any, weights: Floats | None, columns: Sequence[int], cells: Sequence[Any], size: int
    ) -> Parts:
        """Return a histogram of each of these columns; each number is counted in exactly one cell (Lemma)."""

        def work(X: Array, _: Array, own: Floats | None = None) -> Parts:
            pairs = zip(cells, columns, strict=True)
            return tuple(np.bincount(of(X[:, k]), own, size).astype(np.float64) for of, k in pairs)

        return totals(records, records, work, weights)

    def _run(self, records: Any, weights: Floats | None, source: BitSource, ledger: Ledger) -> Answered:
        return self.then._run(self.binned(records), weights, source, ledger)

    def binned(self, records: Any) -> Any:
        """Return the values of records (n, columns), in the bins found."""
        return mapped(records, records, self._codes, same)[0]

    def _codes(self, raw: Floats) -> Array:
        """Return the values of records (n, columns), those of open columns in their bins; each record by itself."""
        found = np.clip(np.nan_to_num(raw, nan=-1.0), -1, 2**31).astype(np.int64)
        for k, grid, cut in zip(self.open.columns, self.grids, self.edges, strict=True):
            bins = self._bins(k)
            place = np.searchsorted(cut[1:-1], np.arange(SIZE), side="right")  # of each cell
            place[-1] = bins if k in self.open.missing else bins // 2
            found[:, k] = place[_cells(grid, raw[:, k])]
        return found


def _grid(found: NumberRange) -> Array:
    """Return the edges of the equal cells of a range that was found, and of a cell for 0."""
    if found.transform == "none":  # cells whose width is a power of two do not split whole numbers
        step = 2.0 ** math.ceil(math.log2((found.upper - found.lower) / ranges.GRID))
        found = replace(found, upper=found.lower + ranges.GRID * step)
    zero = (0.0, ranges.point(found.upper - found.lower)) if found.lower <= 0 < found.upper else ()
    return np.unique([*found.even(ranges.GRID + 1), *zero])


def _cells(edges: Array, values: Array) -> IntArray:
    """Return the cell of every number, (n,): beyond the ends the first or last cell, `SIZE` - 1 if it is missing."""
    values = np.asarray(values, dtype=np.float64)
    return np.where(np.isnan(values), SIZE - 1, np.searchsorted(edges[1:-1], values, side="right"))


def rest(privacy: PrivacyParams, n: int, open: Open, law: str) -> PrivacyParams | None:
    """Return what the histograms leave of the promise for the tables, whose noise has this law (`part_of`)."""
    left = _rounding.difference_down(1.0, _rounding.sum_up(_parts(privacy, n, open, law)))
    return noisy_tables.part_of(privacy, law, left)


def pays(privacy: PrivacyParams, n: int, columns: int) -> bool:
    """Return whether cells have little enough noise to find the bins of `columns` columns; from public facts."""
    law = "gaussian" if privacy.delta else "laplace"
    part = SHARES[1][0] / max(columns, 1)
    return columns > 0 and noisy_tables.table_noise(law, privacy, mu_of(privacy, law), part, SIZE, n)[1] <= PAYS


def _parts(privacy: PrivacyParams, n: int, open: Open, law: str) -> tuple[float, float]:
    mu, least, many = mu_of(privacy, law), SHARES[1][0], len(open.unranged)
    if not many:
        return 0.0, least
    one = noisy_tables.table_noise(law, privacy, mu, 1 / many, ranges.CELLS, n)[1] / NOISY  # with all of the budget
    return min(max(one**2 if law == "gaussian" else one, SHARES[0][0]), SHARES[0][1]), least


@recorded("found_bins")
def plan(then: OfBins, privacy: PrivacyParams, open: Open) -> FoundBinsPlan:
    """Return the plan that finds the bins of the `open` columns and then runs `then`, planned with what is left."""
    check_part(privacy, then.privacy, "then")
    for k in open.columns:
        bins = then.queries.shape[k] - (k in open.missing) if 0 <= k < len(then.queries.shape) else 0
        most = len(open.grids[k]) - 1 if k in open.grids else ranges.PARTS
        if not 1 <= bins <= most:
            raise InvalidParameterError("bins", bins, f"must be 1 to {most} where they are found")
    parts = _parts(privacy, then.n, open, then.law)
    return FoundBinsPlan(then.queries, then.n, privacy, then, open, parts, mu_of(privacy, then.law))
