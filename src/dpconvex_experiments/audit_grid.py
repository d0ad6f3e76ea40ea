"""Audits of many promises: every target at every epsilon and bound, in a file that a later run resumes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from dpconvex._files import read_text
from dpconvex._types import final_dataclass
from dpconvex.data import write_atomically
from dpconvex.errors import InvalidParameterError
from dpconvex_experiments.audit import ERROR, Target, audit
from dpconvex_experiments.base import Track

EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
BOUNDS = (0.1, 1.0, 10.0, 100.0)
REFUSED = "no plan"  #: A cell has this as its attack if the library itself refuses to plan for the promise.
_CELLS = 2000  #: More than a grid has. A sampled bound is wrong with probability at most `ERROR / _CELLS`.


@final_dataclass
class Settings:
    """The settings that all cells share; a file of results with other settings is not continued."""

    version: str  #: version of this library
    delta: float  #: delta of approximate promises
    runs: int  #: largest number of counted runs, as in `audit`
    transcripts: int
    seconds: float  #: processor time to aim for in each cell
    seed: int  #: seed of random neighbors and of replayed noise


@final_dataclass
class Cell:
    """One audit of a grid."""

    target: str
    epsilon: float  #: claimed epsilon
    bound: float  #: bound on the domain
    proved: float  #: proved lower bound on epsilon; 0 if nothing was proved
    passed: bool
    attack: str  #: the attack that proved most
    runs: int  #: number of counted runs on each of the two data sets
    seconds: float


def audit_grid(
    targets: Sequence[Target], file: Path, settings: Settings, track: Track, epsilons: Iterable[float] = EPSILONS,
    bounds: Iterable[float] = BOUNDS,
) -> list[Cell]:  # fmt: skip
    """Audit every target at every epsilon and bound; what the file holds, of the same settings, is not repeated."""
    found = _resumed(file, settings)
    scales = [(epsilon, bound) for epsilon in epsilons for bound in bounds]
    wanted = {(target.name, *scale): target for target in targets for scale in scales}
    for key in track([key for key in wanted if key not in found], "Auditing the grid"):
        found[key] = _audited(wanted[key], key[1], key[2], settings)
        write_atomically(file, _text(settings, found.values()))
    return [found[key] for key in wanted]


def _audited(target: Target, epsilon: float, bound: float, settings: Settings) -> Cell:
    try:
        subject = target.subject(epsilon, settings.delta, bound)
    except InvalidParameterError:
        return Cell(target.name, epsilon, bound, 0.0, True, REFUSED, 0, 0.0)
    report = audit(
        subject.plan,
        subject.pairs,
        output=subject.output,
        runs=settings.runs,
        transcripts=settings.transcripts,
        error=ERROR / _CELLS,
        seconds=settings.seconds,
        seed=settings.seed,
    )
    attack = report.findings[0].attack if report.proved_at_least > 0 else "none"
    proved, seconds = round(report.proved_at_least, 6), round(report.seconds, 2)
    return Cell(target.name, epsilon, bound, proved, report.passed, attack, report.runs, seconds)


def _resumed(file: Path, settings: Settings) -> dict[tuple[str, float, float], Cell]:
    if not file.exists():
        return {}
    held, cells = read_grid(file)
    if held != settings:
        raise InvalidParameterError("out", str(file), "must not hold results of other settings", "Use another folder")
    return {(cell.target, cell.epsilon, cell.bound): cell for cell in cells}


def read_grid(file: Path) -> tuple[Settings, list[Cell]]:
    """Return the settings and the cells that a file holds."""
    try:
        held = json.loads(read_text(file))
        cells = [Cell(**dict(zip(held["columns"], row, strict=True))) for row in held["cells"]]
        return Settings(**held["settings"]), cells
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        remedy = "Use another folder, or remove the file"
        raise InvalidParameterError("out", str(file), "holds no results of an audit", remedy) from None


def _text(settings: Settings, cells: Iterable[Cell]) -> str:
    """JSON with one line for each cell."""
    rows = [list(asdict(cell).values()) for cell in cells]
    head = json.dumps({"settings": asdict(settings), "columns": list(Cell.__dataclass_fields__)}, indent=1)[:-2]
    return f'{head},\n "cells": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]\n}\n"


def summary(cells: Iterable[Cell]) -> list[tuple[str, dict[float, float], int, float]]:
    """Return each target's name, largest proved epsilon by claimed one with a plan, and sums of runs and seconds."""
    lines: dict[str, tuple[dict[float, float], int, float]] = {}
    for cell in cells:
        best, runs, seconds = lines.get(cell.target, ({}, 0, 0.0))
        if cell.attack != REFUSED:
            best[cell.epsilon] = max(cell.proved, best.get(cell.epsilon, 0.0))
        lines[cell.target] = best, runs + cell.runs, seconds + cell.seconds
    return [(name, *line) for name, line in lines.items()]
