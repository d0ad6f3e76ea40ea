"""No constraint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.sets.base import ConvexSet, check_dim


@final
@dataclass(frozen=True)
class WholeSpace(ConvexSet):
    """All vectors.

    Parameters
    ----------
    dim : int, optional
        Length of the vectors; any length if None.
    """

    dim: int | None = None
    radius: float = field(default=math.inf, init=False, repr=False)
    diameter: float = field(default=math.inf, init=False, repr=False)

    def __post_init__(self) -> None:
        check_dim(self.dim)

    def contains(self, w: FloatArray, tolerance: float = 1e-9) -> bool:
        """Whether all entries are finite."""
        self._check_shape("w", w)
        return bool(np.all(np.isfinite(w)))

    def project(self, w: FloatArray) -> FloatArray:
        """Return a copy of `w`, made finite."""
        return self._finite("w", w)

    def linear_minimizer(self, g: FloatArray) -> FloatArray:
        """Raise `InvalidParameterError`: a linear function has no minimum here."""
        remedy = "Use a bounded set such as L2Ball(radius)"
        raise InvalidParameterError("constraint", self, "must be bounded to have a linear minimiser", remedy)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(), cls(3))
