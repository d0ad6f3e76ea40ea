r"""Lipschitz extensions of maxima of affine functions, by the slow way of the heavy-tail paper: a reference for tests.

For a maximum of affine functions (Lowy 2026, Proposition D.6) any weights theta of the pieces and any p of length at
most C give a plane:

    f_C(u) >= <p, u> + <theta, b> + min over y in W of <A^T theta - p, y>    for all u in W.

The library takes planes of losses with two pieces, where theta is one number (`problems.linear.lipschitz_extension`).
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats
from dpconvex.errors import InvalidDataError
from dpconvex.losses.base import quiet
from dpconvex.sets import ConvexSet
from dpconvex.sets.balls import project_onto_simplex

_PLANE_ROUNDING = 1e-14  # of a plane with weights, relative
_ASCENT = 5000  # steps on the weights for one proximal point


@final
@dataclass(frozen=True, eq=False)
class MaxAffine:
    """The function ``max over j of <a_j, y> + b_j``: finite slopes a (M, dim) and offsets b (M,)."""

    slopes: Floats
    offsets: Floats

    def __post_init__(self) -> None:
        if self.slopes.ndim != 2 or self.slopes.size == 0 or self.offsets.shape != self.slopes.shape[:1]:
            shapes = f"slopes {self.slopes.shape} and offsets {self.offsets.shape}"
            raise InvalidDataError(f"{shapes}: one offset for each row of slopes is needed, at least one")

    def value(self, y: Floats) -> float:
        """Return the function at `y` (dim,)."""
        return float((self.slopes @ y + self.offsets).max())


@final
@dataclass(frozen=True, eq=False)
class Plane:
    """A lower plane of an extension at a point w, and an upper bound there: ``lower <= f_C(w) <= upper``.

    ``f_C(u) >= lower + <slope, u - w>`` for all u in the set; the slope (dim,) is at most C long: a B-subgradient with
    ``B = upper - lower``.
    """

    lower: float
    upper: float
    slope: Floats


@quiet
def max_affine_extension(f: MaxAffine, w: Floats, level: float, domain: ConvexSet, tolerance: float) -> Plane:
    """Return a plane and a bracket of ``f_C(w) = min over y in W of f(y) + C |w - y|``, `w` projected onto W first.

    ``upper - lower`` is at most the tolerance unless rounding or slow convergence of the weights forbid it; the bracket
    holds in any case (Lowy 2026, Definition D.3, Proposition D.6, Corollary D.7).
    """
    _validate.real("level", level, above=0.0)
    _validate.real("tolerance", tolerance, above=0.0)
    w, reach = domain.project(w), _validate.real("diameter", domain.diameter, above=0.0, remedy="Give a bounded set")
    best = Plane(-math.inf, f.value(w), np.zeros_like(w))
    short, long, weights = 0.0, reach / level, np.full(len(f.offsets), 1 / len(f.offsets))
    step = long
    for _ in range(max(1, math.ceil(2 * math.log2(max(2.0, level * reach / tolerance)))) + 1):
        y, weights = _affine_proximal(f, w, step, domain, weights, tolerance / 8)
        p = (w - y) / step
        length = float(np.linalg.norm(p))
        upper = min(best.upper, f.value(y) + level * float(np.linalg.norm(w - y)))
        slope = p * min(1.0, level / length * (1 - 1e-15)) if length > 0 else p
        lower = _plane_value(f, w, weights, slope, domain)
        best = Plane(lower, upper, slope) if lower > best.lower else Plane(best.lower, upper, best.slope)
        if best.upper - best.lower <= tolerance:
            break
        short, long = (step, long) if length > level else (short, step)
        step = 0.5 * (short + long)
    return Plane(min(best.lower, best.upper), best.upper, best.slope)


def _plane_value(f: MaxAffine, w: Floats, weights: Floats, slope: Floats, domain: ConvexSet) -> float:
    """Value at w of the plane of these weights and this slope, rounded down."""
    tilt = weights @ f.slopes - slope
    y = domain.linear_minimizer(tilt)
    size = float(np.linalg.norm(tilt)) * domain.radius + float(np.linalg.norm(slope)) * domain.radius
    size += float(weights @ (np.linalg.norm(f.slopes, axis=1) * domain.radius + np.abs(f.offsets)))
    return float(slope @ w) + float(weights @ f.offsets) + float(tilt @ y) - _PLANE_ROUNDING * size


def _affine_proximal(
    f: MaxAffine, w: Floats, step: float, domain: ConvexSet, weights: Floats, tolerance: float
) -> tuple[Floats, Floats]:
    """Return ``argmin over W of f(y) + |w - y|^2 / (2 step)`` and the weights of its pieces.

    Accelerated projected ascent on the weights: the dual is concave, of curvature ``step |A|^2``; it stops when the
    pieces in use are the largest ones, up to the tolerance.
    """
    rate = 1 / (step * max(float(np.linalg.norm(f.slopes, 2)) ** 2, 1e-300))
    x, momentum, t, least = weights, weights, 1.0, math.inf
    best, nearest = weights, w
    for _ in range(_ASCENT):
        y = domain.project(w - step * (momentum @ f.slopes))
        values = f.slopes @ y + f.offsets
        gap = float(values.max() - momentum @ values)
        if gap < least:
            best, nearest, least = momentum, y, gap
        if gap <= tolerance:
            break
        new = project_onto_simplex(momentum + rate * (values - values.mean()), 1.0)
        if float((momentum - new) @ (new - x)) > 0:  # restart: the momentum points downhill
            t = 1.0
        t_new = 0.5 + math.sqrt(0.25 + t * t)
        momentum = project_onto_simplex(new + (t - 1) / t_new * (new - x), 1.0)
        x, t = new, t_new
    return nearest, best
