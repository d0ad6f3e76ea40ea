"""Products of second-order cones: where a variable bounds the length of some others."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.sets.base import ConvexSet, check_dim

_LARGEST = sys.float_info.max / 2


@final
@dataclass(frozen=True)
class SecondOrderCones(ConvexSet):
    """All ``(x_1, ..., x_count, q, free)`` with ``slope |x_g| <= q_g`` for every g, in a ball around 0.

    Each ``x_g`` has `size` entries and `q` has `count`. One cone holds the epigraph of ``slope |x|_2``; cones of size 1
    hold that of ``slope |x|_1``, as the sum of `q`.

    Parameters
    ----------
    size, count : int
        Entries of one cone's vector, and number of cones; at least 1.
    slope : float
        Positive.
    free : int
        Number of unconstrained entries at the end.
    radius : float
        Of the ball; infinite: none.
    """

    size: int
    count: int
    slope: float
    free: int = 0
    radius: float = math.inf
    dim: int | None = field(init=False, repr=False, compare=False)
    diameter: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_dim(self.size)
        _validate.integer("count", self.count, at_least=1)
        _validate.real("slope", self.slope, above=0.0)
        _validate.integer("free", self.free, at_least=0)
        if self.radius != math.inf:
            _validate.real("radius", self.radius, above=0.0)
        # Two unit members: opposite free entries, opposite rays of a cone, axes of two cones, or one and the apex.
        apart = 2.0 if self.free else max(2 / math.hypot(1, self.slope), math.sqrt(2) if self.count > 1 else 1.0)
        object.__setattr__(self, "dim", self.count * (self.size + 1) + self.free)
        object.__setattr__(self, "diameter", _rounding.widen_up(apart * self.radius))

    def contains(self, w: FloatArray, tolerance: float = 1e-9) -> bool:
        """Whether no cone is further away than ``tolerance`` times the radius (the length of `w` if unbounded)."""
        self._check_shape("w", w)
        largest = float(np.abs(w).max())
        if not np.isfinite(largest) or largest == 0:
            return largest == 0
        unit = w / largest
        norm = float(np.linalg.norm(unit))
        lengths, q = self._parts(unit)
        size = norm if math.isinf(self.radius) else self.radius / largest
        slack = tolerance * size + sys.float_info.min / largest  # the last: numbers below the normal range
        outside = (self.slope * lengths - q) / math.hypot(1, self.slope)
        return bool(np.all(outside <= slack) and norm <= (1 + tolerance) * (self.radius / largest))

    def project(self, w: FloatArray) -> FloatArray:
        """Return the nearest member: cone by cone, then scaled into the ball (a cone's projection is homogeneous)."""
        w = self._finite("w", w)
        largest = float(np.abs(w).max())
        if largest == 0:
            return w
        unit = self._onto_cones(w / largest)
        norm = float(np.linalg.norm(unit))
        if norm == 0:
            return unit
        return unit * min(largest, self.radius / norm, _LARGEST / norm)  # Python floats: no warnings

    def linear_minimizer(self, g: FloatArray) -> FloatArray:
        """Return ``-g`` projected onto the cones and scaled to the radius; 0 where that projection is 0."""
        if math.isinf(self.radius):
            remedy = "Give it a radius"
            raise InvalidParameterError("constraint", self, "must be bounded to have a linear minimiser", remedy)
        g = self._finite("g", g)
        steepest = self._onto_cones(-g / max(float(np.abs(g).max()), sys.float_info.min))
        norm = float(np.linalg.norm(steepest))
        return steepest * (self.radius / norm) if norm > 0 else steepest

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return small instances for the contract tests."""
        return (cls(3, 1, 0.5), cls(1, 2, 2.0, free=1, radius=2.0), cls(2, 1, 1.0, radius=0.5), cls(1, 2, 0.7))

    def _parts(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Lengths of the vectors, also where squares vanish, and their bounds, each of shape (count,)."""
        n = self.size * self.count
        return np.hypot.reduce(w[:n].reshape(self.count, self.size), axis=1), w[n : n + self.count]

    def _onto_cones(self, w: FloatArray) -> FloatArray:
        """Project finite entries of moderate size; returns a new array."""
        out, a = w.copy(), self.slope
        lengths, q = self._parts(w)
        n = self.size * self.count
        # Inside; in the polar cone, where 0 is nearest; else onto the ray (x / |x|, slope).
        ray = np.maximum(lengths + a * q, 0.0) / (1 + a * a)
        inside = a * lengths <= q
        x = out[:n].reshape(self.count, self.size)
        along = x / np.where(lengths > 0, lengths, 1.0)[:, None] * ray[:, None]
        out[:n] = np.where(inside[:, None], x, along).ravel()
        out[n : n + self.count] = np.where(inside, q, a * ray)
        return out
