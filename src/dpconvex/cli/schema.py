"""``dpconvex schema``: draft a schema file, and show one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpconvex.cli._output import number, one_line_errors, print_table, print_text

if TYPE_CHECKING:
    from dpconvex.data import Schema

app = typer.Typer(help="Draft and show schema files: the public facts about a table.", no_args_is_help=True)


@app.command()
@one_line_errors
def draft(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    target: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    user_column: Annotated[str | None, typer.Option(help="Column that says whose row it is.")] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; never replaced. Default: stdout.")] = None,
    no_ranges: Annotated[
        bool, typer.Option("--no-ranges", help="Read no range off the table: fits find ranges privately.")
    ] = False,
) -> None:
    """Write a schema template that marks every line to be confirmed by a person.

    The template is read off the table: it is not private, and `fit` refuses it until it is confirmed.
    """
    from dpconvex.data import draft_schema, read_table, write_atomically
    from dpconvex.errors import InvalidParameterError

    if output is not None and output.exists():
        raise InvalidParameterError("output", str(output), "exists already", "Choose another name, or remove it")
    text = draft_schema(read_table(table), target, user_column, not no_ranges)
    if output is None:
        print(text)
        return
    write_atomically(output, text)
    print_text(f"Wrote {output}. Confirm every marked line from public knowledge, then set confirmed = true.")


@app.command()
@one_line_errors
def show(schema: Annotated[Path, typer.Argument(help="Schema file (TOML).")]) -> None:
    """Print the columns of a schema, how each is bounded, and how wide it is once encoded."""
    from dpconvex.data import Schema

    declared = Schema.from_toml(schema)
    rows = []
    for column in declared.columns:
        block = column.block
        rows.append((column.name, public_range(column.to_dict()), f"{block.norm} <= {block.bound:g}", str(block.size)))
    print_table(f"Schema {schema}", ("column", "public range or categories", "encoded", "width"), rows, right=(3,))
    print_text()
    print_text(f"{len(declared.columns)} columns, {len(declared.feature_names)} encoded features.")
    if declared.target is not None:
        print_text(f"Target {declared.target.name}: {public_range(declared.target.to_dict())}.")
    if declared.user is not None:
        print_text(f"Users {declared.user}: all rows of a user are protected together.")
    state = "confirmed" if declared.confirmed else "NOT confirmed: fit will refuse it"
    print_text(f"The schema is {state}." + (f" Source: {declared.source}." if declared.source else ""))


def public_range(fields: dict[str, object]) -> str:
    """Return the public range, or the first of the public categories, of a column's or target's fields."""
    listed = fields.get("categories", fields.get("classes"))
    if isinstance(listed, list):
        shown = ", ".join(listed[:4]) + (f", ... ({len(listed)})" if len(listed) > 4 else "")
        rest = f"; any other label counts as {listed[0]}" if "classes" in fields else ""
        return shown + (", or other" if fields.get("other") else rest)
    transform = fields.get("transform")
    if "range" in fields:
        return "found privately by a fit"
    lower, upper = fields["lower"], fields["upper"]
    assert isinstance(lower, float)
    assert isinstance(upper, float)
    unit = f" of unit {fields['unit']:g}" if "unit" in fields else ""
    return f"{number(lower, 9)} to {number(upper, 9)}" + (f", {transform}{unit}" if transform else "")


def print_labels(schema: Schema) -> None:
    """Say which labels count and as what the others do: public, and said whether or not there are any others."""
    if schema.target is not None and not schema.target.numeric:
        print_text(f"Classes: {public_range(schema.target.to_dict())}, so check the spelling.")
