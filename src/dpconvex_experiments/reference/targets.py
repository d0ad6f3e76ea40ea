"""What is audited of the reference methods."""

from __future__ import annotations

from dataclasses import replace

from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.algorithms.select import Options
from dpconvex.audit import Builder, Subject, Target, point_pairs
from dpconvex.audit.targets.erm import RIDGE, linear_problem, linear_subject
from dpconvex.audit.targets.location import FEW, point_domain
from dpconvex.losses import HingeLoss, HuberLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.reference import group_privacy
from dpconvex_experiments.reference.gradient_score import plan_gradient_score
from dpconvex_experiments.reference.median import MEDIAN_BASELINES, plan_halving


def _gradient_score(privacy: PrivacyParams, bound: float) -> Subject:
    problem = linear_problem(HuberLoss(), bound, n=20)
    return linear_subject(plan_gradient_score(problem, privacy, Moments(2.0, bound)))


def _grouped(privacy: PrivacyParams, bound: float) -> Subject:
    def planner(rows: LinearModelProblem, record: PrivacyParams) -> tuple[LinearModelPlan, ...]:
        options = Options(l2=RIDGE * bound**2)
        return plans(rows, record, "output_perturbation", options)

    problem = linear_problem(HingeLoss(), bound, records=2)
    return linear_subject(group_privacy.plan(problem, privacy, planner))


def _baseline(name: str, n: int) -> Builder:
    def build(privacy: PrivacyParams, bound: float) -> Subject:
        plan = MEDIAN_BASELINES[name](point_domain(bound), n, privacy)
        return Subject(plan, point_pairs(plan.domain, n))

    return build


def _halving(privacy: PrivacyParams, bound: float) -> Subject:
    plan = plan_halving(point_domain(bound), 8, privacy)
    warm = NoisyGradients.of_mu(plan.warm.label, plan.n, plan.domain.dim, plan.warm_mu, FEW)
    return Subject(replace(plan, warm=warm), point_pairs(plan.domain, plan.n))


TARGETS = (
    Target("gradient_score", True, Unit.RECORD, _gradient_score),
    *(Target(name, False, Unit.RECORD, _baseline(name, 8)) for name in MEDIAN_BASELINES if name != "halving"),
    Target("halving", False, Unit.RECORD, _halving),
    Target("group_privacy", True, Unit.USER, _grouped),
)
"""Targets of the audit."""
