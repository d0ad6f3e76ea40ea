"""What a mechanism did to the data: immutable descriptions from which the cost is computed again.

An event never changes its meaning. Each gives ``pure_epsilon`` (an exact rational, or None where no pure guarantee
holds) and ``delta(epsilon)``, an upper bound on its privacy profile in both directions. Unknown kinds are refused.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpconvex import _rounding, _validate
from dpconvex.privacy.profiles import charge, gaussian_delta


@dataclass(frozen=True)
class Parts:
    """A composition that is at least as revealing as an event: what the closed-form accountant adds up.

    Parameters
    ----------
    pure : Fraction
        Epsilon of a pure part, 0 for none.
    mu : float
        Sensitivity over standard deviation of a Gaussian part, 0 for none.
    failure : float
        Probability that anything at all is revealed.
    rho : float
        Of a zero-concentrated (zCDP) part, 0 for none.
    """

    pure: Fraction
    mu: float = 0.0
    failure: float = 0.0
    rho: float = 0.0


class Event(ABC):
    """One use of one mechanism."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def pure_epsilon(self) -> Fraction | None:
        """Pure epsilon, exact; None if the event has none."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon >= 0`."""

    @property
    def parts(self) -> Parts | None:
        """Pure, Gaussian and failing parts that together dominate the event; None if it has no such form."""
        return None if self.pure_epsilon is None else Parts(self.pure_epsilon)

    @property
    def claimed_sensitivity(self) -> float | None:
        """The sensitivity that the event's numbers presume, to be compared with the release's; None if it has none."""
        return None

    def second_opinion(self, delta: float) -> tuple[str, float] | None:
        """Another accountant's name and its epsilon for this event alone at `delta`; None where its parts are asked."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, with the kind first."""
        return {"kind": self.kind} | {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # pyright: ignore[reportArgumentType]
        }


def pure_delta(pure_epsilon: Fraction, epsilon: float) -> float:
    """Profile of the worst pure mechanism (randomised response): ``(e^pure - e^epsilon) / (1 + e^pure)``, or 0."""
    charge(10)
    excess = pure_epsilon - Fraction(epsilon)
    if excess <= 0:
        return 0.0
    pure = _rounding.float_up(pure_epsilon)
    return min(1.0, -math.expm1(-_rounding.float_up(excess)) / (1 + math.exp(-pure)) * (1 + 1e-13))


@dataclass(frozen=True)
class PureMechanism(Event):
    """A mechanism that is epsilon-DP by its own proof: exponential mechanism, noisy maximum, above-threshold.

    Parameters
    ----------
    epsilon : float
        Positive.
    """

    epsilon: float
    kind: ClassVar[str] = "pure_mechanism"

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)

    @property
    def pure_epsilon(self) -> Fraction:
        """The stated epsilon."""
        return Fraction(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Profile of the worst mechanism of this epsilon."""
        return pure_delta(self.pure_epsilon, epsilon)


@dataclass(frozen=True)
class NormExponentialNoise(Event):
    """Noise of density proportional to ``exp(-||z|| / scale)`` added to a value of the given sensitivity.

    In the l1 norm these are independent Laplace variables, in the l2 norm the "l2 Laplace" mechanism.

    Parameters
    ----------
    sensitivity, scale : float
        In the same norm, positive. Pure epsilon is their ratio.
    """

    sensitivity: float
    scale: float
    kind: ClassVar[str] = "norm_exponential_noise"

    def __post_init__(self) -> None:
        _validate.real("sensitivity", self.sensitivity, above=0.0)
        _validate.real("scale", self.scale, above=0.0)

    @property
    def pure_epsilon(self) -> Fraction:
        """Sensitivity over scale (triangle inequality)."""
        return Fraction(self.sensitivity) / Fraction(self.scale)

    @property
    def claimed_sensitivity(self) -> float:
        """The sensitivity field."""
        return self.sensitivity

    def delta(self, epsilon: float) -> float:
        """Profile of the worst mechanism of this epsilon."""
        return pure_delta(self.pure_epsilon, epsilon)


@dataclass(frozen=True)
class GaussianNoise(Event):
    """Independent normal noise added to a value of the given l2 sensitivity.

    The sensitivity is the one of the stated relation (under replace-one, the distance between two data sets with one
    record replaced): no further factor 2 is due.

    Parameters
    ----------
    sensitivity, sigma : float
        Positive; sigma is the standard deviation of every coordinate.
    """

    sensitivity: float
    sigma: float
    kind: ClassVar[str] = "gaussian_noise"

    def __post_init__(self) -> None:
        _validate.real("sensitivity", self.sensitivity, above=0.0)
        _validate.real("sigma", self.sigma, above=0.0)

    @property
    def pure_epsilon(self) -> None:
        """No pure guarantee."""
        return None

    @property
    def claimed_sensitivity(self) -> float:
        """The sensitivity field."""
        return self.sensitivity

    @property
    def mu(self) -> float:
        """Sensitivity over standard deviation, rounded up."""
        return _rounding.ratio_up(self.sensitivity, self.sigma)

    @property
    def parts(self) -> Parts:
        """The Gaussian part alone."""
        return Parts(Fraction(0), self.mu)

    def delta(self, epsilon: float) -> float:
        """Exact Gaussian profile."""
        return gaussian_delta(epsilon, self.mu)
