"""What a schema says of the column to predict, and of numbers without a public range.

A private fit finds such a range, and pays for it (docs, Private ranges).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, field, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded, set_fields
from dpconvex.data.cells import PRIVATE, CategoryCells, CellColumn, NumberBins, OpenCells
from dpconvex.data.columns import Described, NumberColumn, NumericColumn, checked_aliases, texts
from dpconvex.data.frames import Series, codes, numbers, refuse_impossible, renamed
from dpconvex.problems import NumberRange


class AbstractTarget(Described):
    """The column to predict, with its public values."""

    rates: tuple[float, ...] | None = None  #: Public shares of the classes; None if unknown, and for numeric targets.
    labels: tuple[str, ...] = ()  #: The public classes; empty for a numeric target.

    @abstractmethod
    def encode(self, series: Series) -> Array:
        """The column as an array of shape (n,) inside the public values."""


@final_dataclass
class ClassTarget(AbstractTarget):
    """A target with a public list of classes.

    Missing labels and labels not listed count as the first class. Labels match as in `CategoricalColumn`.

    Parameters
    ----------
    name : str
        The column.
    classes : tuple of str
        The public classes, at least two; of two, the second is the positive one.
    rates : tuple of float, optional
        Public shares of the classes, in their order: positive, adding up to 1 but for rounding to percent. They serve
        accuracy and yardsticks, never privacy.
    missing, unit, source, step
        As of columns, by keyword: `NumericColumn`.
    aliases : mapping of str to str
        Other spellings, each with the class that it means.

    Raises
    ------
    InvalidParameterError
        When there are fewer than two classes, one is listed twice, or a share is none.
    """

    name: str
    classes: tuple[str, ...]
    rates: tuple[float, ...] | None = None
    _: KW_ONLY
    aliases: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)  #: other spellings of classes
    labels = forwarded("classes")
    numeric: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "classes", texts("classes", self.classes, 2))
        object.__setattr__(self, "aliases", checked_aliases(self.aliases, self.classes, self.missing))
        if self.rates is not None:
            object.__setattr__(self, "rates", _validate.shares("rates", self.rates, len(self.classes)))

    def encode(self, series: Series) -> Array:
        refuse_impossible(series, (*self.classes, *self.aliases))
        return np.maximum(codes(self.clean(series), self.classes), 0)

    def clean(self, series: Series) -> Series:
        return renamed(series, self.classes, self.aliases)

    def cells(self, bins: NumberBins) -> CellColumn:
        return CategoryCells(self.name, self.classes)


@final_dataclass
class NumericTarget(AbstractTarget):
    """A numeric target with a public range.

    Values are clipped to [`lower`, `upper`]; missing values count as the mid-range.

    Parameters
    ----------
    name : str
        The column.
    lower, upper : float
        The public range, ``lower < upper``, in the target's unit. Squared errors grow with the square of its width.
    missing, unit, source, step
        As of columns, by keyword: `NumericColumn`.

    Raises
    ------
    InvalidParameterError
        When the range is empty or not finite.
    """

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        super().__post_init__()
        within = NumberRange(self.lower, self.upper)
        set_fields(self, lower=float(within.lower), upper=float(within.upper))

    def encode(self, series: Series) -> Array:
        values = np.clip(numbers(self.clean(series), texts=True), self.lower, self.upper)
        return np.nan_to_num(values, copy=False, nan=self.lower / 2 + self.upper / 2)

    def within(self, found: NumberRange) -> "NumericTarget":
        """Return the target with another range."""
        return replace(self, lower=found.lower, upper=found.upper)

    def cells(self, bins: NumberBins) -> CellColumn:
        return OpenCells.of(self.name, NumberRange(self.lower, self.upper), bins, False, self.step)


class Unranged(Described):
    """A column or target without a declared range: a private fit finds it."""

    ranged: ClassVar[bool] = False

    def cells(self, bins: NumberBins) -> CellColumn:
        missing = bool(getattr(self, "indicator", None))  # a target has none
        return OpenCells.of(self.name, None, bins, missing, 1.0 if getattr(self, "at", "") else self.step)

    def to_dict(self) -> dict[str, Any]:
        return {"range": PRIVATE, **super().to_dict()}


@final_dataclass
class UnrangedColumn(Unranged, NumberColumn):
    """A numeric column whose range a fit finds, and pays for; its keywords are those of a `NumericColumn`."""

    name: str
    #: ``"auto"`` allows a logarithmic scale for heavy tails, which the released histogram decides.
    transform: Literal["auto", "none"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("transform", self.transform, ("auto", "none"))

    def _place(self, cells: Array, out: Floats) -> None:
        out[:] = cells  # unscaled

    def within(self, found: NumberRange) -> NumericColumn:
        """Return the column with a range."""
        return NumericColumn(**asdict(found), **_shared(self, NumberColumn))


@final_dataclass
class UnrangedTarget(Unranged, AbstractTarget):
    """A numeric target whose range a fit finds."""

    name: str

    def encode(self, series: Series) -> Array:
        return numbers(self.clean(series), texts=True)

    def within(self, found: NumberRange) -> NumericTarget:
        """Return the target with a range."""
        return NumericTarget(lower=found.lower, upper=found.upper, **_shared(self, AbstractTarget))


def without_range(part: Any) -> Any:
    """Return a column or target with its range, if it has one, left to a fit."""
    if isinstance(part, NumberColumn):
        return UnrangedColumn(**_shared(part, NumberColumn))
    return UnrangedTarget(**_shared(part, AbstractTarget)) if isinstance(part, NumericTarget) else part


def _shared(part: Described, kind: type[Any]) -> dict[str, Any]:
    return {each.name: getattr(part, each.name) for each in fields(kind)}
