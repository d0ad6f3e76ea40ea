"""Saddle problems from private records: matrix games in four forms, and functions over simplices or polytopes.

The payoff matrix of a game is a mean over records. Duality gaps are for simulations, public data and held-out data
whose owners agreed: the gap on private records is *not* private.

Functions must return gradients row by row, so that they can be clipped row by row. Batch means would not do: a clipped
mean has the sensitivity of the clip level itself, not of the level over the batch size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded, set_fields
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.custom.jax import in_double, require_jax
from dpconvex.problems.minimax import base
from dpconvex.problems.minimax.base import Pair, SimplexPoint, SimplexSaddle, clamped, sums_by


@dataclass(frozen=True)
class _Game(SimplexSaddle):
    """``f(x, y; z) = x^T A_z y`` with entries of at most `bound` in magnitude, to which they are clamped."""

    #: n, dx, dy: records, rows and columns; at least 1, 2 and 2.
    n: int
    dx: int
    dy: int
    bound = 1.0
    second_smoothness = 0.0
    bilinear = True
    drift = 0.0, 0.0  # a player's gradient depends on the other's point only  # pyright: ignore[reportAssignmentType]
    smoothness = forwarded("bound")

    def __post_init__(self) -> None:
        base.check_sizes(self.n, self.dx, self.dy, 2)
        set_fields(self, bound=base.check_bound("bound", self.bound))

    @property
    def spread(self) -> tuple[float, float]:
        return 4 * self.bound, 4 * self.bound  # each coordinate lies in [-bound, bound]

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self.bound, self.bound

    @property
    def value_range(self) -> tuple[float, float]:
        return -self.bound, self.bound


@final_dataclass
class MatrixGame(_Game):
    """Each record is a payoff matrix, dense or sparse: the losses of the row player x.

    Records: an array (n, dx, dy), or a SciPy CSR array or matrix (n, dx * dy) of flattened matrices.
    """

    bound: float = 1.0  #: positive bound of the entries of every payoff matrix, to which entries are clamped
    name: ClassVar[str] = "matrix game"

    def record_size(self, records: Any) -> int:
        return self.dx * self.dy

    def check(self, records: Any) -> None:
        base.check_array("records", records, (self.n, self.dx, self.dy), sparse=(self.n, self.dx * self.dy))

    def _total(self, records: Any, rows: slice) -> Floats:
        return np.asarray(clamped(records[rows], self.bound).sum(0)).reshape(self.dx, self.dy)

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        total = self._total(records, rows)
        return y.combine(total), x.combine(total.T)

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        each = (self._total(records, slice(i, i + 1)) for i in range(*rows.indices(self.n)))
        return np.array([x.combine(y.combine(matrix)) for matrix in each])


@final_dataclass
class RankOneGame(_Game):
    """Each record is a pair of vectors (a, b) with payoff matrix ``a b^T``: bound 1 on every entry of both.

    Records: an array (n, dx + dy), a then b, of any real or integer dtype (int8 saves memory).
    """

    name: ClassVar[str] = "rank-one matrix game"

    def check(self, records: Any) -> None:
        base.check_array("records", records, (self.n, self.dx + self.dy))

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        part = clamped(records[rows], 1.0)
        a, b = part[:, : self.dx], part[:, self.dx :]
        return y.combine(b) @ a, x.combine(a) @ b

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        part = clamped(records[rows], 1.0)
        return x.combine(part[:, : self.dx]) * y.combine(part[:, self.dx :])


@final_dataclass
class PlayLog(_Game):
    """Each record is one observed play: row, column and the row player's loss; all other entries are 0.

    The mean payoff matrix is the true one times the probability of each play, so with uniform plays it is the game
    divided by ``dx dy``. One play moves only two coordinates of a gradient: half the spread of a full matrix.

    Records: an array (n, 3) of row, column, payoff. Rows and columns outside the game count as the first one.
    """

    bound: float = 1.0  #: positive bound of the payoff, to which payoffs are clamped
    name: ClassVar[str] = "play log"

    @property
    def spread(self) -> tuple[float, float]:
        # The difference of two such gradients has at most two entries, each within the bound, or one.
        return 2 * self.bound, 2 * self.bound

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self.bound / 2, self.bound / 2  # one entry differs from 0

    def check(self, records: Any) -> None:
        base.check_array("records", records, (self.n, 3))

    def _plays(self, records: Any, rows: slice) -> tuple[Any, Any, Floats]:
        part = np.nan_to_num(np.asarray(records[rows], dtype=np.float64), nan=-1.0, posinf=-1.0, neginf=-1.0)
        places = ((0, self.dx), (1, self.dy))
        i, j = (np.where((part[:, k] >= 0) & (part[:, k] < d), part[:, k], 0).astype(np.int64) for k, d in places)
        return i, j, clamped(records[rows, 2], self.bound)

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        i, j, loss = self._plays(records, rows)
        return sums_by(i, loss * y.dense()[j], self.dx), sums_by(j, loss * x.dense()[i], self.dy)

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        i, j, loss = self._plays(records, rows)
        return loss * x.dense()[i] * y.dense()[j]


@final_dataclass
class DualityGap:
    """``max_w F(x, w) - min_v F(v, y)`` lies between `lower` and `upper`, up to rounding."""

    lower: float
    upper: float


def duality_gap(
    problem: SimplexSaddle, records: Any, x: Floats, y: Floats, *, steps: int = 200, tolerance: float = 1e-4
) -> DualityGap:
    """Enclose the strong duality gap of (x, y) on the mean of the records. Not private.

    Each side is a concave maximization over a simplex, solved by Frank-Wolfe: a point gives a value from below, its
    gradient an upper bound on all others. Where the problem is linear in a block one step is exact.

    Both are probability vectors, x (dx,) and y (dy,); y is ``[1.0]`` for minimization, where the gap is the excess over
    the minimum. Each side takes at most `steps`, and stops when it is known up to the share `tolerance` of the
    problem's value range.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex.problems import MatrixGame
    >>> pennies = np.array([[[1.0, -1.0], [-1.0, 1.0]]])
    >>> duality_gap(MatrixGame(1, 2, 2), pennies, np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    DualityGap(lower=1.0, upper=1.0)
    """
    problem.check(records)
    _validate.integer("steps", steps, at_least=1)
    at_x, at_y = SimplexPoint.full(x), SimplexPoint.full(y)
    low, high = problem.value_range
    wanted = tolerance * (high - low)
    best = _extreme(problem, records, at_x, at_y, 1, steps, wanted)
    least = _extreme(problem, records, at_x, at_y, 0, steps, wanted)
    return DualityGap(best[0] - least[1], best[1] - least[0])


def _extreme(
    problem: SimplexSaddle, records: Any, x: SimplexPoint, y: SimplexPoint, block: int, steps: int, wanted: float
) -> tuple[float, float]:
    """Enclose the maximum over y (block 1) or the minimum over x (block 0), as (least, largest)."""
    sign, everything = (1.0, slice(0, problem.n)) if block else (-1.0, slice(0, problem.n))
    inner, outer = -np.inf, np.inf  # bounds of the maximum of sign * F
    for k in range(steps):
        value = sign * problem.value_sum(records, everything, x, y) / problem.n
        gradient = sign * problem.gradient_sums(records, everything, x, y)[block] / problem.n
        moving = y if block else x
        j = int(np.argmax(gradient))
        inner, outer = max(inner, value), min(outer, value + float(gradient[j] - moving.combine(gradient)))
        if outer - inner <= wanted:
            break
        moved = moving.plus_vertex(j, 2 / (k + 2))
        x, y = (x, moved) if block else (moved, y)
    return (inner, outer) if block else (-outer, -inner)


Gradients = Callable[[Floats, Floats, Array], tuple[Array, Array]]
Values = Callable[[Floats, Floats, Array], Array]


@final_dataclass(eq=False)
class PolytopeSaddle(SimplexSaddle):
    """``f(u, v; z)``, convex in u and concave in v, over two polytopes given by their vertices.

    With ``u = V x`` and ``v = W y``, x and y in simplices, gradients lift to ``V^T grad_u`` and ``W^T grad_v``.
    *Lifted* coordinates are clipped, record by record; non-finite ones become 0. The functions must not raise for any
    content of a record.

    Records: an array (n, ...) of any form that the functions understand.

    Examples
    --------
    A random game with 3 rows and 2 columns:

    >>> import numpy as np
    >>> def gradients(u, v, A):
    ...     return A @ v, np.swapaxes(A, 1, 2) @ u
    >>> def values(u, v, A):
    ...     return A @ v @ u
    >>> game = PolytopeSaddle(
    ...     8, gradients, values, np.eye(3), np.eye(2), (1.0, 1.0), (-1.0, 1.0), 1.0, 0.0, is_bilinear=True
    ... )
    >>> game.dx, game.dy, game.spread
    (3, 2, (4.0, 4.0))
    """

    n: int
    #: ``gradients(u, v, records) -> (grad_u, grad_v)`` of shapes (m, p) and (m, q) for m records; row i a function of
    #: record i alone. For minimization only return ``np.zeros((m, 1))`` second and give ``W = [[0]]``.
    gradients: Gradients
    values: Values  #: ``values(u, v, records) -> (m,)``
    #: V (p, dx), W (q, dy): vertices in columns; identity matrices for simplices.
    V: Floats
    W: Floats
    #: ``(bx, by)``: lifted gradients are clipped to ``[-bx, bx]`` and ``[-by, by]``. Positive.
    bounds: tuple[float, float]
    value_bounds: tuple[float, float]  #: least and largest value, to which values are clipped
    #: l1_smoothness, l2_smoothness: L1 and L2 of the lifted function; they serve accuracy only.
    l1_smoothness: float = math.inf
    l2_smoothness: float = math.inf
    is_bilinear: bool = False  #: whether f is linear in u for fixed v and in v for fixed u
    title: str = "polytope saddle problem"  #: name in plans and certificates
    name: ClassVar[str] = "polytope saddle problem"
    smoothness = forwarded("l1_smoothness")
    second_smoothness = forwarded("l2_smoothness")
    bilinear = forwarded("is_bilinear")
    value_range = forwarded("value_bounds")

    def __post_init__(self) -> None:
        for label in ("V", "W"):
            vertices = np.asarray(getattr(self, label), dtype=np.float64)
            if vertices.ndim != 2 or not np.isfinite(vertices).all():
                raise InvalidParameterError(label, vertices.shape, "must be a finite matrix, vertices in columns")
            object.__setattr__(self, label, vertices)
        base.check_sizes(self.n, self.dx, self.dy)
        for bound in self.bounds:
            base.check_bound("bounds", bound)
        _validate.real("l1_smoothness", min(self.l1_smoothness, 1e300), at_least=0.0)
        _validate.real("l2_smoothness", min(self.l2_smoothness, 1e300), at_least=0.0)
        low, high = self.value_bounds
        _validate.real("value_bounds", high, above=_validate.real("value_bounds", low))

    @property
    def dx(self) -> int:
        return self.V.shape[1]

    @property
    def dy(self) -> int:
        return self.W.shape[1]

    @property
    def spread(self) -> tuple[float, float]:
        return 4 * self.bounds[0], 4 * self.bounds[1] if self.dy > 1 else 0.0

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self.bounds[0], self.bounds[1] if self.dy > 1 else 0.0

    def declared(self) -> "PolytopeSaddle":
        """Return the problem with equal sizes, but without functions and vertices, which plans do not read."""
        V, W = (np.zeros((1, each.shape[1])) for each in (self.V, self.W))
        return replace(self, gradients=no_function, values=no_function, V=V, W=W)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "title": self.title, "bounds": list(self.bounds)}

    def check(self, records: Any) -> None:
        if not isinstance(records, np.ndarray) or records.shape[:1] != (self.n,):
            raise InvalidDataError(f"records must be an array with n={self.n} rows")

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        part = records[rows]
        found = self.gradients(x.combine(self.V), y.combine(self.W), part)
        sums = []
        for grad, vertices, bound in zip(found, (self.V, self.W), self.bounds, strict=True):
            each = np.asarray(grad, dtype=np.float64)
            if each.shape != (len(part), len(vertices)):
                wanted = f"(m, {len(vertices)}), one row a record"
                raise InvalidParameterError("gradients(...).shape", each.shape, f"must be {wanted}", "Do not average")
            sums.append(clamped(np.where(np.isfinite(each), each, 0.0) @ vertices, bound).sum(0))
        return sums[0], sums[1]

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        return np.asarray(self.values(x.combine(self.V), y.combine(self.W), records[rows]), dtype=np.float64)


def no_function(*_: Any) -> NoReturn:
    """Stand for a function where only constants are known."""
    raise AssertionError("declared constants have no function")


def jax_saddle(
    f: Callable[[Any, Any, Any], Any], n: int, V: Floats, W: Floats,
    *, bounds: tuple[float, float], value_bounds: tuple[float, float],
    smoothness: float = math.inf, second_smoothness: float = math.inf, bilinear: bool = False,
) -> PolytopeSaddle:  # fmt: skip
    """Return the problem of one JAX function ``f(u, v, record)``. Needs ``dpconvex[jax]``.

    It is a JAX scalar, convex in u and concave in v. The other arguments are those of `PolytopeSaddle`; `smoothness`,
    `second_smoothness` and `bilinear` are its ``l1_smoothness``, ``l2_smoothness`` and ``is_bilinear``.
    """
    jax = require_jax("jax_saddle")
    compiled = jax.jit(jax.vmap(jax.value_and_grad(f, (0, 1)), (None, None, 0)))

    def gradients(u: Floats, v: Floats, records: Array) -> tuple[Array, Array]:
        gu, gv = in_double(compiled, u, v, records)[1]
        return np.asarray(gu), np.asarray(gv)

    def values(u: Floats, v: Floats, records: Array) -> Array:
        return np.asarray(in_double(compiled, u, v, records)[0])

    constants = (smoothness, second_smoothness, bilinear)
    return PolytopeSaddle(n, gradients, values, V, W, bounds, value_bounds, *constants, "jax saddle problem")
