"""Private locations of points in a ball: plans, their stages, and what a run hands out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms import Plan, PredictedError, check_relation, require_delta
from dpconvex.algorithms.base import Releasing
from dpconvex.errors import InvalidDataError
from dpconvex.privacy import Assumption, Ledger, PrivacyCertificate, PrivacyParams
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points
from dpconvex.randomness import BitSource

R = TypeVar("R", covariant=True)
"""What a run hands out."""


class LocationPlan(Plan, Generic[R]):
    """Public constants of one private location estimate."""

    domain: PointDomain  #: Of the points
    n: int  #: Number of records (users, if one point stands for a user)

    @property
    def predicted_error(self) -> PredictedError:
        # No better bound on the objective holds for every data set.
        R = self.domain.radius_bound
        return PredictedError(2 * R, R, "the domain's diameter; a baseline without theory")

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        return {"n": self.n, **self.domain.describe(), **self.describe()}

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants beyond sizes and domain."""

    @abstractmethod
    def _run(self, points: FloatArray, source: BitSource, ledger: Ledger) -> R:
        """Run the paper's listing on sanitized points of shape (n, dim)."""

    @final
    def run(self, X: AnyArray, source: BitSource) -> R:
        """Run the planned method on exactly the planned number of points (n, dim), sanitized here (`clip_points`).

        `InvalidDataError` if shape or dtype are not those of the plan (public facts).
        """
        if len(X) != self.n:
            what = f"X has {len(X)} records, but the plan is for n={self.n}: the noise depends on n. Plan again"
            raise InvalidDataError(what)
        with np.errstate(all="ignore"):  # what floating point meets depends on the data, so it never speaks up
            return self._run(clip_points(X, self.domain), source, Ledger(self.privacy, self.releases))


@final
@dataclass(frozen=True, eq=False)
class LocationResult:
    """What a run hands out; the location, shape (dim,), is the only field that depends on data."""

    location: FloatArray
    certificate: PrivacyCertificate
    plan: LocationPlan[LocationResult]


def check(n: int, privacy: PrivacyParams, *, pure: bool = False) -> None:
    """Raise `InvalidParameterError` unless n is positive and the promise for records, with delta > 0 unless `pure`."""
    check_relation(privacy)
    _validate.integer("n", n, at_least=1)
    if not pure:
        require_delta(privacy)


class Stage(Releasing, ABC):
    """Public constants of one stage of a plan."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants."""


@dataclass(frozen=True)
class FoundRadius:
    """A released radius, in the unit of the data; `at_top` if no radius of the grid passed, so that it is the last."""

    radius: float
    at_top: bool


class RadiusFinder(Stage):
    """The stage that finds the effective radius."""

    @abstractmethod
    def find(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FoundRadius:
        """Release the effective radius of sanitized points (n, d)."""


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Where a booster begins. All three are released or public."""

    center: FloatArray  #: (d,): first iterate
    #: Iterates are kept within this distance of the center; positive, or 0 for a center that is not to be refined
    ball: float
    radius: float  #: Effective radius of the data, by which steps are sized; positive


class CenterFinder(Stage):
    """The stage that finds a center."""

    @abstractmethod
    def find(self, points: FloatArray, radius: float, source: BitSource, ledger: Ledger) -> WarmStart | None:
        """Release a center of sanitized points (n, d) for a released radius, or None if the test failed."""


class Booster(Stage):
    """The stage that refines the center: a frozen dataclass that knows n, d and its share of the budget."""

    name: ClassVar[str]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What its sensitivity rests on beyond the domain."""
        return ()

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Rough deviation of a coordinate of the result, in units of the effective radius (public facts only)."""

    @abstractmethod
    def refine(self, points: FloatArray, start: WarmStart, source: BitSource, ledger: Ledger) -> FloatArray:
        """Return a released point (d,) near the geometric median of sanitized, C-contiguous points (n, d).

        Every ``source.generator()`` is a stream of its own.
        """
