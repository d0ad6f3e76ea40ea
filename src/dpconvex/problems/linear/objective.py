"""Objectives of linear models: an aggregate of the losses (their average, or a log-sum-exp), a ridge, a linear term."""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LinearModelLoss, SmoothLoss
from dpconvex.losses.base import quiet
from dpconvex.problems.base import ROUNDING, UP, Objective, inner_product_rounding
from dpconvex.problems.data import summation
from dpconvex.problems.data.factor import Factor
from dpconvex.problems.data.records import Records, RecordSource, RowBlock

_HESSIANS = 4096  # number of records whose Hessians of several outputs are computed at a time


def clipped_targets(loss: LinearModelLoss, records: RecordSource, targets: Array | None) -> Array | None:
    """Return targets (n,) clipped to the range that the loss declares; None if the records hold the targets."""
    if targets is not None and np.shape(targets) != (records.n,):
        raise InvalidDataError(f"targets have shape {np.shape(targets)}; the records need ({records.n},)")
    return None if targets is None else loss.clip_targets(np.asarray(targets))


@dataclass(frozen=True, eq=False)
class LinearModelObjective(Objective):
    r"""``J(w) = A(w) + l2/2 |w|^2 + <linear, w>``, where A aggregates the losses of all records.

    Every aggregation here has gradient ``sum_i v_i grad loss_i`` with weights ``v_i >= 0`` of sum at most 1. So it is
    convex, keeps the Lipschitz constant of one record's loss, and stays below the largest loss.

    Parameters are flat: `w` of length ``dim = loss.n_outputs * records.dim`` is `W` of shape (n_outputs, records.dim),
    row after row. Sums depend on the set of records alone, and the rounding slacks (docs, Solver certificates,
    Rounding) cover the worst case (`data.summation`).
    """

    loss: LinearModelLoss
    records: RecordSource
    #: (n,), clipped into the loss's declared range, whatever they hold; None if the records hold the targets.
    targets: Array | None
    l2: float  #: ridge weight, at least 0: the strong convexity constant
    linear: Floats | None = None  #: (dim,): coefficients of a linear term (objective perturbation)
    #: New coordinates: `w` is then (n_outputs, factor.rank), and the model is ``F w``.
    factor: Factor | None = field(default=None, kw_only=True)
    bounds = forwarded("loss")
    #: Records and targets for solvers that need single records; these run in memory only (`Solver.only_sums`).
    table: ClassVar[Records] = forwarded("records")
    labels: ClassVar[Array] = forwarded("targets")
    mass: ClassVar[float] = 1.0  #: Largest possible sum of the weights

    def __post_init__(self) -> None:
        _validate.real("l2", self.l2, at_least=0.0)
        object.__setattr__(self, "targets", clipped_targets(self.loss, self.records, self.targets))
        if self.linear is not None and self.linear.shape != (self.dim,):
            raise InvalidDataError(f"linear has shape {self.linear.shape}; the parameters need ({self.dim},)")

    @abstractmethod
    def _weights(self, w: Floats) -> "Weights":
        """Return the records' weights at `w`."""

    @property
    def dim(self) -> int:
        return self.loss.n_outputs * self._columns

    @property
    def _columns(self) -> int:
        """Number of parameters of one output."""
        return self.records.dim if self.factor is None else self.factor.rank

    @property
    def _length(self) -> float:
        """Largest length of a record, in the coordinates of the parameters."""
        return self.records.domain.l2 if self.factor is None else self.factor.l2

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant (l2) of the data part, for every data set of the domain; may be infinite."""
        return self.mass * self.loss.slope_bound * self._length * UP

    @property
    def minimizer_norm(self) -> float:
        """Bound on the minimizer's norm: beyond ``(L + |linear|) / l2`` the gradient cannot vanish."""
        return (self.lipschitz + self.linear_norm) / self.l2

    def lipschitz_within(self, radius: float) -> float:
        return (self.mass * self._slope_at(radius) * self._length + self.linear_norm + self.l2 * radius) * UP

    @property
    def smoothness(self) -> float:
        # Weights that move with w add tilt L^2, the largest covariance of gradients times the tilt.
        tilting = self.tilt * self.lipschitz**2 if self.tilt else 0.0
        return (self.mass * self.loss.curvature_bound * self._length**2 + tilting + self.l2) * UP

    @property
    def initial_gap(self) -> float:
        # The smaller of sup loss(0) + |linear|^2 / (2 l2) (losses are at least 0) and |grad J(0)|^2 / (2 l2).
        linear = self.linear_norm
        slope = self.mass * self._slope_at(0.0) * self._length + linear
        return min(self.mass * self.loss.value_at_zero + linear**2 / (2 * self.l2), slope**2 / (2 * self.l2)) * UP

    @property
    def linear_norm(self) -> float:
        return 0.0 if self.linear is None else float(np.linalg.norm(self.linear)) * UP

    def gradient(self, w: Floats) -> Floats:
        return self._gradient(self._slope(w, self._weights(w)), w)

    def hessian(self, w: Floats) -> Floats:
        """Return the Hessian, shape (dim, dim), to about six digits of its largest entry; the loss must be smooth."""
        W, weights, linf = self._matrix(w), self._weights(w), self.records.domain.linf
        most = self._most_curvature(w, weights.largest)

        def work(block: RowBlock) -> summation.Parts:
            z, y = block.predict(W), block.targets_in(self.targets)
            return (_weighted_gram(block, weights.times(block, z, y, self._curvature(z, y)), most, linf),)

        sizes = (math.sqrt(most) * linf, None) if self.loss.n_outputs == 1 else (most * linf, linf)
        columns = self.loss.n_outputs * self.records.dim
        hessian = summation.gram(self.records.total(work)[0], *sizes).reshape(columns, columns)
        hessian = self._pull_back_twice((hessian + hessian.T) / (2 * weights.total))
        if self.tilt:
            slope = self._slope(w, weights)
            hessian -= self.tilt * np.outer(slope, slope)
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    def hessian_product(self, w: Floats, v: Floats) -> Floats:
        W, V, weights = self._matrix(w), self._matrix(v), self._weights(w)
        domain = self.records.domain
        size = self._most_curvature(w, weights.largest) * self._length * float(np.linalg.norm(v)) * domain.linf

        def work(block: RowBlock) -> summation.Parts:
            z, dz, y = block.predict(W), block.predict(V), block.targets_in(self.targets)
            parts = [slice(i, i + _HESSIANS) for i in range(0, len(z), _HESSIANS)]
            curved = [(self._curvature(z[part], y[part]), dz[part]) for part in parts]
            turned = [H * v if v.ndim == 1 else np.einsum("nab,nb->na", H, v) for H, v in curved]
            return (weights.adjoint(block, z, y, np.concatenate(turned), size),)

        total_product = weights.vector(self.records.total(work)[0]).ravel() / weights.total
        product = self._pull_back(total_product) + self.l2 * v
        if self.tilt:
            slope = self._slope(w, weights)
            product -= self.tilt * float(slope @ v) * slope
        return product

    def subset(self, stride: int) -> Self:
        """Return the objective of about every `stride`-th record, weights growing by that factor (`Records.subset`)."""
        records, targets, _ = self.records.subset(stride, self.targets)
        return replace(self, records=records, targets=targets)

    def gradient_rounding(self, w: Floats) -> float:
        # The rounding of a sum of n terms of bounded length, and the change of a term by the error of its prediction.
        norm = float(np.linalg.norm(w))
        slope = self._slope_at(norm) * self._length
        growth = self.l2 if math.isinf(self.loss.curvature_bound) else self.smoothness
        # In weights exp(tilt loss), a loss's error of at most ROUNDING times its size counts times the tilt.
        tilting = 2 * self.tilt * slope * (self.loss.value_at_zero + slope * norm) if self.tilt else 0.0
        moved = inner_product_rounding(self.records.dim + (self._columns if self.factor else 0)) * growth * norm
        grid = 0.0 if self.factor is None else self.factor.summed_rounding * self.records.domain.linf
        rounding = ROUNDING * (self.mass * slope + self.linear_norm + tilting)
        return rounding + moved + grid * self.mass * self._slope_at(norm)

    def value_rounding(self, value: float, w: Floats) -> float:
        norm = float(np.linalg.norm(w))
        slope = self.mass * self._slope_at(norm) * self._length
        largest = self.loss.value_at_zero if self.tilt else 0.0  # the aggregate may lie far below the largest loss
        return ROUNDING * (abs(value) + largest + (slope + 2 * self.linear_norm + self.l2 * norm) * norm)

    def _slope_at(self, norm: float) -> float:
        """Return the largest |slope| of the loss at predictions of parameters of this norm."""
        return self.loss.slope_within(self._length * norm)

    def _curvature(self, z: Floats, y: Floats) -> Floats:
        """Return ``phi'' + tilt phi' phi'^T`` of some records."""
        if not isinstance(self.loss, SmoothLoss):
            raise InvalidParameterError("loss", self.loss, "must be smooth to have a Hessian")
        out = self.loss.hessian_weights(z, y)
        if self.tilt:
            slope = self.loss.derivative(z, y)
            out = out + self.tilt * (slope**2 if slope.ndim == 1 else slope[:, :, None] * slope[:, None, :])
        return out

    def _slope(self, w: Floats, weights: "Weights") -> Floats:
        """Return the gradient of the data part, shape (dim,)."""
        W, size = self._matrix(w), self._size(w, weights.largest)

        def work(block: RowBlock) -> summation.Parts:
            z, y = block.predict(W), block.targets_in(self.targets)
            return (weights.adjoint(block, z, y, self.loss.derivative(z, y), size),)

        return self._pull_back(weights.vector(self.records.total(work)[0]).ravel() / weights.total)

    def _size(self, w: Floats, largest: float) -> float:
        """Return a bound on the product of a record's weight, slope and feature at `w`."""
        return self._slope_at(float(np.linalg.norm(w))) * self.records.domain.linf * largest

    def _most_curvature(self, w: Floats, largest: float) -> float:
        """Return a bound on the entries of `_curvature`, times a weight."""
        slope = self._slope_at(float(np.linalg.norm(w))) if self.tilt else 0.0
        return (self.loss.curvature_bound + self.tilt * slope * slope) * largest

    def _matrix(self, w: Floats) -> Floats:
        """Return `w` as the operand of `Records.predict`: (d,) for one output, otherwise (k, d)."""
        W = w if self.loss.n_outputs == 1 else w.reshape(self.loss.n_outputs, -1)
        return W if self.factor is None else self.factor.parameters(W)

    def _pull_back(self, gradient: Floats) -> Floats:
        """Return the gradient in `w` of a function whose gradient in the model, flat, is given."""
        if self.factor is None:
            return gradient
        return self.factor.gradient(gradient.reshape(self.loss.n_outputs, -1)).ravel()

    def _pull_back_twice(self, hessian: Floats) -> Floats:
        """Return the Hessian in `w` of a function whose Hessian in the model, (k d, k d), is given."""
        if self.factor is None:
            return hessian
        k, d = self.loss.n_outputs, self.records.dim
        rows = hessian.reshape(k, d, k, d).transpose(0, 2, 1, 3)
        return np.block([[self.factor.curvature(block) for block in row] for row in rows])

    def _value(self, aggregate: float, w: Floats) -> float:
        return aggregate + self.l2 / 2 * float(w @ w) + (0.0 if self.linear is None else float(self.linear @ w))

    def _gradient(self, slope: Floats, w: Floats) -> Floats:
        g = slope + self.l2 * w
        return g if self.linear is None else g + self.linear


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of records; where `of` is None, every weight is 1."""

    of: Callable[[RowBlock, Floats, Array], Floats] | None  #: weights (m,) from a block, its predictions and targets
    largest: float
    total: float  #: sum of the weights, or a declared number that stands for it

    def times(self, block: RowBlock, z: Floats, y: Array, values: Floats) -> Floats:
        """Return `values` (m, ...) of a block's records, each times the record's weight."""
        return values if self.of is None else self.of(block, z, y).reshape(-1, *[1] * (values.ndim - 1)) * values

    def adjoint(self, block: RowBlock, z: Floats, y: Array, values: Floats, size: float) -> Floats:
        """Return the parts of the weighted sum of records times `values` (m, ...); `size` bounds weighted products."""
        if self.of is None:
            return block.adjoint(values, size)
        return block.weighted_adjoint(values, self.of(block, z, y), self.largest, size)

    def vector(self, parts: Array) -> Floats:
        """Return the sum of which `adjoint`, added up, are the parts."""
        return summation.vector(parts) if self.of is None else summation.weighted_vector(parts)


def _weighted_gram(block: RowBlock, weights: Floats, most: float, linf: float) -> Array:
    """Return the parts of the sum of weights Kronecker x x^T; weights (m,) or (m, k, k) to `most`, features `linf`."""
    if weights.ndim == 1:
        return block.gram(np.sqrt(weights), math.sqrt(most) * linf, np.rint)
    k, d = weights.shape[1], block.dim
    out, X = np.zeros((2, k, d, k, d)), block.dense()
    for part in (slice(i, i + summation.PANEL_ROWS) for i in range(0, len(X), summation.PANEL_ROWS)):
        right = summation.on_grid(X[part].copy(), np.ones(len(X[part])), linf, np.rint)
        for a in range(k):
            for b in range(a + 1):
                found = summation.gram_parts(X[part].copy(), weights[part, a, b], most * linf, np.rint, right)
                out[:, a, :, b] += found
                if a != b:
                    out[:, b, :, a] += found.swapaxes(1, 2)
    return out


@final_dataclass(eq=False)
class RegularizedRisk(LinearModelObjective):
    r"""``J(w) = sum_i v_i loss(W x_i, y_i) + l2/2 |w|^2 + <linear, w>``, the mean loss unless weights are given."""

    #: (n,), at least 0, of sum at most 1; None: ``1/n`` each. So every bound for an average of losses holds.
    weights: Floats | None = None
    heaviest: float | None = None  #: the largest weight, if the records hold the weights
    #: The true number of units (private), and the number by which sums are divided; None: the two are equal.
    counted: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None and self.weights.shape != (self.records.n,):
            raise InvalidDataError(f"weights have shape {self.weights.shape}; the records need ({self.records.n},)")

    @property
    def mass(self) -> float:
        return 1.0 if self.counted is None else max(1.0, self.counted[0] / self.counted[1])

    @property
    def weighted(self) -> bool:
        return self._given or self.counted is not None  # weights are given, or differ from 1/n

    @property
    def _given(self) -> bool:
        """Whether weights are given, here or in the records."""
        return self.weights is not None or self.heaviest is not None

    def value(self, w: Floats) -> float:
        W, weights = self._matrix(w), self._weights(w)

        def work(block: RowBlock) -> summation.Parts:
            z, y = block.predict(W), block.targets_in(self.targets)
            return (summation.number_parts(weights.times(block, z, y, self.loss.value(z, y))),)

        return self._value(summation.number(self.records.total(work)[0]) / weights.total, w)

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        W, weights = self._matrix(w), self._weights(w)
        size = self._size(w, weights.largest)

        def work(block: RowBlock) -> summation.Parts:
            z, y = block.predict(W), block.targets_in(self.targets)
            slopes, losses = self.loss.derivative(z, y), weights.times(block, z, y, self.loss.value(z, y))
            return weights.adjoint(block, z, y, slopes, size), summation.number_parts(losses)

        slope, losses = self.records.total(work)
        value = self._value(summation.number(losses) / weights.total, w)
        return value, self._gradient(self._pull_back(weights.vector(slope).ravel() / weights.total), w)

    def subset(self, stride: int) -> "RegularizedRisk":
        records, targets, counted = self.records.subset(stride, self.targets, self.weights)
        if self._given or self.counted is None:
            weights = counted * stride if self._given else None
            return replace(self, records=records, targets=targets, weights=weights, heaviest=None)
        own = records.n, self.counted[1] * records.n / self.records.n
        return replace(self, records=records, targets=targets, counted=own)

    def _weights(self, w: Floats) -> Weights:
        weights = self.weights
        if not self._given:
            return Weights(None, 1.0, float(self.counted[1] if self.counted else self.records.n))
        largest = self.heaviest if weights is None else float(weights.max(initial=1e-300))
        return Weights(lambda block, z, y: block.weights_in(weights), largest or 0.0, 1.0)


NO_TILT = "The losses would not stay convex below 0, and 0 is the average"


@final_dataclass(eq=False)
class TiltedRisk(LinearModelObjective):
    r"""``J(w) = 1/tilt log(mean_i exp(tilt loss(W x_i, y_i))) + l2/2 |w|^2 + <linear, w>``.

    As the tilt goes to 0 this becomes the average, as it grows the largest loss. Gradient ``sum_i v_i grad loss_i``
    with ``v = softmax(tilt losses)``, Hessian ``sum_i v_i hess loss_i + tilt Cov_v(grad loss_i)``. The ridge stands
    outside the logarithm; the objective would be equal with the ridge inside.

    The loss must have bounded targets. At a new point the data are read twice more: for the largest loss, taken out of
    the exponentials, and for their sum. ``log1p`` of a mean of ``expm1`` is accurate at small tilts.

    Source: Li, Beirami, Sanjabi and Smith 2020; Lowy and Razaviyayn, Section 5 (docs, Output perturbation).
    """

    tilt: float = 1.0  #: positive, in the inverse unit of the loss
    _last: list[tuple[Floats, tuple[float, float, float]]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.real("tilt", self.tilt, above=0.0, remedy=NO_TILT)
        if math.isinf(self.loss.value_at_zero):
            raise InvalidParameterError("loss", self.loss, "must have bounded targets", "Give it a target_bound")

    def value(self, w: Floats) -> float:
        top, total, above = self._sums(w)
        mean = total / self.records.n
        log_mean = math.log(mean) if mean < 0.5 else math.log1p(above / self.records.n)
        return self._value(top + log_mean / self.tilt, w)

    def value_and_gradient(self, w: Floats) -> tuple[float, Floats]:
        return self.value(w), self.gradient(w)

    def _weights(self, w: Floats) -> Weights:
        top, total, _ = self._sums(w)
        return Weights(lambda block, z, y: np.exp(self._exponents(z, y, top)), 1.0, total)

    def _sums(self, w: Floats) -> tuple[float, float, float]:
        """Return the largest loss t, and the sums of ``e = exp(tilt (loss - t))`` and of ``e - 1``."""
        if self._last and np.array_equal(self._last[0][0], w):
            return self._last[0][1]
        W, targets = self._matrix(w), self.targets
        top = self.records.largest(lambda block: self.loss.value(block.predict(W), block.targets_in(targets)))

        def work(block: RowBlock) -> summation.Parts:
            exponents = self._exponents(block.predict(W), block.targets_in(targets), top)
            return summation.number_parts(np.exp(exponents)), summation.number_parts(np.expm1(exponents))

        total, above = map(summation.number, self.records.total(work))
        self._last[:] = [(w.copy(), (top, total, above))]
        return top, total, above

    @quiet
    def _exponents(self, z: Floats, y: Array, top: float) -> Floats:
        return self.tilt * (self.loss.value(z, y) - top)
