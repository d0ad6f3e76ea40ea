"""``dpconvex reproduce``: run a paper's experiment again, as numbers, a figure and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpconvex.cli import _options
from dpconvex.cli._output import one_line_errors, print_json, print_table, track, unknown

if TYPE_CHECKING:
    from dpconvex_experiments import Experiment


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
    from dpconvex_experiments.terminal import show, show_names

    if listed and as_json:
        print_json([{"name": e.name, "title": e.title, "source": e.source} for e in EXPERIMENTS.values()])
        return
    if listed:
        show_names(EXPERIMENTS.values())
        return
    records = []
    for experiment in _chosen(name, EXPERIMENTS):
        record = run_experiment(experiment, Setting(quick, seed, track))
        paths = record.write(out)
        records.append(record)
        if not as_json:
            show(record, paths)
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
