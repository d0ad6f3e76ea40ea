"""``dpconvex evaluate``: a model and a private test table in; metrics with intervals and their certificate out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import dpconvex
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import Paid, pay, write_certificate
from dpconvex.errors import InvalidDataError

By = Annotated[list[str] | None, typer.Option(
    help="Column whose groups are reported too, at no further price; repeat it. A categorical column of the schema, or "
    "COLUMN=LEVEL,LEVEL with its public levels."
)]  # fmt: skip


@_output.one_line_errors
def evaluate(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with the PRIVATE test records.")],
    epsilon: _options.Epsilon, by: By = None, user_column: _options.UserColumn = None,
    out: Annotated[Path, typer.Option(help="Folder for the metrics, a page and the certificate.")] = Path("evaluation"),
    seed: _options.Seed = None, budget: _options.Budget = None, force: _options.ForceOwn = False,
    as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Measure a model on private records: accuracy, AUC, log-loss and calibration with intervals, for one epsilon.

    The test records must not be those of the fit, or else both prices add up: see --holdout of `fit`.
    """
    from dpconvex.cli.report import evaluation_content
    from dpconvex.estimators._digest import model_digest

    estimator = dpconvex.load_model(model)
    if estimator.schema is None or estimator.schema.target is None:
        raise InvalidDataError(f"{model}: the model has no schema to read tables with. Use private_metrics in Python")
    digest = model_digest(estimator)  # of the model as it was fitted
    schema = estimator.schema = _options.with_user(estimator.schema, user_column)
    levels, read = grouped(schema, by)
    read = replace(read, weight=None, weight_cap=None)
    if table.is_dir():
        dpconvex.read_table(table, read)  # refuses it, before anything is paid
    promise = dpconvex.PrivacyParams(epsilon, unit=dpconvex.Unit.RECORD if schema.user is None else dpconvex.Unit.USER)
    with _output.model_folder(out, force=force) as folder:
        paid = pay(budget, promise, "evaluate", table, read, seed=seed)
        with _output.working("Evaluating"):
            records = dpconvex.read_table(table, read)
            found = dpconvex.private_metrics(estimator, records, epsilon=epsilon, by=levels, random_state=seed)
        found = replace(found, certificate_=replace(found.certificate_, model=digest))
        found = write_metrics(found, folder, _output.CERTIFICATE, paid)
        with _output.own_risk(_output.REPORT):
            page = {"evaluated": evaluation_content(found), "certificate": found.certificate_, "number": _output.number}
            _output.write_page(folder / _output.REPORT, "evaluation.html.j2", **page)
    names = (_output.METRICS, _output.CERTIFICATE, _output.REPORT)
    if as_json:
        return _output.print_files(found.certificate_, out, *names, **found.to_dict())
    print_metrics(found, "private test records")
    if paid is not None:
        _output.print_text(f"\nPaid from {paid.text()}")
    _output.print_released(found.certificate_, out, *names)


def grouped(schema: "dpconvex.Schema", by: Sequence[str] | None) -> "tuple[Any, dpconvex.Schema]":
    """Return the public levels of columns to group by (None for none), and the schema with those that it lacks."""
    from dpconvex.estimators.evaluation import levels_of

    named = [name for name in by or [] if "=" not in name]
    given = {name.partition("=")[0]: tuple(name.partition("=")[2].split(",")) for name in by or [] if "=" in name}
    levels, known = {**levels_of(schema, named), **levels_of(schema, given)}, schema.column_names()
    extra = tuple(dpconvex.CategoricalColumn(name, texts) for name, texts in given.items() if name not in known)
    return levels or None, replace(schema, columns=(*schema.columns, *extra))


def write_metrics(
    found: "dpconvex.PrivateMetrics", folder: Path, certificate: str, paid: Paid | None = None
) -> "dpconvex.PrivateMetrics":
    """Write metrics.json, and the evaluation's certificate under the given name."""
    (folder / _output.METRICS).write_text(_output.json_text(found.to_dict()), encoding="utf-8")
    return replace(found, certificate_=write_certificate(found.certificate_, folder, paid, certificate))


def print_metrics(found: "dpconvex.PrivateMetrics", where: str) -> None:
    """Print all metrics with their intervals, then the first few of the groups."""

    def row(name: str, each: Any) -> tuple[str, ...]:
        numbers = [f"{value:.4f}" for value in (each.value, each.lower, each.upper)]
        return (name, *(numbers if each.known else ("not known", "", "")))

    def short(each: Any) -> str:
        away = max(each.upper - each.value, each.value - each.lower)
        near = each.known and away < 1e3 * (1 + abs(each.value))  # else noise hides it
        return f"{_output.number(each.value)}±{_output.number(away, 2)}" if near else "-"

    unit, privacy = found.plan_.privacy.unit, found.plan_.privacy
    title = f"Metrics on {found.plan_.n:,} {unit}s ({where}), {_output.budget_words(privacy)}"
    rows = [row(*each) for each in found.items()]
    _output.print_table(title, ("metric", "value", "from", "to"), rows, right=(1, 2, 3))
    about = f"95 % intervals for the population of the test records, the privacy noise included. {found.scope_}"
    hidden = " Not known: noise hides it." * any(not each.known for each in found.values())
    _output.print_text(about.rstrip() + hidden)
    if found.groups:
        each_class = [name for name in found if name.startswith(("recall", "specificity"))]
        names = [*dict.fromkeys((*list(found)[:3], *each_class, *found))][:5]
        rows = [(label, *(short(part[name]) for name in names)) for label, part in found.groups.items()]
        _output.print_table("\nGroups", ("group", *names), rows, right=range(1, 6))
        _output.print_text("±: the farther end of the 95 % interval. -: too few to say. All metrics: metrics.json.")
    if found.promise_:
        _output.print_text(f"\n{found.promise_}")
