"""Phased one-pass SGD (Lowy, Liu and Asi 2024, Algorithm 1), line by line.

======== ================= =====================================================
Letter   Name here         Meaning
======== ================= =====================================================
x_i      ``x``             what phase i released, projected
D_{i,j}  ``groups[j]``     users of group j
eta_i    ``step_size``     step size
x~_{i,j} ``walked[j]``     average iterate of group j, relative to x_{i-1}
tau, C   ``aggregate``     constants of test and mean
======== ================= =====================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.algorithms.erm.user_level.one_pass import Pooled
from dpconvex.privacy import Ledger
from dpconvex.problems.data.records import Records
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.user_level.phased import PhasedPlan


def run_phases(plan: PhasedPlan, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups) -> PrivateResult:
    """Walk over disjoint groups of users from the last released point, and release the mean of where they end.

    Parameters
    ----------
    plan : PhasedPlan
        Public constants.
    X : array of shape (n_records, n_features)
        Features, clipped here.
    y : array of shape (n_records,)
        Targets, clipped here.
    source : BitSource
        Of noise, and of coins in streams of their own.
    groups : UserGroups
        Whose records they are.
    """
    from dpconvex.algorithms.erm.user_level.phased import block_of, label_of

    ledger, problem = Ledger(plan.privacy, plan.releases), plan.problem
    records, targets = Records.clipped(X, problem.domain), problem.loss.clip_targets(y)
    data = Pooled(problem.loss, records, targets, groups, problem.radius, problem.records_per_user or 1)
    order, ball = source.generator().permutation(problem.n), L2Ball(problem.radius)
    x = np.zeros(problem.dim)
    for i, phase in enumerate(plan.phases, 1):  # line 1
        members = order[phase.first : phase.first + phase.groups * phase.users]  # line 2
        walked = data.displacements(members.reshape(phase.groups, -1), x, phase.step_size, source)  # line 3
        moved = phase.aggregate.release(walked, x, label_of(i), source, ledger, block_of(i))  # lines 4 to 6
        if moved is None:
            return plan.finish(x, source, f"the test of phase {i} of {len(plan.phases)} failed")
        last = i == len(plan.phases)
        x = x + moved if last and not plan.schedule.projected else ball.project(x + moved)
    return plan.finish(x, source)
