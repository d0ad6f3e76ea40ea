"""Small things that all rooms share: array types (shapes are in docstrings), how solvers end, properties, fields."""

from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
Array: TypeAlias = NDArray[Any]
quiet = np.errstate(over="ignore", invalid="ignore")
"""Decorator of whatever touches data or vectors: their content never causes a numpy warning."""


def finite(values: Any, most: float = np.finfo(np.float64).max) -> Floats:
    """Return a float64 copy clipped to ``[-most, most]``, NaN replaced by 0: as NumPy's functions do, in less time."""
    out = np.array(values, dtype=np.float64)
    np.minimum(np.maximum(out, -most, out=out), most, out=out)
    np.copyto(out, 0.0, where=np.isnan(out))
    return out


class Status(StrEnum):
    """How a solver ended."""

    CERTIFIED = "certified"
    STEP_LIMIT = "step_limit"
    STALLED = "stalled"


def attributes(whole: Any, *names: str) -> dict[str, Any]:
    """Return attributes by name, as a certificate states them."""
    return {name: getattr(whole, name) for name in names}


def set_fields(whole: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(whole, name, value)


def forwarded(*path: str) -> Any:
    """Return the property that is another one of the whole, or with the path to a part before its name, the part's."""
    return property(attrgetter(".".join(path)))
