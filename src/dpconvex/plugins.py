"""Plug-ins: objects that entry points of other distributions name are imported when they are first asked for.

The groups ``dpconvex.algorithms``, ``dpconvex.reference`` and ``dpconvex.audit`` are explained in the docs (Adding a
part, A method of your own package). Installing a distribution lets its code run here, as with any import: nothing in a
certificate or a model can name one.
"""

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

T = TypeVar("T")
_PRINTED: dict[str, Any] = {}  #: What `printed` registered, by name


@cache
def load(group: str) -> tuple[Any, ...]:
    """Return the objects of all entry points in the group ``dpconvex.<group>``, in the order of their names."""
    return tuple(point.load() for point in sorted(entry_points(group=f"dpconvex.{group}"), key=lambda each: each.name))


def printed(name: str) -> Callable[[T], T]:
    """Register a paper's (repaired) constants, or one of its methods, under a name by which `of_paper` finds it."""

    def marked(planner: T) -> T:
        _PRINTED[name] = planner
        return planner

    return marked


def of_paper(name: str) -> Any:
    """Return what is registered as `printed`; its module is beside the experiments, as it serves comparisons only."""
    load("reference")
    return _PRINTED[name]
