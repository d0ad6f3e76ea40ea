"""Predicted errors of plans, and how far noise moves coefficients: statements for reports, from public facts."""

import math
from dataclasses import dataclass

import numpy as np

from dpconvex._types import Floats

REACHED = 0.95  # Level of the quantiles in `ConvexPlan.noise_reach`
SIMULATION = (0x6E6F6973, 0x65207265)  # Public seed of the simulation for `noise_reach`; any value would do


@dataclass(frozen=True)
class PredictedError:
    """The predicted error of a plan, from public facts alone."""

    #: Bound on the expected excess mean loss against every parameter vector of norm at most the problem's radius
    #: (tilted problems: excess tilted loss). Exact for the planned constants.
    bound: float
    trivial: float  #: Largest loss of predicting with the zero vector
    source: str  #: The statement that gives the bound
    #: Claim of the paper's theorem for this class of problems with the paper's constants; None if there is no claim or
    #: its conditions fail. For comparison only: some of these claims are loose, some false (see Errata).
    printed: float | None = None
    #: Expected excess on ordinary data (`typical`): a guess, not a bound. None if there is no model of ordinary data.
    expected: float | None = None
    #: Whether `bound` is a proved bound under the statement of `source`; otherwise it is an estimate.
    proved: bool = True
    #: Factor on the expectation when plans for users are compared: below 1 if a run corrects the expectation.
    caution: float = 1.0

    @property
    def vacuous(self) -> bool:
        """Whether the bound says less than predicting with the zero vector: the fit may be worse than a constant."""
        return not self.bound < self.trivial

    @property
    def rank(self) -> float:
        """Key by which plans are compared: the expected error times `caution`, or else the bound."""
        return self.bound if self.expected is None else self.caution * self.expected


def simulations(dim: int) -> tuple[int, np.random.Generator]:
    """Return how many noise vectors to simulate for `noise_reach`, and a public stream apart from any run's noise."""
    return int(np.clip(2_000_000 // dim, 200, 2000)), np.random.default_rng(SIMULATION)


def reach_quantile(moved: Floats) -> Floats:
    """Return upper bounds, right with probability 99 %, on the 95 % quantiles of simulated distances (size, dim)."""
    sure = REACHED + 2.33 * math.sqrt(REACHED * (1 - REACHED) / len(moved))
    return np.quantile(moved, min(sure, 1.0), axis=0, method="higher")
