"""The objective of every empirical-risk method here: average loss of a linear model, ridge, linear term."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses.base import LinearModelLoss, SmoothLoss
from dpconvex.problems import _threads
from dpconvex.problems.records import Records, RowBlock

ROUNDING = 1e-13
"""Relative slack of a computed gradient: ten times the specification's, for equal summands round systematically."""
_UP = 1 + 1e-12  # covers the few roundings of a formula for a public constant


@final
@dataclass(frozen=True, eq=False)
class RegularizedRisk:
    r"""``J(w) = mean_i loss(W x_i, y_i) + l2/2 |w|^2 + <linear, w>``.

    Parameters
    ----------
    loss : LinearModelLoss
    records : Records
        n records of dimension ``records.dim``.
    targets : array of shape (n,)
        Moved into the loss's declared targets, whatever they hold.
    l2 : float
        Ridge weight, at least 0. It is the strong convexity constant.
    linear : array of shape (dim,), optional
        Coefficients of a linear term (objective perturbation); None for 0.

    Notes
    -----
    Parameters are flat: `w` of length ``dim = loss.n_outputs * records.dim`` is `W` of shape
    (n_outputs, records.dim), row after row. All sums are float64; the rounding slacks are those of the
    specification of output perturbation, section 6.2 rule 4, with the correction of objective perturbation,
    section 2.1. They cover rounding that behaves like independent errors, with a wide margin, but not the
    worst case over all orders of summation.

    Raises
    ------
    InvalidDataError
        If targets or linear term have the wrong shape (public facts).
    """

    loss: LinearModelLoss
    records: Records
    targets: AnyArray
    l2: float
    linear: FloatArray | None = None

    def __post_init__(self) -> None:
        _validate.real("l2", self.l2, at_least=0.0)
        if np.shape(self.targets) != (self.records.n,):
            shape = np.shape(self.targets)
            raise InvalidDataError(f"targets have shape {shape}; the records need ({self.records.n},)")
        object.__setattr__(self, "targets", self.loss.clip_targets(np.asarray(self.targets)))
        if self.linear is not None and self.linear.shape != (self.dim,):
            raise InvalidDataError(f"linear has shape {self.linear.shape}; the parameters need ({self.dim},)")

    @property
    def dim(self) -> int:
        """Length of a parameter vector, all outputs together."""
        return self.loss.n_outputs * self.records.dim

    @property
    def strong_convexity(self) -> float:
        """Strong convexity constant in the l2 norm: the ridge weight."""
        return self.l2

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant (l2) of the data part, for every data set of the domain; may be infinite."""
        return self.loss.slope_bound * self.records.domain.l2 * _UP

    def lipschitz_within(self, radius: float) -> float:
        """Lipschitz constant (l2) of the objective over parameters of norm at most `radius`."""
        slope = self._slope_at(radius) * self.records.domain.l2
        return (slope + self.linear_norm + self.l2 * radius) * _UP

    @property
    def smoothness(self) -> float:
        """Smoothness constant (l2) of the objective, for every data set of the domain; may be infinite."""
        return (self.loss.curvature_bound * self.records.domain.l2**2 + self.l2) * _UP

    @property
    def initial_gap(self) -> float:
        """Bound on ``J(0) - min J`` for every data set of the domain; may be infinite.

        The smaller of ``sup loss(0) + |linear|^2 / (2 l2)`` (losses are at least 0) and ``|grad J(0)|^2 / (2 l2)``.
        """
        linear = self.linear_norm
        slope = self._slope_at(0.0) * self.records.domain.l2 + linear
        return min(self.loss.value_at_zero + linear**2 / (2 * self.l2), slope**2 / (2 * self.l2)) * _UP

    @property
    def linear_norm(self) -> float:
        """The l2 norm of the linear term."""
        return 0.0 if self.linear is None else float(np.linalg.norm(self.linear)) * _UP

    def value(self, w: FloatArray) -> float:
        """Return ``J(w)``."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            return np.array([self.loss.value(block.predict(W), self.targets[block.rows]).sum()])

        return self._value(self._total(work)[0], w)

    def gradient(self, w: FloatArray) -> FloatArray:
        """Return a (sub)gradient at `w`, shape (dim,)."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            return block.adjoint(self.loss.derivative(block.predict(W), self.targets[block.rows])).ravel()

        return self._gradient(self._total(work), w)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return ``J(w)`` and a (sub)gradient, reading the data once."""
        W = self._matrix(w)

        def work(block: RowBlock) -> FloatArray:
            z, y = block.predict(W), self.targets[block.rows]
            return np.append(block.adjoint(self.loss.derivative(z, y)), self.loss.value(z, y).sum())

        total = self._total(work)
        return self._value(total[-1], w), self._gradient(total[:-1], w)

    def hessian(self, w: FloatArray) -> FloatArray:
        """Return the Hessian, shape (dim, dim); the loss must be smooth."""
        loss, W = self._smooth_loss(), self._matrix(w)

        def work(index: int) -> FloatArray:
            rows, panel = self.records.panel(index)
            return _weighted_gram(panel, loss.hessian_weights(panel @ W.T, self.targets[rows]))

        hessian = _threads.total(self.records.n_panels, work) / self.records.n
        hessian[np.diag_indices_from(hessian)] += self.l2
        return hessian

    def hessian_product(self, w: FloatArray, v: FloatArray) -> FloatArray:
        """Return the Hessian at `w` times `v`, shape (dim,), in one pass; the loss must be smooth."""
        loss, W, V = self._smooth_loss(), self._matrix(w), self._matrix(v)
        step = self.records.n if loss.n_outputs == 1 else 4096  # (m, k, k) weights stay small

        def work(block: RowBlock) -> FloatArray:
            z, y, dz = block.predict(W), self.targets[block.rows], block.predict(V)
            parts = [slice(i, i + step) for i in range(0, len(z), step)]
            weighted = [_apply(loss.hessian_weights(z[part], y[part]), dz[part]) for part in parts]
            return block.adjoint(np.concatenate(weighted)).ravel()

        return self._total(work) / self.records.n + self.l2 * v

    def subset(self, stride: int) -> RegularizedRisk:
        """Return the objective of every `stride`-th record (a fixed choice: no data decide it)."""
        records = self.records.subset(stride)
        return RegularizedRisk(self.loss, records, self.targets[::stride], self.l2, self.linear)

    def gradient_rounding(self, w: FloatArray) -> float:
        """Return the slack charged for rounding in a computed gradient at `w` (l2 norm)."""
        domain, norm = self.records.domain, float(np.linalg.norm(w))
        growth = self.l2 if math.isinf(self.loss.curvature_bound) else self.smoothness
        return ROUNDING * (self._slope_at(norm) * domain.l2 + growth * norm + self.linear_norm)

    def gradient_norm_bound(self, g: FloatArray, w: FloatArray) -> float:
        """Return an upper bound on the norm of the gradient at `w` of which `g` is the computed value."""
        return float(np.linalg.norm(g)) * (1 + 1e-10) + self.gradient_rounding(w)

    def value_rounding(self, value: float, w: FloatArray) -> float:
        """Return the slack charged for rounding in a computed value at `w`."""
        norm = float(np.linalg.norm(w))
        slope = self._slope_at(norm) * self.records.domain.l2
        return ROUNDING * (abs(value) + (slope + 2 * self.linear_norm + self.l2 * norm) * norm)

    def _slope_at(self, norm: float) -> float:
        """Largest |slope| of the loss at predictions of parameters of that norm.

        A nonnegative function of curvature c has slope at most ``sqrt(2 c value)``; from there it grows by c.
        """
        c, value = self.loss.curvature_bound, self.loss.value_at_zero
        if math.isinf(c):
            return self.loss.slope_bound
        return min(self.loss.slope_bound, math.sqrt(2 * c * value) + c * self.records.domain.l2 * norm)

    def _smooth_loss(self) -> SmoothLoss:
        if not isinstance(self.loss, SmoothLoss):
            raise InvalidParameterError("loss", self.loss, "must be smooth to have a Hessian")
        return self.loss

    def _total(self, work: Callable[[RowBlock], FloatArray]) -> FloatArray:
        """Sum of `work` over the row blocks."""
        return _threads.total(self.records.n_blocks, lambda index: work(self.records.block(index)))

    def _matrix(self, w: FloatArray) -> FloatArray:
        """`w` as the operand of `Records.predict`: (d,) for one output, else (k, d)."""
        return w if self.loss.n_outputs == 1 else w.reshape(self.loss.n_outputs, self.records.dim)

    def _value(self, losses: float, w: FloatArray) -> float:
        linear = 0.0 if self.linear is None else float(self.linear @ w)
        return float(losses) / self.records.n + self.l2 / 2 * float(w @ w) + linear

    def _gradient(self, total: FloatArray, w: FloatArray) -> FloatArray:
        g = total / self.records.n + self.l2 * w
        return g if self.linear is None else g + self.linear


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
