"""The systems of the five papers: where each stands here, how it is called, and which measurement it must answer for.

The rows are in ``systems.toml``. What was measured is in ``fidelity.json``, which ``fidelity.py`` writes. The
page *The papers* of the documentation is made of both, in every build. A row is *done* only if nothing is left of
`shortcomings`; tests run every call.
"""

import importlib
import importlib.util
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent
SEEDS = (0, 1, 2)
"""The seeds at which every row is measured."""
Found = Mapping[str, Any]
"""Results of an experiment: ``quick``, and in ``seeds``, for each seed ``passed``, ``seconds``, ``checks`` by name."""


@dataclass(frozen=True)
class Measure:
    """One check of an experiment, and what theory says about its number."""

    experiment: str
    check: str
    theory: str


@dataclass(frozen=True)
class System:
    """An algorithm of a paper, a theorem that makes one, or the rivals that a paper measures itself with."""

    paper: str  #: authors and year
    number: str  #: number of the algorithm or theorem in the paper
    what: str
    code: str  #: where it is implemented: module and name, with a colon between them
    call: str  #: a Python expression of public names and names of the page *The papers*; empty if there is none
    command: str  #: the command line that runs it, or a dash and the reason why there is none
    constants: tuple[str, ...]  #: names of its sets of constants; empty if it has none of its own
    measures: tuple[Measure, ...]
    lacks: str = ""  #: what the row still lacks that no test can see


@cache
def systems() -> tuple[System, ...]:
    """Return every row, papers in their order."""
    rows = tomllib.loads((_DATA / "systems.toml").read_text(encoding="utf-8"))
    return tuple(_system(paper, **row) for paper, own in rows.items() for row in own)


def _system(paper: str, constants: Iterable[str], measures: Iterable[Iterable[str]], **row: str) -> System:
    return System(paper, constants=tuple(constants), measures=tuple(Measure(*each) for each in measures), **row)


@cache
def fidelity() -> dict[str, Found]:
    """Return what was measured, by experiment."""
    return json.loads((_DATA / "fidelity.json").read_text(encoding="utf-8"))


def shortcomings(system: System, known: Iterable[str], found: Mapping[str, Found] | None = None) -> tuple[str, ...]:
    """Return what a row lacks to be done; `known` are the names of experiments."""
    found, known = fidelity() if found is None else found, tuple(known)
    lacks = [system.lacks] if system.lacks else []
    module, _, name = system.code.partition(":")
    if importlib.util.find_spec(module) is None or not hasattr(importlib.import_module(module), name):
        lacks.append(f"no {system.code}")
    if not system.call:
        lacks.append("no call")
    if not system.measures:
        lacks.append("no measurement")
    for measure in system.measures:
        if measure.experiment not in known:
            lacks.append(f"no experiment {measure.experiment}")
        else:
            lacks += _unmet(measure, found.get(measure.experiment, {"seeds": {}}))
    return tuple(dict.fromkeys(lacks))


def _unmet(measure: Measure, found: Found) -> list[str]:
    seeds = [found["seeds"].get(str(seed)) for seed in SEEDS]
    checks = [seed and seed["checks"].get(measure.check) for seed in seeds]
    if not all(checks):
        return [f"'{measure.check}' is not recorded at seeds {', '.join(map(str, SEEDS))}"]
    if not all(seed["passed"] for seed in seeds):
        return [f"{measure.experiment} fails"]
    limits = [check[side] for check in checks for side in ("low", "high")]
    named = measure.check.startswith("exponent") and not measure.theory.startswith("0")
    if named and any(check["low"] is not None and check["low"] < 0 < (check["high"] or 0) for check in checks):
        return [f"'{measure.check}': limits include 0, so it shows no exponent (the full form is narrower)"]
    two_sided = all(limit is not None and math.isfinite(limit) for limit in limits)
    return [] if two_sided else [f"'{measure.check}' can fail on one side only"]
