"""Zero-concentrated and Renyi differential privacy: how a bound on divergences of all orders becomes (epsilon, delta).

A mechanism is ``rho``-zCDP if its outputs on neighbours have Renyi divergence at most ``alpha rho`` for every order
``alpha > 1`` (Bun and Steinke 2016). These add up under adaptive composition. Conversion: Canonne, Kamath and Steinke
2020, "The discrete Gaussian for differential privacy", Proposition 12.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.privacy.profiles import charge, smallest

ORDERS = 1 + np.exp(np.linspace(-8.0, 16.0, 4801))
"""Orders at which divergences are bounded. Any set gives a valid delta; on this one it is 1e-5 above the best."""


def renyi_delta(divergences: FloatArray, epsilon: float) -> float:
    """Smallest delta at `epsilon` that bounds on the divergences of the orders `ORDERS` prove, rounded up.

    Parameters
    ----------
    divergences : array of shape (len(ORDERS),)
        At least 0; infinite where unknown.
    epsilon : float
        At least 0.
    """
    charge(300)
    a = ORDERS
    logs = (a - 1) * (divergences - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)
    # Each term carries a few units in the last place of its own size; charge a hundred.
    slack = 1e-14 * (1 + (a - 1) * (np.abs(divergences) + epsilon))
    best = float(np.min(logs + slack))
    return min(1.0, math.exp(min(best, 0.0)) * (1 + 1e-13) + math.ulp(0.0))  # never 0: it may have underflowed


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Delta at `epsilon` of any `rho`-zCDP mechanism, rounded up.

    Parameters
    ----------
    rho, epsilon : float
        At least 0. No rho > 0 gives delta 0: zCDP proves no pure promise.
    """
    return renyi_delta(ORDERS * rho, epsilon)


@lru_cache(maxsize=64)  # a schedule asks again for every number of steps
def largest_rho(epsilon: float, delta: float) -> float:
    """Largest zCDP budget that keeps `zcdp_delta` within `delta`, rounded down.

    Parameters
    ----------
    epsilon : float
        Positive.
    delta : float
        Positive.

    Examples
    --------
    >>> round(largest_rho(1.0, 1e-6), 5)
    0.02436
    """
    return 1 / smallest(lambda inverse: zcdp_delta(1 / inverse, epsilon) <= delta, 1.0)


def bounded_range_divergence(eta: float) -> FloatArray:
    r"""Largest Renyi divergences, orders `ORDERS`, of outputs whose log-ratio lies in an interval of length `eta`.

    Among laws with losses in ``[t - eta, t]`` the two-point one is extremal (``E_Q e^{alpha L}`` is convex in ``e^L``,
    whose mean is 1). With ``u = e^-t`` its moment is ``u^-alpha (A + B u)``, largest at ``u = -alpha A/((alpha-1) B)``.
    The bound ``alpha eta^2/8`` (Cesar and Rogers 2021) is used where it is smaller, or where rounding would count.

    Parameters
    ----------
    eta : float
        Positive.

    Returns
    -------
    array of shape (len(ORDERS),)
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
