"""The printed outlier removal of Lowy, Liu and Asi (2024) by itself, with exact constants for a promise."""

import math

from dpconvex import _rounding, _validate
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import OutlierRemoval
from dpconvex.mechanisms.robust_mean import score_sensitivity
from dpconvex.privacy import Unit
from dpconvex.privacy.profiles import largest_mu
from dpconvex.randomness import exact


def least_count(score_scale: float, failure: float) -> int:
    """Smallest even C at which bad pairs pass with probability at most `failure`."""
    wanted = score_scale * math.log(1 / (2 * failure)) * (1 + 3e-5) + 3e-5 * score_scale + 2
    return 2 * math.ceil(_rounding.widen_up(7.5 * wanted) / 2)


def plan_outlier_removal(
    count: int, dim: int, epsilon: float, delta: float, *, score_scale: float | None = None, unit: Unit = Unit.USER
) -> OutlierRemoval:
    """Return the printed mechanism with exact constants: Gaussian noise for what test and coupling leave of a promise.

    The score's Laplace scale b is by default the paper's ``20/epsilon``, which spends a tenth of epsilon.
    """
    scale = 20 / epsilon if score_scale is None else _validate.real("score_scale", score_scale, above=0.0)
    coupling, rest = delta / 8, epsilon - exact.enlarged(score_sensitivity(count)) / scale
    least = least_count(scale, delta)
    if count < least or rest <= 0:
        what = f"must be at least {least} for this promise"
        raise InvalidParameterError("count", count, what, "Use RobustMean, or more points")
    mu = largest_mu(rest, delta * (7 / 8)) * (1 - 1e-9)
    return OutlierRemoval(count, dim, scale, coupling, exact.enlarged(1.0) / mu * (1 + 1e-12), unit)
