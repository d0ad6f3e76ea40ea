r"""Accelerated stochastic approximation (AC-SA, Ghadimi and Lan 2012, 2013), one stage or many, for noisy gradients.

It minimizes a convex, L-smooth objective over a convex set by gradients whose error has mean 0 and mean square V^2. The
excess of N steps from distance D is at most ``2 Gamma D^2 / (N (N+1)) + (2 N + 1) V^2 / (6 Gamma)``, ``Gamma >= 2 L``;
with mu-strong convexity and ``Gamma = L`` at most ``2 L D^2 / (N (N+1)) + 8 V^2 / (mu (N+1))``. Short stages and a long
stage: docs, User gradients, after Lemma 3. Many stages, each of which halves the excess: Ghadimi and Lan 2013.

All numbers are fixed before the first step, since the noise of a step depends on the number of steps.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache

from dpconvex._types import Floats, final_dataclass

Oracle = Callable[[Floats], Floats | None]
"""Noisy gradient of the whole objective at a point (dim,); None ends the run (a failed test)."""
Variance = Callable[[int], float]
"""From the number of gradients to the mean square error V^2 of each; infinite if the budget does not allow so many."""
MOST_STEPS = 4096


@final_dataclass
class Stage:
    """N steps, at least 1, with Gamma: L for a single stage, at least 2 L in many."""

    steps: int
    gamma: float


@final_dataclass
class Descent:
    """Stages that minimize an objective of convexity mu >= 0; `excess` bounds the expected excess at the end."""

    stages: tuple[Stage, ...]
    convexity: float
    excess: float

    @property
    def steps(self) -> int:
        """Total number of gradients."""
        return sum(stage.steps for stage in self.stages)

    def minimize(self, start: Floats, oracle: Oracle, project: Callable[[Floats], Floats]) -> tuple[Floats, bool]:
        """Return the last aggregated point (dim,), and whether every step was taken; `start` lies in the set."""
        mu, point = self.convexity, start
        for stage in self.stages:
            x, aggregated = point, point
            for t in range(1, stage.steps + 1):
                alpha, gamma = 2 / (t + 1), 4 * stage.gamma / (t * (t + 1))
                pull = (1 - alpha) * mu + gamma
                middle = ((1 - alpha) * (mu + gamma) * aggregated + alpha * pull * x) / (gamma + (1 - alpha**2) * mu)
                if (gradient := oracle(middle)) is None:
                    return aggregated, False
                x = project((alpha * mu * middle + pull * x - alpha * gradient) / (mu + gamma))
                aggregated = alpha * x + (1 - alpha) * aggregated
            point = aggregated
        return point, True


def single_stage(smoothness: float, convexity: float, distance: float, variance: Variance, steps: int) -> Descent:
    """Plan one stage for a mu-strongly convex objective, mu > 0; `distance` is D, `steps` is N."""
    excess = 2 * smoothness * distance**2 / (steps * (steps + 1)) + 8 * variance(steps) / (convexity * (steps + 1))
    return Descent((Stage(steps, smoothness),), convexity, excess)


def chained_stages(
    smoothness: float, convexity: float, distance: float, variance: Variance, steps: int, short: int
) -> Descent | None:
    """Plan short stages and a long one, for mu > 0; None if the long stage would have less than half of the steps."""
    least = math.ceil(4 * math.sqrt(smoothness / convexity))  # N0
    long = steps - short * least
    if 2 * long < steps:
        return None
    square, excess = variance(steps), convexity * distance**2 / 2
    for N, times in ((least, short), (long, 1)):
        kept, added = 4 * smoothness / (convexity * N * (N + 1)), 8 * square / (convexity * (N + 1))
        for _ in range(times):
            excess = kept * excess + added
    return Descent((Stage(least, smoothness),) * short + (Stage(long, smoothness),), convexity, excess)


def balanced_stage(smoothness: float, convexity: float, distance: float, variance: Variance, steps: int) -> Descent:
    """Plan one stage with the Gamma that is best for the bound without strong convexity; mu may be 0."""
    square, pairs = variance(steps), steps * (steps + 1)
    gamma = max(2 * smoothness, math.sqrt(square * pairs * (2 * steps + 1) / 12) / distance)
    excess = 2 * gamma * distance**2 / pairs + (2 * steps + 1) * square / (6 * gamma) if gamma < math.inf else math.inf
    return Descent((Stage(steps, gamma),), convexity, excess)


def many_stages(smoothness: float, convexity: float, gap: float, variance: Variance, stages: int) -> Descent | None:
    """Plan stages that halve the excess, `gap` at first, for the first total of steps that its noise allows."""
    total, least = 1, 4 * math.sqrt(2 * smoothness / convexity)
    while total <= MOST_STEPS:
        square = variance(total)
        if math.isinf(square):
            return None
        noisy = [128 * square / (3 * convexity * gap * 2.0 ** -(k + 1)) for k in range(1, stages + 1)]
        counts = [math.ceil(max(least, steps)) for steps in noisy]
        if sum(counts) <= total:
            gammas = [
                math.sqrt(convexity * square / (3 * gap * 2.0 ** -(k - 1)) * N * (N + 1) * (N + 2))
                for k, N in enumerate(counts, 1)
            ]
            planned = tuple(Stage(N, max(2 * smoothness, gamma)) for N, gamma in zip(counts, gammas, strict=True))
            return Descent(planned, convexity, gap * 2.0**-stages)
        total = sum(counts)
    return None


def plan_descent(
    smoothness: float, convexity: float, distance: float, gap: float, variance: Variance, lengths: Sequence[int]
) -> Descent:
    """Return the plan of the least bound, among single stages of the given ascending lengths and many stages."""
    variance = cache(variance)
    options = [balanced_stage(smoothness, convexity, distance, variance, steps) for steps in lengths]
    if convexity:
        options += [single_stage(smoothness, convexity, distance, variance, steps) for steps in lengths]
        chains = itertools.product(lengths, range(1, 17))
        found = (chained_stages(smoothness, convexity, distance, variance, *chain) for chain in chains)
        options += [option for option in found if option is not None]
    least = min(option.excess for option in options)
    enough = (option for option in options if option.excess <= 1.02 * least)
    best = min(enough, key=lambda option: option.steps)  # fewer steps where the bound hardly grows
    several: list[Descent] = []
    for stages in range(1, 60 if convexity else 1):
        found = many_stages(smoothness, convexity, gap, variance, stages)
        if found is None or found.steps > lengths[-1]:
            break
        several.append(found)
    return min((best, *several), key=lambda option: option.excess)
