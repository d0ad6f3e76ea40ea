"""The exponential mechanism charged as a Gaussian one, so that many of them compose to much less than their sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from dpconvex import _validate
from dpconvex.privacy.events.basic import Event, Parts, pure_delta
from dpconvex.privacy.profiles import gaussian_delta


@dataclass(frozen=True)
class BoundedRange(Event):
    """A mechanism whose privacy loss, for every pair of neighbours, lies in an interval of length `epsilon`.

    The exponential mechanism with ``exp(epsilon u / (2 s))`` for utilities of sensitivity s is one. It is also
    epsilon-DP, but costs less: it is covered by the Gaussian with ``Phi(mu / 2) = 1 / (1 + e^(-epsilon / 2))``.
    Proof. Among losses in an interval ``[t - epsilon, t]`` those with two values, its ends, reveal most. Their
    trade-off curve has one kink (alpha, beta). The Gaussian through it has ``mu = a - b``, ``Phi(a) = 1 - alpha``,
    ``Phi(b) = beta``, and lies below (it is convex, the other has straight pieces between common points). Both
    likelihood ratios give ``epsilon = L(a) - L(b)``, ``L(x) = log Phi(x) - log Phi(-x)``. ``L'`` is the sum of the
    hazard rates of x and -x, even and convex (Sampford 1953). So at given mu epsilon is least for ``a = -b``: at
    given epsilon mu is largest there, where ``epsilon = 2 L(mu / 2)``.

    Parameters
    ----------
    epsilon : float
        Positive.

    References
    ----------
    Dong, Durfee and Rogers 2020, "Optimal differential privacy composition for exponential mechanisms".
    """

    epsilon: float
    kind: ClassVar[str] = "bounded_range"

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)

    @property
    def pure_epsilon(self) -> None:
        """Not summed: the event is charged by its Gaussian. Use `PureMechanism` for a pure promise."""
        return None

    @property
    def mu(self) -> float:
        """Of the covering Gaussian, rounded up."""
        return float(-2 * ndtri_exp(-np.logaddexp(0.0, self.epsilon / 2))) * (1 + 1e-9) + 1e-15

    @property
    def parts(self) -> Parts:
        """The covering Gaussian."""
        return Parts(Fraction(0), self.mu)

    def delta(self, epsilon: float) -> float:
        """The better of two profiles: of the worst mechanism of this pure epsilon, and of the covering Gaussian."""
        return min(pure_delta(Fraction(self.epsilon), epsilon), gaussian_delta(epsilon, self.mu))


def covered_range(mu: float) -> float:
    """Largest range that a Gaussian of this `mu` covers, rounded down: inverse of `BoundedRange.mu`."""
    narrowed = (mu - 3e-15) * (1 - 3e-9)  # the difference of logarithms errs by an absolute 1e-15
    return 2 * float(log_ndtr(narrowed / 2) - log_ndtr(-narrowed / 2))
