"""``dpconvex reproduce``: run a paper's experiment again, as numbers, a figure and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from dpconvex.cli import _options
from dpconvex.cli._output import console, number, one_line_errors, print_json, print_table, print_text, track, unknown

if TYPE_CHECKING:
    from dpconvex_experiments import Cell, Experiment, Record


@one_line_errors
def reproduce(
    name: Annotated[
        str | None, typer.Argument(help="An experiment, a family of them, or all; see --list.", show_default=False)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments and run none.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller: seconds instead of minutes.")] = False,
    seed: Annotated[int, typer.Option(help="Of synthetic data and noise: nothing here is private.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the tables (CSV), figures (SVG) and records (JSON).")] = Path(
        "reproduced"
    ),
    as_json: _options.Json = False,
) -> None:
    """Repeat experiments, and say whether each met its criterion. Exit code 1 if one did not."""
    from dpconvex_experiments import EXPERIMENTS, Setting, run_experiment

    if listed:
        _list(tuple(EXPERIMENTS.values()), as_json)
        return
    records = []
    for experiment in _chosen(name, EXPERIMENTS):
        record = run_experiment(experiment, Setting(quick, seed, track))
        paths = record.write(out)
        records.append(record)
        if not as_json:
            _show(record, paths)
    if as_json:
        print_json([record.to_dict() for record in records])
    elif len(records) > 1:
        verdicts = [("ok" if r.outcome.passed else "FAIL", r.experiment.name, f"{r.seconds:.1f}") for r in records]
        print_table("Verdicts", ("", "experiment", "seconds"), verdicts, right=(2,))
    if not all(record.outcome.passed for record in records):
        raise typer.Exit(1)


def _chosen(name: str | None, experiments: dict[str, Experiment]) -> Sequence[Experiment]:
    families = {experiment.family for experiment in experiments.values()}
    names = [*experiments, *sorted(families), "all"]
    if name not in names:
        raise unknown(name, names, "must be an experiment, a family or all", "reproduce")
    return [e for e in experiments.values() if name in ("all", e.family, e.name)]


def _list(experiments: Sequence[Experiment], as_json: bool) -> None:
    if as_json:
        print_json([{"name": e.name, "title": e.title, "source": e.source} for e in experiments])
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)  # names are for copying
    table.add_column()
    for experiment in experiments:
        table.add_row(Text(experiment.name), Text(experiment.title))
    console().print(table)


def _show(record: Record, paths: Iterable[Path]) -> None:
    outcome = record.outcome
    right = [k for k in range(len(outcome.columns)) if all(not isinstance(row[k], str) for row in outcome.rows)]
    print_text(f"{record.experiment.name}: {record.experiment.title}")  # a table's title would wrap at its width
    print_table("", outcome.columns, [[_cell(cell) for cell in row] for row in outcome.rows], right=right)
    print_text()
    for note in outcome.notes:
        print_text(f"Note: {note}")
    print_table(
        "Checks",
        ("", "measured", "s.e.", "runs", "at least", "at most", "by", "test", ""),
        [
            (
                *(c.name, number(c.value, 4), number(c.error, 2), str(c.runs), number(c.low, 3), number(c.high, 3)),
                *(c.basis, c.test, "ok" if c.passed else "FAIL"),
            )
            for c in outcome.checks
        ],
        right=range(1, 6),
    )
    print_text(f"\n{'ok' if outcome.passed else 'FAIL'}: {outcome.criterion} ({record.seconds:.1f} s)")
    print_text(f"A false alarm has probability {outcome.alarm:.1g} at most.")
    print_text(f"Source: {record.experiment.source}")
    print_text(f"Wrote {', '.join(map(str, paths))}\n")


def _cell(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return number(cell, 4) if cell is None or isinstance(cell, float) else str(cell)
