"""Noisy projected gradient descent with cut gradients, line by line. Constants: `plan.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.privacy import Ledger
from dpconvex.problems import Records
from dpconvex.problems.linear.truncated import TruncatedRisk
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.heavy_tailed.clipped_gradient.plan import ClippedGradientPlan


def run(plan: ClippedGradientPlan, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
    """Take the planned number of noisy steps from 0 and return the average of the points where gradients were taken.

    Parameters
    ----------
    plan : ClippedGradientPlan
        Public constants.
    X : array of shape (n, n_features)
        Features, clipped here.
    y : array of shape (n,)
        Targets, clipped here.
    source : BitSource
        Where the noise comes from.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    records = Records.clipped(X, plan.problem.domain)
    risk = TruncatedRisk(plan.problem.loss, records, y, 1.0, plan.truncation)  # its ridge is left out below
    w, total = np.zeros(plan.problem.dim), np.zeros(plan.problem.dim)
    for _ in range(plan.steps):
        total += w
        noisy = plan.mechanism.release(risk.mean_slope(w), plan.releases[0].label, source, ledger)
        w = plan.ball.project(w - plan.step_size * noisy)
    return plan.finish(total / plan.steps, source)
