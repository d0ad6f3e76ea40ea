"""Private locations of points in a ball: plans, their stages, and results."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from dpconvex._types import REQUIRED, Floats, final_dataclass
from dpconvex.algorithms import Plan, PredictedError
from dpconvex.algorithms.base import Releasing
from dpconvex.algorithms.select import Plans
from dpconvex.errors import InvalidDataError
from dpconvex.mechanisms import AboveThreshold, Planned
from dpconvex.privacy import Assumption, Ledger, PrivacyCertificate
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points
from dpconvex.problems.data.sources.rows import mapped, picked
from dpconvex.randomness import BitSource

Points = Any  #: Points (n, dim): an array, or `EncodedRows`, which gives samples by position and sums.
SHORTENED = 0.125  #: If steps are cut to this share of their length or less, the status says `radius_too_large`.
FLAT, STEEP = 0.1, 0.5
"""Largest `Refined.slope` of a location to be relied on though no center was found, and least one of a location not to
be relied on though one was (`benchmarks/geometric_median.py statuses`)."""


class LocationPlan(Plan):
    """Public constants of one private location estimate."""

    domain: PointDomain  #: The ball that contains the points
    n: int  #: Number of records (users, if one point stands for a user)
    #: Rough distance from the geometric median, in released radii, if the status is ok; None if unknown
    expected_error: float | None = None
    assumptions = ()  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return repr(Plans([self]))

    @property
    def predicted_error(self) -> PredictedError:
        R = self.domain.radius_bound  # No better bound on the objective holds for every data set.
        return PredictedError(2 * R, R, "every point of the domain; in units of the released radius see expected_error")

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        return {"n": self.n, **self.domain.describe(), **self.describe()}

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants beyond sizes and domain."""

    @abstractmethod
    def _run(self, points: Points, source: BitSource, ledger: Ledger) -> "LocationResult":
        """Run the paper's listing on sanitized points of shape (n, dim); on arrays, unless it needs `only_sums`."""

    @final
    def run(self, X: Points, source: BitSource) -> "LocationResult":
        """Run the planned method on exactly the planned number of points (n, dim), sanitized here (`clip_points`).

        Raises `InvalidDataError` if shape or dtype are not those of the plan (public facts). Plans that need
        `only_sums` also take `EncodedRows`.
        """
        if len(X) != self.n:
            what = f"X has {len(X)} records, but the plan is for n={self.n}: the noise depends on n. Plan again"
            raise InvalidDataError(what)
        with np.errstate(all="ignore"):  # what floating point meets depends on the data, so it never speaks up
            inside = lambda X, of=self.domain: clip_points(X, of) if len(X) else np.empty((0, of.dim))  # noqa: E731
            points = mapped(X, X, inside)[0] if self.only_sums else inside(X)
            found = self._run(points, source, Ledger(self.privacy, self.releases))
            return replace(found, location=inside(found.location[None])[0])  # nearer to every point of the ball


def sample_of(points: Points, count: int, coins: np.random.Generator) -> Floats:
    """Return `count` of the points in memory, chosen by position and coins; without coins if these are all points."""
    n = len(points)
    return picked(points, np.sort(coins.permutation(n)[:count]) if count < n else np.arange(n))


class MedianStatus(StrEnum):
    """How a run went: a function of released values, so it costs no privacy."""

    OK = "ok"
    RADIUS_AT_TOP = "radius_at_top"
    RADIUS_TOO_LARGE = "radius_too_large"
    NO_CENTER = "no_center"
    UNSETTLED = "unsettled"
    CENTER_FAILED = "center_failed"


@final_dataclass(eq=False)
class LocationResult:
    """The result of a run. Location, radius, center and status are released; nothing else depends on the data."""

    location: Floats  #: (dim,)
    certificate: PrivacyCertificate
    plan: LocationPlan
    radius: float | None = None  #: Effective radius, within which most points have most others; None: not estimated
    center: Floats | None = None  #: (dim,): start of the refinement, the origin if no center was found; None: none
    #: ``ok``; ``radius_at_top``: no radius below the diameter passed, so the data have no crowd at this privacy;
    #: ``radius_too_large``: refinement went on with steps a share `SHORTENED` of those for the radius, or less: only
    #: the location is to be relied on, and there are many outliers; ``unsettled``: steps ended at slopes of `STEEP` or
    #: more; ``center_failed``: the crowd was too light for the test (too few records, too small epsilon, or no crowd),
    #: and the location comes from descent over the whole domain (other refinements: it is the origin);
    #: ``no_center``: the same, but descent ended at slopes of `FLAT` or less, near the least value of the objective
    status: MedianStatus = MedianStatus.OK


class Stage(Releasing, ABC):
    """Public constants of one stage of a plan."""

    only_sums: bool = False  #: Whether the stage only needs sums over the points, or few points by position

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants."""


@dataclass(frozen=True)
class FoundRadius:
    """A released radius in the unit of the data; with `at_top` it is the largest, because none of the grid passed."""

    radius: float
    at_top: bool


class RadiusFinder(Stage):
    """The stage that finds the effective radius, by one search over radii."""

    label: ClassVar[str] = "effective radius"
    mechanism: AboveThreshold

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {self.label: self.mechanism}  # once, for the whole search

    def describe(self) -> Mapping[str, Any]:
        return {"radius_epsilon": self.mechanism.epsilon, "radius_threshold": self.mechanism.threshold}

    @final
    def first(self, seen: Iterable[tuple[float, float]], last: float, source: BitSource, ledger: Ledger) -> FoundRadius:
        """Release the first of some radii at which the noisy score reaches the noisy threshold, or the last."""
        session = self.mechanism.start(self.label, source, ledger)
        for radius, score in seen:
            if session.query(score):
                return FoundRadius(radius, False)
        return FoundRadius(last, True)

    @abstractmethod
    def find(self, points: Points, source: BitSource, ledger: Ledger) -> FoundRadius:
        """Release the effective radius of sanitized points (n, d)."""


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The start of a refinement; all three values are released or public."""

    center: Floats  #: (d,): first iterate
    #: Iterates are kept within this distance of the center; positive, or 0 for a center that is not to be refined
    ball: float
    radius: float  #: Effective radius of the data, by which steps are sized; positive


class CenterFinder(Stage):
    """The stage that finds a center."""

    @abstractmethod
    def find(self, points: Points, radius: float, source: BitSource, ledger: Ledger) -> WarmStart | None:
        """Release a center of sanitized points (n, d) for a released radius, or None if the test failed."""


class Refined(NamedTuple):
    """Released by refinement: the location (d,), and what a descent tells of itself."""

    location: Floats
    factor: float = 1.0  #: Share of the planned length to which steps were cut
    slope: float = math.nan  #: Length of the mean of the last gradients, plus their noise; NaN: no descent tells it


class Booster(Stage):
    """The stage that refines the center: a frozen dataclass that knows n, d and its share of the budget."""

    name: ClassVar[str]
    assumptions: tuple[Assumption, ...] = ()  #: Assumptions of its sensitivity beyond the domain
    #: Rough deviation of a coordinate of the result, in units of the effective radius (public facts only).
    deviation: float = REQUIRED

    @abstractmethod
    def refine(self, points: Points, start: WarmStart, source: BitSource, ledger: Ledger) -> Refined:
        """Return a released point (d,) near the geometric median of sanitized, C-contiguous points (n, d).

        Every ``source.generator()`` is a stream of its own.
        """
