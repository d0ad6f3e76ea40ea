"""The Laplace mechanism, on a grid, with OpenDP's exact discrete sampler."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape
from dpconvex.privacy import NormExponentialNoise, Sensitivity
from dpconvex.randomness import exact
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class LaplaceMechanism(Mechanism[FloatArray]):
    """Independent Laplace noise on every coordinate: pure epsilon, down to the last bit.

    The value is rounded to a public grid, for which the sensitivity is enlarged; discrete Laplace noise on the grid
    has exactly the privacy of the continuous one.

    Parameters
    ----------
    sensitivity : Sensitivity
        In the l1 norm (``"absolute"`` in dimension 1).
    scale : float
        Of the noise, positive; its variance is ``2 scale**2``. Use `calibrate` to get it from epsilon.
    dim : int
        Values have shape (dim,).

    References
    ----------
    Ghosh, Roughgarden and Sundararajan 2012, "Universally utility-maximizing privacy mechanisms".
    """

    sensitivity: Sensitivity
    scale: float
    dim: int
    name: ClassVar[str] = "Laplace"

    def __post_init__(self) -> None:
        _validate.real("scale", self.scale, above=0.0)
        _validate.integer("dim", self.dim, at_least=1)
        check_norm(self.sensitivity, *(("l1", "absolute") if self.dim == 1 else ("l1",)))
        _ = self.step

    @classmethod
    def calibrate(cls, sensitivity: Sensitivity, epsilon: float, dim: int) -> LaplaceMechanism:
        """Return the mechanism that costs `epsilon`."""
        _validate.real("epsilon", epsilon, above=0.0)
        return cls(sensitivity, _rounding.ratio_up(_grid.enlarged(sensitivity.value), epsilon), dim)

    @cached_property
    def step(self) -> float:
        """Step of the grid of values and releases."""
        return _grid.spacing(self.sensitivity.value, self.scale, self.dim)

    @property
    def event(self) -> NormExponentialNoise:
        """Enlarged sensitivity over `scale`, which is the sampler's."""
        return NormExponentialNoise(_grid.enlarged(self.sensitivity.value), self.scale)

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system."""
        return source.exact

    def _sample(self, value: FloatArray, source: BitSource) -> FloatArray:
        check_shape(value, self.dim)
        noisy = exact.discrete_laplace(_grid.to_units(value, self.step), self.scale / self.step, source)
        return _grid.from_units(noisy, self.step)

    @classmethod
    def examples(cls) -> tuple[LaplaceMechanism, ...]:
        """Dimensions 1 and 3."""
        return (
            cls.calibrate(Sensitivity(2.0, "absolute", "example"), 0.5, 1),
            cls.calibrate(Sensitivity(0.01, "l1", "example"), 3.0, 3),
        )
