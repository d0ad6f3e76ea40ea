"""Robust means for a promise, which the tests of the mechanism, of its law and of the audit ask for."""

import math

from dpconvex import _rounding
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import RobustMean
from dpconvex.mechanisms.robust_mean import budget, robust_mean_of
from dpconvex.privacy import Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.randomness import exact
from dpconvex_experiments.reference.outlier_removal import OutlierRemoval, score_sensitivity


def plan_robust_mean(
    count: int,
    dim: int,
    epsilon: float,
    delta: float,
    *,
    failure: float = 1e-3,
    outliers: float = 0.0,
    releases: int = 1,
    unit: Unit = Unit.USER,
) -> RobustMean:
    """Return the mechanism with the least noise for its radius, for `count` points in R^dim.

    `epsilon` and `delta` are of all `releases` on the same points together, which may be adaptive; the test of each may
    err with ``delta / (2 releases)``, and a single one gets all of delta, as bad and good pairs are different pairs.
    `failure` is the probability that any test fails; all else as in `robust_mean_of`.
    """
    mu, test = budget(epsilon, delta, releases)
    mean = robust_mean_of(count, dim, mu, test, failure=failure / releases, outliers=outliers, unit=unit)
    if mean is None:
        what = f"is too small for {count} points: the test could not pass"
        raise InvalidParameterError("epsilon", epsilon, what, "Use more users, or a larger epsilon or delta")
    return mean


def least_count(score_scale: float, failure: float) -> int:
    """Smallest even C at which bad pairs pass with probability at most `failure`."""
    wanted = score_scale * math.log(1 / (2 * failure)) * (1 + 3e-5) + 3e-5 * score_scale + 2
    return 2 * math.ceil(_rounding.widen_up(7.5 * wanted) / 2)


def plan_outlier_removal(count: int, dim: int, epsilon: float, delta: float) -> OutlierRemoval:
    """Return the printed mechanism with exact constants: Gaussian noise for what test and coupling leave of a promise.

    The score's Laplace scale is the paper's ``20/epsilon``, which spends a tenth of epsilon.
    """
    scale = 20 / epsilon
    coupling, rest = delta / 8, epsilon - exact.enlarged(score_sensitivity(count)) / scale
    least = least_count(scale, delta)
    if count < least or rest <= 0:
        what = f"must be at least {least} for this promise"
        raise InvalidParameterError("count", count, what, "Use RobustMean, or more points")
    mu = largest_mu(rest, delta * (7 / 8)) * (1 - 1e-9)
    return OutlierRemoval(count, dim, scale, coupling, exact.enlarged(1.0) / mu * (1 + 1e-12))
