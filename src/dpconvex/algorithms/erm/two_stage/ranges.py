r"""Ranges from the data: a private histogram of octaves of the columns that have none declared, then any method.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one record, or one user: three runs on the same data,
    whose epsilons add up (basic adaptive composition); delta is the method's.
Lemma
    Ranges: every double lies in exactly one of 144 public cells, so the histograms of all columns without a range, the
    target's among them, are one release of `JointHistogram` (Lemma F). Crowds: given the ranges read off it, every
    number lies in one of 32 public cells, or is missing: Lemma F again. Method: for each *fixed* outcome, the map from
    a record's cells, and from its target, to the method's is public and takes one record; so neighbors become neighbors
    (or equal) in a domain that does not depend on the outcome. (Docs, Private ranges, with proofs.)
Users
    A user's cells are averaged to multiples of 2^-24 that add up to exactly 1 in each column: a point of the simplex
    again, and n, the number of users, is the sum of every column. Sums are exact below 2^29 users.
Sensitivity
    Of each release its own, above and in the method's plan.
Assumptions
    Those of the method, which is planned before the run: nothing is refused after a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _rounding
from dpconvex._types import Array, Floats, forwarded
from dpconvex.algorithms.base import LinearModelPlan, PrivateResult
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import continued, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import JointHistogram, Planned
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems import NumberRange, UserGroups
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.rows import EncodedRows, mapped, same, totals
from dpconvex.randomness import BitSource

RANGES = "histogram of octaves of the columns without declared ranges"
CROWDS = "histogram of 32 cells of each range found"
SHARES = (0.04, 0.2), (0.04, 0.04)
"""Of epsilon, for the octaves and for the cells of all columns together: the least and the most."""
NOISY = 0.02  #: Standard deviation of an octave's count, as a share of the records, above which more is spent.
UNITS = 2**24  #: Parts into which a user's weight is divided among the cells of a column.

Cells = Callable[[Array], NDArray[np.int64]]
Place = Callable[[Floats, tuple[NumberRange, ...], tuple[tuple[float, ...], ...]], Floats]


@final
@dataclass(frozen=True)
class RangedPlan(TwoStagePlan):
    """Ranges of some columns, which a run is given as they are, from the data, then a method: one promise for both."""

    privacy: PrivacyParams  #: The promise for everything
    first: JointHistogram
    second: JointHistogram
    then: LinearModelPlan
    columns: tuple[int, ...]  #: Positions among the features
    linear: tuple[int, ...]  #: Those of them that stay on a linear scale
    target: bool  #: Whether the target's range is looked for, too
    knots: int = 2  #: Of each of these columns; 2: only its ends
    outer: tuple[NumberRange, ...] = ()  #: Released first
    edges: tuple[tuple[int, ...], ...] = ()  #: Of the cells of these ranges: what is kept, and knots between
    place: Place | None = field(default=None, compare=False, repr=False)
    """Public map of single records, given ranges and knots, to the method's features; None: numbers are scaled."""

    @property
    def found(self) -> tuple[NumberRange, ...]:
        """The ranges that were found and released, of the columns, then of the target; empty before a run."""
        return tuple(ranges.kept(one, cut[0], cut[-1]) for one, cut in zip(self.outer, self.edges, strict=True))

    @property
    def found_knots(self) -> tuple[tuple[float, ...], ...]:
        """The knots that were found, of each range, ends included; empty before a run."""
        return tuple(tuple(ranges.knots(one, cut)) for one, cut in zip(self.outer, self.edges, strict=True))

    problem = forwarded("then", "problem")
    algorithm = forwarded("then", "algorithm")
    presumed = (
        "the method depends on ranges that were released, and on no others",
        "every record is clipped into them by itself; the plan is made before the run and does not depend on them",
    )

    @property
    def predicted_error(self) -> PredictedError:
        """The method's: of the best model on the ranges that are found."""
        given = self.then.predicted_error
        return replace(given, source=f"{given.source}; on the ranges found", proved=False)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {RANGES: self.first, CROWDS: self.second}

    @property
    def course(self) -> tuple[Any, ...]:
        return (tuple(map(astuple, self.outer)), self.edges, *self.then.course) if self.outer else ()

    def resumed(self, *course: Any) -> RangedPlan:
        """Return the plan for released ranges, if they can be released, and for what came since."""
        fields, edges, *later = course
        outer = ranges.read_back(fields, edges, len(self.first.cells))
        plan = continued(self, outer=outer, edges=tuple(map(tuple, edges)))
        return plan.after(cast(LinearModelPlan, plan.then.resumed(*later))) if later else plan

    @property
    def theorem(self) -> str:
        return (
            "Basic composition of private histograms, first of octaves, then of the ranges read off them, and of a "
            f"method for records clipped into these, one by one. {self.then.theorem}"
        )

    def describe(self) -> Mapping[str, Any]:
        found = {
            "columns": list(self.columns),
            "target": self.target,
            "cells": ranges.CELLS,
            "epsilon": _rounding.sum_up((self.first.epsilon, self.second.epsilon)),
            "deviations": [float(one.deviations[0]) for one in (self.first, self.second)],
            "found": [list(astuple(each)) for each in self.found] or None,
        }
        return {**self.then.describe(), "private_ranges": found}

    def at(self, privacy: PrivacyParams) -> RangedPlan:
        rest = replace(privacy, epsilon=remaining(privacy.epsilon, self.problem.n, len(self.first.cells)))
        then: Any = self.then
        return plan(then.at(rest), privacy, self.columns, self.linear, self.target, self.knots).through(self.place)

    def through(self, place: Place | None) -> RangedPlan:
        """Return this plan, to run with such a map of records."""
        return continued(self, place=place)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        octaves = self._counts(X, y, groups, [ranges.cells] * len(self.first.cells), ranges.CELLS)
        noisy = self.first.release(octaves, RANGES, source, ledger).reshape(-1, ranges.CELLS)  # line 1: all at once
        linear = [k in self.linear for k in self.columns] + [True] * self.target
        outer = tuple(map(ranges.find, noisy, self.first.deviations, linear))
        crowds = self._counts(X, y, groups, [partial(ranges.parts, one) for one in outer], ranges.PARTS + 1)
        noisy = self.second.release(crowds, CROWDS, source, ledger).reshape(len(outer), -1)  # line 2: given them
        knots = [self.knots] * len(self.columns) + [2] * self.target
        edges = tuple(map(ranges.crowded, outer, noisy, self.second.deviations, knots))
        plan = continued(self, outer=outer, edges=edges)
        inside = mapped(X, y, plan._placed, plan.found[-1].encode if self.target else same)  # line 3: record by record
        result = plan.then.run(*inside, source, groups)  # line 4: the method, which clips again
        return plan.restored(result, result.point, source)

    def _counts(self, X: Any, y: Any, groups: UserGroups | None, cells: Sequence[Cells], count: int) -> Floats:
        """Return the histograms of all columns and the target, one after the other."""

        def places(X: Any, y: Any) -> Array:
            raw = [X[:, k] for k in self.columns] + [y] * self.target
            return np.array([of(v) for of, v in zip(cells, raw, strict=True)], dtype=np.uint8)

        def counted(found: Array) -> Floats:
            return np.concatenate([histogram(each, count, groups) for each in found])

        if groups is None or not isinstance(X, EncodedRows):
            return totals(X, y, lambda X, y: (counted(places(X, y)),))[0]
        parts = X.run(lambda portion, first, _: (first, places(*portion)))  # a user may be in several portions
        return counted(np.hstack([part for _, part in sorted(parts, key=lambda each: each[0])]))

    def _placed(self, X: Floats) -> Floats:
        """Return the method's features of records, now that ranges are released."""
        if self.place is not None:
            return self.place(X, self.found, self.found_knots)
        inside = np.array(X, dtype=np.float64)
        for k, one in zip(self.columns, self.found, strict=False):
            inside[:, k] = one.encode(inside[:, k])
        return inside


def remaining(epsilon: float, n: int, columns: int) -> float:
    """Return what the ranges of so many columns of n units leave of epsilon for the method."""
    shares = _shares(epsilon, n, columns) if columns else [0.0]
    return _rounding.difference_down(epsilon, _rounding.sum_up(shares))


def _shares(epsilon: float, n: int, columns: int) -> list[float]:
    needed = math.sqrt(8) * columns / (NOISY * n * epsilon)  # cells deviate by about sqrt(8) columns/epsilon
    return [_rounding.product_down(min(max(needed, least), most), epsilon) for least, most in SHARES]


@recorded("ranges")
def plan(
    then: LinearModelPlan,
    privacy: PrivacyParams,
    columns: tuple[int, ...],
    linear: tuple[int, ...] = (),
    target: bool = False,
    knots: int = 2,
) -> RangedPlan:
    """Return the plan that finds the ranges of some columns for a planned method; `then` keeps its own promise.

    Columns are those that a run is given. In the method's problem, the target has width 1 if its range is looked for.
    """
    count = len(columns) + target
    if not set(linear) <= set(columns) or len(set(columns)) < len(columns) or not count:
        raise InvalidParameterError("columns", columns, "must be different columns")
    if not 2 <= knots <= ranges.PARTS // 2:
        raise InvalidParameterError("knots", knots, f"must be 2 to {ranges.PARTS // 2}")
    if then.privacy.unit != privacy.unit:
        raise InvalidParameterError("unit", str(privacy.unit), "must be that of the method")
    sizes = zip((ranges.CELLS, ranges.PARTS + 1), _shares(privacy.epsilon, then.problem.n, count), strict=True)
    first, second = (JointHistogram((size,) * count, share, privacy.unit) for size, share in sizes)
    return RangedPlan(privacy, first, second, then, columns, linear, target, knots)


def histogram(cells: Array, count: int, groups: UserGroups | None) -> Floats:
    """Return how many records, or users, each cell has, (count,); the cells of a user's records are averaged."""
    if groups is None:
        return np.bincount(cells, minlength=count).astype(np.float64)
    order = slice(None) if groups.order is None else groups.order
    users = np.repeat(np.arange(groups.n_users), groups.sizes)
    keys, found = np.unique(users * count + cells[order], return_counts=True)
    user, cell = np.divmod(keys, count)
    sizes = groups.sizes[user]
    units, rest = np.divmod(found * UNITS, sizes)
    left = UNITS - np.bincount(user, units.astype(np.float64), groups.n_users).astype(np.int64)  # exact: below 2^53
    largest = np.lexsort((cell, -rest, user))  # of each user the largest remainders first, ties by position
    starts = np.searchsorted(user, np.arange(groups.n_users))
    units[largest] += np.arange(len(keys)) - starts[user] < left[user]
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, cell, units)
    return totals / UNITS
