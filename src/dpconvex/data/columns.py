"""Columns of a schema: how they become bounded features, or the target to predict."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from dpconvex import _validate
from dpconvex._types import REQUIRED, Array, Floats, final_dataclass, set_fields
from dpconvex.data import formulas, frames
from dpconvex.data.cells import MISSING, CategoryCells, CellColumn, NumberBins, OpenCells
from dpconvex.errors import InvalidParameterError
from dpconvex.problems.data.domain import Block, BlockValues, likely_values
from dpconvex.problems.data.ranges import NumberRange

BLANKS = " \t\n\v\f\r"  #: Characters that are trimmed off the ends of a cell before it is compared.
MOST_KNOTS = 64  #: Largest number of knots of a shape.
OTHER = "(other)"  #: Name of the level of missing and unlisted values.
_LAST = ("step", "scale", "indicator", "formula", "date", "at", "format", "missing", "unit", "source")  #: Keys.
DATE_PARTS = {"month": 12, "weekday": 7}  #: Parts of a date: categories, numbered from 1; weeks begin on Mondays.


def nonempty(name: str, value: Any) -> str:
    """Return `value` when it is non-empty Unicode text, or raise `InvalidParameterError`."""
    if not isinstance(value, str) or not value:
        raise InvalidParameterError(name, value, "must be text and not empty", "Write it in quotes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameterError(name, value, "must be valid Unicode text") from None
    return value


def texts(name: str, values: Any, at_least: int) -> tuple[str, ...]:
    """Return distinct `values` as a tuple, or raise `InvalidParameterError`."""
    if isinstance(values, str) or not isinstance(values, list | tuple) or len(values) < at_least:
        raise InvalidParameterError(name, values, f"must be a list of at least {at_least} texts")
    found = tuple(nonempty(f"{name}[{i}]", value) for i, value in enumerate(values))
    for i, value in enumerate(found):
        if value != value.strip(BLANKS):
            raise InvalidParameterError(f"{name}[{i}]", value, "must have no blanks around it", "Cells are trimmed too")
    if repeated := frames.duplicates(found):
        raise InvalidParameterError(name, repeated[0], "is listed twice", "List every value once")
    return found


@dataclass(frozen=True, kw_only=True)
class Described(ABC):
    """One column of a table with its public facts; `unit` and `source` (who says so) are for people."""

    name: str
    missing: tuple[str, ...] = ()  #: Texts or numbers that mean a missing value
    unit: str = ""
    source: str = ""
    step: float = 0.0  #: Public step of the numbers: 1 for whole numbers, 0.01 for cents; 0 for any numbers
    numeric: ClassVar[bool] = True  #: Whether cells are read as numbers (else as text).
    ranged: ClassVar[bool] = True  #: Whether public values are declared; else a private fit finds their range.

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        listed: Any = self.missing
        if isinstance(listed, list | tuple):
            listed = [str(cell) if type(cell) in (int, float) else cell for cell in listed]
        object.__setattr__(self, "missing", texts("missing", listed, 0))
        if self.step != 0 and not self.numeric:
            raise InvalidParameterError("step", self.step, "is for columns of numbers", "Leave it out")
        if self.step != 0:
            object.__setattr__(self, "step", _validate.real("step", self.step, at_least=1e-9, remedy="Leave it out"))
        for key in ("unit", "source"):
            if not isinstance(getattr(self, key), str):
                raise InvalidParameterError(key, getattr(self, key), "must be text")

    @property
    def inputs(self) -> dict[str, bool]:
        """The columns of the table from which this column is made, and whether they are read as numbers."""
        return {self.name: self.numeric}

    def read(self, frame: frames.Frame) -> frames.Series:
        """The column of a table, read cell by cell as the schema says, with codes for no value as missing."""
        return self.clean(frame.get_column(self.name))

    def clean(self, series: frames.Series) -> frames.Series:
        """The same column with missing cells, aliases and dates as the schema says."""
        if self.numeric and len(self._missing_numbers):
            return frames.number_series(formulas.without(frames.numbers(series, texts=True), self._missing_numbers))
        return series

    @abstractmethod
    def cells(self, bins: NumberBins) -> CellColumn:
        """The column with finitely many values; `bins` are for numbers."""

    def to_dict(self) -> dict[str, Any]:
        """The column's table in a schema file; defaults are left out."""
        parts = sorted(fields(self), key=lambda part: _LAST.index(part.name) if part.name in _LAST else -1)
        found = {part.name: getattr(self, part.name) for part in parts if getattr(self, part.name) != part.default}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in found.items() if v not in ((), {})}

    @cached_property
    def _missing_numbers(self) -> Array:
        listed = frames.with_nan(frames.parse_numbers(frames.object_texts(np.array(self.missing, dtype=object))))
        return listed[~np.isnan(listed)]


class AbstractColumn(Described):
    """One column of a table as features: a block of consecutive columns inside a public bound."""

    #: Range to which numbers are clipped, if the encoding only maps this range to [-1/2, 1/2]; else None
    interval: tuple[float, float] | None = None
    block: Block = REQUIRED  #: Size, norm and bound of the encoded column.
    feature_names: tuple[str, ...] = REQUIRED  #: One name per encoded column.

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in super().to_dict().items() if key != "name"}

    def compact(self, series: frames.Series) -> Array:
        """The `read` cells in few bytes, (n,): numbers, NaN if missing, or positions of categories, -1 if missing."""
        return frames.numbers(series, texts=True)

    @abstractmethod
    def encode_into(self, cells: Array, out: Floats, missing: float = 0.0) -> None:
        """Write compact cells, encoded, into `out`, zeros (n, ``block.size``); a number as `missing` where none is."""

    def entries(self, cells: Array, missing: float) -> tuple[Array, Array, Floats]:
        """The entries of encoded cells that are not 0, (k,) each: rows, columns, and values."""
        out = np.zeros((len(cells), self.block.size))
        self.encode_into(cells, out, missing)
        rows, columns = np.nonzero(out)
        return rows, columns, out[rows, columns]


@dataclass(frozen=True, kw_only=True)
class NumberColumn(AbstractColumn):
    """A column of numbers, read or computed, encoded as one feature; two with `indicator`. Fields: `NumericColumn`."""

    indicator: bool | None = None
    formula: str = ""
    date: Literal["", "age", "hour"] = ""
    at: str = ""
    format: str = formulas.ISO
    values: ClassVar[BlockValues] = "any"  #: Kind of values that plans assume by the range

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.indicator, bool | None):
            raise InvalidParameterError("indicator", self.indicator, "must be true or false")
        _validate.choice("date", self.date, ("", "age", "hour"), 'Months and weekdays are categories: date = "month"')
        if bool(self.at) != (self.date == "age") or (self.date and self.formula):
            what = "must be a date where there is an age, and nowhere else"
            raise InvalidParameterError("at", self.at, what, "In a formula, use days(column) or hours(column)")
        if self.at:
            formulas.public_date("at", self.at)
            object.__setattr__(self, "at", str(self.at))  # TOML has dates of its own
        formulas.date_pattern(self.format)
        if self.formula != "":
            formulas.parse(self.formula)

    @property
    def inputs(self) -> dict[str, bool]:
        return formulas.parse(self.formula).inputs if self.formula else {self.name: not self.date}

    def read(self, frame: frames.Frame) -> frames.Series:
        if not self.formula:
            return super().read(frame)
        return frames.number_series(formulas.parse(self.formula).of(frame, self._missing_numbers, self.format))

    def clean(self, series: frames.Series) -> frames.Series:
        if not self.date:
            return super().clean(series)
        if self.date == "hour":
            return frames.number_series(formulas.hours(series))
        return frames.number_series(formulas.public_date("at", self.at) - formulas.days(series, self.format))

    @property
    def block(self) -> Block:
        return Block(2, "l1", 0.5, self.name) if self.indicator else Block(1, "linf", 0.5, self.name, self.values)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}={MISSING}") if self.indicator else (self.name,)

    def encode_into(self, cells: Array, out: Floats, missing: float = 0.0) -> None:
        if self.indicator:
            out[:, 1] = np.where(np.isnan(cells), 0.5, 0.0)
        self._place(cells, out[:, 0])
        if self.ranged and missing != 0:
            out[np.isnan(cells), 0] = missing

    @abstractmethod
    def _place(self, cells: Array, out: Floats) -> None:
        """Write the numbers' own feature."""


@final_dataclass
class NumericColumn(NumberColumn):
    """A numeric column with a public range, encoded as one feature in [-1/2, 1/2].

    Values are clipped to [`lower`, `upper`], transformed, and mapped linearly so that the mid-range is 0 (centering
    halves the feature's bound; docs, Objective perturbation, section 4). Missing values become 0; infinities the bound.

    Parameters
    ----------
    name : str
        The column's name in the table; with a `formula` any name.
    lower, upper : float
        Public range in the column's own unit, ``lower < upper``; from documentation or meaning, never from the data.
    transform : {"none", "log1p", "sqrt", "signed_log"}
        Public increasing map applied before scaling: ``log(1 + v)`` (``lower > -1``) and the root (``lower >= 0``) suit
        heavy right tails, ``sign(v) log(1 + |v|)`` heavy tails on both sides.
    knots : tuple of float, keyword
        For additive models: where the shape may bend, increasing, from `lower` to `upper`. Default: planned.
    indicator : bool, keyword
        Whether missing cells have a feature of their own: 1/2 where the value is missing, while the number's own is 0.
        The two are never nonzero together, so the bound on the record, and with it the noise, stays what it was.
        In additive models and synthetic data: a value of their own. Default: as the estimator says, else not.
    formula : str, keyword
        The number is computed from other columns of the same record (docs, Schemas, Derived columns).
    date : {"", "age", "hour"}, keyword
        ``"age"``: cells are dates, and the number is how many days they lie before the date `at`. ``"hour"``: cells are
        clock times, or dates with one, and the number is the hour of the day, 13.5 for half past one in the afternoon.
    at, format : str, keyword
        A public date, as ``"2024-12-31"``; how dates are written as text.
    step : float, keyword
        Numbers are multiples of it, 1 for whole ones, in synthetic data too (0: any). Ages of dates are whole anyway.
    scale : float, keyword
        Size at which ``"signed_log"`` turns from linear to logarithmic: it takes ``|v| / scale``.
    missing : tuple of str, keyword
        Cells that stand for no value, as ``("?", "-999")``; what is no number is missing anyway.
    unit, source : str, keyword
        For people: the unit, and who says so.

    Raises
    ------
    InvalidParameterError
        When the range is empty, infinite or outside the transform's domain, or a formula or date cannot be read.

    Examples
    --------
    >>> NumericColumn("bmi", 10, 80, formula="weight / (height / 100) ** 2", indicator=True).feature_names
    ('bmi', 'bmi=(missing)')
    """

    name: str
    lower: float
    upper: float
    transform: Literal["none", "log1p", "sqrt", "signed_log"] = "none"
    _: KW_ONLY
    knots: tuple[float, ...] = ()
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, **{name: float(getattr(self.range, name)) for name in ("lower", "upper", "scale")})
        self._check_knots()

    def _check_knots(self) -> None:
        found: Any = self.knots
        if isinstance(found, list | tuple):
            found = tuple(_validate.real(f"knots[{k}]", knot) for k, knot in enumerate(found))
            object.__setattr__(self, "knots", found)
            ends = found[:1] + found[-1:] == (self.lower, self.upper) and len(found) <= MOST_KNOTS
            if not found or (ends and list(found) == sorted({*found}) and len({*self.positions(found)}) == len(found)):
                return
        what = f"must be 2 to {MOST_KNOTS} increasing numbers, the first lower and the last upper"
        raise InvalidParameterError("knots", found, what, "No two may be equal after the transform")

    @property
    def values(self) -> BlockValues:
        likely = likely_values(self.lower, self.upper) if self.transform in ("none", "signed_log") else "any"
        return "binary" if self.levels == 2 else likely

    @property
    def levels(self) -> float:
        """Number of values in the range by the declared step, at least 2; infinite without a step, or if many."""
        if not self.step or self.date or (self.upper - self.lower) / self.step > MOST_KNOTS:
            return math.inf
        return max(2, math.floor(self.upper / self.step + 1e-9) - math.ceil(self.lower / self.step - 1e-9) + 1)

    def positions(self, values: Sequence[float]) -> list[float]:
        """Values of the range as places in [0, 1], after the transform."""
        first, last = self.range.ends
        return [min(1.0, max(0.0, (float(self.range.mapped(v)) - first) / (last - first))) for v in values]

    def even_knots(self, count: int) -> tuple[float, ...]:
        """Return the declared knots, or else `count` knots that are evenly spaced after the transform."""
        # a logarithmic column from 0 has one more near 0, because amounts of exactly 0 are a separate kind
        if self.knots:
            return self.knots
        back = self.range.even(count)[1:-1]
        if self.transform == "log1p" and self.lower == 0 and back:
            back.insert(0, min(2**-4, back[0] / 2))
        found = [self.lower, *back, self.upper]
        places = self.positions(found)  # of a range of few floats some are equal
        return (self.lower, *(x for x, t, u in zip(found, places, places[1:], strict=False) if 0 < t < u), self.upper)

    def _place(self, cells: Array, out: Floats) -> None:
        self.range.encode(cells, out)

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.indicator or self.transform != "none" else self.range.ends

    def within(self, found: NumberRange) -> "NumericColumn":
        """Return the column with another range, without declared knots, which need not lie there."""
        return replace(self, lower=found.lower, upper=found.upper, knots=())

    @cached_property
    def range(self) -> NumberRange:
        """The range, and how it is mapped to [-1/2, 1/2]."""
        return NumberRange(self.lower, self.upper, self.transform, self.scale)

    def cells(self, bins: NumberBins) -> CellColumn:
        return OpenCells.of(self.name, self.range, bins, bool(self.indicator), 1.0 if self.at else self.step)


@final_dataclass
class CategoricalColumn(AbstractColumn):
    """A column with a public list of categories.

    Encoded as one feature per level, exactly one of them 1 and the others 0 (a simplex block). Exactly two
    categories without `other` become one feature instead: -1/2 for the first, +1/2 for the second
    (docs, Objective perturbation, section 4).

    Missing values and values not listed take the level ``(other)`` when `other` is true. Otherwise they count as
    equal parts of all levels, which for two categories is the mid-point.

    Cells match by text, blanks around them left out; failing that, by number, ``true`` and ``false`` reading as 1
    and 0, so that 1, 1.0, "1" and "1.0" are one category in every file format.

    Parameters
    ----------
    name : str
        The column's name in the table.
    categories : tuple of str
        Public and distinct, at least one; from documentation or meaning, never from the data.
    other : bool
        Adds a last level for missing and unlisted values.
    aliases : dict of str to str, keyword
        Other spellings, each with the category that it means.
    date : {"", "month", "weekday"}, keyword
        Cells are dates, written in the `format`, and the categories 1 to 12, or 1 (Monday) to 7.
    missing, source : keyword
        As in `NumericColumn`.

    Raises
    ------
    InvalidParameterError
        When a category is no text, is empty or is listed twice, or an alias means no category.

    Examples
    --------
    >>> CategoricalColumn("color", ("red", "green"), other=True).feature_names
    ('color=red', 'color=green', 'color=(other)')
    """

    name: str
    categories: tuple[str, ...] = ()
    other: bool = False
    _: KW_ONLY
    aliases: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    date: Literal["", "month", "weekday"] = ""
    format: str = formulas.ISO
    numeric: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        formulas.date_pattern(self.format)
        _validate.choice("date", self.date, ("", *DATE_PARTS))
        if self.date:
            parts = tuple(str(k + 1) for k in range(DATE_PARTS[self.date]))
            if self.aliases or self.categories not in ((), parts):
                raise InvalidParameterError("categories", self.categories, f"are the {self.date}s", "Leave them out")
            object.__setattr__(self, "categories", parts)
        object.__setattr__(self, "categories", texts("categories", self.categories, 1))
        object.__setattr__(self, "aliases", checked_aliases(self.aliases, self.categories, self.missing))
        if not isinstance(self.other, bool):
            raise InvalidParameterError("other", self.other, "must be true or false")
        if self.other and OTHER in self.categories:
            raise InvalidParameterError("categories", OTHER, "is the name of the level that other = true adds")

    @property
    def binary(self) -> bool:
        """Whether the column is one feature of values -1/2 and 1/2."""
        return len(self.categories) == 2 and not self.other

    @property
    def block(self) -> Block:
        if self.binary:
            return Block(1, "linf", 0.5, self.name, "binary")
        levels = len(self.categories) + self.other
        return Block(levels, "simplex" if levels > 1 else "l1", 1.0, self.name)

    @property
    def feature_names(self) -> tuple[str, ...]:
        levels = self.categories[1:] if self.binary else self.categories + (OTHER,) * self.other
        return tuple(f"{self.name}={level}" for level in levels)

    def clean(self, series: frames.Series) -> frames.Series:
        if not self.date:
            return frames.renamed(series, self.categories, self.aliases)
        parts = formulas.parts_of_dates(formulas.days(series, self.format), self.date)
        return frames.number_series(parts.astype(np.float64))

    def compact(self, series: frames.Series) -> Array:
        positions = frames.codes(series, self.categories)
        positions = np.where(self.other & (positions < 0), len(self.categories), positions)
        return positions.astype(np.min_scalar_type(-1 - len(self.categories)))

    def encode_into(self, cells: Array, out: Floats, missing: float = 0.0) -> None:
        if self.binary:
            out[:, 0] = np.array([-0.5, 0.5, 0.0])[cells]  # position -1, the last: missing or unlisted
            return
        out[np.flatnonzero(cells >= 0), cells[cells >= 0]] = 1.0
        out[cells < 0] = 1 / out.shape[1]

    def entries(self, cells: Array, missing: float) -> tuple[Array, Array, Floats]:
        if self.binary:
            return super().entries(cells, missing)
        known, others = np.flatnonzero(cells >= 0), np.flatnonzero(cells < 0)
        rows, columns, values = super().entries(cells[others], missing)  # few
        return np.append(known, others[rows]), np.append(cells[known], columns), np.append(np.ones(len(known)), values)

    def cells(self, bins: NumberBins) -> CellColumn:
        return CategoryCells(self.name, self.categories, OTHER if self.other else "")

    def to_dict(self) -> dict[str, Any]:
        return {k: value for k, value in super().to_dict().items() if k != "categories" or not self.date}


def checked_aliases(aliases: Any, listed: tuple[str, ...], missing: tuple[str, ...]) -> dict[str, str]:
    """Return other spellings of listed values, or raise `InvalidParameterError`."""
    if not isinstance(aliases, Mapping):
        raise InvalidParameterError("aliases", aliases, "must say which value a spelling means", '{"femal" = "female"}')
    texts("aliases", (*aliases, *listed, *missing), 0)
    for spelling, value in aliases.items():
        if value not in listed:
            raise InvalidParameterError(f"aliases[{spelling!r}]", value, "must be a listed value")
    return dict(aliases)
