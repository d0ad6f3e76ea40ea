"""What is audited of medians of points: the private geometric median and its baselines."""

from __future__ import annotations

from dpconvex.algorithms.location import geometric_median
from dpconvex.algorithms.location.geometric_median import BOOSTS
from dpconvex.audit.neighbours import point_pairs
from dpconvex.audit.target import Builder, Subject
from dpconvex.privacy import PrivacyParams
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


POINTS: dict[str, tuple[str, Builder]] = {
    "geometric_median": ("approximate", _median(BOOSTS[0], _POINTS)),
    **{f"geometric_median/{boost}": ("approximate", _median(boost, _POINTS)) for boost in BOOSTS[1:]},
    "geometric_median/many": ("approximate", _median("none", 400)),
}
"""By name: the kind of promise, and how the subject is built."""
