"""Algorithms 9 and 11 of Lowy and Razaviyayn over a finite grid, line by line.

Constants: `plan.py`, `localised.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import PrivateResult, require
from dpconvex.losses.base import LinearModelLoss
from dpconvex.privacy import Ledger
from dpconvex.problems import Records
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.objective import times
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.exponential_mechanism.localised import LocalisedMechanismPlan
    from dpconvex.algorithms.erm.exponential_mechanism.plan import ExponentialMechanismPlan

BUFFER = 2**20
"""Predictions held at a time: 8 MB."""


def run(
    plan: ExponentialMechanismPlan, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups | None = None
) -> PrivateResult:
    """Select a grid point with probability falling exponentially in its mean loss.

    Parameters
    ----------
    plan : ExponentialMechanismPlan
        Public constants.
    X : array of shape (n, n_features)
        Features, clipped here.
    y : array of shape (n,)
        Targets, clipped here.
    source : BitSource
        Where the noise comes from.
    groups : UserGroups, optional
        Whose record it is, where users are protected.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    loss, grid = plan.problem.loss, plan.grid
    records = Records.clipped(X, plan.problem.domain)  # line 1: records of the public domain
    weights = plan.problem.weights(groups)
    scores = -relative_risk(loss, records, loss.clip_targets(y), grid, weights=weights)  # line 2: F(0) - F(w)
    chosen = plan.mechanism.release(scores, plan.releases[0].label, source, ledger)  # line 3
    return plan.finish(grid[chosen], source)


def run_localised(
    plan: LocalisedMechanismPlan, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups | None = None
) -> PrivateResult:
    """Release a centre by output perturbation, then select from the grid around it.

    Parameters
    ----------
    plan : LocalisedMechanismPlan
        Public constants.
    X : array of shape (n, n_features)
        Features, clipped here.
    y : array of shape (n,)
        Targets, clipped here.
    source : BitSource
        Where the noise comes from.
    groups : UserGroups, optional
        Whose record it is, where users are protected.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    first, second = (release.label for release in plan.releases)
    records = Records.clipped(X, plan.problem.domain)  # line 1: records of the public domain
    targets = plan.problem.loss.clip_targets(y)
    found = plan.solver.solve(plan.problem.on(records, targets, plan.l2, groups), plan.solver_radius)  # line 2: w_T
    solved = require(found, plan.solver_radius)
    noisy = plan.centre.release(solved, first, source, ledger)  # line 3: w_T + z
    centre = L2Ball(plan.reach_of_minimisers).project(noisy)  # line 4: c
    moves = plan.grid
    points = centre + moves  # line 5: the grid of the ball around c
    ridge = plan.l2 * (moves @ centre + (moves**2).sum(1) / 2)  # of J(w) - J(c)
    risks = relative_risk(plan.problem.loss, records, targets, points, centre, plan.problem.weights(groups))
    scores = -(risks + ridge)  # line 6: J(c) - J(w)
    chosen = plan.choice.release(scores, second, source, ledger)  # line 7
    return plan.finish(points[chosen], source)


def relative_risk(
    loss: LinearModelLoss,
    records: Records,
    targets: FloatArray,
    points: FloatArray,
    origin: FloatArray | None = None,
    weights: FloatArray | None = None,
) -> FloatArray:
    """Return ``F(w) - F(origin)`` for every row w of `points`, shape (N,); the origin is 0 unless given.

    Records count as `weights` say (n,), or ``1/n`` each.
    """
    total = np.zeros(len(points))
    start_from = np.zeros_like(points[:1]) if origin is None else origin[None]
    for block in records.blocks():
        y = targets[block.rows]
        at_origin = float(times(weights, block.rows, loss.value(block.predict(start_from)[:, 0], y)).sum())
        step = max(1, BUFFER // len(y))
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            z = block.predict(points[part]).T  # one row a point
            values = loss.value(z.ravel(), np.tile(y, len(z))).reshape(z.shape)
            total[part] += (values.sum(1) if weights is None else values @ weights[block.rows]) - at_origin
    return total / records.n if weights is None else total
