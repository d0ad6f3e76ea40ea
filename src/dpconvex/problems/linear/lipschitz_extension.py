r"""Lipschitz extensions over a compact set: ``f_C(w) = min over y in W of f(y) + C |w - y|``, to a stated accuracy.

For records of a linear model, ``f(y) = phi(<a, y>)`` with convex phi, smooth or with one kink. Any slope t and number c
with ``phi(x) >= t x + c`` and any p of length at most C give a plane (docs, Heavy tails, Lemma 6; Lowy 2026, Lemma 2.2)

    f_C(u) >= <p, u> + c + min over y in W of <t a - p, y>    for all u in W,

which is valid however t and p were found: at the proximal point ``y(s) = argmin of f(y) + |w - y|^2 / (2 s)``, where
``p = (w - y)/s`` and t is the slope of phi, for the s where ``|p| = C``. ``f_C(w) <= min(f(w), f(y) + C |w - y|)``
closes the bracket; the normal's direction is the set's own (`ConvexSet.outward`). A maximum of affine functions
(Proposition D.6) has weights of its pieces in place of t: two here, more in `reference.extensions` of the experiments.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import BoolArray, Floats, Positions, final_dataclass
from dpconvex.losses import LinearModelLoss
from dpconvex.losses.base import quiet
from dpconvex.problems.base import UP, Objective, inner_product_rounding
from dpconvex.sets import ConvexSet

_SLOPE_HALVINGS = 100  # bisection steps for slopes, which may be tiny compared with their range
_VALUE_ROUNDING = 2.0**-50  # relative rounding of a computed loss


@final_dataclass(eq=False)
class Pieces:
    """Functions ``max of t (<a, y> + b) over t in [lower, upper]``, one for each of n records."""

    slopes: Floats  #: the vectors a (n, dim), finite
    offsets: Floats  #: the numbers b (n,), finite
    lower: Floats  #: with `upper`: (1, 1) for an affine function, (0, 1) for a hinge, (-1, 1) for an absolute value
    upper: Floats

    def values(self, points: Floats) -> Floats:
        """Return the functions at points of shape (n, dim), or at one of shape (dim,)."""
        v = _inner(self.slopes, points) + self.offsets
        return np.maximum(self.lower * v, self.upper * v)

    def ends(self, radius: float) -> tuple[Floats, Floats]:
        """Return the least and the largest slope, (n,) each, over the ball of that radius."""
        return self.lower, self.upper

    def derivatives(self, z: Floats) -> Floats:
        """Return a slope of phi at predictions z (n,)."""
        return np.where(z + self.offsets > 0, self.upper, self.lower)

    def excess(self, z: Floats, t: Floats) -> Floats:
        """Return a continuous function of z and `t`, positive where the slope at z is above `t`, decreasing in both."""
        return z + self.offsets

    def constants(self, z: Floats) -> Floats:
        """Return numbers c with ``phi(x) >= slope x + c``, equal at z, for the slopes of `derivatives`."""
        return self.derivatives(z) * self.offsets

    def take(self, rows: Positions) -> "Pieces":
        """Return some of the functions."""
        return Pieces(self.slopes[rows], self.offsets[rows], self.lower[rows], self.upper[rows])


@final_dataclass(eq=False)
class Curves:
    """A smooth loss at the predictions of n records ``slopes`` (n, dim)."""

    loss: LinearModelLoss
    slopes: Floats
    targets: Floats

    def values(self, points: Floats) -> Floats:
        """As for `Pieces`."""
        return self.loss.value(_inner(self.slopes, points), self.targets)

    def ends(self, radius: float) -> tuple[Floats, Floats]:
        """As for `Pieces`."""
        reach = radius * np.linalg.norm(self.slopes, axis=1) * UP
        return self.loss.derivative(-reach, self.targets), self.loss.derivative(reach, self.targets)

    def derivatives(self, z: Floats) -> Floats:
        """As for `Pieces`."""
        return self.loss.derivative(z, self.targets)

    def excess(self, z: Floats, t: Floats) -> Floats:
        """As for `Pieces`."""
        return self.derivatives(z) - t

    def constants(self, z: Floats) -> Floats:
        """As for `Pieces`."""
        return self.loss.value(z, self.targets) - self.derivatives(z) * z

    def take(self, rows: Positions) -> "Curves":
        """Return some of the functions."""
        return Curves(self.loss, self.slopes[rows], self.targets[rows])


Profiles = Pieces | Curves  #: Functions ``phi_i(<a_i, y>)`` of n records; `slopes` are the vectors a, shape (n, dim).


@final_dataclass(eq=False)
class Extension:
    """Values and planes of the Lipschitz extensions of n functions at one point."""

    lower: Floats  #: (n,), lower bounds of ``f_C(w)``, with ``f_C(u) >= lower + <slope, u - w>`` for all u in the set
    upper: Floats  #: (n,), upper bounds of ``f_C(w)``
    slopes: Floats  #: (n, dim), slopes of norm at most C

    def improve(self, rows: Positions, new: "Extension") -> None:
        """Replace the bounds of some rows, in place, where the new bounds are better."""
        higher = new.lower > self.lower[rows]
        self.slopes[rows[higher]], self.lower[rows[higher]] = new.slopes[higher], new.lower[higher]
        self.upper[rows] = np.minimum(self.upper[rows], new.upper)


class PlanesRisk(Objective):
    """``mean_i f_i(w) + l2/2 |w - center|^2`` less a constant, f_i Lipschitz extensions over a set, by their planes.

    Computed values are lower bounds, below it by at most `value_rounding`; gradients are exact slopes of lower planes.
    """

    everywhere = False
    smoothness = math.inf  # pyright: ignore[reportAssignmentType]
    level: float  #: the Lipschitz constant C
    anchors: Floats | float  #: numbers (n,) whose mean is the subtracted constant
    center: Floats  #: the point around which the ridge term shrinks, (dim,)

    @abstractmethod
    def extension(self, w: Floats) -> Extension:
        """Return values and planes of all f_i at `w`."""

    def at(self, w: Floats) -> Extension:
        """Return the extension at `w`, cached for the last points, as a value and its slack are needed together."""
        if (key := w.tobytes()) not in self._last:
            if len(self._last) > 2:
                del self._last[next(iter(self._last))]
            self._last[key] = self.extension(w)
        return self._last[key]

    @cached_property
    def _last(self) -> dict[bytes, Extension]:
        return {}

    def plane_slope(self, radius: float) -> float:
        return self.level * UP

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        found, away = self.at(w), w - self.center
        value = float((found.lower - self.anchors).mean()) + self.l2 / 2 * float(away @ away)
        return value, found.slopes.mean(0) + self.l2 * away


@quiet
def lipschitz_extension(some: Profiles, w: Floats, level: float, domain: ConvexSet, tolerance: float) -> Extension:
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
    """Brackets of the zeros of decreasing functions: values are positive at ``low``, and not at ``high``."""

    low: Floats
    high: Floats
    at_low: Floats
    at_high: Floats
    rose: BoolArray  #: whether the low end moved last

    def closed(self) -> BoolArray:
        """Whether no float is left between the ends."""
        middle = 0.5 * (self.low + self.high)
        return (middle <= self.low) | (middle >= self.high)

    def guess(self, step: int) -> Floats:
        """Return the next points to try: by the secant; in every third step the middle, which halves the interval."""
        middle, width = 0.5 * (self.low + self.high), self.high - self.low
        if step % 3 == 0:
            return middle
        fall = self.at_low - self.at_high
        secant = self.high + self.at_high / np.where(fall > 0, fall, 1.0) * width
        return np.where((secant > self.low) & (secant < self.high) & np.isfinite(fall), secant, middle)

    def narrow(self, x: Floats, value: Floats) -> None:
        """Narrow the brackets by values at x; an end that stays twice counts half (Illinois), so that both move."""
        up, again = value > 0, (value > 0) == self.rose
        self.low, self.high = np.where(up, x, self.low), np.where(up, self.high, x)
        self.at_low = np.where(up, value, np.where(again, 0.5, 1.0) * self.at_low)
        self.at_high = np.where(up, np.where(again, 0.5, 1.0) * self.at_high, value)
        self.rose = up

    def take(self, rows: Positions) -> "_Root":
        low, high, at_low, at_high = (part[rows] for part in (self.low, self.high, self.at_low, self.at_high))
        return _Root(low, high, at_low, at_high, self.rose[rows])


def bracket_rounding(level: float, steepest: float, value: float, domain: ConvexSet, dim: int) -> float:
    """Return a public bound on what rounding adds to the bracket of records with slopes to `steepest`, `value` at 0.

    It covers inner products over the set, and the rounding of normals; if that is not known, a proximal step s leaves
    ``s C^2/4 + e D/s`` for projections with error e, and the bisection's s is within a factor of 2 of the best.
    """
    R, D, unit = domain.radius, domain.diameter, inner_product_rounding(dim)
    plain = 8 * unit * (steepest + level) * (2 * R + D) + 8 * _VALUE_ROUNDING * value
    if math.isfinite(domain.normal_rounding):
        return plain * domain.normal_rounding
    return plain + 2.5 * level * math.sqrt(1000 * unit * (R + D) * D)


@final_dataclass(eq=False)
class _Proximal:
    y: Floats  #: proximal points project(w - s t a), (n, dim)
    t: Floats  #: slopes, (n,)
    constant: Floats  #: c with ``phi(x) >= t x + c``, nearly equal at y, (n,)
    normal: Floats  #: (w - s t a - y) / s, in the normal cone at y, (n, dim)
    steep: Floats  #: size of what t was computed from, (n,)
    large: Floats  #: size of what c was computed from, (n,)

    def slopes(self, some: Profiles) -> Floats:
        """Return ``p = t a + normal``, which is (w - y) / s."""
        return self.t[:, None] * some.slopes + self.normal


def _bracket(some: Profiles, w: Floats, near: _Proximal, level: float, domain: ConvexSet) -> Extension:
    """Return bounds and planes from any points of the set, slopes and normals (Lemma 6), rounded conservatively."""
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


def _proximal(some: Profiles, w: Floats, s: Floats, domain: ConvexSet, tolerance: float) -> _Proximal:
    """Return proximal points; tangents at the ends of the search average to slope t, within the tolerance of phi."""

    def at(t: Floats, part: Profiles, s: Floats) -> tuple[Floats, Floats, Floats]:
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
        steep[between], large[between] = np.maximum(np.abs(above), np.abs(below))
    return _Proximal(y, slope, constant, domain.outward(y, point - y) / s[:, None], steep, large)


def _lines(some: Profiles, z: Floats) -> Floats:
    """Slopes and constants of tangents, (2, n)."""
    return np.array([some.derivatives(z), some.constants(z)])


def _inner(a: Floats, b: Floats) -> Floats:
    return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)
