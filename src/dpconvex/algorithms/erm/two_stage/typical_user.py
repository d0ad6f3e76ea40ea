r"""A typical user's number of records, found by a private histogram of users, and then any method for users.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one user, whatever it has: two runs on the same data,
    whose epsilons add up (basic adaptive composition); delta is the method's.
Lemma
    Every user's number of records lies in exactly one of 12 public cells, ``2^k <= m < 2^(k+1)`` (the last is open), so
    the numbers of users in them are a release of `JointHistogram` with one column (Lemma F). The cell that holds
    the median of the released counts is one of 12 numbers, for each of which the method is planned from public facts.
Sensitivity
    The histogram has 2 in the quotient norm: a replaced user leaves one cell and enters another; the sum, the number
    of users, is public. The method has its own: no proof rests on `records_per_user`, which may be any released number.
Assumptions
    Those of the method. Every number of the list has a plan: nothing is refused after the release.
Mistake
    Median, mean or maximum of the users' numbers of records, or the total, must not be used: any user can have any
    number, so no noise covers these. Only the noisy histogram leaves the data.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpconvex import algorithms
from dpconvex._types import Array, Floats, final_dataclass, forwarded, forwards
from dpconvex.algorithms.erm.two_stage.base import Planner, TwoStagePlan
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

SIZES = "histogram of users by their numbers of records"
TYPICAL = tuple(math.isqrt(2**k * (2 ** (k + 1) - 1)) for k in range(12))
"""Number of records assumed for the users of each cell: the geometric mean of the cell's ends."""
GUESS = 2  #: Index of the cell that is expected before the release: 4 to 7 records.
SHARES = 0.01, 0.03  #: Least and largest share of epsilon that the histogram takes.
NOISY = 0.02  #: More than the least is spent if a sum of half the cells deviates by more than this share of the users.
DOUBTED = 0.3  #: Deviation of that sum, as a share of the users, at which released and expected counts weigh equally.


@final_dataclass
@forwards("then", "predicted_error algorithm")
class TypicalUserPlan(TwoStagePlan):
    """A plan that finds a typical user's number of records, then runs a method planned for it: one promise for both."""

    privacy: PrivacyParams
    first: JointHistogram
    then: algorithms.LinearModelPlan  #: The method; before a run it is planned for the expected number of records
    planner: Planner
    typical: int | None = None  #: The released typical number of records; None before a run
    adaptive: ClassVar[bool] = True
    problem: ClassVar[LinearModelProblem] = forwarded("then", "problem")
    mechanisms = algorithms.uses({SIZES: "first"})
    prepared = (
        "Basic composition of a private histogram of users by their numbers of records, and of a method planned "
        "for the number read off it. "
    )

    @property
    def course(self) -> tuple[Any, ...]:
        return () if self.typical is None else (self.typical, *self.then.course)

    def resumed(self, *course: Any) -> Any:
        typical, *later = course
        if typical not in TYPICAL:
            raise InvalidParameterError("records_per_user", typical, f"must be one of {TYPICAL}")
        return TwoStagePlan.resumed(self.informed(typical), *later)

    def describe(self) -> Mapping[str, Any]:
        found = {"cells": len(TYPICAL), "epsilon": self.first.epsilon, "found": self.typical}
        return {**self.then.describe(), "typical_user": found}

    def informed(self, typical: int) -> "TypicalUserPlan":
        """Return the plan for a released number of records of a typical user."""
        problem = replace(self.problem, records_per_user=typical, factor=None)  # every plan chooses its own coordinates
        return algorithms.continued(self, then=self.planner(problem, self.then.privacy)[0], typical=typical)

    def read_off(self, noisy: Floats) -> int:
        """Return the typical number for released counts (12,), which may be any numbers because of noise.

        Cumulative counts are averaged with expected ones, which weigh more the larger the noise is.
        """
        n, cells = self.problem.n, len(TYPICAL) - 1
        doubt = (float(self.first.deviations[0]) * math.sqrt(cells + 1) / (2 * DOUBTED * n)) ** 2
        expected = n / (1 + np.exp(GUESS - 0.5 - np.arange(cells)))
        below = (np.cumsum(noisy[:-1]) + doubt * expected) / (1 + doubt)
        return TYPICAL[int((below < n / 2).sum())]

    def _run(self, X: Array, y: Array, groups: UserGroups, source: BitSource) -> algorithms.PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        cells = np.minimum(np.frexp(groups.sizes)[1] - 1, len(TYPICAL) - 1)
        counts = np.bincount(cells, minlength=len(TYPICAL)).astype(np.float64)
        noisy = self.first.release(counts, SIZES, source, ledger)  # line 1: users by cells
        plan = self.informed(self.read_off(noisy))
        result = plan.then.run(X, y, source, groups)  # line 2: the method
        return plan.restored(result, result.point, source)


@algorithms.recorded("typical_user")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner) -> tuple[TypicalUserPlan, ...]:
    """Return the plan; refuse, from public facts, if the planner refuses for any number that may be released."""
    if privacy.unit != Unit.USER or not problem.grouped or not privacy.neighboring.fixes_size:
        remedy = "Protect users; with another neighboring relation declare a number, or leave it out"
        raise InvalidParameterError("records_per_user", "private", "is for users and neighbors='replace_one'", remedy)
    least, most = (share * privacy.epsilon for share in SHARES)
    share = min(max(math.sqrt(2 * len(TYPICAL)) / (NOISY * problem.n), least), most)
    first = JointHistogram((len(TYPICAL),), share, Unit.USER)
    rest = privacy.less(first.epsilon)
    refuse = getattr(planner, "check", planner)
    for typical in TYPICAL:
        refuse(replace(problem, records_per_user=typical), rest)
    then = planner(replace(problem, records_per_user=TYPICAL[GUESS]), rest)[0]
    return (TypicalUserPlan(privacy, first, then, planner),)
