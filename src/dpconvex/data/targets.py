"""What a schema says about the column to predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray
from dpconvex.data.cells import CategoryCells, CellColumn, NumberCells
from dpconvex.data.columns import interval, nonempty, texts
from dpconvex.data.frames import codes, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpconvex.data.frames import Series


class AbstractTarget(ABC):
    """The column to predict, with its public values."""

    name: str
    rates: tuple[float, ...] | None = None
    """Public shares of the classes; None where they are not known, and for numbers."""

    @property
    @abstractmethod
    def numeric(self) -> bool:
        """Whether cells are read as numbers (else as text)."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The public classes; empty for a numeric target."""

    @abstractmethod
    def encode(self, series: Series) -> AnyArray:
        """The column as an array of shape (n,) inside the public values."""

    @abstractmethod
    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """The column with finitely many values: numbers in this many bins or in bins with these edges."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The ``[target]`` table of a schema file."""


@final
@dataclass(frozen=True)
class ClassTarget(AbstractTarget):
    """A target with a public list of classes.

    Missing labels and labels not listed count as the first class. Labels match as in `CategoricalColumn`.

    Parameters
    ----------
    name : str
        The column's name in the table.
    classes : tuple of str
        Public and distinct, at least two.
    rates : tuple of float, optional
        Public shares of the classes, in their order: positive, adding up to 1 but for rounding to percent. They serve
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

    @property
    def numeric(self) -> bool:
        """Cells are read as text."""
        return False

    @property
    def labels(self) -> tuple[str, ...]:
        """The public classes."""
        return self.classes

    def encode(self, series: Series) -> AnyArray:
        """Class positions, int64 of shape (n,) in ``0 .. len(classes) - 1``."""
        return np.maximum(codes(series, self.classes, closed=True), 0)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """The classes."""
        return CategoryCells(self.name, self.classes)

    def to_dict(self) -> dict[str, Any]:
        """The ``[target]`` table of a schema file."""
        table: dict[str, Any] = {"name": self.name, "classes": list(self.classes)}
        return table if self.rates is None else {**table, "rates": list(self.rates)}


@final
@dataclass(frozen=True)
class NumericTarget(AbstractTarget):
    """A numeric target with a public range, in its own unit.

    Values are clipped to [`lower`, `upper`]; missing values count as the mid-range.

    Parameters
    ----------
    name : str
        The column's name in the table.
    lower, upper : float
        Public range, ``lower < upper``.
    """

    name: str
    lower: float
    upper: float

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        low, high = interval(self.lower, self.upper)
        object.__setattr__(self, "lower", low)
        object.__setattr__(self, "upper", high)

    @property
    def numeric(self) -> bool:
        """Cells are read as numbers."""
        return True

    @property
    def labels(self) -> tuple[str, ...]:
        """No classes."""
        return ()

    def encode(self, series: Series) -> AnyArray:
        """Clipped values, float64 of shape (n,)."""
        values = np.clip(numbers(series), self.lower, self.upper)
        return np.nan_to_num(values, copy=False, nan=self.lower / 2 + self.upper / 2)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        """Bins of equal width, or with the given edges; missing values take the middle bin."""
        if isinstance(bins, int):
            return NumberCells.equal(self.name, self.lower, self.upper, bins)
        return NumberCells(self.name, tuple(bins))

    def to_dict(self) -> dict[str, Any]:
        """The ``[target]`` table of a schema file."""
        return {"name": self.name, "lower": self.lower, "upper": self.upper}
