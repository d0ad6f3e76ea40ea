"""What a schema says about a column: how it becomes bounded features, or the target to predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.data.cells import CategoryCells, CellColumn, NumberCells
from dpconvex.data.frames import codes, duplicates, numbers
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import Block, NumberRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpconvex.data.frames import Series

BLANKS = " \t\n\v\f\r"
"""What is trimmed off the ends of a cell before it is compared."""

MOST_KNOTS = 64
"""Of a shape."""

OTHER = "(other)"
"""Name of the level that takes missing and unlisted values."""


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
    repeated = duplicates(found)
    if repeated:
        raise InvalidParameterError(name, repeated[0], "is listed twice", "List every value once")
    return found


class Described(ABC):
    """One column of a table with its public facts."""

    name: str

    numeric: ClassVar[bool]
    """Whether cells are read as numbers (else as text)."""
    ranged: ClassVar[bool] = True
    """Whether its public values are declared; else a private fit finds their range."""

    @abstractmethod
    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """The column with finitely many values: numbers in this many bins or in bins with these edges."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The column's table in a schema file; defaults are left out."""


class AbstractColumn(Described):
    """One column of a table as features: a block of consecutive columns inside a public bound."""

    @property
    @abstractmethod
    def block(self) -> Block:
        """Size, norm and bound of the encoded column."""

    @property
    @abstractmethod
    def feature_names(self) -> tuple[str, ...]:
        """One name per encoded column."""

    @abstractmethod
    def encode_into(self, series: Series, out: FloatArray) -> None:
        """Write the encoded column into `out`, zeros of shape (n, ``block.size``)."""


@final
@dataclass(frozen=True)
class NumericColumn(AbstractColumn):
    """A numeric column with a public range, encoded as one feature in [-1/2, 1/2].

    Values are clipped to [`lower`, `upper`], transformed, and mapped linearly so that the mid-range is 0 (centring
    halves the feature's bound; docs, Objective perturbation, section 4). Missing values become 0; infinities the bound.

    Parameters
    ----------
    name : str
        The column's name in the table.
    lower, upper : float
        Public range in the column's own unit, ``lower < upper``; from documentation or meaning, never from the data.
    transform : {"none", "log1p", "log"}
        Public increasing map applied before scaling; ``"log1p"`` suits heavy right tails and needs ``lower > -1``;
        ``"log"`` is ``sign(v) log(1 + |v|/unit)``, for tails on either side.
    unit : float
        Size at which ``"log"`` turns from linear to logarithmic, positive.
    missing : {"own", "none"}, optional
        For additive models: whether missing cells have a value of their own. Default: as the estimator says.
    knots : tuple of float
        For additive models: where the shape may bend, increasing, from `lower` to `upper`. Default: planned.

    Raises
    ------
    InvalidParameterError
        When the range is empty, infinite or outside the transform's domain.

    Examples
    --------
    >>> NumericColumn("age", 17, 90).block
    Block(size=1, norm='linf', bound=0.5, name='age')
    """

    name: str
    lower: float
    upper: float
    transform: Literal["none", "log1p", "log"] = "none"
    unit: float = 1.0
    missing: Literal["own", "none"] | None = None
    knots: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        checked = self.range
        for name in ("lower", "upper", "unit"):
            object.__setattr__(self, name, float(getattr(checked, name)))
        if self.missing is not None:
            _validate.choice("missing", self.missing, ("own", "none"))
        self._check_knots()

    def _check_knots(self) -> None:
        found: Any = self.knots
        if isinstance(found, list | tuple):
            found = tuple(_validate.real(f"knots[{k}]", knot) for k, knot in enumerate(found))
            object.__setattr__(self, "knots", found)
            ends = found[:1] + found[-1:] == (self.lower, self.upper) and len(found) <= MOST_KNOTS
            if not found or (ends and all(a < b for a, b in pairwise(self.positions(found)))):
                return
        what = f"must be 2 to {MOST_KNOTS} increasing numbers, the first lower and the last upper"
        raise InvalidParameterError("knots", found, what, "No two may be equal after the transform")

    def positions(self, values: Sequence[float]) -> list[float]:
        """Values of the range as places in [0, 1], after the transform."""
        first, last = self.range.ends
        return [min(1.0, max(0.0, (self.range.mapped(value) - first) / (last - first))) for value in values]

    def even_knots(self, count: int) -> tuple[float, ...]:
        """The knots, or where none are declared `count` even ones after the transform.

        Of three or more, a logarithmic column from 0 has one more near 0: amounts that are exactly 0 are a kind of
        their own.
        """
        if self.knots:
            return self.knots
        back = self.range.even(count)[1:-1]
        if self.transform != "none" and self.lower == 0 and back:
            back.insert(0, min(2**-4 * self.unit, back[0] / 2))
        found = [self.lower, *back, self.upper]
        places = self.positions(found)  # of a range of few floats some are equal
        return (self.lower, *(x for x, t, u in zip(found, places, places[1:], strict=False) if 0 < t < u), self.upper)

    numeric: ClassVar[bool] = True

    @property
    def block(self) -> Block:
        return Block(1, "linf", 0.5, self.name)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode_into(self, series: Series, out: FloatArray) -> None:
        out[:, 0] = self.range.encode(numbers(series))

    @property
    def range(self) -> NumberRange:
        """The range, and how it is mapped to [-1/2, 1/2]."""
        return NumberRange(self.lower, self.upper, self.transform, self.unit)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """Bins of equal width after the transform, or with the given edges; missing values take the middle bin."""
        if isinstance(bins, int) and self.transform == "log":
            return NumberCells(self.name, tuple(self.range.even(bins + 1)))
        if isinstance(bins, int):
            return NumberCells.equal(self.name, self.lower, self.upper, bins, self.transform == "log1p")
        return NumberCells(self.name, tuple(bins))

    def to_dict(self) -> dict[str, Any]:
        table: dict[str, Any] = {"lower": self.lower, "upper": self.upper}
        table |= {"transform": self.transform} if self.transform != "none" else {}
        table |= {"unit": self.unit} if self.unit != 1 else {}
        table |= {"missing": self.missing} if self.missing is not None else {}
        return table | ({"knots": list(self.knots)} if self.knots else {})


@final
@dataclass(frozen=True)
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

    Raises
    ------
    InvalidParameterError
        When a category is no text, is empty or is listed twice.

    Examples
    --------
    >>> CategoricalColumn("colour", ("red", "green"), other=True).feature_names
    ('colour=red', 'colour=green', 'colour=(other)')
    """

    name: str
    categories: tuple[str, ...]
    other: bool = False

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        object.__setattr__(self, "categories", texts("categories", self.categories, 1))
        if not isinstance(self.other, bool):
            raise InvalidParameterError("other", self.other, "must be true or false")
        if self.other and OTHER in self.categories:
            raise InvalidParameterError("categories", OTHER, "is the name of the level that other = true adds")

    @property
    def binary(self) -> bool:
        """Whether the column is one feature of values -1/2 and 1/2."""
        return len(self.categories) == 2 and not self.other

    numeric: ClassVar[bool] = False

    @property
    def block(self) -> Block:
        """One column of absolute value at most 1/2, or a simplex; of one level an l1 block of bound 1."""
        if self.binary:
            return Block(1, "linf", 0.5, self.name)
        levels = len(self.categories) + self.other
        return Block(levels, "simplex" if levels > 1 else "l1", 1.0, self.name)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """``name=category`` for each feature; a two-category feature is named after the second."""
        levels = self.categories[1:] if self.binary else self.categories + (OTHER,) * self.other
        return tuple(f"{self.name}={level}" for level in levels)

    def encode_into(self, series: Series, out: FloatArray) -> None:
        positions = codes(series, self.categories)
        if self.binary:
            out[:, 0] = np.array([-0.5, 0.5, 0.0])[positions]  # position -1, the last: missing or unlisted
            return
        if self.other:
            positions[positions < 0] = len(self.categories)
        listed = np.flatnonzero(positions >= 0)
        out[listed, positions[listed]] = 1.0
        out[positions < 0] = 1 / out.shape[1]

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """The categories and, where the schema has it, the level ``(other)``."""
        return CategoryCells(self.name, self.categories, OTHER if self.other else "")

    def to_dict(self) -> dict[str, Any]:
        return {"categories": list(self.categories)} | ({"other": True} if self.other else {})


class AbstractTarget(Described):
    """The column to predict, with its public values."""

    rates: tuple[float, ...] | None = None
    """Public shares of the classes; None where they are not known, and for numbers."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The public classes; empty for a numeric target."""

    @abstractmethod
    def encode(self, series: Series) -> AnyArray:
        """The column as an array of shape (n,) inside the public values."""


@final
@dataclass(frozen=True)
class ClassTarget(AbstractTarget):
    """A target with a public list of classes, at least two.

    Missing labels and labels not listed count as the first class. Labels match as in `CategoricalColumn`. The `rates`
    are public shares of the classes, in their order: positive, adding up to 1 but for rounding to percent. They serve
    accuracy and yardsticks, never privacy.
    """

    name: str
    classes: tuple[str, ...]
    rates: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        object.__setattr__(self, "classes", texts("classes", self.classes, 2))
        if self.rates is not None:
            object.__setattr__(self, "rates", _validate.shares("rates", self.rates, len(self.classes)))

    numeric: ClassVar[bool] = False

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes

    def encode(self, series: Series) -> AnyArray:
        return np.maximum(codes(series, self.classes, closed=True), 0)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        return CategoryCells(self.name, self.classes)

    def to_dict(self) -> dict[str, Any]:
        table: dict[str, Any] = {"name": self.name, "classes": list(self.classes)}
        return table if self.rates is None else {**table, "rates": list(self.rates)}


@final
@dataclass(frozen=True)
class NumericTarget(AbstractTarget):
    """A numeric target with a public range, in its own unit.

    Values are clipped to [`lower`, `upper`]; missing values count as the mid-range.
    """

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        checked = NumberRange(self.lower, self.upper)
        object.__setattr__(self, "lower", float(checked.lower))
        object.__setattr__(self, "upper", float(checked.upper))

    numeric: ClassVar[bool] = True

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    def encode(self, series: Series) -> AnyArray:
        values = np.clip(numbers(series), self.lower, self.upper)
        return np.nan_to_num(values, copy=False, nan=self.lower / 2 + self.upper / 2)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """Bins of equal width, or with the given edges; missing values take the middle bin."""
        if isinstance(bins, int):
            return NumberCells.equal(self.name, self.lower, self.upper, bins)
        return NumberCells(self.name, tuple(bins))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "lower": self.lower, "upper": self.upper}


PRIVATE = "private"
"""What stands for a range that a fit is to find."""


class Unranged(Described):
    """Numbers without a public range: a private fit finds one, and pays for it (docs, Private ranges)."""

    numeric: ClassVar[bool] = True
    ranged: ClassVar[bool] = False

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        raise self.undeclared

    @property
    def undeclared(self) -> InvalidParameterError:
        """The error for what needs a declared range."""
        remedy = "Give lower and upper, or use a linear or additive model, which finds ranges privately"
        return InvalidParameterError("range", PRIVATE, f"of {self.name!r} must be declared here", remedy)


@final
@dataclass(frozen=True)
class UnrangedColumn(Unranged, AbstractColumn):
    """A numeric column whose range a fit finds; ``transform="auto"`` allows a logarithmic scale for heavy tails."""

    name: str
    transform: Literal["auto", "none"] = "auto"

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        _validate.choice("transform", self.transform, ("auto", "none"))

    @property
    def block(self) -> Block:
        return Block(1, "linf", 0.5, self.name)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode_into(self, series: Series, out: FloatArray) -> None:
        out[:, 0] = numbers(series)  # as they are

    def to_dict(self) -> dict[str, Any]:
        return {"range": PRIVATE} | ({"transform": self.transform} if self.transform != "auto" else {})


@final
@dataclass(frozen=True)
class UnrangedTarget(Unranged, AbstractTarget):
    """A numeric target whose range a fit finds."""

    name: str
    labels: ClassVar[tuple[str, ...]] = ()  # pyright: ignore[reportIncompatibleMethodOverride]

    def encode(self, series: Series) -> AnyArray:
        return numbers(series)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "range": PRIVATE}
