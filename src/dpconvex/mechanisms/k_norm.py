"""The norm-exponential ("K-norm") mechanism: noise of density proportional to ``exp(-||z|| / scale)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm, L2Norm, NoiseNorm
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape
from dpconvex.privacy import NormExponentialNoise, Sensitivity
from dpconvex.randomness import BitSource, exact, real


@final
@dataclass(frozen=True)
class NormNoiseMechanism(Mechanism[FloatArray]):
    """Pure epsilon in any noise norm; the mechanism of output perturbation (in the l2 norm, "l2 Laplace").

    The noise is that of real arithmetic: the release is the sum of the value and of a real noise vector, rounded once
    to the public grid of `step`, however many random bits that takes (`dpconvex.randomness.real`). So the low-order
    bits say nothing, and rounding costs nothing: it is post-processing. The guarantee holds down to the last bit.

    Source: Hardt and Talwar 2010, "On the geometry of differential privacy"; in the l2 norm Chaudhuri, Monteleoni and
    Sarwate 2011, "Differentially private empirical risk minimization", and Lowy and Razaviyayn, Lemma B.3 (moments).
    """

    norm: NoiseNorm  #: of dimension d; values have shape (d,)
    sensitivity: Sensitivity  #: in that norm: its `norm` is `norm.name`
    epsilon: float  #: positive
    name: ClassVar[str] = "norm-exponential noise"

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, self.norm.name)
        if not self.norm.absolute:  # it hides nothing of what is constant over a block
            raise InvalidParameterError("norm", self.norm.name, "must be a norm of the magnitudes of the coordinates")
        _validate.real("epsilon", self.epsilon, above=0.0)
        _ = self.step

    @cached_property
    def scale(self) -> float:
        """Scale of the noise density: sensitivity over epsilon, rounded up."""
        return _rounding.ratio_up(self.sensitivity.value, self.epsilon)

    @cached_property
    def step(self) -> float:
        """Step of the grid of releases, about a millionth of the scale."""
        step = _rounding.power_of_two_at_most(self.scale) * exact.FINENESS
        return exact.checked_step(step, self.sensitivity.value)

    @property
    def event(self) -> NormExponentialNoise:
        return NormExponentialNoise(self.sensitivity.value, self.scale)

    def exact_bits(self, source: BitSource) -> bool:
        return source.exact

    def simulate(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return `size` noise vectors of the law, (size, d): for pictures, not for a run (`real.simulate`)."""
        return self.scale * real.simulate(self.norm, size, generator)

    def _sample(self, value: FloatArray, source: BitSource) -> FloatArray:
        check_shape(value, self.norm.dim)
        # NaN becomes 0, infinity the largest float: clipping coordinates never increases a distance.
        return real.add_noise(np.nan_to_num(value), self.norm, self.scale, self.step, source)

    @classmethod
    def examples(cls) -> tuple[NormNoiseMechanism, ...]:
        norms = (norm for norm in (*L2Norm.examples(), *GroupedNorm.examples()) if norm.absolute)
        return tuple(cls(norm, Sensitivity(0.3, norm.name, "example"), 0.7) for norm in norms)
