"""Parts that other distributions add: what their entry points name is imported where it is first asked for.

The groups ``dpconvex.algorithms``, ``dpconvex.reference`` and ``dpconvex.audit`` are explained in the docs (Adding a
part, A method of your own package). Installing a distribution lets its code run here, as with any import: nothing in a
certificate or a model can name one.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

T = TypeVar("T")
_PRINTED: dict[str, Any] = {}


@cache
def load(group: str) -> tuple[Any, ...]:
    """Return what all entry points of ``dpconvex.<group>`` name, in the order of their names."""
    return tuple(point.load() for point in sorted(entry_points(group=f"dpconvex.{group}"), key=lambda each: each.name))


def printed(name: str) -> Callable[[T], T]:
    """Mark constants as a paper prints them (repaired), or a method of its, which the methods here find by name."""

    def marked(planner: T) -> T:
        _PRINTED[name] = planner
        return planner

    return marked


def of_paper(name: str) -> Any:
    """Return what is marked as `printed`: it stands beside the experiments, among what is only compared with."""
    load("reference")
    return _PRINTED[name]
