r"""Private ranges: a run finds ranges, or parts of declared ranges, by noisy counts, then fits with any method.

An octave, a cell of the first histogram, holds the numbers of one sign between two powers of two. A range is cut into
32 equal cells; a part is a row of these, and a look chooses privately which part to keep. Outer ranges are read off
octaves. Places are values scaled to [0, 1]; additive models get knots there. Units are the protected records or users.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one unit; looks also for neighbors that add or remove
    one. All releases read the same data; their epsilons add up (basic adaptive composition). Delta is the method's.
Lemma
    Ranges: every double lies in exactly one of 144 public cells, so the histograms of all columns without a range are
    one release of `JointHistogram`, the target's is another, and they share the epsilon of octaves (Lemma F, twice).
    Crowds: in a range that is released or declared, every number lies in one of 32 public cells, or is missing:
    Lemma F again; or, where no knots are looked for, a look at each released range. Looks: each part of a range scores
    the units in it plus a public number, and permute-and-flip picks one (Lemma T). Moving a part's ends to multiples of
    a public step is post-processing. Method: for each *fixed* outcome, a public map takes a record to one record of the
    method; so neighbors become neighbors (or equal) in a domain free of the outcome. (Docs, Private ranges: proofs.)
Users
    A user's cells are averaged to multiples of 2^-24 that add up to 1 in each column: a point of the simplex, so every
    column sums to n, the number of users. Sums are exact below 2^29 users.
Sensitivity
    Lemmas F and T and the method's plan state it. A part's score moves by at most 1 if a unit is replaced. If one is
    added, all scores grow by 0 to 1: by at most 1/2 about a common change, which moves no choice. Public numbers in
    scores are multiples of 2^-10, and cells count at most 2^23 units, so sums are exact.
Assumptions
    Those of the method, which is planned before the run: nothing is refused after a release.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Array, Floats, IntArray, final_dataclass, forwarded, forwards
from dpconvex.algorithms.base import LinearModelPlan, PrivateResult, check_relation, uses
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import continued, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import WeightedLoss
from dpconvex.mechanisms import JointHistogram, ReportNoisyMax
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Release, Sensitivity
from dpconvex.problems import LinearModelProblem, NumberRange, UserGroups
from dpconvex.problems.data import ranges
from dpconvex.problems.data.domain import replaced
from dpconvex.problems.data.records import as_array
from dpconvex.problems.data.sources.rows import EncodedRows, mapped, same, totals
from dpconvex.problems.data.users import histogram
from dpconvex.randomness import BitSource

RANGES = "histogram of octaves of the columns without declared ranges"
TARGET = "histogram of octaves of the target"
CROWDS = "histogram of 32 cells of each range found"
SHARES = (0.04, 0.2), (0.04, 0.04)
"""Least and largest share of epsilon that a histogram takes, for all columns: of octaves, then of 32 cells."""
NOISY = 0.02  #: Octaves take more than the least share if a count would deviate by more than this share of the units.
ALONE = 0.04, 0.5  #: `NOISY`, and octaves' largest share, for a target alone (`benchmarks/lost_ranges.py --alone`).
TARGET_PART = 1 / 3
"""The target's share of the epsilon for octaves, where columns have octaves, too. A column in a far too wide range is
useless, but a target in one gives predictions that may be anywhere (`benchmarks/lost_ranges.py --parts`)."""
NARROW = 4  #: The second histogram narrows a target's range only if that leaves at most 1/NARROW of its width.
LOST = 0.16, 500.0  #: Ranges are `lost` above this `octaves_off`, or below this n epsilon (`benchmarks/lost_ranges.py`)
CLOSER = "part of each range found, of 32 cells"
LOOK = "part of the target's declared range, of 32 cells"
LOOKS = "parts of the columns' declared ranges, of 32 cells each"
LEMMA = "a replaced record, or user, moves the count of every part by at most 1 (docs, Private ranges, Lemma T)"
ADDED_LEMMA = "one record, or user, more raises the counts of all parts by 0 to 1: they move by at most 1/2 about a "
ADDED_LEMMA += "common change, which moves no choice (docs, Private ranges, Lemma T, added units)"
LOOKED, LOOK_SHARES, NEEDED, HALVED = 300.0, (0.03, 0.1), 500.0, 2.0
"""A look at a target takes epsilon LOOKED/n, within these shares of epsilon, if n epsilon is at least NEEDED. Halving
the width scores as many units as HALVED scales of the noise (`benchmarks/declared_ranges.py`, learning tables)."""
ENDS = 30_000.0  #: Least n epsilon for a look that may cut off yes or no: then halvings are worth 2 % of the units.
LOOKED_FEW, FEW_SHARES, LEAST, LEAST_ALONE = 50.0, (0.1, 0.5), 150.0, 60.0
"""LOOKED and its shares below NEEDED; least n epsilon for a look, or before a constant (`benchmarks/few_records.py`)"""
LOOKED_EACH, EACH_SHARES, HALVED_EACH = 100.0, (0.02, 0.1), 2.0
"""Looks at columns: epsilon times n for each column, limits of the share of epsilon that all looks take together, and
`HALVED`; they are taken if n epsilon is at least `LEAST` times the columns (`benchmarks/few_columns.py`)."""
MOST_WORTH = 0.5
"""Most that all halvings may be worth, of the units: a look at a declared range offers no narrower parts, which would
win where records fill it evenly (`benchmarks/few_columns.py --parts`)."""
SCALED = NumberRange(-0.5, 0.5)  #: Declared ranges are scaled to this one before a target's numbers are counted.
FIRST, STOP = np.triu_indices(ranges.PARTS + 1, 1)  #: Each part's first cell, and the cell after its last
HALF_APART = np.isin(STOP - FIRST, 2 ** np.arange(6)) & (FIRST % np.maximum((STOP - FIRST) // 2, 1) == 0)
"""Parts of 1, 2, 4 to 32 cells that overlap by half: among fewer candidates noise errs less."""
STEPS = 2.0**10  #: The public numbers in scores are multiples of 1 / STEPS.
FULL = 2.0**23  #: Scores count at most this many units of a cell, so that sums are exact for any number of units.
Cells = Callable[[Array], IntArray]
Cut = tuple[tuple[float, float], ...]  #: A part of each range: its first cell (of 32), and the cell after its last
Place = Callable[[Floats, ranges.Ranges, ranges.Places, Cut], Floats]


@final_dataclass
@forwards("then", "algorithm hopeless outlook")
class RangedPlan(TwoStagePlan):
    """A plan that first finds ranges, knots or parts privately, then runs a method: one promise covers both."""

    privacy: PrivacyParams  #: The promise for everything
    first: JointHistogram | None  #: Counts octaves; None where all ranges are declared
    of_target: JointHistogram | None  #: Counts the target's octaves if columns have octaves, too; else None
    second: JointHistogram | None  #: Counts 32 cells of each found range and of each `placed` column; None: not needed
    then: LinearModelPlan
    columns: tuple[int, ...]  #: Positions of the features whose range is found; a run is given their raw numbers
    linear: tuple[int, ...]  #: The members of `columns` that stay on a linear scale
    target: bool  #: Whether the target's range is found, too
    knots: int = 2  #: Knots found for each of `columns`, both ends of its range included; 2: the ends alone
    outer: ranges.Ranges = ()  #: Released ranges read off octaves: of `columns`, then of the target
    edges: tuple[tuple[int, ...], ...] = ()  #: For each outer range, then for `placed`: the ends kept, knots between
    placed: tuple[int, ...] = ()  #: Positions of columns given as places in their declared range; their knots are found
    look: ReportNoisyMax | None = None  #: Chooses the part of the target's declared range to keep
    target_cells: tuple[float, ...] = ()  #: Released part of the target's range, like an entry of `Cut`
    looks: ReportNoisyMax | None = None  #: Chooses the part to keep of the declared range of each `looked` column
    looked: tuple[int, ...] = ()  #: Positions of columns given scaled from their declared range, missing numbers as NaN
    cells: Cut = ()  #: The released part of each `looked` column's range
    steps: tuple[ranges.Step, ...] = ()  #: Steps of the `looked` columns, then of the target; (): none declares a step
    closer: ReportNoisyMax | None = None  #: Chooses the part of each outer range to keep; then there is no `second`
    neighbors = tuple(Neighboring)  # pyright: ignore[reportAssignmentType]
    place: Place | None = field(default=None, compare=False, repr=False)
    """Public map of each record, given ranges and knots, to the method's features; None: numbers are only scaled."""
    problem: ClassVar[LinearModelProblem] = forwarded("then", "problem")
    typical = forwarded("then", "typical")  # of one that finds a typical user's number of records
    presumed = (
        "the method depends on ranges that were released, and on no others",
        "every record is clipped into them by itself; the plan is made before the run and does not depend on them",
    )
    mechanisms = uses(
        {LOOK: "look", LOOKS: "looks", TARGET: "of_target", RANGES: "first", CROWDS: "second", CLOSER: "closer"}
    )

    @property
    def found(self) -> ranges.Ranges:
        """The ranges that were released, for `columns`, then for the target; empty before a run."""
        own = self.edges[: len(self.outer)]  # then come those of places
        return tuple(ranges.kept(one, cut[0], cut[-1]) for one, cut in zip(self.outer, own, strict=True))

    @property
    def found_knots(self) -> ranges.Places:
        """The released knots of each found range, ends included, then of each `placed` column; empty before a run."""
        inside = (*self.outer, *(ranges.WHOLE,) * len(self.placed)) if self.edges else ()
        return tuple(tuple(ranges.knots(one, cut)) for one, cut in zip(inside, self.edges, strict=True))

    @property
    def predicted_error(self) -> PredictedError:
        """The method's predicted error, relative to the best model on the ranges that are found."""
        given = self.then.predicted_error
        return replace(given, source=f"{given.source}; on the ranges found", proved=False)

    @property
    def releases(self) -> tuple[Release, ...]:
        times = {LOOKS: len(self.looked), CLOSER: self._open}
        return tuple(replace(each, times=times.get(each.label, each.times)) for each in super().releases)

    @property
    def course(self) -> tuple[Any, ...]:
        looks = (self.target_cells,) * (self.look is not None) + (self.cells,) * (self.looks is not None)
        found = tuple(map(astuple, self.outer)), self.edges, *looks
        return (*found, *self.then.course) if self.edges or self.target_cells or self.cells else ()

    def resumed(self, *course: Any) -> Any:
        fields, edges, *later = course
        target, *later = later if self.look else ((), *later)
        cells, *later = later if self.looks else ((), *later)
        for each in (*cells, *(target,) * (self.look is not None)):
            if not (len(each) == 2 and 0 <= each[0] < each[1] <= ranges.PARTS):
                what = f"must be the first of {ranges.PARTS} cells, and one after it"
                raise InvalidParameterError("range", each, what)
        if len(cells) != len(self.looked):
            raise InvalidParameterError("range", cells, "must be one part of each column that is looked at")
        outer, sought = ranges.read_back(fields, edges[: self._open], self._open), edges[self._open :]
        whole = (len(cut) == ranges.SOUGHT and (cut[0], cut[-1]) == (0, ranges.PARTS) for cut in sought)
        if len(sought) != len(self.placed) or not all(whole) or any(min(np.diff(cut)) < 1 for cut in sought):
            raise InvalidParameterError("knots", sought, "must be edges of cells, increasing, of each column's range")
        parts = {"target_cells": tuple(target), "cells": tuple(map(tuple, cells))}
        return TwoStagePlan.resumed(continued(self, outer=outer, edges=tuple(map(tuple, edges)), **parts), *later)

    @property
    def theorem(self) -> str:
        histograms = "private histograms, first of octaves, then of the ranges read off them, "
        closer = "a private histogram of octaves and private choices of parts of the ranges read off it, "
        stages = "private choices of parts of declared ranges, " * (self.look is not None or self.looks is not None)
        stages += histograms * (self.second is not None) + closer * (self.closer is not None)
        first = f"Basic composition of {stages}and of a method for records clipped into these, one by one."
        return f"{first} {self.then.theorem}"

    def describe(self) -> Mapping[str, Any]:
        stages = [one for one in (self.first, self.of_target, self.second) if one is not None]
        looks: dict[str, Any] = {}
        if self.look is not None:
            looks["target_range"] = {"epsilon": self.look.epsilon, "cells": list(self.target_cells)}
        if self.looks is not None:
            cost, cells = _rounding.product_up(len(self.looked), self.looks.epsilon), [*map(list, self.cells)]
            looks["column_ranges"] = {"columns": list(self.looked), "epsilon": cost, "cells": cells}
        if not stages:
            return {**self.then.describe(), **looks}
        found = {
            "columns": list(self.columns),
            "target": self.target,
            "cells": stages[0].cells[0],
            "epsilon": _rounding.sum_up([one.epsilon for one in [*stages, *[self.closer] * self._open] if one]),
            "deviations": [float(one.deviations[0]) for one in stages],
            "found": [list(astuple(each)) for each in self.found] or None,
        }
        knots = {"knots_found_in": list(self.placed)} if self.placed else {}
        return {**self.then.describe(), "private_ranges": found | knots, **looks}

    @property
    def _open(self) -> int:
        """Number of ranges to find."""
        return len(self.columns) + self.target

    def through(self, place: Place | None) -> "RangedPlan":
        """Return this plan with `place` as its map of records."""
        return continued(self, place=place)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        outer, edges, target, cells = ranges.Ranges(), tuple[tuple[int, ...], ...](), (), Cut()
        if self.look is not None:
            parts = lambda _, y: ranges.parts(SCALED, self._weighed(y)[0])[None]  # noqa: E731
            counts = counted(X, y, groups, parts, ranges.PARTS + 1)
            worth = max(HALVED, self.problem.loss.spare_tail * self.problem.n / self.look.scale)  # public
            target = _chosen(self.look, counts, worth, LOOK, source, ledger, self.problem.n)[0]
        if self.looks is not None:
            within = SCALED if self.place is None else ranges.WHOLE  # how columns are scaled before a run
            places = lambda X, _: ranges.parts_of_columns(within, X, self.looked)  # noqa: E731
            counts = counted(X, y, groups, places, ranges.PARTS + 1)
            cells = _chosen(self.looks, counts, HALVED_EACH, LOOKS, source, ledger, self.problem.n)
        if self.steps:
            cells = tuple(map(ranges.whole_steps, cells, self.steps))
            target = ranges.whole_steps(target, self.steps[-1]) if target else ()
        if self.first is not None:
            octaves = self._counts(X, y, groups, [ranges.cells] * self._open, ranges.CELLS)
            noisy, off = self._octaves(octaves, source, ledger)  # line 1
            linear = [k in self.linear for k in self.columns] + [True] * self.target
            rare = [ranges.RARE] * len(self.columns) + [ranges.RARER] * self.target
            outer = tuple(map(ranges.find, noisy, off, linear, rare))
        if self.second is not None or self.closer is not None:
            edges = self._edges(X, y, groups, outer, source, ledger)  # line 2: given the outer ranges
        plan = continued(self, outer=outer, edges=edges, target_cells=target, cells=cells)
        part = plan.found[-1].encode if self.target else plan._kept if target else same
        inside = mapped(X, y, plan._placed, part, thin=self.place is None)  # line 3: record by record
        result = plan.then.run(*inside, source, groups)  # line 4: the method, which clips again
        return plan.through(None).restored(result, result.point, source)  # the map is not needed any more

    def _edges(self, X: Any, y: Any, groups: UserGroups | None, outer: Any, source: BitSource, ledger: Ledger) -> Any:
        """Return the cells at the kept ends and knots of each outer range, then of each `placed` column."""
        within, whole = (*outer, *[ranges.WHOLE] * len(self.placed)), (0, ranges.PARTS)
        places: tuple[tuple[int, ...], ...] = ()
        crowds = self._counts(X, y, groups, [partial(ranges.parts, one) for one in within], ranges.PARTS + 1)
        if self.closer is not None:
            closer = partial(_chosen, self.closer, halved=HALVED_EACH, label=CLOSER, source=source, ledger=ledger)
            cells = np.split(crowds, [len(self.columns) * (ranges.PARTS + 1)])
            cuts = zip(outer, closer(cells[0]) + closer(cells[1], n=self.problem.n), strict=True)
            edges = tuple(cut if one.transform == "none" else whole for one, cut in cuts)
        else:
            assert self.second is not None
            noisy = self.second.release(crowds, CROWDS, source, ledger).reshape(len(within), -1)
            off, knots = self.second.deviations, [self.knots] * len(self.columns) + [2] * self.target
            edges = tuple(ranges.crowded(*each) for each in zip(outer, noisy, off, knots, strict=False))
            places = tuple(map(ranges.sought, noisy[self._open :], off[self._open :]))
        if self.target and edges[-1][1] - edges[-1][0] > ranges.PARTS / NARROW:  # a target's tails matter
            edges = (*edges[:-1], whole)
        return *edges, *places

    def _weighed(self, y: Floats) -> tuple[Floats, Any]:
        """Return targets, and the records' weights, or None where records have no weights."""
        loss = self.problem.loss
        return loss.unpacked(loss.clip_targets(y)) if isinstance(loss, WeightedLoss) else (y, None)

    def _kept(self, y: Floats) -> Floats:
        """Return targets scaled within the released part of their range, packed with weights if there are some."""
        (targets, weights), loss = self._weighed(y), self.problem.loss
        first, stop = self.target_cells
        inside = ranges.kept(SCALED, first, stop).encode(targets)
        return loss.packed(inside, weights) if isinstance(loss, WeightedLoss) else inside

    def _octaves(self, counts: Floats, source: BitSource, ledger: Ledger) -> tuple[Floats, Floats]:
        """Return noisy counts of octaves, one row a range, the target's last, and the deviation of each row's noise."""
        assert self.first is not None
        last = len(counts) - ranges.CELLS * (self.of_target is not None)
        noisy, off = self.first.release(counts[:last], RANGES, source, ledger), self.first.deviations
        if self.of_target is not None:
            own = self.of_target.release(counts[last:], TARGET, source, ledger)
            noisy, off = np.append(noisy, own), np.append(off, self.of_target.deviations)
        return noisy.reshape(-1, ranges.CELLS), off

    def _counts(self, X: Any, y: Any, groups: UserGroups | None, cells: Sequence[Cells], count: int) -> Floats:
        """Return joined histograms of `columns`, of the target and, if `cells` has entries for them, of `placed`."""

        def places(X: Any, y: Any) -> Array:
            raw = [X[:, k] for k in self.columns] + [y] * self.target + [X[:, k] for k in self.placed]
            return np.array([of(v) for of, v in zip(cells, raw[: len(cells)], strict=True)], dtype=np.uint8)

        return counted(X, y, groups, places, count)

    def _placed(self, X: Floats) -> Floats:
        """Return the method's features for raw records, by the released ranges."""
        if self.place is not None:
            return self.place(X, self.found, self.found_knots, self.cells)
        if not self.columns and not self.looked:
            return X
        columns = np.array([*self.columns, *self.looked])
        inside, count = np.array(as_array(X[:, columns]), dtype=np.float64, order="C"), len(self.columns)
        for k, one in zip(range(count), self.found, strict=False):
            inside[:, k] = one.encode(inside[:, k])
        ranges.keep(inside, range(count, len(columns)), [ranges.kept(SCALED, *each) for each in self.cells])
        return replaced(X, columns, inside)


def _chosen(
    look: ReportNoisyMax, counts: Floats, halved: float, label: str, source: BitSource, ledger: Ledger, n: int = 0
) -> Cut:
    """Release one part of each range whose cells `counts` holds, range after range, among `offered` ones of n units."""
    rows, parts = counts.reshape(-1, ranges.PARTS + 1), offered(halved * look.scale / n) if n else np.arange(len(FIRST))
    scores = (scored(each, halved * look.scale)[parts] for each in rows)
    chosen = parts[[look.release(each, label, source, ledger) for each in scores]]  # Lemma T
    return tuple((int(FIRST[k]), int(STOP[k])) for k in chosen)


def offered(worth: float) -> IntArray:
    """Return positions of the parts that a look offers where half the width is worth this share of the units."""
    halvings = max(1, min(5, int(MOST_WORTH / worth * (1 + 1e-9))))
    return np.flatnonzero(HALF_APART & (ranges.PARTS >> halvings <= STOP - FIRST))


def scored(counts: Floats, halved: float) -> Floats:
    """Return the score of each part of a range: the units in it, plus the public `halved` for each halving of width."""
    below = np.append(0.0, np.cumsum(np.minimum(counts[: ranges.PARTS], FULL)))
    return below[STOP] - below[FIRST] + np.floor(STEPS * halved * np.log2(ranges.PARTS / (STOP - FIRST))) / STEPS


def counted(X: Any, y: Any, groups: UserGroups | None, places: Callable[..., Array], count: int) -> Floats:
    """Return joined histograms of some columns; `places` gives the cell of each record in each, (columns, n)."""

    def histograms(found: Array) -> Floats:
        return np.concatenate([histogram(each, count, groups) for each in found])

    if groups is None or not isinstance(X, EncodedRows):
        return totals(X, y, lambda X, y: (histograms(places(X, y)),))[0]
    parts = X.run(lambda portion, first, _: (first, places(*portion)))  # a user may be in several portions
    return histograms(np.hstack([part for _, part in sorted(parts, key=lambda each: each[0])]))


def remaining(epsilon: float, n: int, columns: int, placed: int = 0, target: bool = False, knots: int = 2) -> float:
    """Return the epsilon left after finding ranges of `columns` and the target, and knots of `placed` columns."""
    shares = _shares(epsilon, n, columns, placed, target, knots) if columns or placed or target else [0.0]
    return _rounding.difference_down(epsilon, _rounding.sum_up(shares))


def weighing(n: int, privacy: PrivacyParams) -> int:
    """Return the n of `look_cost`: the declared n, or twice that if units may be added, since noise is then half."""
    return n if privacy.neighboring.fixes_size else 2 * n


def look_cost(epsilon: float, n: int, alone: bool = False) -> float:
    """Return the epsilon of a look at a target of n units, 0 where it would not pay; `alone`: a constant follows."""
    looked, shares = (LOOKED_FEW, FEW_SHARES) if n * epsilon < NEEDED else (LOOKED, LOOK_SHARES)
    return _cost(epsilon, n, looked, shares, LEAST_ALONE if alone else LEAST)


def looks_cost(epsilon: float, n: int, columns: int) -> float:
    """Return the epsilon of the looks at all of these columns, of n units; 0 where looks would not pay."""
    return _cost(epsilon, n, LOOKED_EACH * columns, EACH_SHARES, LEAST * columns) if columns else 0.0


def _cost(epsilon: float, n: int, looked: float, shares: tuple[float, float], needed: float) -> float:
    share = min(max(looked / max(n * epsilon, 1.0), shares[0]), shares[1])
    return _rounding.product_down(share, epsilon) if n * epsilon >= needed else 0.0


def _closer(epsilon: float, n: int, columns: int, placed: int, target: bool, knots: int) -> float:
    """Return the epsilon of looks at all outer ranges; 0 where a histogram counts their cells instead."""
    return 0.0 if placed or knots > 2 else looks_cost(epsilon, n, columns + target)


def _shares(epsilon: float, n: int, columns: int, placed: int = 0, target: bool = False, knots: int = 2) -> list[float]:
    """Return the epsilons of octaves, if a range is to be found, and of cells, from the arguments of `remaining`."""
    noisy, largest = ALONE if target and not columns and not placed else (NOISY, SHARES[0][1])
    needed = math.sqrt(8) * (columns + target) / (noisy * n * epsilon)  # cells deviate by sqrt(8) columns/epsilon
    limits = (SHARES[0][0], largest), SHARES[1]
    first, second = (_rounding.product_down(min(max(needed, least), most), epsilon) for least, most in limits)
    return [first, _closer(epsilon, n, columns, placed, target, knots) or second] if columns + target else [second]


def octaves_off(epsilon: float, n: int, columns: int) -> float:
    """Return the noise deviation of an octave's count, over n, if all columns have equal parts of epsilon."""
    return math.sqrt(8) * columns / (n * _shares(epsilon, n, columns)[0])


def lost(epsilon: float, n: int, columns: int) -> bool:
    """Return whether the ranges of these columns, the target among them, would be lost in noise (see `LOST`)."""
    return columns > 1 and (octaves_off(epsilon, n, columns) > LOST[0] or n * epsilon < LOST[1])


def worth_knots(epsilon: float, n: int, placed: int) -> bool:
    """Return whether the cells of `placed` columns would be counted with a deviation of at most `NOISY` n units."""
    return math.sqrt(8) * placed <= NOISY * n * SHARES[1][0] * epsilon


@recorded("ranges")
def plan(
    then: LinearModelPlan, privacy: PrivacyParams, columns: tuple[int, ...], linear: tuple[int, ...] = (),
    target: bool = False, knots: int = 2, placed: tuple[int, ...] = (), look: bool = False,
    looked: tuple[int, ...] = (), steps: tuple[ranges.Step, ...] = (),
) -> RangedPlan:  # fmt: skip
    """Return the plan that finds ranges for a planned method; `then` keeps its own promise.

    Arguments are fields of `RangedPlan`, but `look` says whether to look at the target's range. In the problem of
    `then`, the target has width 1 if its range is found. Of the epsilon that `then` and histograms leave, looks at
    columns take `looks_cost`, or all of it if there is no look at the target, which takes the rest.
    """
    hidden = not (columns or placed or target)  # then only Lemma T is used, which also holds for added units
    known = RangedPlan.neighbors if hidden else TwoStagePlan.neighbors
    check_relation(privacy, users=True, neighbors=known, added_users=True)
    count, every = len(columns) + target, (*columns, *placed, *looked)
    if not set(linear) <= set(columns) or len(set(every)) < len(every) or not len(every) + target + look:
        raise InvalidParameterError("columns", columns, "must be different columns")
    if (columns or placed) and not 2 <= knots <= ranges.PARTS // 2:  # else none are found
        raise InvalidParameterError("knots", knots, f"must be 2 to {ranges.PARTS // 2}")
    facts = privacy.epsilon, then.problem.n, len(columns), len(placed), target, knots
    *octaves, share = _shares(*facts)
    first = of_target = None
    if octaves:
        own = _rounding.product_down(TARGET_PART, octaves[0]) if target and columns else 0.0
        of_target = JointHistogram((ranges.CELLS,), own, privacy.unit) if own else None
        others = _rounding.difference_down(octaves[0], own)
        first = JointHistogram((ranges.CELLS,) * (count - (own > 0)), others, privacy.unit)
    cells = (ranges.PARTS + 1,) * (count + len(placed))
    rest, moved = replace(privacy, epsilon=remaining(*facts)).less(0.0).epsilon, Sensitivity(1.0, "linf", LEMMA)
    moved = moved if privacy.neighboring.fixes_size else Sensitivity(0.5, "linf", ADDED_LEMMA)
    left = _rounding.difference_down(rest, then.privacy.epsilon)
    cost = min(left, looks_cost(rest, weighing(then.problem.n, privacy), len(looked))) if look else left
    if look and looked and not 0 < cost < left:
        what = f"must have {LEAST:g} units times epsilon each, and leave some to the look at the target"
        raise InvalidParameterError("looked", looked, what, "Look at one of them alone")
    of = partial(ReportNoisyMax, replace(moved, neighboring=privacy.neighboring, unit=privacy.unit))
    choice = of(_rounding.difference_down(left, cost)) if look else None
    choices = of(_rounding.ratio_down(cost, len(looked))) if looked else None
    closer = of(_rounding.ratio_down(share, count)) if _closer(*facts) > 0 else None
    second = JointHistogram(cells, share, privacy.unit) if cells and closer is None else None
    stages: dict[str, Any] = {"closer": closer, "look": choice, "looks": choices, "looked": looked, "steps": steps}
    return RangedPlan(privacy, first, of_target, second, then, columns, linear, target, knots, placed=placed, **stages)
