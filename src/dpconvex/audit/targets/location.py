"""What is audited of locations of points: the private geometric median."""

from __future__ import annotations

from dpconvex.algorithms.location import geometric_median
from dpconvex.algorithms.location.geometric_median import BOOSTS
from dpconvex.audit.neighbors import point_pairs
from dpconvex.audit.target import Builder, Subject, targets
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import PointDomain

_POINTS = 24
FEW = 12
"""Gradients of a warm start that would take a thousand: all of them are charged alike, and runs are short."""


def point_domain(bound: float) -> PointDomain:
    """Return points on a line."""
    return PointDomain(1, bound, bound / 8)  # few radii to try, so that runs are short


def _median(boost: str, n: int) -> Builder:
    def build(privacy: PrivacyParams, bound: float) -> Subject:
        plan = geometric_median.plan(point_domain(bound), n, privacy, boost=boost)
        return Subject(plan, point_pairs(plan.domain, n))

    return build


TARGETS = targets(
    Unit.RECORD,
    {
        "geometric_median": ("approximate", _median(BOOSTS[0], _POINTS)),
        **{f"geometric_median/{boost}": ("approximate", _median(boost, _POINTS)) for boost in BOOSTS[1:]},
        "geometric_median/many": ("approximate", _median("none", 400)),
    },
)
