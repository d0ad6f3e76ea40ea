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
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.losses.base import CurvatureLaw, LinearModelLoss
from dpconvex.privacy.events.objective import (
    GaussianObjectivePerturbation,
    determinant_cost,
    logistic_epsilon,
    logistic_line,
)
from dpconvex.privacy.profiles import smallest
from dpconvex.problems.linear.problem import LinearModelProblem

MARGIN = 1 + 1e-9
"""Regularisation is put this far above a floor, so that rounding cannot fall below it."""

LONGEST = 30
"""A linear term is at most so many root mean squares long: for a longer one, of probability below 1e-17, runs stop."""

OUTPUT_RATIO = 0.05
"""Of Gaussian noise: rho in units of ``A X_2 / sigma``. It takes an eighth of a percent of sigma."""

POINTS = 40
"""Regularisations of the grid on which the best one is looked for."""

_SLOPES = np.linspace(0.0, 1.0, 129)
"""Shares of the largest slope at which estimates look for the costliest."""


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
    rank = loss.curvature_rank if rank is None else rank
    if loss.curvature_law == CurvatureLaw.LOGISTIC:
        return NoiseShare(_logistic_share(tau, budget, loss.slope_bound, rank), "logistic", loss.slope_bound, rank)
    trace = loss.curvature_trace
    left = _rounding.difference_down(budget, determinant_cost(trace, rank, tau))
    return NoiseShare(left, "determinant", trace, rank)


def _logistic_share(tau: float, budget: float, cap: float, rank: int) -> float:
    """Largest noise share within `budget` by (1.4): the curvature is a(1 - a) at every slope a below the cap."""

    def fits(epsilon: float) -> bool:
        """Also for the two floats below: the scale is rounded, and (1.4) in floats rises to within rounding only."""
        below = math.nextafter(epsilon, 0.0)
        tried = (epsilon, below, math.nextafter(below, 0.0))
        return all(logistic_epsilon(Fraction(x), tau, cap, rank) <= Fraction(budget) for x in tried)

    at_cap = 0.0 if cap == 1 else determinant_cost(cap * (1 - cap), rank, tau)
    high = _rounding.difference_down(budget, at_cap)
    if high <= 0 or fits(high):  # where the sum of noise and curvature is largest at the cap
        return high
    high = min(high, _logistic_estimate(tau, budget, cap, rank))
    low = high * (1 - 1e-3)  # the grid's error is of second order
    if high <= 0 or not fits(low):
        low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _logistic_estimate(tau: float, budget: float, cap: float, rank: int) -> float:
    """As `_logistic_share` in plain floats, a little above it: the least of what the slopes of a grid leave."""
    bend = tau / rank * cap * (1 - cap)
    at_cap = budget - rank * math.log1p(bend)
    if at_cap * (1 + bend) >= 2 * cap * tau * (2 * cap - 1):
        return at_cap
    left = budget - rank * np.log1p(tau / rank * cap * _SLOPES * (1 - cap * _SLOPES))
    return float(np.min(left / (0.5 + _SLOPES / 2)))


def _estimate(loss: LinearModelLoss, frobenius: bool, tau: float, budget: float, rank: int | None) -> float:
    """Noise share of `pure_share` in plain floats, for searches."""
    q = free_constant(loss, frobenius)
    if q is not None and 2 * q * tau <= budget:
        return budget
    rank = loss.curvature_rank if rank is None else rank
    if loss.curvature_law == CurvatureLaw.LOGISTIC:
        return _logistic_estimate(tau, budget, loss.slope_bound, rank)
    return budget - rank * math.log1p(loss.curvature_trace * tau / rank)


def user_rank(problem: LinearModelProblem) -> int | None:
    """Rank of a user's Hessian, which may have any number of records; None where units are records."""
    return problem.dim if problem.grouped else None


def free_constant(loss: LinearModelLoss, frobenius: bool) -> float | None:
    """Constant q of the condition under which curvature costs nothing; None where the condition fails."""
    return loss.frobenius_self_concordance if frobenius else loss.self_concordance


def output_part(problem: LinearModelProblem, l2: float, energy: float) -> float:
    """Return the output noise's part of the bound, ``beta/2 E||z||^2``, for ``energy = E||z||^2``."""
    return (problem.smoothness + l2) / 2 * energy


def planned_error(
    problem: LinearModelProblem, deviations: FloatArray, output: Callable[[Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return by what the regularisation is chosen: the expected error; for users, whose plans rank by it, bound (5.1).

    Parameters
    ----------
    problem : LinearModelProblem
        Public facts.
    deviations : array of shape (dim,)
        Standard deviations of ``b`` in some unit.
    output : function
        Of the noise in that unit: standard deviation of the output noise in each coordinate over the solver radius. The
        radius is counted as the smallest that rounding allows: where it is larger, it is planned not to matter.

    Returns
    -------
    function
        Of the regularisation and of the noise in that unit: two floats, or two arrays of them, shape (k,).
    """
    n, radius = problem.n, problem.radius
    typical, length = problem.typical, float(np.linalg.norm(deviations))
    certifiable = np.frompyfunc(problem.certifiable_radius, 2, 1)

    def mask(l2: Any, noise: Any) -> Any:
        return output(noise) * certifiable(l2, LONGEST * length * noise / n)

    def bound(l2: Any, noise: Any) -> Any:
        hidden = output_part(problem, l2, problem.dim * mask(l2, noise) ** 2)
        return l2 * radius**2 / 2 + (length * noise / n) ** 2 / (2 * l2) + hidden

    if typical is None or problem.grouped:
        return bound
    unit_noise = typical.released_noise(np.ones(problem.dim))

    def expected(l2: Any, noise: Any) -> Any:
        kept = typical.shrinkage(l2) + typical.gradient_noise(l2, np.multiply.outer(noise / n, deviations))
        return kept + unit_noise * mask(l2, noise) ** 2

    return expected


def pure_regularization(
    problem: LinearModelProblem,
    frobenius: bool,
    deviations: FloatArray,
    budget: float,
    output: Callable[[Any], Any],
) -> tuple[float, NoiseShare]:
    """Minimise the planned error over the regularisation, with the noise share that each value leaves.

    Not below (5.2), where the bound (5.1) has its minimum if curvature is free. `deviations` are those of ``b`` (dim,)
    at ``epsilon_1 = 1``; `output` as in `planned_error`.
    """
    loss, unit_tau, rank = problem.loss, problem.tau(1.0), user_rank(problem)
    error = planned_error(problem, deviations, output)

    def noise(l2: float) -> float:
        epsilon = _estimate(loss, frobenius, unit_tau / l2, budget, rank)
        return 1 / epsilon if epsilon > 0 else math.inf

    ideal = float(np.linalg.norm(deviations)) / (budget * problem.n * problem.radius)
    q = free_constant(loss, frobenius)
    floor = unit_tau * 2 * q / budget * MARGIN if q is not None else ideal
    lowest = smallest_l2(problem, budget)
    best = least_error(error, noise, max(ideal, lowest), 1e3 * max(ideal, floor, lowest), max(ideal, floor))
    return best, pure_share(loss, frobenius, problem.tau(best), budget, rank)


def gaussian_regularization(
    problem: LinearModelProblem, gradient_bound: float, deviations: FloatArray, epsilon: float, delta: float
) -> tuple[float, GaussianObjectivePerturbation]:
    """Regularisation and the smallest standard deviation for Gaussian noise; the event has ``rho = 0``.

    `deviations` are those of ``b`` (dim,) at ``sigma = 1``.
    """
    loss, unit_tau = problem.loss, problem.tau(1.0)
    rule, curvature = gaussian_rule(loss)
    error = planned_error(problem, deviations, lambda noise: 2 * noise / (OUTPUT_RATIO * gradient_bound))

    def event(l2: float) -> GaussianObjectivePerturbation:
        return calibrate_gaussian(gradient_bound, 0.0, problem.tau(l2), rule, curvature, epsilon, delta)

    def sigma(l2: float) -> float:
        """Infinite where curvature takes too much, else the leading term: about inverse to what curvature leaves."""
        tau = unit_tau / l2
        if rule == "logistic":
            charge = logistic_line(curvature, tau)
        elif rule.endswith("_sc"):
            charge = (0.0, curvature * tau)
        else:
            charge = (determinant_cost(loss.curvature_trace, loss.curvature_rank, tau), 0.0)
        return math.inf if max(charge) > epsilon / 2 else flat / (1 - charge[0] / epsilon)

    flat = calibrate_gaussian(gradient_bound, 0.0, 1e-12, rule, curvature, epsilon, delta).sigma
    ideal = flat * float(np.linalg.norm(deviations)) / (problem.n * problem.radius)
    lowest = smallest_l2(problem, epsilon)
    floor = (max(ideal, 2 * curvature * unit_tau / epsilon * MARGIN),) if rule.endswith("_sc") else ()
    best = least_error(error, sigma, max(ideal, lowest), 1e3 * max(ideal, lowest), *floor)
    return best, event(best)


def smallest_l2(problem: LinearModelProblem, epsilon: float) -> float:
    """Regularisation at which curvature alone costs `epsilon`: ``r log(1 + t tau / r) = epsilon`` solved for it."""
    rank = user_rank(problem) or problem.loss.curvature_rank
    return problem.tau(1.0) * problem.loss.curvature_trace / (rank * math.expm1(min(epsilon / rank, 600.0)))


def gaussian_rule(loss: LinearModelLoss) -> tuple[str, float]:
    """Which of (3.1), (3.2), (3.4) or the softmax formula applies, with its curvature; several outputs: the last."""
    if loss.n_outputs > 1:
        return "softmax", float(loss.n_outputs)
    side = "one_sided" if loss.sides == 1 else "two_sided"
    if loss.self_concordance is not None:
        return f"{side}_sc", loss.self_concordance
    if loss.curvature_law == CurvatureLaw.LOGISTIC:
        return "logistic", loss.slope_bound
    return side, loss.curvature_bound


def calibrate_gaussian(
    gradient_bound: float, rho: float, tau: float, rule: str, curvature: float, epsilon: float, delta: float
) -> GaussianObjectivePerturbation:
    """Smallest sigma whose profile is at most `delta` at `epsilon`; the profile is evaluated at the sigma returned."""

    def event(sigma: float) -> GaussianObjectivePerturbation:
        return GaussianObjectivePerturbation(gradient_bound, sigma, rho, tau, rule, curvature)

    return event(smallest(lambda sigma: event(sigma).delta(epsilon) <= delta, gradient_bound / epsilon))


def least_error(
    error: Callable[[Any, Any], Any], noise: Callable[[float], float], low: float, high: float, *others: float
) -> float:
    """Return the regularisation of the smallest error in [low, high], or one of `others` if it does better.

    A logarithmic grid, then a bounded search around its best point.

    Parameters
    ----------
    error : function
        Of the regularisation and of its noise, as from `planned_error`.
    noise : function
        Of the regularisation; infinite where curvature takes too much.
    """

    def cost(l2: float) -> float:
        size = noise(l2)
        return error(l2, size) if size < math.inf else math.inf

    grid = np.geomspace(low, high, POINTS)
    noises = np.array([noise(l2) for l2 in grid.tolist()])
    feasible, costs = noises < math.inf, np.full(POINTS, math.inf)
    costs[feasible] = error(grid[feasible], noises[feasible])
    k = int(np.argmin(costs))
    # The search subtracts values, so an infeasible point is very bad rather than infinite.
    left, right = np.log(grid[max(k - 1, 0)]), np.log(grid[min(k + 1, POINTS - 1)])
    found = minimize_scalar(lambda t: min(cost(math.exp(t)), 1e300), bounds=(left, right), method="bounded")
    return min((float(grid[k]), math.exp(float(found.x)), *others), key=cost)


def overspent(loss: LinearModelLoss, tau: float, epsilon: float) -> bool:
    """Whether curvature alone would use up a Gaussian budget."""
    rule, curvature = gaussian_rule(loss)
    if rule == "logistic":
        return max(logistic_line(curvature, tau)) >= 0.999 * epsilon
    cost = curvature * tau if rule.endswith("_sc") else determinant_cost(loss.curvature_trace, loss.curvature_rank, tau)
    return cost >= 0.999 * epsilon
