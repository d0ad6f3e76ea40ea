"""Experiments that anybody can repeat: a paper's tables and figures, and the validation of every algorithm.

Each family is a subpackage with a tuple ``EXPERIMENTS``; adding one needs no edit here. Methods of `reference` are
plug-ins of the library, so what only experiments need is imported where it is asked for.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpconvex_experiments.base import Cell, Experiment, Outcome, Record, Setting, Track, run_experiment
    from dpconvex_experiments.checks import Check, Estimate

    EXPERIMENTS: dict[str, Experiment]
    """Every experiment by name; families in alphabetical order, each in its own order."""


def _experiments() -> "Iterator[Experiment]":
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.ispkg:
            yield from getattr(importlib.import_module(module.name), "EXPERIMENTS", ())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "EXPERIMENTS":
        found: Any = {experiment.name: experiment for experiment in _experiments()}
    else:
        found = getattr(importlib.import_module(f"{__name__}.{'checks' if name in _CHECKS else 'base'}"), name)
    globals()[name] = found
    return found


_CHECKS = ("Check", "Estimate")
__all__ = [
    "EXPERIMENTS", "Cell", "Check", "Estimate", "Experiment", "Outcome", "Record", "Setting", "Track", "run_experiment",
]  # fmt: skip
