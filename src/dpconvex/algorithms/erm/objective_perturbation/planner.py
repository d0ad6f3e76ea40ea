"""From public facts to plans of objective perturbation: one for every noise law that is asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex.algorithms.base import check_relation, check_unit, in_units, require_average
from dpconvex.algorithms.erm.objective_perturbation import calibration
from dpconvex.algorithms.erm.objective_perturbation.output import JointGaussianOutput, SeparateOutput
from dpconvex.algorithms.erm.objective_perturbation.plan import ObjectivePerturbationPlan, gradient_tolerance
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm, L2Norm, NoiseNorm, gaussian_block_weights
from dpconvex.losses import CurvatureLaw
from dpconvex.mechanisms import GaussianObjectiveNoise, NormNoiseMechanism, NormObjectiveNoise
from dpconvex.privacy import (
    GaussianObjectivePerturbation,
    PrivacyParams,
    PureObjectivePerturbation,
    Sensitivity,
)
from dpconvex.problems.data.domain import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.solvers import default_solver

OUTPUT_SHARES = (0.01, 0.03, 0.1, 0.3)
"""Shares of a pure budget for the output noise, tried in turn while that noise matters (ours)."""

NORMS: dict[str, Callable[[DataDomain], NoiseNorm]] = {
    "grouped": GroupedNorm.for_domain,
    "weighted_l1": GroupedNorm.weighted_l1,
    "l1": GroupedNorm.l1,
    "block_max": GroupedNorm.block_max,
}
"""Norms of one output's noise, by name; ``"l2"`` is the norm of all outputs together."""

GAUSSIANS = ("gaussian", "weighted_gaussian")


@recorded("objective_perturbation")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, *, l2: float | None = None, noise: str = "auto"
) -> tuple[ObjectivePerturbationPlan, ...]:
    """Return the valid plans, one for each kind of noise.

    Parameters
    ----------
    problem : LinearModelProblem
        Public facts; the loss must be smooth with a bounded slope.
    privacy : PrivacyParams
        The promise.
    l2 : float, optional
        Regularisation; default: of the smallest expected error (for users: bound), from public facts.
    noise : str
        ``"auto"`` (all that apply), a name in `NORMS`, ``"l2"``, ``"gaussian"`` or ``"weighted_gaussian"``.
    """
    check_relation(privacy, users=True)
    check_unit(problem, privacy)
    require_average(problem)
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
    frobenius = kind == "l2"
    k = problem.loss.n_outputs
    if frobenius:
        norm: NoiseNorm = L2Norm(problem.dim)
        outputs, reach = 1, _rounding.product_up(2.0, problem.lipschitz)
    else:
        norm = _norm(kind, problem.domain)
        outputs, reach = k, _rounding.product_up(2.0, problem.loss.slope_bound_l1, norm.record_bound(problem.domain))
    lemma = "gradients of two records differ by at most 2 A X_K (docs, Objective perturbation, (1.1))"
    sensitivity = Sensitivity(reach, norm.name, in_units(lemma, privacy), unit=privacy.unit)
    best: ObjectivePerturbationPlan | None = None
    for output_share in OUTPUT_SHARES:
        plan = _pure_split(problem, privacy, output_share, norm, outputs, sensitivity, l2)
        if plan is None or (best is not None and plan.planned_error >= best.planned_error):
            break
        best = plan
        if plan.output_excess <= 0.01 * plan.planned_error:
            break
    return best


@lru_cache(maxsize=64)  # surrogates of a loss have the same domain
def _norm(kind: str, domain: DataDomain) -> NoiseNorm:
    return NORMS[kind](domain)


def _pure_split(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    output_share: float,
    norm: NoiseNorm,
    outputs: int,
    sensitivity: Sensitivity,
    l2: float | None,
) -> ObjectivePerturbationPlan | None:
    """Theorem 3, pure: ``epsilon = epsilon_obj + epsilon_out``."""
    frobenius = norm.dim == problem.dim and norm.name == "l2"
    epsilon_out = _rounding.product_down(output_share, privacy.epsilon)
    budget = _rounding.difference_down(privacy.epsilon, epsilon_out)
    deviations = sensitivity.value * np.sqrt(np.tile(norm.coordinate_variances, outputs))
    if l2 is None:
        per_radius = 2 * math.sqrt(problem.dim + 1) / epsilon_out
        lam, share = calibration.pure_regularization(problem, frobenius, deviations, budget, lambda noise: per_radius)
    else:
        lam, share = (
            l2,
            calibration.pure_share(problem.loss, frobenius, problem.tau(l2), budget, calibration.user_rank(problem)),
        )
    if share.epsilon <= 0:
        return None
    event = PureObjectivePerturbation(
        sensitivity=sensitivity.value,
        scale=_rounding.ratio_up(sensitivity.value, share.epsilon),
        tau=problem.tau(lam),
        rule=share.rule,
        curvature=share.curvature,
        rank=share.rank,
    )
    energy = event.scale**2 * norm.energy * outputs
    d = problem.dim
    gamma = gradient_tolerance(problem, lam, energy, 4 * d * (d + 1) / epsilon_out**2)
    mask = Sensitivity(_rounding.ratio_up(2 * gamma, lam), "l2", "2 gamma / l2 (Theorem 3)", unit=privacy.unit)
    mechanism = NormNoiseMechanism(L2Norm(d), mask, epsilon_out)
    output = SeparateOutput(mechanism)
    return ObjectivePerturbationPlan(
        problem=problem,
        privacy=privacy,
        l2=lam,
        noise_name=norm.name,
        noise=NormObjectiveNoise(norm, event, sensitivity),
        copies=outputs,
        deviations=event.scale * np.sqrt(np.tile(norm.coordinate_variances, outputs)),
        output=output,
        gradient_tolerance=gamma,
        bound=_bound(problem, lam, energy, d * output.deviation**2, l2 is not None),
        solver=default_solver(problem.loss, dim=problem.dim),
    )


def _gaussian(
    problem: LinearModelProblem, privacy: PrivacyParams, kind: str, l2: float | None
) -> ObjectivePerturbationPlan | None:
    """Theorem 4 with (3.3): both noises in one event."""
    if problem.loss.n_outputs > 1 and problem.loss.curvature_law != CurvatureLaw.SOFTMAX:
        return None
    deviations, length = np.ones(problem.domain.dim), problem.domain.l2
    if kind == "weighted_gaussian":
        deviations, length = gaussian_block_weights(problem.domain)
    outputs = problem.loss.n_outputs
    slope = 1.0 if outputs > 1 else problem.loss.slope_bound  # softmax lengths are in its vertices
    gradient_bound = _rounding.product_up(slope, length)
    unit_energy = outputs * float(deviations @ deviations)
    if l2 is None:
        lam, exact = calibration.gaussian_regularization(
            problem, gradient_bound, np.tile(deviations, outputs), privacy.epsilon, privacy.delta
        )
    else:
        lam, rule = l2, calibration.gaussian_rule(problem.loss)
        if calibration.overspent(problem.loss, problem.tau(l2), privacy.epsilon):
            return None
        exact = calibration.calibrate_gaussian(
            gradient_bound, 0.0, problem.tau(l2), *rule, privacy.epsilon, privacy.delta
        )
    rho = calibration.OUTPUT_RATIO * gradient_bound / exact.sigma
    event = calibration.calibrate_gaussian(
        gradient_bound, rho, exact.tau, exact.rule, exact.curvature, privacy.epsilon, privacy.delta
    )
    energy = unit_energy * event.sigma**2
    gamma = gradient_tolerance(problem, lam, energy, 4 * problem.dim / rho**2)
    deviation = _rounding.ratio_up(2 * gamma, lam * rho * (1 - 1e-15))
    noise = GaussianObjectiveNoise(deviations, event, _gaussian_sensitivity(event))
    return ObjectivePerturbationPlan(
        problem=problem,
        privacy=privacy,
        l2=lam,
        noise_name=kind,
        noise=noise,
        copies=outputs,
        deviations=event.sigma * np.tile(deviations, outputs),
        output=JointGaussianOutput(noise, deviation),
        gradient_tolerance=gamma,
        bound=_bound(problem, lam, energy, problem.dim * deviation**2, l2 is not None),
        solver=default_solver(problem.loss, dim=problem.dim),
    )


def _gaussian_sensitivity(event: GaussianObjectivePerturbation) -> Sensitivity:
    lemma = "distance between two records' gradients in units of the noise (Theorem 4)"
    return Sensitivity(event.claimed_sensitivity, "l2", lemma)


def _bound(problem: LinearModelProblem, l2: float, energy: float, output_energy: float, ridge_is_target: bool) -> float:
    """(5.1) plus ``beta/2 E||z||^2``; with `l2` given by the user the ridge is part of the target."""
    shrinkage = 0.0 if ridge_is_target else l2 * problem.radius**2 / 2
    return shrinkage + energy / (2 * problem.n**2 * l2) + calibration.output_part(problem, l2, output_energy)
