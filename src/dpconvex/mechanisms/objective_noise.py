"""Noise of objective perturbation: a random linear term ``<b, w>/n`` whose bits are never released.

``b`` is real noise, rounded to floats once. By that the gradient moves by at most ``2^-52 |b| / n``, which the slack of
its certificate (`ROUNDING` of the linear term) contains: the solver's point is near the minimizer of the objective with
the real ``b``, as the theorems want it. What is released is that point with a second noise.
"""

import math
from abc import abstractmethod
from fractions import Fraction
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.geometry import FactoredNoise, IndependentNormals, NoiseLaw
from dpconvex.mechanisms.base import Planned, check_norm, exact_as_reals
from dpconvex.mechanisms.gaussian import GaussianMechanism, add_gaussian
from dpconvex.privacy import GaussianObjectivePerturbation, Ledger, PureObjectivePerturbation, Sensitivity
from dpconvex.problems import Factor
from dpconvex.randomness import BitSource, exact, real


class ObjectiveNoise(Planned):
    """The random linear term of a perturbed objective."""

    @abstractmethod
    def _sample(self, outputs: int, source: BitSource) -> Floats:
        """Draw shape (outputs, dim)."""

    @abstractmethod
    def simulate(self, outputs: int, size: int, generator: np.random.Generator) -> Floats:
        """Return `size` simulated terms, (size, outputs * dim): for pictures, not for a run (`real.simulate`)."""

    @final
    def draw(self, outputs: int, label: str, source: BitSource, ledger: Ledger) -> Floats:
        """Record the release of the minimizer, then draw ``b``, shape (outputs * dim,). Secret: it stays in the run.

        The noises of the parameter vectors (softmax classes) are independent; output stands after output.
        """
        _validate.integer("outputs", outputs, at_least=1)
        ledger.record(self.planned(label))
        return self._sample(outputs, source).reshape(-1)


@final_dataclass
class NormObjectiveNoise(ObjectiveNoise):
    """``b`` of density proportional to ``exp(-||b|| / event.scale)``: pure epsilon.

    The output noise that hides the solver's inaccuracy is a separate release, of a `NormNoiseMechanism`.
    """

    norm: NoiseLaw  #: norm of the parameter vector of one output
    event: PureObjectivePerturbation  #: The event fixes the scale of the noise.
    sensitivity: Sensitivity  #: sensitivity of the summed gradients in this norm
    name: ClassVar[str] = "objective perturbation, norm-exponential"
    exact_bits = exact_as_reals

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, self.norm.name)

    def simulate(self, outputs: int, size: int, generator: np.random.Generator) -> Floats:
        return self.event.scale * real.simulate(self.norm, size * outputs, generator).reshape(size, -1)

    def _sample(self, outputs: int, source: BitSource) -> Floats:
        return self.event.scale * real.draw(self.norm, outputs, source)


@final_dataclass(eq=False)
class GaussianObjectiveNoise(ObjectiveNoise):
    """Independent normal ``b``, with a second normal noise on the minimizer inside the same event."""

    # Deviations (dim,) per coordinate of the model, at `event.sigma = 1` (all ones, or `gaussian_block_weights`)
    standard_deviations: Floats
    # The event fixes sigma, and through `rho` the ratio of the solver's radius to the output noise.
    event: GaussianObjectivePerturbation
    sensitivity: Sensitivity  #: sensitivity of the summed gradients: `"l2"` in units of the standard deviations
    factor: Factor | None = None  #: factor F of the term ``F^T b`` with independent b; None: the term is b
    curvature: GaussianMechanism | None = None  #: noise of a curvature at the released parameters, in the same event
    name: ClassVar[str] = "objective perturbation, Gaussian"

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, "l2", "weighted_l2")
        deviations = np.array(self.standard_deviations, dtype=np.float64)
        if deviations.ndim != 1 or not np.isfinite(deviations).all() or not (deviations > 0).all():
            raise InvalidParameterError("standard_deviations", deviations, "must be a vector of positive numbers")
        deviations.setflags(write=False)
        object.__setattr__(self, "standard_deviations", deviations)
        if self.curvature is not None:
            one, mu = self.curvature.event, self.event.curvature_mu
            if Fraction(one.sensitivity) > Fraction(mu) * Fraction(one.sigma):
                raise InvalidParameterError("curvature_mu", mu, "must cover that noise", "Plan them together")
            object.__setattr__(self, "name", f"{self.name}, with a curvature at it")  # one entry names both releases

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the output noise, the only one whose bits are released, is exact."""
        return source.exact and self.event.rho > 0

    def simulate(self, outputs: int, size: int, generator: np.random.Generator) -> Floats:
        normals = generator.standard_normal((size, outputs, len(self.standard_deviations)))
        b = self.event.sigma * self.standard_deviations * normals
        return (b if self.factor is None else self.factor.gradient(b.reshape(-1, b.shape[-1]))).reshape(size, -1)

    def _sample(self, outputs: int, source: BitSource) -> Floats:
        law: NoiseLaw = IndependentNormals(self.standard_deviations)
        return self.event.sigma * real.draw(FactoredNoise(law, self.factor) if self.factor else law, outputs, source)

    def add_output_noise(
        self, minimizer: Floats, standard_deviation: float, label: str, source: BitSource, ledger: Ledger
    ) -> Floats:
        """Release the approximate minimizer with the output noise that the event of `draw` already contains.

        `draw` must have been called, and the minimizer, shape (outputs * dim,), lie within ``rho * standard_deviation /
        2`` of the exact one, for every data set. The release is on a grid whose rounding adds at most ``2**-11`` of the
        solver's radius to it; the noise is enlarged by ``1 + 2**-10`` for that (and by `gaussian.INFLATION` for the
        integers), so ``rho`` stays true.
        """
        _validate.real("standard_deviation", standard_deviation, above=0.0)
        self._check_recorded(label, ledger)
        if self.event.rho <= 0:
            raise InvalidParameterError("rho", self.event.rho, "must be > 0 for output noise", "Plan a solver radius")
        radius = self.event.rho * standard_deviation / 2
        # A coarse grid, since the radius may be tiny: 62 bits of steps must span the coefficients.
        step = exact.spacing(2**10 * radius, standard_deviation, math.sqrt(minimizer.size) * (1 + 1e-12))
        return add_gaussian(minimizer, _rounding.product_up(standard_deviation, 1 + 2**-10), step, source)

    def add_curvature_noise(self, value: Floats, label: str, source: BitSource, ledger: Ledger) -> Floats:
        """Release a sum over records of functions of the *released* parameters, which the event contains.

        A sum at the point where the solver stopped is not covered: given what was released, it depends on all records.
        """
        self._check_recorded(label, ledger)
        if self.curvature is None:
            raise InvalidParameterError("curvature", None, "must be planned for a release of it", "Plan its mechanism")
        return self.curvature._sample(value, source)

    def _check_recorded(self, label: str, ledger: Ledger) -> None:
        if self.planned(label) not in ledger.recorded:
            raise BudgetExceededError(f"release {label!r}: draw() must record it before its output noise")
