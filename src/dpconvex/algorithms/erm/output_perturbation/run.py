"""Algorithm 6 of Lowy and Razaviyayn (repaired), line by line. Constants: `plan.py`.

====== ===================== =============================================
Letter Name here             Meaning
====== ===================== =============================================
w_T    ``solved``            solver output, within r of the exact minimiser
r      ``plan.solver_radius`` certified distance, ``sqrt(2 alpha / lambda)``
lambda ``plan.l2``           regularisation
B(0,R) ``plan.ball``         holds the minimiser; everything for averages of linear-model losses
z      inside ``release``    noise of the planned mechanism
====== ===================== =============================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpconvex._types import AnyArray
from dpconvex.algorithms.base import PrivateResult, require
from dpconvex.privacy import Ledger
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.output_perturbation.plan import OutputPerturbationPlan


def run(
    plan: OutputPerturbationPlan, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups | None = None
) -> PrivateResult:
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
    groups : UserGroups, optional
        Whose record it is, where users are protected.
    """
    ledger = Ledger(plan.privacy, plan.releases)
    risk = plan.problem.objective(X, y, plan.l2, groups)  # lines 1, 2: F_lambda of records in the public domain
    found = plan.solver.solve(risk, plan.solver_radius, plan.constraint)  # line 3: w_T
    point = require(found, plan.solver_radius) if plan.needs_accuracy else found.point
    solved = plan.problem.parameters(point)  # no further from the minimiser than in the solver's variables
    noisy = plan.mechanism.release(plan.ball.project(solved), plan.releases[0].label, source, ledger)  # line 4: w_T + z
    return plan.finish(plan.output_set.project(noisy), source)
