"""Parts of sets: the part of a ball, or of any set, that is near a member; second-order cones cut off by a ball."""

import math
import sys
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, quiet, set_fields
from dpconvex.errors import InvalidParameterError
from dpconvex.sets.base import ConvexSet, check_dim

_NORM_ROUNDING = 4e-15  # rounding of a norm, relative to the outer radius
_LARGEST = sys.float_info.max / 2  # largest norm of a projection onto cones, so that it does not overflow


@final_dataclass
class BallSection(ConvexSet):
    """All ``|w| <= outer`` with ``|w - center| <= inner``."""

    #: Positive radii of the two balls.
    outer: float
    inner: float
    center: ArrayLike  #: Center (dim,) of the inner ball, a member of the outer ball. Stored as a tuple.

    def __post_init__(self) -> None:
        _validate.positive(self, "outer", "inner")
        center = np.asarray(self.center, dtype=np.float64)
        if center.ndim != 1 or len(center) == 0 or not np.linalg.norm(center) <= self.outer * (1 + 1e-9):
            raise InvalidParameterError("center", self.center, "must be a member of the outer ball, of shape (dim,)")
        set_fields(self, center=tuple(center.tolist()), dim=len(center))
        R, r, c = self.outer, self.inner, float(np.linalg.norm(center))
        set_fields(self, radius=min(R, _rounding.widen_up(c + r)))
        if len(center) == 1:
            widest = min(2 * R, 2 * r, R + r - c)
        elif r**2 + c**2 <= R**2:  # more than half of the inner ball
            widest = 2 * r
        elif R**2 + c**2 <= r**2:
            widest = 2 * R
        else:
            widest = 2 * self._rim[2]
        set_fields(self, diameter=_rounding.widen_up(widest))

    def _holds(self, w: Floats, tolerance: float) -> Any:
        slack = tolerance * self.radius
        return _norm(w) <= self.outer + slack and _norm(w - self._center) <= self.inner + slack

    @quiet
    def project(self, w: Floats) -> Floats:
        """Return `w`, or its projection onto one ball if the other ball holds it, or the nearest point of the rim."""
        w = self._finite("w", w)
        w = w / max(1.0, np.abs(w).max() / 1e100)
        return self._pick(w, _onto(w, self.outer), self._center + _onto(w - self._center, self.inner), w)

    def linear_minimizer(self, g: Floats) -> Floats:
        """Return a ball's extreme point if the other ball holds it, else one on the rim; the center for ``g = 0``."""
        g = self._finite("g", g)
        if not np.any(g):
            return self._center.copy()
        unit = g / np.abs(g).max()
        unit /= _norm(unit)
        return self._pick(None, -self.outer * unit, self._center - self.inner * unit, -unit)

    def _pick(self, inside: Floats | None, on_outer: Floats, on_inner: Floats, direction: Floats) -> Floats:
        """Return the first candidate that is a member; the point of the rim towards `direction` if none is.

        A candidate on one ball's sphere is only tested for the other ball: its distance from the center of a small ball
        is off by the rounding of the whole vector, so a test would refuse points of that sphere.
        """
        slack = _NORM_ROUNDING * self.outer
        if inside is not None and _norm(inside) <= self.outer + slack and self._near(inside, slack):
            return inside
        if self._near(on_outer, slack):
            return on_outer
        if _norm(on_inner) <= self.outer + slack:
            return on_inner
        base, height, width = self._rim
        axis = self._center / max(_norm(self._center), 1e-300)
        across = direction - (direction @ axis) * axis
        across -= (across @ axis) * axis
        length = _norm(across)
        return base * self._center + height * axis + (width * across / length if length > 0 else 0.0 * across)

    def _near(self, w: Floats, slack: float) -> bool:
        return _norm(w - self._center) <= self.inner + slack

    @cached_property
    def _center(self) -> Floats:
        return np.array(self.center, dtype=np.float64)

    @cached_property
    def _rim(self) -> tuple[float, float, float]:
        """Where the two spheres meet: whether the inner ball is the smaller one, height and radius of the rim.

        The height is measured from the smaller ball's center, so that its radius sets the error: differences of squares
        of the larger radius would bury it.
        """
        R, r, c = self.outer, self.inner, max(_norm(self._center), 1e-300)
        small = min(R, r)
        across = (R - c) * (R + c) - r * r if r < R else (R - r) * (R + r) + c * c
        height = max(-small, min(small, across / (2 * c)))
        return float(r < R), height, math.sqrt(max(0.0, (small - height) * (small + height)))


def _onto(w: Floats, radius: float) -> Floats:
    return w if (length := _norm(w)) <= radius else w * (radius / length)


def _norm(w: Floats) -> float:
    return float(np.linalg.norm(w))


@final_dataclass
class Section(ConvexSet):
    """The members of any bounded set within a distance of one member (Lowy 2026, Lemma 2.8).

    Its projections and linear minimizers are projections, onto the whole set, of a point on a segment or ray from the
    center. Bisection runs to float precision and takes the end inside the ball, so results are members.
    """

    whole: ConvexSet  #: the bounded set
    inner: float  #: the distance, positive
    center: ArrayLike  #: The member from which distances are measured, (dim,). Stored as a tuple.

    def __post_init__(self) -> None:
        _validate.real("inner", self.inner, above=0.0)
        center = np.asarray(self.center, dtype=np.float64)
        if not math.isfinite(self.whole.radius) or not self.whole.contains(center):
            raise InvalidParameterError("center", self.center, "must be a member of a bounded set, of shape (dim,)")
        set_fields(self, center=tuple(center.tolist()), dim=len(center))
        widest = _rounding.widen_up(_norm(center) + self.inner)
        most = min(self.whole.diameter, _rounding.widen_up(2 * self.inner))  # an upper bound
        set_fields(self, radius=min(self.whole.radius, widest), diameter=most)

    @property
    def projection_error(self) -> float:
        return self.whole.projection_error + 1e-14 * self.radius

    def _holds(self, w: Floats, tolerance: float) -> Any:
        near = _norm(w - self._center) <= self.inner + tolerance * self.radius
        return near and self.whole.contains(w, tolerance)

    @quiet
    def project(self, w: Floats) -> Floats:
        return self._nearest(self._finite("w", w))[0]

    def linear_minimizer(self, g: Floats) -> Floats:
        g = self._finite("g", g)
        if not np.any(g):
            return self._center.copy()
        free = self.whole.linear_minimizer(g)
        if _norm(free - self._center) <= self.inner:
            return free
        unit = g / np.abs(g).max()
        return self._along(-unit / _norm(unit), self.inner, 1e9 * (self.whole.diameter + self.inner))[0]

    def ridge_minimum(self, g: Floats, weight: float) -> tuple[float, Floats]:
        """By weak duality: with the ball as a penalty, any multiplier gives a valid bound, however inaccurate it is."""
        u, share = self._nearest(-g / weight)
        if share == 1:
            return self.whole.ridge_minimum(g, weight)
        multiplier, away = weight * (1 - share) / share, _norm(u - self._center)
        size = (_norm(g) + (weight + multiplier) * _norm(u)) * _norm(u) + multiplier * self.inner**2
        penalty = multiplier / 2 * (away - self.inner) * (away + self.inner)
        return weight / 2 * float(u @ u) + float(g @ u) + penalty - 1e-14 * size, u

    @cached_property
    def _center(self) -> Floats:
        return np.array(self.center, dtype=np.float64)

    def _nearest(self, w: Floats) -> tuple[Floats, float]:
        """Return the projection, and the t in (0, 1] for which it is the whole set's of ``center + t (w - center)``."""
        away = w - self._center
        return self._along(away, min(1.0, self.inner / max(_norm(away), 1e-300)), 1.0)

    def _along(self, direction: Floats, low: float, high: float) -> tuple[Floats, float]:
        """Return the projection of ``center + t direction``, and its t: the largest in [low, high] inside the ball."""
        found = self.whole.project(self._center + high * direction)
        if _norm(found - self._center) <= self.inner:
            return found, high
        found = self.whole.project(self._center + low * direction)  # projections do not expand: it is in the ball
        while low < (middle := math.sqrt(low) * math.sqrt(high)) < high and high / low > 1 + 4e-16:
            point = self.whole.project(self._center + middle * direction)
            inside = _norm(point - self._center) <= self.inner
            low, high, found = (middle, high, point) if inside else (low, middle, found)
        return found, low


@final_dataclass
class SecondOrderCones(ConvexSet):
    """All ``(x_1, ..., x_count, q, free)`` with ``slope |x_g| <= q_g`` for every g, in a ball around 0.

    Each ``x_g`` has `size` entries and `q` has `count`. One cone holds the epigraph of ``slope |x|_2``; cones of size 1
    hold that of ``slope |x|_1``, as the sum of `q`.
    """

    #: Number of entries of one cone's vector, and number of cones; both at least 1.
    size: int
    count: int
    slope: float  #: slope of every cone, positive
    free: int = 0  #: number of unconstrained entries at the end
    radius: float = math.inf  #: radius of the ball; infinite: there is no ball

    def __post_init__(self) -> None:
        check_dim(self.size)
        _validate.integer("count", self.count, at_least=1)
        _validate.real("slope", self.slope, above=0.0)
        _validate.integer("free", self.free, at_least=0)
        if self.radius != math.inf:
            _validate.real("radius", self.radius, above=0.0)
        # Two unit members: opposite free entries, opposite rays of a cone, axes of two cones, or one and the apex.
        apart = 2.0 if self.free else max(2 / math.hypot(1, self.slope), math.sqrt(2) if self.count > 1 else 1.0)
        set_fields(self, dim=self.count * (self.size + 1) + self.free, diameter=_rounding.widen_up(apart * self.radius))

    def _holds(self, w: Floats, tolerance: float) -> Any:
        """Whether no cone is further away than ``tolerance`` times the radius (the length of `w` if unbounded)."""
        largest = float(np.abs(w).max())
        if not np.isfinite(largest) or largest == 0:
            return largest == 0
        unit = w / largest
        norm = float(np.linalg.norm(unit))
        lengths, q = self._parts(unit)
        size = norm if math.isinf(self.radius) else self.radius / largest
        slack = tolerance * size + sys.float_info.min / largest  # the last term is for subnormal numbers
        outside = (self.slope * lengths - q) / math.hypot(1, self.slope)
        return bool(np.all(outside <= slack) and norm <= (1 + tolerance) * (self.radius / largest))

    def project(self, w: Floats) -> Floats:
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

    def linear_minimizer(self, g: Floats) -> Floats:
        """Return ``-g`` projected onto the cones and scaled to the radius; 0 where that projection is 0."""
        if math.isinf(self.radius):
            remedy = "Give it a radius"
            raise InvalidParameterError("constraint", self, "must be bounded to have a linear minimizer", remedy)
        g = self._finite("g", g)
        steepest = self._onto_cones(-g / max(float(np.abs(g).max()), sys.float_info.min))
        norm = float(np.linalg.norm(steepest))
        return steepest * (self.radius / norm) if norm > 0 else steepest

    def _parts(self, w: Floats) -> tuple[Floats, Floats]:
        """Lengths of the vectors, correct even where squares underflow, and their bounds, each of shape (count,)."""
        n = self.size * self.count
        return np.hypot.reduce(w[:n].reshape(self.count, self.size), axis=1), w[n : n + self.count]

    def _onto_cones(self, w: Floats) -> Floats:
        """Return the projection onto the cones, as a new array; entries are finite and of moderate size."""
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
