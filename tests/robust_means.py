"""Robust means for a promise, which the tests of the mechanism, of its law and of the audit ask for."""

from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import RobustMean
from dpconvex.mechanisms.robust_mean import budget, robust_mean_of
from dpconvex.privacy import Unit


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
