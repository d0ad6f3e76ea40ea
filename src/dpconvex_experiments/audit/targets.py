"""Everything that can be audited, by name: what entry points list (`plugins`), and methods that bring an attack.

Targets of this library's own methods stand in `dpconvex_experiments.reference.targets`.
"""

from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.algorithms.select import Method
from dpconvex.plugins import load
from dpconvex.privacy import Unit
from dpconvex_experiments.audit.neighbors import linear_subject
from dpconvex_experiments.audit.target import Target


def _attacked(method: Method) -> Target:
    """Return the target that a method brings: its own small plan, on the worst neighbors."""
    assert method.attack is not None
    attack = method.attack
    return Target(method.name, method.pure, Unit.RECORD, lambda privacy, bound: linear_subject(attack(privacy, bound)))


TARGETS: dict[str, Target] = {
    target.name: target
    for listed in (*load("audit"), [_attacked(method) for method in ERM_METHODS.values() if method.attack is not None])
    for target in listed
}
"""Targets by name: ``algorithm``, ``algorithm/variant`` or ``mechanism/name``."""


def chosen(name: str) -> tuple[Target, ...]:
    """Return the targets that a name means: itself and all its variants; ``"all"``: everything."""
    return tuple(t for known, t in TARGETS.items() if name == "all" or known == name or known.startswith(name + "/"))
