r"""What the phases of population localization minimize, and how: the choices of `surrogate=`.

Guarantee
    None of its own. For **every** data set `minimize` returns a point within the planned distance tau of the exact
    minimizer over the region of a ridge risk of convex C-Lipschitz functions, each of its record alone; so the
    certified point moves by at most ``2C/(lambda m) + 2 tau`` (`localization`).
Lemma
    The Lipschitz extension ``f_C(w) = min over y in W of f(y) + C |w - y|`` is convex and C-Lipschitz whatever f is
    (Lowy 2026, Lemma 2.2); W is the whole set in both stages. Planes hold for any slopes and normals (Lemma 6 of the
    docs), so an oracle can be slow, never wrong; cutting planes end with a certificate (Lemma 8).
Accuracy for every data set
    With ``alpha = lambda/2 tau^2`` oracles are asked for ``alpha/16``, and `finest` plans tau so that rounding stays
    below ``alpha/16`` for every record under the cap: ``tau >= sqrt(32 rho / lambda)``. So neither the step limit nor
    rounding ends a run. Fixed steps and Algorithm 3 need a number of steps that grows like ``1/tau^2`` to
    ``1/tau^4``: tau is planned so that it fits a public limit, noise follows, and too large plans are refused.
Assumptions
    Cap, level, set and counts are functions of public numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms import require
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, record_cap
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.problems import LinearModelProblem, Objective, Records
from dpconvex.problems.linear.extension_risk import ExtensionRisk, RecordCap, extension_rounding
from dpconvex.problems.linear.lipschitz_extension import Oracle, lipschitz_extension, structured_extension
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation
from dpconvex.problems.objective import ROUNDING
from dpconvex.sets import ConvexSet
from dpconvex.solvers import (
    AcceleratedGradient,
    BallNewton,
    CuttingPlane,
    Guaranteed,
    JointProblem,
    adaptive_subgradient,
    biased_subgradient,
    ridge_subgradient,
    ridge_subgradient_steps,
)

MOST_STEPS = 1e5
"""Passes over the records in one minimization of a planned number of steps: some minutes."""
SOLVER = Guaranteed(BallNewton(), AcceleratedGradient())
"""Of truncated losses in balls; over other sets the guaranteed one alone."""
WORST_ACCURACY = 2.0
"""Largest tau, in units of ``C / (lambda m)``, to which work may raise it: noise three times that of exact points."""


@final
@dataclass(frozen=True)
class Part:
    """Public facts of one minimization."""

    problem: LinearModelProblem
    domain: ConvexSet  #: W
    truncation: Truncation  #: level C, ball that holds W, smoothing
    l2: float
    m: int
    cap: RecordCap

    @property
    def level(self) -> float:
        """Return C."""
        return self.truncation.level

    @property
    def width(self) -> float:
        """Diameter of W within ``C / lambda`` of the centre, where the minimizer is and all steps stay."""
        return min(self.domain.diameter, 2 * self.level / self.l2)


def cap_for(problem: LinearModelProblem, moments: Moments, level: float) -> RecordCap:
    """Return which records count: nearly all, by the moments; a level beyond the cap would null what it keeps."""
    steepest = min(problem.lipschitz, max(record_cap(moments, problem.n), 4 * level)) * (1 + 1e-9)
    unit = problem.domain.intercept or 1.0
    highest = steepest * max(problem.radius, steepest / unit**2)  # of squared losses under the cap, and more
    return RecordCap(steepest, min(highest, problem.loss.value_at_zero))


class Surrogate(ABC):
    """A convex C-Lipschitz stand-in for every record's loss, and a method for its ridge risk."""

    name: ClassVar[str]  #: used in estimators and on the command line
    smooths: ClassVar[bool] = False  #: whether kinks are smoothed, for a shift of the minimizer
    lipschitz: ClassVar[str]  #: why every record's function is convex and C-Lipschitz
    reached: ClassVar[str]  #: why the minimizer is reached for every data set

    piecewise: ClassVar[bool] = False  #: whether losses have to be maxima of affine functions

    @final
    def check(self, problem: LinearModelProblem) -> None:
        """Raise `InvalidParameterError` for losses that do not fit, from public facts."""
        if self.piecewise and not isinstance(problem.loss, PiecewiseLinearLoss):
            remedy = "Use surrogate='extension'"
            raise InvalidParameterError("surrogate", self.name, "needs a piecewise linear loss", remedy)

    @abstractmethod
    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        """Return bounds on mean and mean square of the slope of one record's loss less its stand-in."""

    @abstractmethod
    def finest(self, part: Part) -> float:
        """Return the smallest distance that is reached for every data set; refuses what takes too long."""

    @abstractmethod
    def minimize(
        self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, near: tuple[ConvexSet, float, FloatArray]
    ) -> FloatArray:
        """Return a member within the distance of the minimizer, ``near`` being region, distance and start."""

    def work(self, part: Part, radius: float) -> Mapping[str, Any]:
        """Return public counts of the work, for certificates; none where the solver stops when it is done."""
        return {}


@final
class Truncated(Surrogate):
    """The loss with its slope cut at C over the record's norm."""

    name = "truncated"
    smooths = True
    lipschitz = "its slope is cut at C over the record's norm, which leaves it convex"
    reached = "a certificate is checked before anything is released; the guaranteed solver reaches it for all data"

    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        return moments.excess(level), moments.excess_square(level)

    def finest(self, part: Part) -> float:
        problem, R = part.problem, part.problem.radius
        curvature = part.truncation.curvature(problem.loss, problem.domain.l2) + part.l2
        projected = (curvature + part.l2) * part.domain.projection_error
        return 4 * (ROUNDING * (part.level + (curvature + part.l2) * R) + projected) / part.l2

    def minimize(
        self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, near: tuple[ConvexSet, float, FloatArray]
    ) -> FloatArray:
        region, radius, start = near
        risk: Objective = TruncatedRisk(part.problem.loss, *data, part.l2, part.truncation, centre)
        solver = SOLVER if SOLVER.refusal(risk.bounds, region, risk.dim) is None else SOLVER.guaranteed
        return require(solver.solve(risk, radius, region, start), radius)


class Extension(Surrogate):
    """The Lipschitz extension; below, the ways to its minimizer."""

    lipschitz = (
        "it is the Lipschitz extension over the set, an infimum of C-Lipschitz functions; of f = 0 beyond the cap"
    )
    reached = "planes of a planned accuracy end with a certificate for all data, rounding being planned for"
    oracle: Oracle = staticmethod(lipschitz_extension)

    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        """Of ``f - f_C``, which is 0 for A <= C and (A + C)-Lipschitz, at most 2A, beyond."""
        return 2 * moments.tail(level), 4 * moments.tail_square(level)

    def finest(self, part: Part) -> float:
        problem = part.problem
        rounding = extension_rounding(problem.loss, part.level, part.l2, part.cap, part.domain, problem.dim)
        return math.sqrt(32 * rounding / part.l2)  # rho <= alpha / 16

    def risk(self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, radius: float) -> ExtensionRisk:
        """Return the ridge risk, by planes within ``alpha / 16``."""
        tolerance = part.l2 * radius**2 / 32
        loss = part.problem.loss
        return ExtensionRisk(loss, *data, part.l2, part.level, part.domain, tolerance, centre, part.cap, self.oracle)

    def minimize(
        self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, near: tuple[ConvexSet, float, FloatArray]
    ) -> FloatArray:
        region, radius, start = near
        return require(CuttingPlane().solve(self.risk(part, data, centre, radius), radius, region, start), radius)


@final
class Closed(Extension):
    """By bisection on the proximal step (Lemma 6), with cutting planes."""

    name = "extension"


@final
class Structured(Extension):
    """By weights of affine pieces (Proposition D.6), with cutting planes."""

    name = "structured"
    oracle = staticmethod(structured_extension)
    piecewise = True


class Counted(Extension):
    """Methods of a number of steps that is planned: tau is at least what fits `most` of them."""

    most: ClassVar[float] = MOST_STEPS

    @abstractmethod
    def steps(self, part: Part, radius: float) -> float:
        """Return how many steps suffice for every data set, over W."""

    def finest(self, part: Part) -> float:
        floor, unit = super().finest(part), part.level / (part.l2 * part.m)
        for radius in np.geomspace(0.05, WORST_ACCURACY, 30) * unit:
            if radius >= floor and self.steps(part, float(radius)) <= self.most:
                return float(radius)
        what = f"needs more than {self.most:g} passes for parts of {part.m} records"
        remedy = "Use surrogate='extension', fewer records or a larger epsilon"
        raise InvalidParameterError("surrogate", self.name, what, remedy)

    def work(self, part: Part, radius: float) -> Mapping[str, Any]:
        steps = math.ceil(self.steps(part, radius))
        return {"steps": steps, "evaluations": steps * part.m}


@final
class FixedSteps(Counted):
    """Theorem D.4 with steps for strong convexity: as many for every data set."""

    name = "fixed_steps"
    reached = "a fixed number of steps along planes of a planned accuracy suffices for all data (Theorem D.4)"

    def steps(self, part: Part, radius: float) -> float:
        return ridge_subgradient_steps(2 * part.level, part.l2, part.l2 / 2 * radius**2)

    def minimize(
        self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, near: tuple[ConvexSet, float, FloatArray]
    ) -> FloatArray:
        region, radius, _ = near
        risk = self.risk(part, data, centre, radius)
        steps = ridge_subgradient_steps(_slope(part, centre, region), part.l2, part.l2 / 2 * radius**2)
        return ridge_subgradient(risk.gradient, region.project, region.project(centre), part.l2, steps)


@final
class PrintedSteps(Counted):
    """Theorem D.4 as printed (Lemma D.5): constant steps, ``(4 D L / alpha)^2`` of them."""

    name = "printed_steps"
    reached = FixedSteps.reached

    def steps(self, part: Part, radius: float) -> float:
        return (4 * part.width * 2 * part.level / (part.l2 / 2 * radius**2)) ** 2 + 1

    def minimize(
        self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, near: tuple[ConvexSet, float, FloatArray]
    ) -> FloatArray:
        region, radius, _ = near
        risk, target = self.risk(part, data, centre, radius), part.l2 / 2 * radius**2
        start, slope = region.project(centre), _slope(part, centre, region)
        width = min(region.diameter, part.width) if slope == 2 * part.level else region.diameter
        return biased_subgradient(risk.gradient, lambda w, _: region.project(w), start, width, target, slope)


@final
class Joint(Counted):
    """The joint problem of Lemma 2.7 with Algorithm 3, which stops by a certificate of its own."""

    name = "joint"
    most = 50 * MOST_STEPS  # in the worst case; it stops earlier on others
    reached = "Algorithm 3 runs until its certificate fires, within a number of steps that is planned for"

    def steps(self, part: Part, radius: float) -> float:
        width = part.domain.diameter
        slope = part.level + part.l2 * width + (part.cap.steepest + part.level) / math.sqrt(part.m)
        return (3 * math.sqrt(part.m + 1) * width * slope / (part.l2 / 2 * radius**2)) ** 2 + 1

    def minimize(
        self, part: Part, data: tuple[Records, AnyArray], centre: FloatArray, near: tuple[ConvexSet, float, FloatArray]
    ) -> FloatArray:
        region, radius, start = near
        pieces, dim = self.risk(part, data, centre, radius).pieces, len(centre)

        def subgradients(y: FloatArray) -> FloatArray:
            return pieces.derivatives(np.einsum("ij,ij->i", pieces.slopes, y))[:, None] * pieces.slopes

        joint = JointProblem(
            *(pieces.values, subgradients, part.m, dim, part.level, part.l2, centre),
            region.project,
            part.domain.project_rows,
        )
        first = np.tile(region.project(start), part.m + 1)
        diameter = math.sqrt(region.diameter**2 + part.m * part.domain.diameter**2)
        target = part.l2 / 2 * radius**2
        return adaptive_subgradient(joint.subgradient, joint.project_joint, first, diameter, target).point[:dim]


def _slope(part: Part, centre: FloatArray, region: ConvexSet) -> float:
    """Largest slope of the ridge risk on the steps: ``2 C`` where they start at the centre, as they stay near it."""
    if region.contains(centre, 1e-12):  # an eighth of alpha is left for what that adds
        return 2 * part.level
    return part.level + part.l2 * part.domain.diameter


SURROGATES: Mapping[str, Surrogate] = {
    each.name: each for each in (Truncated(), Closed(), Structured(), Joint(), FixedSteps(), PrintedSteps())
}
"""By the name used in estimators and on the command line."""


def surrogate_named(name: str) -> Surrogate:
    """Return the surrogate of that name."""
    return SURROGATES[_validate.choice("surrogate", name, SURROGATES)]
