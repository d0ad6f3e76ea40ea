"""Everything of this library that can be audited, by name."""

from __future__ import annotations

from collections.abc import Mapping

from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.algorithms.select import Method
from dpconvex.audit.target import Builder, Target
from dpconvex.audit.targets_linear import RECORDS, USERS, linear_subject
from dpconvex.audit.targets_mechanisms import MECHANISMS
from dpconvex.audit.targets_points import POINTS
from dpconvex.audit.targets_search import SEARCHES
from dpconvex.audit.targets_vertices import VERTICES
from dpconvex.plugins import load
from dpconvex.privacy import Unit


def _targets(entries: Mapping[str, tuple[str, Builder]], unit: Unit) -> dict[str, Target]:
    return {name: Target(name, kind == "pure", unit, builder) for name, (kind, builder) in entries.items()}


def _attacked(method: Method) -> Target:
    """Return the target that a method brings: its own small plan, on the worst neighbors."""
    assert method.attack is not None
    attack = method.attack
    return Target(method.name, method.pure, Unit.RECORD, lambda privacy, bound: linear_subject(attack(privacy, bound)))


TARGETS: dict[str, Target] = {
    **_targets(RECORDS, Unit.RECORD),
    **_targets(USERS, Unit.USER),
    **_targets(POINTS, Unit.RECORD),
    **_targets(VERTICES, Unit.RECORD),
    **_targets(SEARCHES, Unit.RECORD),
    **{name: Target(name, kind == "pure", unit, builder) for name, (kind, unit, builder) in MECHANISMS.items()},
    **{method.name: _attacked(method) for method in ERM_METHODS.values() if method.attack is not None},
    **{target.name: target for targets in load("audit") for target in targets},
}
"""Targets by name: ``algorithm``, ``algorithm/variant`` or ``mechanism/name``."""


def chosen(name: str) -> tuple[Target, ...]:
    """Return the targets that a name means: itself and all its variants; ``"all"``: everything.

    Parameters
    ----------
    name : str
    """
    return tuple(t for known, t in TARGETS.items() if name == "all" or known == name or known.startswith(name + "/"))
