"""Regularisation and solver accuracy of output perturbation: the arithmetic of the theorems.

Notation: D parameters, L Lipschitz constant of one record's loss, beta smoothness of the objective without its ridge, R
comparator norm, n records. ``e1 = E||z|| / reach`` and ``e2 = E||z||^2 / reach^2`` describe the noise at unit reach.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpconvex import _rounding
from dpconvex.algorithms.output_perturbation.sensitivity import largest_weight, log_factor, minimiser_sensitivity
from dpconvex.mechanisms.gaussian import zwb_constant
from dpconvex.problems.linear_model import LinearModelProblem

SMOOTH_SLACK, NONSMOOTH_SLACK = 0.01, 0.1
"""Solver radius as a share eta of half the sensitivity; the noise grows by the factor 1 + eta (ours)."""


@dataclass(frozen=True)
class Schedule:
    """Regularisation, sensitivity of the exact minimiser, solver radius and bound.

    Parameters
    ----------
    l2 : float
        Regularisation of the objective that is minimised.
    sensitivity : float
        Of the exact minimiser, in l2.
    solver_radius : float
        Distance to it that the solver certifies.
    bound : float
        On the expected excess of the objective (its mean over the distribution for a population target).
    source : str
        The statement.
    ball : float
        Norm that the solver's point never exceeds, by a constraint; infinite: no constraint.
    """

    l2: float
    sensitivity: float
    solver_radius: float
    bound: float
    source: str
    ball: float = math.inf

    @property
    def reach(self) -> float:
        """How far the solver's point moves between neighbours: ``min(sensitivity + 2r, 2 ball)``, rounded up."""
        return _reach(self.sensitivity, self.solver_radius, self.ball)


def calibrated(
    problem: LinearModelProblem, l2: float | None, e1: float, e2: float, target: str = "empirical"
) -> Schedule:
    """Sharp schedule (ours): data-dependent part only in the sensitivity, exact noise moments.

    Derivation: docs, Output perturbation, Choosing the regularisation.

    Without `l2`, regularisation minimises ``l2 R^2/2`` plus the noise term, Lipschitz (class G) or smooth (class J),
    whichever bound is smaller. With `l2` given (classes F and H) the bound is for the regularised objective.

    A population target adds the stability term ``L reach``: replacing a record moves the release by at most `reach`,
    and every record's loss is L-Lipschitz on the whole space (Lemmas 4.1 and 4.2, repaired).

    Tilted losses: the sensitivity needs a ball that holds the minimisers. It is the one of
    `LinearModelProblem.minimiser_norm`, or the comparator's where that is smaller and `l2` is not given.
    """
    smooth = math.isfinite(problem.smoothness)
    kinds = [_lipschitz_bound, _smooth_bound] if smooth else [_lipschitz_bound]

    def schedule(lam: float, kind: _Bound) -> Schedule:
        ball = _ball(problem, lam, l2 is not None)
        delta = minimiser_sensitivity(problem, lam, ball)
        r = max((SMOOTH_SLACK if smooth else NONSMOOTH_SLACK) / 2 * delta, problem.certifiable_radius(lam))
        reach = _reach(delta, r, ball)
        bound = kind(_Setting(problem, lam, l2 is not None, r, reach * e1, reach**2 * e2, ball))
        if target == "population":
            bound += problem.lipschitz * reach
        letters = "FH" if l2 else "GJ"
        letter, words = (letters[1], "smooth") if kind is _smooth_bound else (letters[0], "Lipschitz")
        tilted = ", tilted" if problem.tilt else ""
        return Schedule(lam, delta, r, bound, f"sharp schedule, class {letter} ({words} loss){tilted}", ball)

    def best(kind: _Bound) -> Schedule:
        if l2:
            return schedule(l2, kind)
        start = _closed_form(problem, e1, e2, kind is _smooth_bound, target)
        if problem.tilt == 0 and not (kind is _smooth_bound and target == "population"):
            return schedule(start, kind)
        return schedule(_least(lambda lam: schedule(lam, kind).bound, start), kind)

    return min(map(best, kinds), key=lambda option: option.bound)


@dataclass(frozen=True)
class _Setting:
    """What a bound on the excess of ``w_T + z`` is made of: r, ``E||z||``, ``E||z||^2`` and the rest."""

    problem: LinearModelProblem
    lam: float
    regularised: bool
    r: float
    noise1: float
    noise2: float
    ball: float


_Bound = Callable[[_Setting], float]


def _lipschitz_bound(s: _Setting) -> float:
    """``L (E||z|| + r)`` plus the shrinkage, or plus the ridge's own growth where it is part of the target.

    The latter is ``l2/2 E||w_T + z||^2 - l2/2 ||w*||^2``: the cross term with the centred noise vanishes, the one with
    ``w_T - w*`` is at most ``l2 ||w*|| r <= L r``.
    """
    L = s.problem.lipschitz
    if s.regularised:
        return s.lam / 2 * (s.noise2 + s.r**2) + L * (s.noise1 + 2 * s.r)
    return s.lam * s.problem.radius**2 / 2 + L * (s.noise1 + s.r)


def _smooth_bound(s: _Setting) -> float:
    """``beta/2 E||z||^2`` of centred noise, the solver's gap, and the shrinkage or the ridge's share of the noise."""
    beta, lam, ball = s.problem.smoothness, s.lam, s.ball
    gap = (beta + lam) / 2 * s.r**2
    if ball < s.problem.minimiser_norm(lam):  # the constraint may be active, and the gradient there not 0
        gap += (s.problem.lipschitz + lam * ball) * s.r
    if s.regularised:
        return (beta + lam) / 2 * s.noise2 + gap
    return lam * s.problem.radius**2 / 2 + beta / 2 * s.noise2 + gap


def _closed_form(problem: LinearModelProblem, e1: float, e2: float, smooth: bool, target: str) -> float:
    """Best regularisation for an average and small r; a starting point for tilted losses."""
    L, R, n = problem.lipschitz, problem.radius, problem.n
    eta = SMOOTH_SLACK if math.isfinite(problem.smoothness) else NONSMOOTH_SLACK
    if smooth:
        return (8 * problem.smoothness * L**2 * e2 * (1 + eta) ** 2 / (n * R) ** 2) ** (1 / 3)
    return 2 * L / R * math.sqrt((e1 + (target == "population")) * (1 + eta) / n)


def _least(function: Callable[[float], float], start: float) -> float:
    """Minimiser over twelve decades around `start`, to four digits, of a function with few local minima."""
    low, high = start * 1e-6, start * 1e6
    for points in (61, 11, 11, 11, 11):
        grid = np.geomspace(low, high, points)
        best = float(min(grid, key=function))
        step = float(grid[1] / grid[0])
        low, high = best / step, best * step
    return best


def _ball(problem: LinearModelProblem, lam: float, regularised: bool) -> float:
    """Radius of the ball to which the minimisation is confined: none for an average."""
    if problem.tilt == 0:
        return math.inf
    holds = problem.minimiser_norm(lam)
    return holds if regularised else min(holds, problem.radius)


def _reach(sensitivity: float, r: float, ball: float) -> float:
    return min(_rounding.sum_up((sensitivity, r, r)), _rounding.widen_up(2 * ball))


def privacy_ratio(d: int, epsilon: float, delta: float) -> float:
    """``d / epsilon``, or ``sqrt(d) C / epsilon`` for delta > 0: n times the privacy ratio of the paper's bounds."""
    return d / epsilon if delta == 0 else math.sqrt(d) * _big_c(epsilon, delta) / epsilon


def _big_c(epsilon: float, delta: float) -> float:
    return zwb_constant(delta) + math.sqrt(zwb_constant(delta) ** 2 + epsilon)


def paper(
    problem: LinearModelProblem, l2: float | None, epsilon: float, delta: float, target: str = "empirical"
) -> Schedule:
    """Repaired printed schedule: Theorems 3.4 and 3.5 for classes G and J, Theorems 3.1.2 and 3.2.2 for F and H.

    The Lipschitz constant includes the regulariser, ``L + l2 R``, as the paper has it. Tilted losses: Theorems 5.1 and
    5.2 with Lemma 5.2's sensitivity; they need `l2`. Population targets: Propositions 4.1 to 4.4 with the stability
    term ``(L + l2 R) reach`` in full.
    """
    L, beta, R, n, d = problem.lipschitz, problem.smoothness, problem.radius, problem.n, problem.dim
    smooth, population = math.isfinite(beta), target == "population"
    ratio = privacy_ratio(d, epsilon, delta)
    q, more, weight, ball = ratio / n, population / math.sqrt(n), 1 / n, math.inf
    if delta == 0:
        moment1, moment2 = ratio, d * (d + 1) / epsilon**2
    else:
        moment1, moment2 = ratio / math.sqrt(2), ratio**2 / 2
    if l2:
        R = min(L / l2, math.sqrt(2 * problem.loss.value_at_zero / l2))
        lam, total, theorem = l2, L + l2 * R, f"Theorem 3.{2 if smooth else 1}.2"
        if problem.tilt:
            ball, theorem = problem.minimiser_norm(l2), f"Theorem 5.{2 if smooth else 1} (repaired)"
            # min(1, C/n) of Lemma 5.2; never below the boxed bound, also in floating point
            weight = max(largest_weight(problem, ball), min(1.0, _factor_over_n(problem, ball)))
        if smooth:
            alpha = total**2 / l2 * min((beta + l2) / l2 * q**2, weight**2)
        else:
            alpha = total**2 / l2 * weight * min(weight, ratio)
        shrinkage, source = 0.0, theorem if problem.tilt else f"{theorem}{'a' if delta == 0 else 'b'}"
    elif smooth:
        beta = max(beta, L / (2 * R))  # L <= 2 beta R may be assumed, by a larger beta
        lam = (beta * L**2 / R**2) ** (1 / 3) * (q ** (2 / 3) + more)
        scale = beta ** (1 / 3) * L ** (2 / 3) * R ** (4 / 3)
        alpha = min(L ** (4 / 3) * R ** (2 / 3) / beta ** (1 / 3) * q ** (-2 / 3) / n**2, scale * q ** (2 / 3))
        total, shrinkage, source = L + lam * R, lam * R**2 / 2, "Theorem 3.5 (repaired)"
    else:
        lam = L / R * (math.sqrt(q) + more) if population else L / (R * math.sqrt(1 + 1 / q))
        alpha = L * R * q**1.5 / (1 + ratio) ** 2
        total, shrinkage, source = L + lam * R, lam * R**2 / 2, "Theorem 3.4 (repaired)"
    sensitivity = 2 * total / lam * weight * (1 + 1e-14)
    r = max(math.sqrt(2 * alpha / lam), problem.certifiable_radius(lam))
    reach = _reach(sensitivity, r, ball)
    bound = shrinkage + total * (r + moment1 * reach)
    if smooth:
        bound = min(bound, shrinkage + (beta + lam) / 2 * (moment2 * reach**2 + r**2))
    if population:
        bound, source = bound + total * reach, f"{source}, population (Lemma 4.1)"
    return Schedule(lam, sensitivity, r, bound, source, ball)


def _factor_over_n(problem: LinearModelProblem, radius: float) -> float:
    return _rounding.widen_up(math.exp(min(0.0, log_factor(problem, radius) - math.log(problem.n))))
