"""The l1 ball."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.sets._simplex import project_onto_simplex
from dpconvex.sets.base import ConvexSet, check_dim, quiet


@final
@dataclass(frozen=True)
class L1Ball(ConvexSet):
    """All vectors whose absolute values sum to at most `radius`.

    Parameters
    ----------
    radius : float
        Positive; it is the largest l1 norm and the largest l2 norm of a member.
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
        """Whether the l1 norm is at most ``(1 + tolerance) * radius``."""
        self._check_shape("w", w)
        return bool(np.abs(w).sum() <= (1.0 + tolerance) * self.radius)

    @quiet
    def project(self, w: FloatArray) -> FloatArray:
        """Return the nearest member: the absolute values are projected onto the simplex, the signs kept."""
        w = self._finite("w", w)
        size = np.abs(w)
        return w if size.sum() <= self.radius else np.copysign(project_onto_simplex(size, self.radius), w)

    def linear_minimizer(self, g: FloatArray) -> FloatArray:
        """Return the vertex against the largest entry of `g`, the first if there are several."""
        g = self._finite("g", g)
        out = np.zeros_like(g)
        best = np.argmax(np.abs(g))
        out[best] = -np.copysign(self.radius, g[best])
        return out

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(2.0, dim=3), cls(0.5), cls(1e-3, dim=1))
