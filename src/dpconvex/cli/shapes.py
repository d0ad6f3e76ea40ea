"""``dpconvex shapes``: the shapes of a released additive model as a table, as JSON or as SQL."""

from __future__ import annotations

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
        raise InvalidParameterError(
            "csv", csv, "only one of --csv, --json and --sql may be given", "Leave the others out"
        )
    if csv:
        sys.stdout.write(csv_bytes(fitted.shape_table()).decode())
    elif as_json:
        sys.stdout.write(fitted.to_json() + "\n")
    elif sql is not None:
        sys.stdout.write(query(fitted.to_dict(), sql))
    else:
        _print(fitted)


def _print(fitted: Any) -> None:
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


def query(model: dict[str, Any], table: str) -> str:
    """Return a query that gives each row of a table its score, one column an output, in the SQL of most databases."""
    scores = []
    for output, intercept in enumerate(model["intercept"]):
        terms = [repr(intercept), *(_term(shape, shape["values"][output]) for shape in model["shapes"])]
        scores.append("  " + "\n  + ".join(terms) + f" AS score_{output}")
    return "SELECT *,\n" + ",\n".join(scores) + f"\nFROM {_quoted(table)};\n"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _term(rule: dict[str, Any], values: list[float]) -> str:
    """Return the sum of values times the weights of a row; a pair's is nested."""
    if rule["kind"] == "pair":
        count = len(values) // len(list(_cases(rule["second"])))
        width = len(values) // count
        inner = [_term(rule["second"], values[k * width : (k + 1) * width]) for k in range(count)]
        return _case(rule["first"], inner)
    return _case(rule, [repr(value) for value in values])


def _cases(rule: dict[str, Any]) -> list[Any]:
    if rule["kind"] == "categories":
        return [*rule["levels"], *([None] if rule["other"] else [])]
    return [*rule["knots"], *([None] if rule["missing"] else [])]


def _case(rule: dict[str, Any], values: list[str]) -> str:
    """Return the mixture of texts that a cell stands for."""
    cell, cases = _quoted(rule["column"]), _cases(rule)
    even = "(" + " + ".join(values) + f") / {len(values)}.0"
    if rule["kind"] == "categories":
        levels = [
            f"WHEN '{level.replace(chr(39), chr(39) * 2)}' THEN {v}"
            for level, v in zip(cases, values, strict=True)
            if level is not None
        ]
        return f"CASE CAST({cell} AS VARCHAR) {' '.join(levels)} ELSE {values[-1] if rule['other'] else even} END"
    knots, own = rule["knots"], values[-1] if rule["missing"] else even
    low, high = repr(rule["lower"]), repr(rule["upper"])
    inside = f"CASE WHEN {cell} < {low} THEN {low} WHEN {cell} > {high} THEN {high} ELSE {cell} END"
    ends = [rule["lower"], rule["upper"]]
    if rule["transform"] == "log1p":
        import math

        inside, ends = f"LN(1 + {inside})", [math.log1p(end) for end in ends]
    place = f"(({inside} - {ends[0]!r}) / {ends[1] - ends[0]!r})"
    pieces = [
        f"WHEN {place} <= {right!r} THEN ({a}) + (({b}) - ({a})) * ({place} - {left!r}) / {right - left!r}"
        for left, right, a, b in zip(knots, knots[1:], values, values[1:], strict=False)
    ]
    return f"CASE WHEN {cell} IS NULL THEN {own} {' '.join(pieces)} ELSE {values[len(knots) - 1]} END"
