r"""Losses made of other losses: with every slope cut at a level of the record's own, or times a weight of its own.

Cut slopes: for a loss ``phi(<x, w>, y)`` and a level ``c = C / |x|`` the surrogate has the derivative
``clip(phi', -c, c)`` in the prediction. Its gradient in w is the clipped gradient ``clip_C(grad loss)``, yet it is the
gradient of a *convex* function, so whatever is proved of minimizers of convex C-Lipschitz losses holds for it (docs,
Heavy tails).

Weights: one in [0, 1] travels with the target, and multiplies the loss. Weights that reach a public cap ``c > 1`` are
divided by it first: the minimizer with the ridge l2 is that of the losses times their weights with the ridge ``c l2``.

Lemma (weights). Every constant of a loss phi that is an upper bound holds for ``w phi``, w in [0, 1]: slopes,
curvatures and losses are multiplied by w; ``w phi'' <= w (q/A) (A - |phi'|) <= (q/A) (A - |w phi'|)``; and with a slope
``a = w s``, ``w s (1 - s) <= a (1 - a)``, since ``a <= s``. So noise that hides a record of weight 1 hides one of any
weight, for neighbors that differ in features, target and weight. Not kept: that slopes are ``p - e_y``
(`CurvatureLaw.SOFTMAX`), and that a loss of the margin is never below its smallest value (`sides` is 2).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass, forwarded, forwards, quiet
from dpconvex.losses.base import CurvatureLaw, LinearModelLoss, PiecewiseLinearLoss, SmoothLoss

_HALVINGS = 64  # number of bisections of the range of predictions, whose ends are then exact to the last bit
_FLAT = 1e-300  # stands for 0 in denominators
_SHORTEST = 1e-140  # shorter records count as this long, which cuts them lower: squares of their norms lose digits


class TruncatedLosses(ABC):
    """Losses of fixed records; `rows` says which of them the predictions `z`, of shape (m,), belong to.

    Every function is convex and once differentiable, with ``|slope| <= level`` record by record. No content raises or
    warns.
    """

    @abstractmethod
    def value(self, z: Floats, rows: slice) -> Floats:
        """Return the losses, shape (m,)."""

    @abstractmethod
    def slope(self, z: Floats, rows: slice) -> Floats:
        """Return the derivatives in `z`, shape (m,)."""

    @abstractmethod
    def curvature(self, z: Floats, rows: slice) -> Floats:
        """Return the second derivatives in `z`, shape (m,)."""


@final_dataclass(eq=False)
class TruncatedSmoothLosses(TruncatedLosses):
    """A smooth loss where ``|phi'| <= level``, between `lower` and `upper`, tangents beyond; arrays of shape (n,)."""

    loss: SmoothLoss
    targets: Floats
    level: Floats
    lower: Floats
    upper: Floats

    @quiet
    def value(self, z: Floats, rows: slice) -> Floats:
        inside = np.clip(z, self.lower[rows], self.upper[rows])
        return self.loss.value(inside, self.targets[rows]) + self.slope(z, rows) * (z - inside)

    @quiet
    def slope(self, z: Floats, rows: slice) -> Floats:
        inside = np.clip(z, self.lower[rows], self.upper[rows])
        return np.clip(self.loss.derivative(inside, self.targets[rows]), -self.level[rows], self.level[rows])

    @quiet
    def curvature(self, z: Floats, rows: slice) -> Floats:
        inside = (z > self.lower[rows]) & (z < self.upper[rows])
        return np.where(inside, self.loss.hessian_weights(z, self.targets[rows]), 0.0)


@final_dataclass(eq=False)
class TruncatedPiecewiseLinearLosses(TruncatedLosses):
    """``max of u (z - y) - width u^2 / 2 over u in [lower, upper]``, ``|u| <= level``, ``width > 0``; arrays (n,)."""

    targets: Floats
    lower: Floats
    upper: Floats
    width: Floats

    @quiet
    def value(self, z: Floats, rows: slice) -> Floats:
        u = self.slope(z, rows)
        return u * (z - self.targets[rows] - 0.5 * self.width[rows] * u)

    @quiet
    def slope(self, z: Floats, rows: slice) -> Floats:
        return np.clip((z - self.targets[rows]) / self.width[rows], self.lower[rows], self.upper[rows])

    @quiet
    def curvature(self, z: Floats, rows: slice) -> Floats:
        width = self.width[rows]
        u = (z - self.targets[rows]) / width
        return np.where((u > self.lower[rows]) & (u < self.upper[rows]), 1.0 / width, 0.0)


@quiet
def truncate(
    loss: LinearModelLoss, targets: Floats, norms: Floats, level: float, radius: float, smoothing: float
) -> TruncatedLosses:
    """Return the surrogates of given records over the parameters of norm at most `radius`.

    The loss, of one prediction, has slopes of both signs or slopes that vanish; `targets` (n,) come from
    `LinearModelLoss.clip_targets`, `norms` (n,) are feature norms ``|x|``. The slope is cut at ``C / |x|``, with C the
    `level`, the largest gradient norm.

    Smooth losses: predictions beyond ``radius |x|`` continue the tangent, so that the gradient never exceeds its
    largest norm over the ball either. Piecewise linear losses: the Moreau envelope, in w, with the parameter
    `smoothing`; the loss falls by at most ``smoothing C^2 / 2``, and its gradient in w changes by at most
    ``1 / smoothing`` per unit of w, however long features are.
    """
    levels = level / np.maximum(norms, _SHORTEST)
    if isinstance(loss, PiecewiseLinearLoss):
        lower, upper = loss.slope_interval(targets)
        width = np.maximum(smoothing * norms**2, _FLAT)
        return TruncatedPiecewiseLinearLosses(targets, np.maximum(lower, -levels), np.minimum(upper, levels), width)
    assert isinstance(loss, SmoothLoss)  # callers check; tells the type checker
    reach = radius * norms
    upper = _crossing(loss.derivative, targets, levels, reach)
    lower = -_crossing(lambda z, y: -loss.derivative(-z, y), targets, levels, reach)
    return TruncatedSmoothLosses(loss, targets, levels, lower, upper)


def _crossing(slope: Callable[[Floats, Floats], Floats], targets: Floats, levels: Floats, reach: Floats) -> Floats:
    """Return the largest prediction in ``[-reach, reach]`` with a slope of at most the level; -reach if none has."""
    upper = reach.copy()
    steep = np.flatnonzero(slope(upper, targets) > levels)
    y, c = targets[steep], levels[steep]
    low, high = -reach[steep], reach[steep]
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        flat = slope(middle, y) <= c
        low, high = np.where(flat, middle, low), np.where(flat, high, middle)
    upper[steep] = low
    return upper


_LEVELS = 2.0**25  #: Numbers are rounded to this many steps on either side of 0, to leave digits for weights.


def _weighed(name: str) -> Any:
    """Return a method that multiplies the unweighted loss's values by weights; infinite values of weight 0 are 0."""

    @quiet
    def method(self: "WeightedLoss", z: Floats, y: Floats) -> Floats:
        targets, weights = self.unpacked(y)
        values = getattr(self.base, name)(z, targets)
        shaped = weights.reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(shaped > 0, shaped * values, 0.0)

    return method


# Properties of the unweighted loss that hold, or are upper bounds, for the weighted loss (Lemma (weights)).
@final_dataclass
@forwards("base", "task n_outputs rates offset spare_tail trivial value_at_zero slope_bound slope_bound_l1")
@forwards("base", "curvature_bound curvature_trace curvature_rank self_concordance frobenius_self_concordance")
class WeightedLoss(SmoothLoss):
    """A smooth loss times the weight of the record, in [0, 1].

    A target and its weight w are one number, ``sign (k + w/2)``: k is the class's size or number, or the target in
    `_LEVELS` steps. A weight beyond 1 counts as 1, a negative one as 0, and NaN as a record of weight 0.
    """

    name = "weighted"
    sides = 2
    base: SmoothLoss
    unweighted = forwarded("base")

    @property
    def as_told(self) -> "WeightedLoss":
        return replace(self, base=cast(SmoothLoss, self.base.as_told))

    @property
    def curvature_law(self) -> CurvatureLaw:
        law = self.base.curvature_law
        return law if law == CurvatureLaw.LOGISTIC else CurvatureLaw.BOUNDED  # Lemma (weights)

    @property
    def usual(self) -> "WeightedLoss":
        return WeightedLoss(self.base.usual)  # pyright: ignore[reportArgumentType]

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"weighted": self.base.name, **self.base.facts}

    @cached_property
    def _most(self) -> tuple[float, float]:
        """The largest k, and the target that one step of k stands for."""
        largest = float(np.abs(self.base.clip_targets(np.array([-1e300, 1e300]))).max())
        return (largest, 1.0) if self.task == "classification" else (_LEVELS, largest / _LEVELS)

    def packed(self, targets: Array, weights: Floats) -> Floats:
        """Return targets (n,) of the unweighted loss, with weights (n,), as targets of this one."""
        y = self.base.clip_targets(targets) / self._most[1]
        return np.where(y < 0, -1.0, 1.0) * (np.rint(np.abs(y)) + _unit(weights) / 2)

    def clip_targets(self, y: Array) -> Floats:
        self.base.clip_targets(y)  # raises for what is no array of numbers
        most = self._most[0] + 0.5
        return np.nan_to_num(np.clip(np.asarray(y, dtype=np.float64), -most, most), nan=0.0)

    def unpacked(self, y: Floats) -> tuple[Floats, Floats]:
        """Return the targets (n,) of the unweighted loss, and the weights (n,)."""
        size = np.abs(y)
        k = np.minimum(np.floor(size), self._most[0])
        return self.base.clip_targets(np.sign(y) * k * self._most[1]), _unit(2 * (size - k))

    value = _weighed("value")
    derivative = _weighed("derivative")
    hessian_weights = _weighed("hessian_weights")


def _unit(weights: Floats) -> Floats:
    return np.clip(np.nan_to_num(weights, nan=0.0), 0.0, 1.0)
