"""Algorithm 9 of Lowy and Razaviyayn over a finite grid, line by line. Constants: `plan.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.losses.base import LinearModelLoss
from dpconvex.privacy import Ledger
from dpconvex.problems import Records
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.baselines.exponential_mechanism.plan import ExponentialMechanismPlan


def run(plan: ExponentialMechanismPlan, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
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
    """
    ledger = Ledger(plan.privacy, plan.releases)
    loss, grid = plan.problem.loss, plan.grid
    records = Records.clipped(X, plan.problem.domain)  # line 1: records of the public domain
    scores = -relative_risk(loss, records, loss.clip_targets(y), grid)  # line 2: F(0) - F(w)
    chosen = plan.mechanism.release(scores, plan.releases[0].label, source, ledger)  # line 3
    return plan.finish(grid[chosen], source)


def relative_risk(loss: LinearModelLoss, records: Records, targets: FloatArray, points: FloatArray) -> FloatArray:
    """Return ``F(w) - F(0)`` for every row w of `points`, shape (N,); each record's difference is formed first."""
    total = np.zeros(len(points))
    for block in records.blocks():
        y = targets[block.rows]
        z = block.predict(points)
        values = loss.value(z.ravel(), np.repeat(y, len(points))).reshape(z.shape)
        total += (values - loss.value(np.zeros(len(y)), y)[:, None]).sum(0)
    return total / records.n
