r"""Any method for records, used for users through group privacy: the classical comparison.

Guarantee
    (epsilon, delta)-DP for neighbors that replace one user with all records. Every user fills exactly `cap` rows: the
    own records again and again where there are fewer, a random window of them where there are more. Neighboring users
    then differ in at most `cap` rows of a data set with a public number of rows, n times `cap`.
Lemma
    A method for records that is (e, d)-DP is ``(cap e, d (exp(cap e) - 1)/(exp(e) - 1))``-DP for `cap` rows
    (`GroupPrivacy`). So it gets ``e = epsilon/cap`` and d accordingly.
Assumptions
    The window is drawn by coins apart from data and noise, one a user, and depends on the user's own records alone.
    Users fill their rows in a uniformly random order: what a method does with a row may depend on its position (batches
    do), and the replaced user may bear another label, which moves all users between the two in the order of labels.
Bound
    The method's own, at its much smaller epsilon: it does not improve with the number of records of a user.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Positions, forwarded, forwards
from dpconvex.algorithms import LinearModelPlan, PredictedError, PrivateResult, check_relation, check_unit, recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Assumption, Event, PrivacyParams, Release, Unit, WholeRun
from dpconvex.privacy.events.base import Parts, inner_event
from dpconvex.privacy.ledger import fits
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

Planner = Callable[[LinearModelProblem, PrivacyParams], Sequence[LinearModelPlan]]
"""Plans for records, the best first."""


@dataclass(frozen=True)
class GroupPrivacy(Event):
    """A guarantee for records, read as one for groups: up to `size` records, all of one user, are replaced at once.

    Replacing them one by one gives ``size`` times the pure epsilon; ``size`` times the mu of any mechanism that a
    Gaussian dominates (Dong, Roth and Su 2022, "Gaussian differential privacy", Theorem 2.14); and in general, for the
    profile delta of one record, ``delta(epsilon / size) (e^epsilon - 1)/(e^(epsilon/size) - 1)`` (Vadhan 2017, "The
    complexity of differential privacy", Lemma 2.2). A mechanism that is dominated by a pure and a Gaussian one
    *together* may cost a group more than both of them enlarged: a chain of data sets, each as far from the last as
    that allows, reaches further. Only where the two are separate uses does each enlarge by itself.
    """

    size: int
    record: Event
    kind: ClassVar[str] = "group_privacy"
    claimed_sensitivity = forwarded("record", "claimed_sensitivity")  # of one record

    def __post_init__(self) -> None:
        object.__setattr__(self, "record", inner_event("record", self.record, Event))
        _validate.integer("size", self.size, at_least=1)

    @property
    def pure_epsilon(self) -> Fraction | None:
        pure = self.record.pure_epsilon
        return None if pure is None else self.size * pure

    @property
    def parts(self) -> Parts | None:
        """Size times the pure or the Gaussian part; None where nothing is proved of the record's parts."""
        parts = self.record.parts
        if parts is None or parts.failure or parts.rho or (parts.pure and parts.mu and not _separate(self.record)):
            return None
        return Parts(self.size * parts.pure, _rounding.product_up(self.size, parts.mu) if parts.mu else 0.0)

    def delta(self, epsilon: float) -> float:
        parts = self.parts
        if parts is not None and parts.pure == 0 and parts.mu:
            return gaussian_delta(epsilon, parts.mu)
        each = self.record.delta(_rounding.ratio_down(epsilon, self.size))
        if each == 0:
            return 0.0
        many = math.log(self.size) if epsilon == 0 else _log_expm1(epsilon) - _log_expm1(epsilon / self.size)
        return min(1.0, math.exp(min(0.0, math.log(each) + many)) * (1 + 1e-9))


@dataclass(frozen=True)
@forwards("inner", "l2 constants noise_name coefficient_deviation exact_bits")
class GroupPrivacyPlan(LinearModelPlan):
    """A plan for records that protects users."""

    problem: LinearModelProblem  #: it counts users
    privacy: PrivacyParams  #: the promise for users
    cap: int  #: rows of every user
    inner: LinearModelPlan  #: for n times `cap` records
    algorithm: ClassVar[str] = "group_privacy"

    @property
    def predicted_error(self) -> PredictedError:
        error = self.inner.predicted_error
        return replace(error, source=f"group privacy for {self.cap} records through: {error.source}")

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        return tuple(map(self._grouped, self.inner.releases))

    def _grouped(self, release: Release) -> Release:
        lemma = f"for one of at most {self.cap} rows of a user: {release.sensitivity.lemma}"
        sensitivity = replace(release.sensitivity, unit=Unit.USER, lemma=lemma)
        return replace(release, event=GroupPrivacy(self.cap, release.event), sensitivity=sensitivity, block=None)

    @property
    def theorem(self) -> str:
        return f"Group privacy for {self.cap} records. {self.inner.theorem}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        rows = Assumption(
            f"every user fills exactly {self.cap} rows, in an order that does not depend on labels",
            "records repeated, or a window; windows and the order of users by coins of their own",
        )
        return (*self.inner.assumptions, rows)

    def describe(self) -> Mapping[str, Any]:
        facts = {**self.inner.describe(), "method": self.inner.algorithm, "rows_per_user": self.cap}
        record = self.inner.privacy
        return {**facts, "record_epsilon": record.epsilon, "record_delta": record.delta}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        assert groups is not None  # checked by `run`
        rows = filled_rows(groups, self.cap, source.generator())
        found = self.inner.run(X[rows], y[rows], source)
        return self.finish(found.point, source, found.status)


def filled_rows(groups: UserGroups, cap: int, coins: np.random.Generator) -> Positions:
    """Return which records fill the rows, shape (n_users * cap,): cyclic windows of users' own, users in random order.

    `coins` give an order and one draw a user, however many records there are.
    """
    users = coins.permutation(groups.n_users)
    sizes = groups.sizes[users]
    offsets = np.floor(coins.random(groups.n_users) * sizes).astype(np.intp)
    places = (offsets[:, None] + np.arange(cap)) % sizes[:, None] + groups.starts[users, None]
    return places.ravel() if groups.order is None else groups.order[places.ravel()]


@recorded("group_privacy")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner, *, cap: int | None = None
) -> GroupPrivacyPlan:
    """Return the plan of the method that predicts the least error among those whose cost can be read for groups.

    `planner` makes plans for records; `cap` is the rows of a user, and as many as the problem's records without it.
    """
    check_relation(privacy, users=True)
    check_unit(problem, privacy)
    if problem.records_per_user is None:
        raise InvalidParameterError("unit", str(privacy.unit), "must be 'user' for group privacy")
    size = _validate.integer("cap", problem.records_per_user if cap is None else cap, at_least=1)
    epsilon = _rounding.ratio_down(privacy.epsilon, size)
    shrink = math.expm1(epsilon) / math.expm1(privacy.epsilon) if privacy.epsilon < 700 else 0.0
    record = replace(
        privacy, epsilon=epsilon, delta=privacy.delta * shrink * (1 - 1e-9) if privacy.delta else 0.0, unit=Unit.RECORD
    )
    rows = replace(problem, n=problem.n * size, records_per_user=None)
    options = (GroupPrivacyPlan(problem, privacy, size, inner) for inner in planner(rows, record))
    found = next((option for option in options if _serves(option)), None)
    if found is None:
        raise InvalidParameterError("epsilon", privacy.epsilon, f"admits no method for records with cap={size}")
    return found


def _serves(option: GroupPrivacyPlan) -> bool:
    """Whether the releases can be priced together for groups, within the promise."""
    from dpconvex.privacy import accounting

    events = [(release.event, release.times) for release in option.releases]
    return accounting.supports(events) and fits(option.releases, option.privacy)


def _separate(event: Event) -> bool:
    """Whether an event is a list of uses each of which is pure, or dominated by a Gaussian, by itself."""
    uses = event.uses if isinstance(event, WholeRun) else ()
    each = [use.parts for _, _, use in uses]
    return bool(each) and all(p is not None and not (p.pure and p.mu) for p in each)


def _log_expm1(x: float) -> float:
    """``log(e^x - 1)`` for x > 0, which does not overflow."""
    return x + math.log(-math.expm1(-x))
