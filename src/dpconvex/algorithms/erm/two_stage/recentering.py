r"""Private centering: a center and a length of the numeric columns, then an ordinary method on the moved columns.

Guarantee
    Epsilon-DP or (epsilon, delta)-DP for neighbors that replace one record, or one user: three runs on the same data,
    whose epsilons add up (basic adaptive composition); delta is the last one's.
Lemma
    Center: the mean of n vectors of the cube ``[-1, 1]^p`` (numeric columns over their half-widths) moves by at most
    ``2/n`` in the maximum norm; noise is the K-norm law of that norm. The mean is a sum of integers (multiples of
    2^-31), so nothing but one division is rounded: ``2^-50`` covers it. Length: the number of records within a distance
    of the released center changes by at most 1, so does its distance to a given number; the best of a public list of
    distances is drawn by permute-and-flip. Method: its domain (records moved by the released center and shortened to
    the released length) is public from then on, and each record is clipped into it, one by one.
Users
    A user's mean lies in the same cube, so the mean of n users' means moves by at most ``2/n``, too, whatever numbers
    of records they have; so does, by at most 1, the sum of the shares of users' records that are within a distance.
    Each mean and share is rounded down to a multiple of 2^-31 or 2^-24 before they are added: sums stay exact. The map
    of records takes a user's records one by one, so neighbors become neighbors, or equal, in the method's domain.
Sensitivity
    Each release has its own, stated above and in the method's plan.
Assumptions
    Those of the method. That the columns are concentrated is for accuracy: privacy holds whatever they are.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from dpconvex import _rounding, algorithms
from dpconvex._types import REQUIRED, Array, Floats, IntArray, final_dataclass
from dpconvex.algorithms.erm.two_stage.base import Planner, TwoStagePlan, lacking
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm
from dpconvex.mechanisms import NormNoiseMechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.domain import replaced
from dpconvex.problems.data.records import as_array, lengths_of
from dpconvex.problems.data.sources.rows import mapped, same, totals
from dpconvex.problems.linear.expected_risk import ORDINARY, reach_share, squared_reach
from dpconvex.randomness import BitSource

CENTER, LENGTH = "center of the numeric columns", "length of the recentered columns"
CENTER_LEMMA = "the mean of n vectors of a cube changes by at most 2/n of its half-width when one is replaced"
LENGTH_LEMMA = "a count, or a sum of users' shares, changes by at most 1 when one record, or user, is replaced"
UNITS = 2.0**31  #: Column values, over their half-widths, are rounded to multiples of 1 / UNITS before they are summed.
PORTION = 512  #: Number of records that are moved at a time: they stay in cache
PARTS = 2**24  #: A user's share of records within a distance is counted in multiples of 1 / PARTS.


@final_dataclass
class Tuning:
    """Constants that this module chooses (docs, Recentering numeric columns)."""

    center_share: float = 0.1  #: The center's share of epsilon.
    length_shares: tuple[float, float] = (0.02, 0.2)  #: Least and largest share of epsilon that the length takes.
    miscount: float = 200.0  #: Least epsilon of the length, times n: a length a tenth of n off then has odds of e^-10.
    rank: float = 0.9  #: Share of the records that the length should leave unshortened.
    long: float = 1.2  #: Distance of typical records at rank `rank` from their mean, in root mean square distances.
    worth: float = 0.8  #: Columns are moved if the length is at most this share of the half-diagonal of the ranges.
    lengths: int = 48  #: Number of distances in the public list, from the largest possible downwards.
    ratio: float = 2 ** (1 / 6)  #: Ratio of successive distances in the public list.
    few: int = 6  #: Up to this many moved columns are bounded one by one: a ball would shorten a tenth of the records.
    margin: float = 1.1  #: For users, recentering must expect an error smaller by this factor: it may lose ties.
    adapts: float = 6 / 7
    """Expected error before a run, over the error at the expected length, where all columns are numeric.

    The length adapts to the data: if columns are half or twice as wide as typical ones, moved records need the usual
    noise, but declared ranges half or twice of it. Errors go like 1/epsilon: the mean of 1/2, 1 and 2 is 7/6.
    """


TUNING = Tuning()


class MovedPlan(TwoStagePlan):
    """A plan whose method may work on numeric columns that are moved, and measured in other units, record by record."""

    problem: LinearModelProblem
    moved: bool  #: Whether the method works on moved columns
    #: Where numeric columns are measured from, (p,), and the units that they are measured in, (p,)
    shift: tuple[Floats, Floats] = REQUIRED

    @property
    def only_sums(self) -> bool:
        return self.then.only_sums and not self.problem.grouped  # a user may be in several portions

    @cached_property
    def numeric(self) -> IntArray:
        """Positions of the numeric columns, which are the columns bounded one by one."""
        return self.problem.domain.columns_in("linf")

    @cached_property
    def order(self) -> IntArray:
        """Positions of all columns in the order of the method: the numeric ones, then the others."""
        return np.concatenate([self.numeric, np.setdiff1d(np.arange(self.problem.domain.n_features), self.numeric)])

    @property
    def coefficient_deviation(self) -> Floats | None:
        found = self.then.coefficient_deviation
        return None if found is None else self._moved_back(found, spread=True)

    def _estimated(self, gain: float, of: str, caution: float = 1.0) -> algorithms.PredictedError:
        given = self.then.predicted_error
        expected = None if given.expected is None else gain * given.expected
        source = f"{given.source}; an estimate for {of}"
        return replace(given, expected=expected, source=source, proved=False, caution=caution)

    def _moved(self, X: Array, origin: Floats, unit: Floats | float = 1.0) -> Floats:
        """Return the clipped records, numeric columns first, from their `origin` (p,), in these units."""
        if issparse(X) and len(self.problem.domain.columns_in("simplex")):
            inside = self.problem.domain.clip_sparse(X)
            return replaced(inside, self.numeric, (inside[:, self.numeric].toarray() - origin) / unit)[:, self.order]
        p, moved = len(self.numeric), np.empty((X.shape[0], len(self.order)))
        runs = np.split(self.order[p:], np.flatnonzero(np.diff(self.order[p:]) > 1) + 1)  # slices are copied fast
        ends, clip = p + np.cumsum([0, *map(len, runs)]), self.problem.domain.clipped
        for first in range(0, len(moved), PORTION):  # so that no second copy of all records is held
            part, out = clip(X[first : first + PORTION]), moved[first : first + PORTION]
            out[:, :p] = (part[:, self.numeric] - origin) / unit
            for run, start in zip(filter(len, runs), ends.tolist(), strict=False):
                out[:, start : start + len(run)] = part[:, run[0] : run[-1] + 1]
        return moved

    def _moved_back(self, point: Floats, spread: bool = False) -> Floats:
        """Return the method's flat parameters, or their deviations (`spread`), in terms of the original columns."""
        if not self.moved:
            return point
        (origin, unit), outer, inner = self.shift, self.problem.domain, self.then.problem.domain
        p, weights = len(self.numeric), point.reshape(self.problem.loss.n_outputs, inner.dim)
        moved, constant = weights[:, :p] / unit, weights[:, -1] * inner.intercept
        out = np.empty((len(weights), outer.dim))
        out[:, self.order] = np.concatenate([moved, weights[:, p:-1]], axis=1)
        if spread:  # of independent noise
            constant = np.sqrt(np.square(constant) + np.square(moved) @ np.square(origin))
        else:
            constant = constant - moved @ origin
        out[:, -1] = constant / outer.intercept
        return out.ravel()


@final_dataclass
class RecenteredPlan(MovedPlan):
    """A center and a length from the data, then a method on the moved columns: one promise for all.

    Before a run, `then` is planned for the expected `length`, and `center` is None; in a result both are released
    values. `moved` says whether the method works on moved columns at all.
    """

    first: NormNoiseMechanism
    second: ReportNoisyMax
    then: algorithms.LinearModelPlan
    planner: Planner
    length: float
    center: tuple[float, ...] | None = None
    moved: bool = True
    algorithm: ClassVar[str] = "recentering"
    adaptive: ClassVar[bool] = True
    presumed = (
        "the method's constants depend on the data through the released center and length only",
        "it is planned from them; every record is moved and shortened by them alone",
    )
    mechanisms = algorithms.uses({CENTER: "first", LENGTH: "second"})
    prepared = (
        "Basic composition of a private mean of the numeric columns, of a private quantile of their distances to it, "
        "and of a method whose domain they define. "
    )

    @property
    def shift(self) -> tuple[Floats, Floats]:
        p = len(self.numeric)
        return np.zeros(p) if self.center is None else np.array(self.center), np.ones(p)

    @cached_property
    def half_widths(self) -> Floats:
        """Bounds of the numeric columns."""
        return numeric_half_widths(self.problem.domain)

    @cached_property
    def lengths(self) -> Floats:
        """The public list of distances, decreasing; no record exceeds the first, wherever the center is."""
        farthest = 2 * float(np.linalg.norm(self.half_widths)) * (1 + 1e-12)
        return farthest * TUNING.ratio ** -np.arange(TUNING.lengths, dtype=np.float64)

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The predicted error of `then`, planned for `length`; an estimate, since no length is sure before a run."""
        gain = 1.0
        if self.center is None and not self.problem.grouped:  # users have methods that see lengths themselves
            gain -= (1 - TUNING.adapts) * reach_share(self.problem.domain, "linf")
        return self._estimated(gain, "the planned length", TUNING.margin if self.problem.grouped else 1.0)

    @property
    def course(self) -> tuple[Any, ...]:
        return () if self.center is None else (self.center, self.length, *self.then.course)

    def resumed(self, *course: Any) -> Any:
        center, length, *later = course
        inside = len(center) == len(self.numeric) and bool((np.abs(center) <= self.half_widths).all())
        if not inside or not listed(length, self.lengths):
            raise InvalidParameterError("recentered", course, "must hold a center of the domain and a listed length")
        return MovedPlan.resumed(self.informed(np.asarray(center), length), *later)

    def describe(self) -> Mapping[str, Any]:
        found = {"center": list(self.center) if self.center else None, "length": self.length, "used": self.moved}
        facts = {"center_half_width": float(self.half_widths.max()), "method": self.then.algorithm}
        return {**self.then.problem.describe(), **self.then.describe(), "recentered": found | facts}

    def informed(self, center: Floats, length: float) -> "RecenteredPlan":
        """Return the plan for a released center (p,) and length; columns stay unless the length is clearly shorter."""
        moved = length <= TUNING.worth * float(np.linalg.norm(self.half_widths))
        problem = centered(self.problem, length) if moved else self.problem
        then = self.planner(problem, self.then.privacy)[0]
        return algorithms.continued(self, then=then, center=tuple(center.tolist()), length=length, moved=moved)

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        found = totals(X, y, lambda X, y: (self._units(X, groups),))[0]  # line 1: of the public domain
        noisy = self.first.release(found / UNITS / self.problem.n, CENTER, source, ledger)  # line 2: the center
        center = np.clip(noisy, -1.0, 1.0) * self.half_widths
        moved = partial(self._moved, origin=center)
        distances = lambda X: np.sqrt(row_lengths(moved(X), len(self.numeric), absolute=False))  # noqa: E731
        kept = totals(X, y, lambda X, y: (within(distances(X), self.lengths, groups),))[0] / PARTS
        scores = -np.abs(kept - TUNING.rank * self.problem.n)
        length = float(self.lengths[self.second.release(scores, LENGTH, source, ledger)])  # line 3: the length
        plan = self.informed(center, length)
        change = moved if plan.moved else same
        result = plan.then.run(*mapped(X, y, change, thin=True), source, groups)  # line 4: it clips again
        return plan.restored(result, plan._moved_back(result.point), source)

    def _units(self, X: Array, groups: UserGroups | None) -> Array:
        """Return the sums of the numeric columns, or of users' means, in whole units, (p,)."""
        columns = self.problem.domain.clip(X)[:, self.order[: len(self.numeric)]]
        pairs = zip(columns.T, self.half_widths, strict=True)
        return np.array([total(np.rint(column / width * UNITS).astype(np.int64), groups) for column, width in pairs])


def total(values: Array, groups: UserGroups | None) -> int:
    """Return the exact sum of integers (n_records,), or of users' mean integers, each mean rounded down."""
    if groups is None:
        return int(values.sum())
    order = slice(None) if groups.order is None else groups.order
    return int((np.add.reduceat(values[order], groups.starts[:-1]) // groups.sizes).sum())


def row_lengths(moved: Floats, columns: int, *, absolute: bool) -> Floats:
    """Return the l1 norms, or squared l2 norms, of the first columns of rows, whatever portion a row is in."""
    return lengths_of(np.ascontiguousarray(as_array(moved[:, :columns])), absolute=absolute)


def listed(value: Any, levels: Floats) -> bool:
    """Return whether a number is in a public list, whose last bits are those of the processor that made it."""
    return isinstance(value, float) and bool(np.isclose(levels, value, rtol=1e-12, atol=0.0).any())


def within(distances: Floats, levels: Floats, groups: UserGroups | None) -> Array:
    """Return `PARTS` times how many records, or the sum of users' shares of them, lie within each of falling levels."""
    if groups is None:
        return PARTS * np.searchsorted(np.sort(distances), levels, side="right")
    return np.array([total((distances <= level) * PARTS, groups) for level in levels])


@algorithms.recorded("recentering")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner) -> tuple[RecenteredPlan, ...]:
    """Return the plan; refuse if numeric columns or a constant feature are missing, or records are too few."""
    algorithms.check_average(problem, privacy)
    widths = numeric_half_widths(problem.domain)
    p = len(widths)
    least, most = TUNING.length_shares
    if missing := lacking(problem, privacy.epsilon, p > 0, problem.n * most * privacy.epsilon >= TUNING.miscount):
        what = f"needs numeric columns, a constant feature and n * epsilon of {TUNING.miscount / most:g} at least"
        raise InvalidParameterError("algorithm", "recentering", f"{what}; here {missing}", "Use algorithm='auto'")
    share = max(TUNING.miscount / problem.n, least * privacy.epsilon)
    second = ReportNoisyMax(Sensitivity(1.0, "linf", LENGTH_LEMMA, unit=privacy.unit), share)
    norm = GroupedNorm.block_max(DataDomain.box(p, 1.0))
    reach = _rounding.sum_up((_rounding.ratio_up(2.0, problem.n), 2.0**-50))
    share = _rounding.product_down(TUNING.center_share, privacy.epsilon)
    first = NormNoiseMechanism(norm, Sensitivity(reach, norm.name, CENTER_LEMMA, unit=privacy.unit), share)
    rest = privacy.less(_rounding.sum_up((first.epsilon, second.epsilon)))
    width, noise = float(np.linalg.norm(widths)), first.scale * math.sqrt(float(norm.coordinate_variances[0]))
    length = min(math.hypot(typical_length(problem.domain), TUNING.long * noise * width), width)
    then = planner(centered(problem, length), rest)[0]
    found = RecenteredPlan(problem, privacy, first, second, then, planner, length)
    refuse = getattr(planner, "check", planner)  # a planner may have a cheaper check than making a plan
    refuse(centered(problem, float(found.lengths[-1])), privacy)  # refuses now, from public facts, and not after noise
    return (found,)


def centered(problem: LinearModelProblem, length: float) -> LinearModelProblem:
    """Return the problem over moved records, whose numeric columns come first and have at most this length."""
    domain = problem.domain
    p = len(numeric_half_widths(domain))
    numeric = Block(p, "linf" if p <= TUNING.few else "l2", length, "recentered", "centered")
    others = tuple(block for block in domain.blocks if block.norm != "linf")
    constant = domain.intercept if others else min(domain.intercept, length)
    share = reach_share(domain, "linf")
    stretch = typical_length(domain) / length
    needed = sum(map(squared_reach, domain.all_blocks))
    longer = 4 * (constant**-2 - domain.intercept**-2) / needed  # a shorter constant needs a larger coefficient
    radius = problem.radius * math.sqrt(1 - share + share * stretch**2 + longer)
    return replace(problem, domain=DataDomain((numeric, *others), constant), radius=radius)


def typical_length(domain: DataDomain) -> float:
    """Return the distance from the mean that nine in ten typical records have at most; binary columns add most."""
    numeric = (block for block in domain.blocks if block.norm == "linf")
    squares = (block.size * block.bound**2 * ORDINARY.moments[block.values][0] for block in numeric)
    return TUNING.long * math.sqrt(math.fsum(squares))


def numeric_half_widths(domain: DataDomain) -> Floats:
    """Return the bounds of the columns that are bounded one by one."""
    numeric = [block for block in domain.blocks if block.norm == "linf"]
    return np.repeat([block.bound for block in numeric], [block.size for block in numeric])
