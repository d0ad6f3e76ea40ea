"""The Laplace mechanism, on a grid, with OpenDP's exact discrete sampler."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape, exact_as_source
from dpconvex.privacy import NormExponentialNoise, Sensitivity
from dpconvex.randomness import BitSource, exact


@final
@dataclass(frozen=True)
class LaplaceMechanism(Mechanism[Floats]):
    """Independent Laplace noise on every coordinate: pure epsilon, down to the last bit.

    The value is rounded to a public grid, for which the sensitivity is enlarged; discrete Laplace noise on the grid has
    exactly the privacy of the continuous one (Ghosh, Roughgarden and Sundararajan 2012).
    """

    sensitivity: Sensitivity  #: in the l1 norm (`"absolute"` in dimension 1)
    scale: float  #: of the noise, positive; its variance is `2 scale**2`. Use `calibrate` to get it from epsilon.
    dim: int  #: values have shape (dim,)
    name: ClassVar[str] = "Laplace"
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("scale", self.scale, above=0.0)
        _validate.integer("dim", self.dim, at_least=1)
        check_norm(self.sensitivity, *(("l1", "absolute") if self.dim == 1 else ("l1",)))
        _ = self.step

    @classmethod
    def calibrate(cls, sensitivity: Sensitivity, epsilon: float, dim: int) -> "LaplaceMechanism":
        """Return the mechanism that costs `epsilon`."""
        _validate.real("epsilon", epsilon, above=0.0)
        return cls(sensitivity, _rounding.ratio_up(exact.enlarged(sensitivity.value), epsilon), dim)

    @cached_property
    def step(self) -> float:
        """Step of the grid of values and releases."""
        return exact.spacing(self.sensitivity.value, self.scale, self.dim)

    @property
    def event(self) -> NormExponentialNoise:
        return NormExponentialNoise(exact.enlarged(self.sensitivity.value), self.scale)

    def simulate(self, size: int, generator: np.random.Generator) -> Floats:
        """Return `size` vectors of about the noise's law, (size, dim): for intervals, not for a run."""
        return generator.laplace(scale=self.scale, size=(size, self.dim))

    def _sample(self, value: Floats, source: BitSource) -> Floats:
        check_shape(value, self.dim)
        noisy = exact.discrete_laplace(exact.to_units(value, self.step), self.scale / self.step, source)
        return exact.from_units(noisy, self.step)
