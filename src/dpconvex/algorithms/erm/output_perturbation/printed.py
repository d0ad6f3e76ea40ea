"""The excess risk that the paper claims for its own constants, misprints included; for comparison only."""

from __future__ import annotations

import math

from dpconvex.algorithms.erm.output_perturbation.schedules import privacy_ratio
from dpconvex.algorithms.erm.output_perturbation.sensitivity import log_factor
from dpconvex.problems.base import Problem


def printed_bound(
    problem: Problem, l2: float | None, epsilon: float, delta: float, target: str = "empirical"
) -> float | None:
    """Return the printed bound of the problem's class; None where the theorem does not apply.

    Strongly convex (`l2` given): Theorems 3.1, 3.2, 5.1, 5.2, Corollaries 4.1, 4.2; otherwise Theorems 3.4, 3.5,
    Corollaries 4.3, 4.4. Some are not proved, or false (errata U1, U4, U7, U8, U9): no plan relies on them. All ask for
    ``q <= 1``, the smooth convex ones for ``q^2 <= L / (R beta)``; tilted losses need `l2` and an empirical target.

    Parameters
    ----------
    problem : Problem
    l2 : float or None
        Regularisation, if it was given.
    epsilon, delta : float
        Of the noise: ``delta = 0`` for pure noise.
    target : {"empirical", "population"}
    """
    L, beta, R, n = problem.lipschitz, problem.smoothness, problem.radius, problem.n
    smooth, population, pure = math.isfinite(beta), target == "population", delta == 0
    tilted = problem.aggregation == "tilted"
    q = privacy_ratio(problem.dim, epsilon, delta) / (1 if problem.aggregation == "whole" else n)
    if q > 1 or (tilted and (population or not l2)):
        return None
    if l2:
        radius = problem.minimiser_norm(l2)
        if tilted and log_factor(problem, radius) > 600:
            return None
        factor = math.exp(log_factor(problem, radius)) if tilted else 1.0
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
