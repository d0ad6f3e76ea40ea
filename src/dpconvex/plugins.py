"""Parts that other distributions add: what their entry points name is imported where it is first asked for.

A distribution declares, in its ``pyproject.toml``,

    [project.entry-points."dpconvex.algorithms"]
    my_method = "my_package.my_method:METHOD"

``dpconvex.algorithms``
    A `dpconvex.algorithms.select.Method`: the library then plans, runs, verifies and lists it like its own.
``dpconvex.reference``
    A module whose planners are recorded (`dpconvex.algorithms.recipes`): certificates may name them, no user is offered
    them.
``dpconvex.audit``
    A sequence of `dpconvex.audit.target.Target`: what `dpconvex audit` attacks.

Installing a distribution lets its code run here, as with any import: nothing in a certificate or a model can name one.
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Any


@cache
def load(group: str) -> tuple[Any, ...]:
    """Return what all entry points of ``dpconvex.<group>`` name, in the order of their names."""
    return tuple(point.load() for point in sorted(entry_points(group=f"dpconvex.{group}"), key=lambda each: each.name))
