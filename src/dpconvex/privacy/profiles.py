"""Privacy profiles in closed form: how large delta is at a given epsilon. All are rounded up.

Gaussian
    ``gaussian_delta`` is the profile of the Gaussian mechanism (Balle and Wang 2018, "Improving the Gaussian mechanism
    for differential privacy", Theorem 8), evaluated in log space.
Zero-concentrated and Renyi
    A mechanism is ``rho``-zCDP if its outputs on neighbors have Renyi divergence at most ``alpha rho`` for every order
    ``alpha > 1`` (Bun and Steinke 2016). These add up under adaptive composition. Conversion to (epsilon, delta):
    Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy", Proposition 12.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from dpconvex import _rounding
from dpconvex._types import Floats
from dpconvex.errors import UnsupportedEventError


@dataclass(eq=False)
class Work:
    """The computing that pricing events may still take; prices are refused when it is used up."""

    left: float  #: about microseconds; below 0 once a price was refused


WORK: ContextVar[Work | None] = ContextVar("work", default=None)  #: Set inside `limited`; None: without limit


@contextmanager
def limited(work: float) -> Iterator[Work]:
    """Let prices inside the block take `work` (about microseconds) together, counted alike on every machine."""
    own = Work(work)
    token = WORK.set(own)
    try:
        yield own
    finally:
        WORK.reset(token)


def charge(work: float) -> None:
    """Count `work` that is about to be done; raise `UnsupportedEventError` if `limited` does not allow it."""
    if (allowed := WORK.get()) is None:
        return
    if not work <= allowed.left:
        allowed.left = -1.0
        what = "their numbers, or the number of different ones, would take more computing than a check may"
        raise UnsupportedEventError(what)
    allowed.left -= work


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta of ``N(0, 1)`` against ``N(mu, 1)`` at `epsilon`, which may be negative, rounded up."""
    charge(25)
    if mu == 0.0:
        return -math.expm1(min(epsilon, 0.0))
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    gap = min(0.0, log_second - log_first)  # above 0 only by rounding
    # The logarithms have relative errors of a few 1e-16; more than ten times that is charged.
    slack = 1e-14 * (2 + abs(log_first) + abs(log_second) + abs(epsilon))
    delta = math.exp(log_first) * min(1.0, -math.expm1(gap) + slack) * (1 + 1e-13)
    return min(1.0, delta + math.ulp(0.0))  # never 0: the truth may lie below the smallest float


def mixed_delta(epsilon: float, pure: float, mu: float, *others: float) -> float:
    """Smallest delta at `epsilon`, rounded up, of pure mechanisms (`pure`, `others`) composed with Gaussian ones.

    `mu` is the root of the sum of the Gaussians' squared mu. The worst pure mechanism is randomized response: it makes
    the profile a mixture of two shifted copies of the profile of all others, so the time doubles with each.
    """

    def rest(e: float) -> float:
        return mixed_delta(e, others[0], mu, *others[1:]) if others else gaussian_delta(e, mu)

    if pure == 0.0:
        return rest(epsilon)
    likely = 1 / (1 + math.exp(-pure))
    above = rest(_rounding.difference_down(epsilon, pure))
    below = rest(_rounding.difference_down(epsilon, -pure))
    return min(1.0, (likely * above + (1 - likely) * below) * (1 + 1e-12))


def spare(epsilon: float) -> float:
    """Return the share of `epsilon` that planners leave: rounding moves profiles by about 1e-14 / epsilon of it."""
    return min(1e-6, 1e-13 / max(epsilon, 1e-300))


def largest_mu(epsilon: float, delta: float, pure: float = 0.0) -> float:
    """Largest mu at which `mixed_delta` is at most `delta`, rounded down; `pure` must be below epsilon."""
    left = epsilon - pure
    kept = 1 - spare(left) if left < 0.1 else 1.0
    return kept / smallest(lambda inverse: mixed_delta(epsilon, pure, 1 / inverse) <= delta, 1.0)


def smallest(feasible: Callable[[float], bool], start: float) -> float:
    """Smallest positive number, to 1e-13, at which a monotone condition holds; infinity if it holds nowhere."""
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


BEYOND = 2.0**40  #: An epsilon above every promise: if even this one is too small, the answer is infinity.


def epsilon_of(delta_at: Callable[[float], float], delta: float) -> float:
    """Smallest epsilon, at least 0, at which a decreasing profile is at most `delta`, rounded up."""
    if delta_at(0.0) <= delta:
        return 0.0
    if delta_at(BEYOND) > delta:
        return math.inf
    return _rounding.widen_up(smallest(lambda epsilon: delta_at(epsilon) <= delta, 1.0))


ORDERS = 1 + np.exp(np.linspace(-8.0, 16.0, 4801))
"""Orders of the bounded Renyi divergences. Any set of orders gives a valid delta; here it is 1e-5 above the best."""


def renyi_delta(divergences: Floats, epsilon: float) -> float:
    """Smallest delta at `epsilon` that bounds on the Renyi divergences of all `ORDERS` prove, rounded up."""
    charge(300)
    a = ORDERS
    logs = (a - 1) * (divergences - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)
    # Each term is off by a few units in its last place; a hundred of them are charged.
    slack = 1e-14 * (1 + (a - 1) * (np.abs(divergences) + epsilon))
    best = float(np.min(logs + slack))
    return min(1.0, math.exp(min(best, 0.0)) * (1 + 1e-13) + math.ulp(0.0))  # never 0: it may have underflowed


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Delta at `epsilon` of any `rho`-zCDP mechanism, rounded up; never 0 for rho > 0: zCDP proves no pure promise."""
    return renyi_delta(ORDERS * rho, epsilon)


@lru_cache(maxsize=64)  # planners ask for the same arguments again, once for every number of steps
def largest_rho(epsilon: float, delta: float) -> float:
    """Largest rho at which `zcdp_delta` is at most `delta`, rounded down.

    >>> round(largest_rho(1.0, 1e-6), 5)
    0.02436
    """
    return 1 / smallest(lambda inverse: zcdp_delta(1 / inverse, epsilon) <= delta, 1.0)


def bounded_range_divergence(eta: float) -> Floats:
    r"""Largest Renyi divergences, at `ORDERS`, of two output laws whose log-ratio lies in an interval of length `eta`.

    Among laws with losses in ``[t - eta, t]`` the two-point one is extremal (``E_Q e^{alpha L}`` is convex in ``e^L``,
    whose mean is 1). With ``u = e^-t`` its moment is ``u^-alpha (A + B u)``, largest at ``u = -alpha A/((alpha-1) B)``.
    The bound ``alpha eta^2/8`` (Cesar and Rogers 2021) is used where it is smaller, or where rounding would count.
    """
    a = ORDERS
    simple = a * eta**2 / 8 * (1 + 1e-13)
    if eta < 0.01 or eta > 500:
        return np.minimum(simple, eta)
    low = math.exp(-eta)
    with np.errstate(under="ignore"):
        b = -np.expm1(-a * eta) / -math.expm1(-eta)
        minus_a = -np.exp(-a * eta) + b * low  # = b - 1 in the limit of small eta
        u = np.clip(a * minus_a / ((a - 1) * b), low, 1.0)
        exact = (-a * np.log(u) + np.log(np.maximum(b * u - minus_a, 1e-300))) / (a - 1)
    return np.minimum.reduce([simple, exact + 1e-13 * (1 + 1 / (a - 1)), np.full_like(a, eta)])
