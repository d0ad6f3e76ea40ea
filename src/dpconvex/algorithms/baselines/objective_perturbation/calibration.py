"""Regularisation and noise share of objective perturbation: the arithmetic of the theorems.

Theorem and formula numbers are those of the docs, Objective perturbation.

Notation: ``tau = X_2^2/(n l2)``; ``epsilon_1`` the part of the budget that the noise ``b`` may spend; ``E`` the noise
energy ``E||b||_2^2``; R the comparator norm. The excess mean loss is at most ``l2 R^2/2 + E/(2 n^2 l2)`` (5.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize_scalar

from dpconvex import _rounding
from dpconvex.losses.base import LinearModelLoss
from dpconvex.privacy.objective_events import (
    GaussianObjectivePerturbation,
    determinant_cost,
    logistic_epsilon,
)
from dpconvex.privacy.profiles import smallest
from dpconvex.problems.linear_model import LinearModelProblem

MARGIN = 1 + 1e-9
"""Regularisation is put this far above a floor, so that rounding cannot fall below it."""


@dataclass(frozen=True)
class NoiseShare:
    """How a pure budget is spent at a given `tau`.

    Parameters
    ----------
    epsilon : float
        What the noise may spend, rounded down; 0 or less: infeasible.
    rule : str
        Rule of the event that certifies it.
    curvature : float
        The event's curvature.
    rank : int
        The event's rank.
    """

    epsilon: float
    rule: str
    curvature: float
    rank: int = 1


def pure_share(
    loss: LinearModelLoss, frobenius: bool, tau: float, budget: float, rank: int | None = None
) -> NoiseShare:
    """Largest noise share within a pure `budget`: Theorem 2 where curvature is free, else Theorem 1.

    Parameters
    ----------
    loss : LinearModelLoss
        Its constants.
    frobenius : bool
        Whether the noise is in the l2 norm of the flat parameters, for which more losses have free curvature.
    tau : float
        Rounded up.
    budget : float
        Epsilon of the exact minimiser.
    rank : int, optional
        Rank of a unit's Hessian, where units are users; None: that of a record.
    """
    q = free_constant(loss, frobenius)
    if q is not None and 2 * q * tau * MARGIN**0.5 <= budget:
        return NoiseShare(budget, "free", q)
    trace, one_record = loss.curvature_trace, rank is None
    rank = loss.curvature_rank if rank is None else rank
    plain = NoiseShare(
        _rounding.difference_down(budget, determinant_cost(trace, rank, tau)), "determinant", trace, rank
    )
    if loss.name != "logistic" or not one_record:
        return plain
    # Exact for the logistic loss, whose curvature is a(1 - a) at slope a.
    low, high = max(plain.epsilon, 0.0), budget
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if logistic_epsilon(Fraction(middle), tau) <= Fraction(budget) else (low, middle)
    return NoiseShare(low, "logistic", 1.0) if low > max(plain.epsilon, 0.0) else plain


def user_rank(problem: LinearModelProblem) -> int | None:
    """Rank of a user's Hessian, which may have any number of records; None where units are records."""
    return problem.dim if problem.grouped else None


def free_constant(loss: LinearModelLoss, frobenius: bool) -> float | None:
    """Constant q of the condition under which curvature costs nothing; None where the condition fails."""
    return loss.frobenius_self_concordance if frobenius else loss.self_concordance


def pure_regularization(
    problem: LinearModelProblem, frobenius: bool, unit_energy: float, budget: float
) -> tuple[float, NoiseShare]:
    """Minimise the bound (5.1) over the regularisation, with the noise share that each value leaves.

    `unit_energy` is ``E||b||^2`` at ``epsilon_1 = 1``. For losses with free curvature the minimiser is (5.2) whenever
    it lies above the floor; otherwise a one-dimensional search over public quantities.
    """
    n, radius, loss = problem.n, problem.radius, problem.loss

    def share(l2: float) -> NoiseShare:
        return pure_share(loss, frobenius, problem.tau(l2), budget, user_rank(problem))

    def bound(l2: float) -> float:
        epsilon = share(l2).epsilon
        return l2 * radius**2 / 2 + unit_energy / (epsilon * n) ** 2 / (2 * l2) if epsilon > 0 else math.inf

    ideal = math.sqrt(unit_energy) / (budget * n * radius)
    if share(ideal).rule == "free":
        return ideal, share(ideal)
    q = free_constant(loss, frobenius)
    floor = problem.tau(1.0) * 2 * q / budget * MARGIN if q is not None else ideal
    lowest = smallest_l2(problem, budget)
    best = minimize_on_log_grid(bound, lowest / 8, 1e3 * max(ideal, floor, lowest))
    best = min((best, max(ideal, floor)), key=bound)
    return best, share(best)


def gaussian_regularization(
    problem: LinearModelProblem, gradient_bound: float, unit_energy: float, epsilon: float, delta: float
) -> tuple[float, GaussianObjectivePerturbation]:
    """Regularisation and the smallest standard deviation for Gaussian noise; the event has ``rho = 0``.

    `unit_energy` is ``E||b||^2`` at ``sigma = 1``.
    """
    n, radius, loss = problem.n, problem.radius, problem.loss
    rule, curvature = gaussian_rule(loss)

    def event(l2: float) -> GaussianObjectivePerturbation:
        return calibrate_gaussian(gradient_bound, 0.0, problem.tau(l2), rule, curvature, epsilon, delta)

    def bound(l2: float) -> float:
        if overspent(loss, problem.tau(l2), epsilon):
            return math.inf
        return l2 * radius**2 / 2 + unit_energy * event(l2).sigma ** 2 / n**2 / (2 * l2)

    flat = calibrate_gaussian(gradient_bound, 0.0, 1e-12, rule, curvature, epsilon, delta)
    ideal = flat.sigma * math.sqrt(unit_energy) / (n * radius)
    if rule.endswith("_sc"):
        l2 = max(ideal, 2 * curvature * problem.tau(1.0) / epsilon * MARGIN)
        return l2, event(l2)
    lowest = smallest_l2(problem, epsilon)
    l2 = minimize_on_log_grid(bound, lowest, 1e3 * max(ideal, lowest), points=40)
    return l2, event(l2)


def smallest_l2(problem: LinearModelProblem, epsilon: float) -> float:
    """Regularisation at which curvature alone costs `epsilon`: ``r log(1 + t tau / r) = epsilon`` solved for it."""
    rank = user_rank(problem) or problem.loss.curvature_rank
    return problem.tau(1.0) * problem.loss.curvature_trace / (rank * math.expm1(min(epsilon / rank, 600.0)))


def gaussian_rule(loss: LinearModelLoss) -> tuple[str, float]:
    """Which of (3.1), (3.2) or the softmax formula applies, with its curvature."""
    if loss.n_outputs > 1:
        return "softmax", float(loss.n_outputs)
    side = "one_sided" if loss.sides == 1 else "two_sided"
    if loss.self_concordance is not None:
        return f"{side}_sc", loss.self_concordance
    return side, loss.curvature_bound


def calibrate_gaussian(
    gradient_bound: float, rho: float, tau: float, rule: str, curvature: float, epsilon: float, delta: float
) -> GaussianObjectivePerturbation:
    """Smallest sigma whose profile is at most `delta` at `epsilon`; the profile is evaluated at the sigma returned."""

    def event(sigma: float) -> GaussianObjectivePerturbation:
        return GaussianObjectivePerturbation(gradient_bound, sigma, rho, tau, rule, curvature)

    return event(smallest(lambda sigma: event(sigma).delta(epsilon) <= delta, gradient_bound / epsilon))


def minimize_on_log_grid(bound: Callable[[float], float], low: float, high: float, points: int = 40) -> float:
    """Minimise over [low, high]: a logarithmic grid, then a bounded search around its best point."""
    grid = np.geomspace(low, high, points)
    k = int(np.argmin([bound(float(x)) for x in grid]))
    # The search subtracts values, so an infeasible point is very bad rather than infinite.
    left, right = np.log(grid[max(k - 1, 0)]), np.log(grid[min(k + 1, points - 1)])
    found = minimize_scalar(lambda t: min(bound(math.exp(t)), 1e300), bounds=(left, right), method="bounded")
    return min((float(grid[k]), math.exp(float(found.x))), key=bound)


def overspent(loss: LinearModelLoss, tau: float, epsilon: float) -> bool:
    """Whether curvature alone would use up a Gaussian budget."""
    rule, curvature = gaussian_rule(loss)
    cost = curvature * tau if rule.endswith("_sc") else determinant_cost(loss.curvature_trace, loss.curvature_rank, tau)
    return cost >= 0.999 * epsilon
