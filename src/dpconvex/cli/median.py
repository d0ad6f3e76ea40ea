"""``dpconvex median``: a table of points in; a private centre and its certificate out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpconvex.cli import _options
from dpconvex.cli._console import number, one_line_errors, print_json, print_table, print_text
from dpconvex.cli._folder import CERTIFICATE, MEDIAN, model_folder
from dpconvex.errors import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.algorithms.geometric_median import GeometricMedianPlan
    from dpconvex.data import Schema
    from dpconvex.estimators.median import PrivateGeometricMedian

STATUS_WORDS = {
    "ok": "ok",
    "radius_at_top": "radius_at_top: no radius below the whole ball held most points; too few records, or spread out",
    "center_failed": "center_failed: no centre was found; the location is the origin, or with --boost descent the "
    "result of a search over the whole ball, and may be far off. More records or a larger epsilon are needed",
}


@one_line_errors
def median(
    epsilon: _options.Epsilon,
    radius_bound: Annotated[
        float, typer.Option(help="PUBLIC radius of a ball around the origin that holds the points; may be crude.")
    ],
    points: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet file, one point a row. Without it: --rows and --features.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Positive, far below 1 divided by the number of records.")] = 1e-6,
    min_radius: Annotated[
        float | None, typer.Option(help="Radii below it are not told apart. Default: a millionth of --radius-bound.")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Coordinate column; repeat it. Default: all columns but --user's.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Column that says whose row it is: protects whole users.")] = None,
    constants: Annotated[str, typer.Option(help="calibrated, or paper.")] = "calibrated",
    boost: Annotated[str, typer.Option(help="descent, stable_sgd, fixed_order or none.")] = "descent",
    level: Annotated[
        float,
        typer.Option(help="Share of points to be near each other: 0.65 tolerates 19 % of outliers, 0.6 22 %."),
    ] = 0.65,
    out: Annotated[Path, typer.Option(help="Folder for median.json and certificate.json.")] = Path("median"),
    rows: Annotated[int | None, typer.Option(help="Plan only, for this number of records (or users).")] = None,
    features: Annotated[int | None, typer.Option(help="Number of coordinates, with --rows.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed the noise: NOT PRIVATE, for tests only.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder of this command.")] = False,
    as_json: _options.Json = False,
) -> None:
    """Release a private geometric median: a centre that a corrupted minority cannot move far.

    With --rows and --features instead of a file: show the plan; no data are read.
    """
    from dpconvex.estimators.median import PrivateGeometricMedian

    estimator = PrivateGeometricMedian(
        epsilon,
        delta,
        radius_bound=radius_bound,
        min_radius=min_radius,
        constants=constants,
        boost=boost,
        level=level,
        random_state=seed,
    )
    if points is None:
        _show_plan(estimator, rows, features, "record" if user is None else "user", as_json)
        return
    if rows is not None or features is not None:
        name, value = ("rows", rows) if rows is not None else ("features", features)
        raise InvalidParameterError(name, value, "is for a plan without data", "Leave it out, or the file of points")
    estimator.plan(10_000, 2)  # refuses unusable parameters before anything is read
    with model_folder(out, force=force) as folder:
        names, table = read_points(points, column, user)
        groups = None if user is None else table.column(user).to_numpy()
        estimator.fit(table.select(names), groups=groups)
        result = released(estimator, names)
        (folder / MEDIAN).write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        (folder / CERTIFICATE).write_text(estimator.certificate_.to_json(), encoding="utf-8")
    if as_json:
        files = [str(out / name) for name in (MEDIAN, CERTIFICATE)]
        print_json({"files": files, **result, "certificate": estimator.certificate_.to_dict()})
        return
    coordinates = zip(names, estimator.location_.tolist(), estimator.center_.tolist(), strict=True)
    cells = [(name, number(place, 6), number(start, 6)) for name, place, start in coordinates]
    print_table(f"Private geometric median of {points}", ("column", "median", "centre before"), cells, right=(1, 2))
    print_text(
        f"\nRadius: {number(estimator.radius_)}, within a factor of about 4 that of two thirds of the points (--level)."
    )
    print_text(f"Status: {STATUS_WORDS[estimator.status_]}.\n")
    print_text(estimator.certificate_.explain())
    print_text(f"\nWrote {MEDIAN} and {CERTIFICATE} to {out}")


def released(estimator: PrivateGeometricMedian, names: list[str]) -> dict[str, Any]:
    """Return the content of ``median.json``: released values only."""
    return {
        "columns": names,
        "location": estimator.location_.tolist(),
        "center": estimator.center_.tolist(),
        "radius": estimator.radius_,
        "status": estimator.status_,
    }


def read_points(path: Path, columns: list[str] | None, user: str | None) -> tuple[list[str], Any]:
    """Return the names of the coordinates and the table that holds them; cells that are no numbers become null."""
    from dpconvex.data import read_table

    names = columns if columns else [name for name in _header(path) if name != user]
    if not names:
        read_table(path)  # says what is wrong with the file, if anything is
        raise InvalidDataError(f"{path}: no column holds coordinates. Name them with --column")
    return names, read_table(path, _declared(names, user))


def _declared(names: list[str], user: str | None) -> Schema:
    """A schema that declares every coordinate a number: what a column holds must not decide how it is read."""
    from dpconvex.data import NumericColumn, Schema

    return Schema(tuple(NumericColumn(name, -1.0, 1.0) for name in names), user=user)


def _header(path: Path) -> list[str]:
    """Names of all columns of a file; none if there is no such file, as reading the table will say."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() == ".parquet":
            return list(pq.read_schema(path).names)
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            return next(csv.reader(file), [])
    except (OSError, csv.Error, pa.ArrowException):
        return []


def _show_plan(
    estimator: PrivateGeometricMedian, rows: int | None, features: int | None, unit: str, as_json: bool
) -> None:
    """Print what a run would release, from public facts."""
    if rows is None or features is None:
        missing = "rows" if rows is None else "features"
        remedy = "Give a file of points for a release, or --rows and --features for a plan"
        raise InvalidParameterError(missing, None, "must be given where there is no file of points", remedy)
    plan = estimator.plan(rows, features, unit)
    facts = plan_facts(plan)
    if as_json:
        print_json(facts)
        return
    cells = [(release["label"], release["mechanism"], number(release["sensitivity"])) for release in facts["releases"]]
    title = f"Plan for {rows:,} {unit}s, {features} coordinates, epsilon {plan.privacy.epsilon:g}, "
    print_table(title + f"delta {plan.privacy.delta:g}", ("release", "mechanism", "sensitivity"), cells, right=(2,))
    print_text()
    for key, value in facts["public"].items():
        print_text(f"{key.replace('_', ' ')}: {number(value) if isinstance(value, float) else value}")


def plan_facts(plan: GeometricMedianPlan) -> dict[str, Any]:
    """Return JSON-ready facts of a plan."""
    return {
        "algorithm": plan.algorithm,
        "constants": plan.constants,
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "unit": str(plan.privacy.unit),
        "releases": [
            {"label": r.label, "mechanism": r.mechanism, "sensitivity": r.sensitivity.value} for r in plan.releases
        ],
        "public": dict(plan.public),
    }
