"""The norm-exponential ("K-norm") mechanism: noise of density proportional to ``exp(-||z|| / scale)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.geometry.norms import GroupedNorm, L2Norm, NoiseNorm
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape
from dpconvex.privacy.events import NormExponentialNoise
from dpconvex.privacy.sensitivity import Sensitivity
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class NormNoiseMechanism(Mechanism[FloatArray]):
    """Pure epsilon in any noise norm; the mechanism of output perturbation (in the l2 norm, "l2 Laplace").

    No exact sampler of these densities is known, so noise is drawn in floating point from a cryptographic generator.
    The value is rounded to the grid `input_step` before, for which the sensitivity is enlarged; the release is rounded
    to the coarse grid `output_step`, about a millionth of the scale, after.

    Guarantees
    ----------
    Pure ``epsilon`` for real-valued noise; the two roundings guard the low-order bits, where floats differ from reals.

    Parameters
    ----------
    norm : NoiseNorm
        Of dimension d; values have shape (d,).
    sensitivity : Sensitivity
        In that norm: its ``norm`` is ``norm.name``.
    epsilon : float
        Positive.

    References
    ----------
    Hardt and Talwar 2010, "On the geometry of differential privacy"; in the l2 norm Chaudhuri, Monteleoni and Sarwate
    2011, "Differentially private empirical risk minimization", and Lowy and Razaviyayn, Lemma B.3 (moments).
    """

    norm: NoiseNorm
    sensitivity: Sensitivity
    epsilon: float
    name: ClassVar[str] = "norm-exponential noise"

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, self.norm.name)
        _validate.real("epsilon", self.epsilon, above=0.0)
        _ = self.input_step

    @cached_property
    def scale(self) -> float:
        """Scale of the noise density: enlarged sensitivity over epsilon, rounded up."""
        return _rounding.ratio_up(_grid.enlarged(self.sensitivity.value), self.epsilon)

    @cached_property
    def input_step(self) -> float:
        """Step of the grid to which the value is rounded."""
        stretch = float(self.norm(np.ones(self.norm.dim))) * (1 + 1e-9)
        return _grid.spacing(self.sensitivity.value, self.scale, stretch)

    @cached_property
    def output_step(self) -> float:
        """Step of the grid to which the release is rounded."""
        return _rounding.power_of_two_at_most(self.scale) * _grid.FINENESS

    @property
    def event(self) -> NormExponentialNoise:
        """Enlarged sensitivity over scale."""
        return NormExponentialNoise(_grid.enlarged(self.sensitivity.value), self.scale)

    def exact_bits(self, source: BitSource) -> bool:
        """Never: floats, guarded by two grids."""
        return False

    def _sample(self, value: FloatArray, source: BitSource) -> FloatArray:
        check_shape(value, self.norm.dim)
        centre = _grid.rounded(value, self.input_step)
        return _grid.rounded(centre + self.scale * self.norm.sample(source.generator()), self.output_step)

    @classmethod
    def examples(cls) -> tuple[NormNoiseMechanism, ...]:
        """One for every example of the norms."""
        norms = (*L2Norm.examples(), *GroupedNorm.examples())
        return tuple(cls(norm, Sensitivity(0.3, norm.name, "example"), 0.7) for norm in norms)
