r"""Exponential mechanism in a ball that output perturbation finds first (Lowy and Razaviyayn, Algorithms 10 and 11).

Guarantee
    Pure epsilon-DP for neighbours that replace one record, or one user: two releases of epsilon/2 each.
Lemma
    Centre: the minimiser w* of ``F + l2/2 |.|^2`` moves by at most ``2L/(l2 n)``, the solver's point by ``2r`` more
    (Proposition 2.2 with a sure accuracy); it gets noise of density ``exp(-(epsilon/2) |z| / that)`` and is projected
    to the ball of norm M that holds every minimiser. Choice: the centre c is public from then on. The score of a point
    w of the ball of radius rho around c is ``J(c) - J(w)``, J the regularised risk. The ridge does not depend on data,
    so a record changes the score by at most ``2 L |w - c| / n <= 2 L rho / n``. Users: the same with n users and their
    weighted sums of losses (`problems.data.users`), which are L-Lipschitz.
Assumptions
    Records are clipped into the domain; the loss has a bounded slope and bounded targets; the solver is certified.
Error
    Let ``T = (|z| + r - rho)_+`` and g the spacing of the grid times sqrt(d). The grid has a point at distance
    ``|u| <= g + T`` of w*, so with ``a = L + l2 M`` (Lipschitz) or 0 and beta (smooth), and N grid points,

        ``E J - J(w*) <= (4/epsilon) (2 L rho/n) log N + min{a E|u| + l2/2 E|u|^2, (beta + l2)/2 E|u|^2}``.

    ``E T`` and ``E T^2`` are closed forms of the Gamma law of ``|z|``. Where `l2` is chosen, ``l2 R^2/2`` comes on top.
Symbols
    c: `centre`; rho: `radius`; M: `reach_of_minimisers`; r: `solver_radius`.
Deviations
    Mean losses (the paper bounds the variation by ``2 L rho``); rho, grid and `l2` minimise the bound above instead of
    ``xi = log(epsilon^2 mu R / (d L))``; a finite grid, sampled exactly, instead of a density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding
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
from dpconvex.geometry import L2Norm
from dpconvex.mechanisms import NormNoiseMechanism, ReportNoisyMax
from dpconvex.privacy import Assumption, PrivacyParams, Release, Sensitivity
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.linear.regularized_risk import ROUNDING
from dpconvex.randomness import BitSource
from dpconvex.sets import WholeSpace
from dpconvex.solvers import Solver, default_solver

CENTRE, CHOICE = "centre of the ball", "best point of the grid around it"
SMOOTH_SLACK, NONSMOOTH_SLACK = 0.01, 0.1
"""Solver radius as a share of half the sensitivity (ours)."""

TAILS = np.linspace(0.5, 30.0, 60)
"""Radii tried: the solver's, plus these multiples of the noise's scale."""
L2_GRID = np.geomspace(1e-3, 1e4, 71)
"""Regularisations tried, in multiples of ``L d / (R n epsilon)``."""


@final
@dataclass(frozen=True)
class LocalisedMechanismPlan(LinearModelPlan):
    """Constants of one run of the localised exponential mechanism.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised.
    privacy : PrivacyParams
        The promise.
    l2 : float
        Regularisation.
    certified : float
        Distance to the minimiser that the solver certifies.
    centre : NormNoiseMechanism
        Releases the centre of the ball, for half the budget.
    radius : float
        Of the ball.
    side : int
        Grid points along each axis, odd.
    choice : ReportNoisyMax
        Selects a grid point, for the other half.
    bound : float
        On the expected excess: of the mean loss, or of the regularised one where `l2` was given.
    solver : Solver
        Fast solver with the guaranteed one that takes over.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    l2: float
    certified: float
    centre: NormNoiseMechanism
    radius: float
    side: int
    choice: ReportNoisyMax
    bound: float
    solver: Solver
    constants: str = "calibrated"
    noise_name: str = "localised permute-and-flip"
    algorithm: ClassVar[str] = "exponential_mechanism"

    @property
    def grid(self) -> FloatArray:
        """Moves from the centre, shape (N, dim); the zero vector is one of them."""
        return ball_grid(self.problem.dim, self.side, self.radius)

    @property
    def solver_radius(self) -> float:
        """Distance that the solver certifies."""
        return self.certified

    @property
    def reach_of_minimisers(self) -> float:
        """Norm that no minimiser exceeds, whatever the data are."""
        return self.problem.minimiser_norm(self.l2)

    @property
    def predicted_error(self) -> PredictedError:
        """The bound of the module's docstring."""
        source = "localised exponential mechanism over a grid"
        return PredictedError(self.bound, self.problem.trivial, source, expected=self.expected)

    @property
    def expected(self) -> float | None:
        """Excess on typical data, what the ridge shrinks included."""
        return expected_excess(self.problem, self.choice, self.side, self.radius, self.l2)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Two: the centre and the choice, half the budget each."""
        return (self.centre.planned(CENTRE), self.choice.planned(CHOICE))

    @property
    def theorem(self) -> str:
        """Algorithm 11 over a finite set."""
        return (
            "Localised exponential mechanism (Lowy and Razaviyayn, Algorithms 10 and 11, Proposition G.2): output "
            "perturbation releases a centre with epsilon/2, permute-and-flip a grid point of the ball around it with "
            "epsilon/2; the costs add up."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the two lemmas need."""
        return (
            Assumption("the loss has a bounded slope and bounded targets", "proved for the loss; records are clipped"),
            Assumption("the objective is l2-strongly convex", "the regulariser is part of the objective"),
            Assumption(
                "the solver's point is within r of the exact minimiser for every data set",
                "a certificate (gradient norm or duality gap) is checked before anything is released",
            ),
            Assumption("the grid is public", "it is computed from the plan and the centre that was released"),
            *((USER_LOSS,) if self.problem.grouped else ()),
        )

    @property
    def coefficient_deviation(self) -> FloatArray:
        """Approximate: that of a typical curvature."""
        return typical_deviation(self.problem, self.choice, self.radius, self.l2)

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {
            "noise": self.noise_name,
            "solver_radius": self.solver_radius,
            "ball_radius": self.radius,
            "grid_side": self.side,
        }

    def exact_bits(self, source: BitSource) -> bool:
        """Only if both mechanisms' bits are; the centre's are not."""
        return self.centre.exact_bits(source) and self.choice.exact_bits(source)

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        from dpconvex.algorithms.erm.exponential_mechanism.run import run_localised

        return run_localised(self, X, y, source)

    def _user_listing(self, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups) -> PrivateResult:
        from dpconvex.algorithms.erm.exponential_mechanism.run import run_localised

        return run_localised(self, X, y, source, groups)


@recorded("exponential_mechanism_localised")
def plan_localised(
    problem: LinearModelProblem, privacy: PrivacyParams, l2: float | None = None
) -> tuple[LocalisedMechanismPlan, ...]:
    """Return the plan, or nothing where the mechanism does not apply (as for the unlocalised one).

    Parameters
    ----------
    problem : LinearModelProblem
        Public facts.
    privacy : PrivacyParams
        The promise; half of epsilon goes to each step.
    l2 : float, optional
        Regularisation, when the regularised objective itself is the target. Default: chosen from public facts.
    """
    check_relation(privacy, users=True)
    check_unit(problem, privacy)
    require_average(problem)
    if not applies(problem):
        return ()
    if l2 is not None:
        return (_plan(problem, privacy, _best(problem, privacy, l2, 0.0), l2),)
    R = problem.radius
    scale = problem.lipschitz * problem.dim / (R * problem.n * privacy.epsilon)
    options = [(_best(problem, privacy, lam, lam * R**2 / 2), lam) for lam in (scale * L2_GRID).tolist()]
    best, lam = min(options, key=lambda option: option[0].bound)
    return (_plan(problem, privacy, best, lam),)


@dataclass(frozen=True)
class _Choice:
    """A ball's radius, the grid's side, and the bound they give."""

    bound: float
    radius: float
    side: int


def _plan(problem: LinearModelProblem, privacy: PrivacyParams, best: _Choice, l2: float) -> LocalisedMechanismPlan:
    half = privacy.epsilon / 2
    r, reach = _centre(problem, l2)
    lemma = "strong convexity (Proposition 2.2): 2L/(l2 n), plus 2r for the certified solver accuracy"
    centre = NormNoiseMechanism(L2Norm(problem.dim), Sensitivity(reach, "l2", lemma, unit=privacy.unit), half)
    moved = score_sensitivity(problem, best.radius, _score_size(problem, l2, best.radius))
    lemma = "scores change by at most 2 L rho / n between neighbours, rho the radius of the ball, plus rounding"
    choice = ReportNoisyMax(Sensitivity(moved, "linf", lemma, unit=privacy.unit), half)
    solver = default_solver(problem.loss, WholeSpace(), problem.dim)
    return LocalisedMechanismPlan(problem, privacy, l2, r, centre, best.radius, best.side, choice, best.bound, solver)


def _centre(problem: LinearModelProblem, lam: float) -> tuple[float, float]:
    """Return the radius that the solver certifies and the sensitivity of its point."""
    sensitivity = 2 * problem.lipschitz / lam / problem.n * (1 + 1e-14)
    slack = SMOOTH_SLACK if math.isfinite(problem.smoothness) else NONSMOOTH_SLACK
    r = max(slack / 2 * sensitivity, problem.certifiable_radius(lam))
    return r, _rounding.sum_up((sensitivity, r, r))


def _score_size(problem: LinearModelProblem, lam: float, radius: Any) -> Any:
    """Largest value that occurs in computing a score: two losses and the ridge at the grid's points."""
    far = problem.minimiser_norm(lam) + radius
    return 2 * (problem.loss.value_at_zero + problem.lipschitz * far) + lam * far**2


def _best(problem: LinearModelProblem, privacy: PrivacyParams, lam: float, shrinkage: float) -> _Choice:
    """Return radius and side with the smallest bound (module docstring); both are searched on a grid."""
    L, d, n, half = problem.lipschitz, problem.dim, problem.n, privacy.epsilon / 2
    r, reach = _centre(problem, lam)
    theta, largest = reach / half, largest_side(problem)
    sides = np.unique(np.geomspace(3, largest, 40).astype(int) // 2 * 2 + 1)
    sides = sides[sides <= largest][None, :]
    radius = r + theta * TAILS[:, None]
    first, second = overshoot(d, TAILS[:, None])
    first, second = theta * first, theta**2 * second
    g = 2 * radius / (sides - 1) * math.sqrt(d)
    one, two = g + first, g**2 + 2 * g * first + second
    moved = (L + lam * problem.minimiser_norm(lam)) * one + lam / 2 * two
    if math.isfinite(problem.smoothness):
        moved = np.minimum(moved, (problem.smoothness + lam) / 2 * two)
    scores = (2 * L * radius / n + 2 * ROUNDING * _score_size(problem, lam, radius)) * (1 + 1e-9)
    bounds = shrinkage + moved + 2 / half * scores * d * np.log(sides)
    i, j = np.unravel_index(int(np.argmin(bounds)), bounds.shape)
    return _Choice(float(bounds[i, j]), float(radius[i, 0]), int(sides[0, j]))


def overshoot(d: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``E (G - x)_+`` and ``E (G - x)_+^2`` for G of the Gamma(d) law, d = 1 or 2, and x at least 0."""
    tail = np.exp(-x)
    return (tail, 2 * tail) if d == 1 else (tail * (x + 2), tail * (2 * x + 6))
