"""Least squares from noisy second moments, refined. Constants: `plan.py`; post-processing: `estimates.py`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray
from dpconvex.algorithms.base import PrivateResult
from dpconvex.algorithms.erm.sufficient_statistics.estimates import Curvature, cutting_level
from dpconvex.algorithms.erm.sufficient_statistics.statistics import Statistics, packed, unpacked
from dpconvex.privacy import Ledger
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.sufficient_statistics.plan import SufficientStatisticsPlan


def run(
    plan: SufficientStatisticsPlan, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource
) -> PrivateResult:
    """Fit noisy moments, then take noisy gradient steps with residuals cut at a level that is found privately.

    Parameters
    ----------
    plan : SufficientStatisticsPlan
        Public constants.
    X : array of shape (n_records, n_features)
        Features, clipped here.
    y : array of shape (n_records,)
        Targets, clipped here.
    groups : UserGroups or None
        Whose record each is; None: every record is a unit.
    source : BitSource
        Where the noise comes from.
    """
    ledger, d = Ledger(plan.privacy, plan.releases), plan.problem.dim
    data = Statistics.of(plan.problem, X, y, groups, plan.units)
    joint = packed(data.joint_moments(plan.target_unit))
    noisy = unpacked(plan.moments.release(joint, plan.moments_label, source, ledger), d + 1)
    curvature = Curvature.of(plan.with_public(noisy[:d, :d]), plan.moment_deviation, plan.resolution)
    w, energy = curvature.first_fit(
        noisy[:d, d] * plan.target_unit, plan.moment_deviation * plan.target_unit, plan.expected_energy
    )
    for stage in plan.stages:
        shares = stage.residuals.release(
            data.residual_shares(w, plan.thresholds), stage.residuals_label, source, ledger
        )
        level = cutting_level(shares, plan.thresholds, stage.noise, plan.reach)
        ridge = plan.pull * stage.noise * level / math.sqrt(max(energy, float(w @ w)))
        points, gradients = np.zeros((stage.rounds, d)), np.zeros((stage.rounds, d))
        for k in range(stage.rounds):
            cut = stage.gradients.release(data.gradient(w, level), stage.gradients_label, source, ledger)
            points[k], gradients[k] = w, level * cut - (plan.own_ridge + ridge) * w
            w = w + curvature.step(gradients[k], ridge)
        w = curvature.settled(points, gradients, ridge)
    return plan.finish(w / plan.units, source)
