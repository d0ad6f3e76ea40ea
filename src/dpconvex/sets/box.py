"""A box with sides parallel to the axes; the simplex: non-negative weights with a fixed sum."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, quiet, set_fields
from dpconvex.errors import InvalidParameterError
from dpconvex.sets.base import ConvexSet, check_dim


@final_dataclass
class Box(ConvexSet):
    """All vectors between `lower` and `upper`, entry by entry."""

    #: Finite bounds ``lower <= upper``, each of shape (dim,), or a scalar for all entries. Stored as tuples.
    lower: ArrayLike
    upper: ArrayLike
    dim: int | None = None  #: length of the vectors; needed if both bounds are scalars
    normal_rounding = 1.0  # normals are single coordinates, in which differences are exact

    @quiet
    def __post_init__(self) -> None:
        check_dim(self.dim)
        lower, upper = _bound("lower", self.lower), _bound("upper", self.upper)
        lengths = {len(bound) for bound in (lower, upper) if bound.ndim} | ({self.dim} - {None})
        if len(lengths) != 1:
            remedy = "Give dim, or bounds of shape (dim,) with at least one entry"
            raise InvalidParameterError("dim", self.dim, "must agree with the lengths of the bounds", remedy)
        dim = _validate.integer("dim", lengths.pop(), at_least=1)
        lower, upper = np.broadcast_to(lower, dim), np.broadcast_to(upper, dim)
        if np.any(lower > upper):
            raise InvalidParameterError("lower", self.lower, f"must be <= upper={self.upper!r} in every entry")
        set_fields(self, lower=tuple(lower.tolist()), upper=tuple(upper.tolist()), dim=dim)
        furthest, apart = math.hypot(*np.maximum(-lower, upper)), math.hypot(*(upper - lower))
        set_fields(self, radius=furthest, diameter=_rounding.widen_up(apart))

    def _holds(self, w: Floats, tolerance: float) -> Any:
        (lower, upper), slack = self._bounds, tolerance * self.radius
        return np.all((w >= lower - slack) & (w <= upper + slack))

    def project(self, w: Floats) -> Floats:
        return np.clip(self._finite("w", w), *self._bounds)

    def project_rows(self, points: Floats) -> Floats:
        return np.clip(points, *self._bounds)

    def least_rows(self, g: Floats) -> Floats:
        return np.where(g > 0, g * self._bounds[0], g * self._bounds[1]).sum(1)

    def linear_minimizer(self, g: Floats) -> Floats:
        return np.where(self._finite("g", g) > 0, *self._bounds)

    @cached_property
    def _bounds(self) -> tuple[Floats, Floats]:
        return np.array(self.lower, dtype=np.float64), np.array(self.upper, dtype=np.float64)


def _bound(name: str, value: ArrayLike) -> Floats:
    try:
        bound = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidParameterError(name, value, "must be a number or an array of numbers") from error
    if bound.ndim > 1 or not np.all(np.isfinite(bound)):
        raise InvalidParameterError(name, value, "must be finite, a scalar or an array of shape (dim,)")
    return bound


def project_onto_simplex(v: Floats, total: float) -> Floats:
    """Return the nearest vector with entries >= 0 and sum `total`, by sorting; O(d log d)."""
    # Shifting and cutting change no projection, and keep every number within ``d * total`` however large `v` is.
    v = np.maximum(v - v.max(), -total)
    ordered = np.sort(v)[::-1]
    thresholds = (np.cumsum(ordered) - total) / np.arange(1, len(v) + 1)
    active = np.count_nonzero(ordered > thresholds)  # at least 1: the largest is 0 and its threshold -total
    # The threshold is computed anew with a pairwise sum; after rescaling, the sum is `total` up to a few roundings.
    threshold = (ordered[:active].sum() - total) / active
    out = np.maximum(v - threshold, 0.0)
    return out * (total / out.sum())


@final_dataclass
class Simplex(ConvexSet):
    """All vectors with entries >= 0 that sum to `total`."""

    dim: int | None  #: length of the vectors, at least 1
    total: float = 1.0  #: positive; 1 gives the probability vectors

    def __post_init__(self) -> None:
        dim = _validate.integer("dim", self.dim, at_least=1)
        total = _validate.real("total", self.total, above=0.0)
        apart = _rounding.widen_up(math.sqrt(2.0) * total) if dim > 1 else 0.0
        set_fields(self, total=total, radius=total, diameter=apart)

    def _holds(self, w: Floats, tolerance: float) -> Any:
        return w.min() >= -tolerance * self.total and abs(w.sum() - self.total) <= tolerance * self.total

    @quiet
    def project(self, w: Floats) -> Floats:
        return project_onto_simplex(self._finite("w", w), self.total)

    def linear_minimizer(self, g: Floats) -> Floats:
        g = self._finite("g", g)
        out = np.zeros_like(g)
        out[np.argmin(g)] = self.total
        return out
