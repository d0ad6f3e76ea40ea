"""Public maps of cells: increasing transforms, dates as days, and formulas over the columns of one record.

All of it is a function of one record and public text. Formulas are parsed, never executed as Python: names, numbers,
``+ - * / **`` and the functions of `FUNCTIONS` are all there is. No content raises: what has no value is missing.
"""

from __future__ import annotations

import ast
import datetime
import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.data.frames import compute, dates_or_texts, numbers, taken
from dpconvex.errors import InvalidParameterError

if TYPE_CHECKING:
    from dpconvex.data.frames import Series


def _signed_log(x: Any) -> Any:
    return np.sign(x) * np.log1p(np.abs(x))


def _signed_exp(x: Any) -> Any:
    return np.sign(x) * np.expm1(np.abs(x))


TRANSFORMS: dict[str, tuple[Any, Any, float]] = {
    "none": (np.positive, np.positive, -math.inf),
    "log1p": (np.log1p, np.expm1, -1.0),
    "sqrt": (np.sqrt, np.square, 0.0),
    "signed_log": (_signed_log, _signed_exp, -math.inf),
}
"""Increasing maps by name: the map, its inverse, and where its domain begins."""

ISO = "%Y-%m-%d"
_FIELDS = {"%Y": "(?P<Y>[0-9]{4})", "%m": "(?P<m>[0-9]{1,2})", "%d": "(?P<d>[0-9]{1,2})"}


def date_pattern(form: Any) -> str:
    """Return the regular expression of dates in a format, a time after them allowed; refuse other formats."""
    parts = re.split("(%.)", form) if isinstance(form, str) else []
    if sorted(parts[1::2]) != ["%Y", "%d", "%m"] or len(form) > 20:
        raise InvalidParameterError("format", form, "must hold %Y, %m and %d once each", 'For example "%d.%m.%Y"')
    return "^" + "".join(_FIELDS.get(part) or re.escape(part) for part in parts) + "(?:[T ].*)?$"


def days(series: Series, form: str = ISO) -> FloatArray:
    """Return dates as days since 1970, (n,), NaN where a cell is no date; texts are read in the format `form`."""
    import pyarrow as pa

    pc = compute()
    values, positions = dates_or_texts(series)
    if not pa.types.is_large_string(values.type):
        return taken(np.asarray(values.cast(pa.float64()).fill_null(math.nan)), positions, math.nan)
    found: Any = pc.extract_regex(values, date_pattern(form))
    parts = [pc.struct_field(found, name).cast(pa.int64()).fill_null(0) for name in "Ymd"]
    year, month, day = (np.asarray(part, dtype=np.int64) for part in parts)
    real = (year > 0) & (month >= 1) & (month <= 12) & (day >= 1)
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    dates = months.astype("M8[D]") + (day - 1)
    real &= dates.astype("M8[M]") == months
    return taken(np.where(real, dates.astype(np.int64), math.nan), positions, math.nan)


def public_date(name: str, text: Any) -> int:
    """Return a date of a schema as days since 1970, or raise `InvalidParameterError`."""
    try:
        return (datetime.date.fromisoformat(str(text)) - datetime.date(1970, 1, 1)).days
    except ValueError:
        raise InvalidParameterError(name, text, "must be a date", 'Write it as "2024-12-31"') from None


def parts_of_dates(found: FloatArray, part: str) -> AnyArray:
    """Return the month 1 to 12, or the weekday 1 (Monday) to 7, of days since 1970 (n,); 0 where a date is missing."""
    known = ~np.isnan(found)
    number = np.where(known, found, 0).astype(np.int64)
    if part == "weekday":
        return np.where(known, (number + 3) % 7 + 1, 0)
    return np.where(known, number.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12 + 1, 0)


FUNCTIONS: dict[str, tuple[int, Any]] = {
    "abs": (1, np.abs),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "log1p": (1, np.log1p),
    "max": (2, np.maximum),
    "min": (2, np.minimum),
    "sqrt": (1, np.sqrt),
}
"""What a formula may call, and with how many arguments; besides ``days``, of the name of a column of dates."""

_SIGNS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.Pow: np.power,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_LONGEST = 500


@final
@dataclass(frozen=True)
class Formula:
    """A number of each record, as ``weight / (height / 100) ** 2`` or ``days("left") - days("came")``.

    Columns stand for themselves, in quotes where their names are no words.
    """

    text: str
    numbers: tuple[str, ...]  #: columns that are read as numbers
    dates: tuple[str, ...]  #: columns that are read as dates
    tree: ast.expr

    def __call__(self, columns: Mapping[tuple[str, bool], FloatArray]) -> FloatArray:
        """Return the values, (n,), for columns (n,) by name and whether they are dates."""
        with np.errstate(all="ignore"):
            return np.array(self._value(self.tree, columns), dtype=np.float64)

    def _value(self, node: ast.expr, columns: Mapping[tuple[str, bool], FloatArray]) -> Any:
        match node:
            case ast.BinOp(left, sign, right):
                return _SIGNS[type(sign)](self._value(left, columns), self._value(right, columns))
            case ast.UnaryOp(sign, operand):
                return _SIGNS[type(sign)](self._value(operand, columns))
            case ast.Call(ast.Name("days"), [argument]):
                return columns[_name(argument), True]
            case ast.Call(ast.Name(name), arguments):
                return FUNCTIONS[name][1](*(self._value(each, columns) for each in arguments))
            case ast.Constant(int() | float() as number):
                return np.float64(number)
            case _:
                return columns[_name(node), False]


@cache
def parse(text: str) -> Formula:
    """Parse a formula, or raise `InvalidParameterError`; nothing in it is executed."""
    remedy = f"Use columns, numbers, + - * / **, days(column) and {', '.join(FUNCTIONS)}"
    try:
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise ValueError
        tree = ast.parse(text.strip(), mode="eval").body
        found: dict[tuple[str, bool], None] = {}
        _check(tree, found)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        raise InvalidParameterError("formula", text, "is no formula that can be read", remedy) from None
    if not found:
        raise InvalidParameterError("formula", text, "must name a column", remedy)
    numeric, dates = (tuple(name for name, date in found if date == kind) for kind in (False, True))
    return Formula(text, numeric, dates, tree)


def _check(node: ast.AST, found: dict[tuple[str, bool], None]) -> None:
    """Note the columns of a formula; raise ValueError at anything that is not listed here."""
    match node:
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
            _check(left, found)
            _check(right, found)
        case ast.UnaryOp(sign, operand) if type(sign) in _SIGNS:
            _check(operand, found)
        case ast.Call(ast.Name("days"), [argument], []):
            found[_name(argument), True] = None
        case ast.Call(ast.Name(name), arguments, []) if name in FUNCTIONS and len(arguments) == FUNCTIONS[name][0]:
            for argument in arguments:
                _check(argument, found)
        case ast.Constant(int() | float() as value) if not isinstance(value, bool):
            float(value)
        case _:
            found[_name(node), False] = None


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(name) | ast.Constant(str() as name) if name:
            return name
        case _:
            raise ValueError


def evaluated(made: Formula, frame: Any, missing: AnyArray, form: str) -> FloatArray:
    """Return a formula's values for a frame (n,); cells that equal a number in `missing` (k,) have none."""
    columns: dict[tuple[str, bool], FloatArray] = {}
    for name in made.numbers:
        columns[name, False] = without(numbers(frame.get_column(name), texts=True), missing)
    for name in made.dates:
        columns[name, True] = days(frame.get_column(name), form)
    return made(columns)


def without(values: FloatArray, missing: AnyArray) -> FloatArray:
    """Return numbers (n,) with NaN for those that are listed as missing."""
    return np.where(np.isin(values, missing), math.nan, values) if len(missing) else values
