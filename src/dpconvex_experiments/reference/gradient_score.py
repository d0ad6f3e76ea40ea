r"""Exponential mechanism on the length of the projected gradient, for heavy tails (Lowy 2026, Algorithm 5).

Guarantee
    Pure epsilon-DP for neighbours that replace one record, for every data set: no moment has to exist for it.
Lemma
    Let ``g(w)`` be the mean of the records' gradients, each cut to length C (the gradient of a convex truncated risk,
    docs, Heavy tails), and ``s(w) = |w - project(w - gamma (g(w) + l2 w))| / gamma`` the length of the projected
    gradient. A replaced record moves ``g(w)`` by at most ``2C/n``, projections do not expand, so every score moves by
    at most ``2C/n``, whatever the *public* step gamma is. Grid points are public and finitely many: permute-and-flip
    selects one with pure epsilon, exactly.
Assumptions
    Level, step and grid are public; computed scores are within the rounding slack, which the sensitivity includes.
Error
    ``s(w) / l2`` bounds the distance from the minimiser of the truncated ridge risk (gamma = 1/(H + l2), H its largest
    curvature), s has slope ``2 (H + l2)``, and it is 0 at the minimiser. With N points that leave gaps of eta, against
    every point of the ball, in expectation over the data, with ``e = (4C / (epsilon n)) log N + 2 (H + l2) eta +
    bias + G_2 / sqrt(n) + C sqrt(l2 / H)`` (the last term for kinks, smoothed to curvature H):

        E F(w) - F(w*) <= l2 R^2 / 2 + G_1 e / l2 .

    One phase, no localization: half the exponent of the localized method's rate. A reference for dimensions 1 and 2.
Deviations
    The paper's step for kinks depends on the data (erratum E7), and so do its score, its net and its privacy; here a
    Moreau envelope has a public curvature. Permute-and-flip in the place of the exponential mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms import (
    LinearModelPlan,
    PredictedError,
    PrivateResult,
    check_relation,
    recorded,
    require_average,
)
from dpconvex.algorithms.erm.exponential_mechanism import MAX_DIM, ball_grid, largest_side
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.mechanisms import Planned, ReportNoisyMax
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import LinearModelProblem, Records, UserGroups
from dpconvex.problems.linear.truncated import TruncatedRisk, Truncation, check_loss
from dpconvex.problems.objective import ROUNDING
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

LABEL = "grid point with a short projected gradient"
LEMMA = "a mean of gradients cut to length C moves by at most 2C/n, and projections do not expand; plus rounding"


@final
@dataclass(frozen=True)
class GradientScorePlan(LinearModelPlan):
    """Constants of one selection."""

    problem: LinearModelProblem  #: what is minimised, over the ball of its radius
    privacy: PrivacyParams  #: the promise; delta is not used
    truncation: Truncation  #: level C, ball and smoothing
    l2: float  #: ridge weight
    side: int  #: grid points along each axis, odd
    bound: float  #: on the expected excess population risk
    trivial: float  #: what the zero vector loses at most
    constants: str = "calibrated"
    noise_name: str = "permute-and-flip"
    algorithm: ClassVar[str] = "gradient_score"
    theorem: ClassVar[str] = (  # pyright: ignore[reportIncompatibleMethodOverride]
        "Exponential mechanism on the projected gradient over a public grid (Lowy 2026, Algorithm 5)."
    )

    @property
    def grid(self) -> FloatArray:
        """Candidates, shape (N, dim)."""
        return ball_grid(self.problem.dim, self.side, self.problem.radius)

    @property
    def step(self) -> float:
        """gamma, public."""
        return 1 / (self.truncation.curvature(self.problem.loss, self.problem.domain.l2) + self.l2)

    @property
    def mechanism(self) -> ReportNoisyMax:
        size = self.truncation.level + (2 / self.step + self.l2) * self.problem.radius
        value = (2 * self.truncation.level / self.problem.n + 2 * ROUNDING * size) * (1 + 1e-12)
        return ReportNoisyMax(Sensitivity(value, "linf", LEMMA), self.privacy.epsilon)

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.trivial, "exponential mechanism on projected gradients over a grid")

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {LABEL: self.mechanism}

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("every record's gradient has length at most C", "its slope is cut at C over the record's norm"),
            Assumption("grid, step and level are public", "they are computed from public numbers"),
        )

    @property
    def coefficient_deviation(self) -> FloatArray:
        away = 2 * self.mechanism.sensitivity.value / self.privacy.epsilon * math.log(len(self.grid)) / self.l2
        return np.full(self.problem.dim, min(away, self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        return {
            "noise": self.noise_name,
            "grid_side": self.side,
            "level": self.truncation.level,
            "smoothing": self.truncation.smoothing,
            "target": "population",
        }

    def scores(self, risk: TruncatedRisk) -> FloatArray:
        """Return minus the lengths of the projected gradients at the grid points, shape (N,)."""
        ball, step = L2Ball(self.problem.radius), self.step
        slopes = np.array([risk.gradient(w) for w in self.grid])
        return -np.linalg.norm(self.grid - ball.project_rows(self.grid - step * slopes), axis=1) / step

    def _run(self, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        records = Records.clipped(X, self.problem.domain)
        risk = TruncatedRisk(self.problem.loss, records, y, self.l2, self.truncation)
        chosen = self.mechanism.release(self.scores(risk), self.releases[0].label, source, ledger)  # lines 2 to 4
        return self.finish(self.grid[chosen], source)


@recorded("gradient_score")
def plan_gradient_score(problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments) -> GradientScorePlan:
    """Return the plan for one or two parameters; its free constants minimize the bound over public candidates.

    Pure epsilon is spent, whatever delta is, and privacy does not rest on the moments.
    """
    check_relation(privacy)
    require_average(problem)
    check_loss(problem.loss)
    if problem.dim > MAX_DIM:
        raise InvalidParameterError("dim", problem.dim, f"must be at most {MAX_DIM}: a grid has side^dim points")
    n, R, d = problem.n, problem.radius, problem.dim
    most = (largest_side(problem) - 1) // 2 * 2 + 1  # odd
    sides = sorted({min(2**i + 1, most) for i in range(1, 15)})
    reach = moments.bound * (n * privacy.epsilon / d) ** (1 / moments.k)
    levels = sorted({min(reach * 2.0**-i, problem.lipschitz) for i in range(-1, 12)})
    kinks = isinstance(problem.loss, PiecewiseLinearLoss)

    def candidate(side: int, level: float, l2: float) -> tuple[float, Truncation]:
        eta = 2 * R / (side - 1) * math.sqrt(d)
        smoothing = (4 * eta / (level * math.sqrt(l2))) ** (2 / 3) if kinks else 1.0
        truncation = Truncation(level, R, smoothing)
        curvature = truncation.curvature(problem.loss, problem.domain.l2)
        error = 4.0001 * level / (privacy.epsilon * n) * d * math.log(side) + 2 * (curvature + l2) * eta
        error += moments.excess(level) if level < problem.lipschitz else 0.0
        error += moments.g2 / math.sqrt(n) + (level * math.sqrt(l2 * smoothing) if kinks else 0.0)
        return l2 * R**2 / 2 + moments.g1 * error / l2, truncation

    found = (
        (*candidate(side, level, moments.g1 / R * 2.0 ** (-i / 2)), side, moments.g1 / R * 2.0 ** (-i / 2))
        for side in sides
        for level in levels
        for i in range(-12, 24)
    )
    bound, truncation, side, l2 = min(found, key=lambda one: one[0])
    trivial = min(problem.loss.value_at_zero, moments.g1 * R)
    return GradientScorePlan(problem, privacy, truncation, l2, side, bound, trivial)
