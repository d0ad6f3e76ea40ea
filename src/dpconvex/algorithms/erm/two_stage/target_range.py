"""A look at the target first: a part of its declared range, chosen privately, then any method.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one record, or one user: two runs on the same data,
    whose epsilons add up (basic composition); delta is the method's.
Lemma
    Look: each target lies in one of 32 public cells of the declared range. A range of whole cells scores the number of
    records in it, plus a public number: permute-and-flip. Method: for each *fixed* range, the map of a record's target
    into it is public and takes one record, so neighbors become neighbors (or equal) in the method's domain, the same
    for every range. (Docs, Private ranges, Lemma T.)
Sensitivity
    1 of every score; of users, too, whose cells are averaged to multiples of 2^-24 that add up to 1. Public numbers are
    multiples of 2^-10, so sums are exact below 2^29 units.
Assumptions
    Those of the method, which is planned before the run, in units of the range that is found.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Array, Floats, forwarded
from dpconvex.algorithms.base import LinearModelPlan, PrivateResult
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.erm.two_stage.ranges import counted
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import continued, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Planned, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import NumberRange, UserGroups
from dpconvex.problems.data.ranges import PARTS, kept, parts
from dpconvex.problems.data.sources.rows import mapped, same
from dpconvex.randomness import BitSource

LOOK = "part of the target's declared range, of 32 cells"
LEMMA = "a replaced record, or user, moves the count of every range by at most 1 (docs, Private ranges, Lemma T)"
WHOLE = NumberRange(-0.5, 0.5)  #: The declared range, as targets are scaled.
FIRST, STOP = np.triu_indices(PARTS + 1, 1)  #: First cells of all public ranges, and those after their last ones
STEPS = 2.0**10  #: Parts of 1 in which public numbers are stated


@dataclass(frozen=True)
class Tuning:
    """When a look is expected to gain, and what it costs (`benchmarks/target_range.py`, on the learning tables)."""

    needed: float = 500.0  #: epsilon times units, at least
    records: float = 80.0  #: epsilon of the look times units, between shares of epsilon:
    least: float = 0.015
    most: float = 0.06
    halved: float = 2.0  #: scales of noise that half the width is worth, in records


TUNING = Tuning()


def cost(epsilon: float, n: int) -> float:
    """Return what a look at n units takes of epsilon; 0 where none is expected to gain."""
    share = min(max(TUNING.records / max(n * epsilon, 1.0), TUNING.least), TUNING.most)
    return _rounding.product_down(share, epsilon) if n * epsilon >= TUNING.needed else 0.0


@final
@dataclass(frozen=True)
class LookPlan(TwoStagePlan):
    """A part of the range in which targets are given, from the data, then a method for targets within it."""

    privacy: PrivacyParams  #: The promise for both
    choice: ReportNoisyMax
    then: LinearModelPlan
    target_cells: tuple[int, ...] = ()  #: First cell, and the one after the last: released
    problem = forwarded("then", "problem")
    algorithm = forwarded("then", "algorithm")
    hopeless = forwarded("then", "hopeless")  # pyright: ignore[reportIncompatibleMethodOverride]
    outlook = forwarded("then", "outlook")  # pyright: ignore[reportIncompatibleMethodOverride]
    presumed = (
        "the method depends on the part of the target's range that was released, and on no other",
        "every target is clipped into it by itself; the plan is made before the run and does not depend on it",
    )

    @property
    def predicted_error(self) -> PredictedError:
        """The method's: in units of the range that is found."""
        given = self.then.predicted_error
        return replace(given, source=f"{given.source}; in the part of the target's range found", proved=False)

    @property
    def mechanisms(self) -> Mapping[str, Planned]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {LOOK: self.choice}

    @property
    def note(self) -> str:
        return f"after a look at the target, {super().note}"

    @property
    def theorem(self) -> str:
        look = "Basic composition of a private choice of a part of the target's range, and of a method within it."
        return f"{look} {self.then.theorem}"

    @property
    def course(self) -> tuple[Any, ...]:
        return (self.target_cells, *self.then.course) if self.target_cells else ()

    def resumed(self, *course: Any) -> "LookPlan":
        """Return the plan for a part that can be released, and for what came since."""
        cells, *later = course
        if len(cells) != 2 or not 0 <= cells[0] < cells[1] <= PARTS:
            raise InvalidParameterError("range", cells, f"must be the first of {PARTS} cells, and one after it")
        plan = continued(self, target_cells=tuple(cells))
        return plan.after(cast(LinearModelPlan, plan.then.resumed(*later))) if later else plan

    def describe(self) -> Mapping[str, Any]:
        return {**self.then.describe(), "target_range": {"epsilon": self.choice.epsilon, "cells": self.target_cells}}

    @property
    def bonus(self) -> Floats:
        """What each range scores beside its records: public, and the more the narrower it is."""
        return np.floor(STEPS * TUNING.halved * self.choice.scale * np.log2(PARTS / (STOP - FIRST))) / STEPS

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        counts = counted(X, y, groups, lambda X, y: parts(WHOLE, y)[None], PARTS + 1)
        below = np.append(0.0, np.cumsum(counts[:PARTS]))
        scores = below[STOP] - below[FIRST] + self.bonus
        chosen = self.choice.release(scores, LOOK, source, ledger)  # line 1: Lemma T
        plan = continued(self, target_cells=(int(FIRST[chosen]), int(STOP[chosen])))
        inside = mapped(X, y, same, kept(WHOLE, *plan.target_cells).encode)  # line 2: target by target
        result = plan.then.run(*inside, source, groups)  # line 3
        return plan.restored(result, result.point, source)


@recorded("target_range")
def plan(then: LinearModelPlan, privacy: PrivacyParams) -> LookPlan:
    """Return the plan that looks at the target's range for what a planned method leaves of epsilon."""
    if then.privacy.unit != privacy.unit:
        raise InvalidParameterError("unit", str(privacy.unit), "must be that of the method")
    left = _rounding.difference_down(privacy.epsilon, then.privacy.epsilon)
    return LookPlan(privacy, ReportNoisyMax(Sensitivity(1.0, "linf", LEMMA, unit=privacy.unit), left), then)
