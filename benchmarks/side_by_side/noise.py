"""Compute the peers' noise under our neighbor relation, replace-one, and under the one that Opacus ships with."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm


@cache
def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu such that a mu-GDP release is (epsilon, delta)-DP (Dong, Roth and Su 2022, corollary 1)."""

    def gap(mu: float) -> float:
        # Logarithms, since exp(epsilon) may be large where the tail is tiny.
        second = np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
        return norm.cdf(-epsilon / mu + mu / 2) - second - delta

    return brentq(gap, 1e-6, 100.0)


@cache
def sketch_ridge(epsilon: float, delta: float, rows: int) -> float:
    """Return the least eigenvalue that `rows` Gaussian combinations of all records need, in squared longest rows.

    Such a combination is normal with the Gram matrix as covariance, whose eigenvalues are at least the ridge. A
    replaced record raises one variance by a factor of at most 1 + 1/ridge and lowers another by 1 - 1/ridge; the two
    directions are taken as orthogonal, which can only favor the method. The Renyi divergence of two normals (Gil et al.
    2013) is turned into epsilon by Canonne et al. 2020, Proposition 12.
    """

    def spent(log_ridge: float) -> float:
        ridge = np.exp(log_ridge)
        above = np.geomspace(1e-3, ridge, 500, endpoint=False)  # the order less 1
        twice = -np.log1p(-1 / ridge**2) - np.log1p(-((above / ridge) ** 2)) / above
        return np.min(rows / 2 * twice + np.log1p(-1 / (1 + above)) - np.log(delta * (1 + above)) / above)

    return float(np.exp(brentq(lambda log_ridge: spent(log_ridge) - epsilon, np.log(1.001), 40.0, xtol=1e-4)))


@cache
def sampled_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the noise multiplier, per unit of the clipping norm, of Poisson-sampled steps for one replaced record.

    The replaced record takes part with probability `rate` in both data sets, so one step's outputs are the mixtures
    (1 - q) N(0, s^2) + q N(+-1, s^2). Their privacy loss is rounded to the nearest point of a fine grid.
    """
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    def spent(sigma: float) -> float:
        width = 1 + 12 * sigma
        x = np.linspace(-width, width, 40_001)
        log_p, log_q = (
            np.logaddexp(np.log1p(-rate) + norm.logpdf(x, 0, sigma), np.log(rate) + norm.logpdf(x, shift, sigma))
            for shift in (1.0, -1.0)
        )
        loss, mass = log_p - log_q, np.exp(log_p) * (x[1] - x[0])
        step = min(1e-3, float(np.sqrt(mass @ loss**2)) / 50)
        points, index = np.unique(np.round(loss / step).astype(int), return_inverse=True)
        weights = np.bincount(index, mass / mass.sum())
        rounded = dict(zip(points.tolist(), weights.tolist(), strict=True))
        pld = PrivacyLossDistribution.create_from_rounded_probability(Counter(rounded), 0.0, step)
        return pld.self_compose(steps).get_epsilon_for_delta(delta)

    low = high = 2 * rate * np.sqrt(steps) / gaussian_mu(epsilon, delta)  # by the central limit theorem
    while spent(high) > epsilon:
        high *= 1.3
    while low > 0.05 and spent(low) < epsilon:
        low /= 1.3
    return brentq(lambda sigma: spent(sigma) - epsilon, low, high, rtol=2e-3)


@cache
def shipped_noise(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """Return the noise multiplier that Opacus chooses itself, for one record added or removed."""
    from opacus.accountants.utils import get_noise_multiplier

    return get_noise_multiplier(
        target_epsilon=epsilon, target_delta=delta, sample_rate=rate, steps=steps, accountant="prv"
    )
