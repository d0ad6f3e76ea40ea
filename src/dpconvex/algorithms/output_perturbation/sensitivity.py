r"""How far the exact minimiser moves when one record is replaced: average and tilted losses.

Average (Proposition 2.2, data-dependent part only)
    ``2 L / (l2 n)``.
Tilted (Lemma 5.2, with the repaired proof)
    Let W be a closed convex set that holds the minimisers ``w, w'`` of ``J = F_tau + l2/2 |.|^2`` on two data sets that
    differ in record n, either because the minimisation is over W or because W is a ball that holds every minimiser.
    With ``C = exp(tau D)``, D the largest difference of two records' losses at the same point of W,

        ``|w - w'| <= (2 L / l2) C / (C + n - 1)``.

    Proof. There are subgradients ``g'_i`` of the losses at ``w'`` with ``<sum_i v'_i g'_i + l2 w', u - w'> >= 0`` for
    all u in W; take the same ``g_i = g'_i`` for i < n, any ``g_n``, and the weights v of the first data set, all at
    ``w'``. Strong convexity of J over W gives ``l2 |w - w'| <= |sum_i v_i g_i - sum_i v'_i g'_i|``. The weights differ
    by one term of their normalising sums, so all ``v_i - v'_i``, i < n, have the same sign and sum to
    ``v'_n - v_n``. Hence the right side is at most ``L (|v_n - v'_n| + v_n + v'_n) = 2 L max(v_n, v'_n)``, and
    ``v_n = 1 / sum_j exp(tau (loss_j - loss_n)) <= 1 / (1 + (n - 1) / C)``, likewise ``v'_n``.
Any objective
    Points of a ball of radius R are at most 2 R apart: `Schedule.reach` takes the smaller bound.
"""

from __future__ import annotations

import math

from dpconvex import _rounding
from dpconvex.problems.linear_model import LinearModelProblem


def log_factor(problem: LinearModelProblem, radius: float) -> float:
    """Return ``log C``, rounded up: tilt times the range of the loss over parameters of norm at most `radius`."""
    span = problem.loss_range(radius)
    return math.inf if math.isinf(span) else _rounding.product_up(problem.tilt, span)


def largest_weight(problem: LinearModelProblem, radius: float) -> float:
    """Return ``C / (C + n - 1)``, rounded up: the largest weight of one record; ``1/n`` without a tilt."""
    others = (problem.n - 1) * math.exp(-log_factor(problem, radius)) * (1 - 1e-13)
    return min(1.0, _rounding.widen_up(1 / (1 + others)))


def minimiser_sensitivity(problem: LinearModelProblem, l2: float, radius: float) -> float:
    """Return the bound above for minimisers of norm at most `radius`, rounded up.

    Parameters
    ----------
    problem : LinearModelProblem
        Loss, domain, n and tilt.
    l2 : float
        Regularisation.
    radius : float
        Of a ball that holds the minimisers; not used without a tilt.
    """
    weight = largest_weight(problem, radius) if problem.tilt else 1 / problem.n
    return 2 * problem.lipschitz / l2 * weight * (1 + 1e-14)
