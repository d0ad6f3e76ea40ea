"""Objectives of linear models: an aggregate of the losses (their average, or a log-sum-exp), a ridge, a linear term."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LinearModelLoss, SmoothLoss
from dpconvex.losses.base import quiet
from dpconvex.problems.data import _threads
from dpconvex.problems.data.factor import Factor
from dpconvex.problems.data.records import Records, RowBlock
from dpconvex.problems.objective import ROUNDING, UP, Objective, inner_product_rounding


@dataclass(frozen=True, eq=False)
class LinearModelObjective(Objective):
    r"""``J(w) = A(w) + l2/2 |w|^2 + <linear, w>``, where A aggregates the losses of all records.

    Every aggregation here has gradient ``sum_i v_i grad loss_i`` with weights ``v_i >= 0`` of sum at most 1. So it is
    convex, keeps the Lipschitz constant of one record's loss, and stays below the largest loss.

    Parameters are flat: `w` of length ``dim = loss.n_outputs * records.dim`` is `W` of shape (n_outputs, records.dim),
    row after row. All sums are float64; the rounding slacks are those of the docs, Solver certificates, Rounding. They
    cover rounding that behaves like independent errors, with a wide margin, but not the worst case over all orders of
    summation.
    """

    loss: LinearModelLoss
    records: Records
    targets: AnyArray  #: (n,), moved into the loss's declared targets, whatever they hold
    l2: float  #: ridge weight, at least 0: the strong convexity constant
    linear: FloatArray | None = None  #: (dim,): coefficients of a linear term (objective perturbation)
    #: New coordinates: `w` is then (n_outputs, factor.rank), and the model is ``F w``.
    factor: Factor | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _validate.real("l2", self.l2, at_least=0.0)
        if np.shape(self.targets) != (self.records.n,):
            shape = np.shape(self.targets)
            raise InvalidDataError(f"targets have shape {shape}; the records need ({self.records.n},)")
        object.__setattr__(self, "targets", self.loss.clip_targets(np.asarray(self.targets)))
        if self.linear is not None and self.linear.shape != (self.dim,):
            raise InvalidDataError(f"linear has shape {self.linear.shape}; the parameters need ({self.dim},)")

    @abstractmethod
    def _weights(self, w: FloatArray) -> tuple[FloatArray | None, float]:
        """Return the records' weights at `w` (n,), None if all are 1, and their sum."""

    @property
    def bounds(self) -> LinearModelLoss:
        return self.loss

    @property
    def dim(self) -> int:
        return self.loss.n_outputs * self._columns

    @property
    def _columns(self) -> int:
        """Parameters of one output."""
        return self.records.dim if self.factor is None else self.factor.rank

    @property
    def _length(self) -> float:
        """Largest length of a record, in the coordinates of the parameters."""
        return self.records.domain.l2 if self.factor is None else self.factor.l2

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant (l2) of the data part, for every data set of the domain; may be infinite."""
        return self.loss.slope_bound * self._length * UP

    @property
    def minimiser_norm(self) -> float:
        """``(L + |linear|) / l2``: where the gradient can vanish."""
        return (self.lipschitz + self.linear_norm) / self.l2

    def lipschitz_within(self, radius: float) -> float:
        slope = self._slope_at(radius) * self._length
        return (slope + self.linear_norm + self.l2 * radius) * UP

    @property
    def smoothness(self) -> float:
        # Weights that move with w add tilt L^2, the largest covariance of gradients times the tilt.
        tilting = self.tilt * self.lipschitz**2 if self.tilt else 0.0
        return (self.loss.curvature_bound * self._length**2 + tilting + self.l2) * UP

    @property
    def initial_gap(self) -> float:
        # The smaller of sup loss(0) + |linear|^2 / (2 l2) (losses are at least 0) and |grad J(0)|^2 / (2 l2).
        linear = self.linear_norm
        slope = self._slope_at(0.0) * self._length + linear
        return min(self.loss.value_at_zero + linear**2 / (2 * self.l2), slope**2 / (2 * self.l2)) * UP

    @property
    def linear_norm(self) -> float:
        return 0.0 if self.linear is None else float(np.linalg.norm(self.linear)) * UP

    def gradient(self, w: FloatArray) -> FloatArray:
        return self._gradient(self._slope(w, *self._weights(w)), w)

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the Hessian, shape (dim, dim); the loss must be smooth."""
        W, (weights, total) = self._matrix(w), self._weights(w)
        curvature = self._curvature(weights)

        def work(index: int) -> FloatArray:
            rows, panel = self.records.panel(index)
            return _weighted_gram(panel, curvature(panel @ W.T, rows))

        hessian = self._pull_back_twice(_threads.total(self.records.n_panels, work) / total)
        if self.tilt:
            slope = self._slope(w, weights, total)
            hessian -= self.tilt * np.outer(slope, slope)
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    def hessian_product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        W, V, (weights, total) = self._matrix(w), self._matrix(v), self._weights(w)
        curvature = self._curvature(weights)
        step = self.records.n if self.loss.n_outputs == 1 else 4096  # (m, k, k) weights stay small

        def work(block: RowBlock) -> FloatArray:
            z, dz, first = block.predict(W), block.predict(V), block.rows.start
            parts = [slice(i, min(i + step, len(z))) for i in range(0, len(z), step)]
            weighted = [
                _apply(curvature(z[part], slice(first + part.start, first + part.stop)), dz[part]) for part in parts
            ]
            return block.adjoint(np.concatenate(weighted)).ravel()

        product = self._pull_back(self._total(work)) / total + self.l2 * v
        if self.tilt:
            slope = self._slope(w, weights, total)
            product -= self.tilt * float(slope @ v) * slope
        return product

    def subset(self, stride: int) -> Self:
        """Return the objective of every `stride`-th record (a fixed choice: no data decide it)."""
        return replace(self, records=self.records.subset(stride), targets=self.targets[::stride])

    def gradient_rounding(self, w: FloatArray) -> float:
        # The sum of n terms no longer than the slope allows, and what the error of a prediction moves one of them by.
        norm = float(np.linalg.norm(w))
        slope = self._slope_at(norm) * self._length
        growth = self.l2 if math.isinf(self.loss.curvature_bound) else self.smoothness
        # Weights exp(tilt loss): an error of the loss, at most ROUNDING times its size, times the tilt.
        tilting = 2 * self.tilt * slope * (self.loss.value_at_zero + slope * norm) if self.tilt else 0.0
        moved = inner_product_rounding(self.records.dim + (self._columns if self.factor else 0)) * growth * norm
        return ROUNDING * (slope + self.linear_norm + tilting) + moved

    def value_rounding(self, value: float, w: FloatArray) -> float:
        norm = float(np.linalg.norm(w))
        slope = self._slope_at(norm) * self._length
        largest = self.loss.value_at_zero if self.tilt else 0.0  # the aggregate may lie far below the largest loss
        return ROUNDING * (abs(value) + largest + (slope + 2 * self.linear_norm + self.l2 * norm) * norm)

    def _slope_at(self, norm: float) -> float:
        """Largest |slope| of the loss at predictions of parameters of that norm.

        A nonnegative function of curvature c has slope at most ``sqrt(2 c value)``; from there it grows by c.
        """
        c, value = self.loss.curvature_bound, self.loss.value_at_zero
        if math.isinf(c):
            return self.loss.slope_bound
        return min(self.loss.slope_bound, math.sqrt(2 * c * value) + c * self._length * norm)

    def _curvature(self, weights: FloatArray | None) -> Callable[[FloatArray, slice], FloatArray]:
        """Return ``weight (phi'' + tilt phi' phi'^T)`` of some records, a function of their predictions and rows."""
        loss = self.loss
        if not isinstance(loss, SmoothLoss):
            raise InvalidParameterError("loss", loss, "must be smooth to have a Hessian")

        def curvature(z: FloatArray, rows: slice) -> FloatArray:
            y = self.targets[rows]
            out = loss.hessian_weights(z, y)
            if self.tilt:
                slope = loss.derivative(z, y)
                out = out + self.tilt * (slope**2 if slope.ndim == 1 else slope[:, :, None] * slope[:, None, :])
            return times(weights, rows, out)

        return curvature

    def _slope(self, w: FloatArray, weights: FloatArray | None, total: float) -> FloatArray:
        """Gradient of the data part, shape (dim,)."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            slopes = self.loss.derivative(block.predict(W), self.targets[block.rows])
            return block.adjoint(times(weights, block.rows, slopes)).ravel()

        return self._pull_back(self._total(work)) / total

    def _total(self, work: Callable[[RowBlock], FloatArray]) -> FloatArray:
        return _threads.total(self.records.n_blocks, lambda index: work(self.records.block(index)))

    def _matrix(self, w: FloatArray) -> FloatArray:
        """`w` as the operand of `Records.predict`: (d,) for one output, else (k, d)."""
        W = w if self.loss.n_outputs == 1 else w.reshape(self.loss.n_outputs, -1)
        return W if self.factor is None else self.factor.parameters(W)

    def _pull_back(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient in `w` of a function whose gradient in the model, flat, is given."""
        if self.factor is None:
            return gradient
        return self.factor.gradient(gradient.reshape(self.loss.n_outputs, -1)).ravel()

    def _pull_back_twice(self, hessian: FloatArray) -> FloatArray:
        """As `_pull_back` for a Hessian in the model, (k d, k d)."""
        if self.factor is None:
            return hessian
        k, d = self.loss.n_outputs, self.records.dim
        blocks = [
            [self.factor.curvature(block) for block in row.transpose(1, 0, 2)] for row in hessian.reshape(k, d, k, d)
        ]
        return np.block(blocks)

    def _value(self, aggregate: float, w: FloatArray) -> float:
        linear = 0.0 if self.linear is None else float(self.linear @ w)
        return aggregate + self.l2 / 2 * float(w @ w) + linear

    def _gradient(self, slope: FloatArray, w: FloatArray) -> FloatArray:
        g = slope + self.l2 * w
        return g if self.linear is None else g + self.linear


def times(weights: FloatArray | None, rows: slice, values: FloatArray) -> FloatArray:
    """Return `values` (m, ...) of some records, each times the record's weight (None: 1)."""
    return values if weights is None else weights[rows].reshape(-1, *[1] * (values.ndim - 1)) * values


def _apply(weights: FloatArray, dz: FloatArray) -> FloatArray:
    return weights * dz if dz.ndim == 1 else np.einsum("nab,nb->na", weights, dz)


def _weighted_gram(panel: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum over records of weight (m,) or (m, k, k), Kronecker x x^T; changes `panel`."""
    if weights.ndim == 1:
        panel *= np.sqrt(weights)[:, None]
        return panel.T @ panel
    k, d = weights.shape[1], panel.shape[1]
    out = np.empty((k, d, k, d))
    for a in range(k):
        for b in range(a + 1):
            out[a, :, b] = (panel * weights[:, a, b, None]).T @ panel
            out[b, :, a] = out[a, :, b].T
    return out.reshape(k * d, k * d)


@final
@dataclass(frozen=True, eq=False)
class RegularizedRisk(LinearModelObjective):
    r"""``J(w) = sum_i v_i loss(W x_i, y_i) + l2/2 |w|^2 + <linear, w>``, the mean loss unless weights are given."""

    #: (n,): at least 0, of sum at most 1; None: ``1/n`` each. So every bound of an average of losses holds.
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and self.weights.shape != (self.records.n,):
            raise InvalidDataError(f"weights have shape {self.weights.shape}; the records need ({self.records.n},)")

    @property
    def weighted(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.weights is not None

    def value(self, w: FloatArray) -> float:
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            losses = self.loss.value(block.predict(W), self.targets[block.rows])
            return np.array([times(self.weights, block.rows, losses).sum()])

        return self._value(float(self._total(work)[0]) / self._divisor, w)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            z, y = block.predict(W), self.targets[block.rows]
            slopes, losses = (times(self.weights, block.rows, f(z, y)) for f in (self.loss.derivative, self.loss.value))
            return np.append(block.adjoint(slopes), losses.sum())

        total = self._total(work) / self._divisor
        return self._value(float(total[-1]), w), self._gradient(self._pull_back(total[:-1]), w)

    def subset(self, stride: int) -> RegularizedRisk:
        """Return the objective of every `stride`-th record; their weights grow by that factor."""
        weights = None if self.weights is None else self.weights[::stride] * stride
        records, targets = self.records.subset(stride), self.targets[::stride]
        return replace(self, records=records, targets=targets, weights=weights)

    def _weights(self, w: FloatArray) -> tuple[FloatArray | None, float]:
        return self.weights, self._divisor

    @property
    def _divisor(self) -> float:
        return float(self.records.n) if self.weights is None else 1.0


NO_TILT = "The losses would not stay convex below 0, and 0 is the average"


@final
@dataclass(frozen=True, eq=False)
class TiltedRisk(LinearModelObjective):
    r"""``J(w) = 1/tilt log(mean_i exp(tilt loss(W x_i, y_i))) + l2/2 |w|^2 + <linear, w>``.

    As the tilt goes to 0 this becomes the average, as it grows the largest loss. Gradient ``sum_i v_i grad loss_i``
    with ``v = softmax(tilt losses)``, Hessian ``sum_i v_i hess loss_i + tilt Cov_v(grad loss_i)``. The ridge stands
    outside the logarithm; inside, it would change nothing.

    The loss must have bounded targets. Losses and weights are vectors of length n; a gradient reads the data twice
    (losses first). The largest loss is taken out of the exponentials, and ``log1p`` of a mean of ``expm1`` keeps the
    relative accuracy at small tilts.

    Source: Li, Beirami, Sanjabi and Smith 2020, "Tilted empirical risk minimization"; Lowy and Razaviyayn, Section 5
    (docs, Output perturbation).
    """

    tilt: float = 1.0  #: positive, in the inverse unit of the loss

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.real("tilt", self.tilt, above=0.0, remedy=NO_TILT)
        if math.isinf(self.loss.value_at_zero):
            raise InvalidParameterError("loss", self.loss, "must have bounded targets", "Give it a target_bound")

    def value(self, w: FloatArray) -> float:
        return self._value(self._aggregate(self._losses(w)), w)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        losses = self._losses(w)
        weights = self._exponentials(losses)
        slope = self._slope(w, weights, float(weights.sum()))
        return self._value(self._aggregate(losses), w), self._gradient(slope, w)

    def _weights(self, w: FloatArray) -> tuple[FloatArray | None, float]:
        weights = self._exponentials(self._losses(w))
        return weights, float(weights.sum())

    def _losses(self, w: FloatArray) -> FloatArray:
        W, out = self._matrix(w), np.empty(self.records.n)

        def work(block: RowBlock) -> FloatArray:
            out[block.rows] = self.loss.value(block.predict(W), self.targets[block.rows])
            return np.zeros(1)

        self._total(work)
        return out

    @quiet
    def _exponentials(self, losses: FloatArray) -> FloatArray:
        """``exp(tilt (loss - largest loss))``, in (0, 1] up to underflow."""
        return np.exp(self.tilt * (losses - losses.max()))

    @quiet
    def _aggregate(self, losses: FloatArray) -> float:
        top = float(losses.max())
        exponents = self.tilt * (losses - top)
        mean = float(np.exp(exponents).mean())
        log_mean = math.log(mean) if mean < 0.5 else math.log1p(float(np.expm1(exponents).mean()))
        return top + log_mean / self.tilt
