"""A private look at a target's declared range, then a regression over an l1 ball in the part that the look keeps.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one record: basic composition, adaptive, since the
    second stage's own promise is fixed before the part is known.
Lemma
    Lemma T (docs, Private ranges): each part of the declared range scores the records in it plus a public number, and
    permute-and-flip picks one. For each *fixed* part a public map takes a record to one record of the second stage, so
    neighbors become neighbors or equal.
Sensitivity
    A replaced record moves the count of every part by at most 1; that of the second stage is its plan's.
Assumptions
    Those of the second stage, which is planned before the run for a target scaled to a range of width 1.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from dpconvex import _rounding
from dpconvex._types import Array, Floats, final_dataclass, forwarded, forwards
from dpconvex.algorithms.base import check_relation, uses
from dpconvex.algorithms.erm.two_stage import ranges as looks
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult
from dpconvex.algorithms.recipes import continued, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.params import check_part
from dpconvex.problems import SimplexSaddle
from dpconvex.problems.data import ranges
from dpconvex.problems.data.sources.rows import EncodedRows, mapped, same
from dpconvex.randomness import BitSource

TAIL = 0.05
"""Half the width is worth at least this share of the records: the ball's radius is a multiple of the part's width, so
in a wide part descent moves slowly and noise is large, however many records there are (docs, Saddle methods)."""


@final_dataclass(eq=False)
@forwards("then", "error_share algorithm constants noise_name only_sums predicted_error expectation hopeless outlook")
class TargetLookPlan(SaddlePlan):
    """A plan that chooses the part of the target's range to keep, then runs a method: one promise covers both."""

    privacy: PrivacyParams  #: The promise for everything
    look: ReportNoisyMax  #: Chooses the part
    then: SaddlePlan
    step: ranges.Step = (0.0, 0.0)  #: First multiple of the target's step and the step, in cells; 0: none is declared
    target_cells: tuple[float, ...] = ()  #: The released part: its first cell, and the cell after its last
    problem: ClassVar[SimplexSaddle] = forwarded("then", "problem")
    mechanisms = uses({looks.LOOK: "look"})
    presumed = Assumption("the method depends on the part that was released", "records are clipped into it one by one")

    def __post_init__(self) -> None:
        check_part(self.privacy, self.then.privacy, "then")
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def theorem(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"A private choice of a part of the target's range. Then: {self.then.theorem}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return (*self.then.assumptions, self.presumed)

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*super().releases, *self.then.releases)

    @property
    def course(self) -> tuple[Any, ...]:
        return (self.target_cells,) if self.target_cells else ()

    def resumed(self, *course: Any) -> "TargetLookPlan":
        if len(course) != 1 or len(course[0]) != 2 or not 0 <= course[0][0] < course[0][1] <= ranges.PARTS:
            raise InvalidParameterError("range", course, f"must be the first of {ranges.PARTS} cells, and one after it")
        return continued(self, target_cells=tuple(course[0]))

    def exact_bits(self, source: BitSource) -> bool:
        return super().exact_bits(source) and self.then.exact_bits(source)

    def describe(self) -> Mapping[str, Any]:
        return {**self.then.describe(), "target_range": {"epsilon": self.look.epsilon, "cells": [*self.target_cells]}}

    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        ledger, portions = Ledger(self.privacy, self.releases), isinstance(records, EncodedRows)
        X, y, *groups = (records, records) if portions else records
        counts = looks.counted(X, y, None, lambda _, y: ranges.parts(looks.SCALED, _numbers(y))[None], ranges.PARTS + 1)
        worth = max(looks.HALVED, TAIL * self.problem.n / self.look.scale)  # public
        how = worth, looks.LOOK, source, ledger, self.problem.n
        cells = ranges.whole_steps(looks._chosen(self.look, counts, *how)[0], self.step)
        kept = ranges.kept(looks.SCALED, *cells)

        def inside(y: Array) -> Floats:
            """Return targets, scaled within the part record by record; the column of groups stays."""
            out = y.astype(float)
            _numbers(out)[:] = kept.encode(_numbers(y))
            return out

        X, y = mapped(X, y, same, inside, thin=True)
        result = self.then.run(X if portions else (X, y, *groups), source)
        return continued(self, target_cells=cells).finish(result.x, result.y, source)


def _numbers(y: Array) -> Array:
    """Return the targets (n,), a view; portions have the records' groups beside them, in a second column."""
    return y if y.ndim == 1 else y[:, 0]


@recorded("target_look")
def plan(then: SaddlePlan, privacy: PrivacyParams, step: ranges.Step = (0.0, 0.0)) -> TargetLookPlan:
    """Return the plan that looks at the target's range for a planned method; the look takes what `then` leaves."""
    check_relation(privacy)
    loss: Any = getattr(then.problem, "loss", None)
    if loss is None or loss.task != "regression" or getattr(then.problem, "factors", None) != (1.0,):
        raise InvalidParameterError("then", then.algorithm, "must be planned for a regression over an l1 ball")
    left = _rounding.difference_down(privacy.epsilon, then.privacy.epsilon)
    return TargetLookPlan(privacy, ReportNoisyMax(Sensitivity(1.0, "linf", looks.LEMMA), left), then, step)
