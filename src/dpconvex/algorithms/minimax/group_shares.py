"""Shares of groups, released privately, and a plan for them: the two stages of worst-group training.

Guarantee
    A public part of epsilon, pure, for the shares, then whatever the second stage promises: basic composition,
    adaptive, since the second stage's own promise is fixed before the shares are known.
Lemma
    Replacing one record moves at most two of the counts, by one each: l1 sensitivity 2.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded, forwards
from dpconvex.algorithms import Plan, recorded, stored
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.problems.data.sources.rows import EncodedRows, totals
from dpconvex.problems.data.summation import Parts
from dpconvex.randomness import BitSource

BUDGET_SHARE = 0.05  # share of epsilon (our choice): noise of about 40/epsilon records, for groups of hundreds
LABEL = "number of records in each group"
LEMMA = "a replaced record moves at most two counts of groups, by one each"


@stored
@final_dataclass
class GroupShares:
    """Plan of a private release of every group's share of the records; certificates hold it under this name."""

    n: int  #: number of records
    n_groups: int
    privacy: PrivacyParams  #: promise of both stages together
    smallest: float  #: smaller shares are raised to this, in (0, 1): its inverse bounds a group's weight

    def __post_init__(self) -> None:
        _validate.records("n", self.n)
        _validate.integer("n_groups", self.n_groups, at_least=2)
        _validate.real("smallest_share", self.smallest, above=0.0, below=1.0)

    @cached_property
    def mechanism(self) -> LaplaceMechanism:
        """Laplace noise on the counts."""
        epsilon = BUDGET_SHARE * self.privacy.epsilon * (1 - 1e-9)
        return LaplaceMechanism.calibrate(Sensitivity(2.0, "l1", LEMMA), epsilon, self.n_groups)

    @property
    def planned(self) -> Release:
        """The planned ledger entry."""
        return self.mechanism.planned(LABEL)

    @property
    def rest(self) -> PrivacyParams:
        """The promise of the second stage, rounded down."""
        left = _rounding.difference_down(self.privacy.epsilon, BUDGET_SHARE * self.privacy.epsilon)
        return PrivacyParams(left, self.privacy.delta)

    def run(self, groups: Array | EncodedRows, source: BitSource) -> Floats:
        """Release the shares (n_groups,) of group numbers (n,): an array, or the last targets of `EncodedRows`."""

        def work(_: Array, y: Array) -> Parts:
            return (np.bincount(y.reshape(len(y), -1)[:, -1].astype(np.intp), minlength=self.n_groups),)

        counts = totals(groups, groups, work)[0].astype(np.float64)
        noisy = self.mechanism.release(counts, LABEL, source, Ledger(self.privacy, (self.planned,)))
        return raised(noisy / self.n, self.smallest)


@final_dataclass
@forwards("then", "algorithm constants noise_name predicted_error assumptions")
class GroupSharesPlan(Plan):
    """Shares of the groups from the data, then a method for these shares: one promise for both."""

    first: GroupShares
    then: SaddlePlan  #: planned for the released shares with the rest of the promise
    shares: tuple[float, ...]
    privacy = forwarded("first", "privacy")
    adaptive = True  #: other shares have other noise, even another method  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        factors = tuple(1 / share for share in self.shares)
        if self.then.privacy != self.first.rest or self.then.problem.n != self.first.n:
            what = "must be planned for the same records and the rest"
            raise InvalidParameterError("then", self.then.algorithm, what)
        if getattr(self.then.problem, "factors", None) != factors or len(factors) != self.first.n_groups:
            raise InvalidParameterError("shares", self.shares, "must be those of the problem, one a group")
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.first.planned, *self.then.releases)

    @property
    def theorem(self) -> str:
        return f"Shares of the groups: Laplace mechanism. Then: {self.then.theorem}"

    @property
    def public(self) -> Mapping[str, Any]:
        return {**self.then.public, "released_shares": list(self.shares)}

    def exact_bits(self, source: BitSource) -> bool:
        return self.first.mechanism.exact_bits(source) and self.then.exact_bits(source)


@recorded("group_shares")
def after_shares(first: GroupShares, then: SaddlePlan, shares: tuple[float, ...]) -> GroupSharesPlan:
    """Return the plan of both stages: `then` is planned with ``first.rest`` for the `shares` that `first` released."""
    return GroupSharesPlan(first, then, shares)


def raised(shares: Floats, smallest: float) -> Floats:
    """Return shares of at least `smallest` and at most 1."""
    return np.clip(shares, smallest, 1.0)
