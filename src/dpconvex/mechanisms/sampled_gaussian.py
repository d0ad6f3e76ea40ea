r"""The Gaussian mechanism on fresh secret Poisson samples: every unit takes part in a step with the same probability.

The session draws the samples itself, so the rate that is priced (`PoissonSteps`) is the rate at which units are drawn,
and no sample is used twice. Samples are secret: they reach the function whose value is released, and nothing else. A
sample may be empty, and its size must not be used as a divisor: it depends on whether a unit took part.

Gaps between the units of a sample are geometric, ``P(gap > k) = (1 - rate)^k``, drawn from the source's coins in
floats; the event's `RATE_SLACK` covers their rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import FloatArray
from dpconvex.errors import BudgetExceededError
from dpconvex.mechanisms.base import Planned
from dpconvex.mechanisms.gaussian import GaussianMechanism
from dpconvex.privacy import Ledger, PoissonSteps, Sensitivity
from dpconvex.randomness.source import BitSource

Sample = NDArray[np.int64]
"""Positions of units, ascending."""


@final
@dataclass(frozen=True)
class SampledGaussian(Planned):
    """Adaptive noisy sums over secret samples in one run, charged as one release.

    Guarantees
    ----------
    The profile of `PoissonSteps`, provided that a unit that takes part moves the released value by at most
    `step.sensitivity`, and one that does not moves it not at all: that is the algorithm's lemma.

    Parameters
    ----------
    step : GaussianMechanism
        Of one release; its sensitivity is to a unit's taking part, half of what a replaced unit may do.
    rate : float
        Probability of taking part, as `PoissonSteps` has it.
    steps : int
        How many releases, positive.
    """

    step: GaussianMechanism
    rate: float
    steps: int
    name: ClassVar[str] = "Gaussian on secret samples"

    def __post_init__(self) -> None:
        _ = self.event  # its checks are ours

    @property
    def sensitivity(self) -> Sensitivity:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of one release."""
        return self.step.sensitivity

    @property
    def event(self) -> PoissonSteps:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All steps together; the enlarged sensitivity, twice it for two centres, covers rounding to the grid."""
        return PoissonSteps(self.rate, self.steps, self.step.event)

    def exact_bits(self, source: BitSource) -> bool:
        """As the Gaussian mechanism."""
        return self.step.exact_bits(source)

    def start(
        self, units: int, label: str, source: BitSource, ledger: Ledger, block: str | None = None
    ) -> SampledSession:
        """Record all steps, and return the session that takes them.

        Parameters
        ----------
        units : int
            How many there are, a public number.
        label, source, ledger, block
            As in `Mechanism.release`.

        Raises
        ------
        BudgetExceededError
            If the ledger does not list ``planned(label, block)``.
        """
        ledger.record(self.planned(label, block))
        return SampledSession(self, units, source)


@final
class SampledSession:
    """The steps of one run; obtained from `SampledGaussian.start`."""

    def __init__(self, mechanism: SampledGaussian, units: int, source: BitSource) -> None:
        self._mechanism, self._units, self._source = mechanism, units, source
        self._coins = source.generator()  # a stream of its own
        self.left = mechanism.steps

    def release(self, value: Callable[[Sample], FloatArray]) -> FloatArray:
        """Draw a fresh sample and return its value with noise.

        Parameters
        ----------
        value : callable
            From positions of units, shape (m,), m >= 0, ascending, to an array of the mechanism's shape.

        Raises
        ------
        BudgetExceededError
            Beyond the planned number of steps. Nothing is sampled then.
        """
        if self.left < 1:
            raise BudgetExceededError("Gaussian on secret samples: no step of the plan is left")
        self.left -= 1
        return self._noisy(np.asarray(value(self._sample()), dtype=np.float64))

    def _sample(self) -> Sample:
        return poisson_sample(self._units, self._mechanism.rate, self._coins)

    def _noisy(self, value: FloatArray) -> FloatArray:
        return self._mechanism.step._sample(value, self._source)


def poisson_sample(units: int, rate: float, coins: np.random.Generator) -> Sample:
    """Return the positions of the units that take part, each with probability `rate`, ascending.

    Parameters
    ----------
    units : int
        Positive.
    rate : float
        In (0, 1).
    coins : numpy Generator
    """
    size = math.ceil(units * rate + 6 * math.sqrt(units * rate) + 10)
    found = np.cumsum(coins.geometric(rate, size)) - 1
    while found[-1] < units:
        found = np.append(found, found[-1] + np.cumsum(coins.geometric(rate, size)))
    return found[: np.searchsorted(found, units)]
