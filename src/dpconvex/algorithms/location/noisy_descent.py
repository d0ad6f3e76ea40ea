r"""Noisy gradient descent with constant steps on the mean distance to points.

Listing (Haghifam, Steinke and Ullman 2024, Algorithm 3)
    ``z <- project(z - step (g(z) + N(0, sigma^2 I)))`` onto the ball about the center, T times, with
    ``g(z) = (1/n) sum_i (z - x_i) / ||z - x_i||`` and 0 for points at z; the answer is the average of the last
    iterates, or of all.
Guarantee
    mu-GDP (hence (epsilon, delta)) for neighbors that replace one record, given the warm start.
Lemma
    Replacing a record changes one summand of n in ``g(z)``, a vector of length at most 1 before and after. So the mean
    gradient has l2 sensitivity ``2 / n`` at every z, whatever z depends on. T releases of ``mu / sqrt(T)`` each compose
    adaptively to mu; step, projection and the choice of iterates to average are post-processing.
Rounding
    A computed gradient differs from the exact one by at most `weiszfeld.rounding`, on both data sets; the
    sensitivity includes both. Where squared distances underflow the summand is 0: a vector of length at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms.location.base import Booster, Refined, Stage, WarmStart
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.randomness import BitSource
from dpconvex.solvers import weiszfeld

LEMMA = "a mean of n vectors of length at most 1 changes by at most 2/n when one is replaced, plus rounding"
LABEL = "gradient of the mean distance"


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

    def ask(
        self, points: FloatArray, center: FloatArray, z: FloatArray, source: BitSource, ledger: Ledger
    ) -> FloatArray:
        """Release one gradient at ``center + z``, shape (dim,)."""
        return self.mechanism.release(mean_gradient(points, center, z), self.label, source, ledger)

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
        tail: float = 1.0,
    ) -> FloatArray:
        """Take noisy steps inside a ball; return the average of the last iterates, shape (dim,).

        The center is that of the ball, and the first iterate. The ledger must list `release`; `steps` are at most
        `times`, which they are by default. The share `tail` of the iterates, in (0, 1], is averaged.
        """
        steps = self.times if steps is None else steps
        z, kept = np.zeros_like(center), np.zeros_like(center)  # both relative to the center
        averaged = math.ceil(tail * steps)
        for t in range(steps):
            z = into_ball(z - step * self.ask(points, center, z, source, ledger), ball)
            if t >= steps - averaged:
                kept += z
        return center + kept / averaged


def into_ball(offset: FloatArray, radius: float) -> FloatArray:
    """Project onto a ball about 0."""
    return offset * min(1.0, radius / max(float(np.linalg.norm(offset)), math.ulp(0.0)))


def mean_gradient(points: FloatArray, anchor: FloatArray, offset: FloatArray) -> FloatArray:
    """Return the gradient of the mean distance at ``anchor + offset``, with 0 for points that coincide with it; (dim,).

    Differences are taken from the anchor first, which is exact near it.
    """
    return weiszfeld.unit_vector_sums(points, anchor, offset).direction / -len(points)


def gradient_sensitivity(n: int, dim: int, unit: Unit = Unit.RECORD) -> Sensitivity:
    """Return the sensitivity of `mean_gradient`, rounding included; `unit` is what a record stands for."""
    value = _rounding.sum_up((_rounding.ratio_up(2.0, n), 2 * weiszfeld.rounding(n, dim)))
    return Sensitivity(value, "l2", LEMMA, unit=unit)


class GradientStage(Stage):
    """A stage that releases nothing but noisy gradients."""

    gradients: NoisyGradients

    @property
    def mechanisms(self) -> Mapping[str, GaussianMechanism]:
        return {self.gradients.label: self.gradients.mechanism}

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradients.release,)


@final
@dataclass(frozen=True)
class Descent(GradientStage, Booster):
    """Public constants of T noisy steps from a private warm start."""

    gradients: NoisyGradients  #: T of them
    step: float  #: as a multiple of the released effective radius
    tail: float  #: share of the iterates, from the last backwards, that are averaged
    name: ClassVar[str] = "constant_descent"

    @property
    def deviation(self) -> float:
        # The noise seen through the curvature, with what a finite number of steps adds.
        return 1.5 * self.gradients.mechanism.sigma / math.sqrt(self.gradients.times)

    def describe(self) -> Mapping[str, Any]:
        return {
            "boost": self.name,
            "steps": self.gradients.times,
            "step_in_radii": self.step,
            "averaged_share": self.tail,
        }

    def refine(self, points: FloatArray, start: WarmStart, source: BitSource, ledger: Ledger) -> Refined:
        step = self.step * start.radius
        return Refined(self.gradients.descend(points, start.center, start.ball, step, source, ledger, tail=self.tail))


def plan_descent(
    n: int, dim: int, mu: float, *, steps: int, step: float, tail: float = 1.0, unit: Unit = Unit.RECORD
) -> Descent:
    """Plan noisy descent whose steps together spend `mu`."""
    _validate.integer("n", n, at_least=1)
    _validate.integer("steps", steps, at_least=1)
    _validate.real("step", step, above=0.0)
    _validate.real("tail", tail, above=0.0, at_most=1.0)
    return Descent(NoisyGradients.of_mu(LABEL, n, dim, mu, steps, unit), step, tail)
