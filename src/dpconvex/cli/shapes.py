"""The shapes of additive models: ``dpconvex shapes`` (a table, CSV, JSON or SQL), what plans say, and the picture."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from dpconvex.cli._output import MODEL, csv_bytes, number, one_line_errors, print_table, print_text
from dpconvex.errors import InvalidDataError, InvalidParameterError


@one_line_errors
def shapes(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    csv: Annotated[bool, typer.Option("--csv", help="Write the table as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the whole model as plain JSON tables.")] = False,
    sql: Annotated[
        str | None, typer.Option(help="Write a query that scores the rows of the table of this name.")
    ] = None,
) -> None:
    """Print what each column adds to the score of a fitted additive model. It is released, so this costs no privacy."""
    from dpconvex.estimators import AdditiveModel
    from dpconvex.estimators.persistence import load_model

    fitted = load_model(model / MODEL if model.is_dir() else model)
    if not isinstance(fitted, AdditiveModel):
        raise InvalidDataError(f"{model}: holds a {type(fitted).__name__}. Shapes are of --model additive")
    if csv + as_json + (sql is not None) > 1:
        what = "only one of --csv, --json and --sql may be given"
        raise InvalidParameterError("csv", csv, what, "Leave the others out")
    if csv or as_json or sql is not None:
        text = csv_bytes(fitted.shape_table()).decode() if csv else fitted.to_json() + "\n"
        sys.stdout.write(text if sql is None else query(fitted.to_dict(), sql))
        return
    rows = [
        (
            row["column"] if row["output"] == 0 else f"{row['column']}, class {row['output']}",
            row["level"] if row["knot"] is None else number(row["knot"], 6),
            number(row["value"], 3),
            number(row["deviation"], 2),
        )
        for row in fitted.shape_table().to_pylist()
    ]
    print_table("Shapes", ("column", "at", "value", "deviation"), rows, right=(2, 3))
    print_text(f"deviation: planned, of the noise alone. Values add up to {fitted.effect}, with the intercept.")


def print_planned(facts: list[dict[str, Any]]) -> None:
    """Print what the plan of an additive model expects of each column."""
    rows = [
        (
            row["column"],
            str(row["vertices"]),
            number(row["degrees_of_freedom"], 3),
            "" if math.isnan(row["deviation"]) else number(row["deviation"], 2),
        )
        for row in facts
    ]
    print_text()
    print_table("Shapes", ("column", "vertices", "degrees of freedom", "deviation"), rows, right=(1, 2, 3))
    print_text(
        "vertices: knots or levels. degrees of freedom: what ridge and noise leave of them. deviation: expected noise "
        "of a value. Sampling and shrinkage are not in it."
    )


def query(model: dict[str, Any], table: str) -> str:
    """Return a query that gives each row of a table its score, one column an output, in the SQL of most databases."""
    scores = []
    for output, intercept in enumerate(model["intercept"]):
        terms = [_mixture(shape, [*map(repr, shape["values"][output])]) for shape in model["shapes"]]
        scores.append("  " + "\n  + ".join([repr(intercept), *terms]) + f" AS score_{output}")
    return "SELECT *,\n" + ",\n".join(scores) + f"\nFROM {_quoted(table)};\n"


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _mixture(rule: dict[str, Any], values: list[str]) -> str:
    """Return the mean of these texts by the weights of a row's vertices."""
    if rule["kind"] == "pair":
        first = rule["first"]
        count = len(first["levels"]) + first["other"] if "levels" in first else len(first["knots"]) + first["missing"]
        width = len(values) // count
        parts = [values[start : start + width] for start in range(0, len(values), width)]
        return _mixture(first, [_mixture(rule["second"], part) for part in parts])
    cell, even = _quoted(rule["column"]), f"({' + '.join(values)}) / {len(values)}.0"
    if "levels" in rule:
        cases = [f"WHEN {_quoted(a, chr(39))} THEN {v}" for a, v in zip(rule["levels"], values, strict=False)]
        return f"CASE CAST({cell} AS VARCHAR) {' '.join(cases)} ELSE {values[-1] if rule['other'] else even} END"
    low, high, knots = rule["lower"], rule["upper"], rule["knots"]
    place = f"CASE WHEN {cell} < {low!r} THEN {low!r} WHEN {cell} > {high!r} THEN {high!r} ELSE {cell} END"
    if rule["transform"] == "log1p":
        place, low, high = f"LN(1 + {place})", math.log1p(low), math.log1p(high)
    place = f"(({place} - {low!r}) / {high - low!r})"
    cases = [
        f"WHEN {place} <= {right!r} THEN ({a}) + (({b}) - ({a})) * ({place} - {left!r}) / {right - left!r}"
        for left, right, a, b in zip(knots, knots[1:], values, values[1:], strict=False)
    ]
    empty = values[-1] if rule["missing"] else even
    return f"CASE WHEN {cell} IS NULL THEN {empty} {' '.join(cases)} ELSE {values[len(knots) - 1]} END"


def shapes_figure(estimator: Any, style: Any, colors: tuple[str, str, str, str]) -> Any:
    """Return one figure of all shapes on one scale, those first that are hardly noise; None for other models.

    Hats are broken lines, levels dots; bands are two planned deviations of the noise to either side, and what is
    shorter than that is gray. Nothing of the records is in it: no rug and no histogram.
    """
    from dpconvex.estimators import AdditiveModel

    if not isinstance(estimator, AdditiveModel):
        return None
    import numpy as np
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = sorted(estimator.shapes_, key=lambda shape: -np.nan_to_num(shape.reach, nan=-np.inf))
    with rc_context(style):
        figure = Figure(figsize=(5.4, 1.9 * -(-len(found) // 2)), layout="constrained")
        grid: Any = figure.subplots(-(-len(found) // 2), 2, sharey=True, squeeze=False)
        for axes in grid.ravel()[len(found) :]:
            axes.set_axis_off()
        for axes, shape in zip(grid.ravel(), found, strict=False):
            for values, deviation in zip(np.atleast_2d(shape.values), np.atleast_2d(shape.deviation), strict=True):
                _draw(axes, shape, values, 2 * np.nan_to_num(deviation), colors)
            axes.axhline(0, color=colors[3], linewidth=0.8, zorder=0)
            axes.set_title(shape.name[:40], fontsize=9.5, loc="left")
            axes.grid(False)
    return figure


def _draw(axes: Any, shape: Any, values: Any, band: Any, colors: tuple[str, ...]) -> None:
    import numpy as np

    ink, gray, wash, _ = colors
    at = np.array([vertex for vertex in shape.vertices if isinstance(vertex, float)])
    m, sure = len(at), np.abs(values) > band
    if not m:
        at = np.arange(len(values))
        axes.vlines(at, values - band, values + band, color=wash, linewidth=6)
        axes.scatter(at, values, s=12, c=np.where(sure, ink, gray), zorder=3)
        axes.set_xticks(at, [str(level)[:10] for level in shape.vertices], rotation=90, fontsize=6)
        return
    values, band = values[:m], band[:m]
    axes.fill_between(at, values - band, values + band, color=wash, linewidth=0)
    axes.plot(at, values, color=gray, linewidth=1)
    axes.plot(at, np.where(sure[:m], values, np.nan), color=ink, linewidth=2)
    axes.ticklabel_format(axis="x", useOffset=False)
    near = max(at[1], 1e-9)
    if at[0] >= 0 and at[-1] > 100 * near:
        axes.set_xscale("symlog", linthresh=near)
