r"""Exponential mechanism over a finite public grid of the ball of radius R (Lowy and Razaviyayn, Algorithm 9).

Guarantee
    Pure epsilon-DP for neighbours that replace one record, or one user.
Lemma
    The score of a grid point w is ``F(0) - F(w)``. Replacing a record changes it by at most ``2 L ||w|| / n <= 2LR/n``,
    as each of the two records' losses changes by at most ``L ||w||`` between 0 and w. The grid is public and finite, so
    selecting from it by permute-and-flip is exactly epsilon-DP: no sampler has to converge, which is what makes the
    continuous Algorithm 9 unusable for pure privacy in more than a few dimensions. Users: the same with n users and
    their weighted sums of losses (`problems.data.users`), which are L-Lipschitz.
Assumptions
    Records are clipped into the domain; the loss has a bounded slope and bounded targets; computed scores are within
    the rounding slack of exact ones, which the sensitivity includes.
Error
    ``(2/epsilon) (2LR/n) log N + L h sqrt(d)`` for N grid points of spacing h (McKenna and Sheldon 2020 show that
    permute-and-flip is never worse than the exponential mechanism). The spacing minimises it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import (
    USER_LOSS,
    LinearModelPlan,
    PrivateResult,
    check_relation,
    check_unit,
    require_average,
)
from dpconvex.algorithms.erm.exponential_mechanism.grid import (
    applies,
    ball_grid,
    expected_excess,
    largest_side,
    score_sensitivity,
    typical_deviation,
)
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.privacy import Assumption, PrivacyParams, Release, Sensitivity
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource

LABEL = "best point of the grid"


@dataclass(frozen=True)
class ExponentialMechanismPlan(LinearModelPlan):
    """Constants of one run of the exponential mechanism.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised, over the ball of the problem's radius.
    privacy : PrivacyParams
        The promise.
    side : int
        Grid points along each axis of the cube around the ball, odd; points outside the ball are left out.
    mechanism : ReportNoisyMax
        The calibrated selection.
    bound : float
        On the expected excess mean loss.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    side: int
    mechanism: ReportNoisyMax
    bound: float
    constants: str = "calibrated"
    noise_name: str = "permute-and-flip"
    l2: float = 0.0
    algorithm: ClassVar[str] = "exponential_mechanism"

    @property
    def grid(self) -> FloatArray:
        """Candidates, shape (N, dim); the zero vector is one of them."""
        return ball_grid(self.problem.dim, self.side, self.problem.radius)

    @property
    def solver_radius(self) -> float:
        """0: nothing is solved."""
        return 0.0

    @property
    def predicted_error(self) -> PredictedError:
        """Selection among N points plus the spacing of the grid."""
        trivial, source = self.problem.trivial, "exponential mechanism over a grid"
        return PredictedError(self.bound, trivial, source, expected=self.expected)

    @property
    def expected(self) -> float | None:
        """Excess on typical data."""
        return expected_excess(self.problem, self.mechanism, self.side, self.problem.radius)

    @property
    def releases(self) -> tuple[Release, ...]:
        """One: the selected point."""
        return (self.mechanism.planned(LABEL),)

    @property
    def theorem(self) -> str:
        """Algorithm 9 over a finite set."""
        return (
            "Exponential mechanism over a public grid (Lowy and Razaviyayn, Algorithm 9 and Proposition G.1), sampled "
            "exactly by permute-and-flip."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the lemma needs."""
        return (
            Assumption("the loss has a bounded slope", "proved for the loss; features are clipped"),
            Assumption("the grid is public", "it is computed from the radius alone"),
            *((USER_LOSS,) if self.problem.grouped else ()),
        )

    @property
    def coefficient_deviation(self) -> FloatArray:
        """Approximate: that of a typical curvature."""
        return typical_deviation(self.problem, self.mechanism, self.problem.radius, 0.0)

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {"noise": self.noise_name, "grid_side": self.side}

    def exact_bits(self, source: BitSource) -> bool:
        """As the mechanism."""
        return self.mechanism.exact_bits(source)

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        from dpconvex.algorithms.erm.exponential_mechanism.run import run

        return run(self, X, y, source)

    def _user_listing(self, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups) -> PrivateResult:
        from dpconvex.algorithms.erm.exponential_mechanism.run import run

        return run(self, X, y, source, groups)


@recorded("exponential_mechanism")
def plan(problem: LinearModelProblem, privacy: PrivacyParams) -> tuple[ExponentialMechanismPlan, ...]:
    """Return the plan, or nothing where the mechanism does not apply.

    It applies to losses of one prediction with a bounded slope and bounded targets, and at most two parameters.
    """
    check_relation(privacy, users=True)
    check_unit(problem, privacy)
    require_average(problem)
    if not applies(problem):
        return ()
    R, d = problem.radius, problem.dim
    reach = score_sensitivity(problem, R, problem.loss.value_at_zero + problem.lipschitz * R)
    lemma = "scores change by at most 2 L R / n between neighbours, plus rounding"
    mechanism = ReportNoisyMax(Sensitivity(reach, "linf", lemma, unit=privacy.unit), privacy.epsilon)

    sides = np.arange(3, largest_side(problem) + 1, 2)
    bounds = 2 * reach / privacy.epsilon * d * np.log(sides) + problem.lipschitz * 2 * R / (sides - 1) * math.sqrt(d)
    best = int(np.argmin(bounds))
    return (ExponentialMechanismPlan(problem, privacy, int(sides[best]), mechanism, float(bounds[best])),)
