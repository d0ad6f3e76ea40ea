"""Losses of linear models: values, derivatives and proven constants.

A loss is a function ``phi(z, y)`` of the prediction ``z = <w, x>`` (or ``z = W x`` for several outputs) and the target
``y``, convex in ``z``. Its constants hold for *every* finite ``z`` and every target inside the declared targets: they
need no assumption about the data beyond `LinearModelLoss.clip_targets` and the feature bounds.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import REQUIRED, Array, Floats, forwarded, quiet
from dpconvex.errors import InvalidDataError

Task = Literal["classification", "regression"]


class CurvatureLaw(StrEnum):
    """How much curvature a loss has at a given slope, for every finite prediction and every target.

    The price of objective perturbation depends on it, and on nothing else that a loss is called or made of. A law is
    declared by the loss that proves it; the contract tests search for a prediction that breaks it.
    """

    BOUNDED = "bounded"  #: Trace of the Hessian at most `curvature_trace` for every slope, as for every smooth loss.
    LOGISTIC = "logistic"  #: one output, no slope beyond ``A <= 1``: ``phi'' <= a (1 - a)`` at the slope ``|phi'| = a``
    #: Every slope is ``A (p - e_y)``, with A half of `slope_bound_l1`, for a probability vector p and a class y; the
    #: Hessian is bounded as `BOUNDED` says.
    SOFTMAX = "softmax"


ITSELF: Any = property(lambda loss: loss)  #: Value of attributes that are most often the loss itself.


class LinearModelLoss(ABC):
    """A convex loss of the predictions of a linear model.

    Predictions `z` have shape (n,), or (n, n_outputs) when ``n_outputs > 1``, and are finite; targets `y`
    have shape (n,) and come out of `clip_targets`. Results may be infinite where they exceed the largest
    float, are never NaN, and no content raises or warns.
    """

    name: ClassVar[str]  #: name on the command line, in plans and in certificates; unique among the losses
    task: ClassVar[Task]  #: whether targets are classes or numbers
    sides: ClassVar[Literal[1, 2]] = 2  #: 1 if the sign of ``slope * y`` is the same everywhere (margin losses), else 2
    n_outputs: int = 1  #: number of predictions per record
    #: Public shares of the classes that predictions start from; None if unknown, and for regressions.
    rates: tuple[float, ...] | None = None
    slope_bound: float  #: largest l2 norm A of the derivative in `z`, rounded up; infinite if unbounded
    curvature_bound: float  #: largest second derivative c (spectral norm of the Hessian in `z`); infinite if not smooth
    #: Largest rank r of the Hessian in `z`.
    #:
    #: One record's factor of a determinant ratio is at most ``(1 + t tau / r) ** r`` with ``t`` the `curvature_trace`
    #: and ``tau = X2^2 / (n lambda)`` (AM-GM; docs, Objective perturbation, Theorem 1 for several outputs).
    curvature_rank: int = 1
    #: The proved relation of curvature and slope, beside `self_concordance`.
    curvature_law: ClassVar[CurvatureLaw] = CurvatureLaw.BOUNDED
    #: The q of ``phi'' <= (q / A) (A - |phi'|)``; None if there is none, or several outputs.
    #:
    #: Curvature then vanishes as the slope saturates, and is free in objective perturbation with noise in any norm
    #: (docs, Objective perturbation, Theorem 2).
    self_concordance: float | None = None
    #: Largest loss of the prediction 0 over the declared targets, rounded up; infinite if unbounded.
    value_at_zero: float = REQUIRED
    #: Largest l1 norm of the derivative in `z`; `slope_bound` for one output.
    slope_bound_l1: float = forwarded("slope_bound")
    #: Largest trace of the Hessian in `z`; `curvature_bound` for one output.
    curvature_trace: float = forwarded("curvature_bound")
    #: The q of ``trace(phi'') <= (q / A) (A - |phi'|_2)``; serves noise in the l2 (Frobenius) norm only.
    frobenius_self_concordance: float | None = forwarded("self_concordance")
    #: Share of the records beyond a range that is half as wide which move the minimizer little.
    spare_tail: float = 0.0
    told: tuple[float, ...] | None = forwarded("rates")  #: Public shares of the classes as the caller gave them.
    #: The loss in which errors are judged: this loss, or the loss for which it is a surrogate.
    usual: "LinearModelLoss" = ITSELF
    unweighted: "LinearModelLoss" = ITSELF  #: The loss of a record of weight 1.
    as_told: "LinearModelLoss" = ITSELF  #: The loss whose predictions start from these shares as they are.
    #: Targets of the classes, increasing, if the best constant follows from the classes' shares; else empty.
    classes: Floats = np.zeros(0)

    @property
    def facts(self) -> Mapping[str, Any]:
        """JSON-ready public constants by which this loss differs from the usual one of its name; most have none."""
        return {}

    def best_constant(self, shares: Floats) -> Floats:
        """Return the predictions (..., n_outputs) of least mean loss for these positive shares of `classes`."""
        raise NotImplementedError(f"{type(self).__name__} has no classes")

    @property
    def offset(self) -> Floats:
        """Constant that a model adds to `z` before it predicts, (n_outputs,): the best one under `rates`; else 0.

        A kink that is smoothed more to one side is read about the middle of its parabola.

        A loss with rates is a function of ``z + offset``, so that parameters 0 predict these rates. No constant
        but `value_at_zero` changes: the others hold for every prediction.
        """
        return np.zeros(self.n_outputs)

    @property
    def trivial(self) -> float:
        """Loss of a constant: at most `value_at_zero`; under public rates the mean (logistic: the entropy)."""
        if self.rates is None:
            return self.value_at_zero
        classes = np.arange(len(self.rates), dtype=np.float64)
        targets = self.clip_targets(classes)
        z = np.zeros((len(classes), self.n_outputs))
        return float(np.dot(self.rates, self.value(z[:, 0] if self.n_outputs == 1 else z, targets)))

    @final
    def slope_within(self, reach: float) -> float:
        """Return the largest l2 norm of the derivative at predictions of norm at most `reach`.

        A nonnegative function of curvature c has slope at most ``sqrt(2 c value)``; from there it grows by c.
        """
        c, value = self.curvature_bound, self.value_at_zero
        return self.slope_bound if math.isinf(c) else min(self.slope_bound, math.sqrt(2 * c * value) + c * reach)

    @abstractmethod
    def value(self, z: Floats, y: Floats) -> Floats:
        """Return the loss of every record, of shape (n,)."""

    @abstractmethod
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the derivative in `z`, of the shape of `z`; a subgradient where there is no derivative."""

    @abstractmethod
    def clip_targets(self, y: Array) -> Floats:
        """Return a float64 copy of `y` (n,), each value moved into the declared targets by the class's rule.

        `InvalidDataError` if `y` is not one-dimensional or not numeric (public facts); never because of a value.
        """

    def cut(self, level: float) -> "LinearModelLoss | None":
        """Return the loss whose slope is this one's, clipped to [-level, level]; None where all slopes are smaller."""
        return None


class SmoothLoss(LinearModelLoss):
    """A loss with a Lipschitz derivative, which provides its second derivative."""

    @abstractmethod
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        """Return the second derivative in `z` (n,); several outputs: Hessians (n, n_outputs, n_outputs).

        Where the second derivative jumps, any value between the one-sided ones. The Hessians of several
        outputs are large: call with at most some thousand records at a time.
        """


class PiecewiseLinearLoss(LinearModelLoss):
    """A loss ``phi(z, y) = max of u (z - y) over u in [lo(y), hi(y)]`` with ``lo <= 0 <= hi``.

    The interval is the domain of the convex conjugate, which dual solvers need; the loss is 0 at ``z = y``.
    """

    curvature_bound = math.inf

    @abstractmethod
    def slope_interval(self, y: Floats) -> tuple[Floats, Floats]:
        """Return ``lo(y)`` and ``hi(y)``, each of shape (n,)."""

    @abstractmethod
    def smoothed(self, width: float) -> SmoothLoss:
        """Return ``max of u (z - y) - width u^2 / 2 over u in [lo(y), hi(y)]``.

        It has the same slopes and targets, curvature at most ``1 / width``, and
        ``0 <= phi - smoothed <= width * slope_bound ** 2 / 2`` everywhere. The width is positive.
        """

    @final
    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        lo, hi = self.slope_interval(y)
        residual = z - y
        return np.where(residual > 0, hi, lo) * residual

    @final
    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return the slope in `z`, of shape (n,); 0 at the kink."""
        lo, hi = self.slope_interval(y)
        residual = z - y
        return np.where(residual > 0, hi, np.where(residual < 0, lo, 0.0))


LARGEST_TARGET = _validate.LARGEST
"""Targets without a declared bound are clipped to this size, so that residuals and sums of losses stay finite."""


@quiet
def numbers(y: Array) -> Floats:
    """Return a float64 copy of targets (n,), NaN as 0; `InvalidDataError` unless they are numbers, one a record."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise InvalidDataError(f"y has shape {_validate.shape_of(y)}; one target per record is needed, shape (n,)")
    if y.dtype.kind not in "fiub":
        raise InvalidDataError(f"y has dtype {_validate.dtype_of(y)}; real numbers are needed. Encode labels first")
    return np.nan_to_num(np.array(y, dtype=np.float64), copy=False, nan=0.0)


def reals(y: Array, bound: float) -> Floats:
    """Return `y` clipped to ``[-bound, bound]`` (at most ``LARGEST_TARGET``); NaN becomes 0."""
    limit = min(bound, LARGEST_TARGET)
    return np.clip(numbers(y), -limit, limit)


def check_bound(target_bound: float, *, finite: bool = False) -> None:
    """Raise `InvalidParameterError` unless the bound is in (0, ``LARGEST_TARGET``], or infinite if allowed."""
    if finite or target_bound != math.inf:
        remedy = "Give the largest absolute target, in the unit of the target, from public knowledge"
        _validate.real("target_bound", target_bound, above=0.0, at_most=LARGEST_TARGET, remedy=remedy)


Q = 3.0  #: The q of saturating slopes, chosen on learning tables (docs, What was tried, How losses saturate)
KNEE = 1 - 1 / Q  #: Share of the largest slope at which saturating slopes begin to bend
CLIP, TANH, RATIONAL, BENT = 0, 1, 2, 3  #: Shapes of slopes, see `solvers.stochastic.SlopeCurve`


@dataclass(frozen=True)
class Spline:
    """``r -> max of u r - width u^2 / 2 over u in [lower, upper]``: the smoothing of every piecewise linear loss.

    Where it is `saturating`, the slope is no ramp with a kink at its largest size A: from ``2 A / 3`` on it bends, such
    that curvature is ``min(1, Q (1 - |slope| / A)) / width`` up to an end, ``Q = 3``: what (1.2) of the docs, Objective
    perturbation, allows, and less than that at no slope in between.
    """

    lower: float
    upper: float
    width: float
    saturating: bool = False

    @property
    def self_concordance(self) -> float | None:
        """The q of ``phi'' <= (q / A) (A - |phi'|)``."""
        return _rounding.ratio_up(Q, self.width) if self.saturating else None

    @property
    def _reach(self) -> float:
        """A: the largest slope."""
        return max(-self.lower, self.upper)

    def _past(self, t: Floats) -> Floats:
        """Return how far positions, in widths, lie past the bend, in units of A."""
        return np.maximum(np.abs(t) / self._reach - KNEE, 0.0)

    def slope(self, r: Floats) -> Floats:
        """Return ``clip(r / width, lower, upper)``, the maximizing ``u``, or the bent slope near its ends."""
        t = r / self.width
        if self.saturating:
            bent = np.clip(t, -KNEE * self._reach, KNEE * self._reach)
            t = bent + np.copysign(self._reach / Q * np.expm1(-Q * self._past(t)), t)
        return np.clip(t, self.lower, self.upper)

    @quiet
    def value(self, r: Floats) -> Floats:
        """Return the value."""
        if not self.saturating:
            u = self.slope(r)
            return u * (r - 0.5 * self.width * u)
        found = np.zeros(r.shape)
        for side, end in ((-r / self.width, -self.lower), (r / self.width, self.upper)):
            t = np.maximum(side, 0.0)
            stop = self._stop(end)
            found += self._rise(np.minimum(t, stop))
            if end > 0 and stop < math.inf:
                found += end * np.maximum(t - stop, 0.0)
        return self.width * found

    def curvature(self, r: Floats) -> Floats:
        """Return the derivative of the slope: 0 where the slope is at an end."""
        t = r / self.width
        if not self.saturating:
            return np.where((t >= self.lower) & (t <= self.upper), 1.0 / self.width, 0.0)
        inside = (t >= -self._stop(-self.lower)) & (t <= self._stop(self.upper))
        return np.where(inside, np.exp(-Q * self._past(t)) / self.width, 0.0)

    def short(self, end: float) -> float:
        """Return by how much the value, over `width`, falls short of the line that it tends to on one side."""
        if not self.saturating:
            return end * end / 2
        stop = self._stop(end)
        return 5 * end * end / 9 if stop == math.inf else end * stop - float(self._rise(np.array([stop]))[0])

    def _stop(self, end: float) -> float:
        """Return the position, in widths, at which the slope reaches an end."""
        left = Q * (1 - end / self._reach)
        return end if left >= 1 else self._reach * (KNEE - math.log(left) / Q) if left > 0 else math.inf

    def _rise(self, t: Floats) -> Floats:
        """Return the integral of the bent slope from 0 to t >= 0."""
        past, reach = self._past(t), self._reach
        return np.minimum(t, KNEE * reach) ** 2 / 2 + reach**2 * (past + np.expm1(-Q * past) / Q**2)


def check_width(width: float) -> None:
    """Raise `InvalidParameterError` unless `width` lies in [1e-100, 1e100]."""
    _validate.real("width", width, at_least=_validate.SMALLEST, at_most=_validate.LARGEST)
