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

BUFFER = 2**20
"""Predictions held at a time: 8 MB."""


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
    """Return ``F(w) - F(0)`` for every row w of `points`, shape (N,)."""
    total = np.zeros(len(points))
    for block in records.blocks():
        y = targets[block.rows]
        at_zero = float(loss.value(np.zeros(len(y)), y).sum())
        step = max(1, BUFFER // len(y))
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            z = block.predict(points[part]).T  # one row a point
            values = loss.value(z.ravel(), np.tile(y, len(z))).reshape(z.shape)
            total[part] += values.sum(1) - at_zero
    return total / records.n
