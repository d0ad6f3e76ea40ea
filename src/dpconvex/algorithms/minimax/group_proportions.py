"""Shares of groups, released privately, and what follows with them: a first step of worst-group training.

Guarantee
    ``shares.epsilon`` of pure differential privacy for the shares, then whatever the second step promises: basic
    composition, adaptive, since the second step's own promise is fixed before the shares are known.
Lemma
    Replacing one record moves at most two of the counts, by one each: l1 sensitivity 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import Plan
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded, stored
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.randomness import BitSource

BUDGET = 0.05
"""Part of epsilon that the shares cost (ours): noise of about 40/epsilon records, for groups of hundreds or more."""

LEMMA = "a replaced record moves at most two counts of groups, by one each"


@final
@stored
@dataclass(frozen=True)
class GroupShares:
    """Plan of a private release of the share of every group.

    Parameters
    ----------
    n : int
        Records, at least 1.
    n_groups : int
        At least 2.
    privacy : PrivacyParams
        Promise of the shares and the second step together.
    smallest : float
        Shares below it are raised to it, in (0, 1): what a group may weigh is bounded by its inverse.
    """

    n: int
    n_groups: int
    privacy: PrivacyParams
    smallest: float

    def __post_init__(self) -> None:
        _validate.records("n", self.n)
        _validate.integer("n_groups", self.n_groups, at_least=2)
        _validate.real("smallest_share", self.smallest, above=0.0, below=1.0)

    @cached_property
    def mechanism(self) -> LaplaceMechanism:
        """Laplace noise on the counts."""
        return LaplaceMechanism.calibrate(
            Sensitivity(2.0, "l1", LEMMA), BUDGET * self.privacy.epsilon * (1 - 1e-9), self.n_groups
        )

    @property
    def planned(self) -> Release:
        """The ledger entry."""
        return self.mechanism.planned("number of records in each group")

    @property
    def rest(self) -> PrivacyParams:
        """Promise of the second step, rounded down."""
        left = _rounding.difference_down(self.privacy.epsilon, BUDGET * self.privacy.epsilon)
        return PrivacyParams(left, self.privacy.delta)

    def run(self, groups: AnyArray, source: BitSource) -> FloatArray:
        """Return released shares (n_groups,), each at least `smallest`, of group numbers (n,) inside the range."""
        ledger = Ledger(self.privacy, (self.planned,))
        counts = np.bincount(groups, minlength=self.n_groups).astype(np.float64)
        noisy = self.mechanism.release(counts, self.planned.label, source, ledger)
        return raised(noisy / self.n, self.smallest)


@final
@dataclass(frozen=True)
class SharesThenPlan(Plan):
    """Shares of the groups from the data, then a method for these shares: one promise for both.

    Parameters
    ----------
    first : GroupShares
        What is released first, and the promise.
    then : SaddlePlan
        The method at the rest of the budget, for the released shares.
    shares : tuple of float
        Released.
    """

    first: GroupShares
    then: SaddlePlan
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        factors = tuple(1 / share for share in self.shares)
        if self.then.privacy != self.first.rest or self.then.problem.n != self.first.n:
            raise InvalidParameterError(
                "then", self.then.algorithm, "must be planned for the same records and the rest"
            )
        if getattr(self.then.problem, "factors", None) != factors or len(factors) != self.first.n_groups:
            raise InvalidParameterError("shares", self.shares, "must be those of the problem, one a group")
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def algorithm(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method's."""
        return self.then.algorithm

    @property
    def constants(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method's."""
        return self.then.constants

    @property
    def noise_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The method's."""
        return self.then.noise_name

    @property
    def privacy(self) -> PrivacyParams:  # pyright: ignore[reportIncompatibleVariableOverride]
        """For both steps."""
        return self.first.privacy

    @property
    def predicted_error(self) -> PredictedError:
        """The method's."""
        return self.then.predicted_error

    @property
    def releases(self) -> tuple[Release, ...]:
        """The shares, and all of the method."""
        return (self.first.planned, *self.then.releases)

    @property
    def adaptive(self) -> bool:
        """Always: other shares have other noise, even another method."""
        return True

    @property
    def theorem(self) -> str:
        """Composition of both."""
        return f"Shares of the groups: Laplace mechanism. Then: {self.then.theorem}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The method's."""
        return self.then.assumptions

    @property
    def public(self) -> Mapping[str, Any]:
        """The method's facts, and the shares."""
        return {**self.then.public, "released_shares": list(self.shares)}

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the noise of both is."""
        return self.first.mechanism.exact_bits(source) and self.then.exact_bits(source)


@recorded("group_shares")
def after_shares(first: GroupShares, then: SaddlePlan, shares: tuple[float, ...]) -> SharesThenPlan:
    """Return the plan of both steps, once the shares are released.

    Parameters
    ----------
    first : GroupShares
    then : SaddlePlan
        Planned for these shares with ``first.rest``.
    shares : tuple of float
        As ``first.run`` returned them.
    """
    return SharesThenPlan(first, then, shares)


def raised(shares: FloatArray, smallest: float) -> FloatArray:
    """Return shares of at least `smallest` and at most 1."""
    return np.clip(shares, smallest, 1.0)
