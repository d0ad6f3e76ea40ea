r"""Linear models with weights in an l1 ball: the largest loss over groups, or with one group the mean loss.

``min over ||w||_1 <= R, max over y of (1/n) sum_i y_{g_i} c_{g_i} loss(<w, a_i>, b_i)`` with public factors c. The ball
is the simplex over its ``2 p`` vertices: ``w = R (x_+ - x_-)`` with lifted gradient ``R (g, -g)``. With
``c_g = 1/(share of group g)`` the maximum is over the groups' mean losses; with ``c_g = 1`` groups count by their mass.
With one group, ``dy = 1``: plain optimization over the ball.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from dpconvex import _validate
from dpconvex._types import Array, Floats, attributes, final_dataclass
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LinearModelLoss
from dpconvex.problems.data import _loops, summation
from dpconvex.problems.data.sources.rows import EncodedRows
from dpconvex.problems.minimax import base


@final_dataclass
class WorstGroupLoss(base.SimplexSaddle):
    r"""Largest over groups of the (weighted) loss of a linear model over an l1 ball.

    Records: a tuple ``(X, targets, groups)`` of arrays (n, n_features), (n,), (n,); `X` may be a SciPy CSR array or
    matrix. Features are clamped to `feature_bound`, targets by the loss; a group outside ``0..dy-1`` counts as 0.

    Constants: predictions are within ``P = R feature_bound``. With A the largest slope there, one record's lifted
    gradient is within ``P A c_max``, its loss within ``[0, loss_bound] c_max``. Slopes and losses are clipped to these
    bounds.
    """

    #: With one output and finite values, e.g. ``LogisticLoss()`` or ``SquaredLoss(b, prediction_bound=P)``.
    loss: LinearModelLoss
    #: n, n_features: records and columns; one more column of constants with `intercept`.
    n: int
    n_features: int
    radius: float  #: radius R of the l1 ball, which includes the intercept's weight
    feature_bound: float = 1.0  #: largest magnitude of a feature, from public knowledge
    factors: tuple[float, ...] = (1.0,)  #: positive, public factors ``c_g``, one for each group
    intercept: bool = False  #: whether a last feature, constantly `feature_bound`, is added
    #: Largest third derivative of the loss in the prediction: 0 for squared, ``1/(6 sqrt(3))`` for logistic loss. It
    #: only serves the choice of constants; infinite if unknown.
    third_derivative: float = math.inf
    name: ClassVar[str] = "worst group over an l1 ball"

    def __post_init__(self) -> None:
        _validate.records("n", self.n)
        _validate.integer("n_features", self.n_features, at_least=1)
        base.check_bound("radius", self.radius)
        base.check_bound("feature_bound", self.feature_bound)
        if not self.factors:
            raise InvalidParameterError("factors", self.factors, "must have one entry a group, at least one")
        for factor in self.factors:
            base.check_bound("factors", factor)
        if self.loss.n_outputs != 1:
            raise InvalidParameterError("loss", self.loss, "must have one output")
        if not math.isfinite(self.slope * self.loss_bound):
            raise InvalidParameterError("loss", self.loss, "must have finite values and slopes", "Give its bounds")

    @property
    def dim(self) -> int:
        """Length p of a weight vector, the intercept last."""
        return self.n_features + self.intercept

    @property
    def dx(self) -> int:
        """Number ``2 p`` of vertices of the ball."""
        return 2 * self.dim

    @property
    def dy(self) -> int:
        return len(self.factors)

    @property
    def reach(self) -> float:
        return self.radius * self.feature_bound

    @cached_property
    def _corners(self) -> tuple[Floats, Floats]:
        """Extreme predictions with extreme targets, at which slopes and losses are largest."""
        targets = np.unique(self.loss.clip_targets(np.array([-1e300, 0.0, 1e300])))
        return np.repeat([-self.reach, self.reach], len(targets)), np.tile(targets, 2)

    @cached_property
    def slope(self) -> float:
        """Largest slope of the loss, to which slopes are clipped."""
        with np.errstate(all="ignore"):
            return min(self.loss.slope_bound, float(np.abs(self.loss.derivative(*self._corners)).max()))

    @cached_property
    def loss_bound(self) -> float:
        """Largest loss, to which losses are clipped."""
        with np.errstate(all="ignore"):
            return float(self.loss.value(*self._corners).max())

    @cached_property
    def _largest(self) -> float:
        return max(self.factors)

    @cached_property
    def _mean_factor(self) -> float:
        """Largest factor times its group's share: 1 if factors are inverse shares, ``c_max`` at most."""
        return min(self._largest, max(1.0, 1 / sum(1 / factor for factor in self.factors)))

    @property
    def spread(self) -> tuple[float, float]:
        # One record's lifted gradient is within P A c_max, its loss within [0, loss_bound] c_max.
        x = 4 * self.reach * self.slope * self._largest
        return x, 2 * self.loss_bound * self._largest if self.dy > 1 else 0.0

    @property
    def drift(self) -> tuple[float, float]:
        # A prediction moves by P times the move, the (clipped) slope by the curvature times that; y's is linear.
        return 4 * self.reach**2 * self.loss.curvature_bound * self._largest, 0.0

    @property
    def lipschitz(self) -> tuple[float, float]:
        # P A and loss_bound/2, times the largest product of a factor and its group's share (1 if inverse).
        x = self.reach * self.slope * self._mean_factor
        return x, self.loss_bound * self._mean_factor / 2 if self.dy > 1 else 0.0

    @cached_property
    def smoothness(self) -> float:
        """``max(P^2 curvature, P A)``, of a group's loss and of its share, times the largest factor times share."""
        of_loss = self.reach**2 * self.loss.curvature_bound
        return self._mean_factor * max(of_loss, self.reach * self.slope if self.dy > 1 else 0.0)

    @cached_property
    def second_smoothness(self) -> float:
        """``P^3`` times the third derivative, times the same factor; with groups at least ``P^2 curvature``."""
        third = self._mean_factor * self.reach**3 * self.third_derivative
        return max(third, self._mean_factor * self.reach**2 * self.loss.curvature_bound) if self.dy > 1 else third

    @property
    def value_range(self) -> tuple[float, float]:
        return 0.0, self.loss_bound * self._largest

    @property
    def constant_excess(self) -> float:
        return self.loss.trivial * self._mean_factor  # of weights 0: every group's loss is at most the trivial one

    def record_size(self, records: Any) -> int:
        return 1 if issparse(records[0]) else self.dim

    def describe(self) -> Mapping[str, Any]:
        facts = {**super().describe(), "loss": self.loss.name}
        return {**facts, **attributes(self, "radius", "feature_bound", "intercept"), "factors": list(self.factors)}

    def count(self, records: Any) -> int:
        return len(records[1])

    def of_portion(self, X: Array, y: Array) -> tuple[Array, Array, Array]:
        """Return records; the columns of `y` are targets and groups."""
        return X, y[:, 0], y[:, 1]

    def check(self, records: Any) -> None:
        if isinstance(records, EncodedRows):
            if records.shape != (self.n, self.n_features):
                raise InvalidDataError(f"X has shape {records.shape}; {(self.n, self.n_features)} is needed")
            return
        if not isinstance(records, tuple) or len(records) != 3:
            raise InvalidDataError("records must be a tuple (X, targets, groups)")
        X, targets, groups = records
        base.check_array("X", X, (self.n, self.n_features), sparse=(self.n, self.n_features))
        base.check_array("targets", targets, (self.n,))
        base.check_array("groups", groups, (self.n,))

    def point(self, x: Floats) -> Floats:
        """Return the weights (p,) that a point (2 p,) of the simplex stands for."""
        return self.radius * (x[: self.dim] - x[self.dim :])

    def _predictions(self, X: Any, x: base.SimplexPoint) -> Floats:
        w = self.point(x.dense())
        constant = self.feature_bound * w[-1] if self.intercept else 0.0
        if issparse(X):
            return X @ w[: self.n_features] + constant
        z = np.empty((len(X), 1))
        _loops.predictions(X, w[None, : self.n_features], z)
        return z[:, 0] + constant

    def _targets(self, records: Any, rows: slice) -> tuple[Floats, Any, Floats]:
        groups = np.nan_to_num(np.asarray(records[2][rows], dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        g = np.where((groups >= 0) & (groups < self.dy), groups, 0.0).astype(np.int64)
        return self.loss.clip_targets(records[1][rows]), g, np.array(self.factors)[g]

    def _losses(self, z: Floats, targets: Floats) -> Floats:
        return np.clip(np.nan_to_num(self.loss.value(z, targets)), 0.0, self.loss_bound)

    def _gradients(self, records: Any, rows: slice, x: base.SimplexPoint, y: base.SimplexPoint) -> base.Pair:
        X = base.clamped(records[0][rows], self.feature_bound)
        targets, g, factors = self._targets(records, rows)
        z = self._predictions(X, x)
        slopes = np.clip(np.nan_to_num(self.loss.derivative(z, targets)), -self.slope, self.slope)
        slopes *= factors * y.dense()[g]
        size = self.slope * self._largest * self.feature_bound
        if issparse(X):  # one rounded sum
            whole = np.asarray(X.T @ slopes)
            gx = np.stack([whole, np.zeros_like(whole), np.zeros_like(whole)])
        else:
            gx = summation.vector_parts(X, slopes, size)
        if self.intercept:
            constant = np.full((len(slopes), 1), self.feature_bound)
            gx = np.concatenate([gx, summation.vector_parts(constant, slopes, size)], axis=1)
        losses = factors * self._losses(z, targets)
        return gx, summation.vector_parts(np.eye(self.dy)[g], losses, self.loss_bound * self._largest)

    def _finished(self, sums: base.Pair) -> base.Pair:
        half = self.radius * summation.vector(sums[0])
        return np.concatenate([half, -half]), summation.vector(sums[1])

    def _values(self, records: Any, rows: slice, x: base.SimplexPoint, y: base.SimplexPoint) -> Floats:
        z = self._predictions(base.clamped(records[0][rows], self.feature_bound), x)
        targets, g, factors = self._targets(records, rows)
        return y.dense()[g] * factors * self._losses(z, targets)


def l1_ball_loss(
    loss: LinearModelLoss, n: int, n_features: int, radius: float,
    *, feature_bound: float = 1.0, intercept: bool = False, third_derivative: float = math.inf,
) -> WorstGroupLoss:  # fmt: skip
    """Return the problem of minimizing the mean loss of a linear model over an l1 ball: one group, ``dy = 1``."""
    return WorstGroupLoss(loss, n, n_features, radius, feature_bound, (1.0,), intercept, third_derivative)


def single_group(X: Any, targets: Array) -> tuple[Any, Array, Array]:
    """Return the records of a problem with one group."""
    return X, targets, np.zeros(len(targets), dtype=np.int8)
