"""Boxes, the simplex, balls in the l2 and the l1 norm, and ellipsoids."""

import math
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Ball(ConvexSet):
    """A ball around 0 whose radius is the largest l2 norm of a member."""

    radius: float  #: positive
    dim: int | None = None  #: length of the vectors; any length if None

    def __post_init__(self) -> None:
        radius = _validate.real("radius", self.radius, above=0.0)
        check_dim(self.dim)
        set_fields(self, radius=radius, diameter=_rounding.widen_up(2.0 * radius))


@final_dataclass
class L2Ball(_Ball):
    """All vectors of l2 norm at most `radius`."""

    normal_rounding = 1.0

    def _holds(self, w: Floats, tolerance: float) -> Any:
        return _norm(w) <= (1.0 + tolerance) * self.radius

    def project(self, w: Floats) -> Floats:
        w = self._finite("w", w)
        return w if _norm(w) <= self.radius else self._scaled_to_radius(w)

    def project_rows(self, points: Floats) -> Floats:
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
        return points * (self.radius / np.maximum(lengths, self.radius))[:, None]

    def outward(self, members: Floats, away: Floats) -> Floats:
        return _along(members, away)

    def least_rows(self, g: Floats) -> Floats:
        return -self.radius * np.linalg.norm(g, axis=1)

    def linear_minimizer(self, g: Floats) -> Floats:
        g = self._finite("g", g)
        return self._scaled_to_radius(-g) if np.any(g) else g

    def _scaled_to_radius(self, w: Floats) -> Floats:
        unit = w / np.abs(w).max()
        return unit * (self.radius / np.sqrt(np.square(unit).sum()))


@quiet
def _norm(w: Floats) -> float:
    """Return the l2 norm; it overflows only where the norm itself does."""
    largest = np.abs(w).max(initial=0.0)
    return float(largest * np.sqrt(np.square(w / largest).sum())) if largest > 0 else float(largest)


def _along(normals: Floats, away: Floats) -> Floats:
    """Return the components of `away` along normals of any length, 0 where they point inwards."""
    squares = np.einsum("ij,ij->i", normals, normals)
    shares = np.einsum("ij,ij->i", away, normals) / np.where(squares > 0, squares, 1.0)
    return np.maximum(shares, 0.0)[:, None] * normals


@final_dataclass
class L1Ball(_Ball):
    """All vectors whose absolute values sum to at most `radius`, which is the largest l1 and l2 norm of a member."""

    def _holds(self, w: Floats, tolerance: float) -> Any:
        return np.abs(w).sum() <= (1.0 + tolerance) * self.radius

    @quiet
    def project(self, w: Floats) -> Floats:
        """Return the nearest member: the absolute values are projected onto the simplex, the signs kept."""
        w = self._finite("w", w)
        size = np.abs(w)
        return w if size.sum() <= self.radius else np.copysign(project_onto_simplex(size, self.radius), w)

    def linear_minimizer(self, g: Floats) -> Floats:
        g = self._finite("g", g)
        out = np.zeros_like(g)
        best = np.argmax(np.abs(g))
        out[best] = -np.copysign(self.radius, g[best])
        return out


@final_dataclass
class Ellipsoid(ConvexSet):
    """All ``center + M v`` with ``|v| <= 1`` for an invertible matrix M."""

    #: The matrix M, (dim, dim), or the half-axes along the coordinates, (dim,); its condition number is at most 1e6.
    #: Stored as a tuple of rows.
    shape: ArrayLike
    center: ArrayLike | None = None  #: The center, (dim,); 0 if None. Stored as a tuple.

    def __post_init__(self) -> None:
        shape = np.asarray(self.shape, dtype=np.float64)
        shape = np.diag(shape) if shape.ndim == 1 else shape
        if shape.ndim != 2 or shape.shape[0] != shape.shape[1] or len(shape) == 0 or not np.isfinite(shape).all():
            raise InvalidParameterError("shape", self.shape, "must be finite, of shape (dim,) or (dim, dim)")
        axes = np.linalg.svd(shape, compute_uv=False)
        if axes[-1] <= 1e-6 * axes[0]:
            raise InvalidParameterError("shape", self.shape, "must be invertible, of condition number below 1e6")
        center = np.zeros(len(shape)) if self.center is None else np.asarray(self.center, dtype=np.float64)
        if center.shape != (len(shape),) or not np.isfinite(center).all():
            raise InvalidParameterError("center", self.center, f"must be finite, of shape ({len(shape)},)")
        set_fields(self, shape=tuple(map(tuple, shape.tolist())), center=tuple(center.tolist()), dim=len(shape))
        # By the triangle inequality; exact where the center is 0 or lies along the longest axis.
        radius = _rounding.widen_up(float(axes[0]) + math.hypot(*center))
        set_fields(self, radius=radius, diameter=_rounding.widen_up(2 * float(axes[0])))

    def _holds(self, w: Floats, tolerance: float) -> Any:
        return np.linalg.norm(w - self.project(w)) <= tolerance * self.radius

    @quiet
    def project(self, w: Floats) -> Floats:
        """Return the nearest member: the root of the secular equation, by Newton's method."""
        return self.project_rows(self._finite("w", w)[None])[0]

    @quiet
    def project_rows(self, points: Floats) -> Floats:
        basis, axes, center = self._axes
        unit, axes = axes[0], axes / axes[0]  # squares of extreme half-axes would vanish or overflow
        x = np.clip((points - center) @ basis / unit, -1e140, 1e140)
        outside = np.flatnonzero(np.square(x / axes).sum(1) > 1)
        far = x[outside]
        # Newton's method for |axis x / (axis^2 + nu)| = 1 in the form 1 / |.| = 1, which is concave in nu: from 0 it
        # rises to the root and never beyond.
        nu = np.zeros(len(far))
        for _ in range(60):  # about five steps suffice
            ratio = axes * far / (axes**2 + nu[:, None])
            length = np.sqrt(np.square(ratio).sum(1))
            bend = (np.square(ratio) / (axes**2 + nu[:, None])).sum(1)
            more = np.maximum(length**2 * (length - 1) / bend, 0.0)
            nu = nu + more
            if not np.any(more > 1e-16 * nu):
                break
        out = points.copy()
        out[outside] = center + (unit * axes**2 * far / (axes**2 + nu[:, None])) @ basis.T
        return out

    @property
    def normal_rounding(self) -> float:
        """The square of the condition number."""
        axes = self._axes[1]
        return float(axes[0] / axes[-1]) ** 2

    def outward(self, members: Floats, away: Floats) -> Floats:
        basis, axes, center = self._axes
        return _along((((members - center) @ basis) * (axes[-1] / axes) ** 2) @ basis.T, away)

    def least_rows(self, g: Floats) -> Floats:
        basis, axes, center = self._axes
        return g @ center - np.linalg.norm((g @ basis) * axes, axis=1)

    def linear_minimizer(self, g: Floats) -> Floats:
        """Return ``center - M M^T g / |M^T g|``; the center for ``g = 0``."""
        g = self._finite("g", g)
        basis, axes, center = self._axes
        largest = np.abs(g).max()
        direction = axes * (basis.T @ (g / largest)) if largest > 0 else np.zeros_like(g)
        length = np.linalg.norm(direction)
        return center - (basis @ (axes * direction / length) if length > 0 else 0.0 * g)

    @cached_property
    def _axes(self) -> tuple[Floats, Floats, Floats]:
        """Directions of the half-axes (columns), their lengths, and the center."""
        basis, axes, _ = np.linalg.svd(np.array(self.shape, dtype=np.float64))
        return basis, axes, np.array(self.center, dtype=np.float64)
