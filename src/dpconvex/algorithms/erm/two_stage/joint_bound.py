r"""One private bound for the sum of many columns in [0, 1] that are mostly 0, then an ordinary method.

Of a hundred flags or one-hot columns that sum to at most 10 in nearly all records, noise need only hide ten. Columns
are those that a plan takes to have two values: their range is [0, 1]. Others stay as they are.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one record, or one user: two runs on the same data,
    whose epsilons add up (basic adaptive composition); delta is the last one's.
Lemma
    Bound: the number of records whose sum is within a bound changes by at most 1 if a record is replaced; the best of a
    public list of bounds, by this number and a public one, is drawn by permute-and-flip. Method: its domain (entries of
    at most 1 that sum to at most r) is public from then on, and each record is clipped into it, one by one. A record's
    part there is at most sqrt(r) long, as no entry is above 1.
Users
    The sum of the shares of users' records that are within a bound moves by at most 1; each is rounded down to a
    multiple of 2^-24 before they are added, so sums stay exact. The map of records takes records one by one.
Sensitivity
    Each release has its own, stated above and in the method's plan.
Assumptions
    Those of the method. That most columns are 0 is for accuracy: privacy holds whatever they are.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import algorithms
from dpconvex._types import Array, Floats, IntArray, final_dataclass
from dpconvex.algorithms.erm.two_stage.base import Planner, lacking
from dpconvex.algorithms.erm.two_stage.recentering import LENGTH_LEMMA, PARTS, MovedPlan, listed, row_lengths, within
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.sources.rows import mapped, totals
from dpconvex.problems.linear.expected_risk import squared_reach
from dpconvex.randomness import BitSource

BOUND = "bound of the sum of the columns in [0, 1]"
STEPS = 2.0**10  #: Public numbers in scores are multiples of 1 / STEPS, so that sums are exact.


@final_dataclass
class Tuning:
    """Constants that this module chooses (docs, One bound for many columns)."""

    columns: int = 16  #: Least number of columns in [0, 1].
    shares: tuple[float, float] = (0.01, 0.05)  #: Least and largest share of epsilon that the bound takes.
    looked: float = 50.0  #: Least epsilon of the bound, times n.
    halved: tuple[float, float] = (0.03, 2.0)  #: Half the bound is worth this share of n, or so many scales of noise.
    most: float = 0.35  #: All halvings on offer are worth at most this share of n: else 0 would be the best bound.
    ratio: float = 2 ** (1 / 8)  #: Ratio of successive bounds in the public list.
    largest: float = 0.16  #: Largest bound on offer, over the number of columns; columns as they are, are so, too.
    adapts: float = 0.9  #: Expected error before a run, over that for columns as they are: bounds may be far lower.


TUNING = Tuning()


@final_dataclass
class JointPlan(MovedPlan):
    """A bound of the columns' sum from the data, then a method on columns measured from 0: one promise for all.

    Before a run, `then` is planned for columns as they are, and `bound` is None. `moved` says whether the method works
    on columns with a joint bound.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    first: ReportNoisyMax
    then: algorithms.LinearModelPlan
    planner: Planner  #: Plans the method for a bound
    otherwise: Planner  #: Plans the method for columns as they are
    bound: float | None = None  #: The released bound, one of `bounds`
    moved: bool = False
    algorithm: ClassVar[str] = "joint_bound"
    adaptive: ClassVar[bool] = True
    presumed = (
        "the method's constants depend on the data through the released bound only",
        "it is planned from it; every record is moved and shortened by it and public numbers alone",
    )

    @cached_property
    def numeric(self) -> IntArray:
        """Positions of the columns in [0, 1]."""
        blocks = self.problem.domain.blocks
        return np.flatnonzero(np.repeat(list(map(is_binary, blocks)), [block.size for block in blocks]))

    @property
    def shift(self) -> tuple[Floats, Floats]:
        blocks = [*filter(is_binary, self.problem.domain.blocks)]
        half = np.repeat([block.bound for block in blocks], [block.size for block in blocks])
        return -half, 2 * half

    @property
    def halved(self) -> float:
        """What half a bound is worth, in records."""
        share, scales = TUNING.halved
        return max(share * self.problem.n, scales * self.first.scale)

    @cached_property
    def bounds(self) -> Floats:
        """The public list of bounds, decreasing; the first, which no record exceeds, leaves columns as they are."""
        p, least = len(self.numeric), 2.0 ** -(TUNING.most * self.problem.n / self.halved)
        steps = np.arange(1 + math.floor(math.log(TUNING.largest / least) / math.log(TUNING.ratio)))
        return p * np.append(1.0, TUNING.largest * TUNING.ratio**-steps)

    @property
    def gains(self) -> Floats:
        """What each bound is worth, in records: public numbers, multiples of 1 / `STEPS`."""
        return np.floor(STEPS * self.halved * np.log2(len(self.numeric) / self.bounds)) / STEPS

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The predicted error of `then`, planned for columns as they are; an estimate: a bound may be far less."""
        return self._estimated(TUNING.adapts if self.bound is None else 1.0, "columns as they are")

    mechanisms = algorithms.uses({BOUND: "first"})
    prepared = "Basic composition of a private bound of the columns' sum and of a method whose domain it defines. "

    @property
    def course(self) -> tuple[Any, ...]:
        return () if self.bound is None else (self.bound, *self.then.course)

    def resumed(self, *course: Any) -> Any:
        bound, *later = course
        if not listed(bound, self.bounds):
            raise InvalidParameterError("joint_bound", bound, "must be a listed bound")
        return MovedPlan.resumed(self.informed(bound), *later)

    def describe(self) -> Mapping[str, Any]:
        joint = {"bound": self.bound, "used": self.moved, "columns": len(self.numeric), "method": self.then.algorithm}
        return {**self.then.problem.describe(), **self.then.describe(), "joint_bound": joint}

    def informed(self, bound: float) -> "JointPlan":
        """Return the plan for a released bound."""
        moved, rest = bound < len(self.numeric), self.then.privacy
        then = self.planner(joined(self.problem, bound), rest) if moved else self.otherwise(self.problem, rest)
        return algorithms.continued(self, then=then[0], bound=bound, moved=moved)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        ledger, (origin, unit) = Ledger(self.privacy, self.releases), self.shift
        moved = partial(self._moved, origin=origin, unit=unit)
        sums = lambda X: row_lengths(moved(X), len(unit), absolute=True)  # noqa: E731
        kept = totals(X, y, lambda X, y: (within(sums(X), self.bounds, groups),))[0] / PARTS  # line 1
        kept[0] = self.problem.n  # whatever rounding does to sums
        bound = float(self.bounds[self.first.release(kept + self.gains, BOUND, source, ledger)])  # line 2: the bound
        plan = self.informed(bound)
        change = moved if plan.moved else self.problem.domain.clip
        result = plan.then.run(*mapped(X, y, change), source, groups)  # line 3: the method, which clips again
        return plan.restored(result, plan._moved_back(result.point), source)


@algorithms.recorded("joint_bound")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner, otherwise: Planner
) -> tuple[JointPlan, ...]:
    """Return the plan; refuse if there are few numeric columns, no constant feature, or too few records."""
    algorithms.check_average(problem, privacy)
    p, (least, most) = sum(block.size for block in filter(is_binary, problem.domain.blocks)), TUNING.shares
    records = problem.n * most * privacy.epsilon >= TUNING.looked
    if missing := lacking(problem, privacy.epsilon, p >= TUNING.columns, records):
        what = f"needs {TUNING.columns} columns in [0, 1], a constant feature and n * epsilon of "
        what += f"{TUNING.looked / most:g} at least; here {missing}"
        raise InvalidParameterError("algorithm", "joint_bound", what, "Use algorithm='auto'")
    share = max(TUNING.looked / problem.n, least * privacy.epsilon)
    first = ReportNoisyMax(Sensitivity(1.0, "linf", LENGTH_LEMMA, unit=privacy.unit), share)
    rest = privacy.less(first.epsilon)
    found = JointPlan(problem, privacy, first, otherwise(problem, rest)[0], planner, otherwise)
    refuse = getattr(planner, "check", planner)
    refuse(joined(problem, float(found.bounds[-1])), rest)  # refuses now, from public facts, and not after noise
    return (found,)


def joined(problem: LinearModelProblem, bound: float) -> LinearModelProblem:
    """Return the problem over records whose columns in [0, 1] come first, and sum to at most `bound`."""
    domain = problem.domain
    p = sum(block.size for block in filter(is_binary, domain.blocks))
    joint = Block(p, "l1", bound, "joint", "binary", min(1.0, bound))
    others = tuple(block for block in domain.blocks if not is_binary(block))
    share = sum(map(squared_reach, filter(is_binary, domain.blocks))) / sum(map(squared_reach, domain.all_blocks))
    radius = problem.radius * math.sqrt(1 - share + share * squared_reach(joint) / (4 * joint.size))
    return replace(problem, domain=DataDomain((joint, *others), domain.intercept), radius=radius)


def is_binary(block: Block) -> bool:
    """Return whether plans take the block's columns, which are bounded one by one, to have two values."""
    return block.norm == "linf" and block.values == "binary"
