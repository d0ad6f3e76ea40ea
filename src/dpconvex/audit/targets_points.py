"""What is audited of medians of points: the private geometric median and its baselines."""

from __future__ import annotations

from dataclasses import replace

from dpconvex.algorithms import geometric_median
from dpconvex.algorithms.baselines.median import MEDIAN_BASELINES
from dpconvex.algorithms.baselines.median.halving import plan_halving
from dpconvex.algorithms.geometric_median import BOOSTS
from dpconvex.algorithms.noisy_descent import NoisyGradients
from dpconvex.audit.neighbours import point_pairs
from dpconvex.audit.target import Builder, Subject
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PointDomain

_POINTS = 24
_FEW = 12
"""Gradients of a warm start that would take a thousand: all of them are charged alike, and runs are short."""


def _domain(bound: float) -> PointDomain:
    return PointDomain(1, bound, bound / 8)  # few radii to try, so that runs are short


def _median(boost: str, n: int) -> Builder:
    def build(privacy: PrivacyParams, bound: float) -> Subject:
        plan = geometric_median.plan(_domain(bound), n, privacy, boost=boost)
        return Subject(plan, point_pairs(plan.domain, n))

    return build


def _baseline(name: str, n: int) -> Builder:
    def build(privacy: PrivacyParams, bound: float) -> Subject:
        plan = MEDIAN_BASELINES[name](_domain(bound), n, privacy)
        return Subject(plan, point_pairs(plan.domain, n))

    return build


def _halving(privacy: PrivacyParams, bound: float) -> Subject:
    plan = plan_halving(_domain(bound), 8, privacy)
    warm = NoisyGradients.of_mu(plan.warm.label, plan.n, plan.domain.dim, plan.warm_mu, _FEW)
    return Subject(replace(plan, warm=warm), point_pairs(plan.domain, plan.n))


POINTS: dict[str, tuple[str, Builder]] = {
    "geometric_median": ("approximate", _median(BOOSTS[0], _POINTS)),
    **{f"geometric_median/{boost}": ("approximate", _median(boost, _POINTS)) for boost in BOOSTS[1:]},
    "geometric_median/many": ("approximate", _median("none", 400)),
    **{name: ("approximate", _baseline(name, 8)) for name in MEDIAN_BASELINES},
    "halving": ("approximate", _halving),
}
"""By name: the kind of promise, and how the subject is built."""
