r"""Noisy gradient descent on the mean distance to points: what medians by descent share, whatever their warm start.

Lemma
    Replacing a record changes one summand of n in ``(1/n) sum_i (z - x_i) / ||z - x_i||`` (0 where ``x_i = z``), a
    vector of length at most 1 before and after. So the mean gradient has l2 sensitivity ``2 / n`` at every z, whatever
    z depends on. T releases of ``mu / sqrt(T)`` each compose adaptively to mu; step, projection and *any* choice of
    iterates to average are post-processing.
Rounding
    A computed gradient differs from the exact one by at most `_unit_vectors.rounding`, on both data sets; the
    sensitivity includes both. Where squared distances underflow the summand is 0: a vector of length at most 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.randomness import BitSource
from dpconvex.solvers import _unit_vectors as unit_vectors

LEMMA = "a mean of n vectors of length at most 1 changes by at most 2/n when one is replaced, plus rounding"


@final
@dataclass(frozen=True)
class NoisyGradients:
    """A fixed number of noisy gradients of one data set.

    Parameters
    ----------
    label : str
        Of the releases.
    mechanism : GaussianMechanism
        For one gradient.
    times : int
        How many there are.
    """

    label: str
    mechanism: GaussianMechanism
    times: int

    @classmethod
    def of_mu(cls, label: str, n: int, dim: int, mu: float, times: int, unit: Unit = Unit.RECORD) -> NoisyGradients:
        """Calibrate `times` gradients that together spend `mu`."""
        each = mu / math.sqrt(times) * (1 - 1e-12)  # accountants round up
        return cls(label, GaussianMechanism.of_mu(gradient_sensitivity(n, dim, unit), each, dim), times)

    @property
    def release(self) -> Release:
        """The ledger entry of all of them."""
        return replace(self.mechanism.planned(self.label), times=self.times)

    def descend(
        self,
        points: FloatArray,
        centre: FloatArray,
        ball: float,
        step: float,
        source: BitSource,
        ledger: Ledger,
        *,
        steps: int | None = None,
        decay: float = 1.0,
        tail: float = 1.0,
    ) -> FloatArray:
        """Take noisy steps inside a ball; return the average of the last iterates, shape (dim,).

        Parameters
        ----------
        points : array of shape (n, dim)
        centre : array of shape (dim,)
            First iterate, and centre of the ball.
        ball : float
            Its radius.
        step : float
            First step size.
        source : BitSource
        ledger : Ledger
            It must list `release`.
        steps : int, optional
            At most `times`, which it is by default.
        decay : float
            Ratio of the first step size to the last, at least 1; they fall geometrically.
        tail : float
            Share of the iterates that are averaged, in (0, 1].
        """
        steps = self.times if steps is None else steps
        z, kept = np.zeros_like(centre), np.zeros_like(centre)  # both relative to the centre
        averaged = math.ceil(tail * steps)
        for t, size in enumerate(np.geomspace(step, step / decay, steps)):
            gradient = mean_gradient(points, centre, z)
            z = z - size * self.mechanism.release(gradient, self.label, source, ledger)
            z = z * min(1.0, ball / max(float(np.linalg.norm(z)), math.ulp(0.0)))
            if t >= steps - averaged:
                kept += z
        return centre + kept / averaged


def mean_gradient(points: FloatArray, anchor: FloatArray, offset: FloatArray) -> FloatArray:
    """Gradient of the mean distance at ``anchor + offset``, with 0 for points that coincide with it; shape (dim,).

    Parameters
    ----------
    points : array of shape (n, dim)
    anchor, offset : array of shape (dim,)
        Differences are taken from the anchor first, which is exact near it.
    """
    return unit_vectors.unit_vector_sums(points, anchor, offset).direction / -len(points)


def gradient_sensitivity(n: int, dim: int, unit: Unit = Unit.RECORD) -> Sensitivity:
    """Sensitivity of `mean_gradient`, rounding included.

    Parameters
    ----------
    n, dim : int
        Numbers of records and coordinates.
    unit : Unit
        What a record stands for.
    """
    value = _rounding.sum_up((_rounding.ratio_up(2.0, n), 2 * unit_vectors.rounding(n, dim)))
    return Sensitivity(value, "l2", LEMMA, unit=unit)
