"""How the approximate minimiser leaves: with noise that hides how far the solver stopped from the exact one."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.mechanisms import GaussianObjectiveNoise, NormNoiseMechanism
from dpconvex.privacy import Ledger, Release
from dpconvex.randomness import BitSource

MINIMISER, MASK = "minimiser of the perturbed objective", "solver inaccuracy"


class OutputNoise(ABC):
    """Output noise of objective perturbation; its sensitivity is twice the certified solver radius.

    Attributes
    ----------
    deviation : float
        Standard deviation of every coordinate.
    """

    deviation: float

    @property
    @abstractmethod
    def releases(self) -> tuple[Release, ...]:
        """What it costs beyond the release of the minimiser."""

    @abstractmethod
    def exact_bits(self, source: BitSource) -> bool:
        """Whether the noise is exact on a grid."""

    @abstractmethod
    def simulate(self, dim: int, size: int, generator: np.random.Generator) -> FloatArray:
        """Return `size` noise vectors of the law, (size, dim): for pictures, not for a run."""

    @abstractmethod
    def release(self, minimiser: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        """Return the minimiser (dim,) with noise."""


@final
@dataclass(frozen=True)
class SeparateOutput(OutputNoise):
    """Pure noise, charged on its own (Theorem 3: ``epsilon = epsilon_obj + epsilon_out``).

    Parameters
    ----------
    mechanism : NormNoiseMechanism
        In the l2 norm, of sensitivity ``2 gamma / l2``.
    """

    mechanism: NormNoiseMechanism

    @property
    def deviation(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """``scale sqrt(dim + 1)``."""
        return self.mechanism.scale * math.sqrt(self.mechanism.norm.dim + 1)

    @property
    def releases(self) -> tuple[Release, ...]:
        """One release of its own."""
        return (self.mechanism.planned(MASK),)

    def exact_bits(self, source: BitSource) -> bool:
        """As the mechanism."""
        return self.mechanism.exact_bits(source)

    def simulate(self, dim: int, size: int, generator: np.random.Generator) -> FloatArray:
        """As the mechanism has it; its dimension is `dim`."""
        return self.mechanism.simulate(size, generator)

    def release(self, minimiser: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        """Through the mechanism."""
        return self.mechanism.release(minimiser, MASK, source, ledger)


@final
@dataclass(frozen=True)
class JointGaussianOutput(OutputNoise):
    """Gaussian noise priced inside the minimiser's own event (formula 3.3).

    Parameters
    ----------
    noise : GaussianObjectiveNoise
        Its event holds ``rho``, twice the solver radius over this deviation.
    deviation : float
        Of every coordinate.
    """

    noise: GaussianObjectiveNoise
    deviation: float

    @property
    def releases(self) -> tuple[Release, ...]:
        """Nothing more."""
        return ()

    def exact_bits(self, source: BitSource) -> bool:
        """As the noise."""
        return self.noise.exact_bits(source)

    def simulate(self, dim: int, size: int, generator: np.random.Generator) -> FloatArray:
        """Normal numbers, a little wider for the grid of the release."""
        return self.deviation * (1 + 2**-9) * generator.standard_normal((size, dim))

    def release(self, minimiser: FloatArray, source: BitSource, ledger: Ledger) -> FloatArray:
        """Through the noise that the ledger has already recorded."""
        return self.noise.add_output_noise(minimiser, self.deviation, MINIMISER, source, ledger)
