r"""Losses of records that count differently: a weight in [0, 1] travels with the target, and multiplies the loss.

Weights that reach a public cap ``c > 1`` are divided by it first: the minimizer with the ridge l2 is that of the losses
times their weights with the ridge ``c l2``.

Lemma (weights). Every constant of a loss phi that is an upper bound holds for ``w phi``, w in [0, 1]: slopes,
curvatures and losses are multiplied by w; ``w phi'' <= w (q/A) (A - |phi'|) <= (q/A) (A - |w phi'|)``; and with a slope
``a = w s``, ``w s (1 - s) <= a (1 - a)``, since ``a <= s``. So noise that hides a record of weight 1 hides one of any
weight, for neighbors that differ in features, target and weight. Not kept: that slopes are ``p - e_y``
(`CurvatureLaw.SOFTMAX`), and that a loss of the margin is never below its smallest value (`sides` is 2).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass, forwarded, quiet
from dpconvex.losses.base import CurvatureLaw, SmoothLoss

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


@final_dataclass
class WeightedLoss(SmoothLoss):
    """A smooth loss times the weight of the record, in [0, 1].

    A target and its weight w are one number, ``sign (k + w/2)``: k is the class's size or number, or the target in
    `_LEVELS` steps. A weight beyond 1 counts as 1, a negative one as 0, and NaN as a record of weight 0.
    """

    name = "weighted"
    sides = 2

    base: SmoothLoss
    unweighted = forwarded("base")

    # Properties of the unweighted loss that hold, or are upper bounds, for the weighted loss (Lemma (weights)).
    task = forwarded("base", "task")
    n_outputs = forwarded("base", "n_outputs")
    rates = forwarded("base", "rates")
    slope_bound = forwarded("base", "slope_bound")
    slope_bound_l1 = forwarded("base", "slope_bound_l1")
    curvature_bound = forwarded("base", "curvature_bound")
    curvature_trace = forwarded("base", "curvature_trace")
    curvature_rank = forwarded("base", "curvature_rank")
    self_concordance = forwarded("base", "self_concordance")
    frobenius_self_concordance = forwarded("base", "frobenius_self_concordance")
    offset = forwarded("base", "offset")
    spare_tail = forwarded("base", "spare_tail")
    trivial = forwarded("base", "trivial")
    value_at_zero = forwarded("base", "value_at_zero")

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
