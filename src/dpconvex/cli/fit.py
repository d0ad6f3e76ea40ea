"""``dpconvex fit``: a table and its schema in; a model, its certificate and a report out. ``predict`` applies it.

``dpconvex fit-sparse`` does so for linear models over an l1 ball.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex import _validate
from dpconvex._arrow import pa, pacsv
from dpconvex._files import write_atomically
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay, write_certificate
from dpconvex.cli.evaluate import By, grouped, print_metrics, write_metrics
from dpconvex.cli.plan import plan_facts, plan_rows, print_plans, show_plans
from dpconvex.cli.schema import print_labels
from dpconvex.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms import Plan
    from dpconvex.cli._metrics import Metrics, RegressionMetrics
    from dpconvex.cli.report import Measured, Origin
    from dpconvex.estimators import PrivateSparseModel

CLUSTERS = ("dask", "ray")
ENGINES = ("memory", "local", *CLUSTERS)
LOOKED = 100_000  #: Most rows that `tell_unread` looks at
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def engine_for(path: Path, engine: str | None, address: str | None = None, memory: str | None = None) -> str:
    """Return the engine that is meant, by default by the path; refuse options that it does not have."""
    many = path.is_dir() or (set("*?[") & set(str(path)) and not path.exists())
    chosen = _validate.choice("engine", ("local" if many else "memory") if engine is None else engine, ENGINES)
    for name, value, where in (("address", address, CLUSTERS), ("memory", memory, ("local",))):
        if value is not None and chosen not in where:
            raise InvalidParameterError(name, value, f"is for the engine {' or '.join(where)}", f"Leave out --{name}")
    if chosen == "memory" and path.is_dir():
        raise InvalidParameterError("engine", chosen, "reads files and patterns", "Use --engine local for a folder")
    if chosen in CLUSTERS and str(path).lower().endswith((".csv", ".tsv", ".gz")):
        raise InvalidParameterError("engine", chosen, "reads Parquet files", "Use --engine local, or convert them")
    return chosen


@contextmanager
def opened_table(
    path: Path, schema: dpconvex.Schema, engine: str | None, at: str | None, memory: str | None
) -> Iterator[Callable[[], Any]]:
    """Open files and reach the engine; yield a function that reads the table, to be called once a run has paid."""
    from dpconvex.data import check_table
    from dpconvex.problems.data.sources.arrow import MEMORY
    from dpconvex.problems.data.sources.cluster import opened as on_engine

    chosen = engine_for(path, engine, at, memory)
    opened: Any = dpconvex.open_files(path, schema) if chosen == "local" else None
    with ExitStack() as stack:
        if memory is not None:
            stack.callback(MEMORY.reset, MEMORY.set(read_bytes(memory)))
        if chosen in CLUSTERS:
            check_table(path, schema, folders=False)
            yield stack.enter_context(on_engine(str(path), chosen, at, schema.column_names()))
        else:
            yield lambda: dpconvex.read_table(path, schema) if opened is None else opened


def read_bytes(text: str) -> int:
    """Return a number of bytes from a text such as 512MiB."""
    number = text.rstrip("KMGiB")
    unit = text[len(number) :]
    if not number.strip().isdecimal() or unit not in _UNITS or int(number) * _UNITS[unit] < 2**20:
        raise InvalidParameterError("memory", text, "must be at least 1MiB, as in 512MiB or 2GiB")
    return int(number) * _UNITS[unit]


@_options.describes_model
@_output.one_line_errors
def fit(
    table: Annotated[
        Path, typer.Argument(help="CSV or Parquet file with the private records; a folder or pattern of such files.")
    ],
    schema: _options.SchemaFile, epsilon: _options.Epsilon, target: _options.Target = None,
    out: Annotated[Path, typer.Option(help="Folder for model, certificate and report.")] = Path("model"),
    user_column: _options.UserColumn = None, rows: _options.Declared = None, test: _options.Test = None,
    holdout: Annotated[
        float | None, typer.Option(help="Share of the records to hold out, at random and in secret, for --evaluate.")
    ] = None,
    evaluate: Annotated[
        float | None,
        typer.Option(help="Epsilon of a private evaluation on the --holdout part; the larger epsilon is charged."),
    ] = None,
    by: By = None, seed: _options.Seed = None, budget: _options.Budget = None, purpose: _options.Purpose = "",
    engine: _options.Engine = None, address: _options.Address = None, memory: _options.Memory = None,
    force: _options.Force = False, as_json: _options.Json = False, **options: Any,
) -> None:  # fmt: skip
    """Fit a private linear model, and write model.skops, certificate.json and report.html.

    The folder appears whole or not at all. --force replaces an existing model folder. Ranges that the fit found, where
    the schema or --ranges leaves some open, and parts of declared ones that it kept, are in schema.found.toml there:
    released, so other fits may declare them.
    """
    from dpconvex.cli.report import Origin
    from dpconvex.estimators._intervals import summary_of
    from dpconvex.estimators._streams import promise_of
    from dpconvex.estimators.evaluation import require_replaced

    declared = _options.fit_schema(schema, target, user_column)
    estimator = _options.build(epsilon, options, schema=declared, seed=seed).set_params(rows=rows)
    promise = promise_of(estimator)  # refuses unusable parameters before anything is read
    _require_together(holdout, evaluate, by)
    levels, columns = grouped(declared, by)
    if evaluate is not None:  # Theorem 5 of the docs, Private evaluation
        require_replaced(estimator)
        promise = dataclasses.replace(promise, epsilon=max(epsilon, evaluate))
    with _output.working("Fitting"), _output.model_folder(out, force=force) as folder:
        held_out = read_test(test, declared)
        engine = engine_for(table, engine, address, memory)
        if holdout is not None and engine != "memory":
            raise InvalidParameterError("holdout", holdout, "needs a table in memory: one file", "Leave out --engine")
        if engine != "memory" and not promise.neighboring.fixes_size:
            raise InvalidParameterError("engine", engine, "must be 'memory' for these neighbors", "Use --engine memory")
        with opened_table(table, columns, engine, address, memory) as read:
            plan = lambda n: promise_of(estimator, max(1, n - round((holdout or 0.0) * n)))  # noqa: E731
            paid = pay(budget, promise, f"fit --model {estimator.kind}", table, columns, seed=seed, plan=plan)
            if holdout is None or evaluate is None:
                found = None
                estimator.fit(read())
            else:
                found = dpconvex.fit_and_evaluate(estimator, read(), epsilon=evaluate, holdout=holdout, by=levels)
        metrics = None if held_out is None else measure(estimator, held_out)
        if found is not None:
            write_metrics(found, folder, _output.EVALUATED)
        write_outputs(estimator, folder, Origin(table.name, purpose, paid, found))
    planned = estimator.plan(estimator.plan_.problem.n)
    plans, intervals = (estimator.plan_, *planned[1:]), summary_of(estimator)  # first what ran
    names = (_output.MODEL, _output.CERTIFICATE, _output.REPORT)
    if as_json:
        stated = {"test": metrics, "evaluation": found, "intervals": intervals}
        facts = {name: each and each.to_dict() for name, each in stated.items()}
        facts |= {"plan": plan_rows(plans)[0], "status": estimator.status_}
        return _output.print_files(estimator.certificate_, out, *names, _output.FOUND, **facts)
    print_plans(plans)
    before = planned[0].predicted_error.expected
    if before is not None and before != estimator.plan_.predicted_error.expected:
        _output.print_text(
            f"The chosen plan is shown as it went on from what it released first; before the run it "
            f"expected {_output.number(before)}, and was chosen by that."
        )
    print_labels(declared)
    if intervals:
        _output.print_text(f"\n{intervals}")
    if found is not None:
        _output.print_text()
        print_metrics(found, "held out")
        _output.print_text(f"Its certificate and the numbers: {_output.EVALUATED} and {_output.METRICS}.")
    if estimator.status_ != "ok":
        _output.print_text(f"Status: {estimator.status_}. The run ended early; its last released point is the model.")
    if estimator.ranges_:
        _output.print_text(f"Wrote the schema with the ranges found to {out / _output.FOUND}")
    _output.print_released(estimator.certificate_, out, *names, metrics=metrics)


def _require_together(holdout: float | None, evaluate: float | None, by: list[str] | None) -> None:
    if (holdout is None) != (evaluate is None):
        remedy = "Give both, as in --holdout 0.2 --evaluate 1"
        raise InvalidParameterError("holdout", holdout, "goes with --evaluate EPSILON", remedy)
    if by and evaluate is None:
        raise InvalidParameterError("by", by[0], "goes with --evaluate", "Give --holdout and --evaluate, too")


def write_outputs(model: Any, folder: Path, origin: Origin, measured: Measured | None = None) -> None:
    """Write the files of a fitted linear model into `folder`; `origin` and `measured` go into the report."""
    from dpconvex.cli.report import write_report

    model.certificate_ = write_certificate(model.certificate_, folder, origin.paid)
    dpconvex.save_model(model, folder / _output.MODEL)
    write_found(model, folder)
    with _output.own_risk(_output.REPORT):
        write_report(model, folder / _output.REPORT, origin, measured)


def write_found(model: Any, folder: Path) -> None:
    """Write the schema with the ranges that a fit found, if it found any and has a schema."""
    if model.ranges_ and model.found_schema_ is not None:
        (folder / _output.FOUND).write_text(model.found_schema_.to_toml(), encoding="utf-8")


def measure(estimator: Any, held_out: Any) -> Metrics | RegressionMetrics:
    """Return how well a fitted model with a schema does on a public table; targets are clipped as they are in `fit`."""
    from dpconvex.cli._metrics import evaluate, evaluate_regression

    schema = getattr(estimator, "target_schema", estimator.schema)
    right = schema.encode_target(held_out)
    if not hasattr(estimator, "classes_"):
        found = evaluate_regression(estimator.predict(held_out), right, estimator._level)
        return dataclasses.replace(found, clipped=(schema.target.lower, schema.target.upper))
    probabilities = estimator.predict_proba(held_out) if hasattr(estimator, "predict_proba") else None
    return evaluate(estimator.decision_function(held_out), right, probabilities)


def read_test(path: Path | None, schema: dpconvex.Schema) -> Any:
    """Read a public test file, if there is one, and refuse what `measure` could not use: before budget is spent."""
    if path is None:
        return None
    held_out = dpconvex.read_table(path, dataclasses.replace(schema, user=None))
    if len(schema.encode_target(held_out)) == 0:
        raise InvalidDataError("the test file holds no records; at least 1 is needed")
    return held_out


@_output.one_line_errors
def predict(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file, folder or pattern; no target column is needed.")],
    proba: Annotated[
        bool, typer.Option("--proba", help="Also write the probability of every class (logistic models).")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="CSV file to write. Default: stdout.")] = None,
    keep: Annotated[str | None, typer.Option("--id", help="Column to keep before the predictions.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Say on stderr which columns can hardly be read.")] = False,
    engine: _options.Engine = None, address: _options.Address = None, memory: _options.Memory = None,
) -> None:  # fmt: skip
    """Write one predicted label or number a row, as CSV."""
    estimator = dpconvex.load_model(model)
    if estimator.schema is None:
        raise InvalidDataError(f"{model}: the model has no schema to read tables with. Use it from Python")
    if proba and not hasattr(estimator, "predict_proba"):
        what = f"needs a model that gives probabilities, and this is {type(estimator).__name__}"
        raise InvalidParameterError("proba", proba, what, "")
    head = ["prediction", *(f"p({label})" for label in getattr(estimator, "classes_", ()) if proba)]
    if keep in head:
        raise InvalidParameterError("id", keep, "is the name of a column of predictions", "Rename it in the table")
    own = keep if keep is None or keep not in estimator.schema.column_names(features_only=True) else None
    features = dataclasses.replace(estimator.schema, target=None, user=own, weight=None, weight_cap=None)
    with opened_table(table, features, engine, address, memory) as read:
        rows = read()
        if check:
            tell_unread(rows, features)
        parts = predictions(estimator, rows, features.column_names(), proba, keep)
        head = head if keep is None else [keep, *head]
        if output is not None:
            write_atomically(output, lambda file: write_csv(parts, file, head))
        else:
            write_csv(parts, sys.stdout.buffer, head)


def tell_unread(rows: Any, schema: dpconvex.Schema) -> None:
    """Say on stderr of which columns much cannot be read by the schema: not private, so only where it is asked for."""
    import narwhals as nw
    import numpy as np

    from dpconvex.data import look_at
    from dpconvex.problems.data.sources.cluster import open_source

    names = schema.column_names()
    if (source := open_source(rows, names)) is not None:
        if len(source) == 0:
            return
        first = source.taken(np.arange(min(LOOKED, len(source))))
        as_arrow = first.encoded(lambda part: (nw.from_native(part, eager_only=True).to_arrow(), ()), len(names))
        rows = pa.concat_tables(as_arrow.run(lambda portion, *_: portion[0]), promote_options="permissive")
    own = {each.name: each for each in schema.columns}
    for each in look_at(rows.slice(0, LOOKED), dataclasses.replace(schema, user=None)).columns:
        known = getattr(own[each.name], "indicator", False), getattr(own[each.name], "other", False)  # as declared
        words = (each.missing * (not known[0]), 0.5, "missing or unreadable"), (each.clipped, 0.05, "out of range")
        for share, least, what in (*words, (each.unlisted * (not known[1]), 0.01, "not listed")):
            if share > least:
                print(f"note: {each.name!r}: {share:.0%} of the cells are {what}, by the schema", file=sys.stderr)


def predictions(estimator: Any, rows: Any, names: Sequence[str], proba: bool, keep: str | None) -> Iterator[pa.Table]:
    """Yield predictions, one table for each portion that is read, with a column of the rows before them."""
    from dpconvex.estimators._features import PREDICTED
    from dpconvex.problems.data.sources.cluster import open_source

    model = estimator._blind()  # workers may have it

    def predicted(part: Any) -> tuple[Any, Any]:
        if len(part) == 0:
            return None, ()
        columns = {} if keep is None else {keep: part[keep]}
        columns |= {"prediction": pa.array(model.predict(part))}
        if proba:
            probabilities = model.predict_proba(part)
            columns |= {f"p({label})": pa.array(probabilities[:, k]) for k, label in enumerate(model.classes_)}
        return pa.table(columns), range(len(part))

    if (source := open_source(rows, names)) is not None and len(source) == 0:
        return iter((None,))
    if source is None:
        return (predicted(rows.slice(k, PREDICTED))[0] for k in range(0, max(1, len(rows)), PREDICTED))
    found = source.encoded(predicted, len(names)).run(lambda portion, *_: portion[0])
    return (part for part in found if part is not None)


def write_csv(parts: Iterator[pa.Table | None], file: Any, head: Sequence[str]) -> None:
    """Write tables of the same columns, named in `head`, as one; of no records the names alone."""
    if (first := next(parts)) is None:
        first = pa.table({name: pa.nulls(0) for name in head})
    with pacsv.CSVWriter(file, first.schema) as writer:
        for part in itertools.chain([first], parts):
            writer.write_table(part)


@_output.one_line_errors
def fit_sparse(
    schema: _options.SchemaFile, epsilon: _options.Epsilon, table: _options.PrivateTable = None,
    group_column: Annotated[
        str | None, typer.Option(help="Column of groups: fit for the group that fares worst (classifiers).")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Largest l1 norm of coefficients; it does not affect privacy.")
    ] = None,
    delta: _options.SmallDelta = 1e-6, algorithm: _options.Listed = "auto",
    constants: Annotated[
        str, _options.constants(f"anytime_mirror_descent, variance_reduced_frank_wolfe, {_options.GAME_METHODS}")
    ] = "calibrated",
    out: Annotated[Path, typer.Option(help="Folder for model, certificate and report.")] = Path("model"),
    rows: _options.Rows = None, test: _options.Test = None, seed: _options.Seed = None,
    budget: _options.Budget = None, purpose: _options.Purpose = "", engine: _options.Engine = None,
    address: _options.Address = None, memory: _options.Memory = None, force: _options.Force = False,
    as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Fit a private linear model with few large coefficients: logistic for classes, least squares for numbers.

    The schema's target decides which. `dpconvex predict` applies the model. With --rows: show plans; no data are read.
    """
    from dpconvex.cli.report import Origin

    declared = dpconvex.Schema.from_toml(schema)
    declared.require_confirmed(str(schema))
    options = {"schema": declared, "radius": radius, "algorithm": algorithm, "constants": constants}
    estimator = unfitted(declared, group_column, epsilon, delta, {**options, "random_state": seed})
    rows = _options.planned_rows(table, rows)
    plans = estimator.plan(rows)  # refuses unusable parameters before anything is read
    promise = dpconvex.PrivacyParams(epsilon, delta)  # plans for groups promise less: counting them comes first
    if table is None:
        plans[0].warn(rows, promise)
        return _show_sparse(plans, promise, as_json)
    with _output.model_folder(out, force=force) as folder:
        held_out = read_test(test, declared)
        with _output.working("Fitting"), opened_table(table, declared, engine, address, memory) as read:
            paid = pay(budget, promise, "fit-sparse", table, declared, seed=seed, plan=estimator.plan)
            estimator.fit(read())
        metrics = None if held_out is None else measure(estimator, held_out)
        write_outputs(estimator, folder, Origin(table.name, purpose, paid))
    names = (_output.MODEL, _output.CERTIFICATE, _output.REPORT, _output.FOUND)
    if as_json:
        measures = {"plan": sparse_facts(estimator.plan_), "test": metrics and metrics.to_dict()}
        return _output.print_files(estimator.certificate_, out, *names, **measures)
    _show_sparse((estimator.plan_,), promise, False)
    print_labels(declared)
    _output.print_released(estimator.certificate_, out, *names, metrics=metrics)


def unfitted(schema: dpconvex.Schema, group: str | None, epsilon: float, delta: float, options: dict[str, Any]) -> Any:
    """Return the unfitted estimator for a schema's target; with a column of groups, the worst-group classifier."""
    numeric = schema.target is not None and schema.target.numeric
    if group is not None and numeric:
        raise InvalidParameterError("group_column", group, "is for classifiers, and the schema's target is a number")
    if group is not None:
        return dpconvex.PrivateWorstGroupClassifier(epsilon, delta, group_column=group, **options)
    kind: type[PrivateSparseModel] = dpconvex.PrivateLasso if numeric else dpconvex.PrivateSparseLogisticRegression
    return kind(epsilon, delta, **options)


def sparse_facts(plan: Plan) -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    error = plan.predicted_error
    own = {"excess_loss_bound": error.bound, "trivial_loss": error.trivial, "vacuous": error.vacuous}
    return plan_facts(plan, **own, yardstick=plan.yardstick)


def _show_sparse(plans: Sequence[Plan], promise: dpconvex.PrivacyParams, as_json: bool) -> None:
    n, count = plans[0].public["n"], plans[0].public["dx"] // 2
    title = f"Plans for {n:,} records, {count:,} coefficients, {_output.budget_words(promise)}"
    note = "* chosen. bound: on the loss above that of the best coefficients of this l1 norm, proved but where the note"
    note += " says estimate; vacuous if it is not below that of coefficients 0, at most"
    note += f" {_output.number(plans[0].predicted_error.trivial)}."
    show_plans(title, plans, note, n, sparse_facts if as_json else None, promise)
