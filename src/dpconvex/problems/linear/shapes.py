"""What a plan may expect of shapes, one a column: the quadratic model of (4.1). Privacy never rests on it.

Model (docs, Additive models, section 4)
    A block's values at its vertices have mean 0 and a public covariance; numeric columns are a straight line that
    reaches one logit at the ends plus a Brownian motion. Records fall on vertices as a public law says. What a motion
    does between two knots no vertex can follow: it counts as bias, less of it the more knots there are, and so public
    facts decide between few knots, which carry little noise, and many. Curvatures spread as in `expected_risk`.
Directions
    Those of each block in which both curvature and ridge are diagonal, in the new coordinates v of ``w = F v``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg import block_diag, eigh

from dpconvex._types import FloatArray
from dpconvex.losses import LinearModelLoss
from dpconvex.problems.data.factor import Factor
from dpconvex.problems.linear.expected_risk import ORDINARY, TypicalData, surrogate_excess, typical_curvature

LEAST = 1e-9
"""Curvature of a direction in which no record is expected, relative to the largest of its block."""


@final
@dataclass(frozen=True, eq=False)
class ExpectedShapes:
    """What is expected of each block of a domain, the constant feature included."""

    moments: tuple[FloatArray, ...]  #: Second moments of the block's features about their mean, (d, d)
    signals: tuple[FloatArray, ...]  #: Covariance of the values of its shape, squared logits, (d, d)
    misfit: float  #: Mean square of what shapes do between their knots, squared logits

    def typical(self, loss: LinearModelLoss, factor: Factor, unit: float) -> TypicalShapes:
        """Return the quadratic model of the risk; `unit` is the square of what stands for a logit."""
        kappa, contrasts = typical_curvature(loss), max(1, loss.n_outputs - 1)
        count = ORDINARY.spectrum_quantiles
        spread = np.exp(-np.linspace(0.0, 0.5 + math.log(factor.domain.dim), count))
        spread *= count / spread.sum()
        lost = typical_curvature(loss.usual) / 2 * self.misfit * unit
        curvature, signal, mixing, vectors = [], [], [], []
        for part, moments, values in zip(factor.matrices, self.moments, self.signals, strict=True):
            root = part.toarray()
            h, along = eigh(root.T @ moments @ root)
            back = along.T @ np.linalg.pinv(root)
            curvature.append(np.maximum(h, LEAST * max(h[-1], LEAST)))
            signal.append(np.einsum("ij,jk,ik->i", back, values, back))
            mixing.append(np.square(along))
            vectors.append(root @ along)
        if loss.rates is not None:  # parameters 0 predict the mean then
            signal[-1] = np.zeros_like(signal[-1])
        h, which = np.concatenate(curvature), np.repeat(np.arange(len(curvature)), factor.ranks)
        numbers = np.array(factor.ranks)
        return TypicalShapes(
            np.full(len(h) * count, contrasts / count),
            np.outer(spread, kappa * h).ravel(),
            np.tile(np.concatenate(signal) * unit / contrasts, count),
            np.tile(which, count),
            np.cumsum(numbers) - numbers,
            numbers,
            np.zeros(len(numbers)),
            np.zeros(len(numbers)),
            (0.0 if loss.usual == loss else surrogate_excess(loss, loss.usual)) + lost,
            np.tile(block_diag(*mixing), count),
            block_diag(*vectors),
        )


@final
@dataclass(frozen=True, eq=False)
class TypicalShapes(TypicalData):
    """Quadratic model whose directions mix the coordinates of a block; g directions, r coordinates."""

    mixing: FloatArray  #: Share of each coordinate's variance in each direction, (r, g)
    vectors: FloatArray  #: Each direction as values at the vertices, (dim, r); they come first among the g

    def variances(self, deviations: FloatArray) -> FloatArray:
        return np.square(deviations[..., : len(self.mixing)]) @ self.mixing

    def noise_costs(self, l2: float) -> FloatArray:
        """As for others; noise is as long in each direction as that is at the vertices."""
        length = np.tile(np.square(self.vectors).sum(0), ORDINARY.spectrum_quantiles)
        each = self._weight * length / np.square(self.curvature + l2)
        mean = np.bincount(self.block, length) / np.bincount(self.block)
        return np.bincount(self.block, each) / mean / 2

    def value_deviations(self, l2: float, deviations: FloatArray, output: float) -> FloatArray:
        """Return the deviation of each value (dim,) from a linear term of those (r,) and output noise of deviation."""
        found = self.variances(deviations).reshape(-1, len(self.mixing))
        h = self.curvature.reshape(found.shape)
        mean = (found / np.square(h + l2)).mean(0) + output**2
        return np.sqrt(np.square(self.vectors) @ mean)

    def degrees_of_freedom(self, l2: float) -> FloatArray:
        """Return ``sum h / (h + l2)`` of each block, (m,), of one output."""
        each = self.curvature / (self.curvature + l2) / ORDINARY.spectrum_quantiles
        return np.bincount(self.block, each, minlength=len(self.size))
