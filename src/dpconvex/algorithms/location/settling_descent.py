r"""Noisy gradient descent that finds the size of its steps itself: the default last stage of the geometric median.

Listing
    ``z <- project(z - factor * step_t (g(z) + N(0, sigma^2 I)))`` onto the ball about the center, T times. Steps
    fall from a quarter of the ball to ``step`` released radii in the first 15 %, then by 3. The factor
    begins at 1 and is halved when a released gradient points against the one before by more than noise explains:
    ``<g_t, g_(t-1)> < -quiet``. The answer is the average of the iterates since then, after the first 15 %.
    The halving is Kesten's rule (1958) with a threshold; constants are ours.
Guarantee
    mu-GDP (hence (epsilon, delta)) for neighbors that replace one record, given the warm start: the lemma of
    `noisy_descent` for the gradients; step sizes, factor and the choice of iterates are functions of *released*
    gradients, hence post-processing.
Why
    The released radius may be too large by any factor; iterates that jump across the median meet opposite gradients,
    those that settle gradients of noise: ``quiet = (d + 4 sqrt(d)) sigma^2`` tells (docs, Steps that settle).
Accuracy
    About 2.4 times ``sqrt(d) / (n mu)`` radii from the median (2 is what T averaged gradients can know).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex.algorithms.location.base import Booster, Points, Refined, WarmStart
from dpconvex.algorithms.location.noisy_descent import LABEL, GradientStage, NoisyGradients, into_ball
from dpconvex.privacy import Ledger, Unit
from dpconvex.randomness import BitSource

REACH = 15.0
"""T first steps are so many balls long."""
APPROACH = 0.15
"""Share of the steps that fall from there to the released radius; they are not averaged."""
DECAY = 3.0
"""Ratio of the steps' sizes from there to the end."""
LARGEST, SPREAD = 0.5, 0.05
"""Steps are at most so many released radii, and so small that noise moves iterates by a fraction of a radius."""
SURPRISE = 4.0
"""Standard deviations of a product of two gradients of noise beyond which steps are halved."""


@final
@dataclass(frozen=True)
class SettlingDescent(GradientStage, Booster):
    """Public constants of T noisy steps from a private warm start."""

    gradients: NoisyGradients  #: T of them
    step: float  #: released radii, at the end of the approach
    quiet: float  #: what the product of consecutive gradients must fall below, negative, to halve the steps
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
        before = np.zeros_like(z)
        for t, size in enumerate((*fall, *np.geomspace(last, last / DECAY, T - approach))):
            gradient = self.gradients.ask(points, start.center, z, source, ledger)
            if before @ gradient < -self.quiet:  # of released values, like all that follows
                factor, kept, count = factor / 2, np.zeros_like(z), 0
            before = gradient
            z = into_ball(z - factor * size * gradient, start.ball)
            if t >= approach or T == 1:
                kept, count = kept + z, count + 1
        return Refined(start.center + kept / count, factor)


def plan_settling(n: int, dim: int, mu: float, *, steps: int = 60, unit: Unit = Unit.RECORD) -> SettlingDescent:
    """Plan descent whose steps together spend `mu`; 60 steps are as good as 200."""
    _validate.integer("n", n, at_least=1)
    gradients = NoisyGradients.of_mu(LABEL, n, dim, mu, _validate.integer("steps", steps, at_least=1), unit)
    variance = gradients.mechanism.sigma**2
    quiet = (dim + SURPRISE * math.sqrt(dim)) * variance
    return SettlingDescent(gradients, min(LARGEST, SPREAD / (dim * variance)), quiet)
