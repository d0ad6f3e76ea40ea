"""Numbers without a public range: a private fit finds one, and pays for it (docs, Private ranges)."""

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, final

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex.data.cells import PRIVATE, CellColumn, NumberBins, OpenCells
from dpconvex.data.columns import Described, NumberColumn, NumericColumn
from dpconvex.data.frames import Series, numbers
from dpconvex.data.targets import AbstractTarget, NumericTarget
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import NumberRange


class Unranged(Described):
    """What is left to a fit, of a column or target."""

    numeric: ClassVar[bool] = True
    ranged: ClassVar[bool] = False

    def cells(self, bins: NumberBins) -> CellColumn:
        missing = bool(getattr(self, "indicator", None))  # a target has none
        return OpenCells.of(self.name, None, bins, missing, 1.0 if getattr(self, "at", "") else self.step)

    def to_dict(self) -> dict[str, Any]:
        return {"range": PRIVATE, **super().to_dict()}

    @property
    def undeclared(self) -> InvalidParameterError:
        """The error for what needs a declared range."""
        remedy = "Give lower and upper, or use a linear or additive model, which finds ranges privately"
        return InvalidParameterError("range", PRIVATE, f"of {self.name!r} must be declared here", remedy)


@final
@dataclass(frozen=True)
class UnrangedColumn(Unranged, NumberColumn):
    """A numeric column whose range a fit finds; ``transform="auto"`` allows a logarithmic scale for heavy tails.

    Further fields, all by keyword, as in `NumericColumn`.
    """

    name: str
    transform: Literal["auto", "none"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice("transform", self.transform, ("auto", "none"))

    def _place(self, cells: Array, out: Floats) -> None:
        out[:] = cells  # as they are

    def within(self, found: NumberRange) -> NumericColumn:
        """Return the column with a range."""
        return NumericColumn(**asdict(found), **_shared(self, NumberColumn))


@final
@dataclass(frozen=True)
class UnrangedTarget(Unranged, AbstractTarget):
    """A numeric target whose range a fit finds."""

    name: str
    labels: ClassVar[tuple[str, ...]] = ()  # pyright: ignore[reportIncompatibleMethodOverride]

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
