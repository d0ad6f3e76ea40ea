"""``dpconvex fit-sparse``: a table and its schema in; a linear model over an l1 ball and its certificate out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options
from dpconvex.cli._console import number, one_line_errors, print_json, print_table, print_text
from dpconvex.cli._folder import CERTIFICATE, MODEL, model_folder
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms.base import Plan
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateSparseModel


@one_line_errors
def fit_sparse(
    schema: _options.SchemaFile,
    epsilon: _options.Epsilon,
    table: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet file with the private records. Without it: --rows.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups: train for the group that fares worst (classifiers).")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="Largest l1 norm of the coefficients. Never affects privacy.")
    ] = None,
    delta: Annotated[float, typer.Option(help="In [0, 1/2), far below 1 divided by the number of records.")] = 1e-6,
    algorithm: Annotated[str, typer.Option(help="auto, or a name that the plan lists.")] = "auto",
    constants: Annotated[str, typer.Option(help="calibrated, or paper.")] = "calibrated",
    out: Annotated[Path, typer.Option(help="Folder for model.skops and certificate.json.")] = Path("model"),
    rows: Annotated[int | None, typer.Option(help="Plan only, for this number of records.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed the noise: NOT PRIVATE, for tests only.")] = None,
    force: _options.Force = False,
    as_json: _options.Json = False,
) -> None:
    """Fit a private linear model with few large coefficients: logistic for classes, least squares for numbers.

    The schema's target decides which. `dpconvex predict` applies the model. With --rows: show plans; no data are read.
    """
    from dpconvex.data import Schema, read_table
    from dpconvex.estimators.persistence import save_model

    declared = Schema.from_toml(schema)
    declared.require_confirmed(str(schema))
    options = {"schema": declared, "radius": radius, "algorithm": algorithm, "constants": constants}
    estimator = build(declared, group, epsilon, delta, {**options, "random_state": seed})
    if (table is None) == (rows is None):
        what = "must be given where there is no table" if rows is None else "is for a plan without data"
        raise InvalidParameterError("rows", rows, what, "Give either a table, or --rows for a plan")
    plans = estimator.plan(10_000 if rows is None else rows)  # refuses unusable parameters before anything is read
    if table is None:
        _show(plans, as_json)
        return
    with model_folder(out, force=force) as folder:
        estimator.fit(read_table(table, declared))
        save_model(estimator, folder / MODEL)
        (folder / CERTIFICATE).write_text(estimator.certificate_.to_json(), encoding="utf-8")
    if as_json:
        files = [str(out / name) for name in (MODEL, CERTIFICATE)]
        certificate = estimator.certificate_.to_dict()
        print_json({"files": files, "plan": facts(estimator.plan_), "certificate": certificate})
        return
    _show((estimator.plan_,), False)
    print_text()
    print_text(estimator.certificate_.explain())
    print_text(f"\nWrote {MODEL} and {CERTIFICATE} to {out}")


def build(schema: Schema, group: str | None, epsilon: float, delta: float, options: dict[str, Any]) -> Any:
    """Return the unfitted estimator for a schema's target; with a column of groups, the worst-group classifier.

    Raises
    ------
    InvalidParameterError
        If groups are given for a numeric target.
    """
    from dpconvex.estimators import PrivateLasso, PrivateSparseLogisticRegression, PrivateWorstGroupClassifier

    numeric = schema.target is not None and schema.target.numeric
    if group is not None and numeric:
        raise InvalidParameterError("group", group, "is for classifiers, and the schema's target is a number")
    if group is not None:
        return PrivateWorstGroupClassifier(epsilon, delta, group_column=group, **options)
    kind: type[PrivateSparseModel] = PrivateLasso if numeric else PrivateSparseLogisticRegression
    return kind(epsilon, delta, **options)


def facts(plan: Plan) -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    error = plan.predicted_error
    return {
        "algorithm": plan.algorithm,
        "constants": plan.constants,
        "predicted_error": error.bound,
        "trivial_error": error.trivial,
        "source": error.source,
        "public": dict(plan.public),
    }


def _show(plans: Sequence[Plan], as_json: bool) -> None:
    """Print plans, the chosen one first."""
    if as_json:
        print_json([facts(plan) for plan in plans])
        return
    public, privacy = plans[0].public, plans[0].privacy
    errors = [plan.predicted_error for plan in plans]
    cells = [
        (plan.algorithm.replace("_", " "), number(error.bound), number(error.trivial))
        for plan, error in zip(plans, errors, strict=True)
    ]
    print_table(
        f"Plans for {public['n']:,} records, {public['dx'] // 2:,} coefficients, epsilon {privacy.epsilon:g}, "
        f"delta {privacy.delta:g}",
        ("algorithm", "bound on the excess", "trivial"),
        cells,
        right=(1, 2),
        marked=0,
    )
