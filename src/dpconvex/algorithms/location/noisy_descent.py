r"""Noisy gradient descent on the mean distance to points, with step sizes that settle.

Step sizes fall from a quarter of the ball to a share of the released radius, then by a factor of 3. They are halved,
and averaging begins anew, if a released gradient opposes the one before it by more than noise explains: Kesten's rule
(1958) with a threshold (docs, Geometric median, Steps that settle).

Guarantee
    mu-GDP (hence (epsilon, delta)) for neighbors that replace one record, given the warm start.
Lemma
    Replacing a record changes one summand of n in ``g(z) = (1/n) sum_i (z - x_i) / ||z - x_i||`` (0 for points at z),
    a vector of length at most 1 before and after. So the mean gradient has l2 sensitivity ``2 / n`` at every z,
    whatever z depends on. T releases of ``mu / sqrt(T)`` each compose adaptively to mu; projection, step sizes and the
    choice of iterates to average are functions of *released* gradients, hence post-processing.
Rounding
    A computed gradient differs from the exact one by at most `weiszfeld.rounding`, on both data sets: a unit vector
    errs by ``(d + 6) 2^-53``, their exact sum by less (`summation`, S L = 1). The sensitivity includes both. Where
    squared distances underflow the summand is 0: a vector of length at most 1.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms.base import Releasing
from dpconvex.algorithms.location.base import Booster, Points, Refined, WarmStart
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import Ledger, Release, Sensitivity, Unit
from dpconvex.problems.data import summation
from dpconvex.problems.data.sources.rows import totals
from dpconvex.randomness import BitSource
from dpconvex.solvers import weiszfeld

LEMMA = "a mean of n vectors of length at most 1 changes by at most 2/n when one is replaced, plus rounding"
LABEL = "gradient of the mean distance"

# Constants of `SettlingDescent`:
REACH = 15.0  # T steps of the first size are together this number of balls long
APPROACH = 0.15  # Share of the steps in which sizes fall to the scale of the released radius; they are not averaged
DECAY = 3.0  # Ratio of the step size after this approach to the size at the end
LARGEST, SPREAD = 0.5, 0.05  # Largest step, and by how far noise may move iterates, in released radii
SURPRISE = 4.0  # Steps are halved beyond this number of deviations of the product of two gradients of pure noise


@final_dataclass
class NoisyGradients:
    """A fixed number of noisy gradients, released under one label; the mechanism is that of a single gradient."""

    label: str
    mechanism: GaussianMechanism
    times: int

    @classmethod
    def of_mu(cls, label: str, n: int, dim: int, mu: float, times: int, unit: Unit = Unit.RECORD) -> "NoisyGradients":
        """Calibrate `times` gradients that together spend `mu`."""
        each = mu / math.sqrt(times) * (1 - 1e-12)  # accountants round up
        return cls(label, GaussianMechanism.of_mu(gradient_sensitivity(n, dim, unit), each, dim), times)

    @property
    def release(self) -> Release:
        """The ledger entry of all gradients."""
        return replace(self.mechanism.planned(self.label), times=self.times)

    def ask(self, points: Points, center: Floats, z: Floats, source: BitSource, ledger: Ledger) -> Floats:
        """Release one gradient at ``center + z``, shape (dim,)."""
        return self.mechanism.release(mean_gradient(points, center, z), self.label, source, ledger)


def into_ball(offset: Floats, radius: float) -> Floats:
    """Return the projection onto a ball around 0."""
    return offset * min(1.0, radius / max(float(np.linalg.norm(offset)), math.ulp(0.0)))


def mean_gradient(points: Points, anchor: Floats, offset: Floats) -> Floats:
    """Return the gradient of the mean distance at ``anchor + offset``, (dim,), by exact sums; 0 for points there."""
    parts = totals(points, points, lambda X, _: (weiszfeld.direction_parts(X, anchor, offset),))[0]
    return summation.vector(parts) / -len(points)


def gradient_sensitivity(n: int, dim: int, unit: Unit = Unit.RECORD) -> Sensitivity:
    """Return the sensitivity of `mean_gradient`, rounding included; `unit` is what a record stands for."""
    value = _rounding.sum_up((_rounding.ratio_up(2.0, n), 2 * weiszfeld.rounding(n, dim)))
    return Sensitivity(value, "l2", LEMMA, unit=unit)


class OfGradients(Releasing):
    """A stage or plan that releases only noisy gradients."""

    only_sums = True
    gradients: NoisyGradients

    @property
    def mechanisms(self) -> Mapping[str, GaussianMechanism]:
        return {self.gradients.label: self.gradients.mechanism}

    @property
    def releases(self) -> tuple[Release, ...]:
        return (self.gradients.release,)


@final_dataclass
class SettlingDescent(OfGradients, Booster):
    """Public constants of T noisy steps from a private warm start."""

    gradients: NoisyGradients  #: the T noisy gradients
    step: float  #: step size at the end of the approach, in released radii
    quiet: float  #: steps are halved if the product of consecutive gradients is below minus this
    name: ClassVar[str] = "descent"

    @property
    def deviation(self) -> float:
        return 1.25 * self.gradients.mechanism.sigma / math.sqrt(self.gradients.times)  # noise seen through curvature

    def describe(self) -> Mapping[str, Any]:
        return {"boost": self.name, "steps": self.gradients.times, "step_in_radii": self.step}

    def refine(self, points: Points, start: WarmStart, source: BitSource, ledger: Ledger) -> Refined:
        T, last = self.gradients.times, self.step * start.radius
        approach = math.ceil(APPROACH * T)
        fall = np.geomspace(max(last, REACH * start.ball / T), last, approach, endpoint=False)
        z, kept, count, factor = np.zeros_like(start.center), np.zeros_like(start.center), 0, 1.0
        before, steep = np.zeros_like(z), np.zeros_like(z)
        for t, size in enumerate((*fall, *np.geomspace(last, last / DECAY, T - approach))):
            gradient = self.gradients.ask(points, start.center, z, source, ledger)
            if before @ gradient < -self.quiet:  # of released values, like all that follows
                factor, kept, count, steep = factor / 2, np.zeros_like(z), 0, np.zeros_like(z)
            before = gradient
            z = into_ball(z - factor * size * gradient, start.ball)
            if t >= approach or T == 1:
                kept, count, steep = kept + z, count + 1, steep + gradient
        noise = self.gradients.mechanism.sigma * math.sqrt(len(z) / count)
        return Refined(start.center + kept / count, factor, float(np.linalg.norm(steep / count)) + noise)


def plan_settling(n: int, dim: int, mu: float, *, steps: int = 60, unit: Unit = Unit.RECORD) -> SettlingDescent:
    """Plan descent whose steps together spend `mu`; 60 steps are as good as 200."""
    _validate.integer("n", n, at_least=1)
    gradients = NoisyGradients.of_mu(LABEL, n, dim, mu, _validate.integer("steps", steps, at_least=1), unit)
    variance = gradients.mechanism.sigma**2
    quiet = (dim + SURPRISE * math.sqrt(dim)) * variance
    return SettlingDescent(gradients, min(LARGEST, SPREAD / (dim * variance)), quiet)
