"""A first draft of a schema file, read off a table. Drafting is not private; the draft says so line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from dpconvex.data.columns import PRIVATE
from dpconvex.data.frames import distinct_values, is_float, open_table, require_columns, type_name, with_nan
from dpconvex.data.schema_toml import format_key, format_value
from dpconvex.errors import SchemaError

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from dpconvex._types import FloatArray
    from dpconvex.data.frames import Series

MAX_CATEGORIES = 50
"""A text column with more distinct values is left out of a draft, as an identifier or free text."""

MAX_CODES = 10
"""A column of at most so many distinct whole numbers may hold codes; the draft says so."""

MARK = "  # read from the data: confirm from public knowledge"

_HEAD = """\
# Draft of a schema. It was read off the table, so it may reveal private facts and no private fit accepts it.
# Replace every line marked "read from the data" by public knowledge (documentation, the meaning of the column), or
# convince yourself that it is public; remove columns that are no features; then set confirmed = true.
confirmed = false
source = ""  # say here where the public knowledge comes from
"""

_RATES = """\
# rates = [...]  # if published statistics say how frequent the classes are: one share a class, adding up to 1
"""

_USER = """\
# user = "..."  # if people have several rows: the column that says whose row it is. Then remove it below.
"""


def draft_schema(table: IntoDataFrame, target: str | None = None, user: str | None = None, ranges: bool = True) -> str:
    """Draft a schema file from a table.

    Drafting reads the private data: the draft is for the data's owner, who confirms it line by line.
    `Schema.require_confirmed` refuses it until ``confirmed = true`` is set.

    Parameters
    ----------
    table : pandas, polars, pyarrow or narwhals data frame
        The table.
    target : str, optional
        The column to predict.
    user : str, optional
        The column that says whose record it is. Without it the draft holds a commented line that asks for one.
    ranges : bool
        False: no range is read off the table; ``range = "private"`` lets a fit find ranges privately.

    Returns
    -------
    str
        TOML text. Lines read off the data end with a comment that says so. Columns that are no features as they are
        (types other than text, category, number and boolean; more than 50 distinct texts) are commented out.

    Raises
    ------
    InvalidDataError
        When `table` is no table in memory, or has two columns of one name.
    SchemaError
        When there is no column `target` or `user`, or they are the same.
    """
    frame = open_table(table)
    named = tuple(name for name in (target, user) if name is not None)
    require_columns(frame.columns, named, "the table")
    if target is not None and target == user:
        raise SchemaError(f"the table's column {target!r} cannot be both target and user. Name another one")
    parts = [_HEAD + (_USER if user is None else f"user = {format_value(user)}\n")]
    if target is not None:
        parts.append(_target(frame.get_column(target), ranges))
    parts += [_column(frame.get_column(name), ranges) for name in frame.columns if name not in named]
    return "\n".join(parts)


def _column(series: Series, ranges: bool) -> str:
    head = f"[columns.{format_key(str(series.name))}]\n"
    if not isinstance(series.name, str) or not series.name:
        return _left_out(head, "its name is no text. Name it to use it")
    try:
        values = distinct_values(series)
    except SchemaError:
        return _left_out(head, f"type {type_name(series)} is no feature as it is. Derive numbers or categories from it")
    if series.dtype == nw.Boolean:
        return head + _line("categories", ["false", "true"], read=False)
    if is_float(values):
        numbers = _finite(values)
        note = f"# Few distinct whole numbers. If they are codes: categories = {format_value(_codes(numbers))}\n"
        return head + (note + MARK.strip() + "\n") * _may_be_codes(numbers) + _range(numbers, ranges)
    found = _distinct(values)
    if not 0 < len(found) <= MAX_CATEGORIES:
        return _left_out(head, f"{len(found)} distinct texts. If it is a category, list its public values")
    other = "" if len(found) == 2 else "other = true  # a level for missing and unlisted values\n"
    return head + _line("categories", found) + other


def _target(series: Series, ranges: bool) -> str:
    head = "[target]\n" + _line("name", series.name, read=False)
    values = distinct_values(series)
    numeric, boolean = is_float(values), series.dtype == nw.Boolean
    if numeric and not boolean and not _may_be_codes(_finite(values)):
        return head + _range(_finite(values), ranges)
    found = ["false", "true"] if boolean else _codes(_finite(values)) if numeric else _distinct(values)
    if len(found) < 2:
        return _left_out(head, "fewer than two classes were found. List the public classes")
    note = "# The first class takes missing and unlisted labels; of two classes, the second is the positive one.\n"
    return head + note + _line("classes", found, read=not boolean) + _RATES


def _left_out(head: str, reason: str) -> str:
    lines = "".join(f"# {line}\n" for line in head.splitlines())
    return f"{lines}# Left out: {reason}.{MARK}\n"


def _line(key: str, value: Any, read: bool = True) -> str:
    lines = f"{key} = {format_value(value)}".splitlines()
    return "".join(f"{line}{MARK if read else ''}\n" for line in lines)


def _range(numbers: FloatArray, ranges: bool) -> str:
    if not ranges:
        return _line("range", PRIVATE, read=False)
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (0.0, 1.0)
    if not low < high:
        high = low + max(1.0, abs(low))
    return _line("lower", low) + _line("upper", high)


def _finite(values: Any) -> FloatArray:
    numbers = with_nan(values)
    return numbers[np.isfinite(numbers)]


def _may_be_codes(numbers: FloatArray) -> bool:
    return 2 <= len(np.unique(numbers)) <= MAX_CODES and bool(np.all(numbers == np.floor(numbers)))


def _codes(numbers: FloatArray) -> list[str]:
    return [format_value(float(number)) for number in np.unique(numbers)]


def _distinct(values: Any) -> list[str]:
    import pyarrow as pa

    # As bytes first: text that was not checked on reading may be no valid Unicode.
    found = values.drop_null().cast(pa.large_binary()).to_pylist()
    return sorted({raw.decode("utf-8", "replace") for raw in found} - {""})
