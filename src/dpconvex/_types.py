"""What all packages share: array types (docstrings give shapes), how solvers end, helpers for properties and fields."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar, dataclass_transform, final, overload

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Floats: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Positions: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = NDArray[Any]
REQUIRED: Any = property(abstractmethod(lambda _: None))
"""Value of the attributes of an abstract class that its subclasses must define: without them no object can be made."""
quiet = np.errstate(over="ignore", invalid="ignore")
"""Decorator of whatever touches data or vectors: their content never causes a numpy warning."""


def finite(values: Any, most: float = np.finfo(np.float64).max) -> Floats:
    """Return a float64 copy clipped to ``[-most, most]``, with 0 for NaN; faster than NumPy's functions for this."""
    out = np.array(values, dtype=np.float64)
    np.minimum(np.maximum(out, -most, out=out), most, out=out)
    np.copyto(out, 0.0, where=np.isnan(out))
    return out


class Status(StrEnum):
    """How a solver ended."""

    CERTIFIED = "certified"
    STEP_LIMIT = "step_limit"
    STALLED = "stalled"


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def final_dataclass(kind: type[T], /) -> type[T]: ...


@overload
def final_dataclass(*, eq: bool) -> Callable[[type[T]], type[T]]: ...


def final_dataclass(kind: Any = None, /, **options: Any) -> Any:
    """Make a class `final` and a frozen dataclass, with further options of `dataclass`: a value without subclasses."""
    return partial(final_dataclass, **options) if kind is None else final(dataclass(frozen=True, **options)(kind))


def attributes(whole: Any, *names: str) -> dict[str, Any]:
    """Return the named attributes as a dict, for a certificate to state."""
    return {name: getattr(whole, name) for name in names}


def set_fields(whole: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(whole, name, value)


def forwarded(*path: str) -> Any:
    """Return a property that reads another attribute of the object, or that of a part: `path` ends with its name."""
    return property(attrgetter(".".join(path)))


def forwards(part: str, names: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that makes attributes of a part properties of a class: their `names`, with blanks between."""

    def decorated(cls: type[T]) -> type[T]:
        for name in names.split():
            setattr(cls, name, forwarded(part, name))
        return cls

    return decorated
