r"""Surrogate losses that the phases of population localization minimize, with solvers: the choices of `surrogate=`.

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
    below ``alpha/16`` for every record under the cap.
Assumptions
    Cap, level, set and counts are functions of public numbers.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from dpconvex import _validate, solvers
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.algorithms import require
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, record_cap
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.plugins import of_paper
from dpconvex.problems import Objective, Records
from dpconvex.problems.base import ROUNDING
from dpconvex.problems.linear.truncated import ExtensionRisk, RecordCap, TruncatedRisk, Truncation, extension_rounding
from dpconvex.sets import ConvexSet

Data = tuple[Records, Array]
Near = tuple[ConvexSet, float, Floats]  #: Region, distance and start of a minimization.
SOLVER = solvers.Guaranteed(solvers.BallNewton(), solvers.AcceleratedGradient())
"""Solver for truncated losses in balls; over other sets its guaranteed method runs alone."""


@final_dataclass
class Part:
    """Public facts of one minimization."""

    problem: Any  #: a `LinearModelProblem`, or another problem that the surrogate is for
    domain: ConvexSet  #: the set W of parameters
    truncation: Truncation  #: level C, ball that contains W, and smoothing
    l2: float
    m: int
    moments: Moments
    level = forwarded("truncation", "level")  #: level C

    @property
    def cap(self) -> RecordCap:
        """The cap beyond which records are nulled: few by the moments, and none that the level would keep whole."""
        problem = self.problem
        steepest = min(problem.lipschitz, max(record_cap(self.moments, problem.n), 4 * self.level)) * (1 + 1e-9)
        unit = problem.domain.intercept or 1.0
        highest = steepest * max(problem.radius, steepest / unit**2)  # of squared losses under the cap, and more
        return RecordCap(steepest, min(highest, problem.loss.value_at_zero))

    @property
    def width(self) -> float:
        """Diameter of W within ``C / lambda`` of the center, where the minimizer is and all steps stay."""
        return min(self.domain.diameter, 2 * self.level / self.l2)


class Surrogate(ABC):
    """A convex C-Lipschitz surrogate of every record's loss, and a method that minimizes its ridge risk."""

    name: str  #: name in estimators and on the command line
    smooths: ClassVar[bool] = False  #: whether kinks are smoothed, at the cost of a shift of the minimizer
    losses: ClassVar[str] = "Lipschitz extensions"  #: what the surrogates are, in words
    lipschitz: ClassVar[str]  #: why every record's function is convex and C-Lipschitz
    reached: ClassVar[str]  #: why the minimizer is reached for every data set
    piecewise: bool = False  #: whether losses have to be maxima of affine functions

    @final
    def check(self, problem: Any) -> None:
        """Raise `InvalidParameterError` for losses that do not fit, from public facts."""
        if self.piecewise and not isinstance(problem.loss, PiecewiseLinearLoss):
            remedy = "Use surrogate='extension'"
            raise InvalidParameterError("surrogate", self.name, "needs a piecewise linear loss", remedy)

    @abstractmethod
    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        """Return bounds on mean and mean square of the slope of one record's loss less its surrogate."""

    @abstractmethod
    def finest(self, part: Part) -> float:
        """Return the smallest distance reached for every data set; refuse parts that take too long."""

    @abstractmethod
    def risk(self, part: Part, data: Data, center: Floats, radius: float) -> Objective:
        """Return the ridge risk, accurate enough to come within `radius` of its minimizer."""

    @abstractmethod
    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        """Return a point of the region within the given distance of the minimizer."""

    def work(self, part: Part, radius: float) -> Mapping[str, Any]:
        """Return public counts of the work, for certificates; none where the solver's number of steps is not fixed."""
        return {}


@final
class Truncated(Surrogate):
    """The loss with its slope cut at C over the record's norm."""

    name = "truncated"
    smooths = True
    losses = "truncated losses"
    lipschitz = "its slope is cut at C over the record's norm, which leaves it convex"
    reached = "a certificate is checked before anything is released; the guaranteed solver reaches it for all data"

    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        return moments.excess(level), moments.excess_square(level)

    def finest(self, part: Part) -> float:
        problem, R = part.problem, part.problem.radius
        curvature = part.truncation.curvature(problem.loss, problem.domain.l2) + part.l2
        projected = (curvature + part.l2) * part.domain.projection_error
        return 4 * (ROUNDING * (part.level + (curvature + part.l2) * R) + projected) / part.l2

    def risk(self, part: Part, data: Data, center: Floats, radius: float) -> Objective:
        return TruncatedRisk(part.problem.loss, *data, part.l2, part.truncation, center)

    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        region, radius, start = near
        risk = self.risk(part, data, center, radius)
        solver = SOLVER if SOLVER.refusal(risk.bounds, region, risk.dim) is None else SOLVER.guaranteed
        return require(solver.solve(risk, radius, region, start), radius)


@dataclass(frozen=True)
class Extension(Surrogate):
    """The Lipschitz extension, by cutting planes.

    Planes come from bisection on the proximal step (Lemma 6), which finds weights of two pieces (D.6) too.
    """

    name: str
    piecewise: bool = False
    lipschitz = "the Lipschitz extension over the set: an infimum of C-Lipschitz functions; of f = 0 beyond the cap"
    reached = "planes of a planned accuracy end with a certificate for all data, rounding being planned for"

    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        """Return the bounds for ``f - f_C``, which is 0 for A <= C and else (A + C)-Lipschitz, at most 2A."""
        return 2 * moments.tail(level), 4 * moments.tail_square(level)

    def finest(self, part: Part) -> float:
        problem = part.problem
        rounding = extension_rounding(problem.loss, part.level, part.l2, part.cap, part.domain, problem.dim)
        return math.sqrt(32 * rounding / part.l2)  # rho <= alpha / 16

    def risk(self, part: Part, data: Data, center: Floats, radius: float) -> Objective:
        """Return the ridge risk with planes accurate to ``alpha / 16``."""
        tolerance = part.l2 * radius**2 / 32
        return ExtensionRisk(part.problem.loss, *data, part.l2, part.level, part.domain, tolerance, center, part.cap)

    def minimize(self, part: Part, data: Data, center: Floats, near: Near) -> Floats:
        region, radius, start = near
        found = solvers.CuttingPlane().solve(self.risk(part, data, center, radius), radius, region, start)
        return require(found, radius)


SURROGATES: Mapping[str, Surrogate] = {
    "truncated": Truncated(),
    "extension": Extension("extension"),
    "structured": Extension("structured", piecewise=True),
}
PRINTED = ("joint", "fixed_steps", "printed_steps")
"""Other methods of the paper for the extension's minimizer; they belong to the experiments."""


def surrogate_named(name: str) -> Surrogate:
    """Return the surrogate of that name, as used in estimators and on the command line."""
    _validate.choice("surrogate", name, (*SURROGATES, *PRINTED))
    return of_paper(name) if name in PRINTED else SURROGATES[name]
