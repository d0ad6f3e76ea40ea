"""Balls in the l2 and the l1 norm, and ellipsoids."""

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
from dpconvex.sets.box import project_onto_simplex


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
