"""From public facts to plans of objective perturbation, one for every noise law that is asked for.

Theorem and formula numbers are those of the docs, Objective perturbation.

Notation: ``tau = X_2^2/(n l2)``; ``epsilon_1`` the part of the budget that the noise ``b`` may spend; ``E`` the noise
energy ``E||b||_2^2``; R the comparator norm. The excess mean loss is at most ``l2 R^2/2 + E/(2 n^2 l2)`` (5.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms import check_average, in_units, recorded
from dpconvex.algorithms.erm.objective_perturbation.plan import (
    LONGEST,
    JointGaussianOutput,
    ObjectivePerturbationPlan,
    SeparateOutput,
    gradient_tolerance,
    output_part,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import (
    FactoredNoise,
    GroupedNorm,
    L2Norm,
    NoiseLaw,
    NoiseNorm,
    centered_lengths,
    gaussian_block_weights,
)
from dpconvex.losses import CurvatureLaw, LinearModelLoss
from dpconvex.mechanisms import GaussianObjectiveNoise, NormNoiseMechanism, NormObjectiveNoise
from dpconvex.privacy import GaussianObjectivePerturbation, PrivacyParams, PureObjectivePerturbation, Sensitivity
from dpconvex.privacy.events.objective import determinant_cost, logistic_epsilon, logistic_line
from dpconvex.privacy.profiles import smallest
from dpconvex.problems import DataDomain, Factor, LinearModelProblem
from dpconvex.solvers import default_solver

NORMS: dict[str, Callable[[DataDomain], NoiseNorm]] = {
    "grouped": GroupedNorm.for_domain,
    "weighted_l1": GroupedNorm.weighted_l1,
    "l1": GroupedNorm.l1,
    "block_max": GroupedNorm.block_max,
}
"""Norms of one output's noise, by name; ``"l2"`` is the norm of all outputs together."""
GAUSSIANS = ("gaussian", "weighted_gaussian")

MARGIN = 1 + 1e-9
"""Regularization is put this far above a floor, so that rounding cannot fall below it."""
OUTPUT_RATIO = 0.05
"""Of Gaussian noise: rho in units of ``A X_2 / sigma``. The output noise then takes an eighth of a percent of sigma."""
OUTPUT_SHARES, HARMLESS = (0.01, 0.03, 0.1, 0.3), 0.01
"""Shares of a pure budget for the output noise, tried in turn until that noise is so small a share of the error."""
POINTS = 40
"""Regularizations of the grid on which the best one is looked for."""
SLOPES = np.linspace(0.0, 1.0, 129)
"""Shares of the largest slope at which estimates look for the costliest."""


@recorded("objective_perturbation")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, *, l2: float | None = None, noise: str = "auto"
) -> tuple[ObjectivePerturbationPlan, ...]:
    """Return the valid plans, one for each kind of noise; the loss must be smooth with a bounded slope.

    `l2` is by default that of the smallest expected error (for users: bound), from public facts. `noise` is ``"auto"``
    (all that apply), a name in `NORMS`, ``"l2"``, ``"gaussian"`` or ``"weighted_gaussian"``.
    """
    check_average(problem, privacy)
    options = ("auto", *NORMS, "l2", *GAUSSIANS)
    _validate.choice("noise", noise, options)
    if l2 is not None:
        _validate.real("l2", l2, above=0.0)
    if math.isinf(problem.lipschitz) or math.isinf(problem.smoothness):
        raise InvalidParameterError(
            "loss", problem.loss.name, "must be smooth with a bounded slope", "Use algorithm='output_perturbation'"
        )
    if noise in GAUSSIANS and privacy.pure:
        raise InvalidParameterError("noise", noise, "needs delta > 0", "Give delta, or use a pure noise")
    if noise in GAUSSIANS and problem.grouped:
        what = "is not proved for users: a user's gradient is no multiple of one feature vector"
        raise InvalidParameterError("noise", noise, what, "Use algorithm='output_perturbation' or a pure noise")
    if problem.factor is None:
        problem = replace(problem, factor=coordinates(problem.domain, plain=l2 is not None))
    kinds = [kind for kind in options[1:] if noise in ("auto", kind)]
    plans = [_pure(problem, privacy, kind, l2) for kind in kinds if kind not in GAUSSIANS]
    if not privacy.pure and not problem.grouped:
        plans += [_gaussian(problem, privacy, kind, l2) for kind in kinds if kind in GAUSSIANS]
    found = tuple(p for p in plans if p is not None)
    if not found:
        raise InvalidParameterError("l2", l2, "is too small for this epsilon", "Leave l2 out, or raise it")
    return found


def _pure(
    problem: LinearModelProblem, privacy: PrivacyParams, kind: str, l2: float | None
) -> ObjectivePerturbationPlan | None:
    """Return the best split of a pure budget, by the planned error; None where curvature uses up all of it."""
    assert problem.factor is not None
    if kind == "l2":
        norm: NoiseLaw = L2Norm(problem.dim)
        copies, reach = 1, _rounding.product_up(2.0, problem.lipschitz)
    else:
        base, copies = _norm(kind, problem.domain), problem.loss.n_outputs
        norm = FactoredNoise(base, problem.factor)
        reach = _rounding.product_up(2.0, problem.loss.slope_bound_l1, base.record_bound(problem.domain))
    lemma = "gradients of two records differ by at most 2 A X_K (docs, Objective perturbation, (1.1))"
    sensitivity = Sensitivity(reach, norm.name, in_units(lemma, privacy), unit=privacy.unit)
    best: ObjectivePerturbationPlan | None = None
    for share in OUTPUT_SHARES:
        plan = _pure_split(problem, privacy, share, norm, copies, sensitivity, l2)
        if plan is None or (best is not None and plan.planned_error >= best.planned_error):
            break
        best = plan
        if plan.output_excess <= HARMLESS * plan.planned_error:
            break
    return best


CATEGORY, NUMBER = 1.0, 1.0
"""Largest prior variance of a block's part of a prediction, relative to the others': of a category with three levels or
more, and of a number, a category with two, and the constant. Spec: anything between 1/4 and 1/2 is the same."""


@lru_cache(maxsize=64)
def coordinates(domain: DataDomain, plain: bool) -> Factor:
    """Return the coordinates that the ridge is on: contrasts of categories, and blocks of comparable prior variance.

    `plain`: those in which a ridge weight that the user gives has its usual meaning.
    """
    if plain:
        return Factor.contrasts(domain)
    weights = [CATEGORY if b.categorical and b.size > 2 else NUMBER for b in domain.all_blocks]
    total = math.fsum(w * (b.size if b.norm == "linf" else 1) for w, b in zip(weights, domain.all_blocks, strict=True))
    return Factor.of(domain, [weight / total for weight in weights], lambda block: None)


@lru_cache(maxsize=64)  # surrogates of a loss have the same domain
def _norm(kind: str, domain: DataDomain) -> NoiseNorm:
    return NORMS[kind](domain)


def _pure_split(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    output_share: float,
    norm: NoiseLaw,
    copies: int,
    sensitivity: Sensitivity,
    l2: float | None,
) -> ObjectivePerturbationPlan | None:
    """Return the plan of Theorem 3, pure: ``epsilon = epsilon_obj + epsilon_out``."""
    d, frobenius = problem.dim, norm.name == "l2" and norm.dim == problem.dim  # of all outputs together
    epsilon_out = _rounding.product_down(output_share, privacy.epsilon)
    budget = _rounding.difference_down(privacy.epsilon, epsilon_out)
    unit_deviations = np.sqrt(np.tile(norm.coordinate_variances, copies))
    if l2 is None:
        deviations, per_radius = sensitivity.value * unit_deviations, 2 * math.sqrt(d + 1) / epsilon_out
        lam, share = pure_regularization(problem, frobenius, deviations, budget, lambda noise: per_radius)
    else:
        lam, share = l2, pure_share(problem.loss, frobenius, problem.tau(l2), budget, user_rank(problem))
    if share.epsilon <= 0:
        return None
    scale = _rounding.ratio_up(sensitivity.value, share.epsilon)
    event = PureObjectivePerturbation(sensitivity.value, scale, problem.tau(lam), *share[1:])
    energy = event.scale**2 * norm.energy * copies
    gamma = gradient_tolerance(problem, lam, energy, 4 * d * (d + 1) / epsilon_out**2)
    mask = Sensitivity(_rounding.ratio_up(2 * gamma, lam), "l2", "2 gamma / l2 (Theorem 3)", unit=privacy.unit)
    output = SeparateOutput(NormNoiseMechanism(L2Norm(d), mask, epsilon_out))
    return ObjectivePerturbationPlan(
        problem=problem,
        privacy=privacy,
        l2=lam,
        noise_name=norm.name,
        noise=NormObjectiveNoise(norm, event, sensitivity),
        copies=copies,
        deviations=event.scale * unit_deviations,
        output=output,
        gradient_tolerance=gamma,
        bound=_bound(problem, lam, energy, d * output.deviation**2, l2 is not None),
        solver=default_solver(problem.loss, dim=d),
    )


def _gaussian(
    problem: LinearModelProblem, privacy: PrivacyParams, kind: str, l2: float | None
) -> ObjectivePerturbationPlan | None:
    """Return the plan of Theorem 4 with (3.3): both noises in one event."""
    loss, copies, epsilon, delta = problem.loss, problem.loss.n_outputs, privacy.epsilon, privacy.delta
    if copies > 1 and loss.curvature_law != CurvatureLaw.SOFTMAX:
        return None
    assert problem.factor is not None
    base, length = np.ones(problem.domain.dim), math.hypot(*centered_lengths(problem.domain)[1]) * MARGIN
    if kind == "weighted_gaussian":
        base, length = gaussian_block_weights(problem.domain, modulo_constants=True)
    deviations = np.sqrt(problem.factor.matrix.power(2).T @ np.square(base))
    slope = 1.0 if copies > 1 else loss.slope_bound  # softmax lengths are in its vertices
    gradient_bound = _rounding.product_up(slope, length)
    if l2 is None:
        tiled = np.tile(deviations, copies)
        lam, exact = gaussian_regularization(problem, gradient_bound, tiled, epsilon, delta)
    else:
        lam, tau, rule = l2, problem.tau(l2), gaussian_rule(loss)
        if max(curvature_charge(loss, tau)) >= 0.999 * epsilon:  # curvature alone uses the budget up
            return None
        exact = calibrate_gaussian(gradient_bound, 0.0, tau, *rule, epsilon, delta)
    rho = OUTPUT_RATIO * gradient_bound / exact.sigma
    event = calibrate_gaussian(gradient_bound, rho, exact.tau, exact.rule, exact.curvature, epsilon, delta)
    energy = copies * float(deviations @ deviations) * event.sigma**2
    gamma = gradient_tolerance(problem, lam, energy, 4 * problem.dim / rho**2)
    deviation = _rounding.ratio_up(2 * gamma, lam * rho * (1 - 1e-15))
    lemma = "distance between two records' gradients in units of the noise (Theorem 4)"
    noise = GaussianObjectiveNoise(base, event, Sensitivity(event.claimed_sensitivity, "l2", lemma), problem.factor)
    return ObjectivePerturbationPlan(
        problem=problem,
        privacy=privacy,
        l2=lam,
        noise_name=kind,
        noise=noise,
        copies=copies,
        deviations=event.sigma * np.tile(deviations, copies),
        output=JointGaussianOutput(noise, deviation),
        gradient_tolerance=gamma,
        bound=_bound(problem, lam, energy, problem.dim * deviation**2, l2 is not None),
        solver=default_solver(loss, dim=problem.dim),
    )


def _bound(problem: LinearModelProblem, l2: float, energy: float, output_energy: float, ridge_is_target: bool) -> float:
    """Return (5.1) plus ``beta/2 E||z||^2``; with `l2` given by the user the ridge is part of the target."""
    shrinkage = 0.0 if ridge_is_target else l2 * problem.radius**2 / 2
    return shrinkage + energy / (2 * problem.n**2 * l2) + output_part(problem, l2, output_energy)


class NoiseShare(NamedTuple):
    """How a pure budget is spent at a given `tau`: what the noise may spend, and the event that certifies it.

    `epsilon` is rounded down; 0 or less: infeasible. `rule`, `curvature` and `rank` are the event's.
    """

    epsilon: float
    rule: str
    curvature: float
    rank: int = 1


def pure_share(
    loss: LinearModelLoss, frobenius: bool, tau: float, budget: float, rank: int | None = None
) -> NoiseShare:
    """Return the largest noise share within a pure `budget`, the epsilon of the exact minimizer; `tau` is rounded up.

    `frobenius` says whether the noise is in the l2 norm of the flat parameters, for which more losses have free
    curvature; `rank` is that of a unit's Hessian, where units are users (None: that of a record).
    """
    q = loss.frobenius_self_concordance if frobenius else loss.self_concordance
    if q is not None and 2 * q * tau * MARGIN**0.5 <= budget:  # Theorem 2: curvature costs nothing
        return NoiseShare(budget, "free", q)
    rank = loss.curvature_rank if rank is None else rank
    if loss.curvature_law == CurvatureLaw.LOGISTIC:
        return NoiseShare(_logistic_share(tau, budget, loss.slope_bound, rank), "logistic", loss.slope_bound, rank)
    trace = loss.curvature_trace  # Theorem 1
    left = _rounding.difference_down(budget, determinant_cost(trace, rank, tau))
    return NoiseShare(left, "determinant", trace, rank)


def _logistic_share(tau: float, budget: float, cap: float, rank: int) -> float:
    """Return the largest noise share by (1.4): the curvature is a(1 - a) at every slope a below the cap."""

    def fits(epsilon: float) -> bool:
        # Also for the two floats below: the scale is rounded, and (1.4) in floats rises to within rounding only.
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
    """Return `_logistic_share` in plain floats, a little above it: the least of what the slopes of a grid leave."""
    bend = tau / rank * cap * (1 - cap)
    at_cap = budget - rank * math.log1p(bend)
    if at_cap * (1 + bend) >= 2 * cap * tau * (2 * cap - 1):
        return at_cap
    left = budget - rank * np.log1p(tau / rank * cap * SLOPES * (1 - cap * SLOPES))
    return float(np.min(left / (0.5 + SLOPES / 2)))


def user_rank(problem: LinearModelProblem) -> int | None:
    """Return the rank of a user's Hessian, who may have any number of records; None where units are records."""
    return problem.dim if problem.grouped else None


def planned_error(
    problem: LinearModelProblem, deviations: FloatArray, output: Callable[[Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return what the regularization keeps small, of `l2` and the noise ``b``: the expected error, or bound (5.1).

    Both may be arrays of shape (k,). The bound is for users, whose plans rank by it. `deviations` (dim,) are those of
    ``b`` in the unit of the noise. `output` gives, for noise in that unit, the output noise's deviation in each
    coordinate over the solver radius. The radius is counted as the smallest that rounding allows: where it is larger,
    it is planned not to matter.
    """
    n, typical, length = problem.n, problem.typical, float(np.linalg.norm(deviations))
    certifiable = np.frompyfunc(problem.certifiable_radius, 2, 1)

    def mask(l2: Any, noise: Any) -> Any:
        return output(noise) * certifiable(l2, LONGEST * length * noise / n)

    def bound(l2: Any, noise: Any) -> Any:
        hidden = output_part(problem, l2, problem.dim * mask(l2, noise) ** 2)
        return l2 * problem.radius**2 / 2 + (length * noise / n) ** 2 / (2 * l2) + hidden

    if typical is None or problem.grouped:
        return bound
    unit_noise = typical.released_noise(np.ones(problem.dim))

    def expected(l2: Any, noise: Any) -> Any:
        kept = typical.shrinkage(l2) + typical.gradient_noise(l2, np.multiply.outer(noise / n, deviations))
        return kept + unit_noise * mask(l2, noise) ** 2

    return expected


def pure_regularization(
    problem: LinearModelProblem, frobenius: bool, deviations: FloatArray, budget: float, output: Callable[[Any], Any]
) -> tuple[float, NoiseShare]:
    """Minimize the planned error over the regularization, with the noise share that each value leaves.

    Not below (5.2), where the bound (5.1) has its minimum if curvature is free. `deviations` are those of ``b`` (dim,)
    at ``epsilon_1 = 1``; `output` as in `planned_error`.
    """
    loss, unit_tau, error = problem.loss, problem.tau(1.0), planned_error(problem, deviations, output)
    q = loss.frobenius_self_concordance if frobenius else loss.self_concordance
    rank = user_rank(problem) or loss.curvature_rank

    def noise(l2: float) -> float:
        tau = unit_tau / l2  # what `pure_share` leaves, in plain floats
        if q is not None and 2 * q * tau <= budget:
            left = budget
        elif loss.curvature_law == CurvatureLaw.LOGISTIC:
            left = _logistic_estimate(tau, budget, loss.slope_bound, rank)
        else:
            left = budget - rank * math.log1p(loss.curvature_trace * tau / rank)
        return 1 / left if left > 0 else math.inf

    ideal = float(np.linalg.norm(deviations)) / (budget * problem.n * problem.radius)
    floor = unit_tau * 2 * q / budget * MARGIN if q is not None else ideal
    lowest = smallest_l2(problem, budget)
    best = least_error(error, noise, lowest, 1e3 * max(ideal, floor, lowest), max(ideal, floor))
    return best, pure_share(loss, frobenius, problem.tau(best), budget, user_rank(problem))


def gaussian_regularization(
    problem: LinearModelProblem, gradient_bound: float, deviations: FloatArray, epsilon: float, delta: float
) -> tuple[float, GaussianObjectivePerturbation]:
    """Return the regularization, and the event of the smallest Gaussian ``b`` that it allows, with ``rho = 0``.

    `deviations` are those of ``b`` (dim,) at ``sigma = 1``.
    """
    unit_tau, (rule, curvature) = problem.tau(1.0), gaussian_rule(problem.loss)
    error = planned_error(problem, deviations, lambda noise: 2 * noise / (OUTPUT_RATIO * gradient_bound))

    def sigma(l2: float) -> float:
        # Infinite where curvature takes too much, else the leading term: about inverse to what curvature leaves.
        charge = curvature_charge(problem.loss, unit_tau / l2)
        return math.inf if max(charge) > epsilon / 2 else flat / (1 - charge[0] / epsilon)

    flat = calibrate_gaussian(gradient_bound, 0.0, 1e-12, rule, curvature, epsilon, delta).sigma
    ideal = flat * float(np.linalg.norm(deviations)) / (problem.n * problem.radius)
    lowest = smallest_l2(problem, epsilon)
    floor = (max(ideal, 2 * curvature * unit_tau / epsilon * MARGIN),) if rule.endswith("_sc") else ()
    best = least_error(error, sigma, max(ideal, lowest), 1e3 * max(ideal, lowest), *floor)
    return best, calibrate_gaussian(gradient_bound, 0.0, problem.tau(best), rule, curvature, epsilon, delta)


def smallest_l2(problem: LinearModelProblem, epsilon: float) -> float:
    """Return the `l2` at which curvature alone costs `epsilon`: ``r log(1 + t tau / r) = epsilon`` solved for it."""
    rank = user_rank(problem) or problem.loss.curvature_rank
    return problem.tau(1.0) * problem.loss.curvature_trace / (rank * math.expm1(min(epsilon / rank, 600.0)))


def gaussian_rule(loss: LinearModelLoss) -> tuple[str, float]:
    """Return which of (3.1), (3.2), (3.4) or, for several outputs, the softmax formula applies, and its curvature."""
    if loss.n_outputs > 1:
        return "softmax", float(loss.n_outputs)
    side = "one_sided" if loss.sides == 1 else "two_sided"
    if loss.self_concordance is not None:
        return f"{side}_sc", loss.self_concordance
    if loss.curvature_law == CurvatureLaw.LOGISTIC:
        return "logistic", loss.slope_bound
    return side, loss.curvature_bound


def curvature_charge(loss: LinearModelLoss, tau: float) -> tuple[float, float]:
    """Return what curvature takes of a Gaussian budget at the steepest slope and at slope 0, with a line between."""
    rule, curvature = gaussian_rule(loss)
    if rule == "logistic":
        return logistic_line(curvature, tau)
    if rule.endswith("_sc"):
        return 0.0, curvature * tau
    cost = determinant_cost(loss.curvature_trace, loss.curvature_rank, tau)
    return cost, cost


def calibrate_gaussian(
    gradient_bound: float, rho: float, tau: float, rule: str, curvature: float, epsilon: float, delta: float
) -> GaussianObjectivePerturbation:
    """Return the event of the smallest sigma whose profile, evaluated there, is at most `delta` at `epsilon`."""

    def event(sigma: float) -> GaussianObjectivePerturbation:
        return GaussianObjectivePerturbation(gradient_bound, sigma, rho, tau, rule, curvature)

    return event(smallest(lambda sigma: event(sigma).delta(epsilon) <= delta, gradient_bound / epsilon))


def least_error(
    error: Callable[[Any, Any], Any], noise: Callable[[float], float], low: float, high: float, *others: float
) -> float:
    """Return the regularization of the smallest error in [low, high], or one of `others` if it does better.

    A logarithmic grid, then a bounded search around its best point. `error` is as from `planned_error`; `noise` of the
    regularization is infinite where curvature takes too much.
    """

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
