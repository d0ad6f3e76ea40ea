"""The Laplace mechanism, on a grid, with OpenDP's exact discrete sampler; and its form of bounded support."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape, exact_as_source
from dpconvex.privacy import BoundedLaplaceNoise, NormExponentialNoise, Sensitivity
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


@final
@dataclass(frozen=True)
class BoundedLaplaceMechanism(Mechanism[Floats]):
    """Discrete Laplace noise on a grid, drawn anew until it is at most `bound`: (epsilon, delta).

    A test with such noise is certain to be right where it answers "yes". The number of draws depends on the noise
    alone. Epsilon is the enlarged sensitivity over the scale; delta is the probability of the strip at the end of the
    support, see `BoundedLaplaceNoise`.

    Source: Kumar, Liu, Tian and Yang 2025, "Private geometric median in nearly-linear time", Fact 3.
    """

    sensitivity: Sensitivity  #: `"absolute"`
    scale: float  #: of the noise before conditioning, positive
    bound: float  #: largest absolute value of the noise, at least twice the sensitivity and the scale
    name: ClassVar[str] = "bounded Laplace"
    dim: ClassVar[int] = 1
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("scale", self.scale, above=0.0)
        check_norm(self.sensitivity, "absolute")
        _validate.real("bound", self.bound, at_least=2 * max(self.sensitivity.value, self.scale))
        _ = self.step

    @classmethod
    def calibrate(cls, sensitivity: Sensitivity, epsilon: float, delta: float) -> "BoundedLaplaceMechanism":
        """Return the mechanism that costs `epsilon` and at most `delta`, with the bound of Fact 3, ``log(4/delta)``.

        Epsilon is at most 2: beyond ``log 9`` this bound is too short.
        """
        _validate.real("epsilon", epsilon, above=0.0, at_most=2.0)
        _validate.real("delta", delta, above=0.0, below=0.5)
        scale = _rounding.ratio_up(exact.enlarged(sensitivity.value), epsilon)
        return cls(sensitivity, scale, _rounding.widen_up(scale * math.log(4 / delta)))

    @cached_property
    def step(self) -> float:
        return exact.spacing(self.sensitivity.value, self.scale, 1.0)

    @property
    def event(self) -> BoundedLaplaceNoise:
        return BoundedLaplaceNoise(exact.enlarged(self.sensitivity.value), self.scale, self.bound)

    def _sample(self, value: Floats, source: BitSource) -> Floats:
        check_shape(value, 1)
        most = math.floor(self.bound / self.step)
        while True:
            noise = exact.discrete_laplace(np.zeros(1, dtype=np.int64), self.scale / self.step, source)
            if abs(int(noise[0])) <= most:
                return exact.from_units(exact.to_units(value, self.step) + noise, self.step)
