"""What a plan expects to lose, and how far its noise moves coefficients: statements for reports, from public facts."""

import math
from dataclasses import dataclass

import numpy as np

from dpconvex._types import Floats

REACHED = 0.95  # Level of `ConvexPlan.noise_reach`
SIMULATION = (0x6E6F6973, 0x65207265)  # Seed of its stream; any would do


@dataclass(frozen=True)
class PredictedError:
    """What the plan expects to lose, from public facts alone."""

    #: Bound on the expected excess mean loss against every parameter vector of norm at most the problem's radius
    #: (tilted problems: excess tilted loss). Exact for the planned constants.
    bound: float
    trivial: float  #: What predicting with the zero vector loses at most
    source: str  #: The statement that gives the bound
    #: What the paper's theorem claims for the same class of problems with the paper's constants; None where it has
    #: none or its conditions fail. For comparison: some of these claims are loose, some false (see Errata).
    printed: float | None = None
    #: The excess that ordinary data would have (`typical`): a guess, no bound. None where there is no model of it.
    expected: float | None = None
    #: Whether `bound` is one, under what `source` states. Otherwise it is an estimate that stands in its place.
    proved: bool = True
    #: What the expectation is multiplied by where plans for users are compared: below 1 if a run corrects it.
    caution: float = 1.0

    @property
    def vacuous(self) -> bool:
        """Whether the bound says less than predicting with the zero vector: the fit may be worse than a constant."""
        return not self.bound < self.trivial

    @property
    def rank(self) -> float:
        """What plans are compared by: the expected error times `caution`, or the bound where nothing is expected."""
        return self.bound if self.expected is None else self.caution * self.expected


def simulations(dim: int) -> tuple[int, np.random.Generator]:
    """Return how many noise vectors to simulate for `noise_reach`, and a public stream apart from any run's noise."""
    return int(np.clip(2_000_000 // dim, 200, 2000)), np.random.default_rng(SIMULATION)


def reach_quantile(moved: Floats) -> Floats:
    """Return the 95 % quantiles of simulated distances (size, dim), not below the true ones but for 1 % of chances."""
    sure = REACHED + 2.33 * math.sqrt(REACHED * (1 - REACHED) / len(moved))
    return np.quantile(moved, min(sure, 1.0), axis=0, method="higher")
