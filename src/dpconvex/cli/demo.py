"""``dpconvex demo``: the main job on bundled public data, next to a majority vote and a non-private fit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options
from dpconvex.cli._console import console, one_line_errors, print_json, print_table, print_text
from dpconvex.cli._folder import CERTIFICATE, MODEL, REPORT, model_folder

if TYPE_CHECKING:
    from dpconvex.cli._metrics import Metrics

EPSILONS, QUICK_EPSILONS = (0.1, 0.3, 1.0, 3.0), (1.0, 3.0)
TRAIN, TEST, QUICK_ROWS = 36_186, 9_036, 8_000
SPLIT_SEED = 0
"""Of the fixed permutation that splits the public data; it has nothing to do with privacy noise."""


@dataclass(frozen=True)
class Row:
    """One line of the demo's table."""

    model: str
    epsilon: float | None
    metrics: Metrics
    seconds: float


@one_line_errors
def demo(
    quick: Annotated[bool, typer.Option("--quick", help="8,000 records, epsilon 1 and 3: a few seconds.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the model at epsilon = 1.")] = Path("demo"),
    force: _options.Force = False,
    as_json: _options.Json = False,
) -> None:
    """Fit bundled census data (Adult, 45,222 people) at several epsilons and compare.

    The data are public and split by a fixed permutation; every private fit draws real noise.
    """
    from dpconvex.cli.fit import write_outputs
    from dpconvex.cli.report import Measured

    with model_folder(out, force=force) as folder:
        train, test = split(QUICK_ROWS if quick else TRAIN)
        rows, model = _compare(train, test, QUICK_EPSILONS if quick else EPSILONS)
        private = [row for row in rows if row.epsilon is not None]
        measured = Measured(
            epsilons=tuple(row.epsilon for row in private if row.epsilon is not None),
            accuracies=tuple(row.metrics.accuracy for row in private),
            majority=rows[0].metrics.accuracy,
            non_private=rows[1].metrics.accuracy,
            note=f"Adult census data, which are public: {len(train):,} records to fit, {len(test):,} to test. "
            "One fit at each epsilon.",
        )
        write_outputs(model, folder, measured)
    if as_json:
        print_json(
            [{"model": r.model, "epsilon": r.epsilon, **r.metrics.to_dict(), "seconds": r.seconds} for r in rows]
        )
        return
    cells = [
        (
            row.model,
            "-" if row.epsilon is None else f"{row.epsilon:g}",
            f"{row.metrics.accuracy:.4f}",
            "-" if row.metrics.auc is None else f"{row.metrics.auc:.4f}",
            "-" if row.metrics.log_loss is None else f"{row.metrics.log_loss:.4f}",
            f"{row.seconds:.2f}",
        )
        for row in rows
    ]
    title = f"Adult census income: {len(train):,} records to fit, {len(test):,} to test"
    print_table(title, ("model", "epsilon", "accuracy", "AUC", "log-loss", "seconds"), cells, right=range(1, 6))
    print_text()
    print_text(f"Wrote {MODEL}, {CERTIFICATE} and {REPORT} (epsilon = 1) to {out}")


def split(rows: int) -> tuple[Any, Any]:
    """Return `rows` training records and the 9,036 test records of Adult, by a fixed public permutation."""
    import numpy as np

    from dpconvex.data import load_adult

    table = load_adult()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(table))
    return table.take(order[:rows]), table.take(order[TRAIN : TRAIN + TEST])


def _compare(train: Any, test: Any, epsilons: tuple[float, ...]) -> tuple[list[Row], Any]:
    """Return the rows of the table and the fitted private model at epsilon = 1."""
    from rich.progress import track

    from dpconvex.cli._metrics import evaluate
    from dpconvex.data import adult_schema
    from dpconvex.estimators import PrivateLogisticRegression

    schema = adult_schema()
    right = schema.encode_target(test)
    rows = _baselines(schema, train, test, right)
    progress = console(err=True)
    kept: Any = None
    for epsilon in track(
        epsilons, "Fitting privately", console=progress, disable=not progress.is_terminal, transient=True
    ):
        start = time.perf_counter()
        model = PrivateLogisticRegression(epsilon, schema=schema).fit(train)
        seconds = time.perf_counter() - start
        rows.append(Row("private", epsilon, evaluate(model.predict_proba(test), right), seconds))
        if epsilon == 1.0:
            kept = model
    return rows, kept


def _baselines(schema: Any, train: Any, test: Any, right: Any) -> list[Row]:
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from dpconvex.cli._metrics import evaluate

    start = time.perf_counter()
    labels = schema.encode_target(train)
    shares = np.bincount(labels, minlength=len(schema.classes)) / len(labels)
    majority = evaluate(np.tile(shares, (len(right), 1)), right)
    middle = time.perf_counter()
    plain = LogisticRegression(max_iter=1000).fit(schema.encode(train), labels)
    seconds = time.perf_counter() - middle
    non_private = evaluate(plain.predict_proba(schema.encode(test)), right)
    return [Row("majority class", None, majority, middle - start), Row("not private", None, non_private, seconds)]
