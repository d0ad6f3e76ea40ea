r"""Lipschitz extensions of custom losses over a ball: ``f_C(w) = min over |y| <= R of f(y) + C |w - y|``.

Lemma
    (8.3 of the specification, any convex f.) Points ``y_t`` of the ball, subgradients ``g_t`` of f there, ``p_t = C
    (w - y_t) / |w - y_t|`` and weights ``theta >= 0`` of sum 1, with bars for weighted means, give a plane

        f_C(u) >= hbar + <pbar, u> - R |gbar - pbar|  for all u in the ball,   |pbar| <= C,

    where ``h_t = f(y_t) - <g_t, y_t>``: f is above its mean tangent, C |u - y| above ``<pbar, u - y>``. Valid for any
    weights and points: only the bracket depends on how they were found, here by the ellipsoid method with an accuracy
    certificate (Nemirovski, Onn and Rothblum 2010; docs, Heavy tails), in a public number of steps.
Sensitivity
    ``f_C`` is a function of one record, convex and C-Lipschitz. Which points were visited leaves no trace in it.
"""

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.errors import AccuracyError
from dpconvex.problems.base import ROUNDING, UP, StatedBounds
from dpconvex.problems.custom.functions import RecordLoss
from dpconvex.problems.data.records import Records
from dpconvex.problems.linear.lipschitz_extension import Extension, PlanesRisk

Pairs = Callable[[Array, Floats], tuple[Floats, Floats]]
"""From indices of functions (k,) and a point for each (k, dim) to values (k,) and subgradients (k, dim)."""
BROKEN = "the function broke a claim (finite, convex, no steeper than declared); nothing was released"
_TOGETHER = 2**21  # most floats of the cuts of all functions that are treated at a time


@final_dataclass
class Extender:
    """The oracle for convex functions of slope at most `slope` in the ball of `radius`: extensions of slope `level`."""

    level: float  #: C, the Lipschitz constant of the extensions
    slope: float  #: A, the largest slope of the functions in the ball
    radius: float  #: R, the radius of the ball
    tolerance: float  #: B, the largest ``upper - lower``; at least twice `rounding`

    @property
    def rounding(self) -> float:
        """Slack for rounding in values and planes, if values are 0 at 0 and computed to 13 digits of A R."""
        return ROUNDING * 4 * (self.slope + self.level) * self.radius

    def steps_for(self, dim: int) -> int:
        """Return how many evaluations close the bracket by `ellipsoid`, for every convex function of that slope."""
        wide = 8 * (self.slope + self.level) * self.radius / (self.tolerance - self.rounding)
        return math.ceil(2 * dim * (dim + 1) * math.log(max(wide, 2.0)) * (1 + 1e-12)) + 1

    def planes(self, f: Pairs, w: Floats) -> Extension:
        """Return planes at the points `w` (m, dim), one for each of m functions.

        Raises `AccuracyError` where values or subgradients refute what is claimed of the functions.
        """
        m, dim = w.shape
        upper, slopes = self._evaluated(f, np.arange(m), w)
        found = Extension(upper - self.rounding, upper.copy(), slopes.copy())
        steep = np.flatnonzero(np.linalg.norm(slopes, axis=1) > self.level)  # else f_C(w) = f(w), of subgradient g
        size = max(1, _TOGETHER // (self.steps_for(dim) * (dim + 3) ** 2))
        for first in range(0, len(steep), size):
            some = steep[first : first + size]
            found.lower[some], found.upper[some], found.slopes[some] = self.ellipsoid(f, some, w[some], upper[some])
        if not (found.lower <= found.upper).all():
            raise AccuracyError(BROKEN)
        return found

    def ellipsoid(self, f: Pairs, rows: Array, w: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
        """Return lower bounds, upper bounds and slopes by central cuts; `upper` are values at `w`."""
        (k, dim), R, steps = w.shape, self.radius, self.steps_for(w.shape[1])
        x, J = np.zeros((k, dim)), np.broadcast_to(R * np.eye(dim), (k, dim, dim)).copy()  # E = x + J ball
        shrink, grow = 1 - math.sqrt((dim - 1) / (dim + 1)), dim / math.sqrt(max(dim**2 - 1, 1))
        each = ((dim,), (dim, dim), (dim + 1,), (dim,))
        cuts, shapes, tangents, pulls = (np.zeros((steps, k, *shape)) for shape in each)
        inside = np.zeros((steps, k), dtype=bool)
        for t in range(steps):
            inside[t] = here = np.linalg.norm(x, axis=1) <= R
            cuts[t], shapes[t] = x, J  # outside: the center of the ball is on the other side
            values, g = self._evaluated(f, rows[here], x[here])
            away = w[here] - x[here]
            far = np.linalg.norm(away, axis=1)
            pulls[t, here] = p = self.level * (1 - 1e-15) * away / np.maximum(far, 1e-300)[:, None]
            upper[here] = np.minimum(upper[here], values + self.level * far)
            tangents[t, here] = np.column_stack([g, values - np.einsum("ij,ij->i", g, x[here])])
            cuts[t, here] = g - p
            q = np.einsum("kij,ki->kj", J, cuts[t])
            q /= np.maximum(np.linalg.norm(q, axis=1), 1e-300)[:, None]
            step = np.einsum("kij,kj->ki", J, q)
            x = x - step / (dim + 1)
            J = grow * (J - shrink * step[:, :, None] * q[:, None]) if dim > 1 else J / 2
        weights = np.where(inside, self._multipliers(cuts, shapes, J), 0.0)
        flat = inside & ~cuts.any(axis=2)  # a minimizer of phi: its plane alone is exact
        weights = np.where(flat.any(axis=0), flat, weights)
        total = weights.sum(axis=0)
        weights = np.where(total > 0, weights / np.maximum(total, 1e-300), inside / np.maximum(inside.sum(axis=0), 1))
        mean = np.einsum("tk,tkj->kj", weights, tangents)
        slopes = np.einsum("tk,tkj->kj", weights, pulls)
        rest = self.radius * np.linalg.norm(mean[:, :-1] - slopes, axis=1)  # Lemma 8.3, of tangents (g, h)
        return mean[:, -1] + np.einsum("ij,ij->i", slopes, w) - rest - self.rounding, upper, slopes

    def _multipliers(self, cuts: Floats, shapes: Floats, last: Floats) -> Floats:
        """Return the multiples xi (steps, k) of the cuts that prove how narrow the last ellipsoid is."""
        u, _, _ = np.linalg.svd(last)
        v = np.stack([u[:, :, -1], -u[:, :, -1]], axis=1)
        found = np.zeros(cuts.shape[:2])
        for t in range(len(cuts) - 1, -1, -1):
            q = np.einsum("kij,ki->kj", shapes[t], cuts[t])
            share = np.einsum("kij,kai,kj->ka", shapes[t], v, q) / np.maximum((q * q).sum(axis=1), 1e-300)[:, None]
            share = np.maximum(share, 0.0)
            v = v - share[:, :, None] * cuts[t][:, None]
            found[t] = share.sum(axis=1)
        return found

    def _evaluated(self, f: Pairs, rows: Array, points: Floats) -> tuple[Floats, Floats]:
        """Return values and subgradients; raise an error if they refute the claims."""
        if len(rows) == 0:
            return np.zeros(0), np.zeros(points.shape)
        values, gradients = f(rows, points)
        size = (1 + 1e-9) * self.slope
        fine = np.isfinite(values).all() and (np.linalg.norm(gradients, axis=1) <= size).all()
        if not (fine and (np.abs(values) <= size * self.radius).all()):
            raise AccuracyError(BROKEN)
        return values, gradients


@final_dataclass(eq=False)
class ExtendedRisk(PlanesRisk):
    """``J(w) = mean_i [f_i - f_i(0)]_C (w) + l2/2 |w - center|^2`` over a ball; values err by `oracle_error`."""

    function: RecordLoss
    records: Records
    l2: float
    extender: Extender
    center: Floats  #: center of the ridge, in the ball
    anchors = 0.0
    level = forwarded("extender", "level")
    dim = forwarded("function", "dim")

    @cached_property
    def rows(self) -> Floats:
        """A dense copy of the records, since the extension reads some of them repeatedly."""
        rows = self.records.rows(slice(None))
        rows.flags.writeable = False
        return rows

    @cached_property
    def _at_zero(self) -> Floats:
        # Values at 0, a public point, are subtracted: the declared slope then limits rounding.
        return self.function.each(np.broadcast_to(np.zeros(self.dim), (len(self.rows), self.dim)), self.rows)[0]

    @cached_property
    def oracle_error(self) -> float:
        return self.extender.tolerance + self._own_rounding

    @cached_property
    def _own_rounding(self) -> float:
        return own_rounding(self.extender, self.l2)

    @property
    def bounds(self) -> StatedBounds:
        return StatedBounds(self.extender.level)

    @property
    def minimizer_norm(self) -> float:
        return self.extender.radius * UP

    @property
    def initial_gap(self) -> float:
        return 2 * (self.extender.level + self.l2 * self.extender.radius) * self.extender.radius * UP

    def lipschitz_within(self, radius: float) -> float:
        return (self.extender.level + self.l2 * (radius + self.extender.radius)) * UP

    def extension(self, w: Floats) -> Extension:
        return self.planes(w[None])

    def planes(self, points: Floats) -> Extension:
        """Return planes of every record at every point (k, dim): k blocks of n rows."""
        n = len(self.rows)

        def f(indices: Array, at: Floats) -> tuple[Floats, Floats]:
            values, gradients = self.function.each(at, self.rows[indices % n])
            return values - self._at_zero[indices % n], gradients

        return self.extender.planes(f, np.repeat(points, n, axis=0))

    def gradient_rounding(self, w: Floats) -> float:
        return self._own_rounding / self.extender.radius

    def value_rounding(self, value: float, w: Floats) -> float:
        found = self.at(w)
        return float((found.upper - found.lower).mean()) + self._own_rounding


def own_rounding(extender: Extender, l2: float) -> float:
    """Return the rounding slack of the mean and of the ridge, for every data set."""
    return extender.rounding + 16 * ROUNDING * l2 * extender.radius**2
