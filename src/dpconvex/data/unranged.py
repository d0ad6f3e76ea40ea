"""Numeric columns and targets without a public range: a private fit finds one (docs, Private ranges)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.data.cells import CellColumn
from dpconvex.data.columns import AbstractColumn, AbstractTarget, NumericColumn, nonempty
from dpconvex.data.frames import numbers
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import Block, NumberRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpconvex.data.frames import Series

PRIVATE = "private"
"""What stands for a range that a fit is to find."""


@final
@dataclass(frozen=True)
class UnrangedColumn(AbstractColumn):
    """A numeric column whose range is not public: a private fit finds one, and pays for it (docs, Private ranges).

    Only models that say so take it. Missing values count as the middle of the range.

    Parameters
    ----------
    name : str
        The column's name in the table.
    transform : {"auto", "none"}
        ``"auto"``: a logarithmic scale where the released histogram has heavy tails or a spike at 0. ``"none"``: never.
    """

    name: str
    transform: Literal["auto", "none"] = "auto"
    numeric: ClassVar[bool] = True
    ranged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        nonempty("name", self.name)
        _validate.choice("transform", self.transform, ("auto", "none"))

    @property
    def block(self) -> Block:
        """Once a range is found, as `NumericColumn`."""
        return Block(1, "linf", 0.5, self.name)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return (self.name,)

    def encode_into(self, series: Series, out: FloatArray) -> None:
        """Write the numbers as they are."""
        out[:, 0] = numbers(series)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        raise undeclared(self.name)

    def with_range(self, found: NumberRange) -> NumericColumn:
        """Return the column with a range that was released."""
        return NumericColumn(self.name, found.lower, found.upper, found.transform, found.unit)

    def to_dict(self) -> dict[str, Any]:
        return {"range": PRIVATE} | ({"transform": self.transform} if self.transform != "auto" else {})


def undeclared(name: str) -> InvalidParameterError:
    """Return the error for what needs a declared range of a column that has none."""
    remedy = "Give lower and upper, or use a linear model, which finds ranges privately"
    return InvalidParameterError("range", PRIVATE, f"of column {name!r} must be declared here", remedy)


@final
@dataclass(frozen=True)
class UnrangedTarget(AbstractTarget):
    """A numeric target whose range is not public: a private fit finds one, and pays for it (docs, Private ranges)."""

    name: str
    numeric: ClassVar[bool] = True
    ranged: ClassVar[bool] = False

    def __post_init__(self) -> None:
        nonempty("name", self.name)

    @property
    def labels(self) -> tuple[str, ...]:
        return ()

    def encode(self, series: Series) -> AnyArray:
        """Return the numbers as they are."""
        return numbers(series)

    def cells(self, bins: int | Sequence[float]) -> CellColumn:
        raise undeclared(self.name)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "range": PRIVATE}
