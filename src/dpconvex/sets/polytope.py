"""Polytopes given by inequalities."""

import itertools
import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpconvex import _rounding
from dpconvex._types import Floats, final_dataclass, quiet, set_fields
from dpconvex.errors import InvalidParameterError
from dpconvex.sets.base import ConvexSet

_MOST_CORNERS = 20_000  # most choices of dim inequalities; the vertices are among the solutions of these choices
_INDEPENDENT = 1e-3  #: Smallest singular value of independent normals: rounding is magnified by at most its inverse.
_TIGHT = 1e-15  # a constraint counts as satisfied if it is violated by less than this share of the size
_ROUNDS = 4  # number of times that far points are projected; each time divides the rounding error by 1e12 or more


@final_dataclass
class Polytope(ConvexSet):
    r"""All w with ``normals @ w <= bounds``; the set must be bounded and have interior points.

    Projections are found by a dual active-set method (Goldfarb and Idnani 1983): constraints enter one by one, most
    violated first, and leave when their multiplier would turn negative. This takes finitely many steps; the point is
    then solved afresh from the final active set. Certificate: it solves the optimality conditions for bounds that
    differ by rounding, and bounds that differ by e move a projection by at most 1000 e (see `normals`).

    It is for few inequalities and dimensions, as all vertices are computed: at most 20 000 choices of dim inequalities.
    """

    #: Matrix (m, dim) with rows of any length but 0. Any `dim` rows, scaled to length 1, must be linearly dependent or
    #: have a smallest singular value of at least 0.001. Stored as a tuple of rows.
    normals: ArrayLike
    bounds: ArrayLike  #: right-hand sides of the inequalities, (m,), stored as a tuple

    def __post_init__(self) -> None:
        normals, bounds = np.asarray(self.normals, dtype=np.float64), np.asarray(self.bounds, dtype=np.float64)
        lengths = np.linalg.norm(normals, axis=1) if normals.ndim == 2 and normals.size else np.zeros(1)
        if not (np.isfinite(lengths).all() and lengths.min() > 1e-100):
            raise InvalidParameterError("normals", self.normals, "must be finite, of shape (m, dim), no row zero")
        if bounds.shape != lengths.shape or not np.isfinite(bounds).all():
            raise InvalidParameterError("bounds", self.bounds, f"must be finite, of shape ({len(lengths)},)")
        rows = tuple(map(tuple, normals.tolist()))
        set_fields(self, normals=rows, bounds=tuple(bounds.tolist()), dim=normals.shape[1])
        corners = self._corners
        furthest = float(np.linalg.norm(corners, axis=1).max())
        apart = max(float(np.linalg.norm(corners - corner, axis=1).max()) for corner in corners)
        set_fields(self, radius=_rounding.widen_up(furthest), diameter=_rounding.widen_up(apart))

    @property
    def projection_error(self) -> float:
        """A thousand roundings, because of the smallest singular value (see `normals`)."""
        return 1e-12 * self.radius

    def _holds(self, w: Floats, tolerance: float) -> Any:
        normals, bounds = self._scaled
        return np.all(normals @ w - bounds <= tolerance * self.radius)

    @quiet
    def project(self, w: Floats) -> Floats:
        return self.project_rows(self._finite("w", w)[None])[0]

    @quiet
    def project_rows(self, points: Floats) -> Floats:
        middle = self._corners.mean(axis=0)
        away = points - middle
        factor = 1e15 * self.radius / np.maximum(np.abs(away).max(1, keepdims=True), 1e15 * self.radius)
        points = np.asarray(np.where(factor < 1, middle + away * factor, points), dtype=np.float64)
        for _ in range(_ROUNDS):
            nearer = self._once(points)
            if np.array_equal(nearer, points):
                break
            points = nearer
        return points

    def least_rows(self, g: Floats) -> Floats:
        return (g @ self._corners.T).min(1)

    def linear_minimizer(self, g: Floats) -> Floats:
        g = self._finite("g", g)
        return self._corners[np.argmin(self._corners @ (g / max(float(np.abs(g).max()), 1e-300)))].copy()

    @cached_property
    def _scaled(self) -> tuple[Floats, Floats]:
        """Normals scaled to length 1, and their bounds."""
        normals, bounds = np.array(self.normals, dtype=np.float64), np.array(self.bounds, dtype=np.float64)
        lengths = np.linalg.norm(normals, axis=1)
        return normals / lengths[:, None], bounds / lengths

    @cached_property
    def _corners(self) -> Floats:
        """The vertices, shape (k, dim)."""
        from scipy.optimize import linprog

        normals, bounds = self._scaled
        m, dim = normals.shape
        if math.comb(m, dim) > _MOST_CORNERS:
            raise InvalidParameterError("normals", self.normals, f"must have at most {_MOST_CORNERS} choices of {dim}")
        chosen = np.array(list(itertools.combinations(range(m), dim)), dtype=int).reshape(-1, dim)
        least = np.linalg.svd(normals[chosen], compute_uv=False)[:, -1]
        if np.any((least > 1e-9) & (least < _INDEPENDENT)):
            raise InvalidParameterError("normals", self.normals, "must not be nearly dependent", "Merge some of them")
        chosen = chosen[least >= _INDEPENDENT]
        found = np.linalg.solve(normals[chosen], bounds[chosen][..., None])[..., 0]
        size = float(np.abs(found).max(initial=0.0)) + float(np.abs(bounds).max())
        corners = found[np.all(found @ normals.T <= bounds + 1e-12 * size, axis=1)]
        # The set is bounded if positive weights balance the normals (Stiemke).
        facts = {"A_eq": normals.T, "b_eq": np.zeros(dim), "bounds": (1.0, None), "method": "highs"}
        if len(corners) == 0 or linprog(np.zeros(m), **facts).status != 0:
            raise InvalidParameterError("bounds", self.bounds, "must leave a bounded set with interior points")
        _, first = np.unique(np.round(corners / size, 11), axis=0, return_index=True)
        corners = np.asarray(corners[np.sort(first)], dtype=np.float64)
        if np.max(normals @ corners.mean(0) - bounds) > -1e-6 * size:
            raise InvalidParameterError("bounds", self.bounds, "must leave interior points", "Eliminate the equations")
        return corners

    def _once(self, points: Floats) -> Floats:
        """Run the active-set method once on all points side by side; each point has its own active set."""
        normals, bounds = self._scaled
        m = len(bounds)
        x, multipliers, active = points.copy(), np.zeros((len(points), m)), np.zeros((len(points), m), dtype=bool)
        entering = np.full(len(points), -1)
        tight = _TIGHT * (self.radius + np.abs(points).max(1))
        for _ in range(20 * (m + 1)):
            violated = np.where(active, -np.inf, x @ normals.T - bounds)
            entered = np.flatnonzero((entering >= 0) & (violated[np.arange(len(x)), entering] <= tight))
            active[entered, entering[entered]] = True
            entering[entered] = -1
            entering = np.where(entering < 0, violated.argmax(1), entering)
            rows = np.flatnonzero(violated[np.arange(len(x)), entering] > tight)
            if len(rows) == 0:
                break
            p, on = entering[rows], active[rows]
            inverse = np.linalg.pinv(normals * on[:, :, None])  # (k, dim, m), zero in inactive columns
            share = np.einsum("kdm,kd->km", inverse, normals[p])
            step = normals[p] - share @ normals
            square = np.einsum("kd,kd->k", step, step)
            independent = square > (0.1 * _INDEPENDENT) ** 2
            full = np.where(independent, violated[rows, p] / np.where(independent, square, 1.0), np.inf)
            falls = on & (share > 1e-12)
            partial = np.where(falls, multipliers[rows] / np.where(falls, share, 1.0), np.inf)
            leaving, t = partial.argmin(1), np.minimum(full, partial.min(1))
            t = np.where(np.isfinite(t), t, 0.0)
            x[rows] -= np.where(independent, t, 0.0)[:, None] * step
            multipliers[rows] = np.maximum(multipliers[rows] - t[:, None] * share, 0.0)
            multipliers[rows, p] += t
            enters = full <= t
            active[rows[enters], p[enters]] = True
            entering[rows[enters]] = -1
            leaves = rows[~enters], leaving[~enters]
            active[leaves], multipliers[leaves] = False, 0.0
            entering[violated.max(1) <= tight] = -1
        changed = np.flatnonzero(active.any(1))
        x[changed] = points[changed]
        inverse = np.linalg.pinv(normals * active[changed][:, :, None])
        for _ in range(2):  # the second time starts nearby, so rounding is of the size of the set
            excess = np.where(active[changed], x[changed] @ normals.T - bounds, 0.0)
            x[changed] -= np.einsum("kdm,km->kd", inverse, excess)
        return x
