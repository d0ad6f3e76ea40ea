"""Models in other forms (``dpconvex export``), and the shapes of additive ones: tables, what plans say, the picture."""

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import dpconvex
from dpconvex import _validate
from dpconvex._arrow import pacsv
from dpconvex._files import write_atomically
from dpconvex.cli._options import Json
from dpconvex.cli._output import METRICS, number, one_line_errors, print_json, print_table, print_text
from dpconvex.errors import InvalidDataError, InvalidParameterError


@one_line_errors
def shapes(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    csv: Annotated[bool, typer.Option("--csv", help="Write the table as CSV.")] = False,
    as_json: Json = False,
) -> None:
    """Print what each column adds to the score of a fitted additive model. It is released, so this costs no privacy."""
    from dpconvex.estimators import AdditiveModel

    fitted = dpconvex.load_model(model)
    if not isinstance(fitted, AdditiveModel):
        raise InvalidDataError(f"{model}: holds a {type(fitted).__name__}. Shapes are of --model additive")
    if csv:
        pacsv.write_csv(fitted.shape_table(), sys.stdout.buffer)
        return
    if as_json:
        return print_json({"effect": fitted.effect, "shapes": fitted.shape_table().to_pylist()})
    rows, names = [], ("column", "at", "value", "deviation", *["95 %"] * bool(fitted.inference))
    for row in fitted.shape_table().to_pylist():
        column = row["column"] if row["output"] == 0 else f"{row['column']}, class {row['output']}"
        at = row["level"] if row["knot"] is None else number(row["knot"], 6)
        ends = "(reference)" if row["lower"] == row["upper"] else f"{row['lower']:.3g} to {row['upper']:.3g}"
        rows.append((column, at, number(row["value"], 3), number(row["deviation"], 2), ends)[: len(names)])
    print_table("Shapes", names, rows, right=(2, 3, 4))
    if fitted.inference:
        print_text("95 %: intervals of values less that of the reference, the vertex seen most.")
    if logs := [shape.name for shape in fitted.shapes_ if shape.log_from is not None]:
        print_text(f"Lines between knots are straight in the number's logarithm: {', '.join(logs)}.")
    print_text(f"deviation: planned, of the noise alone. Values add up to {fitted.effect}, with the intercept.")


@one_line_errors
def intervals(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    level: Annotated[float, typer.Option(help="Coverage of each interval, in (0, 1).")] = 0.95,
    joint: Annotated[bool, typer.Option("--joint", help="Intervals that all hold at once.")] = False,
    as_json: Json = False,
) -> None:
    """Print intervals and tests of the coefficients of a model fitted with --inference. Costs no privacy."""
    from dpconvex.estimators import WithIntervals

    fitted = dpconvex.load_model(model)
    if not isinstance(fitted, WithIntervals):
        raise InvalidDataError(f"{model}: holds a {type(fitted).__name__}, which has no intervals")
    found = fitted.summary(level, joint=joint)
    if as_json:
        print_json(found.to_dict())
    else:
        print_text(str(found))


MOST = 40  #: Largest number of shapes in a picture
FORMATS = ("card", "json", "onnx", "sklearn", "sql")


@one_line_errors
def export(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    form: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "json",
    output: Annotated[Path | None, typer.Option(help="File to write. Default: stdout.")] = None,
    table: Annotated[str, typer.Option(help="Table that the SQL query scores.")] = "records",
) -> None:
    """Write a fitted model in another tool's form. It is released, so this costs no privacy.

    json: plain tables, documented; sklearn: a scikit-learn pipeline (skops file); onnx; sql: a query that scores a
    table; card: a model card in Markdown.
    """
    from dpconvex.estimators.export import to_card, to_onnx
    from dpconvex.estimators.persistence import archive

    _validate.choice("format", form, FORMATS)
    fitted = dpconvex.load_model(model)
    if form in ("onnx", "sklearn") and output is None:
        raise InvalidParameterError("output", None, f"must name a file for the format {form}", "Give --output FILE")
    if form == "sklearn":
        _validate.installed("skops")
        found: str | bytes = archive(fitted.to_sklearn())
        if fitted.to_dict()["probabilities"] == "calibrated":
            note = "slopes are capped, so the pipeline has no predict_proba. Fit with --slope-cap 1"
            print(f"note: {note}, or in Python with probabilities='sigmoid'", file=sys.stderr)
    elif form == "onnx":
        found = to_onnx(fitted).SerializeToString()
    elif form == "card":
        measured = (model if model.is_dir() else model.parent) / METRICS
        found = to_card(fitted, json.loads(measured.read_text()) if measured.exists() else None)
    else:
        found = fitted.to_sql(table) if form == "sql" else fitted.to_json() + "\n"
    if output is None:
        sys.stdout.write(str(found))
    else:
        write_atomically(output, found)


def print_planned(facts: list[dict[str, Any]]) -> None:
    """Print what the plan of an additive model expects of each column."""
    rows = []
    for row in facts:
        deviation = "" if math.isnan(row["deviation"]) else number(row["deviation"], 2)
        rows.append((row["column"], str(row["vertices"]), number(row["degrees_of_freedom"], 3), deviation))
    print_table("\nShapes", ("column", "vertices", "degrees of freedom", "deviation"), rows, right=(1, 2, 3))
    deviation = "deviation: expected noise of a value. Sampling and shrinkage are not in it."
    print_text(f"vertices: knots or levels. degrees of freedom: what ridge and noise leave of them. {deviation}")


def shapes_figure(estimator: Any, style: Any, colors: tuple[str, str, str, str]) -> Any:
    """Return one figure of shapes on one scale, the `MOST` clearest, the clearest first; None for other models."""
    # Bands are two planned deviations to either side, or intervals where they were paid for; what is shorter is gray.
    from dpconvex.estimators import AdditiveModel

    if not isinstance(estimator, AdditiveModel):
        return None
    import numpy as np
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    found = sorted(estimator.shapes_, key=lambda shape: -np.nan_to_num(shape.reach, nan=-np.inf))[:MOST]
    with rc_context(style):
        figure = Figure(figsize=(5.4, 1.9 * -(-len(found) // 2)), layout="constrained")
        grid: Any = figure.subplots(-(-len(found) // 2), 2, sharey=True, squeeze=False)
        for axes in grid.ravel()[len(found) :]:
            axes.set_axis_off()
        for axes, shape in zip(grid.ravel(), found, strict=False):
            for values, deviation in zip(np.atleast_2d(shape.values), np.atleast_2d(shape.deviation), strict=True):
                around = values + 2 * np.nan_to_num(deviation) * np.array([[-1], [1]])
                _draw(axes, shape, values, around if shape.interval is None else shape.interval, colors)
            axes.axhline(0, color=colors[3], linewidth=0.8, zorder=0)
            axes.set_title(shape.name[:40], fontsize=9.5, loc="left")
            axes.grid(False)
    return figure


def _draw(axes: Any, shape: Any, values: Any, band: Any, colors: tuple[str, ...]) -> None:
    import numpy as np

    ink, gray, wash, _ = colors
    at = np.array([vertex for vertex in shape.vertices if isinstance(vertex, float)])
    band = np.where(np.isfinite(band), band, np.nan)
    known = np.zeros(1) if shape.interval is None else values[np.nanargmin(np.ptp(band, axis=0))]
    m, sure = len(at), (band[0] > known) | (band[1] < known)
    if not m:
        at = np.arange(len(values))
        axes.vlines(at, *band, color=wash, linewidth=6)
        axes.scatter(at, values, s=12, c=np.where(sure, ink, gray), zorder=3)
        axes.set_xticks(at, [str(level)[:16] for level in shape.vertices], rotation=90, fontsize=6)
        return
    values, band = values[:m], band[:, :m]
    axes.fill_between(at, *band, color=wash, linewidth=0)
    axes.plot(at, values, color=gray, linewidth=1)
    axes.plot(at, np.where(sure[:m], values, np.nan), color=ink, linewidth=2)
    near = max(at[1], 1e-9) if shape.log_from is None else shape.log_from
    # For every class again: only a linear axis takes the other call.
    if shape.log_from is not None or (at[0] >= 0 and at[-1] > 100 * near):
        axes.set_xscale("symlog", linthresh=near)
    else:
        axes.ticklabel_format(axis="x", useOffset=False)
