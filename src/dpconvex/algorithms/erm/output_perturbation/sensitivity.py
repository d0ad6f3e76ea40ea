r"""How far the exact minimiser moves when one record is replaced: averages, tilted losses, anything.

Average (Proposition 2.2, data-dependent part only)
    ``K / (l2 n)``, K the largest distance of two records' gradients at the same parameters (`Problem.contrast`): 2L in
    general, and with ``L = A X_2`` also for losses under attack (docs, Adversarial training).
Tilted (Lemma 5.2, with the repaired proof)
    Let W be a closed convex set that holds the minimisers ``w, w'`` of ``J = F_tau + l2/2 |.|^2`` on two data sets that
    differ in record n, either because the minimisation is over W or because W is a ball that holds every minimiser.
    With ``C = exp(tau D)``, D the largest difference of two records' losses at the same point of W,

        ``|w - w'| <= (K / l2) C / (C + n - 1)``.

    Proof. There are subgradients ``g'_i`` of the losses at ``w'`` with ``<sum_i v'_i g'_i + l2 w', u - w'> >= 0`` for
    all u in W; take the same ``g_i = g'_i`` for i < n, any ``g_n``, and the weights v of the first data set, all at
    ``w'``. Strong convexity of J over W gives ``l2 |w - w'| <= |sum_i v_i g_i - sum_i v'_i g'_i|``. The weights differ
    by one term of their normalising sums, so all ``v_i - v'_i``, i < n, have the same sign and sum to
    ``v'_n - v_n``. If ``v_n >= v'_n`` the difference is thus ``v_n (g_n - a weighted mean of the others and g'_n)``, of
    length at most ``K v_n``, else likewise with ``v'_n``; and
    ``v_n = 1 / sum_j exp(tau (loss_j - loss_n)) <= 1 / (1 + (n - 1) / C)``, likewise ``v'_n``.
Any objective
    If every ``F(., X)`` is L-Lipschitz where the minimisers are, the difference of two of them is 2L-Lipschitz, and
    minimisers are at most ``2 L / l2`` apart: the weight of one record may be 1. With no assumption at all, points of a
    ball of radius R are at most 2 R apart: `Schedule.reach` takes the smaller bound.
"""

from __future__ import annotations

import math

from dpconvex import _rounding
from dpconvex.problems.base import Problem


def log_factor(problem: Problem, radius: float) -> float:
    """Return ``log C``, rounded up: the largest ratio of two weights over parameters of norm at most `radius`."""
    return problem.log_weight_ratio(radius)


def largest_weight(problem: Problem, radius: float) -> float:
    """Return ``C / (C + n - 1)``, rounded up: the largest weight of one record; ``1/n`` for an average."""
    if problem.aggregation == "average":
        return 1 / problem.n
    others = (problem.n - 1) * math.exp(-log_factor(problem, radius)) * (1 - 1e-13)
    return min(1.0, _rounding.widen_up(1 / (1 + others)))


def minimiser_sensitivity(problem: Problem, l2: float, radius: float) -> float:
    """Return the bound above for minimisers of norm at most `radius`, rounded up.

    Parameters
    ----------
    problem : Problem
        Constants, n and aggregation.
    l2 : float
        Regularisation.
    radius : float
        Of a ball that holds the minimisers; not used for averages.
    """
    return problem.contrast / l2 * largest_weight(problem, radius) * (1 + 1e-14)
