"""What a schema says of the column to predict."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, forwarded, set_fields
from dpconvex.data.cells import CategoryCells, CellColumn, NumberBins, OpenCells
from dpconvex.data.columns import Described, checked_aliases, texts
from dpconvex.data.frames import Series, codes, numbers, refuse_impossible, renamed
from dpconvex.problems import NumberRange


class AbstractTarget(Described):
    """The column to predict, with its public values."""

    rates: tuple[float, ...] | None = None
    """Public shares of the classes; None where they are not known, and for numbers."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The public classes; empty for a numeric target."""

    @abstractmethod
    def encode(self, series: Series) -> Array:
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
    _: KW_ONLY
    aliases: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)  #: other spellings of classes
    labels = forwarded("classes")  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "classes", texts("classes", self.classes, 2))
        object.__setattr__(self, "aliases", checked_aliases(self.aliases, self.classes, self.missing))
        if self.rates is not None:
            object.__setattr__(self, "rates", _validate.shares("rates", self.rates, len(self.classes)))

    numeric: ClassVar[bool] = False

    def encode(self, series: Series) -> Array:
        refuse_impossible(series, (*self.classes, *self.aliases))
        return np.maximum(codes(self.clean(series), self.classes), 0)

    def clean(self, series: Series) -> Series:
        return renamed(series, self.classes, self.aliases)

    def cells(self, bins: NumberBins) -> CellColumn:
        return CategoryCells(self.name, self.classes)


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
        super().__post_init__()
        within = NumberRange(self.lower, self.upper)
        set_fields(self, lower=float(within.lower), upper=float(within.upper))

    numeric: ClassVar[bool] = True
    labels: ClassVar[tuple[str, ...]] = ()  # pyright: ignore[reportIncompatibleMethodOverride]

    def encode(self, series: Series) -> Array:
        values = np.clip(numbers(self.clean(series), texts=True), self.lower, self.upper)
        return np.nan_to_num(values, copy=False, nan=self.lower / 2 + self.upper / 2)

    def within(self, found: NumberRange) -> "NumericTarget":
        """Return the target with another range."""
        return replace(self, lower=found.lower, upper=found.upper)

    def cells(self, bins: NumberBins) -> CellColumn:
        return OpenCells.of(self.name, NumberRange(self.lower, self.upper), bins, False, self.step)
