"""``dpconvex schema``: draft a schema file, show one, and look at what it makes of a table."""

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import dpconvex
from dpconvex._files import write_atomically
from dpconvex.cli import _options
from dpconvex.cli._output import number, one_line_errors, print_json, print_table, print_text
from dpconvex.errors import InvalidParameterError

app = typer.Typer(help="Draft, check and show schema files: the public facts about a table.", no_args_is_help=True)


@app.command()
@one_line_errors
def draft(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file.")],
    target: Annotated[str | None, typer.Option(help="Column to predict.")] = None,
    user_column: Annotated[str | None, typer.Option(help="Column that says whose row it is.")] = None,
    output: Annotated[Path | None, typer.Option(help="File to write; never replaced. Default: stdout.")] = None,
    no_ranges: Annotated[bool,
        typer.Option("--no-ranges", help="Read no range off the table: fits find ranges privately.")] = False,
) -> None:  # fmt: skip
    """Write a schema template that marks every line to be confirmed by a person.

    The template is read off the table: it is not private, and `fit` refuses it until it is confirmed.
    """
    from dpconvex.data.draft import FOREIGN, MARK, TAKEN

    _refuse_existing(output)
    text = dpconvex.draft_schema(dpconvex.read_table(table), target, user_column, not no_ranges)
    if text.startswith(f"# {FOREIGN}"):
        print(f"warning: {FOREIGN}", file=sys.stderr)
    if problem := re.search(r"^# \[target\]\n(?:# .*\n)*?# Left out: (.*)$", text, re.MULTILINE):
        print(f"warning: {target!r} cannot be the target as it is: {problem[1].removesuffix(MARK)}", file=sys.stderr)
    if output is None:
        print(text)
        return
    write_atomically(output, text)
    tables = re.findall(r"^(?:# )?\[columns\.(.+)\]\n((?:.+\n)*)", text, re.MULTILINE)
    for what, begins in (("Left out, for reasons that the file gives", "# Left out"), (TAKEN, f"# {TAKEN}")):
        if names := [name.strip('"') for name, lines in tables if re.search(f"^{begins}", lines, re.MULTILINE)]:
            print_text(f"{what}: {', '.join(name or '(no name)' for name in names)}.")
    print_text(f"Wrote {output}. Confirm every marked line from public knowledge, then set confirmed = true.")


def _refuse_existing(output: Path | None) -> None:
    if output is not None and output.is_file():
        raise InvalidParameterError("output", str(output), "exists already", "Choose another name, or remove it")


NOT_PRIVATE = "NOT PRIVATE: read off the records, for the eyes of the data's owner only. Do not pass it on."


@app.command()
@one_line_errors
def check(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file with the private records.")],
    schema: Annotated[Path, typer.Argument(help="Schema file (TOML), confirmed or not.")],
    output: Annotated[Path | None, typer.Option(help="JSON file to write; never replaced. Default: none.")] = None,
    as_json: _options.Json = False,
) -> None:
    """Look at what a schema makes of a table. LOCAL AND NOT PRIVATE: spends no budget, and reveals private facts.

    A misspelt label or a wrong unit is found before it costs a budget. Nothing is written unless --output asks for it.
    """
    from dpconvex.data import look_at
    from dpconvex.data.schema import require_possible

    _refuse_existing(output)
    declared = dpconvex.Schema.from_toml(schema)
    rows = dpconvex.read_table(table, declared)
    require_possible(declared.columns, rows)  # as fits do
    look = look_at(rows, declared)
    facts = {"private": False, "warning": NOT_PRIVATE, **asdict(look)}
    if output is not None:
        write_atomically(output, json.dumps(facts, indent=2) + "\n")
    if as_json:
        return print_json(facts)
    print_text(f"{NOT_PRIVATE}\n")
    rows = []
    for one in look.columns:
        shares = (f"{share:.2%}" if share else "" for share in (one.missing, one.unlisted, one.clipped))
        signal = "constant" if one.constant else "" if one.signal is None else f"{one.signal:.3f}"
        rows.append((one.name, *shares, signal))
    headers = ("column", "missing", "unlisted", "clipped", "signal")
    print_table(f"{look.rows:,} rows as {schema} has them", headers, rows, right=(1, 2, 3, 4))
    print_text()
    for one in look.columns:
        for text, value in one.spellings.items():
            print_text(f"{one.name}: {text!r} is not listed." + (f" Did you mean {value!r}?" if value else ""))
    if look.users is not None:
        print_text(f"{look.users:,} users; at most {look.most_rows:,} rows each; {look.users_with_many:,} over 20.")
    print_text("Signal: share of the target's variance that a column explains by itself (R^2, in these records).")
    print_text(NOT_PRIVATE)


@app.command()
@one_line_errors
def show(schema: Annotated[Path, typer.Argument(help="Schema file (TOML).")]) -> None:
    """Print the columns of a schema, how each is bounded, and how wide it is once encoded."""
    declared = dpconvex.Schema.from_toml(schema)
    rows = []
    for column in declared.columns:
        block = column.block
        rows.append((column.name, public_range(column.to_dict()), f"{block.norm} <= {block.bound:g}", str(block.size)))
    print_table(f"Schema {schema}", ("column", "public range or categories", "encoded", "width"), rows, right=(3,))
    print_text(f"\n{len(declared.columns)} columns, {len(declared.feature_names)} encoded features.")
    if declared.target is not None:
        print_text(f"Target {declared.target.name}: {public_range(declared.target.to_dict())}.")
    if declared.user is not None:
        print_text(f"Users {declared.user}: all rows of a user are protected together.")
    state = "confirmed" if declared.confirmed else "NOT confirmed: fit will refuse it"
    print_text(f"The schema is {state}." + (f" Source: {declared.source}." if declared.source else ""))


def public_range(fields: dict[str, Any]) -> str:
    """Return the public range, or the first of the public categories, of a column's or target's fields."""
    from dpconvex.data.columns import DATE_PARTS

    if fields.get("date") in DATE_PARTS:
        return f"{fields['date']} of a date" + (", or other" if fields.get("other") else "")
    listed = fields.get("categories", fields.get("classes"))
    if isinstance(listed, list):
        shown = ", ".join(listed[:4]) + (f", ... ({len(listed)})" if len(listed) > 4 else "")
        rest = f"; any other label counts as {listed[0]}" if "classes" in fields else ""
        return shown + (", or other" if fields.get("other") else rest)
    transform = fields.get("transform")
    if "range" in fields:
        return "found privately by a fit"
    lower, upper = fields["lower"], fields["upper"]
    unit = f" {fields['unit']}" if fields.get("unit") else ""
    days = f" days before {fields.get('at')}" * ("at" in fields)
    made = f" of {fields['formula']}" if fields.get("formula") else days or " of the day" * ("date" in fields)
    notes = [str(transform)] * bool(transform) + ["missing: indicator"] * bool(fields.get("indicator"))
    return f"{number(lower, 9)} to {number(upper, 9)}{unit}{made}" + "".join(f", {note}" for note in notes)


def print_labels(schema: "dpconvex.Schema") -> None:
    """Say which labels count and as what the others do: public, and said whether or not there are any others."""
    if schema.target is not None and not schema.target.numeric:
        print_text(f"Classes: {public_range(schema.target.to_dict())}, so check the spelling.")
