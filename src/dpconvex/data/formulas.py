"""Public maps of cells: dates as days, clock times as hours, and formulas over the columns of one record.

Every result is a function of one record and public text. Formulas are parsed, never executed as Python: they may hold
names, numbers, ``+ - * / **`` and the functions of `FUNCTIONS`. Cells never raise: a result without value is missing.
"""

import ast
import datetime
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from dpconvex._arrow import pa, pc
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.data.frames import Series, dates_or_texts, numbers, taken
from dpconvex.errors import InvalidParameterError

ISO = "%Y-%m-%d"  #: Default format of dates
_FIELDS = {"%Y": "(?P<Y>[0-9]{4})", "%m": "(?P<m>[0-9]{1,2})", "%d": "(?P<d>[0-9]{1,2})"}
_FIELDS |= {"%y": "(?P<Y>[0-9]{2})", "%b": "(?P<m>[A-Za-z]{3})"}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_CLOCK = "(?:^|[T ])(?P<h>[0-9]{1,2}):(?P<m>[0-9]{2})(?::(?P<s>[0-9]{2})(?:[.,][0-9]+)?)? ?(?P<p>[AaPp][Mm])?"
_CLOCK += "(?:Z|[+-][0-9]{2}:?[0-9]{2})?$"


def date_pattern(form: Any) -> str:
    """Return the regular expression of dates in a format, which a time may follow; refuse unsupported formats."""
    parts = re.split("(%.)", form) if isinstance(form, str) else []
    if sorted({"%y": "%Y", "%b": "%m"}.get(part, part) for part in parts[1::2]) != ["%Y", "%d", "%m"] or len(form) > 20:
        what = "must hold %Y (or %y), %m (or %b) and %d once each"
        raise InvalidParameterError("format", form, what, 'For example "%d.%m.%Y"')
    return "^" + "".join(_FIELDS.get(part) or re.escape(part) for part in parts) + "(?:[T ].*)?$"


def days(series: Series, form: str = ISO) -> Floats:
    """Return dates as days since 1970, (n,), NaN where a cell is no date; texts are read in the format `form`."""
    values, positions = dates_or_texts(series)
    if not pa.types.is_large_string(values.type):
        return taken(np.asarray(values.cast(pa.float64()).fill_null(math.nan)), positions, math.nan)
    found: Any = pc.extract_regex(values, date_pattern(form))
    parts = {name: pc.struct_field(found, name) for name in "Ymd"}
    if "%b" in form:
        parts["m"] = pc.cast(pa.array(_place(parts["m"], _MONTHS) + 1), pa.large_string())
    year, month, day = map(_whole, parts.values())
    if "%y" in form:
        year = year + np.where(year < 69, 2000, 1900)  # POSIX's rule
    real = (year > 0) & (month >= 1) & (month <= 12) & (day >= 1)
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    dates = months.astype("M8[D]") + (day - 1)
    real &= dates.astype("M8[M]") == months
    return taken(np.where(real, dates.astype(np.int64), math.nan), positions, math.nan)


def _whole(part: Any) -> Array:
    """Return texts of digits (n,) as whole numbers; 0 for missing texts."""
    return np.asarray(pc.if_else(pc.equal(part, ""), "0", part).cast(pa.int64()).fill_null(0), dtype=np.int64)


def _place(part: Any, listed: Sequence[str]) -> Array:
    """Return the positions (n,) of texts in a list, ignoring case; -1 for texts not listed."""
    return np.asarray(pc.index_in(pc.ascii_lower(part), pa.array(listed, pa.large_string())).fill_null(-1))


def hours(series: Series) -> Floats:
    """Return the time of day in hours, in [0, 24), NaN where a cell, or its end after a date, is no clock time."""
    values, positions = dates_or_texts(series, clock=True)
    if not pa.types.is_large_string(values.type):
        return taken(np.asarray(values.fill_null(math.nan)), positions, math.nan)
    found: Any = pc.extract_regex(values, _CLOCK)
    hour, minute, second = (_whole(pc.struct_field(found, name)) for name in "hms")
    half = _place(pc.struct_field(found, "p"), ["am", "pm"])
    real = np.asarray(found.is_valid()) & (minute < 60) & (second < 60) & (hour < np.where(half < 0, 24, 13))
    hour = np.where(half < 0, hour, hour % 12 + 12 * half)
    return taken(np.where(real, hour + minute / 60 + second / 3600, math.nan), positions, math.nan)


def written_hours(cells: Any) -> Any:
    """Return hours of the day (n,) as texts, ``"13:05:00"``."""
    seconds = np.clip(cells.fill_null(0).to_numpy() * 3600, 0, 86399).astype(np.int32)
    return pa.array(seconds, pa.time32("s"), mask=cells.is_null().to_numpy(zero_copy_only=False)).cast(pa.string())


def public_date(name: str, text: Any) -> int:
    """Return a date of a schema as days since 1970, or raise `InvalidParameterError`."""
    try:
        return (datetime.date.fromisoformat(str(text)) - datetime.date(1970, 1, 1)).days
    except ValueError:
        raise InvalidParameterError(name, text, "must be a date", 'Write it as "2024-12-31"') from None


def written_dates(ages: Any, at: str, form: str) -> Any:
    """Return the dates `ages` (n,) days before the date `at`: as dates, or as texts in a format."""
    found = np.clip(public_date("at", at) - ages.fill_null(0).to_numpy(), -719162, 2932896)  # years 1 to 9999
    dates = pa.array(found.astype("M8[D]"), mask=ages.is_null().to_numpy(zero_copy_only=False))
    return dates if form == ISO else pc.strftime(dates, form)


def parts_of_dates(found: Floats, part: str) -> Array:
    """Return the month 1 to 12, or the weekday 1 (Monday) to 7, of days since 1970 (n,); 0 where a date is missing."""
    known = ~np.isnan(found)
    number = np.where(known, found, 0).astype(np.int64)
    if part == "weekday":
        return np.where(known, (number + 3) % 7 + 1, 0)
    return np.where(known, number.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1, 0)


FUNCTIONS: dict[str, tuple[int, Any]] = {"abs": (1, np.abs), "exp": (1, np.exp), "log": (1, np.log)}
FUNCTIONS |= {"log1p": (1, np.log1p), "max": (2, np.maximum), "min": (2, np.minimum), "sqrt": (1, np.sqrt)}
"""Functions that a formula may call, with their number of arguments; ``days`` and ``hours`` take a column's name."""

_SIGNS: dict[type, Any] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.USub: operator.neg, ast.UAdd: operator.pos}
_SIGNS |= {ast.Mult: operator.mul, ast.Div: np.true_divide, ast.Pow: np.power}
_LONGEST = 500  # largest number of characters of a formula
Value = Callable[[Mapping[str, Any]], Any]  #: Returns an expression's values (n,) from the columns, by name


@final_dataclass
class Formula:
    """A formula for a number of each record: ``weight / (height / 100) ** 2``, ``days("left") - days("came")``."""

    inputs: dict[str, bool]  #: names of input columns; True: read as numbers, False: as dates and clock times
    value: Value  #: the formula as a function of the columns

    def of(self, frame: Any, missing: Array, form: str) -> Floats:
        """Return the values (n,) for a frame; cells that equal a number in `missing` (k,) count as missing."""
        columns = {
            name: without(numbers(series, texts=True), missing) if self.inputs[name] else series
            for name, series in ((name, frame.get_column(name)) for name in self.inputs)
        }
        with np.errstate(all="ignore"):
            return np.array(self.value(columns | {"": form}), dtype=np.float64)  # no column is named ""


@cache
def parse(text: str) -> Formula:
    """Parse a formula, or raise `InvalidParameterError`; nothing in it is executed."""
    remedy = f"Use columns, numbers, + - * / **, days(column), hours(column) and {', '.join(FUNCTIONS)}"
    found: dict[str, bool] = {}
    try:
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise ValueError
        value = _built(ast.parse(text.strip(), mode="eval").body, found)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        raise InvalidParameterError("formula", text, "is no formula that can be read", remedy) from None
    if not found:
        raise InvalidParameterError("formula", text, "must name a column", remedy)
    return Formula(found, value)


def _built(node: ast.AST, found: dict[str, bool]) -> Value:
    """Return a formula as a function of its columns, noted in `found`; ValueError for syntax that is not allowed."""
    match node:
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
            return _call(_SIGNS[type(sign)], _built(left, found), _built(right, found))
        case ast.UnaryOp(sign, operand) if type(sign) in _SIGNS:
            return _call(_SIGNS[type(sign)], _built(operand, found))
        case ast.Call(ast.Name("days"), [argument], []):
            dates = _column(argument, False, found)
            return lambda columns: days(dates(columns), columns[""])
        case ast.Call(ast.Name("hours"), [argument], []):
            return _call(hours, _column(argument, False, found))
        case ast.Call(ast.Name(name), arguments, []) if name in FUNCTIONS and len(arguments) == FUNCTIONS[name][0]:
            return _call(FUNCTIONS[name][1], *(_built(each, found) for each in arguments))
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            constant = np.float64(value)
            return lambda columns: constant
        case _:
            return _column(node, True, found)


def _call(function: Any, first: Value, second: Value | None = None) -> Value:
    """Return a function of the columns that applies `function`, with one Python frame per level of nesting."""
    if second is None:
        return lambda columns: function(first(columns))
    return lambda columns: function(first(columns), second(columns))


def _column(node: ast.AST, numeric: bool, found: dict[str, bool]) -> Value:
    match node:
        case ast.Name(name) | ast.Constant(str() as name) if name and found.setdefault(name, numeric) == numeric:
            return lambda columns: columns[name]
        case _:
            raise ValueError


def without(values: Floats, missing: Array) -> Floats:
    """Return numbers (n,) with NaN for the numbers that are listed as missing."""
    return np.where(np.isin(values, missing), math.nan, values) if len(missing) else values
