"""Algorithms 2 and 3 of Lowy, Liu and Asi (2024), repaired, line by line. Constants: `accelerated.py`.

======== ============================= ================================================
Letter   Name here                     Meaning
======== ============================= ================================================
x_i      ``centre``                    end of phase i; the last one is released
D_i      ``slots``                     users of phase i
q_t(Z)   `GradientSource.vectors`      users' mean gradients at the point of step t
g_t      ``mean``                      their robust mean with noise
lambda_i ``phase.l2``                  weight of the phase's ridge around ``x_{i-1}``
======== ============================= ================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.algorithms.erm.user_level.gradient_source import GradientSource
from dpconvex.privacy import Ledger
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.user_level.accelerated import AcceleratedPlan


def run(plan: AcceleratedPlan, X: AnyArray, y: AnyArray, groups: UserGroups, source: BitSource) -> PrivateResult:
    """Solve ever more regularised problems on disjoint users from noisy means of their gradients.

    Parameters
    ----------
    plan : AcceleratedPlan
        Public constants.
    X : array of shape (n_records, n_features)
        Features, clipped here.
    y : array of shape (n_records,)
        Targets, clipped here.
    groups : UserGroups
        Whose record each is.
    source : BitSource
        Where noise and coins come from.
    """
    ledger, coins = Ledger(plan.privacy, plan.releases), source.generator()
    order = coins.permutation(groups.n_users)
    centre = np.zeros(plan.problem.dim)
    for i, phase in enumerate(plan.phases):
        batching = phase.batching
        slots = order[batching.first : batching.first + batching.users]
        batches = GradientSource(plan, X, y, groups, batching, coins).batches(slots)
        means = [phase.guard.start(source, ledger, plan.block(i, j)) for j in range(batching.batches)]
        turn = iter(range(phase.descent.steps))

        def gradient(w: FloatArray) -> FloatArray | None:
            j = next(turn) % batching.batches  # noqa: B023 - used within this turn of the loop only
            mean = means[j](batches[j](w))  # noqa: B023
            ridge = phase.l2 * (w - centre) + plan.l2 * w  # noqa: B023
            return None if mean is None else mean + ridge

        centre, passed = phase.descent.minimise(centre, gradient, plan.ball.project)
        if not passed:
            return plan.finish(centre, source, f"failed: a test of phase {i + 1}")
    return plan.finish(centre, source)
