"""Matrix games whose payoff matrix is a mean over private records, in four forms, and duality gaps.

Gaps are for simulations, public data and held-out data whose owners agreed: the gap on private records is *not*
private.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, forwarded
from dpconvex.problems.minimax.base import (
    Pair,
    SimplexPoint,
    SimplexSaddle,
    check_array,
    check_bound,
    check_sizes,
    clamped,
    sums_by,
)


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
    drift = 0.0, 0.0  # a player's gradient depends on the other's point only  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    smoothness = forwarded("bound")

    def __post_init__(self) -> None:
        check_sizes(self.n, self.dx, self.dy, 2)
        check_bound("bound", self.bound)

    @property
    def spread(self) -> tuple[float, float]:
        return 4 * self.bound, 4 * self.bound  # each coordinate lies in [-bound, bound]

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self.bound, self.bound

    @property
    def value_range(self) -> tuple[float, float]:
        return -self.bound, self.bound


@final
@dataclass(frozen=True)
class MatrixGame(_Game):
    """Each record is a payoff matrix, dense or sparse: what the row player x loses.

    Records: an array (n, dx, dy), or a SciPy CSR array or matrix (n, dx * dy) of flattened matrices.
    """

    bound: float = 1.0  #: of the entries of every payoff matrix, positive: entries are clamped to it
    name: ClassVar[str] = "matrix game"

    def record_size(self, records: Any) -> int:
        return self.dx * self.dy

    def check(self, records: Any) -> None:
        check_array("records", records, (self.n, self.dx, self.dy), sparse=(self.n, self.dx * self.dy))

    def _total(self, records: Any, rows: slice) -> Floats:
        return np.asarray(clamped(records[rows], self.bound).sum(0)).reshape(self.dx, self.dy)

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        total = self._total(records, rows)
        return y.combine(total), x.combine(total.T)

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        each = (self._total(records, slice(i, i + 1)) for i in range(*rows.indices(self.n)))
        return np.array([x.combine(y.combine(matrix)) for matrix in each])


@final
@dataclass(frozen=True)
class RankOneGame(_Game):
    """Each record is a pair of vectors (a, b) with payoff matrix ``a b^T``: bound 1 on every entry of both.

    Records: an array (n, dx + dy), a then b, of any real or integer dtype (int8 saves memory).
    """

    name: ClassVar[str] = "rank-one matrix game"

    def check(self, records: Any) -> None:
        check_array("records", records, (self.n, self.dx + self.dy))

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        part = clamped(records[rows], 1.0)
        a, b = part[:, : self.dx], part[:, self.dx :]
        return y.combine(b) @ a, x.combine(a) @ b

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        part = clamped(records[rows], 1.0)
        return x.combine(part[:, : self.dx]) * y.combine(part[:, self.dx :])


@final
@dataclass(frozen=True)
class PlayLog(_Game):
    """Each record is one observed play: row, column and what the row player lost there; other entries are 0.

    The mean payoff matrix is the true one times the chance of each play, so with plays drawn uniformly it is the game
    divided by ``dx dy``. One play moves two coordinates of a gradient only: half the spread of a full matrix.

    Records: an array (n, 3) of row, column, payoff. Rows and columns outside the game count as the first one.
    """

    bound: float = 1.0  #: of the payoff, to which it is clamped
    name: ClassVar[str] = "play log"

    @property
    def spread(self) -> tuple[float, float]:
        # The difference of two such gradients has at most two entries, each within the bound, or one.
        return 2 * self.bound, 2 * self.bound

    @property
    def lipschitz(self) -> tuple[float, float]:
        return self.bound / 2, self.bound / 2  # one entry differs from 0

    def check(self, records: Any) -> None:
        check_array("records", records, (self.n, 3))

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


@final
@dataclass(frozen=True)
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
    inner, outer = -np.inf, np.inf  # of the maximum of sign * F
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
