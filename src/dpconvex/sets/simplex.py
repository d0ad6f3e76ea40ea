"""The simplex: non-negative weights with a fixed sum."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.sets.base import ConvexSet, quiet


def project_onto_simplex(v: FloatArray, total: float) -> FloatArray:
    """Return the nearest vector with entries >= 0 and sum `total`, by sorting; O(d log d).

    Entries are first shifted so that the largest is 0 and cut at ``-total``: neither changes the projection, and
    every number stays within ``d * total`` however large `v` is.
    """
    v = np.maximum(v - v.max(), -total)
    ordered = np.sort(v)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(v) + 1)
    active = np.count_nonzero(ordered > thresholds)  # at least 1: the largest is 0 and its threshold -total
    # The threshold once more with a pairwise sum, then a rescaling: the sum is `total` up to a few roundings.
    threshold = (ordered[:active].sum() - total) / active
    out = np.maximum(v - threshold, 0.0)
    return out * (total / out.sum())


@final
@dataclass(frozen=True)
class Simplex(ConvexSet):
    """All vectors with entries >= 0 that sum to `total`."""

    dim: int | None  #: length of the vectors, at least 1
    total: float = 1.0  #: positive; 1 gives the probability vectors
    radius: float = field(init=False, repr=False, compare=False)
    diameter: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dim = _validate.integer("dim", self.dim, at_least=1)
        _validate.real("total", self.total, above=0.0)
        self._set(radius=self.total, diameter=_rounding.widen_up(math.sqrt(2.0) * self.total) if dim > 1 else 0.0)

    @quiet
    def contains(self, w: FloatArray, tolerance: float = 1e-9) -> bool:
        self._check_shape("w", w)
        slack = tolerance * self.total
        return bool(w.min() >= -slack and abs(w.sum() - self.total) <= slack)

    @quiet
    def project(self, w: FloatArray) -> FloatArray:
        return project_onto_simplex(self._finite("w", w), self.total)

    def linear_minimizer(self, g: FloatArray) -> FloatArray:
        g = self._finite("g", g)
        out = np.zeros_like(g)
        out[np.argmin(g)] = self.total
        return out

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(3), cls(2, total=5.0), cls(1))
