r"""Private centre and length of the numeric columns first, then an ordinary method on the recentred columns.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbours that replace one record: three runs on the same records, whose
    epsilons add up (basic adaptive composition); delta is the last one's.
Lemma
    Centre: the mean of n vectors of the cube ``[-1, 1]^p`` (numeric columns over their half-widths) moves by at most
    ``2/n`` in the maximum norm; noise is the K-norm law of that norm. The mean is a sum of integers (multiples of
    2^-31), so nothing but one division is rounded: ``2^-50`` covers it. Length: the number of records within a distance
    of the released centre changes by at most 1, so does its distance to a given number; the best of a public list of
    distances is drawn by permute-and-flip. Method: its domain (records moved by the released centre and shortened to
    the released length) is public from then on, and each record is clipped into it, one by one.
Sensitivity
    Of each release its own, above and in the method's plan.
Assumptions
    Those of the method. That the columns are concentrated is for accuracy: privacy holds whatever they are.
Why
    Noise is in proportion to the longest record, and ranges of numeric columns must be wide enough for anybody's
    values. Around their centre records are often 3 to 6 times shorter. The method's parameters are the same, only the
    intercept changes: ``w0 + <w, x - c> = (w0 - <w, c>) + <w, x>``.
Memory
    Two copies of the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _rounding
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import LinearModelPlan, PrivateResult, check_relation, require_average
from dpconvex.algorithms.erm.two_stage.base import DelegatingPlan
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import continued, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm
from dpconvex.mechanisms import NormNoiseMechanism, ReportNoisyMax
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.problems.data.domain import Block, DataDomain
from dpconvex.problems.linear.expected_risk import NUMERIC_VARIANCE, reach_share, squared_reach
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource

CENTRE, LENGTH = "centre of the numeric columns", "length of the recentred columns"
CENTRE_LEMMA = "the mean of n vectors of a cube changes by at most 2/n of its half-width when one is replaced"
LENGTH_LEMMA = "a count changes by at most 1 when one record is replaced"
SHARE = 0.1
"""Of epsilon, for the centre."""
RANK = 0.9
"""Share of the records that should not be shortened."""
MISCOUNT = 200.0
"""Epsilon of the length times n, at least: a length that no record needs, a tenth of n off, then has weight e^-10."""
LENGTH_SHARES = (0.02, 0.2)
"""Of epsilon, for the length: the least and the most."""
LONG = 1.2
"""Length of typical records at that rank, in root mean squares."""
ADAPTS = 6 / 7
"""Expected error before a run over that at the expected length, where all columns are numeric.

Columns half or twice as wide as typical ones leave recentred records as they are, but ranges then need half or twice
the noise for the same predictions. Errors go about like 1/epsilon: the mean of 1/2, 1 and 2 is 7/6.
"""
WORTH = 0.8
"""Largest length, as a share of that of the ranges, for which columns are recentred."""
LENGTHS = 48
"""Distances in the list, from the largest possible downwards."""
RATIO = 2 ** (1 / 6)
FEW = 6
"""Up to so many numeric columns are bounded one by one: in a ball a tenth of the records would be shortened."""
UNITS = 2.0**31

Planner = Callable[[LinearModelProblem, PrivacyParams], tuple[LinearModelPlan, ...]]
"""Plans of the ordinary methods."""


@final
@dataclass(frozen=True)
class RecentredPlan(DelegatingPlan):
    """A centre and a length from the data, then a method on the recentred columns: one promise for all.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised.
    privacy : PrivacyParams
        The promise for everything.
    first : NormNoiseMechanism
        Noise of the centre.
    second : ReportNoisyMax
        Draws the length.
    then : LinearModelPlan
        The method at the rest of the budget. Before a run: for the length that one may expect; in a result: for the
        released one.
    planner : callable
        Plans `then` for any length.
    length : float
        To which recentred records are shortened: expected or, in a result, released.
    centre : tuple of float or None
        Released; None before a run.
    moved : bool
        Whether the method works on recentred columns.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    first: NormNoiseMechanism
    second: ReportNoisyMax
    then: LinearModelPlan
    planner: Planner
    length: float
    centre: tuple[float, ...] | None = None
    moved: bool = True
    algorithm: ClassVar[str] = "recentring"

    def __post_init__(self) -> None:
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @cached_property
    def numeric(self) -> NDArray[np.int64]:
        """Positions of the numeric columns."""
        return numeric_columns(self.problem.domain)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Positions of all columns in the order of the method: the numeric ones, then the others."""
        columns = np.arange(self.problem.domain.n_features)
        return np.concatenate([self.numeric, np.setdiff1d(columns, self.numeric)])

    @cached_property
    def half_widths(self) -> FloatArray:
        """Of the numeric columns."""
        return numeric_half_widths(self.problem.domain)

    @cached_property
    def lengths(self) -> FloatArray:
        """The public list of distances, falling; the first one no record can exceed."""
        return public_lengths(self.half_widths)

    @property
    def predicted_error(self) -> PredictedError:
        """The method's, for the length of `then`: before a run an estimate, since no length is sure."""
        given = self.then.predicted_error
        gain = 1 - (1 - ADAPTS) * reach_share(self.problem.domain, "linf") if self.centre is None else 1.0
        expected = None if given.expected is None else gain * given.expected
        source = f"{given.source}; an estimate for the planned length"
        return replace(given, expected=expected, source=source, proved=False)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Centre, length, and all of the method."""
        return (self.first.planned(CENTRE), self.second.planned(LENGTH), *self.then.releases)

    @property
    def adaptive(self) -> bool:
        """Always: `then` is planned from the released centre and length."""
        return True

    @property
    def course(self) -> tuple[Any, ...]:
        """The released centre and length, and what the method released since."""
        return () if self.centre is None else (self.centre, self.length, *self.then.course)

    def resumed(self, *course: Any) -> RecentredPlan:
        """Return the plan for a released centre and length; what the method released since goes to it.

        Raises
        ------
        InvalidParameterError
            If they are none that can be released.
        """
        centre, length, *later = course
        inside = len(centre) == len(self.numeric) and bool((np.abs(centre) <= self.half_widths).all())
        if not inside or length not in self.lengths:
            raise InvalidParameterError("recentred", course, "must hold a centre of the domain and a listed length")
        plan = self.informed(np.asarray(centre), length)
        return plan.after(cast(LinearModelPlan, plan.then.resumed(*later))) if later else plan

    @property
    def theorem(self) -> str:
        """Composition of the three."""
        return (
            "Basic composition of a private mean of the numeric columns, of a private quantile of their distances to "
            f"it, and of a method whose domain they define. {self.then.theorem}"
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The method's, and that it learns of the data through the first two releases alone."""
        only = Assumption(
            "the method's constants depend on the data through the released centre and length only",
            "it is planned from them; every record is moved and shortened by them alone",
        )
        return (*self.then.assumptions, only)

    @property
    def coefficient_deviation(self) -> FloatArray | None:
        """That of `then` in the order of the columns, shape (dim,)."""
        k, inner, found = self.problem.loss.n_outputs, self.then.problem.domain, self.then.coefficient_deviation
        return None if found is None else self._restored(found.reshape(k, inner.dim), np.zeros(len(self.numeric)))

    def describe(self) -> Mapping[str, Any]:
        """Constants of the method, its domain, and where that comes from."""
        recentred = {
            "centre": list(self.centre) if self.centre else None,
            "length": self.length,
            "used": self.moved,
            "centre_half_width": float(self.half_widths.max()),
            "method": self.then.algorithm,
        }
        return {**self.then.problem.describe(), **self.then.describe(), "recentred": recentred}

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the noise of all three is."""
        return self.first.exact_bits(source) and self.second.exact_bits(source) and self.then.exact_bits(source)

    def at(self, privacy: PrivacyParams) -> LinearModelPlan:
        """Return the plan of another promise, before any data are read."""
        return plan(self.problem, privacy, self.planner)[0]

    def informed(self, centre: FloatArray, length: float) -> RecentredPlan:
        """Return the plan for a released centre, shape (p,), and length, with the same budgets.

        Where the length is no shorter than `WORTH` of what the ranges allow, the columns stay as they are.
        """
        moved = length <= WORTH * float(np.linalg.norm(self.half_widths))
        problem = recentred(self.problem, length) if moved else self.problem
        then = self.planner(problem, self.then.privacy)[0]
        return continued(self, then=then, centre=tuple(centre.tolist()), length=length, moved=moved)

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        inside = self.problem.domain.clip(X)  # line 1: records of the public domain
        moved = inside[:, self.order]
        columns = moved[:, : len(self.numeric)]
        pairs = zip(columns.T, self.half_widths, strict=True)
        units = np.array([np.rint(column / width * UNITS).astype(np.int64).sum() for column, width in pairs])
        mean = units / UNITS / self.problem.n
        noisy = self.first.release(mean, CENTRE, source, ledger)  # line 2: the centre
        centre = np.clip(noisy, -1.0, 1.0) * self.half_widths
        columns -= centre
        distances = np.sort(np.linalg.norm(columns, axis=1))
        within = np.searchsorted(distances, self.lengths, side="right").astype(np.float64)
        scores = -np.abs(within - RANK * self.problem.n)
        length = float(self.lengths[self.second.release(scores, LENGTH, source, ledger)])  # line 3: the length
        plan = self.informed(centre, length)
        result = plan.then.run(moved if plan.moved else inside, y, source)  # line 4: the method, which clips again
        plan = plan.after(cast(LinearModelPlan, result.plan))
        k, dim = self.problem.loss.n_outputs, plan.then.problem.domain.dim
        return plan.finish(plan._restored(result.point.reshape(k, dim), centre), source, result.status)

    def _restored(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """Return flat parameters (outputs * dim,) of the columns as they were, from (outputs, dim) of the method."""
        if not self.moved:
            return weights.ravel()
        outer, inner = self.problem.domain, self.then.problem.domain
        p = len(self.numeric)
        out = np.empty((len(weights), outer.dim))
        out[:, self.order] = weights[:, :-1]
        out[:, -1] = (weights[:, -1] * inner.intercept - weights[:, :p] @ centre) / outer.intercept
        return out.ravel()


@recorded("recentring")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner) -> tuple[RecentredPlan, ...]:
    """Return the plan, or nothing where the method does not apply: no numeric columns, no constant, too few records.

    Parameters
    ----------
    problem : LinearModelProblem
        Public facts.
    privacy : PrivacyParams
        The promise.
    planner : callable
        Plans of the ordinary methods for a problem and a promise, the one to run first.
    """
    check_relation(privacy)
    require_average(problem)
    p, widths = len(numeric_columns(problem.domain)), numeric_half_widths(problem.domain)
    least, most = LENGTH_SHARES
    if p == 0 or problem.domain.intercept == 0 or problem.n * most * privacy.epsilon < MISCOUNT:
        return ()
    second = ReportNoisyMax(Sensitivity(1.0, "linf", LENGTH_LEMMA), max(MISCOUNT / problem.n, least * privacy.epsilon))
    norm = GroupedNorm.block_max(DataDomain.box(p, 1.0))
    reach = _rounding.sum_up((_rounding.ratio_up(2.0, problem.n), 2.0**-50))
    first = NormNoiseMechanism(
        norm, Sensitivity(reach, norm.name, CENTRE_LEMMA), _rounding.product_down(SHARE, privacy.epsilon)
    )
    spent = _rounding.sum_up((first.epsilon, second.epsilon))
    rest = replace(privacy, epsilon=_rounding.difference_down(privacy.epsilon, spent))
    variance = NUMERIC_VARIANCE + first.scale**2 * float(norm.coordinate_variances[0])
    length = min(LONG * math.sqrt(variance), 1.0) * float(np.linalg.norm(widths))
    return (
        RecentredPlan(problem, privacy, first, second, planner(recentred(problem, length), rest)[0], planner, length),
    )


def recentred(problem: LinearModelProblem, length: float) -> LinearModelProblem:
    """Return the problem over recentred records: numeric columns first, of that length; then the other blocks.

    Coefficients of shorter records are larger: the comparator norm's share of the numeric columns is for predictions
    that spread as those of typical records do, that of the constant for the same intercepts. The constant feature is no
    longer than the numeric columns: the intercept need not carry their means any more.
    """
    domain = problem.domain
    p = len(numeric_columns(domain))
    numeric = Block(p, "linf" if p <= FEW else "l2", length, "recentred")
    others = tuple(block for block in domain.blocks if block.norm != "linf")
    constant = domain.intercept if others else min(domain.intercept, length)
    share = reach_share(domain, "linf")
    stretch = LONG * float(np.linalg.norm(numeric_half_widths(domain))) * math.sqrt(NUMERIC_VARIANCE) / length
    needed = sum(map(squared_reach, domain.all_blocks))
    longer = 4 * (constant**-2 - domain.intercept**-2) / needed  # what a shorter constant needs
    radius = problem.radius * math.sqrt(1 - share + share * stretch**2 + longer)
    return replace(problem, domain=DataDomain((numeric, *others), constant), radius=radius)


def public_lengths(half_widths: FloatArray) -> FloatArray:
    """Return the list of distances, falling; the first one no record can exceed, wherever the centre is."""
    return 2 * float(np.linalg.norm(half_widths)) * (1 + 1e-12) * RATIO ** -np.arange(LENGTHS, dtype=np.float64)


def numeric_columns(domain: DataDomain) -> NDArray[np.int64]:
    """Return the positions of the columns that are bounded one by one."""
    return domain.columns_in("linf")


def numeric_half_widths(domain: DataDomain) -> FloatArray:
    """Return the bounds of those columns."""
    return np.repeat(
        [block.bound for block in domain.blocks if block.norm == "linf"],
        [block.size for block in domain.blocks if block.norm == "linf"],
    )
