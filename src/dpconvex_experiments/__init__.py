"""Experiments that anybody can repeat: a paper's tables and figures, and the validation of every algorithm.

Each family is a subpackage with a tuple ``EXPERIMENTS``; adding one needs no edit here.
"""

import importlib
import pkgutil
from collections.abc import Iterator

from dpconvex_experiments.base import Cell, Experiment, Outcome, Record, Setting, Track, run_experiment
from dpconvex_experiments.checks import Check, Estimate


def _experiments() -> Iterator[Experiment]:
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        if module.ispkg:
            yield from getattr(importlib.import_module(module.name), "EXPERIMENTS", ())


EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _experiments()}
"""Every experiment by name; families in alphabetical order, each in its own order."""

__all__ = [
    "EXPERIMENTS",
    "Cell",
    "Check",
    "Estimate",
    "Experiment",
    "Outcome",
    "Record",
    "Setting",
    "Track",
    "run_experiment",
]
