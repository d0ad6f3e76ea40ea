r"""Objective perturbation with one parameter, exactly: the density of the minimiser on two neighbouring data sets.

The minimiser w of ``F_D(w) + b w / n`` satisfies ``b = -n F_D'(w)``, so its density is that of b there times
``n F_D''(w)`` (docs, Objective perturbation, Theorem 1). Nothing is sampled. The noise that hides the solver's
inaccuracy comes on top in the release and is left out here, so for pure noise the bound is on the minimiser's share of
epsilon.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm.objective_perturbation import ObjectivePerturbationPlan
from dpconvex.losses.base import SmoothLoss
from dpconvex.mechanisms import GaussianObjectiveNoise, NormObjectiveNoise
from dpconvex.privacy.profiles import epsilon_of
from dpconvex.problems import Records
from dpconvex.problems.data.users import UserGroups

_OFFSETS = np.array([-1e-6, -1e-9, 0.0, 1e-9, 1e-6])
_QUADRATURE = 1e-3
"""Relative slack of integrals."""


def minimiser_epsilon(plan: ObjectivePerturbationPlan, first: tuple[Any, ...], second: tuple[Any, ...]) -> float:
    """Return the epsilon, at the plan's delta, that the exact minimiser of a one-parameter plan needs.

    Parameters
    ----------
    plan : ObjectivePerturbationPlan
        With ``dim = 1``.
    first, second : tuple
        ``(X, y)`` or, for users, ``(X, y, groups)``.
    """
    noise = plan.noise
    if isinstance(noise, NormObjectiveNoise):
        points = _points(plan, 0.0)
        rate = float(noise.norm(np.ones(1))) / noise.event.scale
        laws = [_log_density(plan, data, points, lambda b: -rate * np.abs(b)) for data in (first, second)]
        return float(np.abs(laws[0] - laws[1]).max())
    assert isinstance(noise, GaussianObjectiveNoise)
    sigma = noise.event.sigma * float(noise.standard_deviations[0])
    points = _points(plan, sigma)
    constant = np.log(sigma * np.sqrt(2 * np.pi))
    laws = [_log_density(plan, data, points, lambda b: -((b / sigma) ** 2) / 2 - constant) for data in (first, second)]

    def delta_at(epsilon: float) -> float:
        with np.errstate(over="ignore"):  # infinity is never reached from below, which is what it should say
            needed = [np.maximum(np.exp(a) - np.exp(b + epsilon), 0.0) for a, b in (laws, laws[::-1])]
        return max(float(np.trapezoid(part, points)) for part in needed) * (1 - _QUADRATURE)

    return epsilon_of(delta_at, plan.privacy.delta)


def _points(plan: ObjectivePerturbationPlan, sigma: float) -> FloatArray:
    """Where densities are compared: around every kink of the loss, and far out; evenly for integrals."""
    bound, n = plan.problem.domain.l2, plan.problem.n
    if sigma:
        return np.linspace(-1, 1, 60_001) * (8 * sigma + 4 * plan.problem.loss.slope_bound * bound) / (n * plan.l2)
    kinks = (np.array([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0])[:, None] + _OFFSETS).ravel()
    margins = np.concatenate([kinks, -kinks, np.linspace(-3, 3, 601), np.linspace(-60, 60, 241)])
    return np.unique(margins) / bound


def _log_density(
    plan: ObjectivePerturbationPlan, data: tuple[Any, ...], points: FloatArray, log_noise: Any
) -> FloatArray:
    X, y, *rest = data
    groups: UserGroups | None = rest[0] if rest else None
    problem = plan.problem
    loss, n = problem.loss, problem.n
    assert isinstance(loss, SmoothLoss)  # objective perturbation plans no other
    weights = problem.weights(groups)
    counts = np.ones(len(y)) if weights is None else n * weights
    targets = loss.clip_targets(y)
    b, curvature = n * plan.l2 * points, np.full(len(points), n * plan.l2)
    for block in Records.clipped(X, problem.domain).blocks():
        x = block.predict(np.ones((1, 1)))[:, 0]
        labels, each = targets[block.rows], counts[block.rows]
        z = np.outer(points, x)
        tiled = np.tile(labels, len(points))
        slopes = loss.derivative(z.ravel(), tiled).reshape(z.shape)
        bends = loss.hessian_weights(z.ravel(), tiled).reshape(z.shape)
        b = b + slopes @ (each * x)
        curvature = curvature + bends @ (each * x * x)
    return log_noise(-b) + np.log(curvature)
