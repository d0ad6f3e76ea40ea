"""Targets of the audit for centers of points, and for methods that are offered for comparison."""

from dataclasses import replace
from typing import Any

from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.algorithms.location.registry import LOCATION_METHODS, plan_location
from dpconvex.algorithms.select import Options
from dpconvex.losses import HingeLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem, PointDomain
from dpconvex_experiments.audit import Subject, Target
from dpconvex_experiments.audit.neighbors import linear_subject, point_pairs
from dpconvex_experiments.audit.target import builder, targets
from dpconvex_experiments.reference import group_privacy, halving
from dpconvex_experiments.reference.targets.erm import RIDGE, linear_problem

_POINTS = 24
POINTS = 8  #: Number of points: so few that one of them has much weight.
FEW = 12  #: Number of gradients of a warm start; a thousand would be charged alike, but make runs long.


def point_domain(bound: float) -> PointDomain:
    """Return the domain of points on a line, at most `bound` from 0."""
    return PointDomain(1, bound, bound / 8)  # so few radii are tried that runs are short


@builder
def located(privacy: PrivacyParams, bound: float, name: str, n: int) -> Subject:
    """Return the subject of one method for n points."""
    plan = plan_location(point_domain(bound), n, privacy, name)
    return Subject(plan, point_pairs(plan.domain, n))


TARGETS = targets(
    Unit.RECORD,
    {
        **{name: ("approximate", located(name, _POINTS)) for name in LOCATION_METHODS},
        "center_only/many": ("approximate", located("center_only", 400)),
    },
)


def _grouped(privacy: PrivacyParams, bound: float) -> Subject:
    def planner(rows: LinearModelProblem, record: PrivacyParams) -> tuple[LinearModelPlan, ...]:
        return plans(rows, record, "output_perturbation", Options(l2=RIDGE * bound**2))

    problem = linear_problem(HingeLoss(), bound, records=2)
    return linear_subject(group_privacy.plan(problem, privacy, planner))


def _halving(privacy: PrivacyParams, bound: float) -> Subject:
    plan = halving.plan(point_domain(bound), POINTS, privacy)
    center: Any = plan.center_stage
    warm = NoisyGradients.of_mu(center.gradients.label, plan.n, plan.domain.dim, center.mu, FEW)
    return Subject(replace(plan, center_stage=replace(center, gradients=warm)), point_pairs(plan.domain, plan.n))


COMPARED = (
    Target("group_privacy", True, Unit.USER, _grouped),
    Target("halving", False, Unit.RECORD, _halving),
    *(
        Target(name, False, Unit.RECORD, located(name, POINTS))
        for name in ("origin_descent", "coordinate_median", "clipped_mean")
    ),
)
"""Targets of methods for comparison."""
