"""``dpconvex median``: a table of points in; a private center and its certificate out."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import dpconvex
from dpconvex import _validate
from dpconvex.cli import _options, _output
from dpconvex.cli.budget import pay, write_certificate
from dpconvex.cli.fit import engine_for, opened_table
from dpconvex.cli.plan import print_facts
from dpconvex.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms.location.base import LocationPlan

SHOWN = 100  #: Number of coordinates in the printed table; the file has all.

STATUS_WORDS = {
    "ok": "ok",
    "radius_at_top": "radius_at_top: no radius below the whole ball held most points; too few records, or spread out",
    "radius_too_large": "radius_too_large: steps had to become far smaller than the radius, which reaches "
    "outliers; the location is that of the crowd, the radius and the center before are not",
    "no_center": "no_center: no center was found, but a search over the whole ball ended where slopes are near 0, so "
    "the objective is near its least value; use the location, not the radius or the center before",
    "unsettled": "unsettled: the search ended where slopes are far from 0, and the location may be far off. More "
    "records or a larger epsilon are needed",
    "center_failed": "center_failed: no center was found; the location is the result of a search over the whole "
    "ball, with --algorithm stable_sgd, fixed_order or center_only the origin, and may be far off. More records or a "
    "larger epsilon are needed",
}


@_output.one_line_errors
def median(
    epsilon: _options.Epsilon,
    radius_bound: Annotated[float,
        typer.Option(help="PUBLIC radius of a ball around the origin that holds the points; may be crude.")],
    points: Annotated[
        Path | None,
        typer.Argument(help="CSV or Parquet file, folder or pattern, one point a row. Without: --rows and --features."),
    ] = None,
    delta: Annotated[float, typer.Option(help="Positive, far below 1 divided by the number of records.")] = 1e-6,
    min_radius: Annotated[float | None,
        typer.Option(help="Radii below it are not told apart. Default: a millionth of --radius-bound.")] = None,
    column: Annotated[list[str] | None,
        typer.Option(help="Coordinate column; repeat it. Default: all others than the user column.")] = None,
    user_column: Annotated[str | None,
        typer.Option(help="Column that says whose row it is: protects all rows of a user together.")] = None,
    constants: Annotated[str, _options.constants("stable_sgd, fixed_order, and the center alone")] = "calibrated",
    algorithm: Annotated[str, typer.Option(
        help="geometric_median (descent), stable_sgd, fixed_order or center_only; to compare with: halving, "
        "origin_descent, coordinate_median, clipped_mean."
    )] = "geometric_median",
    level: Annotated[float | None,
        typer.Option(help="Share of points near each other: 0.65, the default, tolerates 19 % of outliers.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for median.json and certificate.json.")] = Path("median"),
    rows: Annotated[int | None, typer.Option(help="Plan only, for this number of records (or users).")] = None,
    features: Annotated[int | None, typer.Option(help="Number of coordinates, with --rows.")] = None,
    seed: _options.Seed = None, budget: _options.Budget = None, engine: _options.Engine = None,
    address: _options.Address = None, memory: _options.Memory = None, force: _options.ForceOwn = False,
    as_json: _options.Json = False,
) -> None:  # fmt: skip
    """Release a private geometric median: a center that a corrupted minority cannot move far.

    With --rows and --features instead of a file: show the plan; no data are read.
    """
    options: dict[str, Any] = {"constants": constants, "algorithm": algorithm, "level": level, "random_state": seed}
    options |= {"radius_bound": radius_bound, "min_radius": min_radius}
    estimator = dpconvex.PrivateGeometricMedian(epsilon, delta, **options)
    unit = "record" if user_column is None else "user"
    if points is None:
        return _show_plan(estimator, rows, features, unit, as_json)
    if rows is not None or features is not None:
        name, value = ("rows", rows) if rows is not None else ("features", features)
        raise InvalidParameterError(name, value, "is for a plan without data", "Leave it out, or the file of points")
    promise = estimator.plan(10_000, 2, unit).privacy  # refuses unusable parameters before anything is read
    with _output.model_folder(out, force=force) as folder:
        engine = engine_for(points, engine, address, memory)
        if user_column is not None and engine != "memory":
            remedy = "Make a table with one row a user, or read a single file into memory"
            raise InvalidParameterError("user_column", user_column, "is for tables in memory", remedy)
        names = coordinates(points, column, user_column)
        declared = _options.numbers_only(names, user_column)
        with _output.working("Fitting"), opened_table(points, declared, engine, address, memory) as read:
            plan = functools.partial(estimator.plan, n_features=len(names))
            paid = pay(budget, promise, "median", points, declared, seed=seed, plan=plan)
            table = read()
            estimator.fit(points_of(table, names), groups=None if user_column is None else table.column(user_column))
        result = released(estimator, names)
        (folder / _output.MEDIAN).write_text(_output.json_text(result), encoding="utf-8")
        estimator.certificate_ = write_certificate(estimator.certificate_, folder, paid)
    if as_json:
        return _output.print_files(estimator.certificate_, out, _output.MEDIAN, _output.CERTIFICATE, **result)
    found = {"median": estimator.location_, "center before": estimator.center_}
    shown = {title: values.tolist() for title, values in found.items() if values is not None}
    cells = list(zip(names, *([_output.number(x, 6) for x in values] for values in shown.values()), strict=True))
    title, right = f"Private geometric median of {points}", range(1, len(shown) + 1)
    _output.print_table(title, ("column", *shown), cells[:SHOWN], right=right)
    if len(names) > SHOWN:
        _output.print_text(f"and {len(names) - SHOWN:,} more columns, in {_output.MEDIAN}.")
    if estimator.radius_ is not None:
        radius = _output.number(estimator.radius_)
        _output.print_text(f"\nRadius: {radius}, within a factor of 4 of that of two thirds of the points (--level).")
    _output.print_text(f"Status: {STATUS_WORDS[estimator.status_]}. Cells that are no number count as 0.")
    _output.print_released(estimator.certificate_, out, _output.MEDIAN, _output.CERTIFICATE)


def points_of(table: Any, names: Sequence[str]) -> Any:
    """Return columns as numbers, in memory or portion by portion; no cell, and no type, ends a run that is paid for."""
    import numpy as np

    from dpconvex.data.frames import number_table
    from dpconvex.problems.data.sources.cluster import open_source

    if (source := open_source(table, names)) is None:
        return number_table(table, names)

    def encode(part: Any) -> tuple[Any, Any]:
        cells = np.column_stack(number_table(part, names).columns)
        return cells, cells[:, 0]

    return source.encoded(encode, len(names))


def released(estimator: "dpconvex.PrivateGeometricMedian", names: list[str]) -> dict[str, Any]:
    """Return the content of ``median.json``: released values only."""
    center = None if estimator.center_ is None else estimator.center_.tolist()
    found = {"columns": names, "location": estimator.location_.tolist(), "center": center}
    return {**found, "radius": estimator.radius_, "status": estimator.status_}


def coordinates(path: Path, columns: list[str] | None, user: str | None) -> list[str]:
    """Return the names of the coordinates' columns. Reads no record."""
    from dpconvex.data.read import read_header, require_numbers

    if not columns and engine_for(path, None) != "memory":
        raise InvalidParameterError("column", None, "must be given for folders and patterns", "Name each coordinate")
    names = columns if columns else [name for name in read_header(path) if name != user]
    if not names:
        raise InvalidDataError(f"{path}: no column holds coordinates. Name them with --column")
    if not columns:  # one that is named counts as numbers, cell by cell, whatever its type is
        require_numbers(path, names, "Name the coordinates with --column")
    if user in names:
        raise InvalidParameterError("user_column", user, "cannot be a coordinate as well", "Leave it out of these")
    return names


def _show_plan(
    model: "dpconvex.PrivateGeometricMedian", rows: int | None, features: int | None, unit: str, as_json: bool
) -> None:
    if rows is None or features is None:
        missing = "rows" if rows is None else "features"
        remedy = "Give a file of points for a release, or --rows and --features for a plan"
        raise InvalidParameterError(missing, None, "must be given where there is no file of points", remedy)
    _validate.integer("rows", rows, at_least=1)
    plan = model.plan(rows, _validate.integer("features", features, at_least=1), unit)
    plan.warn(rows)
    stated = facts(plan)
    if as_json:
        return print_facts(rows, plan.privacy, [stated], f"{unit}s" if unit == "user" else "rows")
    cells = [(r["label"], r["mechanism"], _output.number(r["sensitivity"])) for r in stated["releases"]]
    title = f"Plan for {rows:,} {unit}s, {features} coordinates, {_output.budget_words(plan.privacy)}"
    _output.print_table(title, ("release", "mechanism", "sensitivity"), cells, right=(2,))
    _output.print_text()
    for key, value in stated["public"].items():
        _output.print_text(f"{key.replace('_', ' ')}: {_output.number(value) if isinstance(value, float) else value}")


def facts(plan: "LocationPlan") -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    each = [{"label": r.label, "mechanism": r.mechanism, "sensitivity": r.sensitivity.value} for r in plan.releases]
    facts = {"algorithm": plan.algorithm, "constants": plan.constants, "releases": each}
    return {**facts, "expected_error": plan.expected_error, "hopeless": plan.hopeless, "public": dict(plan.public)}
