"""What is audited of the reference methods."""

from __future__ import annotations

from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.audit import Subject, Target
from dpconvex.audit.targets.erm import RIDGE, linear_problem, linear_subject
from dpconvex.losses import HingeLoss, HuberLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.reference import group_privacy
from dpconvex_experiments.reference.gradient_score import plan_gradient_score


def _gradient_score(privacy: PrivacyParams, bound: float) -> Subject:
    problem = linear_problem(HuberLoss(), bound, n=20)
    return linear_subject(plan_gradient_score(problem, privacy, Moments(2.0, bound)))


def _grouped(privacy: PrivacyParams, bound: float) -> Subject:
    def planner(rows: LinearModelProblem, record: PrivacyParams) -> tuple[LinearModelPlan, ...]:
        options = Options(l2=RIDGE * bound**2)
        return plans(rows, record, "output_perturbation", options)

    problem = linear_problem(HingeLoss(), bound, records=2)
    return linear_subject(group_privacy.plan(problem, privacy, planner))


TARGETS = (
    Target("gradient_score", True, Unit.RECORD, _gradient_score),
    Target("group_privacy", True, Unit.USER, _grouped),
)
"""Targets of the audit."""
