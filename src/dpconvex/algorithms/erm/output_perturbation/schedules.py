r"""Regularization, sensitivity and solver accuracy of output perturbation: the arithmetic of the theorems.

Notation: D parameters, L Lipschitz constant of one record's loss, beta smoothness of the objective without its ridge, R
comparator norm, n records. ``e1 = E||z|| / reach`` and ``e2 = E||z||^2 / reach^2`` describe the noise at unit reach.

How far the exact minimizer moves when one record is replaced:

Average (Proposition 2.2, data-dependent part only)
    ``K / (l2 n)``, K the largest distance of two records' gradients at the same parameters (`Problem.contrast`): 2L in
    general, and with ``L = A X_2`` also for losses under attack (docs, Adversarial training).
Tilted (Lemma 5.2, with the repaired proof)
    ``(K / l2) C / (C + n - 1)``, ``C = exp(tau D)``, D the largest difference of two records' losses at the same point
    of a closed convex W that holds the minimizers: the minimization is over W, or W is a ball that holds every
    minimizer (proof: docs, Output perturbation, Tilted losses; over W with the subgradients that optimality allows).
Any objective
    If every ``F(., X)`` is L-Lipschitz where the minimizers are, the difference of two of them is 2L-Lipschitz, and
    minimizers are at most ``2 L / l2`` apart: the weight of one record may be 1. With no assumption at all, points of a
    ball of radius R are at most 2 R apart: `Schedule.reach` takes the smaller bound.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex import _rounding
from dpconvex.mechanisms.gaussian import zwb_constant
from dpconvex.problems.base import Problem

SMOOTH_SLACK, NONSMOOTH_SLACK = 0.01, 0.1
"""Solver radius, as a share eta of half the sensitivity; noise grows by the factor 1 + eta (not the paper's values)."""
DIAMETER_SLACK = 1e-3  #: Solver radius, as a share of the ball's, if noise covers the whole ball (not the paper's).


@dataclass(frozen=True)
class Schedule:
    """Regularization, sensitivity of the exact minimizer, solver radius and bound."""

    l2: float  #: Regularization of the objective that is minimized
    sensitivity: float  #: Sensitivity of the exact minimizer, in l2; infinite where no class bound is used
    solver_radius: float  #: Distance to the exact minimizer that the solver certifies
    bound: float  #: Bound on the objective's expected excess (that of its population mean for a population target)
    source: str  #: The statement that proves the bound
    ball: float = math.inf  #: Radius of the ball to which solvers are constrained; infinite: no constraint
    #: Whether the bound is for the release projected to this ball, outside of which the constants may fail
    projected: bool = False

    @property
    def reach(self) -> float:
        """Sensitivity of the solver's point: ``min(sensitivity + 2r, 2 ball)``, rounded up."""
        return within_ball(self.sensitivity, self.solver_radius, self.ball)

    @property
    def needs_accuracy(self) -> bool:
        """Whether `reach` rests on the solver's accuracy; a diameter does not."""
        return self.reach < _rounding.widen_up(2 * self.ball)


def minimizer_sensitivity(problem: Problem, l2: float, radius: float) -> float:
    """Return the sensitivity of exact minimizers of norm at most `radius` (not used for averages), rounded up."""
    return problem.contrast / l2 * largest_weight(problem, radius) * (1 + 1e-14)


def largest_weight(problem: Problem, radius: float) -> float:
    """Return ``C / (C + n - 1)``, rounded up: the largest weight of one record; ``1/n`` for an average."""
    if problem.aggregation == "average":
        return 1 / problem.n
    others = (problem.n - 1) * math.exp(-problem.log_weight_ratio(radius)) * (1 - 1e-13)
    return min(1.0, _rounding.widen_up(1 / (1 + others)))


def calibrated(problem: Problem, l2: float | None, e1: float, e2: float, target: str = "empirical") -> Schedule:
    """Return the sharp schedule, not the paper's: sensitivity of the data-dependent part, exact noise moments (docs).

    Without `l2`, it minimizes the smaller bound, Lipschitz (class G) or smooth (J); with it (F, H) the bound is for the
    regularized objective. A population target adds the stability term ``L reach`` (Lemmas 4.1, 4.2, repaired).

    Tilted losses need a ball that holds the minimizers: of `Problem.minimizer_norm`, or the comparator's if smaller
    and `l2` is not given. `Problem.local` ones are solved in theirs; the Lipschitz bound is for a projected release.
    """
    smooth = math.isfinite(problem.curvature)
    kinds = [_lipschitz_bound]
    if smooth and not (problem.local and target == "population"):  # losses are Lipschitz in the ball only
        kinds.append(_smooth_bound)

    def schedule(lam: float, kind: _Bound) -> Schedule:
        ball = _ball(problem, lam, l2 is not None)
        delta = minimizer_sensitivity(problem, lam, ball)
        r = max(_slack(problem) / 2 * delta, problem.certifiable_radius(lam))
        projected = problem.local and kind is _lipschitz_bound
        reach = within_ball(delta, r, ball)
        bound = kind(problem, lam, l2 is not None, r, (reach * e1, reach**2 * e2), ball)
        if target == "population":
            bound += problem.lipschitz * reach  # Lemmas 4.1 and 4.2, repaired: stability
        letters = "FH" if l2 else "GJ"
        letter, words = (letters[1], "smooth") if kind is _smooth_bound else (letters[0], "Lipschitz")
        words += " but for kinks" if kind is _smooth_bound and problem.kink else ""
        suffix = {"average": "", "tilted": ", tilted", "whole": ", not an average"}[problem.aggregation]
        return Schedule(lam, delta, r, bound, f"sharp schedule, class {letter} ({words} loss){suffix}", ball, projected)

    def best(kind: _Bound) -> Schedule:
        if l2:
            return schedule(l2, kind)
        start = _closed_form(problem, e1, e2, kind is _smooth_bound, target)
        plain = problem.aggregation == "average" and not problem.local
        if plain and not (kind is _smooth_bound and (target == "population" or problem.kink)):
            return schedule(start, kind)
        return schedule(_least(lambda lam: schedule(lam, kind).bound, start), kind)

    options = [best(kind) for kind in kinds] if problem.trusted else []
    if problem.local:
        options.append(_diameter(problem, l2, e1, target))
    return min(options, key=lambda option: option.bound)


def _diameter(problem: Problem, l2: float | None, e1: float, target: str) -> Schedule:
    """Return noise that covers the ball (2R, no assumption): excess ``L E||z||``, shrinkage and the solver's error."""
    L, R = problem.lipschitz, problem.radius

    def schedule(lam: float) -> Schedule:
        r = max(DIAMETER_SLACK * R, problem.certifiable_radius(lam))
        error = L * r if math.isfinite(problem.smoothness) else lam / 2 * r**2
        reach = within_ball(math.inf, r, R)
        bound = (L + (lam * R if l2 else 0.0)) * reach * e1 + error + (0.0 if l2 else lam * R**2 / 2)
        if target == "population":
            bound += L * reach
        return Schedule(lam, math.inf, r, bound, "diameter of the ball (2R), no claim needed for privacy", R, True)

    if l2 or math.isfinite(problem.smoothness):
        return schedule(l2 or L / R * DIAMETER_SLACK)
    return schedule(_least(lambda lam: schedule(lam).bound, L / R * DIAMETER_SLACK))


_Noise = tuple[float, float]  #: ``E||z||`` and ``E||z||^2``.
_Bound = Callable[[Problem, float, bool, float, _Noise, float], float]
"""A bound on the excess of ``w_T + z``, given problem, ridge, whether the target has the ridge, r, noise, ball."""


def _lipschitz_bound(problem: Problem, lam: float, regularized: bool, r: float, noise: _Noise, ball: float) -> float:
    """Return ``L (E||z|| + r)`` plus the shrinkage, or the growth of a ridge that is part of the target."""
    if regularized:
        return lam / 2 * (noise[1] + r**2) + problem.lipschitz * (noise[0] + 2 * r)
    return lam * problem.radius**2 / 2 + problem.lipschitz * (noise[0] + r)


def _smooth_bound(problem: Problem, lam: float, regularized: bool, r: float, noise: _Noise, ball: float) -> float:
    """Return ``beta/2 E||z||^2``, gap, shrinkage or ridge; kinks: docs, Adversarial training, Theorem 3."""
    beta, kink = problem.curvature, problem.kink
    gap = (beta + lam) / 2 * r**2 + math.pi * kink * r
    if problem.local or ball < problem.minimizer_norm(lam):
        gap += (problem.lipschitz + lam * ball) * r  # if the constraint is active, the gradient may not be 0
    if regularized:
        return kink * noise[0] + (beta + lam) / 2 * noise[1] + gap
    return lam * problem.radius**2 / 2 + kink * noise[0] + beta / 2 * noise[1] + gap


def _closed_form(problem: Problem, e1: float, e2: float, smooth: bool, target: str) -> float:
    """Return the best regularization for an average and small r; a starting point for tilted losses."""
    R, n, K, eta = problem.radius, problem.n, problem.contrast, _slack(problem)
    if smooth:
        return (2 * problem.curvature * K**2 * e2 * (1 + eta) ** 2 / (n * R) ** 2) ** (1 / 3)
    return math.sqrt(2 * problem.lipschitz * K * (e1 + (target == "population")) * (1 + eta) / n) / R


def _slack(problem: Problem) -> float:
    return SMOOTH_SLACK if math.isfinite(problem.curvature) else NONSMOOTH_SLACK


def _least(function: Callable[[float], float], start: float) -> float:
    """Return a function's minimizer over twelve decades around `start`, to four digits, if it has few local minima."""
    low, high = start * 1e-6, start * 1e6
    if not 0 < low < high < math.inf:
        raise FloatingPointError("a public constant is beyond floats")
    for points in (61, 11, 11, 11, 11):
        grid = np.geomspace(low, high, points)
        best = float(min(grid, key=function))
        step = float(grid[1] / grid[0])
        low, high = best / step, best * step
    return best


def _ball(problem: Problem, lam: float, regularized: bool) -> float:
    """Return the radius of the ball to which the minimization is confined: infinite for an average of known losses."""
    if problem.local:
        return problem.radius
    if problem.aggregation == "average":
        return math.inf
    holds = problem.minimizer_norm(lam)
    return holds if regularized else min(holds, problem.radius)


def within_ball(sensitivity: float, r: float, ball: float) -> float:
    """Return how far a point within `r` of a minimizer of this sensitivity moves, at most twice the ball's radius."""
    class_bound = sensitivity if math.isinf(sensitivity) else _rounding.sum_up((sensitivity, r, r))
    return min(class_bound, _rounding.widen_up(2 * ball))


def privacy_ratio(d: int, epsilon: float, delta: float) -> float:
    """Return n times the paper's privacy ratio: ``d / epsilon``, for delta > 0 ``sqrt(d) C / epsilon``."""
    if delta == 0:
        return d / epsilon
    return math.sqrt(d) * (zwb_constant(delta) + math.sqrt(zwb_constant(delta) ** 2 + epsilon)) / epsilon


def printed_bound(
    problem: Problem, l2: float | None, epsilon: float, delta: float, target: str = "empirical"
) -> float | None:
    """Return the excess risk that the paper claims for its own constants, with misprints; None: it claims nothing.

    Strongly convex (`l2` given): Theorems 3.1, 3.2, 5.1, 5.2, Corollaries 4.1, 4.2; otherwise Theorems 3.4, 3.5,
    Corollaries 4.3, 4.4. Some are not proved, or false (errata U1, U4, U7, U8, U9): no plan relies on them. All ask for
    ``q <= 1``, the smooth convex ones for ``q^2 <= L / (R beta)``; tilted losses need `l2` and an empirical target.
    """
    L, beta, R, n = problem.lipschitz, problem.smoothness, problem.radius, problem.n
    smooth, population, pure = math.isfinite(beta), target == "population", delta == 0
    tilted = problem.aggregation == "tilted"
    q = privacy_ratio(problem.dim, epsilon, delta) / (1 if problem.aggregation == "whole" else n)
    if q > 1 or (tilted and (population or not l2)):
        return None
    if l2:
        radius = problem.minimizer_norm(l2)
        exponent = problem.log_weight_ratio(radius) if tilted else 0.0
        if exponent > 600:
            return None
        factor = math.exp(exponent)
        scale, kappa = (L + l2 * radius) ** 2 / l2, (beta + l2) / l2
        if smooth:
            noise = (26 if pure else 13.5) * kappa * factor * q**2
        else:
            noise = (9 if pure or tilted else 6) * factor * q
        return scale * (noise + (5 / n if population else 0))
    if smooth:
        if q**2 * R * beta > L:
            return None
        B = beta ** (1 / 3) * L ** (2 / 3) * R ** (4 / 3)
        return B * (128 * (q ** (2 / 3) + 1 / math.sqrt(n)) if population else (65 if pure else 127) * q ** (2 / 3))
    return L * R * (32 * (math.sqrt(q) + 1 / math.sqrt(n)) if population else (49 if pure else 25) * math.sqrt(q))
