"""Exact privacy profiles in closed form: how large delta is at a given epsilon.

``gaussian_delta`` is the profile of the Gaussian mechanism (Balle and Wang 2018, "Improving the Gaussian mechanism
for differential privacy", Theorem 8), evaluated in log space and rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from scipy.special import log_ndtr

from dpconvex import _rounding
from dpconvex.errors import UnsupportedEventError


@dataclass
class Work:
    """How much computing may still go into prices: about microseconds. Below 0: something was refused for it."""

    left: float


_WORK: ContextVar[Work | None] = ContextVar("work", default=None)


@contextmanager
def limited(work: float) -> Iterator[Work]:
    """Let prices inside the block take so much computing together: the numbers may come from anybody's file.

    Counted are evaluations of profiles and points of grids, so that it is the same on every machine.
    """
    own = Work(work)
    token = _WORK.set(own)
    try:
        yield own
    finally:
        _WORK.reset(token)


def charge(work: float) -> None:
    """Count computing that is about to be done; raise `UnsupportedEventError` where no more of it is allowed."""
    allowed = _WORK.get()
    if allowed is None:
        return
    if not work <= allowed.left:
        allowed.left = -1.0
        raise UnsupportedEventError(
            "their numbers, or the number of different ones, would take more computing than a check may"
        )
    allowed.left -= work


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta of ``N(0, 1)`` against ``N(mu, 1)`` at `epsilon`, rounded up.

    Parameters
    ----------
    epsilon : float
        Any real number; a negative one is allowed.
    mu : float
        Sensitivity over standard deviation, at least 0.
    """
    charge(25)
    if mu == 0.0:
        return -math.expm1(min(epsilon, 0.0))
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = min(0.0, log_second - log_first)  # above 0 only by rounding
    # The logarithms carry relative errors of a few 1e-16 of their own size; charge ten times that.
    slack = 1e-14 * (2 + abs(log_first) + abs(log_second) + abs(epsilon))
    delta = math.exp(log_first) * min(1.0, -math.expm1(gap) + slack) * (1 + 1e-13)
    return min(1.0, delta + math.ulp(0.0))  # never 0: the truth may lie below the smallest float


def mixed_delta(epsilon: float, pure: float, mu: float, *others: float) -> float:
    """Smallest delta at `epsilon` of pure mechanisms composed with a Gaussian one, rounded up.

    The worst pure mechanism is randomised response, which makes the total a mixture of two Gaussian profiles:
    ``p gaussian_delta(epsilon - pure, mu) + (1 - p) gaussian_delta(epsilon + pure, mu)`` with
    ``p = e^pure / (1 + e^pure)``. Every further pure mechanism mixes two of these in the same way.

    Parameters
    ----------
    epsilon : float
        Any real number.
    pure : float
        Epsilon of a pure part, at least 0.
    mu : float
        Sensitivity over standard deviation of the Gaussian part (root of the sum of squares if there are several).
    *others : float
        Epsilons of further pure parts; the time doubles with each.
    """

    def rest(e: float) -> float:
        return mixed_delta(e, others[0], mu, *others[1:]) if others else gaussian_delta(e, mu)

    if pure == 0.0:
        return rest(epsilon)
    likely = 1 / (1 + math.exp(-pure))
    above = rest(_rounding.difference_down(epsilon, pure))
    below = rest(_rounding.difference_down(epsilon, -pure))
    return min(1.0, (likely * above + (1 - likely) * below) * (1 + 1e-12))


def largest_mu(epsilon: float, delta: float, pure: float = 0.0) -> float:
    """Largest Gaussian budget that keeps `mixed_delta` within `delta`, rounded down.

    Parameters
    ----------
    epsilon, delta : float
        Positive.
    pure : float
        In [0, epsilon).
    """
    return 1 / smallest(lambda inverse: mixed_delta(epsilon, pure, 1 / inverse) <= delta, 1.0)


def smallest(feasible: Callable[[float], bool], start: float) -> float:
    """Smallest positive number (to 1e-13 relative, from above) at which a monotone condition begins to hold.

    The condition is evaluated at the returned number itself, so the answer is on the safe side; infinity where it
    never holds.
    """
    high = start
    while not feasible(high):
        high *= 2
        if high > 1e300:
            return math.inf
    low = high / 2
    while feasible(low):
        high, low = low, low / 2
        if low < 1e-300:
            return high
    while high / low > 1 + 1e-13:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return high


BEYOND = 2.0**40
"""An epsilon that no promise reaches; where even this one does not suffice, none is looked for."""


def epsilon_of(delta_at: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon at which a decreasing profile is at most `delta`, rounded up; 0 where it holds at once."""
    if delta_at(0.0) <= delta:
        return 0.0
    if delta_at(BEYOND) > delta:
        return math.inf
    return _rounding.widen_up(smallest(lambda epsilon: delta_at(epsilon) <= delta, 1.0))
