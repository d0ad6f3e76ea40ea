"""The public grid of a ball, and what it costs to select from it."""

from __future__ import annotations

import math

import numpy as np

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.linear.regularized_risk import ROUNDING

MAX_DIM = 2
MAX_POINTS = 2**14
"""Most grid points."""
MAX_WORK = 2**31
"""Most losses evaluated, records times grid points: some 20 seconds."""


def applies(problem: LinearModelProblem) -> bool:
    """Return whether the mechanism's lemma and its arithmetic hold for a problem.

    The loss needs one prediction, a bounded slope and bounded targets: a target of 1e20 would absorb every other
    record's loss in floating point, which moves scores by far more than the sensitivity.
    """
    bounded = math.isfinite(problem.lipschitz) and math.isfinite(problem.loss.value_at_zero)
    return bounded and problem.loss.n_outputs == 1 and problem.dim <= MAX_DIM


def largest_side(problem: LinearModelProblem) -> int:
    """Return the most grid points along an axis that memory and time allow."""
    records = problem.n * (problem.records_per_user or 1)  # of users: a public guess, only time depends on it
    return max(3, int(min(MAX_POINTS, MAX_WORK / records) ** (1 / problem.dim)))


def ball_grid(dim: int, side: int, radius: float) -> FloatArray:
    """Return grid points of the centred ball, shape (N, dim): `side` (odd) along each axis, 0 among them.

    Rounding coordinates towards 0 stays in the ball, so every point of it is within ``spacing * sqrt(dim)`` of one.
    """
    axis = np.linspace(-1, 1, side) * radius
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    return points[np.linalg.norm(points, axis=1) <= radius * (1 + 1e-12)]


def typical_deviation(problem: LinearModelProblem, choice: ReportNoisyMax, radius: float, l2: float) -> FloatArray:
    """Return the spread (dim,) of ``exp(-epsilon J / (2 sensitivity))`` at half the loss's largest curvature.

    Approximate, and never beyond the ball. Curvatures above ``L / R`` cannot last over the problem's radius, so kinks
    count as that much.
    """
    curvature = min(problem.smoothness, problem.lipschitz / problem.radius) / 2 + l2
    sharpness = choice.epsilon / (2 * choice.sensitivity.value) * curvature
    return np.full(problem.dim, min(1 / math.sqrt(sharpness), radius))


def expected_excess(
    problem: LinearModelProblem, choice: ReportNoisyMax, side: int, radius: float, l2: float = 0.0
) -> float | None:
    """Return the excess on typical data: of a Gibbs law with a quadratic score, of the grid's spacing, of the ridge.

    Parameters
    ----------
    problem : LinearModelProblem
    choice : ReportNoisyMax
        Selects a grid point.
    side, radius : int, float
        Of the grid.
    l2 : float
        Ridge weight.
    """
    typical = problem.typical
    if typical is None:
        return None
    spacing = 2 * radius / (side - 1)
    rounding = typical.released_noise(np.full(problem.dim, spacing / math.sqrt(12)))
    return problem.dim * choice.sensitivity.value / choice.epsilon + rounding + typical.shrinkage(l2)


def score_sensitivity(problem: LinearModelProblem, radius: float, size: float) -> float:
    """Return how far the mean loss relative to a ball's centre moves with one unit: ``2 L radius / n``, rounded up.

    Parameters
    ----------
    problem : LinearModelProblem
        Loss, domain and n.
    radius : float
        Of the ball.
    size : float
        Largest value that occurs in computing a score; the rounding of both data sets is charged.
    """
    reach = _rounding.ratio_up(_rounding.product_up(2.0, problem.lipschitz, radius), problem.n)
    return _rounding.sum_up((reach, 2 * ROUNDING * size))
