"""``dpconvex demo``: the main job on bundled public data, next to a majority vote and a non-private fit."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from dpconvex.cli import _options, _output
from dpconvex.errors import RepeatedFitWarning


@_output.one_line_errors
def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="8,000 records, 2 splits, epsilon 1 and 3: a few seconds.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the model at epsilon = 1.")] = Path("demo"),
    force: _options.Force = False,
    as_json: _options.Json = False,
) -> None:
    """Fit bundled census data (Adult, 45,222 people) at several epsilons and compare.

    The data are public. Every number is the mean over fixed random splits; every private fit draws real noise.
    """
    from dpconvex.cli.fit import write_outputs
    from dpconvex.cli.report import Measured, Origin
    from dpconvex_experiments import adult

    with warnings.catch_warnings(), _output.model_folder(out, force=force) as folder:
        warnings.simplefilter("ignore", RepeatedFitWarning)  # public data: nothing is spent by fitting them again
        setting = adult.QUICK if quick else adult.FULL
        splits = [adult.split(setting.rows, seed) for seed in range(setting.splits)]
        rows, model = adult.compare(splits, setting.epsilons, _output.track)
        train, test = splits[0]
        over = f"mean of {len(splits)} random splits, {len(train):,} records to fit and {len(test):,} to test"
        measured = Measured(adult.accuracy_figure(rows), f"Adult census data, which are public: {over}.")
        origin = Origin("Adult census income, bundled with dpconvex", "a demonstration on public data")
        write_outputs(model, folder, origin, measured)
    if as_json:
        _output.print_json(rows)
        return
    cells = [
        (
            row["model"],
            "-" if row["epsilon"] is None else f"{row['epsilon']:g}",
            *(f"{row[name]:.4f} ±{row[f'{name}_standard_error']:.4f}" for name in adult.METRICS),
            f"{row['seconds']:.2f}",
        )
        for row in rows
    ]
    _output.print_table(
        f"Adult census income: {over}",
        ("model", "epsilon", *adult.METRICS.values(), "seconds"),
        cells,
        right=range(1, 6),
    )
    _output.print_text("\n± one standard error over the splits; the noise of private fits is part of it.")
    _output.print_text(
        f"Wrote {_output.MODEL}, {_output.CERTIFICATE} and {_output.REPORT} "
        f"(epsilon = {adult.KEPT:g}, first split) to {out}"
    )
