"""Laplace noise of bounded support: a test whose answer "yes" is certain to be true."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape
from dpconvex.privacy import BoundedLaplaceNoise, Sensitivity
from dpconvex.randomness import exact
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class BoundedLaplaceMechanism(Mechanism[FloatArray]):
    """Discrete Laplace noise on a grid, drawn anew until it is at most `bound`: (epsilon, delta).

    The number of draws depends on the noise alone. Epsilon is the enlarged sensitivity over the scale; delta is the
    probability of the strip at the end of the support, see `BoundedLaplaceNoise`.

    Parameters
    ----------
    sensitivity : Sensitivity
        ``"absolute"``.
    scale : float
        Of the noise before conditioning, positive.
    bound : float
        Largest absolute value of the noise, at least twice the sensitivity and the scale.

    References
    ----------
    Kumar, Liu, Tian and Yang 2025, "Private geometric median in nearly-linear time", Fact 3.
    """

    sensitivity: Sensitivity
    scale: float
    bound: float
    name: ClassVar[str] = "bounded Laplace"
    dim: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _validate.real("scale", self.scale, above=0.0)
        check_norm(self.sensitivity, "absolute")
        _validate.real("bound", self.bound, at_least=2 * max(self.sensitivity.value, self.scale))
        _ = self.step

    @classmethod
    def calibrate(cls, sensitivity: Sensitivity, epsilon: float, delta: float) -> BoundedLaplaceMechanism:
        """Return the mechanism that costs `epsilon` and at most `delta`, with the bound of Fact 3, ``log(4/delta)``.

        Parameters
        ----------
        sensitivity : Sensitivity
        epsilon : float
            In (0, 2]: beyond ``log 9`` this bound is too short.
        delta : float
            In (0, 1/2).
        """
        _validate.real("epsilon", epsilon, above=0.0, at_most=2.0)
        _validate.real("delta", delta, above=0.0, below=0.5)
        scale = _rounding.ratio_up(_grid.enlarged(sensitivity.value), epsilon)
        return cls(sensitivity, scale, _rounding.widen_up(scale * math.log(4 / delta)))

    @cached_property
    def step(self) -> float:
        """Step of the grid of values and releases."""
        return _grid.spacing(self.sensitivity.value, self.scale, 1.0)

    @property
    def event(self) -> BoundedLaplaceNoise:
        """Enlarged sensitivity, scale and bound."""
        return BoundedLaplaceNoise(_grid.enlarged(self.sensitivity.value), self.scale, self.bound)

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system."""
        return source.exact

    def _sample(self, value: FloatArray, source: BitSource) -> FloatArray:
        check_shape(value, 1)
        most = math.floor(self.bound / self.step)
        while True:
            noise = exact.discrete_laplace(np.zeros(1, dtype=np.int64), self.scale / self.step, source)
            if abs(int(noise[0])) <= most:
                return _grid.from_units(_grid.to_units(value, self.step) + noise, self.step)

    @classmethod
    def examples(cls) -> tuple[BoundedLaplaceMechanism, ...]:
        """One small instance."""
        return (cls.calibrate(Sensitivity(1.0, "absolute", "example"), 0.9, 1e-3),)
