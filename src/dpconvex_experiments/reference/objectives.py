"""What only experiments and tests ask for: a density, the largest loss, a shifted mean, and a quadratic game."""

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import softmax

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass, forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.problems import Block, ConvexFunction, DataDomain, RecordLoss, Records, SaddleLoss, WholeObjective
from dpconvex.problems.base import UP
from dpconvex.problems.custom.functions import of_shape, row_blocks
from dpconvex.problems.minimax.base import Pair, SimplexPoint, SimplexSaddle, check_array, check_sizes, clamped


@final_dataclass(eq=False)
class LogLinearDensity(RecordLoss):
    r"""Negative log-likelihood of a density ``p_w(x) ~ exp(<w, T(x)>)`` of one number on a public grid.

    ``f(w, x) = log sum_j exp(<w, T(g_j)>) - <w, T(x)> - log m`` with grid points ``g_j``, j = 1..m, of the interval
    ``[-1, 1]`` and T the first `terms` cosines ``cos(pi k (x + 1) / 2) / sqrt(terms)``. The gradient is the mean of T
    under p_w less ``T(x)``, the Hessian the covariance of T under p_w. ``|T| <= 1``, so slopes are at most 2, and
    curvature at most 1, for the covariance of vectors of a unit ball has no larger eigenvalue.
    """

    terms: int  #: number of parameters
    points: int = 200  #: Number m of grid points. Records, numbers in ``[-1, 1]``, are moved to the nearest.
    name = "log-linear density"
    domain = DataDomain.box(1, 1.0)
    smoothness = 1 + 1e-12
    dim = forwarded("terms")

    def __post_init__(self) -> None:
        _validate.integer("terms", self.terms, at_least=1)
        _validate.integer("points", self.points, at_least=2)
        if self.terms >= self.points:
            raise InvalidParameterError("terms", self.terms, f"must be below points={self.points}")

    @cached_property
    def _grid(self) -> Floats:
        return np.linspace(-1.0, 1.0, self.points)

    @cached_property
    def _statistics(self) -> Floats:
        angles = np.pi * np.outer(self._grid + 1, np.arange(1, self.terms + 1)) / 2
        return np.cos(angles) / math.sqrt(self.terms)

    @property
    def value_at_zero(self) -> float:
        """``log m``: no grid point is more probable than 1."""
        return _rounding.widen_up(math.log(self.points))

    def lipschitz(self, radius: float) -> float:
        """Return 2, the largest distance of two statistics."""
        return 2 * (1 + 1e-12)

    def contrast(self, radius: float) -> float:
        """Return 2 as well: gradients differ by the records' statistics only."""
        return 2 * (1 + 1e-12)

    def density(self, w: Floats) -> tuple[Floats, Floats]:
        """Return the grid (m,) and the probabilities of its points (m,) under parameters `w` (terms,)."""
        return self._grid, softmax(self._statistics @ w)

    def value(self, w: Floats, records: Floats) -> Floats:
        log_weights = self._statistics @ w
        return float(np.logaddexp.reduce(log_weights)) - math.log(self.points) - log_weights[self._nearest(records)]

    def gradient(self, w: Floats, records: Floats) -> Floats:
        return softmax(self._statistics @ w) @ self._statistics - self._statistics[self._nearest(records)]

    def sums(self, w: Floats, records: Floats) -> tuple[float, Floats]:
        """Return the sums over records, from their counts on the grid."""
        counts = np.bincount(self._nearest(records), minlength=self.points)
        log_weights = self._statistics @ w
        excess = float(np.logaddexp.reduce(log_weights)) - math.log(self.points)
        gradient = len(records) * (softmax(log_weights) @ self._statistics) - counts @ self._statistics
        return len(records) * excess - float(counts @ log_weights), gradient

    def _nearest(self, records: Floats) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.rint((records[:, 0] + 1) / 2 * (self.points - 1)).astype(np.intp)


@final_dataclass
class MaxRisk(WholeObjective):
    """The largest loss, ``F(w, X) = max_i f(w, x_i)``: the worst-served record counts.

    Not smooth, and of unknown value at 0: the largest loss changes from record to record.
    """

    loss: RecordLoss  #: its Lipschitz constant is that of the maximum
    domain = forwarded("loss", "domain")
    dim = forwarded("loss", "dim")

    @property
    def name(self) -> str:
        return f"max of {self.loss.name}"

    def lipschitz(self, radius: float) -> float:
        """Return the loss's constant: a maximum of L-Lipschitz functions is L-Lipschitz."""
        return self.loss.lipschitz(radius)

    def contrast(self, radius: float) -> float:
        """Return the loss's: a changed record may be the largest in one data set only."""
        return self.loss.contrast(radius)

    def value_and_gradient(self, w: Floats, records: Floats) -> tuple[float, Floats]:
        losses = of_shape("value", self.loss.value(w, records), (len(records),))
        worst = int(np.argmax(losses))
        gradient = self.loss.gradient(w, records[worst : worst + 1])
        return float(losses[worst]), of_shape("gradient", gradient, (1, self.dim))[0]

    def total(self, w: Floats, records: Records) -> tuple[float, Floats]:
        return max((self.value_and_gradient(w, rows) for rows in row_blocks(records)), key=lambda found: found[0])


@final_dataclass
class ShiftedMeanLoss(SaddleLoss):
    """``h(w, v, x) = |w - x|^2 / 2 + <w, v> - concavity/2 |v|^2``: a mean whose gain an adversary pulls down.

    For l2 attacks of length s and concavity 0 the worst case is ``|w - x|^2 / 2 + s |w|``: the minimizer is the mean of
    the records, shortened by s. With a concavity c the norm becomes Huber's, and G is smooth.
    """

    domain: DataDomain  #: domain of the records, which are points
    bound: float  #: largest length s of an attack, or largest entry where `norm` is ``"linf"``
    concavity: float = 0.0  #: at least 0
    norm: str = "l2"  #: norm in which attacks are bounded
    name = "shifted mean"
    parameter_smoothness = 1.0
    cross_smoothness = 1.0
    dim = forwarded("domain", "n_features")
    attack_smoothness = forwarded("concavity")
    attack_concavity = forwarded("concavity")

    def __post_init__(self) -> None:
        _validate.real("bound", self.bound, above=0.0)
        _validate.real("concavity", self.concavity, at_least=0.0)
        if self.norm not in ("l2", "linf"):
            raise InvalidParameterError("norm", self.norm, "must be 'l2' or 'linf'")

    @cached_property
    def attack(self) -> Block:
        return Block(self.dim, "l2" if self.norm == "l2" else "linf", self.bound)

    def lipschitz(self, radius: float) -> float:
        return (radius + self.domain.l2 + self.attack.l2) * UP

    def contrast(self, radius: float) -> float:
        """Return ``2 X``: the worst attack is the same for all records."""
        return 2 * self.domain.l2 * UP

    def attack_lipschitz(self, radius: float) -> float:
        return (radius + self.concavity * self.attack.l2) * UP

    def value(self, w: Floats, v: Floats, records: Floats) -> Floats:
        return np.square(w - records).sum(1) / 2 + v @ w - self.concavity / 2 * np.square(v).sum(1)

    def gradient(self, w: Floats, v: Floats, records: Floats) -> Floats:
        return w - records + v

    def attack_gradient(self, w: Floats, v: Floats, records: Floats) -> Floats:
        return w - self.concavity * v


@final_dataclass
class QuadraticGame(SimplexSaddle):
    """``(q^T x)^2/2 + (a^T x)(b^T y) - (r^T y)^2/2`` with vectors in ``[-1, 1]``: affine gradients.

    Records: an array (n, 2 dx + 2 dy) of q, a, b, r; entries are clamped.
    """

    #: n, dx, dy: records and vertices; at least 1, 2 and 2.
    n: int
    dx: int
    dy: int
    name: ClassVar[str] = "quadratic game"
    smoothness = 1.0
    second_smoothness = 0.0
    spread = 8.0, 8.0  # each coordinate is the sum of two of magnitude 1  # pyright: ignore[reportAssignmentType]
    drift = 4.0, 4.0  # q (q^T dx) has coordinates within the l1 norm of dx  # pyright: ignore[reportAssignmentType]
    lipschitz = 2.0, 2.0  # pyright: ignore[reportAssignmentType]
    value_range = -1.5, 1.5  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        check_sizes(self.n, self.dx, self.dy, 2)

    def record_size(self, records: Any) -> int:
        return 2 * (self.dx + self.dy)

    def check(self, records: Any) -> None:
        check_array("records", records, (self.n, 2 * (self.dx + self.dy)))

    def _vectors(self, records: Any, rows: slice) -> list[Floats]:
        return np.split(clamped(records[rows], 1.0), np.cumsum([self.dx, self.dx, self.dy]), axis=1)

    def _gradients(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Pair:
        q, a, b, r = self._vectors(records, rows)
        return x.combine(q) @ q + y.combine(b) @ a, x.combine(a) @ b - y.combine(r) @ r

    def _values(self, records: Any, rows: slice, x: SimplexPoint, y: SimplexPoint) -> Floats:
        q, a, b, r = self._vectors(records, rows)
        return x.combine(q) ** 2 / 2 + x.combine(a) * y.combine(b) - y.combine(r) ** 2 / 2


CONVEX_FUNCTIONS: tuple[type[ConvexFunction], ...] = (LogLinearDensity, MaxRisk, ShiftedMeanLoss)
"""The classes of this file that are functions of parameters."""
