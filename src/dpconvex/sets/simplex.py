"""The simplex: non-negative weights with a fixed sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.sets._simplex import project_onto_simplex
from dpconvex.sets.base import ConvexSet, quiet


@final
@dataclass(frozen=True)
class Simplex(ConvexSet):
    """All vectors with entries >= 0 that sum to `total`.

    Parameters
    ----------
    dim : int
        Length of the vectors, at least 1.
    total : float
        Positive; 1 gives the probability vectors.
    """

    dim: int | None
    total: float = 1.0
    radius: float = field(init=False, repr=False, compare=False)
    diameter: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dim = _validate.integer("dim", self.dim, at_least=1)
        _validate.real("total", self.total, above=0.0)
        object.__setattr__(self, "radius", self.total)
        diameter = _rounding.widen_up(math.sqrt(2.0) * self.total) if dim > 1 else 0.0
        object.__setattr__(self, "diameter", diameter)

    @quiet
    def contains(self, w: FloatArray, tolerance: float = 1e-9) -> bool:
        """Whether entries and sum keep their bounds up to ``tolerance * total``."""
        self._check_shape("w", w)
        slack = tolerance * self.total
        return bool(w.min() >= -slack and abs(w.sum() - self.total) <= slack)

    @quiet
    def project(self, w: FloatArray) -> FloatArray:
        """Return the nearest member: a shift of all entries, then a cut at 0."""
        return project_onto_simplex(self._finite("w", w), self.total)

    def linear_minimizer(self, g: FloatArray) -> FloatArray:
        """Return the vertex of the smallest entry of `g`, the first if there are several."""
        g = self._finite("g", g)
        out = np.zeros_like(g)
        out[np.argmin(g)] = self.total
        return out

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(3), cls(2, total=5.0), cls(1))
