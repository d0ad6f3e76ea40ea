r"""Heavy tails with custom losses: localization by their Lipschitz extensions over the ball (Lowy 2026).

Guarantee
    Pure epsilon-DP for neighbors that replace one record, for every data set; no moment has to exist for it.
Lemma
    That of `localization` (A.1 of the specification): the extension ``f_C(w) = min over |y| <= R of f(y) + C |w - y|``
    of a convex f is convex and C-Lipschitz, so the exact ridge minimizers of neighbors differ by at most ``2C/(lambda
    m)``. Certified points come from cutting planes on planes of Lemma 8.3 (`problems.custom.extension`).
Sensitivity
    ``2C/(lambda m) + 2 tau`` in l2. The declared largest slope A decides step counts and the rounding floor alone.
    The oracle's error and rounding are planned to be below ``alpha/4``, ``alpha = lambda tau^2 / 2``, so cutting planes
    end with a certificate on every data set (docs, Losses of your own).
Assumptions
    Declared, not enforced: every record's loss is finite and convex, its subgradients are true and at most A long. A
    record is clipped into the domain before anything is solved, and never replaced for what the function returned.
    A function that breaks its promise ends the run with an error, a violated assumption. Without convexity the
    sensitivity is the diameter, so there is no such mode for ``trusted=False``.
"""

import math
from typing import Any

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import check_relation, recorded
from dpconvex.algorithms.erm.heavy_tailed.localization import HeavyTailedPlan, planned
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, check_moments
from dpconvex.algorithms.erm.heavy_tailed.surrogates import Data, Extension, Part
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import CustomProblem
from dpconvex.problems.custom.extension import ExtendedRisk, Extender, own_rounding


@final_dataclass
class CustomExtension(Extension):
    """Lipschitz extensions over the ball of losses with a declared slope."""

    name: str = "extension of any convex loss"
    lipschitz = "it is the Lipschitz extension over the ball of a loss that is declared convex"

    def finest(self, part: Part) -> float:
        return math.sqrt(32 * own_rounding(self.extender(part), part.l2) / part.l2)  # rounding <= alpha / 16

    def risk(self, part: Part, data: Data, center: Floats, radius: float) -> ExtendedRisk:
        return ExtendedRisk(part.problem.function, data[0], part.l2, self.extender(part, radius), center)

    def work(self, part: Part, radius: float) -> dict[str, Any]:
        return {"evaluations_of_a_record": 1 + self.extender(part, radius).steps_for(part.problem.dim)}

    def extender(self, part: Part, radius: float = math.inf) -> Extender:
        """Return the extender of a part, whose planes are accurate to ``alpha / 8``."""
        problem = part.problem
        return Extender(part.level, problem.lipschitz, problem.radius, part.l2 * radius**2 / 16)


def check_custom(problem: CustomProblem, privacy: PrivacyParams, moments: object) -> None:
    """Raise `InvalidParameterError` unless methods for heavy tails apply to these public facts."""
    check_moments(moments)
    check_relation(privacy)
    if not problem.trusted:
        what = "must be True with heavy_tailed: without convexity one record moves minimizers across the ball"
        raise InvalidParameterError("trusted", False, what, "Leave heavy_tailed out: noise then covers the ball")
    if problem.aggregation != "average":
        what = "must be an average over records for heavy_tailed: moments are of the slopes of single records"
        raise InvalidParameterError("function", problem.name, what, "Write a RecordLoss")


@recorded("heavy_tailed_custom")
def plan(
    problem: CustomProblem, privacy: PrivacyParams, moments: Moments,
    *, constants: str = "calibrated", failure: float | None = None,
) -> HeavyTailedPlan[CustomProblem]:  # fmt: skip
    """Return the plan, which spends pure epsilon, whatever delta is; parameters as in `localization.plan`."""
    check_custom(problem, privacy, moments)
    return planned(problem, privacy, moments, CustomExtension(), constants, failure)
