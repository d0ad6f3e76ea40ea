r"""Lipschitz extensions over a compact set: ``f_C(w) = min over y in W of f(y) + C |w - y|``, to a stated accuracy.

For records of a linear model, ``f(y) = phi(<a, y>)`` with convex phi, smooth or with one kink. Any slope t and number c
with ``phi(x) >= t x + c`` and any p of length at most C give a plane (docs, Heavy tails, Lemma 6; Lowy 2026, Lemma 2.2)

    f_C(u) >= <p, u> + c + min over y in W of <t a - p, y>    for all u in W,

which needs the minimum of a linear function over W only and is valid however t and p were found. They come from the
proximal point ``y(s) = argmin of f(y) + |w - y|^2 / (2 s)``: with t the slope of phi there, ``p = (w - y)/s`` is a
subgradient of f plus the normal cone at y, ``|p|`` falls with s, and the s where ``|p| = C`` is found by bisection.
``f_C(w) <= min(f(w), f(y) + C |w - y|)`` closes the bracket. The minimum over W depends on the direction of the
normal, which a difference ``w - s t a - y`` tells badly for small s: `ConvexSet.outward` takes it from the set.

For a maximum of affine functions (Proposition D.6: a cone program's dual) any weights theta of the pieces and any p of
length at most C give a plane:

    f_C(u) >= <p, u> + <theta, b> + min over y in W of <A^T theta - p, y>    for all u in W.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidDataError
from dpconvex.losses import LinearModelLoss
from dpconvex.losses.base import quiet
from dpconvex.problems.objective import UP, inner_product_rounding
from dpconvex.sets import ConvexSet
from dpconvex.sets.box import project_onto_simplex

_SLOPE_HALVINGS = 100  # slopes may have to be small beside their range
_VALUE_ROUNDING = 2.0**-50  # of a computed loss, relative
_PLANE_ROUNDING = 1e-14  # of a plane with weights, relative
_ASCENT = 5000  # steps on the weights for one proximal point of a maximum of affine functions


class Profiles(ABC):
    """Functions ``phi_i(<a_i, y>)`` of n records; `slopes` are the vectors a, shape (n, dim)."""

    slopes: FloatArray

    @abstractmethod
    def values(self, points: FloatArray) -> FloatArray:
        """Return the functions at points of shape (n, dim), or at one of shape (dim,)."""

    @abstractmethod
    def ends(self, radius: float) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest slope, (n,) each, over the ball of that radius."""

    @abstractmethod
    def derivatives(self, z: FloatArray) -> FloatArray:
        """Return a slope of phi at predictions z (n,)."""

    @abstractmethod
    def excess(self, z: FloatArray, t: FloatArray) -> FloatArray:
        """Return a continuous function that is positive where the slope at z is above `t`, and falls with both."""

    @abstractmethod
    def constants(self, z: FloatArray) -> FloatArray:
        """Return numbers c with ``phi(x) >= slope x + c``, equal at z, for the slopes of `derivatives`."""

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the functions."""


@final
@dataclass(frozen=True, eq=False)
class Pieces(Profiles):
    """Functions ``max of t (<a, y> + b) over t in [lower, upper]``, one for each of n records.

    ``slopes`` are the vectors a (n, dim), ``offsets`` the numbers b (n,), all finite; the ends of t (n,) are (1, 1) for
    an affine function, (0, 1) for a hinge, (-1, 1) for an absolute value.
    """

    slopes: FloatArray
    offsets: FloatArray
    lower: FloatArray
    upper: FloatArray

    @property
    def norms(self) -> FloatArray:
        """Largest slope norms A, shape (n,)."""
        return np.linalg.norm(self.slopes, axis=1) * np.maximum(-self.lower, self.upper)

    def values(self, points: FloatArray) -> FloatArray:
        v = _inner(self.slopes, points) + self.offsets
        return np.maximum(self.lower * v, self.upper * v)

    def ends(self, radius: float) -> tuple[FloatArray, FloatArray]:
        return self.lower, self.upper

    def derivatives(self, z: FloatArray) -> FloatArray:
        return np.where(z + self.offsets > 0, self.upper, self.lower)

    def excess(self, z: FloatArray, t: FloatArray) -> FloatArray:
        return z + self.offsets

    def constants(self, z: FloatArray) -> FloatArray:
        return self.derivatives(z) * self.offsets

    def take(self, rows: NDArray[np.intp]) -> Pieces:
        return Pieces(self.slopes[rows], self.offsets[rows], self.lower[rows], self.upper[rows])


@final
@dataclass(frozen=True, eq=False)
class Curves(Profiles):
    """A smooth loss at the predictions of n records."""

    loss: LinearModelLoss
    slopes: FloatArray
    targets: FloatArray

    def values(self, points: FloatArray) -> FloatArray:
        return self.loss.value(_inner(self.slopes, points), self.targets)

    def ends(self, radius: float) -> tuple[FloatArray, FloatArray]:
        reach = radius * np.linalg.norm(self.slopes, axis=1) * UP
        return self.loss.derivative(-reach, self.targets), self.loss.derivative(reach, self.targets)

    def derivatives(self, z: FloatArray) -> FloatArray:
        return self.loss.derivative(z, self.targets)

    def excess(self, z: FloatArray, t: FloatArray) -> FloatArray:
        return self.derivatives(z) - t

    def constants(self, z: FloatArray) -> FloatArray:
        return self.loss.value(z, self.targets) - self.derivatives(z) * z

    def take(self, rows: NDArray[np.intp]) -> Curves:
        return Curves(self.loss, self.slopes[rows], self.targets[rows])


@final
@dataclass(frozen=True, eq=False)
class Extension:
    """Values and planes of the Lipschitz extensions of n functions at one point.

    ``lower <= f_C(w) <= upper``, (n,), and ``f_C(u) >= lower + <slope, u - w>`` for all u in the set, with slopes (n,
    dim) of norm at most C.
    """

    lower: FloatArray
    upper: FloatArray
    slopes: FloatArray

    def improve(self, rows: NDArray[np.intp], new: Extension) -> None:
        """Keep the better bounds of some rows, in place."""
        higher = new.lower > self.lower[rows]
        self.slopes[rows[higher]], self.lower[rows[higher]] = new.slopes[higher], new.lower[higher]
        self.upper[rows] = np.minimum(self.upper[rows], new.upper)


Oracle = Callable[[Profiles, FloatArray, float, ConvexSet, float], Extension]
"""From functions, point, level C, set and tolerance to brackets and planes."""


@quiet
def lipschitz_extension(some: Profiles, w: FloatArray, level: float, domain: ConvexSet, tolerance: float) -> Extension:
    """Return values and planes of the extensions of Lipschitz constant `level` at `w`, projected onto the set first.

    ``upper - lower`` is at most the tolerance plus `bracket_rounding` for every record (Lowy 2026, Lemma 2.2).
    """
    _validate.real("level", level, above=0.0)
    _validate.real("tolerance", tolerance, above=0.0)
    w, n, reach = domain.project(w), len(some.slopes), domain.diameter
    here = np.tile(w, (n, 1))
    z = _inner(some.slopes, w)
    slope, constant = some.derivatives(z), some.constants(z)
    flat = _Proximal(here, slope, constant, np.zeros_like(here), np.abs(slope), np.abs(constant))
    best = _bracket(some, w, flat, level, domain)  # the tangent at w: enough where it is no steeper than the level
    rows = np.flatnonzero(best.upper - best.lower > tolerance)
    steep, m = some.take(rows), len(rows)
    root = _Root(np.zeros(m), np.full(m, reach / level), np.ones(m), -np.ones(m), np.zeros(m, bool))
    s = root.high
    for step in range(3 * max(1, math.ceil(math.log2(max(2.0, level * reach / tolerance)))) + 3):
        if len(rows) == 0:
            break
        near = _proximal(steep, w, s, domain, tolerance / 4)
        best.improve(rows, _bracket(steep, w, near, level, domain))
        length = np.linalg.norm(near.slopes(steep), axis=1)
        root.narrow(s, 1 - level / np.maximum(length, 1e-300))  # linear in s where y stays at a kink
        left = np.flatnonzero(best.upper[rows] - best.lower[rows] > tolerance)
        rows, steep, root = rows[left], steep.take(left), root.take(left)
        s = root.guess(step)
    return best


@final
@dataclass(eq=False)
class _Root:
    """Where falling functions of one variable are 0: values at ``low`` are positive, at ``high`` not."""

    low: FloatArray
    high: FloatArray
    at_low: FloatArray
    at_high: FloatArray
    rose: NDArray[np.bool_]  #: whether the low end moved last

    def closed(self) -> NDArray[np.bool_]:
        """Whether no float is left between the ends."""
        middle = 0.5 * (self.low + self.high)
        return (middle <= self.low) | (middle >= self.high)

    def guess(self, step: int) -> FloatArray:
        """Return the next points: by the secant, every third time the middle, which halves the interval."""
        middle, width = 0.5 * (self.low + self.high), self.high - self.low
        if step % 3 == 0:
            return middle
        fall = self.at_low - self.at_high
        secant = self.high + self.at_high / np.where(fall > 0, fall, 1.0) * width
        return np.where((secant > self.low) & (secant < self.high) & np.isfinite(fall), secant, middle)

    def narrow(self, x: FloatArray, value: FloatArray) -> None:
        """Take in values; an end that stays twice counts half (Illinois), so that both move."""
        up, again = value > 0, (value > 0) == self.rose
        self.low, self.high = np.where(up, x, self.low), np.where(up, self.high, x)
        self.at_low = np.where(up, value, np.where(again, 0.5, 1.0) * self.at_low)
        self.at_high = np.where(up, np.where(again, 0.5, 1.0) * self.at_high, value)
        self.rose = up

    def take(self, rows: NDArray[np.intp]) -> _Root:
        low, high, at_low, at_high = (part[rows] for part in (self.low, self.high, self.at_low, self.at_high))
        return _Root(low, high, at_low, at_high, self.rose[rows])


def bracket_rounding(level: float, steepest: float, value: float, domain: ConvexSet, dim: int) -> float:
    """Return what rounding adds to the bracket of any record: public, for floors of accuracy.

    Of records with slopes up to `steepest` on the set and values up to `value` at 0. Terms are inner products over the
    set, times how rounding turns its normals; where that is not known a proximal step s leaves ``s C^2/4 + e D/s`` for
    projections off by e, and the best s of the bisection is within a factor of 2.
    """
    R, D, unit = domain.radius, domain.diameter, inner_product_rounding(dim)
    plain = 8 * unit * (steepest + level) * (2 * R + D) + 8 * _VALUE_ROUNDING * value
    if math.isfinite(domain.normal_rounding):
        return plain * domain.normal_rounding
    return plain + 2.5 * level * math.sqrt(1000 * unit * (R + D) * D)


@final
@dataclass(frozen=True, eq=False)
class _Proximal:
    y: FloatArray  #: proximal points project(w - s t a), (n, dim)
    t: FloatArray  #: slopes, (n,)
    constant: FloatArray  #: c with ``phi(x) >= t x + c``, nearly equal at y, (n,)
    normal: FloatArray  #: (w - s t a - y) / s, in the normal cone at y, (n, dim)
    steep: FloatArray  #: size of what t was computed from, (n,)
    large: FloatArray  #: size of what c was computed from, (n,)

    def slopes(self, some: Profiles) -> FloatArray:
        """Return ``p = t a + normal``, which is (w - y) / s."""
        return self.t[:, None] * some.slopes + self.normal


def _bracket(some: Profiles, w: FloatArray, near: _Proximal, level: float, domain: ConvexSet) -> Extension:
    """Bounds and planes from any points of the set, slopes and normals (Lemma 6), rounding against ourselves."""
    t, constant, p = near.t, near.constant, near.slopes(some)
    length = np.linalg.norm(p, axis=1)
    share = np.where(length > level, level / np.maximum(length, 1e-300) * (1 - 4e-16), 1.0)[:, None]
    tilt = np.where(share < 1, (1 - share) * t[:, None] * some.slopes - share * near.normal, -near.normal)
    p = share * p
    reach, steep = domain.radius, near.steep * np.linalg.norm(some.slopes, axis=1)
    unit = inner_product_rounding(len(w))
    lower = p @ w + constant + domain.least_rows(tilt)
    slack = unit * (steep + level + np.linalg.norm(tilt, axis=1)) * reach + _VALUE_ROUNDING * near.large
    at_w, at_y = some.values(w), some.values(near.y)
    upper = np.minimum(at_w, at_y + level * np.linalg.norm(w - near.y, axis=1))
    upper = upper + unit * (steep + level) * reach + _VALUE_ROUNDING * (np.abs(upper) + near.large)
    return Extension(np.minimum(lower - slack, upper), upper, p)


def _proximal(some: Profiles, w: FloatArray, s: FloatArray, domain: ConvexSet, tolerance: float) -> _Proximal:
    """Return the proximal points; t is nearly the slope there.

    The tangents at the ends of the search average to one of slope t, lower than phi by at most the tolerance.
    """

    def at(t: FloatArray, part: Profiles, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        point = w - (s * t)[:, None] * part.slopes
        y = domain.project_rows(point)
        return point, y, _inner(part.slopes, y)

    low, high = some.ends(domain.radius)
    z_high, z_low = at(high, some, s)[2], at(low, some, s)[2]  # predictions fall with t
    t = np.where(some.derivatives(z_high) >= high, high, low)
    between = np.flatnonzero((t < high) & (some.derivatives(z_low) > low))
    point, y, z = at(t, some, s)
    slope, constant = some.derivatives(z), some.constants(z)
    steep, large = np.abs(slope), np.abs(constant)
    if len(between):
        part, part_s, z_low, z_high = some.take(between), s[between], z_low[between], z_high[between]
        low, high = low[between], high[between]
        root = _Root(low, high, part.excess(z_low, low), part.excess(z_high, high), np.zeros(len(low), bool))
        lengths = np.linalg.norm(part.slopes, axis=1)
        above, below, share = _lines(part, z_low), _lines(part, z_high), np.zeros(len(low))
        for step in range(1, 3 * _SLOPE_HALVINGS):
            share = np.clip((root.high - below[0]) / np.where(above[0] > below[0], above[0] - below[0], 1.0), 0.0, 1.0)
            gap = share * ((below[0] - above[0]) * z_high + below[1] - above[1])
            missed = np.abs(below[0] + share * (above[0] - below[0]) - root.high)  # by a search that is still wide
            gap = gap + missed * lengths * domain.diameter
            if np.all((gap <= tolerance) | root.closed()):
                break
            x = root.guess(step)
            new = at(x, part, part_s)[2]
            root.narrow(x, part.excess(new, x))
            line, z_high = _lines(part, new), np.where(root.rose, z_high, new)
            above, below = np.where(root.rose, line, above), np.where(root.rose, below, line)
        point[between], y[between], _ = at(root.high, part, part_s)
        slope[between], constant[between] = below + share * (above - below)
        ends = np.maximum(np.abs(above), np.abs(below))
        steep[between], large[between] = ends
    return _Proximal(y, slope, constant, domain.outward(y, point - y) / s[:, None], steep, large)


def _lines(some: Profiles, z: FloatArray) -> FloatArray:
    """Slopes and constants of tangents, (2, n)."""
    return np.array([some.derivatives(z), some.constants(z)])


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)


@final
@dataclass(frozen=True, eq=False)
class MaxAffine:
    """The function ``max over j of <a_j, y> + b_j``: finite slopes a (M, dim) and offsets b (M,)."""

    slopes: FloatArray
    offsets: FloatArray

    def __post_init__(self) -> None:
        if self.slopes.ndim != 2 or self.slopes.size == 0 or self.offsets.shape != self.slopes.shape[:1]:
            shapes = f"slopes {self.slopes.shape} and offsets {self.offsets.shape}"
            raise InvalidDataError(f"{shapes}: one offset for each row of slopes is needed, at least one")

    def value(self, y: FloatArray) -> float:
        """Return the function at `y` (dim,)."""
        return float((self.slopes @ y + self.offsets).max())


@final
@dataclass(frozen=True, eq=False)
class Plane:
    """A lower plane of an extension at a point w, and an upper bound there: ``lower <= f_C(w) <= upper``.

    ``f_C(u) >= lower + <slope, u - w>`` for all u in the set; the slope (dim,) is at most C long: a B-subgradient with
    ``B = upper - lower``.
    """

    lower: float
    upper: float
    slope: FloatArray


@quiet
def structured_extension(some: Profiles, w: FloatArray, level: float, domain: ConvexSet, tolerance: float) -> Extension:
    """As `lipschitz_extension`, of `Pieces`: steep records by weights of their pieces (Proposition D.6), one by one.

    The ascent on the weights has no step count that suffices for every record; what it leaves open, bisection closes.
    """
    assert isinstance(some, Pieces)  # the planner refuses other losses; tells the type checker
    best = lipschitz_extension(some, w, level, domain, 1e300)
    for i in np.flatnonzero(best.upper - best.lower > tolerance):
        ends = np.array([some.lower[i], some.upper[i]])
        plane = max_affine_extension(
            MaxAffine(ends[:, None] * some.slopes[i], ends * some.offsets[i]), w, level, domain, tolerance
        )
        found = Extension(*(np.array([bound]) for bound in (plane.lower, plane.upper, plane.slope)))
        best.improve(np.array([i]), found)
    left = np.flatnonzero(best.upper - best.lower > tolerance)
    if len(left):
        best.improve(left, lipschitz_extension(some.take(left), w, level, domain, tolerance))
    return best


@quiet
def max_affine_extension(f: MaxAffine, w: FloatArray, level: float, domain: ConvexSet, tolerance: float) -> Plane:
    """Return a plane and a bracket of ``f_C(w) = min over y in W of f(y) + C |w - y|``, `w` projected onto W first.

    ``upper - lower`` is at most the tolerance unless rounding or slow convergence of the weights forbid it; the bracket
    holds in any case (Lowy 2026, Definition D.3, Proposition D.6, Corollary D.7).
    """
    _validate.real("level", level, above=0.0)
    _validate.real("tolerance", tolerance, above=0.0)
    w, reach = domain.project(w), _validate.real("diameter", domain.diameter, above=0.0, remedy="Give a bounded set")
    best = Plane(-math.inf, f.value(w), np.zeros_like(w))
    short, long, weights = 0.0, reach / level, np.full(len(f.offsets), 1 / len(f.offsets))
    step = long
    for _ in range(max(1, math.ceil(2 * math.log2(max(2.0, level * reach / tolerance)))) + 1):
        y, weights = _affine_proximal(f, w, step, domain, weights, tolerance / 8)
        p = (w - y) / step
        length = float(np.linalg.norm(p))
        upper = min(best.upper, f.value(y) + level * float(np.linalg.norm(w - y)))
        slope = p * min(1.0, level / length * (1 - 1e-15)) if length > 0 else p
        lower = _plane_value(f, w, weights, slope, domain)
        best = Plane(lower, upper, slope) if lower > best.lower else Plane(best.lower, upper, best.slope)
        if best.upper - best.lower <= tolerance:
            break
        short, long = (step, long) if length > level else (short, step)
        step = 0.5 * (short + long)
    return Plane(min(best.lower, best.upper), best.upper, best.slope)


def _plane_value(f: MaxAffine, w: FloatArray, weights: FloatArray, slope: FloatArray, domain: ConvexSet) -> float:
    """Value at w of the plane of these weights and this slope, rounded down."""
    tilt = weights @ f.slopes - slope
    y = domain.linear_minimizer(tilt)
    size = float(np.linalg.norm(tilt)) * domain.radius + float(np.linalg.norm(slope)) * domain.radius
    size += float(weights @ (np.linalg.norm(f.slopes, axis=1) * domain.radius + np.abs(f.offsets)))
    return float(slope @ w) + float(weights @ f.offsets) + float(tilt @ y) - _PLANE_ROUNDING * size


def _affine_proximal(
    f: MaxAffine, w: FloatArray, step: float, domain: ConvexSet, weights: FloatArray, tolerance: float
) -> tuple[FloatArray, FloatArray]:
    """Return ``argmin over W of f(y) + |w - y|^2 / (2 step)`` and the weights of its pieces.

    Accelerated projected ascent on the weights: the dual is concave, of curvature ``step |A|^2``; it stops when the
    pieces in use are the largest ones, up to the tolerance.
    """
    rate = 1 / (step * max(float(np.linalg.norm(f.slopes, 2)) ** 2, 1e-300))
    x, momentum, t, least = weights, weights, 1.0, math.inf
    best, nearest = weights, w
    for _ in range(_ASCENT):
        y = domain.project(w - step * (momentum @ f.slopes))
        values = f.slopes @ y + f.offsets
        gap = float(values.max() - momentum @ values)
        if gap < least:
            best, nearest, least = momentum, y, gap
        if gap <= tolerance:
            break
        new = project_onto_simplex(momentum + rate * (values - values.mean()), 1.0)
        if float((momentum - new) @ (new - x)) > 0:  # restart: the momentum points downhill
            t = 1.0
        t_new = 0.5 + math.sqrt(0.25 + t * t)
        momentum = project_onto_simplex(new + (t - 1) / t_new * (new - x), 1.0)
        x, t = new, t_new
    return nearest, best
