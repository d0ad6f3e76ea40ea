"""``dpconvex demo``: the main job on bundled public data, next to a majority vote and a non-private fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options, _output
from dpconvex.errors import RepeatedFitWarning

if TYPE_CHECKING:
    from dpconvex.cli._metrics import Metrics

EPSILONS, QUICK_EPSILONS = (0.1, 0.3, 1.0, 3.0), (1.0, 3.0)
TRAIN, TEST, QUICK_ROWS = 36_186, 9_036, 8_000
SPLITS, QUICK_SPLITS = 8, 2
"""Fixed permutations of the public data, seeds 0, 1, ...: one test part alone moves an AUC by .005 either way."""
KEPT = 1.0  #: Epsilon of the model that is written.


METRICS = {"accuracy": "accuracy", "auc": "AUC", "log_loss": "log-loss"}  #: Shown metrics and their headers.


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

    with warnings.catch_warnings(), _output.model_folder(out, force=force) as folder:
        warnings.simplefilter("ignore", RepeatedFitWarning)  # public data: nothing is spent by fitting them again
        splits = [split(QUICK_ROWS if quick else TRAIN, seed) for seed in range(QUICK_SPLITS if quick else SPLITS)]
        rows, model = _compare(splits, QUICK_EPSILONS if quick else EPSILONS)
        accuracy = {(row["model"], row["epsilon"]): row["accuracy"] for row in rows}
        private = {epsilon: value for (_, epsilon), value in accuracy.items() if epsilon is not None}
        train, test = splits[0]
        over = f"mean of {len(splits)} random splits, {len(train):,} records to fit and {len(test):,} to test"
        measured = Measured(
            epsilons=tuple(private),
            accuracies=tuple(private.values()),
            majority=accuracy[MAJORITY, None],
            non_private=accuracy[NOT_PRIVATE, None],
            note=f"Adult census data, which are public: {over}.",
        )
        origin = Origin("Adult census income, bundled with dpconvex", "a demonstration on public data")
        write_outputs(model, folder, origin, measured)
    if as_json:
        _output.print_json(rows)
        return
    cells = [
        (
            row["model"],
            "-" if row["epsilon"] is None else f"{row['epsilon']:g}",
            *(f"{row[name]:.4f} ±{row[f'{name}_standard_error']:.4f}" for name in METRICS),
            f"{row['seconds']:.2f}",
        )
        for row in rows
    ]
    _output.print_table(
        f"Adult census income: {over}", ("model", "epsilon", *METRICS.values(), "seconds"), cells, right=range(1, 6)
    )
    _output.print_text("\n± one standard error over the splits; the noise of private fits is part of it.")
    _output.print_text(
        f"Wrote {_output.MODEL}, {_output.CERTIFICATE} and {_output.REPORT} (epsilon = {KEPT:g}, first split) to {out}"
    )


def split(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Return `rows` training records and the 9,036 test records of Adult, by a fixed public permutation."""
    import numpy as np

    from dpconvex.data import load_adult

    table = load_adult()
    order = np.random.default_rng(seed).permutation(len(table))
    return table.take(order[:rows]), table.take(order[TRAIN : TRAIN + TEST])


MAJORITY, NOT_PRIVATE = "majority class", "not private"


def _compare(splits: Sequence[tuple[Any, Any]], epsilons: tuple[float, ...]) -> tuple[list[dict[str, Any]], Any]:
    """Return the rows of the table and the private model of the first split at epsilon = `KEPT`."""
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    from dpconvex.cli._metrics import evaluate
    from dpconvex.data import adult_schema
    from dpconvex.estimators import PrivateLogisticRegression

    schema = adult_schema()
    found: dict[tuple[str, float | None], list[tuple[Metrics, float]]] = {}
    kept: Any = None
    for train, test in _output.track(splits, "Fitting"):
        right = schema.encode_target(test)
        given = train, schema.encode_target(train)
        plain = make_pipeline(FunctionTransformer(schema.encode), LogisticRegression(max_iter=1000))
        runs: list[Any] = [(MAJORITY, None, DummyClassifier(), given), (NOT_PRIVATE, None, plain, given)]
        runs += [("private", e, PrivateLogisticRegression(e, schema=schema), (train,)) for e in epsilons]
        for name, epsilon, model, records in runs:
            start = time.perf_counter()
            model.fit(*records)
            seconds = time.perf_counter() - start
            metrics = evaluate(model.predict_proba(test), right)
            found.setdefault((name, epsilon), []).append((metrics, seconds))
            if epsilon == KEPT and kept is None:
                kept = model
    return [_row(*key, measured) for key, measured in found.items()], kept


def _row(model: str, epsilon: float | None, runs: list[tuple[Metrics, float]]) -> dict[str, Any]:
    """Return one line of the table, JSON-ready: means over the splits with their standard errors."""
    import numpy as np

    fields: dict[str, Any] = {"model": model, "epsilon": epsilon}
    for name in METRICS:
        values = [getattr(metrics, name) for metrics, _ in runs]
        error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        fields |= {name: float(np.mean(values)), f"{name}_standard_error": error}
    return {**fields, "splits": len(runs), "seconds": float(np.mean([seconds for _, seconds in runs]))}
