"""``dpconvex fit``: a table and its schema in; a model, its certificate and a report out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options
from dpconvex.cli._console import number, one_line_errors, print_json, print_text
from dpconvex.cli._folder import CERTIFICATE, MODEL, REPORT, model_folder
from dpconvex.cli._users import with_user
from dpconvex.cli.budget import pay
from dpconvex.cli.plan import plan_rows, print_plans
from dpconvex.cli.schema import print_labels
from dpconvex.errors import InvalidDataError, SchemaError

if TYPE_CHECKING:
    from dpconvex.cli._metrics import Metrics, RegressionMetrics
    from dpconvex.cli.report import Measured, Origin
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateLinearModel


@one_line_errors
def fit(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with the private records.")],
    schema: _options.SchemaFile,
    epsilon: _options.Epsilon,
    target: Annotated[str | None, typer.Option(help="Column to predict. Default: the schema's.")] = None,
    model: _options.Model = None,
    quantile: _options.Quantile = None,
    heavy_tailed: _options.HeavyTailed = None,
    delta: _options.Delta = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for model, certificate and report.")] = Path("model"),
    algorithm: _options.Algorithm = "auto",
    constants: _options.Constants = "calibrated",
    noise: _options.Noise = "auto",
    l2: _options.L2 = None,
    coefficient_norm: _options.CoefficientNorm = None,
    tilt: _options.Tilt = 0.0,
    adversarial_radius: _options.AdversarialRadius = 0.0,
    adversarial_norm: _options.AdversarialNorm = "l2",
    slope_cap: _options.SlopeCap = None,
    residual_cap: _options.ResidualCap = None,
    risk: _options.Risk = "empirical",
    user_column: _options.UserColumn = None,
    records_per_user: _options.RecordsPerUser = 1,
    test: _options.Test = None,
    seed: Annotated[int | None, typer.Option(help="Seed the noise: NOT PRIVATE, for tests only.")] = None,
    budget: _options.Budget = None,
    purpose: _options.Purpose = "",
    force: _options.Force = False,
    as_json: _options.Json = False,
) -> None:
    """Fit a private linear model, and write model.skops, certificate.json and report.html.

    The folder appears whole or not at all. --force replaces an existing model folder.
    """
    from dpconvex.cli.report import Origin
    from dpconvex.data import Schema, read_table
    from dpconvex.estimators.base import promise_of

    declared = Schema.from_toml(schema)
    declared.require_confirmed(str(schema))
    declared = with_user(with_target(declared, target), user_column)
    estimator = _options.build(
        model,
        epsilon,
        delta,
        schema=declared,
        quantile=quantile,
        heavy_tailed=heavy_tailed,
        algorithm=algorithm,
        constants=constants,
        noise=noise,
        l2=l2,
        coefficient_norm=coefficient_norm,
        tilt=tilt,
        adversarial_radius=adversarial_radius,
        adversarial_norm=adversarial_norm,
        slope_cap=slope_cap,
        residual_cap=residual_cap,
        risk=risk,
        records_per_user=records_per_user,
        seed=seed,
    )
    promise = promise_of(estimator)  # refuses unusable parameters before anything is read
    with model_folder(out, force=force) as folder:
        held_out = read_test(test, declared)
        paid = pay(budget, promise, f"fit --model {estimator.kind}", table, declared, seed=seed)
        records = read_table(table, declared)
        estimator.fit(records)
        metrics = None if held_out is None else measure(estimator, held_out)
        write_outputs(estimator, folder, Origin(table.name, purpose, paid))
    planned = estimator.plan(estimator.plan_.problem.n)
    plans = (estimator.plan_, *planned[1:])  # first what ran
    if as_json:
        certificate = estimator.certificate_.to_dict()
        files = [str(out / name) for name in (MODEL, CERTIFICATE, REPORT)]
        measured = None if metrics is None else {**metrics.to_dict(), "private": False}
        facts = {"plan": plan_rows(plans)[0], "status": estimator.status_, "certificate": certificate}
        print_json({"files": files, **facts, "test": measured})
        return
    print_plans(plans)
    before = planned[0].predicted_error.expected
    if before is not None and before != estimator.plan_.predicted_error.expected:
        print_text(
            f"The chosen plan is shown as it went on from what it released first; before the run it "
            f"expected {number(before)}, and was chosen by that."
        )
    print_labels(declared)
    print_text()
    print_text(estimator.certificate_.explain())
    print_text()
    if metrics is not None:
        print_text(f"Test file, NOT PRIVATE: {metrics.text()}.")
    if estimator.status_ != "ok":
        print_text(f"Status: {estimator.status_}. The run ended early; its last released point is the model.")
    print_text(f"Wrote {MODEL}, {CERTIFICATE} and {REPORT} to {out}")


def write_outputs(
    estimator: PrivateLinearModel, folder: Path, origin: Origin, measured: Measured | None = None
) -> None:
    """Write the three files of a fitted model into `folder`; `origin` and `measured` go into the report."""
    from dpconvex.cli.report import write_report
    from dpconvex.estimators.persistence import save_model

    save_model(estimator, folder / MODEL)
    (folder / CERTIFICATE).write_text(estimator.certificate_.to_json(), encoding="utf-8")
    write_report(estimator, folder / REPORT, origin, measured)


def with_target(schema: Schema, target: str | None) -> Schema:
    """Return a schema with another name of the target's column, where one is given.

    Raises
    ------
    SchemaError
        If the schema has no target.
    """
    if schema.target is None:
        raise SchemaError("the schema declares no target. Add [target] with name and classes, or with lower and upper")
    if target is None or target == schema.target.name:
        return schema
    renamed = dataclasses.replace(schema.target, name=target)  # pyright: ignore[reportArgumentType]
    return dataclasses.replace(schema, target=renamed)


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
