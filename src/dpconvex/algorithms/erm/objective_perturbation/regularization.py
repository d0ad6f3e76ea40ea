"""Regularization of objective perturbation: the budget that curvature leaves to noise, and the ridge of least error.

Rules and formulas are those of the docs, Objective perturbation (1.2) to (1.4) and (3.1) to (3.4). Privacy rests on
`pure_share` and `calibrate_gaussian` alone, which price with directed rounding; the rest is search in plain floats.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dpconvex import _rounding
from dpconvex._types import Floats
from dpconvex.algorithms.erm.objective_perturbation.plan import LONGEST
from dpconvex.losses import CurvatureLaw, LinearModelLoss
from dpconvex.privacy import GaussianObjectivePerturbation
from dpconvex.privacy.events import objective as events
from dpconvex.privacy.events.objective import determinant_cost, logistic_epsilon, logistic_line, saturating_epsilon
from dpconvex.privacy.profiles import smallest
from dpconvex.problems import LinearModelProblem

MARGIN = 1 + 1e-9  #: Regularization is put this far above a floor, so that rounding cannot fall below it.
OUTPUT_RATIO = 0.05
"""For Gaussian noise: rho over ``A X_2 / sigma``. The output noise then raises sigma by an eighth of a percent."""
POINTS = 40  #: Number of ridge weights on the grid that is searched for the best.
SLOPES = np.linspace(0.0, 1.0, 129)  #: Slopes, over the largest slope, at which estimates look for the highest cost.
TANGENTS = tuple(k / 50 for k in range(50, 0, -1))  #: Tangents tried if a curvature is released; 1 is formula (3.4).
LARGEST = 20.0  #: `tau` does not grow with epsilon beyond this epsilon: doubles could not resolve the gain.
Users = tuple[int, int] | None
"""Most distinct records of a user and number of all parameters, for Theorem U4; None: units are records."""


class NoiseShare(NamedTuple):
    """The epsilon that noise may spend of a pure budget at a given `tau`, and the parameters of the event.

    `epsilon` is rounded down; 0 or less means that no noise suffices. All other fields are the event's.
    """

    epsilon: float
    rule: str
    curvature: float
    rank: int = 1
    bend: float = 1.0


def pure_share(
    loss: LinearModelLoss, frobenius: bool, tau: float, budget: float, rank: int | None = None, pulls: int = 2
) -> NoiseShare:
    """Return the largest noise share within a pure `budget`, the epsilon of the exact minimizer; `tau` is rounded up.

    `frobenius` says whether the noise is in the l2 norm of the flat parameters, for which curvature is free with more
    losses; `rank` is the rank of a unit's Hessian (None: a record's); `pulls` is 2 if a unit is replaced, 1 if one is
    added or removed.
    """
    q = loss.frobenius_self_concordance if frobenius else loss.self_concordance
    if q is not None and pulls * q * tau * MARGIN**0.5 <= budget:  # Theorem 2: curvature costs nothing
        return NoiseShare(budget, "free", q)
    rank = loss.curvature_rank if rank is None else rank
    if price := slope_price(loss):
        return NoiseShare(_priced_share(price, tau, budget, rank, pulls), price.rule, price.curvature, rank, price.bend)
    trace = loss.curvature_trace  # Theorem 1
    left = _rounding.difference_down(budget, determinant_cost(trace, rank, tau))
    return NoiseShare(left, "determinant", trace, rank)


class SlopePrice(NamedTuple):
    """A cost of curvature that depends on the slope, with `rule`, `curvature` and `bend` as events have them."""

    rule: str
    curvature: float
    bend: float
    epsilon: Callable[..., Fraction]  #: The total epsilon for given noise, `tau`, `curvature`, rank and `pulls`
    bends: Floats  #: Curvature at `SLOPES`, over `bend`


def slope_price(loss: LinearModelLoss) -> SlopePrice | None:
    """Return the price for the logistic law (Theorem 2a), or for one output with vanishing curvature (2c); or None."""
    q, trace = loss.self_concordance, loss.curvature_trace
    if loss.curvature_law == CurvatureLaw.LOGISTIC and (q is None or loss.slope_bound == 1):
        slopes = loss.slope_bound * SLOPES
        return SlopePrice("logistic", loss.slope_bound, 1.0, logistic_epsilon, slopes * (1 - slopes))
    if q is None or loss.n_outputs > 1:
        return None
    relative = _rounding.ratio_up(q, trace)
    return SlopePrice("saturating", relative, trace, saturating_epsilon, np.minimum(1.0, relative * (1 - SLOPES)))


def _priced_share(price: SlopePrice, tau: float, budget: float, rank: int, pulls: int) -> float:
    """Return the largest epsilon that noise may spend where the cost of curvature depends on the slope."""
    scaled, last = _rounding.product_up(tau, price.bend), float(price.bends[-1])

    def fits(epsilon: float) -> bool:
        # Test the three next smaller floats, too: the scale is rounded, and prices increase only up to rounding.
        # The price depends on epsilon / rank as a float, and there are more such floats than values of epsilon.
        tried = [_rounding.float_up(Fraction(epsilon) / rank)]
        for _ in range(3):
            tried.append(math.nextafter(tried[-1], 0.0))
        spent = (min(rank * Fraction(x), Fraction(epsilon)) for x in tried)
        return all(price.epsilon(x, scaled, price.curvature, rank, pulls) <= Fraction(budget) for x in spent)

    high = _rounding.difference_down(budget, determinant_cost(last, rank, tau) if last > 0 else 0.0)
    if high <= 0 or fits(high):  # it fits if noise and curvature cost most at the largest slope
        return high
    high = min(high, _estimated_share(price, tau, budget, rank, pulls))
    low = high * (1 - 1e-3)  # the grid's error is of second order
    low = low if high > 0 and fits(low) else 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _estimated_share(price: SlopePrice, tau: float, budget: float, rank: int, pulls: int) -> float:
    """Return an estimate, a little above `_priced_share`, in plain floats: the least share over a grid of slopes."""
    left = budget - rank * np.log1p(tau * price.bend / rank * price.bends)
    own = SLOPES if pulls == 1 else 0.5 + SLOPES / 2
    return float(np.min(left[1:] / own[1:]))  # slope 0 does not leave less


def user_rank(problem: LinearModelProblem) -> int | None:
    """Return a bound on the rank of a user's Hessian for any number of records; None where units are records."""
    return problem.dim if problem.grouped else None


def expected_error(
    problem: LinearModelProblem, deviations: Floats, output: Callable[[Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return the expected error as a function of `l2` and a scale of ``b``, whose `deviations` are those at scale 1."""
    n, typical, length = problem.n, problem.typical, float(np.linalg.norm(deviations))
    certifiable = np.frompyfunc(problem.certifiable_radius, 2, 1)
    unit_noise = typical.released_noise(np.ones(problem.dim))

    def expected(l2: Any, noise: Any) -> Any:
        kept = typical.shrinkage(l2) + typical.gradient_noise(l2, np.multiply.outer(noise / n, deviations))
        mask = output(noise) * certifiable(l2, LONGEST * length * noise / n)
        return kept + unit_noise * mask**2

    return expected


def pure_regularization(
    problem: LinearModelProblem, frobenius: bool, deviations: Floats, budget: float, output: Callable[[Any], Any]
) -> tuple[float, NoiseShare]:
    """Minimize the expected error over the ridge; `deviations` (dim,) are those of ``b`` at ``epsilon_1 = 1``."""
    loss, unit_tau, error = problem.loss, problem.tau(1.0), expected_error(problem, deviations, output)
    q = loss.frobenius_self_concordance if frobenius else loss.self_concordance
    rank, pulls, price = user_rank(problem) or loss.curvature_rank, problem.differing, slope_price(loss)

    def noise(l2: float) -> float:
        tau = unit_tau / l2  # this is `pure_share` in plain floats
        if q is not None and pulls * q * tau <= budget:
            left = budget
        elif price is not None:
            left = _estimated_share(price, tau, budget, rank, pulls)
        else:
            left = budget - rank * math.log1p(loss.curvature_trace * tau / rank)
        return 1 / left if left > 0 else math.inf

    ideal = float(np.linalg.norm(deviations)) / (budget * problem.n * problem.ridge_radius)  # (5.2)
    floor = unit_tau * pulls * q / budget * MARGIN if q is not None else ideal
    lowest = smallest_l2(problem, budget)
    best = least_error(error, noise, lowest, 1e3 * max(ideal, floor, lowest), ideal, floor)
    return best, pure_share(loss, frobenius, problem.tau(best), budget, user_rank(problem), pulls)


def gaussian_regularization(
    problem: LinearModelProblem, gradient_bound: float,
    deviations: Floats, epsilon: float, delta: float, users: Users = None,
) -> tuple[float, GaussianObjectivePerturbation]:  # fmt: skip
    """Return the ridge of least expected error, and its event of the smallest Gaussian ``b``, with ``rho = 0``."""
    unit_tau, (rule, curvature) = problem.tau(1.0), gaussian_rule(problem.loss, users)
    price = rule, curvature, epsilon, delta, 0.0, users
    error = expected_error(problem, deviations, lambda noise: 2 * noise / (OUTPUT_RATIO * gradient_bound))

    def sigma(l2: float) -> float:
        # Infinite if curvature takes too much; otherwise the leading term, inverse to the budget that curvature leaves.
        charge = curvature_charge(problem.loss, unit_tau / l2, users)
        return math.inf if max(charge) > epsilon / 2 else flat / (1 - charge[0] / epsilon)

    flat = calibrate_gaussian(gradient_bound, 0.0, 1e-12, *price).sigma
    ideal = flat * float(np.linalg.norm(deviations)) / (problem.n * problem.ridge_radius)
    lowest = smallest_l2(problem, epsilon, charged_trace(problem.loss, rule, curvature))
    floor = (2 * curvature * unit_tau / epsilon * MARGIN,) if rule.endswith("_sc") else ()
    best = least_error(error, sigma, lowest, 1e3 * max(ideal, lowest), ideal, *floor)
    return best, calibrate_gaussian(gradient_bound, 0.0, problem.tau(best), *price)


def smallest_l2(problem: LinearModelProblem, epsilon: float, trace: float | None = None) -> float:
    """Return the `l2` at which curvature alone costs `epsilon`: ``r log(1 + t tau / r) = epsilon`` solved for it."""
    rank, trace = user_rank(problem) or problem.loss.curvature_rank, trace or problem.loss.curvature_trace
    return problem.tau(1.0) * trace / (rank * math.expm1(min(epsilon / rank, LARGEST)))


def charged_trace(loss: LinearModelLoss, rule: str, curvature: float) -> float:
    """Return the Hessian trace that a Gaussian event charges; for several classes, that of the loss without a cap."""
    return 1 - 1 / curvature if rule == "softmax" else loss.curvature_trace


def gaussian_rule(loss: LinearModelLoss, users: Users = None) -> tuple[str, float]:
    """Return the rule, (3.1), (3.2), (3.4) or, for several outputs, the softmax formula, and its curvature.

    For users the event has the form of Theorem U4, in which a capped logistic loss pays for its trace.
    """
    if loss.n_outputs > 1:
        return "softmax", float(loss.n_outputs)
    side = "one_sided" if loss.sides == 1 else "two_sided"
    if loss.curvature_law == CurvatureLaw.LOGISTIC and users is None and loss.slope_bound < 1:
        return "logistic", loss.slope_bound  # also for a cap that saturates, where (3.2) would cost more
    if loss.self_concordance is not None:
        return f"{side}_sc", loss.self_concordance
    return side, loss.curvature_bound


def curvature_charge(loss: LinearModelLoss, tau: float, users: Users = None) -> tuple[float, float]:
    """Return the epsilon that curvature takes of a Gaussian budget at the steepest slope, and at slope 0."""
    rule, curvature = gaussian_rule(loss, users)
    if rule == "logistic":
        return logistic_line(curvature, tau)
    if rule.endswith("_sc"):
        return 0.0, curvature * tau
    trace = charged_trace(loss, rule, curvature)
    cost = determinant_cost(trace, loss.curvature_rank if users is None else users[1], tau)
    return cost, cost


def calibrate_gaussian(
    gradient_bound: float, rho: float, tau: float, rule: str, curvature: float,
    epsilon: float, delta: float, share: float = 0.0, users: Users = None,
) -> GaussianObjectivePerturbation:  # fmt: skip
    """Return the event of the smallest sigma whose privacy profile at `epsilon` is at most `delta`.

    With a `share` of the squared shift for a curvature, its tangent has the smallest delta near that sigma.
    """

    def event(sigma: float, tangent: float = 1.0) -> GaussianObjectivePerturbation:
        given = gradient_bound, sigma, rho, tau, rule, curvature
        if users is not None:
            return events.UserGaussianObjectivePerturbation(*given, *users)
        if share == 0.0:
            return GaussianObjectivePerturbation(*given)
        mu = 2 * gradient_bound / sigma * math.sqrt(share / (1 - share))
        return events.CurvedObjectivePerturbation(*given, mu, tangent)

    best = event(smallest(lambda sigma: event(sigma).delta(epsilon) <= delta, gradient_bound / epsilon))
    for _ in range(2 if share and rule in events.TANGENT_RULES else 0):  # any tangent is valid: the best has less noise
        t = min(TANGENTS, key=lambda tangent: event(best.sigma, tangent).delta(epsilon))
        best = event(smallest(lambda sigma, t=t: event(sigma, t).delta(epsilon) <= delta, best.sigma), t)
    return best


def least_error(
    error: Callable[[Any, Any], Any], noise: Callable[[float], float], low: float, high: float, *others: float
) -> float:
    """Return the ridge of the least `error`, from a grid and bounded search in [low, high], and from `others`."""

    def cost(l2: float) -> float:
        size = noise(l2)
        return float(error(l2, size)) if size < math.inf else math.inf

    grid = np.geomspace(low, high, POINTS)
    noises = np.array([noise(l2) for l2 in grid.tolist()])
    feasible, costs = noises < math.inf, np.full(POINTS, math.inf)
    costs[feasible] = error(grid[feasible], noises[feasible])
    k = int(np.argmin(costs))
    # The search subtracts values, so an infeasible point is very bad rather than infinite.
    left, right = np.log(grid[max(k - 1, 0)]), np.log(grid[min(k + 1, POINTS - 1)])
    found: Any = minimize_scalar(lambda t: min(cost(math.exp(t)), 1e300), bounds=(left, right), method="bounded")
    return min((float(grid[k]), math.exp(float(found.x)), *others), key=cost)
