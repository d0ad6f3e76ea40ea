r"""Lipschitz extensions over a compact set: ``f_C(w) = min over y in W of f(y) + C |w - y|``, to a stated accuracy.

For records with ``f(y) = max of t v over t in [lo, hi]``, ``v = <a, y> + b`` (affine, hinge, absolute, pinball losses).
Bisection on the step s of the proximal point ``y(s) = argmin of f(y) + |w - y|^2 / (2 s)`` (docs, Heavy tails): the
slope ``p = (w - y)/s`` is a subgradient of f plus the normal cone at y, ``|p|`` falls with s, and while ``|p| <= C``

    f_C(u) >= t v(y) + <p, u - y> for all u in W,    f_C(w) <= min(f(w), f(y) + C |w - y|).

Rounding of y by e turns p by e/s, which over the whole set amounts to ``e diam(W) / s``: planes are lowered by that.

For a maximum of affine functions (Proposition D.6) the paper's oracle is a second-order cone program and takes its
answer from the dual. Here any weights theta of the pieces, ``theta >= 0`` with sum 1, and any p of length at most C
give a plane that needs a linear minimizer of W only, and is valid however theta and p were found:

    f_C(u) >= <p, u> + <theta, b> + min over y in W of <A^T theta - p, y>    for all u in W.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.losses.base import quiet
from dpconvex.problems.data.records import Records
from dpconvex.problems.linear.truncated import CenteredRisk
from dpconvex.problems.objective import ROUNDING
from dpconvex.sets import ConvexSet
from dpconvex.sets.simplex import project_onto_simplex

_SLOPE_HALVINGS = 100  # slopes may have to be small beside their range
_ROUNDING = 2e-15  # of sums, inner products and projections, relative
_PLANE_ROUNDING = 1e-14  # of a plane with weights, relative
_ASCENT = 5000  # steps on the weights for one proximal point of a maximum of affine functions


class RowProjector(Protocol):
    """A compact set that projects many points at once: `L2Ball`, `Box`, `Ellipsoid`, `Polytope`."""

    @property
    def diameter(self) -> float: ...

    def project(self, w: FloatArray) -> FloatArray: ...

    def project_rows(self, points: FloatArray) -> FloatArray:
        """Return the projections of finite points of shape (n, dim)."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Pieces:
    """Functions ``max of t (<a, y> + b) over t in [lower, upper]``, one for each of n records.

    ``slopes`` are the vectors a (n, dim), ``offsets`` the numbers b (n,), all finite; the ends of t (n,) are (1, 1) for
    an affine function, (0, 1) for a hinge, (-1, 1) for an absolute value.
    """

    slopes: FloatArray
    offsets: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, loss: PiecewiseLinearLoss, features: FloatArray, targets: FloatArray) -> Pieces:
        """Return the losses of records; targets as `clip_targets` returns them."""
        return cls(features, -targets, *loss.slope_interval(targets))

    @property
    def norms(self) -> FloatArray:
        """Largest slope norms A, shape (n,)."""
        return np.linalg.norm(self.slopes, axis=1) * np.maximum(-self.lower, self.upper)

    def values(self, points: FloatArray) -> FloatArray:
        """Return the functions at points of shape (n, dim), or at one of shape (dim,)."""
        v = _inner(self.slopes, points) + self.offsets
        return np.maximum(self.lower * v, self.upper * v)

    def take(self, rows: NDArray[np.intp]) -> Pieces:
        """Return some of the functions."""
        return Pieces(self.slopes[rows], self.offsets[rows], self.lower[rows], self.upper[rows])


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


@quiet
def lipschitz_extension(
    pieces: Pieces, w: FloatArray, level: float, domain: RowProjector, tolerance: float
) -> Extension:
    """Return values and planes of the extensions of Lipschitz constant `level` at `w`, projected onto the set first.

    ``upper - lower`` is at most the tolerance unless rounding forbids it (Lowy 2026, Lemma 2.2 and Proposition D.6).
    """
    _validate.real("level", level, above=0.0)
    _validate.real("tolerance", tolerance, above=0.0)
    w = domain.project(w)
    n, reach = len(pieces.offsets), domain.diameter
    halvings = max(1, math.ceil(2 * math.log2(max(2.0, level * reach / (2 * tolerance)))))
    at_w = pieces.values(w)
    short, long = np.zeros(n), np.full(n, reach / level)
    best = _bracket(pieces, w, _proximal(pieces, w, long, domain), long, at_w, level, reach)
    for _ in range(halvings):
        open_rows = np.flatnonzero(best.upper - best.lower > tolerance)
        if len(open_rows) == 0:
            break
        some, s = pieces.take(open_rows), 0.5 * (short[open_rows] + long[open_rows])
        new = _bracket(some, w, _proximal(some, w, s, domain), s, at_w[open_rows], level, reach)
        flat = np.linalg.norm(new.slopes, axis=1) <= level
        short[open_rows[~flat]], long[open_rows[flat]] = s[~flat], s[flat]
        higher = flat & (new.lower > best.lower[open_rows])
        best.slopes[open_rows[higher]] = new.slopes[higher]
        best.lower[open_rows[higher]] = new.lower[higher]
        best.upper[open_rows[flat]] = np.minimum(best.upper[open_rows[flat]], new.upper[flat])
    return best


@final
@dataclass(frozen=True, eq=False)
class _Proximal:
    y: FloatArray  #: proximal points project(w - s t a), (n, dim)
    t: FloatArray  #: slopes, (n,)
    beyond: FloatArray  #: w - s t a - y, (n, dim)


def _bracket(
    pieces: Pieces, w: FloatArray, near: _Proximal, s: FloatArray, at_w: FloatArray, level: float, reach: float
) -> Extension:
    """Bounds and planes from proximal points of steps s, rounding against ourselves."""
    y, t, beyond = near.y, near.t, near.beyond
    slopes = t[:, None] * pieces.slopes + beyond / s[:, None]  # (w - y) / s, but exact where nothing was projected
    v = _inner(pieces.slopes, y) + pieces.offsets
    length, size = np.linalg.norm(pieces.slopes, axis=1), float(np.linalg.norm(w)) + reach
    product = length * size + np.abs(v)  # what rounds in v
    turned = np.where(beyond.any(axis=1), (size + np.linalg.norm(beyond, axis=1)) / s, 0.0)
    low_slack = _ROUNDING * (np.abs(t) * product + reach * (level + turned))
    upper = np.minimum(at_w, pieces.values(y) + level * np.linalg.norm(w - y, axis=1))
    upper = upper + _ROUNDING * (np.maximum(-pieces.lower, pieces.upper) * product + np.abs(upper))
    lower = t * v + _inner(slopes, w - y)  # not psi(v): a bisected t leaves v off 0, and t v is a bound all the same
    return Extension(np.minimum(lower - low_slack, upper), upper, slopes)


def _proximal(pieces: Pieces, w: FloatArray, s: FloatArray, domain: RowProjector) -> _Proximal:
    """Return the proximal points; t is optimal for v(y)."""

    def at(t: FloatArray, some: Pieces, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        point = w - (s * t)[:, None] * some.slopes
        return point, domain.project_rows(point)

    def v(t: FloatArray, some: Pieces, s: FloatArray) -> FloatArray:
        return _inner(some.slopes, at(t, some, s)[1]) + some.offsets

    v_high, v_low = v(pieces.upper, pieces, s), v(pieces.lower, pieces, s)
    t = np.where(v_high >= 0, pieces.upper, pieces.lower)  # v falls with t
    between = np.flatnonzero((v_high < 0) & (v_low > 0))
    if len(between):
        some, low, high = pieces.take(between), pieces.lower[between], pieces.upper[between]
        for _ in range(_SLOPE_HALVINGS):
            middle = 0.5 * (low + high)
            positive = v(middle, some, s[between]) > 0
            low, high = np.where(positive, middle, low), np.where(positive, high, middle)
        t[between] = high
    point, y = at(t, pieces, s)
    return _Proximal(y, t, point - y)


def _inner(a: FloatArray, b: FloatArray) -> FloatArray:
    return a @ b if b.ndim == 1 else np.einsum("ij,ij->i", a, b)


@final
@dataclass(frozen=True)
class ExtensionBounds:
    """Constants of an average of Lipschitz extensions: the level C, and no smoothness."""

    slope_bound: float
    curvature_bound: float = math.inf


@final
@dataclass(frozen=True, eq=False)
class ExtensionRisk(CenteredRisk):
    r"""``J(w) = mean_i f_{C,i}(w) + l2/2 |w - centre|^2`` over a compact set, evaluated to a stated accuracy.

    Its computed values are lower bounds, off by about `tolerance`, as `value_rounding` says; its gradients are exact
    slopes of lower planes. So every certificate for objectives holds for it. Defined on the set `domain` only, which
    has to be the constraint; `level` is the C.
    """

    loss: PiecewiseLinearLoss  # pyright: ignore[reportIncompatibleVariableOverride]
    records: Records  # pyright: ignore[reportIncompatibleVariableOverride]
    targets: AnyArray  # pyright: ignore[reportIncompatibleVariableOverride]
    l2: float
    level: float
    domain: RowProjector
    tolerance: float
    centre: FloatArray | None = None

    def __post_init__(self) -> None:
        _validate.real("level", self.level, above=0.0)
        _validate.real("tolerance", self.tolerance, above=0.0)
        if self.loss.n_outputs > 1:
            raise InvalidParameterError("loss", self.loss.name, "must have one prediction per record")
        super().__post_init__()

    @cached_property
    def pieces(self) -> Pieces:
        """The records' losses; features as a dense copy, for this is a reference method."""
        return Pieces.of(self.loss, self.records.rows(slice(None)), self.targets)

    @property
    def bounds(self) -> ExtensionBounds:
        return ExtensionBounds(self.level)

    @property
    def smoothness(self) -> float:
        return math.inf

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return a lower bound of ``J(w)``, below it by at most `value_rounding`, and the slope of its plane."""
        found = self._extension(w)
        return float(found.lower.mean()) + self._ridge(w), found.slopes.mean(0) + self.l2 * (w - self._centre)

    def gradient_rounding(self, w: FloatArray) -> float:
        return ROUNDING * self.lipschitz_within(float(np.linalg.norm(w)))

    def value_rounding(self, value: float, w: FloatArray) -> float:
        """Return how far the bounds of the extensions are apart at `w`, and the slack charged for rounding."""
        found = self._extension(w)
        return float((found.upper - found.lower).mean()) + super().value_rounding(value, w)

    @cached_property
    def _last(self) -> dict[bytes, Extension]:
        """The extensions at the last point asked for: a value and its slack are needed together."""
        return {}

    def _extension(self, w: FloatArray) -> Extension:
        key = w.tobytes()
        if key not in self._last:
            self._last.clear()
            self._last[key] = lipschitz_extension(self.pieces, w, self.level, self.domain, self.tolerance)
        return self._last[key]


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
