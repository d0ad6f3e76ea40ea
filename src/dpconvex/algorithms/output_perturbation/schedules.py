"""Regularisation and solver accuracy of output perturbation: the arithmetic of the theorems.

Notation: D parameters, L Lipschitz constant of one record's loss, beta its smoothness, R comparator norm, n records.
``e1 = E||z|| / Delta`` and ``e2 = E||z||^2 / Delta^2`` describe the noise at unit sensitivity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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
        On the expected excess mean loss.
    source : str
        The statement.
    """

    l2: float
    sensitivity: float
    solver_radius: float
    bound: float
    source: str


def calibrated(problem: LinearModelProblem, l2: float | None, e1: float, e2: float) -> Schedule:
    """Sharp schedule (specification 3.7): data-dependent part only in the sensitivity, exact noise moments.

    Without `l2`, regularisation minimises ``l2 R^2/2`` plus the noise term, Lipschitz (class G) or smooth (class J),
    whichever bound is smaller. With `l2` given (classes F and H) the bound is for the regularised objective.
    """
    L, beta, R, n = problem.lipschitz, problem.smoothness, problem.radius, problem.n
    smooth = math.isfinite(beta)
    eta = SMOOTH_SLACK if smooth else NONSMOOTH_SLACK
    e1, e2 = e1 * (1 + eta), e2 * (1 + eta) ** 2

    def schedule(lam: float, bound_at: Callable[[float, float, float], float], source: str) -> Schedule:
        delta = 2 * L / (lam * n) * (1 + 1e-14)
        r = max(eta / 2 * delta, problem.certifiable_radius(lam))
        return Schedule(lam, delta, r, bound_at(lam, delta, r), source)

    def lipschitz_bound(lam: float, delta: float, r: float) -> float:
        # With l2 given the target includes the ridge, whose cross term with the centred noise vanishes.
        ridge = l2 / 2 * (delta**2 * e2 + r**2) if l2 else lam * R**2 / 2
        return ridge + L * (delta * e1 + r)

    def smooth_bound(lam: float, delta: float, r: float) -> float:
        return (0 if l2 else lam * R**2 / 2) + (beta + (lam if l2 else 0)) / 2 * (delta**2 * e2 + r**2)

    options = [
        schedule(
            l2 or 2 * L / R * math.sqrt(e1 / n),
            lipschitz_bound,
            f"sharp schedule, class {'F' if l2 else 'G'} (Lipschitz loss)",
        )
    ]
    if smooth:
        options.append(
            schedule(
                l2 or (8 * beta * L**2 * e2 / (n * R) ** 2) ** (1 / 3),
                smooth_bound,
                f"sharp schedule, class {'H' if l2 else 'J'} (smooth loss)",
            )
        )
    return min(options, key=lambda option: option.bound)


def paper(problem: LinearModelProblem, l2: float | None, epsilon: float, delta: float) -> Schedule:
    """Repaired printed schedule: table of 2.4 for classes G and J, Theorems 3.1.2 and 3.2.2 for F and H.

    The Lipschitz constant includes the regulariser, ``L + l2 R``, as the paper has it.
    """
    L, beta, R, n, d = problem.lipschitz, problem.smoothness, problem.radius, problem.n, problem.dim
    smooth = math.isfinite(beta)
    if delta == 0:
        privacy_ratio, moment1 = d / epsilon, d / epsilon
        moment2 = d * (d + 1) / epsilon**2
    else:
        big_c = zwb_constant(delta) + math.sqrt(zwb_constant(delta) ** 2 + epsilon)
        privacy_ratio, moment1 = math.sqrt(d) * big_c / epsilon, math.sqrt(d / 2) * big_c / epsilon
        moment2 = d * big_c**2 / (2 * epsilon**2)
    q = privacy_ratio / n
    if l2:
        R = min(L / l2, math.sqrt(2 * problem.loss.value_at_zero / l2))
        lam, total = l2, L + l2 * R
        if smooth:
            kappa = (beta + l2) / l2
            alpha = total**2 / (l2 * n**2) * min(kappa * privacy_ratio**2, 1)
        else:
            alpha = total**2 / (l2 * n) * min(1 / n, privacy_ratio)
        shrinkage, source = 0.0, f"Theorem 3.{2 if smooth else 1}.2{'a' if delta == 0 else 'b'}"
    elif smooth:
        beta = max(beta, L / (2 * R))  # L <= 2 beta R may be assumed, by a larger beta
        lam = (beta * L**2 / R**2) ** (1 / 3) * q ** (2 / 3)
        scale = beta ** (1 / 3) * L ** (2 / 3) * R ** (4 / 3)
        alpha = min(L ** (4 / 3) * R ** (2 / 3) / beta ** (1 / 3) * q ** (-2 / 3) / n**2, scale * q ** (2 / 3))
        total, shrinkage, source = L + lam * R, lam * R**2 / 2, "Theorem 3.5 (repaired)"
    else:
        lam = L / (R * math.sqrt(1 + 1 / q))
        alpha = L * R * q**1.5 / (1 + privacy_ratio) ** 2
        total, shrinkage, source = L + lam * R, lam * R**2 / 2, "Theorem 3.4 (repaired)"
    sensitivity = 2 * total / (lam * n) * (1 + 1e-14)
    r = max(math.sqrt(2 * alpha / lam), problem.certifiable_radius(lam))
    reach = sensitivity + 2 * r
    bound = shrinkage + total * (r + moment1 * reach)
    if smooth:
        bound = min(bound, shrinkage + (beta + lam) / 2 * moment2 * reach**2 + alpha)
    return Schedule(lam, sensitivity, r, bound, source)
