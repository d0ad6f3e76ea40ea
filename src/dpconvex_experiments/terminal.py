"""Experiments on a terminal: their names, and what one of them measured."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from rich import progress
from rich.table import Table
from rich.text import Text

from dpconvex.cli._output import console, number, print_table, print_text
from dpconvex_experiments.base import Cell, Experiment, Record

_T = TypeVar("_T")


def track(items: Iterable[_T], text: str, /) -> Iterable[_T]:
    """Pass the items on, with a progress bar on stderr where that is a terminal."""
    shown = console(err=True)
    return progress.track(items, text, console=shown, disable=not shown.is_terminal, transient=True)


def show_names(experiments: Iterable[Experiment]) -> None:
    """Print names and titles of experiments."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)  # names are for copying
    table.add_column()
    for experiment in experiments:
        table.add_row(Text(experiment.name), Text(experiment.title))
    console().print(table)


def show(record: Record, paths: Iterable[Path]) -> None:
    """Print the table and the checks of a record, and where its files are."""
    outcome = record.outcome
    right = [k for k in range(len(outcome.columns)) if all(not isinstance(row[k], str) for row in outcome.rows)]
    print_text(f"{record.experiment.name}: {record.experiment.title}")  # a table's title would wrap at its width
    print_table("", outcome.columns, [[_cell(cell) for cell in row] for row in outcome.rows], right=right)
    print_text()
    for note in outcome.notes.splitlines():
        print_text(f"Note: {note}")
    headers, cells = ("", "measured", "s.e.", "runs", "at least", "at most", "by", "test", ""), []
    for c in outcome.checks:
        numbers = number(c.value, 4), number(c.error, 2), str(c.runs), number(c.low, 3), number(c.high, 3)
        cells.append((c.name, *numbers, c.basis, c.test, "ok" if c.passed else "FAIL"))
    print_table("Checks", headers, cells, right=range(1, 6))
    print_text(f"\n{'ok' if outcome.passed else 'FAIL'}: {outcome.criterion} ({record.seconds:.1f} s)")
    print_text(f"A false alarm has probability {outcome.alarm:.1g} at most.")
    print_text(f"Source: {record.experiment.source}")
    print_text(f"Wrote {', '.join(map(str, paths))}\n")


def _cell(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return number(cell, 4) if cell is None or isinstance(cell, float) else str(cell)
