r"""Exponential mechanism over a public grid of a ball (Lowy and Razaviyayn, Algorithms 9 to 11), one or two parameters.

Guarantee
    Pure epsilon-DP for neighbors that replace one record, or one user. Localized: two releases of epsilon/2 each.
Lemma
    The score of a point w of the ball of radius rho around a public c is ``J(c) - J(w)``, J the mean loss plus
    ``l2/2 |.|^2``. The ridge does not depend on data, and each of two replaced records' losses changes by at most
    ``L |w - c|`` between c and w, so a score moves by at most ``2 L |w - c| / n <= 2 L rho / n``. The grid is public
    and finite, so selecting from it by permute-and-flip is exactly epsilon-DP: no sampler has to converge. For users,
    n counts users, and their weighted sums of losses (`problems.data.users`) are L-Lipschitz, too.
Localized
    The plain mechanism has c = 0, rho = R and `l2` = 0. The localized one releases c first: the minimizer w* of J moves
    by at most ``2L/(l2 n)``, the solver's point by at most ``s = 2L/(l2 n) + 2r`` (Proposition 2.2, certified accuracy
    r); it gets noise z of density ``exp(-(epsilon/2) |z| / s)`` and is projected to a ball that holds all minimizers.
Assumptions
    Records are clipped into the domain; the loss has a bounded slope and bounded targets; computed scores are within
    the rounding slack of exact ones, which the sensitivity includes; the solver is certified.
Error
    Docs, Exponential mechanism (after McKenna and Sheldon 2020); rho, grid and `l2` minimize it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms import PredictedError, PrivateResult, StatedPlan, check_average, recorded, require, uses
from dpconvex.algorithms.base import USER_LOSS
from dpconvex.algorithms.select import Method
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import L2Norm
from dpconvex.losses import LinearModelLoss
from dpconvex.mechanisms import NormNoiseMechanism, ReportNoisyMax
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import LinearModelProblem, Records, UserGroups
from dpconvex.problems.base import ROUNDING
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball, WholeSpace
from dpconvex.solvers import Solver, default_solver

LABEL = "best point of the grid"
CENTER, CHOICE = "center of the ball", "best point of the grid around it"
MAX_DIM = 2
SMOOTH_SLACK, NONSMOOTH_SLACK = 0.01, 0.1  #: Solver radius, as a share of half the sensitivity (not the paper's).
RADII = np.linspace(0.5, 30.0, 60)  #: Tried radii of the ball: solver radius plus these multiples of the noise scale.


@dataclass(frozen=True)
class GridPlan(StatedPlan):
    """The fields and properties that the plain and the localized plan share."""

    l2: float
    radius: float  #: Radius rho of the ball
    side: int  #: Odd number of grid points along each axis of the cube around the ball, which cuts the grid
    choice: ReportNoisyMax  #: Mechanism that selects a grid point
    bound: float  #: Upper bound of the expected excess of the mean loss, or of the regularized loss if `l2` was given
    constants = "calibrated"
    algorithm: ClassVar[str] = "exponential_mechanism"
    source: ClassVar[str]

    @property
    def grid(self) -> Floats:
        """Displacements of the grid points from the center, shape (N, dim), the zero vector included."""
        return ball_grid(self.problem.dim, self.side, self.radius)

    @property
    def predicted_error(self) -> PredictedError:
        return PredictedError(self.bound, self.problem.trivial, self.source, expected=self.expected)

    @property
    def expected(self) -> float | None:
        """Expected excess on typical data from the random choice (Gibbs law, quadratic score), spacing and ridge."""
        typical, sensitivity = self.problem.typical, self.choice.sensitivity.value
        if typical is None:
            return None
        spacing = 2 * self.radius / (self.side - 1)
        rounding = typical.released_noise(np.full(self.problem.dim, spacing / math.sqrt(12)))
        return self.problem.dim * sensitivity / self.choice.epsilon + rounding + typical.unlearned(self.l2)

    @property
    def coefficient_deviation(self) -> Floats:
        """Deviation (dim,) of the Gibbs law in the ball, at half the largest curvature, or ``L / R`` with kinks."""
        problem = self.problem
        curvature = min(problem.smoothness, problem.lipschitz / problem.radius) / 2 + self.l2
        sharpness = self.choice.epsilon / (2 * self.choice.sensitivity.value) * curvature
        return np.full(problem.dim, min(1 / math.sqrt(sharpness), self.radius))


@final_dataclass
class ExponentialMechanismPlan(GridPlan):
    """Constants of one run of the exponential mechanism in the ball of the problem's radius."""

    noise_name = "permute-and-flip"
    source: ClassVar[str] = "exponential mechanism over a grid"
    theorem = (  # pyright: ignore[reportAssignmentType]
        "Exponential mechanism over a public grid (Lowy and Razaviyayn, Algorithm 9 and Proposition G.1), sampled "
        "exactly by permute-and-flip."
    )

    mechanisms = uses({LABEL: "choice"})

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("the loss has a bounded slope", "proved for the loss; features are clipped"),
            Assumption("the grid is public", "it is computed from the radius alone"),
            *((USER_LOSS,) if self.problem.grouped else ()),
        )

    def describe(self) -> Mapping[str, Any]:
        return {"noise": self.noise_name, "grid_side": self.side}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger, loss, grid = Ledger(self.privacy, self.releases), self.problem.loss, self.grid
        records = Records.clipped(X, self.problem.domain)  # line 1: records of the public domain
        weights = self.problem.weights(groups)
        scores = -relative_risk(loss, records, loss.clip_targets(y), grid, weights=weights)  # line 2: F(0) - F(w)
        chosen = self.choice.release(scores, LABEL, source, ledger)  # line 3
        return self.finish(grid[chosen], source)


@final_dataclass
class LocalizedMechanismPlan(GridPlan):
    """Constants of one run of the localized exponential mechanism."""

    solver_radius: float  #: Distance to the minimizer that the solver certifies
    center: NormNoiseMechanism  #: Releases the center of the ball, for half the budget; `choice` has the other half
    solver: Solver  #: A fast solver, and the guaranteed solver that takes over if it fails
    noise_name = "localised permute-and-flip"
    source: ClassVar[str] = "localised exponential mechanism over a grid"
    theorem = (  # pyright: ignore[reportAssignmentType]
        "Localised exponential mechanism (Lowy and Razaviyayn, Algorithms 10 and 11, Proposition G.2): output "
        "perturbation releases a center with epsilon/2, permute-and-flip a grid point of the ball around it with "
        "epsilon/2; the costs add up."
    )
    mechanisms = uses({CENTER: "center", CHOICE: "choice"})

    @property
    def reach_of_minimizers(self) -> float:
        """A bound on the norms of minimizers, for all data sets."""
        return self.problem.minimizer_norm(self.l2)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        checked = "a certificate (gradient norm or duality gap) is checked before anything is released"
        return (
            Assumption("the loss has a bounded slope and bounded targets", "proved for the loss; records are clipped"),
            Assumption("the objective is l2-strongly convex", "the regularizer is part of the objective"),
            Assumption("the solver's point is within r of the exact minimizer for every data set", checked),
            Assumption("the grid is public", "it is computed from the plan and the center that was released"),
            *((USER_LOSS,) if self.problem.grouped else ()),
        )

    def describe(self) -> Mapping[str, Any]:
        radii = {"solver_radius": self.solver_radius, "ball_radius": self.radius}
        return {"noise": self.noise_name, **radii, "grid_side": self.side}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger, problem = Ledger(self.privacy, self.releases), self.problem
        records = Records.clipped(X, problem.domain)  # line 1: records of the public domain
        targets = problem.loss.clip_targets(y)
        found = self.solver.solve(problem.on(records, targets, self.l2, groups), self.solver_radius)  # line 2: w_T
        solved = require(found, self.solver_radius)
        noisy = self.center.release(solved, CENTER, source, ledger)  # line 3: w_T + z
        center = L2Ball(self.reach_of_minimizers).project(noisy)  # line 4: c
        moves = self.grid
        points = center + moves  # line 5: the grid of the ball around c
        ridge = self.l2 * (moves @ center + (moves**2).sum(1) / 2)  # of J(w) - J(c)
        risks = relative_risk(problem.loss, records, targets, points, center, problem.weights(groups))
        scores = -(risks + ridge)  # line 6: J(c) - J(w)
        chosen = self.choice.release(scores, CHOICE, source, ledger)  # line 7
        return self.finish(points[chosen], source)


def relative_risk(
    loss: LinearModelLoss, records: Records, targets: Floats, points: Floats,
    origin: Floats | None = None, weights: Floats | None = None,
) -> Floats:  # fmt: skip
    """Return ``F(w) - F(origin)`` for every row w of `points`, (N,); default: origin 0, weights ``1/n``."""
    total = np.zeros(len(points))
    start_from = np.zeros_like(points[:1]) if origin is None else origin[None]
    for block in records.blocks():
        y = targets[block.rows]
        at_start = loss.value(block.predict(start_from)[:, 0], y)
        at_origin = float((at_start if weights is None else weights[block.rows] * at_start).sum())
        step = max(1, 2**20 // len(y))  # predictions held at a time: 8 MB
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            z = block.predict(points[part]).T  # one row a point
            values = loss.value(z.ravel(), np.tile(y, len(z))).reshape(z.shape)
            total[part] += (values.sum(1) if weights is None else values @ weights[block.rows]) - at_origin
    return total / records.n if weights is None else total


def ball_grid(dim: int, side: int, radius: float) -> Floats:
    """Return grid points of the centered ball, shape (N, dim): `side` (odd) along each axis, 0 among them.

    Rounding coordinates towards 0 stays in the ball, so every point of it is within ``spacing * sqrt(dim)`` of one.
    """
    axis = np.linspace(-1, 1, side) * radius
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    return points[np.linalg.norm(points, axis=1) <= radius * (1 + 1e-12)]


def largest_side(problem: LinearModelProblem) -> int:
    """Return the most grid points along an axis that memory and time allow."""
    records = problem.n * (problem.records_per_user or 1)  # for users a public guess, on which only time depends
    return max(3, int(min(2**14, 2**31 / records) ** (1 / problem.dim)))  # 2^31 losses take some 20 seconds


@recorded("exponential_mechanism")
def plan(problem: LinearModelProblem, privacy: PrivacyParams) -> tuple[ExponentialMechanismPlan, ...]:
    """Return the plan, or refuse where the mechanism does not apply.

    It applies to losses of one prediction with a bounded slope and bounded targets, and at most two parameters.
    """
    _check(problem, privacy)
    R, d = problem.radius, problem.dim
    reach = _score_sensitivity(problem, R, problem.loss.value_at_zero + problem.lipschitz * R)
    lemma = "scores change by at most 2 L R / n between neighbors, plus rounding"
    choice = ReportNoisyMax(Sensitivity(reach, "linf", lemma, unit=privacy.unit), privacy.epsilon)

    sides = np.arange(3, largest_side(problem) + 1, 2)
    bounds = 2 * reach / privacy.epsilon * d * np.log(sides) + problem.lipschitz * 2 * R / (sides - 1) * math.sqrt(d)
    best = int(np.argmin(bounds))
    return (ExponentialMechanismPlan(problem, privacy, 0.0, R, int(sides[best]), choice, float(bounds[best])),)


@recorded("exponential_mechanism_localised")
def plan_localized(
    problem: LinearModelProblem, privacy: PrivacyParams, l2: float | None = None
) -> tuple[LocalizedMechanismPlan, ...]:
    """Return the plan, or refuse where the mechanism does not apply (as `plan`); each step has half of epsilon.

    `l2` is given when the regularized objective itself is the target; otherwise it is chosen from public facts.
    """
    _check(problem, privacy)
    R, half = problem.radius, privacy.epsilon / 2
    if l2 is not None:
        lam, best = l2, _best_ball(problem, half, l2, 0.0)
    else:
        scale = problem.lipschitz * problem.dim / (R * problem.n * privacy.epsilon)
        ridges = (scale * np.geomspace(1e-3, 1e4, 71)).tolist()
        options = [(lam, _best_ball(problem, half, lam, lam * R**2 / 2)) for lam in ridges]
        lam, best = min(options, key=lambda option: option[1].bound)
    # Two releases of epsilon/2 each: the center, then the choice in the ball around it.
    r, reach = _accuracy(problem, lam)
    lemma = "strong convexity (Proposition 2.2): 2L/(l2 n), plus 2r for the certified solver accuracy"
    center = NormNoiseMechanism(L2Norm(problem.dim), Sensitivity(reach, "l2", lemma, unit=privacy.unit), half)
    moved = _score_sensitivity(problem, best.radius, _score_size(problem, lam, best.radius))
    lemma = "scores change by at most 2 L rho / n between neighbors, rho the radius of the ball, plus rounding"
    choice = ReportNoisyMax(Sensitivity(moved, "linf", lemma, unit=privacy.unit), half)
    solve = default_solver(problem.loss, WholeSpace(), problem.dim)
    found = LocalizedMechanismPlan(problem, privacy, lam, best.radius, best.side, choice, best.bound, r, center, solve)
    return (found,)


def _check(problem: LinearModelProblem, privacy: PrivacyParams) -> None:
    """Refuse where lemma or arithmetic fails; in floats, a target of 1e20 would absorb every other record's loss."""
    check_average(problem, privacy)
    bounded = math.isfinite(problem.lipschitz) and math.isfinite(problem.loss.value_at_zero)
    if not bounded or problem.loss.n_outputs > 1 or problem.dim > MAX_DIM:
        what = f"needs a bounded loss of one score, and at most {MAX_DIM} parameters, the constant among them"
        raise InvalidParameterError("algorithm", "exponential_mechanism", what, "Use 'auto'")


def _score_sensitivity(problem: LinearModelProblem, radius: float, size: float) -> float:
    """Return the sensitivity of scores in a ball, rounded up; `size` bounds all values in computing a score."""
    reach = _rounding.ratio_up(_rounding.product_up(2.0, problem.lipschitz, radius), problem.n)  # 2 L rho / n
    return _rounding.sum_up((reach, 2 * ROUNDING * size))  # the rounding of both data sets


def _score_size(problem: LinearModelProblem, lam: float, radius: Any) -> Any:
    """Return the largest value in computing a localized score: two losses and the ridge at the grid's points."""
    far = problem.minimizer_norm(lam) + radius
    return 2 * (problem.loss.value_at_zero + problem.lipschitz * far) + lam * far**2


def _accuracy(problem: LinearModelProblem, lam: float) -> tuple[float, float]:
    """Return the radius that the solver certifies and the sensitivity of its point."""
    sensitivity = 2 * problem.lipschitz / lam / problem.n * (1 + 1e-14)
    slack = SMOOTH_SLACK if math.isfinite(problem.smoothness) else NONSMOOTH_SLACK
    r = max(slack / 2 * sensitivity, problem.certifiable_radius(lam))
    return r, _rounding.sum_up((sensitivity, r, r))


class Ball(NamedTuple):
    """A ball, the side of its grid, and the bound that it minimizes."""

    bound: float
    radius: float
    side: int


def _best_ball(problem: LinearModelProblem, half: float, lam: float, shrinkage: float) -> Ball:
    """Return radius and side with the smallest bound (module docstring); both are searched on a grid."""
    L, d, n = problem.lipschitz, problem.dim, problem.n
    r, reach = _accuracy(problem, lam)
    theta, largest = reach / half, largest_side(problem)
    sides = np.unique(np.geomspace(3, largest, 40).astype(int) // 2 * 2 + 1)
    sides = sides[sides <= largest][None, :]
    radius = r + theta * RADII[:, None]
    first, second = overshoot(d, RADII[:, None])
    first, second = theta * first, theta**2 * second  # E T, E T^2
    g = 2 * radius / (sides - 1) * math.sqrt(d)
    one, two = g + first, g**2 + 2 * g * first + second  # E|u|, E|u|^2
    moved = (L + lam * problem.minimizer_norm(lam)) * one + lam / 2 * two
    if math.isfinite(problem.smoothness):
        moved = np.minimum(moved, (problem.smoothness + lam) / 2 * two)
    scores = (2 * L * radius / n + 2 * ROUNDING * _score_size(problem, lam, radius)) * (1 + 1e-9)
    # Permute-and-flip chooses a point worse than the best one by (2/epsilon) sensitivity log N at most, on average.
    bounds = shrinkage + moved + 2 / half * scores * d * np.log(sides)
    i, j = np.unravel_index(int(np.argmin(bounds)), bounds.shape)
    return Ball(float(bounds[i, j]), float(radius[i, 0]), int(sides[0, j]))


def overshoot(d: int, x: Floats) -> tuple[Floats, Floats]:
    """Return ``E (G - x)_+`` and ``E (G - x)_+^2`` for G of the Gamma(d) law, d = 1 or 2, and x at least 0."""
    tail = np.exp(-x)
    return (tail, 2 * tail) if d == 1 else (tail * (x + 2), tail * (2 * x + 6))


def _both(problem: LinearModelProblem, privacy: PrivacyParams, l2: float | None = None) -> tuple[GridPlan, ...]:
    localized = plan_localized(problem, privacy, l2)
    return localized if l2 else (*plan(problem, privacy), *localized)


METHOD = Method("exponential_mechanism", _both, ("l2",))
