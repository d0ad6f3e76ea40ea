"""Targets of the audit for centers of points: every method for the private geometric median."""

from dpconvex.algorithms.location.registry import LOCATION_METHODS, plan_location
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import PointDomain
from dpconvex_experiments.audit.neighbors import point_pairs
from dpconvex_experiments.audit.target import Subject, builder, targets

_POINTS = 24


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
