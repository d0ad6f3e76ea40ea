"""One thing to audit: a promise, neighbouring data sets, and what a run hands out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from dpconvex._types import FloatArray
from dpconvex.audit.auditor import Auditable
from dpconvex.audit.neighbours import Pairs
from dpconvex.audit.outputs import released
from dpconvex.privacy import PrivacyParams, Unit


@final
@dataclass(frozen=True, eq=False)
class Subject:
    """A plan with what an audit of it needs.

    Parameters
    ----------
    plan : Auditable
    pairs : mapping of str to Pair
        Neighbouring data sets.
    output : callable
        Released numbers of a result.
    """

    plan: Auditable
    pairs: Pairs
    output: Callable[[Any], FloatArray] = released


Builder = Callable[[PrivacyParams, float], Subject]
"""From a promise and a bound on the domain to a subject; raises `InvalidParameterError` where nothing applies."""


@final
@dataclass(frozen=True)
class Target:
    """An algorithm or mechanism of this library, ready to be audited.

    Parameters
    ----------
    name : str
        ``algorithm`` or ``algorithm/variant``.
    pure : bool
        Whether its promise has delta 0.
    unit : Unit
        Whose data its neighbours replace.
    builder : callable
    """

    name: str
    pure: bool
    unit: Unit
    builder: Builder

    def subject(self, epsilon: float, delta: float, bound: float) -> Subject:
        """Return what to audit.

        Parameters
        ----------
        epsilon : float
            Of the promise.
        delta : float
            Of the promise; not used where it is pure.
        bound : float
            On the features, points, queries or payoffs, or the sensitivity of a mechanism.
        """
        return self.builder(PrivacyParams(epsilon, 0.0 if self.pure else delta, unit=self.unit), bound)
