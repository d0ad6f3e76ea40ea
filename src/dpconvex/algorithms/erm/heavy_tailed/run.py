"""Population localization (Lowy 2026, Algorithm 1) with one or two output perturbations a part, line by line.

========= ===================== ====================================================
Letter    Name here             Meaning
========= ===================== ====================================================
w_t       ``centre``            centre of the phase's ridge; the last one is released
lambda_t  ``phase.l2``          ridge weight
C_t       ``truncation.level``  largest gradient of one record
Z^(t,j)   ``rows``              part j of the records of phase t
tau       ``stage.radius``      certified distance to the exact minimiser over W or W_0
W_0       ``region``            where the second stage minimises: near the first release
b         inside ``release``    noise of the planned mechanism
========= ===================== ====================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import PrivateResult, require
from dpconvex.privacy import Ledger
from dpconvex.problems import Records
from dpconvex.problems.linear.truncated import TruncatedRisk
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.heavy_tailed.localization import HeavyTailedPlan


def run(plan: HeavyTailedPlan, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
    """Solve ever more regularised problems on disjoint parts of the records, each around the last release.

    Parameters
    ----------
    plan : HeavyTailedPlan
        Public constants.
    X : array of shape (n, n_features)
        Features, clipped here.
    y : array of shape (n,)
        Targets, clipped here.
    source : BitSource
        Where the noise comes from.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    problem, planned = plan.problem, iter(plan.releases)
    centre = np.zeros(problem.dim)  # line 1
    for phase, mechanisms in zip(plan.phases, plan.mechanisms, strict=True):  # lines 5-7
        found = []
        for j in range(phase.repetitions):  # lines 8-10
            start, step = phase.first + j * phase.step, phase.repetitions * phase.step
            rows = slice(start, start + step * phase.m, step)
            records = Records.clipped(X[rows], problem.domain)
            risk = TruncatedRisk(problem.loss, records, y[rows], phase.l2, phase.truncation, centre)
            region, point = plan.ball, centre
            for stage, mechanism in zip(phase.stages, mechanisms, strict=True):
                solved = require(plan.solver.solve(risk, stage.radius, region, point), stage.radius)
                entry = next(planned)
                noisy = mechanism.release(solved, entry.label, source, ledger, entry.block)
                point = region.project(noisy)
                region = plan.near(point, stage)
            found.append(point)
        centre = middle(np.array(found))  # line 11
    return plan.finish(centre, source)


def middle(points: FloatArray) -> FloatArray:
    """Return the point whose ball around it that holds more than half of all points is smallest; the first if tied.

    If more than half of the points (J, dim) are within r of any one place, the result is within 3 r of it.
    """
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    half = len(points) // 2
    return points[np.argmin(np.sort(distances, axis=1)[:, half])]
