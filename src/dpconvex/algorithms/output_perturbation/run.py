"""Algorithm 6 of Lowy and Razaviyayn (repaired), line by line. Constants: `plan.py`.

====== ===================== =============================================
Letter Name here             Meaning
====== ===================== =============================================
w_T    ``solved``            solver output, within r of the exact minimiser
r      ``plan.solver_radius`` certified distance, ``sqrt(2 alpha / lambda)``
lambda ``plan.l2``           regularisation
B(0,R) ``plan.ball``         holds the minimiser; everything if there is no tilt
z      inside ``release``    noise of the planned mechanism
====== ===================== =============================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpconvex._types import AnyArray
from dpconvex.algorithms.base import PrivateResult, require
from dpconvex.privacy import Ledger
from dpconvex.problems import Records
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.output_perturbation.plan import OutputPerturbationPlan


def run(plan: OutputPerturbationPlan, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
    """Minimise the regularised risk to the certified radius and release it with noise.

    Parameters
    ----------
    plan : OutputPerturbationPlan
        Public constants.
    X : array of shape (n, n_features)
        Features, clipped here.
    y : array of shape (n,)
        Targets, clipped here.
    source : BitSource
        Where the noise comes from.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    records = Records.clipped(X, plan.problem.domain)  # line 1: records of the public domain
    risk = plan.problem.on(records, plan.problem.loss.clip_targets(y), plan.l2)  # line 2: F_lambda
    found = plan.solver.solve(risk, plan.solver_radius, plan.constraint)  # line 3: w_T
    solved = require(found, plan.solver_radius)
    noisy = plan.mechanism.release(plan.ball.project(solved), plan.releases[0].label, source, ledger)  # line 4: w_T + z
    return plan.finish(noisy, source)
