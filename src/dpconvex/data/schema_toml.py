"""The schema file: TOML text to schema parts and back, with errors that name the file, the table and the key."""

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from dpconvex._files import AnyPath, read_text
from dpconvex.data.columns import DATE_PARTS, AbstractColumn, CategoricalColumn, NumericColumn
from dpconvex.data.targets import PRIVATE, AbstractTarget, ClassTarget, NumericTarget, UnrangedColumn, UnrangedTarget
from dpconvex.errors import InvalidParameterError, SchemaError

_NOTES = ("missing", "unit", "source")
_LINE = 100  #: Lists that need a longer line are written with one item a line.
MOST_TEXT, MOST_PARTS = 2**22, 8  #: Largest number of characters of a schema file, and of parts of a dotted key.
_QUOTED = re.compile(  # texts and comments; one that is not closed ends where the file does: linear time for any file
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{0,5}|'
    r"'''(?:[^']|'{1,2}(?!'))*+'{0,5}|"
    r'"(?:[^"\\\n]|\\.)*+"?|'
    r"'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
_SIGNS = re.compile(r"[=\[\],{}\n\r]")
T = TypeVar("T")


def read_schema_text(path: AnyPath) -> str:
    """Text of the schema file at `path`, or `SchemaError`."""
    try:
        return read_text(path)
    except OSError as error:
        raise SchemaError(f"{path}: the schema file cannot be read ({error.strerror}). Check the path") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{path}: the schema file must be UTF-8 text. Save it as UTF-8") from None


def parse_toml(toml: str, where: str) -> dict[str, Any]:
    """Content of a schema file's text, or `SchemaError`."""
    if len(toml) > MOST_TEXT:
        raise SchemaError(f"{where}: is longer than {MOST_TEXT:,} characters. Give fewer columns or shorter lists")
    bare = _QUOTED.sub("q", toml).replace(" ", "").replace("\t", "")
    if max(piece.count(".") for piece in _SIGNS.split(bare)) >= MOST_PARTS:  # `tomllib` takes time with their square
        raise SchemaError(f"{where}: holds a key of more than {MOST_PARTS} parts. Names with dots need quotes")
    try:
        return tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"{where}: is no valid TOML, as a schema file must be: {error}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists
        raise SchemaError(f"{where}: holds a number that is too long, or lists too deep in one another") from None


def parse_schema(
    given: Mapping[str, Any], where: str
) -> tuple[tuple[AbstractColumn, ...], AbstractTarget | None, dict[str, Any]]:
    """Columns, target and the remaining fields of a schema file's content, or `SchemaError`."""
    content = dict(given)
    optional = {"source", "user", "weight", "weight_cap", "line_breaks", "target"}
    _check_keys(where, content, {"confirmed", "columns"}, optional)
    tables = _table(f"{where}: columns", content.pop("columns"))
    columns = tuple(_column(f"{where}: [columns.{format_key(name)}]", name, tables[name]) for name in tables)
    target = _target(f"{where}: [target]", content.pop("target")) if "target" in content else None
    return columns, target, content


def format_schema(columns: Iterable[AbstractColumn], target: AbstractTarget | None, confirmed: bool, **own: Any) -> str:
    """The text of a schema file; what is empty text or None of its `own` facts is left out."""
    tables = [_lines({"confirmed": confirmed} | {key: value for key, value in own.items() if value or value is False})]
    if target is not None:
        tables.append("[target]\n" + _lines(target.to_dict()))
    tables += [f"[columns.{format_key(column.name)}]\n{_lines(column.to_dict())}" for column in columns]
    return "\n".join(tables)


def format_key(name: str) -> str:
    """`name` as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else format_value(name)


def format_value(value: Any) -> str:
    """A text, number, truth value, list or table of texts as a TOML value."""
    if isinstance(value, str):
        # JSON escapes the same characters as TOML, but for this one, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        items = [format_value(item) for item in value]
        line = "[" + ", ".join(items) + "]"
        return line if len(line) <= _LINE else "[\n" + "".join(f"  {item},\n" for item in items) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{format_key(key)} = {format_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return json.dumps(value)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{format_key(key)} = {format_value(value)}\n" for key, value in table.items())


def _column(where: str, name: str, content: Any) -> AbstractColumn:
    fields = _table(where, content)
    if "categories" in fields or fields.get("date") in DATE_PARTS:
        required = set() if "date" in fields else {"categories"}
        return _build(where, CategoricalColumn, fields, required, {"other", "aliases", "date", "format"}, name=name)
    optional = {"step", "transform", "indicator", "formula", "date", "at", "format"}
    if _unranged(where, fields):
        return _build(where, UnrangedColumn, fields, (), optional, name=name)
    remedy = 'For a column of categories, give categories; where no range is public, range = "private"'
    optional |= {"knots", "scale"}
    return _build(where, NumericColumn, fields, {"lower", "upper"}, optional, remedy, name=name)


def _unranged(where: str, fields: dict[str, Any]) -> bool:
    """Take the key ``range`` off a column's fields; return whether the range is to be found privately."""
    given = fields.pop("range", None)
    if given not in (None, PRIVATE):
        raise SchemaError(f"{where} range={given!r:.100}: must be {PRIVATE!r}. A declared range is lower and upper")
    return given is not None


def _target(where: str, content: Any) -> AbstractTarget:
    fields = _table(where, content)
    if _unranged(where, fields):
        return _build(where, UnrangedTarget, fields, {"name"}, {"step"})
    if "lower" in fields or "upper" in fields:
        return _build(where, NumericTarget, fields, {"name", "lower", "upper"}, {"step"})
    remedy = "For a numeric target, lower and upper, or range"
    return _build(where, ClassTarget, fields, {"name", "classes"}, {"rates", "aliases"}, remedy)


def _build(
    where: str, make: Callable[..., T], fields: Mapping[str, Any], required: Collection[str], optional: Collection[str],
    remedy: str = "", **own: str,
) -> T:  # fmt: skip
    _check_keys(where, fields, required, {*optional, *_NOTES}, remedy)
    try:
        return make(**own, **fields)
    except InvalidParameterError as error:
        raise SchemaError(f"{where} {error}") from None


def _table(where: str, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise SchemaError(f"{where} must be a table. Write it as [columns.age] with its keys on the lines below")
    return dict(content)  # keys are taken off


def _check_keys(
    where: str, content: Mapping[str, Any], required: Collection[str], optional: Collection[str], remedy: str = ""
) -> None:
    missing = sorted(set(required) - set(content))
    unknown = sorted(set(content) - set(required) - set(optional))
    if not missing and not unknown:
        return
    faults = [f"{key} is missing" for key in missing] + [f"{key[:100]} is not a key here" for key in unknown[:20]]
    keys = f"Required: {', '.join(sorted(required))}"
    keys += f"; optional: {', '.join(sorted(optional))}" if optional else ""
    raise SchemaError(". ".join(filter(None, [f"{where} {', '.join(faults)}", keys, remedy])))
