"""What is audited of the reference methods."""

from __future__ import annotations

from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.audit import Subject, Target
from dpconvex.audit.targets.erm import RIDGE, linear_problem, linear_subject
from dpconvex.losses import HingeLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.reference import group_privacy


def _grouped(privacy: PrivacyParams, bound: float) -> Subject:
    def planner(rows: LinearModelProblem, record: PrivacyParams) -> tuple[LinearModelPlan, ...]:
        options = Options(l2=RIDGE * bound**2)
        return plans(rows, record, "output_perturbation", options)

    problem = linear_problem(HingeLoss(), bound, records=2)
    return linear_subject(group_privacy.plan(problem, privacy, planner))


TARGETS = (Target("group_privacy", True, Unit.USER, _grouped),)
"""Targets of the audit."""
