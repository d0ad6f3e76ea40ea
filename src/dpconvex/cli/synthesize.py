"""``dpconvex synthesize``: a table and its schema in; a synthetic table and its certificate out."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex import _validate
from dpconvex._arrow import pacsv
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay, write_certificate
from dpconvex.cli.fit import engine_for, opened_table, write_found
from dpconvex.cli.plan import plan_facts, show_plans
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms.queries.base import QueryReleasePlan


@_output.one_line_errors
def synthesize(
    schema: _options.SchemaFile, epsilon: _options.Epsilon, table: _options.PrivateTable = None,
    column: Annotated[list[str] | None,
        typer.Option(help="Column to use; repeat it. Default: the schema's features and target.")] = None,
    order: Annotated[int, typer.Option(help="Number of columns in each marginal table to match; at most all.")] = 2,
    bins: Annotated[
        str, typer.Option(help="Bins of numbers: auto; private: 16, found from the data; or a number of equal ones.")
    ] = "auto",
    edges: Annotated[list[str] | None,
        typer.Option(help="Public bins of one column, as in age=17,25,40,65,90; repeat it.")] = None,
    ranges: Annotated[str,
        typer.Option(help="declared: those of the schema. private: of all numbers, found from the data.")] = "declared",
    target_share: Annotated[float,
        typer.Option(help="Share of epsilon for a model that draws the target: 0.3 where models learn of it.")] = 0.0,
    impossible: Annotated[list[str] | None, typer.Option(help="No row has both: sex=Male,relationship=Wife.")] = None,
    delta: _options.SmallDelta = 1e-6, algorithm: _options.Listed = "auto",
    constants: Annotated[str, _options.constants("saddle_point")] = "calibrated",
    size: Annotated[int | None,
        typer.Option(help="Number of synthetic records. Default: that of the private ones, or --rows.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for table, certificate and report.")] = Path("synthetic"),
    user_column: _options.UserColumn = None, rows: _options.Rows = None, users: _options.Users = None,
    neighbors: _options.Neighbors = "replace_one", seed: _options.Seed = None, budget: _options.Budget = None,
    engine: _options.Engine = None, address: _options.Address = None, memory: _options.Memory = None,
    force: _options.ForceOwn = False, as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Release synthetic records whose marginal tables are near those of a private table.

    With --rows, or --users where a column says whose row it is, instead of a file: show the plans; no data are read.
    Added or removed records need --rows always.
    """
    from dpconvex.data import Schema, write_atomically
    from dpconvex.estimators.synthetic import PrivateSyntheticData

    declared = Schema.from_toml(schema)
    declared.require_confirmed(str(schema))
    declared = _options.with_user(declared, user_column)
    if _validate.choice("ranges", ranges, ("declared", "private")) == "private":
        declared = declared.without_ranges()
    name, count, other = ("rows", rows, users) if declared.user is None else ("users", users, rows)
    if other is not None:
        _options.planned_rows(table, other, "users" if declared.user is None else "rows")
        what = "must be the number of users" if users is None else "must be the number of rows: no column says whose"
        raise InvalidParameterError(name, count, what, "Give --users with a user column, and --rows without")
    size_is_public = neighbors == "replace_one"  # the estimator refuses other names
    estimator = PrivateSyntheticData(
        epsilon, delta, schema=declared, columns=column or None,
        bins=read_bins(declared, column, bins, edges or []), order=order, algorithm=algorithm,
        constants=constants, target_share=target_share,
        impossible=[dict(re.findall("([^,=]+)=([^,]*)", text)) for text in impossible or ()],
        neighbors=neighbors, rows=None if size_is_public else rows, random_state=seed,
    )  # fmt: skip
    planned = _options.planned_rows(table, count, name) if size_is_public else None
    plans = estimator.plan(planned)  # refuses unusable parameters before anything is read
    if table is None:
        plans[0].warn(planned or rows or 0)
        return _show(plans, as_json, estimator.domain(planned).filled)
    if size is not None and size < 1:
        raise InvalidParameterError("size", size, "must be an integer >= 1")
    with _output.model_folder(out, force=force) as folder:
        engine = engine_for(table, engine, address, memory)
        if engine != "memory" and not size_is_public:
            raise InvalidParameterError("engine", engine, "must be 'memory' for these neighbors", "Use --engine memory")
        with _output.working("Fitting"), opened_table(table, declared, engine, address, memory) as read:
            promise = plans[0].privacy
            paid = pay(budget, promise, "synthesize", table, declared, seed=seed, plan=estimator.plan)
            estimator.fit(read())
        released = estimator.sample(size, seed)
        write_atomically(folder / _output.SYNTHETIC, lambda file: pacsv.write_csv(released, file))
        estimator.certificate_ = write_certificate(estimator.certificate_, folder, paid)
        with _output.own_risk(_output.REPORT):
            _write_report(estimator, folder / _output.REPORT)
        write_found(estimator, folder)
    names = (_output.SYNTHETIC, _output.CERTIFICATE, _output.REPORT, _output.FOUND)
    if as_json:
        what = {"plan": facts(estimator.plan_), "missing_counted_as": estimator.cells_.filled}
        return _output.print_files(estimator.certificate_, out, *names, **what)
    _show(estimator.plan(estimator.plan_.n), False, estimator.cells_.filled)
    _output.print_released(estimator.certificate_, out, *names)


def _write_report(estimator: Any, path: Path) -> None:
    """Write the page on what was released: noisy tables, intervals and the model, never the data."""
    measured = [each for each in estimator.cells_.columns if estimator.tables_ and len(each.labels) > 1]
    columns = [(each.name, each.labels, estimator.marginal(each.name, interval=0.95)) for each in measured]
    report = sorted(estimator.fit_report_, key=lambda row: -row["misfit"])
    released = {"plan": estimator.plan_, "target": estimator.target_model_, "certificate": estimator.certificate_}
    facts = {"columns": columns, "report": report, "filled": estimator.cells_.filled, "number": _output.number}
    _output.write_page(path, "synthetic.html.j2", **released, **facts)


def read_bins(schema: Any, columns: Sequence[str] | None, kind: str, edges: Sequence[str]) -> Any:
    """Return the estimator's ``bins``: those of all numeric columns, or of each one."""
    count: Any = int(kind) if kind.isdecimal() else kind
    if not edges:
        return count
    bins: dict[str, Any] = {name: count for name in columns or schema.column_names() if name in schema.numeric_names}
    for text in edges:
        name, _, numbers = text.partition("=")
        try:
            bins[name] = tuple(float(part) for part in numbers.split(","))
        except ValueError:
            raise InvalidParameterError("edges", text, "must be a column and its edges, as in age=17,25,40") from None
    return bins


def facts(plan: "QueryReleasePlan") -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    errors = {"expected_largest_error": plan.expectation, "largest_error_bound": plan.predicted_error.bound}
    return plan_facts(plan, **errors, yardstick=plan.yardstick)


def _show(plans: "Sequence[QueryReleasePlan]", as_json: bool, filled: dict[str, str]) -> None:
    first = plans[0]
    privacy, cells = first.privacy, first.queries.cells
    means = [plan.public.get("expected_total_variation") for plan in plans]
    own, chosen = dict[str, list[float | None]](), "* chosen. "
    if means[0] is not None:
        own["mean"], own["weighed"] = means, [m and plan.ranked for m, plan in zip(means, plans, strict=True)]
        chosen = "* chosen by the weighed mean: mean is the expected total variation of a table, weighed for what "
        chosen += "methods of each kind lose on real ones (1 is added where columns are too few for groups). "
    many = f"{cells:,}" if cells < 10**15 else f"10^{len(str(cells)) - 1}"
    show_plans(
        f"Plans for {first.n:,} {privacy.unit}s, {first.queries.count:,} marginal cells over {many} "
        f"combinations, {_output.budget_words(privacy)}", plans,
        f"{chosen}expected: the largest error of any share in any marginal table, on typical data, a guess. bound: on "
        "the same, but where the note says estimate.", first.n, facts if as_json else None, own=own,
    )  # fmt: skip
    if as_json:
        return
    if model := first.public.get("target_model"):
        part = f"epsilon {model['epsilon']:.3g} of {privacy.epsilon:g}"
        _output.print_text(f"The target follows a private linear model ({model['algorithm']}), for {part}.")
    elif first.queries.center is not None:
        _output.print_text("If models are to be trained on the records: --target-share 0.3.")
    if found := first.public.get("private_bins"):
        part = f"{sum(found['shares']):.0%} of the budget. Public bins: --bins 16, or --edges"
        _output.print_text(f"Bins of {len(found['columns'])} numeric columns are found privately, for {part}.")
    if filled:  # public facts: whether there are missing cells or not
        listed = ", ".join(f"{name} as {label}" for name, label in list(filled.items())[:5])
        _output.print_text(
            f"Missing cells, if any, count as values: {listed}{', ..' * (len(filled) > 5)} ({len(filled)} columns). To "
            "draw them as missing: indicator = true, other = true for categories; none is missing: indicator = false."
        )
