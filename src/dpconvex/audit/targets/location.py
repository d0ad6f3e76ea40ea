"""What is audited of locations of points: every method for the private geometric median."""

from dataclasses import replace
from typing import Any

from dpconvex.algorithms.location import halving
from dpconvex.algorithms.location.noisy_descent import NoisyGradients
from dpconvex.algorithms.location.registry import LOCATION_METHODS, plan_location
from dpconvex.audit.neighbors import point_pairs
from dpconvex.audit.target import Builder, Subject, builder, targets
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import PointDomain

_POINTS = 24
FEW = 12  #: Gradients of a warm start that would take a thousand: all of them are charged alike, and runs are short.


def point_domain(bound: float) -> PointDomain:
    """Return points on a line."""
    return PointDomain(1, bound, bound / 8)  # few radii to try, so that runs are short


@builder
def _located(privacy: PrivacyParams, bound: float, name: str, n: int) -> Subject:
    plan = plan_location(point_domain(bound), n, privacy, name)
    return Subject(plan, point_pairs(plan.domain, n))


def _halving(privacy: PrivacyParams, bound: float) -> Subject:
    plan = halving.plan(point_domain(bound), 8, privacy)
    center: Any = plan.center_stage
    warm = NoisyGradients.of_mu(center.gradients.label, plan.n, plan.domain.dim, center.mu, FEW)
    return Subject(replace(plan, center_stage=replace(center, gradients=warm)), point_pairs(plan.domain, plan.n))


_OWN: dict[str, Builder] = {"halving": _halving}
_SIZES: dict[str, int] = dict.fromkeys(("origin_descent", "coordinate_median", "clipped_mean"), 8)
"""Numbers of records where they are not `_POINTS`: fewer leave one record more weight."""

TARGETS = targets(
    Unit.RECORD,
    {
        **{
            name: ("approximate", _OWN.get(name) or _located(name, _SIZES.get(name, _POINTS)))
            for name in LOCATION_METHODS
        },
        "center_only/many": ("approximate", _located("center_only", 400)),
    },
)
