"""Array aliases used in annotations. Shapes are given in docstrings; everything is float64 unless said."""

from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
AnyArray: TypeAlias = NDArray[Any]


class Status(StrEnum):
    """How a solver ended."""

    CERTIFIED = "certified"
    STEP_LIMIT = "step_limit"
    STALLED = "stalled"


def forwarded(part: str, name: str) -> Any:
    """Return the property of a whole that is its part's."""
    return property(attrgetter(f"{part}.{name}"))
