"""``dpconvex fit-sparse``: a table and its schema in; a linear model over an l1 ball and its certificate out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay, write_certificate
from dpconvex.cli.fit import measure, opened_table, read_test
from dpconvex.cli.plan import plan_facts, show_plans
from dpconvex.cli.schema import print_labels
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms import Plan
    from dpconvex.estimators import PrivateSparseModel


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
    out: Annotated[Path, typer.Option(help="Folder for model.skops and certificate.json.")] = Path("model"),
    rows: _options.Rows = None, test: _options.Test = None, seed: _options.Seed = None,
    budget: _options.Budget = None, engine: _options.Engine = None, address: _options.Address = None,
    memory: _options.Memory = None, force: _options.Force = False, as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Fit a private linear model with few large coefficients: logistic for classes, least squares for numbers.

    The schema's target decides which. `dpconvex predict` applies the model. With --rows: show plans; no data are read.
    """
    from dpconvex.algorithms.base import warn_of

    declared = dpconvex.Schema.from_toml(schema)
    declared.require_confirmed(str(schema))
    options = {"schema": declared, "radius": radius, "algorithm": algorithm, "constants": constants}
    estimator = build(declared, group_column, epsilon, delta, {**options, "random_state": seed})
    rows = _options.planned_rows(table, rows)
    plans = estimator.plan(rows)  # refuses unusable parameters before anything is read
    promise = dpconvex.PrivacyParams(epsilon, delta)  # plans for groups promise less: counting them comes first
    if table is None:
        warn_of(plans[0], rows, promise)
        return _show(plans, promise, as_json)
    with _output.model_folder(out, force=force) as folder:
        held_out = read_test(test, declared)
        with _output.working("Fitting"), opened_table(table, declared, engine, address, memory) as read:
            paid = pay(budget, promise, "fit-sparse", table, declared, seed=seed)
            estimator.fit(read())
        metrics = None if held_out is None else measure(estimator, held_out)
        estimator.certificate_ = write_certificate(estimator.certificate_, folder, paid)
        dpconvex.save_model(estimator, folder / _output.MODEL)
    names = (_output.MODEL, _output.CERTIFICATE)
    if as_json:
        measures = {"plan": facts(estimator.plan_), "test": metrics and metrics.to_dict()}
        return _output.print_files(estimator.certificate_, out, *names, **measures)
    _show((estimator.plan_,), promise, False)
    print_labels(declared)
    _output.print_released(estimator.certificate_, out, *names, metrics=metrics)


def build(schema: "dpconvex.Schema", group: str | None, epsilon: float, delta: float, options: dict[str, Any]) -> Any:
    """Return the unfitted estimator for a schema's target; with a column of groups, the worst-group classifier."""
    numeric = schema.target is not None and schema.target.numeric
    if group is not None and numeric:
        raise InvalidParameterError("group_column", group, "is for classifiers, and the schema's target is a number")
    if group is not None:
        return dpconvex.PrivateWorstGroupClassifier(epsilon, delta, group_column=group, **options)
    kind: type[PrivateSparseModel] = dpconvex.PrivateLasso if numeric else dpconvex.PrivateSparseLogisticRegression
    return kind(epsilon, delta, **options)


def facts(plan: "Plan") -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    error = plan.predicted_error
    own = {"excess_loss_bound": error.bound, "trivial_loss": error.trivial, "vacuous": error.vacuous}
    return plan_facts(plan, **own, yardstick=plan.yardstick)


def _show(plans: "Sequence[Plan]", promise: "dpconvex.PrivacyParams", as_json: bool) -> None:
    n, count = plans[0].public["n"], plans[0].public["dx"] // 2
    title = f"Plans for {n:,} records, {count:,} coefficients, {_output.budget_words(promise)}"
    note = "* chosen. bound: on the loss above that of the best coefficients of this l1 norm, proved but where the note"
    note += " says estimate; vacuous if it is not below that of coefficients 0, at most"
    note += f" {_output.number(plans[0].predicted_error.trivial)}."
    show_plans(title, plans, note, n, facts if as_json else None, promise)
