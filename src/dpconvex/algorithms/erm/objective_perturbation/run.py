"""Objective perturbation with approximate minima, line by line. Constants and symbols: `plan.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpconvex._types import AnyArray
from dpconvex.algorithms.base import PrivateResult, require
from dpconvex.algorithms.erm.objective_perturbation.output import MINIMISER
from dpconvex.privacy import Ledger
from dpconvex.problems import Records
from dpconvex.problems.data.users import UserGroups
from dpconvex.randomness import BitSource

if TYPE_CHECKING:
    from dpconvex.algorithms.erm.objective_perturbation.plan import ObjectivePerturbationPlan


def run(
    plan: ObjectivePerturbationPlan, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups | None = None
) -> PrivateResult:
    """Minimise the randomly tilted risk and release the minimiser with noise that covers the solver.

    Parameters
    ----------
    plan : ObjectivePerturbationPlan
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
    problem = plan.problem
    records = Records.clipped(X, problem.domain)  # line 1: records of the public domain
    b = plan.noise.draw(plan.copies, MINIMISER, source, ledger)  # line 2: independent of the data
    risk = problem.on(records, problem.loss.clip_targets(y), plan.l2, groups, b / problem.n)  # line 3: J
    solved = require(plan.solver.solve(risk, plan.solver_radius), plan.solver_radius)  # line 4: ||grad J|| <= gamma
    point = plan.output.release(solved, source, ledger)  # line 5: hide the inaccuracy
    return plan.finish(point, source)
