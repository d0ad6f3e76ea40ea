"""What the baselines share: a plan for points of a ball, a run that sanitises them, a released location."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import Plan, check_relation
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.privacy import Assumption, Ledger, PrivacyCertificate, PrivacyParams
from dpconvex.problems.data.points import PointDomain, clip_points
from dpconvex.randomness import BitSource


@final
@dataclass(frozen=True, eq=False)
class LocationResult:
    """What a run hands out.

    Parameters
    ----------
    location : array of shape (dim,)
        The released point; the only field that depends on data.
    certificate : PrivacyCertificate
    plan : LocationPlan
    """

    location: FloatArray
    certificate: PrivacyCertificate
    plan: LocationPlan


class LocationPlan(Plan):
    """Public constants of one private location estimate.

    Attributes
    ----------
    domain : PointDomain
    n : int
        Number of records.
    """

    domain: PointDomain
    n: int
    constants: str = "calibrated"

    @property
    def predicted_error(self) -> PredictedError:
        """The diameter: no better bound on the objective holds for every data set."""
        return PredictedError(
            2 * self.domain.radius_bound, self.domain.radius_bound, "the domain's diameter; a baseline without theory"
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """None beyond the domain."""
        return ()

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        """Domain, sizes, constants."""
        return {**self.domain.describe(), "n": self.n, **self.describe()}

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready constants beyond the domain."""

    @abstractmethod
    def _listing(self, points: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        """Return the released location for sanitised points of shape (n, dim)."""

    @final
    def run(self, X: AnyArray, source: BitSource) -> LocationResult:
        """Run the planned method.

        Parameters
        ----------
        X : array of shape (n, dim)
            Points of exactly the planned number; sanitised here.
        source : BitSource
            Where noise and coins come from.

        Raises
        ------
        InvalidDataError
            If shape or dtype are not those of the plan (public facts).
        """
        if len(X) != self.n:
            raise InvalidDataError(f"X has {len(X)} records, but the plan is for n={self.n}. Plan again")
        with np.errstate(all="ignore"):  # what floating point meets depends on the data, so it never speaks up
            location = self._listing(clip_points(X, self.domain), source, Ledger(self.privacy, self.releases))
        return LocationResult(location, self.certificate(source), self)


def check(n: int, privacy: PrivacyParams, *, pure: bool = False) -> None:
    """Raise `InvalidParameterError` unless a baseline can promise this.

    Parameters
    ----------
    n : int
        At least 1.
    privacy : PrivacyParams
        For one replaced record; with ``delta > 0`` unless `pure`.
    """
    check_relation(privacy)
    _validate.integer("n", n, at_least=1)
    if privacy.pure and not pure:
        raise InvalidParameterError("delta", privacy.delta, "must be > 0 for Gaussian noise", "Use 1e-6 or less")
