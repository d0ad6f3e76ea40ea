"""Everything that can be audited, by name: each file lists its own, other distributions add theirs (`plugins`)."""

from __future__ import annotations

from dpconvex.audit.target import Target
from dpconvex.audit.targets import erm, location, mechanisms, minimax, queries
from dpconvex.plugins import load

TARGETS: dict[str, Target] = {
    target.name: target
    for listed in (*(part.TARGETS for part in (erm, location, minimax, queries, mechanisms)), *load("audit"))
    for target in listed
}
"""Targets by name: ``algorithm``, ``algorithm/variant`` or ``mechanism/name``."""


def chosen(name: str) -> tuple[Target, ...]:
    """Return the targets that a name means: itself and all its variants; ``"all"``: everything."""
    return tuple(t for known, t in TARGETS.items() if name == "all" or known == name or known.startswith(name + "/"))
