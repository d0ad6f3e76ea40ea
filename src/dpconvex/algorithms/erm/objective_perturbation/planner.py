"""Plans of objective perturbation from public facts, one plan for each requested noise law.

Theorem and formula numbers are those of the docs, Objective perturbation.

Notation: ``tau = X_2^2/(n l2)``; ``epsilon_1`` is the part of the budget that the noise ``b`` spends; ``E`` is its
energy ``E||b||_2^2``; R is the comparator norm. The excess mean loss is at most ``l2 R^2/2 + E/(2 n^2 l2)`` (5.1).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpconvex import _rounding, _validate, geometry
from dpconvex._types import final_dataclass
from dpconvex.algorithms import check_average, in_units, recorded
from dpconvex.algorithms.erm.objective_perturbation import regularization as rules
from dpconvex.algorithms.erm.objective_perturbation.plan import (
    JointGaussianOutput,
    ObjectivePerturbationPlan,
    SeparateOutput,
    gradient_tolerance,
)
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import CurvatureLaw
from dpconvex.mechanisms import GaussianMechanism, GaussianObjectiveNoise, NormNoiseMechanism, NormObjectiveNoise
from dpconvex.privacy import AddedObjectivePerturbation, PrivacyParams, PureObjectivePerturbation, Sensitivity
from dpconvex.problems import DataDomain, Factor, LinearModelProblem
from dpconvex.solvers import default_solver

Costs = tuple[float, ...] | None
"""Relative cost in expected error of one unit of noise energy, for each block; None: all costs are equal."""
NORMS: dict[str, Callable[[DataDomain, Costs], geometry.NoiseNorm]] = {
    "grouped": geometry.GroupedNorm.for_domain,
    "weighted_l1": geometry.GroupedNorm.weighted_l1,
    "l1": lambda domain, costs: geometry.GroupedNorm.l1(domain),
    "block_max": lambda domain, costs: geometry.GroupedNorm.block_max(domain),
}  #: Norms of one output's noise, by name. The noise ``"l2"`` is not here: its norm is that of all outputs together.
GAUSSIANS = ("gaussian", "weighted_gaussian")
OUTPUT_SHARES, HARMLESS = (0.01, 0.03, 0.1, 0.3), 0.01
"""Shares of a pure budget for the output noise, tried in turn until it causes at most a share HARMLESS of the error."""


@recorded("objective_perturbation")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams,
    *, l2: float | None = None, noise: str = "auto", most_rows: int | None = None,
) -> tuple[ObjectivePerturbationPlan, ...]:  # fmt: skip
    """Return the valid plans, one for each kind of noise; the loss must be smooth with a bounded slope.

    By default `l2` is the ridge weight of the smallest expected error, from public facts. `noise` is ``"auto"``
    (all that apply), a name in `NORMS`, ``"l2"``, ``"gaussian"`` or ``"weighted_gaussian"``. `most_rows` is the most
    distinct records of a user that are kept for Gaussian noise; None: users get no Gaussian noise.
    """
    check_average(problem, privacy, ObjectivePerturbationPlan.neighbors, factored=True)
    options = ("auto", *NORMS, "l2", *GAUSSIANS)
    _validate.choice("noise", noise, options)
    _validate.optional(_validate.real, {"l2": l2}, above=0.0)
    if math.isinf(problem.lipschitz) or math.isinf(problem.smoothness):
        remedy = "Use algorithm='output_perturbation'"
        raise InvalidParameterError("loss", problem.loss.name, "must be smooth with a bounded slope", remedy)
    check_noise(problem, privacy, noise, most_rows)
    if problem.factor is None:
        problem = replace(problem, factor=coordinates(problem.domain, plain=l2 is not None))
    kinds = [kind for kind in options[1:] if noise in ("auto", kind)]
    plans = [_pure(problem, privacy, kind, l2) for kind in kinds if kind not in GAUSSIANS]
    if not privacy.pure and not problem.private_n and problem.grouped == (most_rows is not None):
        plans += [gaussian(problem, privacy, kind, l2, rows=most_rows) for kind in kinds if kind in GAUSSIANS]
    if not (found := tuple(p for p in plans if p is not None)):
        raise InvalidParameterError("l2", l2, "is too small for this epsilon", "Leave l2 out, or raise it")
    return found


def check_noise(problem: LinearModelProblem, privacy: PrivacyParams, noise: str, most_rows: int | None = None) -> None:
    """Raise `InvalidParameterError` if the requested Gaussian noise has no proof, or a cap on rows is for records."""
    if most_rows is not None:
        _validate.integer("most_rows", most_rows, at_least=1)
        if not problem.grouped:
            raise InvalidParameterError("most_rows", most_rows, "is for users", "Protect users, or leave it out")
    if noise in GAUSSIANS and privacy.pure:
        raise InvalidParameterError("noise", noise, "needs delta > 0", "Give delta, or use a pure noise")
    if noise in GAUSSIANS and problem.private_n:
        what = "protects replaced units only"
        raise InvalidParameterError("noise", noise, what, "Use a pure noise, or algorithm='noisy_gradient'")
    if noise in GAUSSIANS and problem.grouped and (most_rows is None or problem.loss.n_outputs > 1):
        what = "needs a cap on users' distinct rows and, for users, a loss of one output"
        raise InvalidParameterError("noise", noise, what, "Give most_rows, or use a pure noise")


def _pure(
    problem: LinearModelProblem, privacy: PrivacyParams, kind: str, l2: float | None
) -> ObjectivePerturbationPlan | None:
    """Return the plan with the best split of a pure budget by expected error; None if curvature uses up the budget."""
    assert problem.factor is not None
    pulls = problem.differing
    if kind == "l2":
        norm: geometry.NoiseLaw = geometry.L2Norm(problem.dim)
        copies, reach = 1, _rounding.product_up(float(pulls), problem.lipschitz)
    else:
        base, copies = _norm(kind, problem.domain, noise_costs(problem, privacy)), problem.loss.n_outputs
        norm = geometry.FactoredNoise(base, problem.factor)
        reach = _rounding.product_up(float(pulls), problem.loss.slope_bound_l1, base.record_bound(problem.domain))
    lemma = "gradients of two records differ by at most 2 A X_K (docs, Objective perturbation, (1.1))"
    if pulls == 1:
        lemma = "the gradient of a record is at most A X_K (docs, Objective perturbation, Added or removed units)"
    sensitivity = Sensitivity(reach, norm.name, in_units(lemma, privacy), privacy.neighboring, privacy.unit)
    best: ObjectivePerturbationPlan | None = None
    for share in OUTPUT_SHARES:
        plan = _pure_split(problem, privacy, share, norm, copies, sensitivity, l2)
        if plan is None or (best is not None and plan.expected >= best.expected):
            break
        best = plan
        if plan.output_excess <= HARMLESS * plan.expected:
            break
    return best


@final_dataclass
class Shares:
    """Relative prior variances of the parts of a prediction (`benchmarks/shares.py`; docs, Additive models)."""

    category: float = 1.0  #: of a category with three levels or more
    number: float = 1.0  #: of a number, or a category with two levels
    ball: float = 0.5  #: numbers that are bounded together count as their number to this power
    #: Of the constant, as a share of the sum of all others; but 1 at least, and at most `constant_most`.
    constant: float = 0.25
    constant_most: float = 4.0

    def of(self, domain: DataDomain) -> list[float]:
        """Return the shares of all blocks, which add up to 1; each column of a box has the share of its block."""
        balls = [block.size**self.ball if block.norm == "l2" else 1.0 for block in domain.blocks]
        many = [block.categorical and block.size > 2 for block in domain.blocks]
        found = [self.category if each else self.number * ball for each, ball in zip(many, balls, strict=True)]
        counts = [block.size if block.norm == "linf" else 1 for block in domain.all_blocks]
        if domain.intercept:
            others = math.fsum(share * count for share, count in zip(found, counts[:-1], strict=True))
            found.append(max(1.0, min(self.constant * others, self.constant_most)))
        total = math.fsum(share * count for share, count in zip(found, counts, strict=True))
        return [share / total for share in found]


SHARES = Shares()


@lru_cache(maxsize=64)
def coordinates(domain: DataDomain, plain: bool) -> Factor:
    """Return contrasts, scaled to comparable prior variances of blocks; `plain`: unscaled, as a given ridge means."""
    return Factor.contrasts(domain) if plain else Factor.of(domain, SHARES.of(domain), lambda block: None)


@lru_cache(maxsize=64)  # surrogates of a loss have the same domain
def _norm(kind: str, domain: DataDomain, costs: Costs) -> geometry.NoiseNorm:
    return NORMS[kind](domain, costs)


def noise_costs(problem: LinearModelProblem, privacy: PrivacyParams) -> Costs:
    """Return approximate `Costs` of noise by block; they choose among noise laws."""
    factor, typical = problem.factor, problem.typical
    if typical is None or factor is None:
        return None
    l2 = problem.tau(1.0) * 3 / min(privacy.epsilon, rules.LARGEST)  # about the ridge of plans
    costs = typical.noise_costs(l2) * factor.mean_squares / np.maximum(geometry.centered_lengths(problem.domain)[0], 1)
    return tuple((costs / costs.max()).tolist())


def _pure_split(
    problem: LinearModelProblem, privacy: PrivacyParams, output_share: float,
    norm: geometry.NoiseLaw, copies: int, sensitivity: Sensitivity, l2: float | None,
) -> ObjectivePerturbationPlan | None:  # fmt: skip
    """Return the plan of Theorem 3, pure: ``epsilon = epsilon_obj + epsilon_out``."""
    d, frobenius = problem.dim, norm.name == "l2" and norm.dim == problem.dim  # one norm of all outputs together
    epsilon_out = _rounding.product_down(output_share, privacy.epsilon)
    budget = _rounding.difference_down(privacy.epsilon, epsilon_out)
    unit_deviations = np.sqrt(np.tile(norm.coordinate_variances, copies))
    if l2 is None:
        deviations, per_radius = sensitivity.value * unit_deviations, 2 * math.sqrt(d + 1) / epsilon_out
        lam, share = rules.pure_regularization(problem, frobenius, deviations, budget, lambda noise: per_radius)
    else:
        rank, pulls = rules.user_rank(problem), problem.differing
        lam, share = l2, rules.pure_share(problem.loss, frobenius, problem.tau(l2), budget, rank, pulls)
    if share.epsilon <= 0:
        return None
    scale = _rounding.ratio_up(sensitivity.value, share.epsilon)
    kind = AddedObjectivePerturbation if problem.private_n else PureObjectivePerturbation
    event = kind(sensitivity.value, scale, problem.tau(lam), *share[1:])
    energy = event.scale**2 * norm.energy * copies
    gamma = gradient_tolerance(problem, lam, energy, 4 * d * (d + 1) / epsilon_out**2)
    relation = privacy.neighboring, privacy.unit
    mask = Sensitivity(_rounding.ratio_up(2 * gamma, lam), "l2", "2 gamma / l2 (Theorem 3)", *relation)
    output = SeparateOutput(NormNoiseMechanism(geometry.L2Norm(d), mask, epsilon_out))
    law = {"noise_name": norm.name, "noise": NormObjectiveNoise(norm, event, sensitivity), "copies": copies}
    deviations = event.scale * unit_deviations
    return _built(problem, privacy, lam, gamma, energy, output, l2 is not None, deviations=deviations, **law)


def gaussian(
    problem: LinearModelProblem, privacy: PrivacyParams, kind: str, l2: float | None, share: float = 0.0,
    curvature: Callable[[float], GaussianMechanism] | None = None, rows: int | None = None,
) -> ObjectivePerturbationPlan | None:  # fmt: skip
    """Return the plan of Theorem 4 with (3.3): one event covers both noises and, with a `share`, a curvature (3.4t).

    For users with at most `rows` distinct records each, it is the plan of Theorem U4.
    """
    loss, copies, epsilon, delta = problem.loss, problem.loss.n_outputs, privacy.epsilon, privacy.delta
    if copies > 1 and (loss.curvature_law != CurvatureLaw.SOFTMAX or rows is not None):
        return None
    users = None if rows is None else (rows, problem.dim)
    assert problem.factor is not None
    base, length = np.ones(problem.domain.dim), math.hypot(*geometry.centered_lengths(problem.domain)[1]) * rules.MARGIN
    if kind == "weighted_gaussian":
        costs = noise_costs(problem, privacy)
        base, length = geometry.gaussian_block_weights(problem.domain, costs, modulo_constants=True)
    deviations = np.sqrt(problem.factor.matrix.power(2).T @ np.square(base))
    slope = loss.slope_bound_l1 / 2 if copies > 1 else loss.slope_bound  # A of softmax slopes A (p - e_y)
    gradient_bound = _rounding.product_up(slope, length)
    if l2 is None:
        tiled = np.tile(deviations, copies)
        lam, exact = rules.gaussian_regularization(problem, gradient_bound, tiled, epsilon, delta, users)
    else:
        lam, tau, rule = l2, problem.tau(l2), rules.gaussian_rule(loss, users)
        if share and loss.curvature_law == CurvatureLaw.LOGISTIC:
            rule = "logistic", loss.slope_bound  # without a cap, (1.2) at its own tangent, and less elsewhere
        if max(rules.curvature_charge(loss, tau, users)) >= 0.999 * epsilon:  # curvature alone uses the budget up
            return None
        exact = rules.calibrate_gaussian(gradient_bound, 0.0, tau, *rule, epsilon, delta, share, users)
    rho, price = rules.OUTPUT_RATIO * gradient_bound / exact.sigma, (epsilon, delta, share, users)
    event = rules.calibrate_gaussian(gradient_bound, rho, exact.tau, exact.rule, exact.curvature, *price)
    energy = copies * float(deviations @ deviations) * event.sigma**2
    gamma = gradient_tolerance(problem, lam, energy, 4 * problem.dim / rho**2)
    deviation = _rounding.ratio_up(2 * gamma, lam * rho * (1 - 1e-15))
    lemma = in_units("distance between two records' gradients in units of the noise (Theorem 4)", privacy)
    seen = None if curvature is None else curvature(event.curvature_mu)
    lemma += "" if seen is None else f"; beside it a curvature: {seen.sensitivity.lemma}"
    moved = Sensitivity(event.claimed_sensitivity, "l2", lemma, unit=privacy.unit)
    noise = GaussianObjectiveNoise(base, event, moved, problem.factor, seen)
    law = {"noise_name": kind, "noise": noise, "copies": copies, "most_rows": rows}
    output, tiled = JointGaussianOutput(noise, deviation), event.sigma * np.tile(deviations, copies)
    return _built(problem, privacy, lam, gamma, energy, output, l2 is not None, deviations=tiled, **law)


def _built(
    problem: LinearModelProblem, privacy: PrivacyParams, l2: float, gamma: float,
    energy: float, output: SeparateOutput | JointGaussianOutput, given: bool, **law: Any,
) -> ObjectivePerturbationPlan:  # fmt: skip
    """Return the plan; its bound is (5.1) plus ``beta/2 E||z||^2``, less the ridge's part if the ridge was `given`."""
    shrinkage = 0.0 if given else l2 * problem.ridge_radius**2 / 2
    hidden = (problem.smoothness + l2) / 2 * (problem.dim * output.deviation**2)
    solver = default_solver(problem.loss, dim=problem.dim)
    facts: dict[str, Any] = {"problem": problem, "privacy": privacy, "l2": l2, "output": output, "solver": solver}
    bound = shrinkage + energy / (2 * problem.n**2 * l2) + hidden
    return ObjectivePerturbationPlan(**facts, gradient_tolerance=gamma, bound=bound, **law)
