"""Tilted risk: a log-sum-exp of the losses, between their average and their maximum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.losses.base import quiet
from dpconvex.problems.data.records import RowBlock
from dpconvex.problems.linear.objective import LinearModelObjective

NO_TILT = "The losses would not stay convex below 0, and 0 is the average"


@final
@dataclass(frozen=True, eq=False)
class TiltedRisk(LinearModelObjective):
    r"""``J(w) = 1/tilt log(mean_i exp(tilt loss(W x_i, y_i))) + l2/2 |w|^2 + <linear, w>``.

    As the tilt goes to 0 this becomes the average, as it grows the largest loss. Gradient ``sum_i v_i grad loss_i``
    with ``v = softmax(tilt losses)``, Hessian ``sum_i v_i hess loss_i + tilt Cov_v(grad loss_i)``. The ridge stands
    outside the logarithm; inside, it would change nothing.

    Parameters
    ----------
    loss, records, targets, l2, linear
        As in `LinearModelObjective`. The loss must have bounded targets.
    tilt : float
        Positive, in the inverse unit of the loss.

    Notes
    -----
    Losses and weights are vectors of length n; a gradient reads the data twice (losses first). The largest loss is
    taken out of the exponentials, and ``log1p`` of a mean of ``expm1`` keeps the relative accuracy at small tilts.

    References
    ----------
    Li, Beirami, Sanjabi and Smith 2020, "Tilted empirical risk minimization"; Lowy and Razaviyayn,
    Section 5 (docs, Output perturbation).
    """

    tilt: float = 1.0  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.real("tilt", self.tilt, above=0.0, remedy=NO_TILT)
        if math.isinf(self.loss.value_at_zero):
            raise InvalidParameterError("loss", self.loss, "must have bounded targets", "Give it a target_bound")

    def value(self, w: FloatArray) -> float:
        """Return ``J(w)``."""
        return self._value(self._aggregate(self._losses(w)), w)

    def value_and_gradient(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return ``J(w)`` and a (sub)gradient."""
        losses = self._losses(w)
        weights = self._exponentials(losses)
        slope = self._slope(w, weights, float(weights.sum()))
        return self._value(self._aggregate(losses), w), self._gradient(slope, w)

    def _weights(self, w: FloatArray) -> tuple[FloatArray | None, float]:
        weights = self._exponentials(self._losses(w))
        return weights, float(weights.sum())

    def _losses(self, w: FloatArray) -> FloatArray:
        """Losses of all records, shape (n,)."""
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
