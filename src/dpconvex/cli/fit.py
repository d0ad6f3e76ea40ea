"""``dpconvex fit``: a table and its schema in; a model, its certificate and a report out. ``predict`` applies it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex import _validate
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay
from dpconvex.cli.evaluate import check_hold_out, hold_out, print_metrics, write_metrics
from dpconvex.cli.plan import plan_rows, print_plans
from dpconvex.cli.schema import print_labels
from dpconvex.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.cli._metrics import Metrics, RegressionMetrics
    from dpconvex.cli.report import Measured, Origin
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateLinearModel


@_options.describes_model
@_output.one_line_errors
def fit(
    table: Annotated[
        Path, typer.Argument(help="CSV or Parquet file with the private records; a folder or pattern of such files.")
    ],
    schema: _options.SchemaFile,
    epsilon: _options.Epsilon,
    target: _options.Target = None,
    out: Annotated[Path, typer.Option(help="Folder for model, certificate and report.")] = Path("model"),
    user_column: _options.UserColumn = None,
    test: _options.Test = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share of the records, chosen at random and in secret, to evaluate on.")
    ] = None,
    evaluate: Annotated[
        float | None,
        typer.Option(help="Epsilon of the private evaluation on the --holdout part: only the larger one is charged."),
    ] = None,
    seed: _options.Seed = None,
    budget: _options.Budget = None,
    purpose: _options.Purpose = "",
    engine: _options.Engine = None,
    address: _options.Address = None,
    memory: _options.Memory = None,
    force: _options.Force = False,
    as_json: _options.Json = False,
    **options: Any,
) -> None:
    """Fit a private linear model, and write model.skops, certificate.json and report.html.

    The folder appears whole or not at all. --force replaces an existing model folder. Ranges that the fit found, where
    the schema or --ranges leaves some open, are in schema.found.toml there: released, so other fits may declare them.
    """
    from dpconvex.cli.report import Origin
    from dpconvex.estimators.base import promise_of

    declared = _options.fit_schema(schema, target, user_column)
    estimator = _options.build(epsilon, options, schema=declared, seed=seed)
    promise = promise_of(estimator)  # refuses unusable parameters before anything is read
    check_hold_out(holdout, evaluate, table.is_dir() or engine not in (None, "memory"))
    if evaluate is not None:  # Theorem 5 of the docs, Private evaluation
        promise = dataclasses.replace(promise, epsilon=max(epsilon, evaluate))
    with _output.model_folder(out, force=force) as folder:
        held_out = read_test(test, declared)
        if budget is not None and (table.is_dir() or engine not in (None, "memory")):
            raise InvalidParameterError("budget", str(budget), "pays for single files", "Use dpconvex.Budget in Python")
        paid = pay(budget, promise, f"fit --model {estimator.kind}", table, declared, seed=seed)
        with opened_table(table, declared, engine, address, memory) as records:
            found = hold_out(estimator, records, holdout, evaluate)
        metrics = None if held_out is None else measure(estimator, held_out)
        if found is not None:
            write_metrics(found, folder, _output.EVALUATED)
        write_outputs(estimator, folder, Origin(table.name, purpose, paid))
    planned = estimator.plan(estimator.plan_.problem.n)
    plans = (estimator.plan_, *planned[1:])  # first what ran
    if as_json:
        certificate = estimator.certificate_.to_dict()
        names = (_output.MODEL, _output.CERTIFICATE, _output.REPORT, *[_output.FOUND] * bool(estimator.ranges_))
        files = [str(out / name) for name in names]
        measured = None if metrics is None else {**metrics.to_dict(), "private": False}
        facts = {"plan": plan_rows(plans)[0], "status": estimator.status_, "certificate": certificate}
        _output.print_json({"files": files, **facts, "test": measured, "evaluation": found and found.to_dict()})
        return
    print_plans(plans)
    before = planned[0].predicted_error.expected
    if before is not None and before != estimator.plan_.predicted_error.expected:
        _output.print_text(
            f"The chosen plan is shown as it went on from what it released first; before the run it "
            f"expected {_output.number(before)}, and was chosen by that."
        )
    print_labels(declared)
    _output.print_text()
    _output.print_text(estimator.certificate_.explain())
    _output.print_text()
    if found is not None:
        print_metrics(found, "held out")
        _output.print_text(f"Its certificate and the numbers: {_output.EVALUATED} and {_output.METRICS}.\n")
    if metrics is not None:
        _output.print_text(f"Test file, NOT PRIVATE: {metrics.text()}.")
    if estimator.status_ != "ok":
        _output.print_text(f"Status: {estimator.status_}. The run ended early; its last released point is the model.")
    if estimator.ranges_:
        _output.print_text(f"Wrote the schema with the ranges found to {out / _output.FOUND}")
    _output.print_text(f"Wrote {_output.MODEL}, {_output.CERTIFICATE} and {_output.REPORT} to {out}")


def write_outputs(
    estimator: PrivateLinearModel, folder: Path, origin: Origin, measured: Measured | None = None
) -> None:
    """Write the files of a fitted model into `folder`; `origin` and `measured` go into the report."""
    from dpconvex.cli.report import write_report
    from dpconvex.estimators.persistence import save_model

    save_model(estimator, folder / _output.MODEL)
    (folder / _output.CERTIFICATE).write_text(estimator.certificate_.to_json(), encoding="utf-8")
    write_report(estimator, folder / _output.REPORT, origin, measured)
    if estimator.ranges_ and estimator.found_schema_ is not None:
        (folder / _output.FOUND).write_text(estimator.found_schema_.to_toml(), encoding="utf-8")


def measure(estimator: PrivateLinearModel, held_out: Any) -> Metrics | RegressionMetrics:
    """Return how well a fitted model with a schema does on a public table; targets are clipped as they are in `fit`."""
    from dpconvex.cli._metrics import evaluate, evaluate_regression, evaluate_scores
    from dpconvex.estimators import PrivateLinearClassifier, ProbabilisticClassifier

    assert estimator.target_schema is not None
    right = estimator.target_schema.encode_target(held_out)
    if isinstance(estimator, ProbabilisticClassifier):
        return evaluate(estimator.predict_proba(held_out), right, estimator.decision_function(held_out))
    if isinstance(estimator, PrivateLinearClassifier):
        return evaluate_scores(estimator.decision_function(held_out), right)
    return evaluate_regression(estimator.predict(held_out), right)


def read_test(path: Path | None, schema: Schema) -> Any:
    """Read a public test file, if there is one, and refuse what `measure` could not use: before budget is spent."""
    from dpconvex.data import read_table

    if path is None:
        return None
    held_out = read_table(path, dataclasses.replace(schema, user=None))
    if len(schema.encode_target(held_out)) == 0:
        raise InvalidDataError("the test file holds no records; at least 1 is needed")
    return held_out


@_output.one_line_errors
def predict(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file; the target column is not needed.")],
    proba: Annotated[
        bool, typer.Option("--proba", help="Also write the probability of every class (logistic models).")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="CSV file to write. Default: stdout.")] = None,
) -> None:
    """Write one predicted label or number a row, as CSV."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    from dpconvex.data import read_table, write_atomically
    from dpconvex.estimators import PrivateSparseClassifier, ProbabilisticClassifier
    from dpconvex.estimators.persistence import load_model

    estimator = load_model(model / _output.MODEL if model.is_dir() else model)
    if estimator.schema is None:
        raise InvalidDataError(f"{model}: the model has no schema to read tables with. Use it from Python")
    if proba and not isinstance(estimator, ProbabilisticClassifier | PrivateSparseClassifier):
        raise InvalidParameterError(
            "proba", proba, f"needs a model that gives probabilities, and this is {type(estimator).__name__}", ""
        )
    features = read_table(table, estimator.schema, features_only=True)
    columns = {"prediction": pa.array(estimator.predict(features))}
    if isinstance(estimator, ProbabilisticClassifier | PrivateSparseClassifier) and proba:
        probabilities = estimator.predict_proba(features)
        columns |= {f"p({label})": pa.array(probabilities[:, k]) for k, label in enumerate(estimator.classes_)}
    result = pa.table(columns)
    if output is not None:
        write_atomically(output, lambda file: pacsv.write_csv(result, file))
        return
    sys.stdout.write(_output.csv_bytes(result).decode())


ENGINES = ("memory", "local", "dask", "ray")
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@contextmanager
def opened_table(
    path: Path, schema: Schema, engine: str | None, address: str | None, memory: str | None
) -> Iterator[Any]:
    """Open what `fit` takes: a table in memory, or one that the engine reads again at each pass.

    Without an engine, a file is read into memory, and a folder or pattern portion by portion.
    """
    from dpconvex.data import open_files, read_table

    many = path.is_dir() or set("*?[") & set(str(path))
    chosen = ("local" if many else "memory") if engine is None else engine
    _validate.choice("engine", chosen, ENGINES)
    for name, value, where in (("address", address, ("dask", "ray")), ("memory", memory, ("local",))):
        if value is not None and chosen not in where:
            raise InvalidParameterError(name, value, f"is for the engine {' or '.join(where)}", f"Leave out --{name}")
    if chosen == "memory":
        yield read_table(path, schema)
    elif chosen == "local":
        from dpconvex.problems.data.sources.arrow import MEMORY

        token = MEMORY.set(MEMORY.get() if memory is None else read_bytes(memory))
        try:
            yield open_files(path, schema)
        finally:
            MEMORY.reset(token)
    else:
        from dpconvex.problems.data.sources.cluster import opened

        with opened(str(path), chosen, address, schema.column_names()) as table:
            yield table


def read_bytes(text: str) -> int:
    """Return a number of bytes from a text such as 512MiB."""
    number = text.rstrip("KMGiB")
    unit = text[len(number) :]
    if not number.strip().isdecimal() or unit not in _UNITS or int(number) * _UNITS[unit] < 2**20:
        raise InvalidParameterError("memory", text, "must be at least 1MiB, as in 512MiB or 2GiB")
    return int(number) * _UNITS[unit]
