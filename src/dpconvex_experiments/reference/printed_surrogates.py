r"""Slow ways to the minimizer of Lipschitz extensions, as the heavy-tail paper has them: for some dozens of records.

Guarantee
    That of `algorithms.erm.heavy_tailed.surrogates`: for every data set the point is within the planned distance tau.
Accuracy for every data set
    Tau is planned so that the number of steps fits a public limit, noise follows, and too large plans are refused.

References
----------
Lowy 2026, Theorem D.4 with Lemma D.5, and Lemma 2.7 with Algorithm 3.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast, final

import numpy as np

from dpconvex import solvers
from dpconvex._types import Floats
from dpconvex.algorithms.erm.heavy_tailed.surrogates import Data, Extension, Near, Part
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import printed
from dpconvex.problems.linear.truncated import ExtensionRisk

MOST_STEPS = 1e5  #: Passes over the records in one minimization of a planned number of steps: some minutes.


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
