r"""The Gaussian mechanism, on a grid, with OpenDP's exact discrete sampler.

Why the discrete Gaussian is charged as a continuous one. Let ``D(v, s)`` be the discrete Gaussian on the integers,
mass proportional to ``exp(-(z - v)^2 / (2 s^2))`` for integer ``v``, and ``s^2 = s1^2 + s2^2``. Draw a *continuous*
``y ~ N(v, s1^2)``, then an integer ``z`` with mass proportional to ``exp(-(z - y)^2 / (2 s2^2))``: the second step is
post-processing. Its normalising sum is ``s2 sqrt(2 pi) (1 +- h)``, ``h <= 3 exp(-2 pi^2 s2^2)`` (Poisson summation),
so ``z`` has the mass of ``D(v, s)`` up to a factor ``1 +- 3 h``. The mechanism samples ``s = sigma (1 + 2^-20)`` for
the ``sigma`` of its event, which is at least ``2^20`` steps of the grid; hence ``s2^2 >= 2^21``, and the factor differs
from 1 by less than ``10^-(10^7)`` in any dimension: delta grows by nothing a float could hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.base import Mechanism, check_norm, check_shape
from dpconvex.privacy import GaussianNoise, Sensitivity
from dpconvex.privacy.profiles import gaussian_delta, smallest
from dpconvex.randomness import exact
from dpconvex.randomness.source import BitSource

INFLATION = 1.0 + 2.0**-20
"""What the sampler's standard deviation exceeds the event's by, to pay for the integers."""


@final
@dataclass(frozen=True)
class GaussianMechanism(Mechanism[FloatArray]):
    """Independent normal noise on every coordinate: (epsilon, delta), exact profile.

    Parameters
    ----------
    sensitivity : Sensitivity
        In the l2 norm (``"absolute"`` in dimension 1).
    sigma : float
        Standard deviation, positive; use `calibrate` to get it from a promise.
    dim : int
        Values have shape (dim,).

    References
    ----------
    Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy"; Canonne, Kamath and Steinke
    2020, "The discrete Gaussian for differential privacy".
    """

    sensitivity: Sensitivity
    sigma: float
    dim: int
    name: ClassVar[str] = "Gaussian"

    def __post_init__(self) -> None:
        _validate.real("sigma", self.sigma, above=0.0)
        _validate.integer("dim", self.dim, at_least=1)
        check_norm(self.sensitivity, *(("l2", "absolute") if self.dim == 1 else ("l2",)))
        _ = self.step

    @classmethod
    def calibrate(
        cls, sensitivity: Sensitivity, epsilon: float, delta: float, dim: int, method: str = "analytic"
    ) -> GaussianMechanism:
        """Return the mechanism with the least noise, by the stated method, for a promise.

        Parameters
        ----------
        sensitivity, dim
            As above.
        epsilon : float
            Positive.
        delta : float
            In (0, 1/2).
        method : {"analytic", "zwb"}
            The smallest sigma by the exact profile, or the closed formula of Zhao et al. 2019, Theorem 5, which the
            output-perturbation paper uses: valid for all epsilon, up to 1.4 times larger.
        """
        _validate.real("epsilon", epsilon, above=0.0)
        _validate.real("delta", delta, above=0.0, below=0.5, remedy="Use NormNoiseMechanism for delta=0")
        _validate.choice("method", method, ("analytic", "zwb"))
        distance = _grid.enlarged(sensitivity.value)
        if method == "zwb":
            root = zwb_constant(delta)
            sigma = (root + math.sqrt(root**2 + epsilon)) / (math.sqrt(2) * epsilon) * distance * (1 + 1e-12)
        else:
            sigma = smallest(lambda s: gaussian_delta(epsilon, _rounding.ratio_up(distance, s)) <= delta, distance)
        return cls(sensitivity, sigma, dim)

    @classmethod
    def of_mu(cls, sensitivity: Sensitivity, mu: float, dim: int) -> GaussianMechanism:
        """Return the mechanism that spends `mu`: enlarged sensitivity over standard deviation.

        Parameters
        ----------
        sensitivity, dim
            As above.
        mu : float
            Positive. Independent or adaptive uses compose to the root of the sum of squares.
        """
        _validate.real("mu", mu, above=0.0)
        return cls(sensitivity, _rounding.ratio_up(_grid.enlarged(sensitivity.value), mu), dim)

    @cached_property
    def step(self) -> float:
        """Step of the grid of values and releases."""
        return _grid.spacing(self.sensitivity.value, self.sigma, math.sqrt(self.dim) * (1 + 1e-15))

    @property
    def event(self) -> GaussianNoise:
        """Enlarged sensitivity and `sigma`; the sampler's deviation is larger by `INFLATION`."""
        return GaussianNoise(_grid.enlarged(self.sensitivity.value), self.sigma)

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system."""
        return source.exact

    def simulate(self, size: int, generator: np.random.Generator) -> FloatArray:
        """Return `size` vectors of about the noise's law, (size, dim): for pictures, not for a run."""
        return self.sigma * generator.standard_normal((size, self.dim))

    def _sample(self, value: FloatArray, source: BitSource) -> FloatArray:
        check_shape(value, self.dim)
        return add_gaussian(value, self.sigma, self.step, source)

    @classmethod
    def examples(cls) -> tuple[GaussianMechanism, ...]:
        """Dimensions 1 and 3, both methods."""
        return (
            cls.calibrate(Sensitivity(2.0, "absolute", "example"), 0.5, 1e-6, 1),
            cls.calibrate(Sensitivity(0.01, "l2", "example"), 3.0, 1e-3, 3, "zwb"),
        )


def zwb_constant(delta: float) -> float:
    """``c_delta = sqrt(log((sqrt(1 + 16 delta) + 1) / (8 delta)))``, without cancellation, for delta in (0, 1/2)."""
    if not 0 < delta < 0.5:
        raise InvalidParameterError("delta", delta, "must be > 0 and < 1/2", "Use NormNoiseMechanism for delta=0")
    return math.sqrt(math.log(math.sqrt(1 + 16 * delta) + 1) - math.log(8) - math.log(delta))


def add_gaussian(value: FloatArray, sigma: float, step: float, source: BitSource) -> FloatArray:
    """Round `value`, shape (d,), to the grid and add discrete Gaussian noise of deviation ``sigma * INFLATION``."""
    deviation = _rounding.product_up(sigma, INFLATION) / step  # exact division: the step is a power of two
    return _grid.from_units(exact.discrete_gaussian(_grid.to_units(value, step), deviation, source), step)
