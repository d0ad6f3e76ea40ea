r"""Lipschitz extensions over a compact set: ``f_C(w) = min over y in W of f(y) + C |w - y|``, to a stated accuracy.

For records with ``f(y) = max of t v over t in [lo, hi]``, ``v = <a, y> + b`` (affine, hinge, absolute, pinball losses).
Bisection on the step s of the proximal point ``y(s) = argmin of f(y) + |w - y|^2 / (2 s)`` (docs, Heavy tails): the
slope ``p = (w - y)/s`` is a subgradient of f plus the normal cone at y, ``|p|`` falls with s, and while ``|p| <= C``

    f_C(u) >= t v(y) + <p, u - y> for all u in W,    f_C(w) <= min(f(w), f(y) + C |w - y|).

Rounding of y by e turns p by e/s, which over the whole set amounts to ``e diam(W) / s``: planes are lowered by that.
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
from dpconvex.losses.base import PiecewiseLinearLoss, quiet
from dpconvex.problems.data.records import Records
from dpconvex.problems.objective import ROUNDING, Objective

_SLOPE_HALVINGS = 100  # slopes may have to be small beside their range
_ROUNDING = 2e-15  # of sums, inner products and projections, relative


class RowProjector(Protocol):
    """A compact set that projects many points at once: `L2Ball`, `Box`, `Ellipsoid`, `Polytope`."""

    @property
    def diameter(self) -> float:
        """Largest l2 distance of two members."""
        ...

    def project(self, w: FloatArray) -> FloatArray:
        """Return the nearest member."""
        ...

    def project_rows(self, points: FloatArray) -> FloatArray:
        """Return the projections of finite points of shape (n, dim)."""
        ...


@final
@dataclass(frozen=True, eq=False)
class Pieces:
    """Functions ``max of t (<a, y> + b) over t in [lower, upper]``, one for each of n records.

    Parameters
    ----------
    slopes : array of shape (n, dim)
        The vectors a; finite.
    offsets : array of shape (n,)
        The numbers b.
    lower, upper : arrays of shape (n,)
        ``lower <= upper``: (1, 1) affine, (0, 1) hinge, (-1, 1) absolute.
    """

    slopes: FloatArray
    offsets: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(cls, loss: PiecewiseLinearLoss, features: FloatArray, targets: FloatArray) -> Pieces:
        """Return the losses of records: features (n, dim), targets (n,) as `clip_targets` returns them."""
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

    Parameters
    ----------
    lower, upper : arrays of shape (n,)
        ``lower <= f_C(w) <= upper``.
    slopes : array of shape (n, dim)
        ``f_C(u) >= lower + <slope, u - w>`` for all u in the set, of norm at most C.
    """

    lower: FloatArray
    upper: FloatArray
    slopes: FloatArray


@quiet
def lipschitz_extension(
    pieces: Pieces, w: FloatArray, level: float, domain: RowProjector, tolerance: float
) -> Extension:
    """Return values and planes of the extensions at a member `w` of the set.

    Parameters
    ----------
    pieces : Pieces
    w : array of shape (dim,)
        Projected onto the set first.
    level : float
        The Lipschitz constant C, positive.
    domain : RowProjector
        The compact set W.
    tolerance : float
        Wanted ``upper - lower``, positive; reached unless rounding forbids it.

    References
    ----------
    Lowy 2026, Lemma 2.2 and Proposition D.6; specification 2.11 for the bisection.
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
    """Proximal points ``y = project(w - s t a)`` (n, dim), slopes t (n,), and ``w - s t a - y`` (n, dim)."""

    y: FloatArray
    t: FloatArray
    beyond: FloatArray


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
    """Constants of an average of Lipschitz extensions.

    Parameters
    ----------
    slope_bound : float
        The level C.
    """

    slope_bound: float
    curvature_bound: float = math.inf


@final
@dataclass(frozen=True, eq=False)
class ExtensionRisk(Objective):
    r"""``J(w) = mean_i f_{C,i}(w) + l2/2 |w - centre|^2`` over a compact set, evaluated to a stated accuracy.

    Its computed values are lower bounds, off by about `tolerance`, as `value_rounding` says; its gradients are exact
    slopes of lower planes. So every certificate for objectives holds for it. Defined on the set only.

    Parameters
    ----------
    loss : PiecewiseLinearLoss
    records : Records
    targets : array of shape (n,)
    l2 : float
        Positive.
    level : float
        The Lipschitz constant C.
    domain : RowProjector
        The set W; solve with it as the constraint.
    tolerance : float
        Wanted accuracy of values, positive.
    centre : array of shape (dim,), optional
        Of the ridge; 0 if None.
    """

    loss: PiecewiseLinearLoss
    records: Records
    targets: AnyArray
    l2: float
    level: float
    domain: RowProjector
    tolerance: float
    centre: FloatArray | None = None

    def __post_init__(self) -> None:
        _validate.real("l2", self.l2, above=0.0)
        _validate.real("level", self.level, above=0.0)
        _validate.real("tolerance", self.tolerance, above=0.0)
        if self.loss.n_outputs > 1:
            raise InvalidParameterError("loss", self.loss.name, "must have one prediction per record")
        if np.shape(self.targets) != (self.records.n,):
            shape = np.shape(self.targets)
            raise InvalidDataError(f"targets have shape {shape}; the records need ({self.records.n},)")
        object.__setattr__(self, "targets", self.loss.clip_targets(np.asarray(self.targets)))

    @cached_property
    def pieces(self) -> Pieces:
        """The records' losses; features as a dense copy, for this is a reference method."""
        return Pieces.of(self.loss, self.records.rows(slice(None)), self.targets)

    @property
    def bounds(self) -> ExtensionBounds:
        """The level; not smooth."""
        return ExtensionBounds(self.level)

    @property
    def dim(self) -> int:
        """Length of a parameter vector."""
        return self.records.dim

    @property
    def strong_convexity(self) -> float:
        """The ridge weight."""
        return self.l2

    @property
    def smoothness(self) -> float:
        """Infinite."""
        return math.inf

    @property
    def minimiser_norm(self) -> float:
        """``|centre| + C / l2``."""
        return (self._centre_norm + self.level / self.l2) * (1 + 1e-12)

    @property
    def initial_gap(self) -> float:
        """``(C + l2 |centre|)^2 / (2 l2)``."""
        return (self.level + self.l2 * self._centre_norm) ** 2 / (2 * self.l2) * (1 + 1e-12)

    def lipschitz_within(self, radius: float) -> float:
        """``C + l2 (radius + |centre|)``."""
        return (self.level + self.l2 * (radius + self._centre_norm)) * (1 + 1e-12)

    def value(self, w: FloatArray) -> float:
        """Return a lower bound of ``J(w)``, below it by at most `value_rounding`."""
        return self.value_and_gradient(w)[0]

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return the slope of a lower plane at `w`, shape (dim,)."""
        return self.value_and_gradient(w)[1]

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return a lower bound of ``J(w)`` and the slope of its plane."""
        found = self._extension(w)
        away = w if self.centre is None else w - self.centre
        value = float(found.lower.mean()) + self.l2 / 2 * float(away @ away)
        return value, found.slopes.mean(0) + self.l2 * away

    def gradient_rounding(self, w: FloatArray) -> float:
        """Return the slack charged for rounding in a computed gradient at `w` (l2 norm)."""
        return ROUNDING * self.lipschitz_within(float(np.linalg.norm(w)))

    def value_rounding(self, value: float, w: FloatArray) -> float:
        """Return how far the bounds of the extensions are apart at `w`, and the slack charged for rounding."""
        reach = float(np.linalg.norm(w)) + self._centre_norm
        found = self._extension(w)
        return float((found.upper - found.lower).mean()) + ROUNDING * (
            abs(value) + (self.level + self.l2 * reach) * reach
        )

    @property
    def _centre_norm(self) -> float:
        return 0.0 if self.centre is None else float(np.linalg.norm(self.centre))

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
