r"""Lipschitz extensions by the slow ways of the heavy-tail paper (Lowy 2026): for some dozens of records.

For a maximum of affine functions (Proposition D.6) any weights theta of the pieces and any p of length at most C give a
plane:

    f_C(u) >= <p, u> + <theta, b> + min over y in W of <A^T theta - p, y>    for all u in W.

The library takes planes of losses with two pieces, where theta is one number (`problems.linear.lipschitz_extension`);
this is what they are compared with.

The surrogates below reach the minimizer of a ridge risk of extensions, for every data set within the planned distance
tau, by planned numbers of steps: Theorem D.4 with Lemma D.5, and Lemma 2.7 with Algorithm 3. Tau is planned so that the
number fits a public limit, noise follows, and too large plans are refused.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast, final

import numpy as np

from dpconvex import _validate, solvers
from dpconvex._types import Floats
from dpconvex.algorithms.erm.heavy_tailed.surrogates import Data, Extension, Near, Part
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses.base import quiet
from dpconvex.plugins import printed
from dpconvex.problems.linear.truncated import ExtensionRisk
from dpconvex.sets import ConvexSet
from dpconvex.sets.box import project_onto_simplex

MOST_STEPS = 1e5  #: Passes over the records in one minimization of a planned number of steps: some minutes.
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


class Counted(Extension):
    """Methods of a number of steps that is planned: tau is at least what fits `most` of them."""

    most: ClassVar[float] = MOST_STEPS

    @abstractmethod
    def steps(self, part: Part, radius: float) -> float:
        """Return how many steps suffice for every data set, over W."""

    def finest(self, part: Part) -> float:
        floor, unit = super().finest(part), part.level / (part.l2 * part.m)
        for radius in np.geomspace(0.05, 2.0, 30) * unit:  # at 2, noise is three times that of exact points
            if radius >= floor and self.steps(part, float(radius)) <= self.most:
                return float(radius)
        what = f"needs more than {self.most:g} passes for parts of {part.m} records"
        remedy = "Use surrogate='extension', fewer records or a larger epsilon"
        raise InvalidParameterError("surrogate", self.name, what, remedy)

    def work(self, part: Part, radius: float) -> Mapping[str, Any]:
        steps = math.ceil(self.steps(part, radius))
        return {"steps": steps, "evaluations": steps * part.m}


@final
@dataclass(frozen=True)
class FixedSteps(Counted):
    """Theorem D.4, as many steps for every data set: as printed (Lemma D.5), or fewer by strong convexity."""

    printed: bool = False
    reached = "a fixed number of steps along planes of a planned accuracy suffices for all data (Theorem D.4)"

    def steps(self, part: Part, radius: float) -> float:
        alpha = part.l2 / 2 * radius**2
        if self.printed:
            return (4 * part.width * 2 * part.level / alpha) ** 2 + 1
        return solvers.ridge_subgradient_steps(2 * part.level, part.l2, alpha)

    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        region, radius, _ = near
        slope, wide, alpha = 2 * part.level, part.width, part.l2 / 2 * radius**2
        if not region.contains(center, 1e-12):  # else no step leaves its neighborhood; an eighth of alpha is for 1e-12
            slope, wide = part.level + part.l2 * part.domain.diameter, region.diameter
        slopes, start = self.risk(part, data, center, radius).gradient, region.project(center)
        if not self.printed:
            steps = solvers.ridge_subgradient_steps(slope, part.l2, alpha)
            return solvers.ridge_subgradient(slopes, region.project, start, part.l2, steps)
        width = min(region.diameter, wide)
        return solvers.biased_subgradient(slopes, lambda w, _: region.project(w), start, width, alpha, slope)


@final
class Joint(Counted):
    """The joint problem of Lemma 2.7 with Algorithm 3, which stops by a certificate of its own."""

    most = 50 * MOST_STEPS  # in the worst case; it stops earlier on others
    reached = "Algorithm 3 runs until its certificate fires, within a number of steps that is planned for"

    def steps(self, part: Part, radius: float) -> float:
        width = part.domain.diameter
        slope = part.level + part.l2 * width + (part.cap.steepest + part.level) / math.sqrt(part.m)
        return (3 * math.sqrt(part.m + 1) * width * slope / (part.l2 / 2 * radius**2)) ** 2 + 1

    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        region, radius, start = near
        pieces = cast(ExtensionRisk, self.risk(part, data, center, radius)).pieces
        dim = len(center)

        def subgradients(y: Floats) -> Floats:
            return pieces.derivatives(np.einsum("ij,ij->i", pieces.slopes, y))[:, None] * pieces.slopes

        joint = solvers.JointProblem(
            *(pieces.values, subgradients, part.m, dim, part.level, part.l2, center),
            region.project,
            part.domain.project_rows,
        )
        first = np.tile(region.project(start), part.m + 1)
        diameter = math.sqrt(region.diameter**2 + part.m * part.domain.diameter**2)
        target = part.l2 / 2 * radius**2
        return solvers.adaptive_subgradient(joint.subgradient, joint.project_joint, first, diameter, target).point[:dim]


for way in (Joint("joint"), FixedSteps("fixed_steps"), FixedSteps("printed_steps", printed=True)):
    printed(way.name)(way)
