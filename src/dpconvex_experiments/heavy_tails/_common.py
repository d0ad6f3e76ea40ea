"""What the experiments share: the linear loss, in which the rates are sharp, and problems with a wide domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, record_cap
from dpconvex.losses import LinearModelLoss, SmoothLoss
from dpconvex.losses.base import Task
from dpconvex.problems import DataDomain, LinearModelProblem

PAPER = "Lowy 2026, Optimal rates for pure epsilon-DP SCO with heavy tails"
RADIUS = 1.0
DIAMETER = 2 * RADIUS


@final
@dataclass(frozen=True)
class LinearLoss(SmoothLoss):
    """``z``: the record's loss is ``<w, x>`` and its gradient x; targets play no part.

    For lower bounds and sharp rates over a ball, where its minimum is ``-R |E x|``. Unlike other losses it is negative
    for some predictions.
    """

    name: ClassVar[str] = "linear"
    task: ClassVar[Task] = "regression"
    sides: ClassVar[Literal[1, 2]] = 2
    slope_bound = 1.0
    curvature_bound = 0.0

    @property
    def value_at_zero(self) -> float:
        return 0.0

    def value(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return z.copy()

    def derivative(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return np.ones_like(z)

    def hessian_weights(self, z: FloatArray, y: FloatArray) -> FloatArray:
        return np.zeros_like(z)

    def clip_targets(self, y: AnyArray) -> FloatArray:
        return np.zeros(np.shape(y))

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(),)


def wide_problem(loss: LinearModelLoss, dim: int, n: int, moments: Moments) -> LinearModelProblem:
    """Return the problem over the unit ball whose features are clipped where one record in ``100 n`` reaches."""
    return LinearModelProblem(loss, DataDomain.l2_ball(dim, record_cap(moments, n)), n, RADIUS)


def rate(k: float, dim: int, n: int, epsilon: float) -> float:
    """Return the private term of the rate, ``D (d/(n epsilon))^(1-1/k)`` for ``G_k = 1``."""
    return DIAMETER * (dim / (n * epsilon)) ** (1 - 1 / k)
