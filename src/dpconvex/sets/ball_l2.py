"""The Euclidean ball."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.sets.base import ConvexSet, check_dim, quiet


@final
@dataclass(frozen=True)
class L2Ball(ConvexSet):
    """All vectors of l2 norm at most `radius`.

    Parameters
    ----------
    radius : float
        Positive.
    dim : int, optional
        Length of the vectors; any length if None.
    """

    radius: float
    dim: int | None = None
    diameter: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _validate.real("radius", self.radius, above=0.0)
        check_dim(self.dim)
        object.__setattr__(self, "diameter", _rounding.widen_up(2.0 * self.radius))

    @quiet
    def contains(self, w: FloatArray, tolerance: float = 1e-9) -> bool:
        """Whether the l2 norm is at most ``(1 + tolerance) * radius``."""
        self._check_shape("w", w)
        return bool(_norm(w) <= (1.0 + tolerance) * self.radius)

    def project(self, w: FloatArray) -> FloatArray:
        """Return `w` scaled down to the radius where it is longer."""
        w = self._finite("w", w)
        return w if _norm(w) <= self.radius else self._scaled_to_radius(w)

    def project_rows(self, points: FloatArray) -> FloatArray:
        """Return the projections of finite points of shape (n, dim)."""
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
        return points * (self.radius / np.maximum(lengths, self.radius))[:, None]

    def linear_minimizer(self, g: FloatArray) -> FloatArray:
        """Return ``-radius * g / |g|``; 0 for ``g = 0``."""
        g = self._finite("g", g)
        return self._scaled_to_radius(-g) if np.any(g) else g

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(2.0, dim=3), cls(0.5), cls(1e-3, dim=1))

    def _scaled_to_radius(self, w: FloatArray) -> FloatArray:
        unit = w / np.abs(w).max()
        return unit * (self.radius / np.sqrt(np.square(unit).sum()))


@quiet
def _norm(w: FloatArray) -> float:
    """l2 norm that overflows only where the norm itself does."""
    largest = np.abs(w).max(initial=0.0)
    return float(largest * np.sqrt(np.square(w / largest).sum())) if largest > 0 else float(largest)
