r"""Noisy gradient descent on the mean distance to points, and the default last stage of the private geometric median.

Listing (Haghifam, Steinke and Ullman 2024, Algorithm 3; steps and averaging of our own)
    ``z <- project(z - step_t radius (g(z) + N(0, sigma^2 I)))`` onto the ball about the center, T times, with
    ``g(z) = (1/n) sum_i (z - x_i) / ||z - x_i||`` and 0 for points at z; the answer is the average of the last
    iterates. Step sizes fall geometrically: with a constant one, iterates settle only if the released radius is about
    right. Measured, all else equal: excess 50 to 1000 times lower where it is 30 times too large, equal where right.
Guarantee
    mu-GDP (hence (epsilon, delta)) for neighbors that replace one record, given the warm start.
Lemma
    Replacing a record changes one summand of n in ``g(z)``, a vector of length at most 1 before and after. So the mean
    gradient has l2 sensitivity ``2 / n`` at every z, whatever z depends on. T releases of ``mu / sqrt(T)`` each compose
    adaptively to mu; step, projection and *any* choice of iterates to average are post-processing.
Rounding
    A computed gradient differs from the exact one by at most `_unit_vectors.rounding`, on both data sets; the
    sensitivity includes both. Where squared distances underflow the summand is 0: a vector of length at most 1.
Accuracy
    About ``2 sqrt(d) / (n mu)`` radii from the median, whatever T (the noise seen through the objective's curvature).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms.location.base import Booster, WarmStart
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.randomness import BitSource
from dpconvex.solvers import _unit_vectors as unit_vectors

LEMMA = "a mean of n vectors of length at most 1 changes by at most 2/n when one is replaced, plus rounding"
LABEL = "gradient of the mean distance"
REACH = 6.0
"""T first steps are at least so many balls long: then falling ones still cross a wide ball."""


@final
@dataclass(frozen=True)
class NoisyGradients:
    """A fixed number of noisy gradients of one data set, released under one label; the mechanism is for one."""

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
        center: FloatArray,
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

        The center is that of the ball, and the first iterate. The ledger must list `release`; `steps` are at most
        `times`, which they are by default. Step sizes fall geometrically, to the share ``1 / decay`` of the first; the
        share `tail` of the iterates, in (0, 1], is averaged.
        """
        steps = self.times if steps is None else steps
        z, kept = np.zeros_like(center), np.zeros_like(center)  # both relative to the center
        averaged = math.ceil(tail * steps)
        for t, size in enumerate(np.geomspace(step, step / decay, steps)):
            gradient = mean_gradient(points, center, z)
            z = z - size * self.mechanism.release(gradient, self.label, source, ledger)
            z = z * min(1.0, ball / max(float(np.linalg.norm(z)), math.ulp(0.0)))
            if t >= steps - averaged:
                kept += z
        return center + kept / averaged


def mean_gradient(points: FloatArray, anchor: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the gradient of the mean distance at ``anchor + offset``, with 0 for points that coincide with it; (dim,).

    Differences are taken from the anchor first, which is exact near it.
    """
    return unit_vectors.unit_vector_sums(points, anchor, offset).direction / -len(points)


def gradient_sensitivity(n: int, dim: int, unit: Unit = Unit.RECORD) -> Sensitivity:
    """Return the sensitivity of `mean_gradient`, rounding included; `unit` is what a record stands for."""
    value = _rounding.sum_up((_rounding.ratio_up(2.0, n), 2 * unit_vectors.rounding(n, dim)))
    return Sensitivity(value, "l2", LEMMA, unit=unit)


@final
@dataclass(frozen=True)
class Descent(Booster):
    """Public constants of T noisy steps from a private warm start."""

    gradients: NoisyGradients  #: T of them
    step: float  #: the first, as a multiple of the released effective radius; more where the ball is far wider
    decay: float  #: ratio of that step size to the last, at least 1
    tail: float  #: share of the iterates, from the last backwards, that are averaged
    name: ClassVar[str] = "descent"

    @property
    def mechanisms(self) -> Mapping[str, GaussianMechanism]:
        return {self.gradients.label: self.gradients.mechanism}

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradients.release,)

    @property
    def deviation(self) -> float:
        # The noise seen through the curvature, with what a finite number of steps adds.
        return 1.5 * self.gradients.mechanism.sigma / math.sqrt(self.gradients.times)

    def describe(self) -> Mapping[str, Any]:
        return {
            "boost": self.name,
            "steps": self.gradients.times,
            "step_in_radii": self.step,
            "step_decay": self.decay,
            "averaged_share": self.tail,
        }

    def refine(self, points: FloatArray, start: WarmStart, source: BitSource, ledger: Ledger) -> FloatArray:
        last = self.step * start.radius / self.decay
        falling = self.decay > 1  # constant steps (the paper's) stay what they are
        first = max(self.step * start.radius, REACH * start.ball / self.gradients.times if falling else 0.0)
        return self.gradients.descend(
            points, start.center, start.ball, first, source, ledger, decay=first / last, tail=self.tail
        )


def plan_descent(
    n: int,
    dim: int,
    mu: float,
    *,
    steps: int = 20,
    step: float = 1.0,
    decay: float = 30.0,
    tail: float = 0.6,
    unit: Unit = Unit.RECORD,
) -> Descent:
    """Plan noisy descent whose steps together spend `mu`; 20 steps are as good as 100."""
    _validate.integer("n", n, at_least=1)
    _validate.integer("steps", steps, at_least=1)
    _validate.real("step", step, above=0.0)
    _validate.real("decay", decay, at_least=1.0)
    _validate.real("tail", tail, above=0.0, at_most=1.0)
    return Descent(NoisyGradients.of_mu(LABEL, n, dim, mu, steps, unit), step, decay, tail)
