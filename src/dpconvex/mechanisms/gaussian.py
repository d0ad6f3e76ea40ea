r"""The Gaussian mechanism, on a grid, with OpenDP's exact discrete sampler; and on fresh secret samples of the units.

The discrete Gaussian is charged as a continuous one of the event's ``sigma``, at least ``2^20`` steps of the grid, for
its own deviation is ``sigma (1 + 2^-20)``: delta grows by nothing a float could hold (docs, Threat model).

On secret Poisson samples every unit takes part in a step with the same probability. The session draws the samples
itself, so the rate that is priced (`PoissonSteps`) is the rate at which units are drawn, and no sample is used twice.
Samples are secret: they reach the function whose value is released, and nothing else. A sample may be empty, and its
size must not be used as a divisor: it depends on whether a unit took part. Gaps between the units of a sample are
geometric, ``P(gap > k) = (1 - rate)^k``, drawn from the source's coins in floats; the event's `RATE_SLACK` covers their
rounding.

A `GaussianBudget` is used a number of times T that is set in the run; its price is one release's, whatever T is.

Guarantee
    All T releases of its session are charged as *one* Gaussian release of ``mu = sensitivity / sigma``, whatever T is.
Lemma
    With ``sigma sqrt(T)`` each of T adaptive releases is dominated, for every history, by the Gaussian pair of
    ``mu / sqrt(T)``; T such compose to the pair of mu (Zhu, Dong and Wang 2022, Theorem 10). The pair does not depend
    on T, so T may be any function of what was released before the session began. It is set once and before the first
    release; a run that stops early gets nothing back.
Sensitivity
    Of each value, `step.sensitivity`: values are stated in units in which it is a constant.
Why no samples
    The profile of T steps on Poisson samples depends on rate and T, and no common pair dominates all choices.
"""

import math
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _progress, _rounding, _validate
from dpconvex._types import Floats, IntArray, final_dataclass, forwarded
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms.base import Mechanism, Planned, check_norm, check_shape, exact_as_source
from dpconvex.privacy import GaussianNoise, Ledger, PoissonSteps, Sensitivity
from dpconvex.privacy.profiles import gaussian_delta, smallest
from dpconvex.randomness import BitSource, exact

Sample = IntArray  #: Positions of the sampled units, ascending.
INFLATION = 1.0 + 2.0**-20  #: Ratio of the sampler's standard deviation to the event's, which pays for integers.


@final_dataclass
class GaussianMechanism(Mechanism[Floats]):
    """Independent normal noise on every coordinate: (epsilon, delta), exact profile.

    Source: Balle and Wang 2018, "Improving the Gaussian mechanism for differential privacy"; Canonne, Kamath and
    Steinke 2020, "The discrete Gaussian for differential privacy".
    """

    sensitivity: Sensitivity  #: sensitivity in the l2 norm (`"absolute"` in dimension 1)
    sigma: float  #: standard deviation of the noise, positive; `calibrate` computes it from a promise
    dim: int  #: values have shape (dim,)
    name: ClassVar[str] = "Gaussian"
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("sigma", self.sigma, above=0.0)
        _validate.integer("dim", self.dim, at_least=1)
        check_norm(self.sensitivity, *(("l2", "absolute") if self.dim == 1 else ("l2",)))
        _ = self.step

    @classmethod
    def calibrate(
        cls, sensitivity: Sensitivity, epsilon: float, delta: float, dim: int, method: str = "analytic"
    ) -> "GaussianMechanism":
        """Return the mechanism with the least noise, by the stated method, for a promise.

        "analytic" is the smallest sigma by the exact profile; "zwb" the closed formula of Zhao et al. 2019, Theorem 5,
        which the output-perturbation paper uses: valid for all epsilon, up to 1.4 times larger.
        """
        _validate.real("epsilon", epsilon, above=0.0)
        _validate.real("delta", delta, above=0.0, below=0.5, remedy="Use NormNoiseMechanism for delta=0")
        _validate.choice("method", method, ("analytic", "zwb"))
        distance = exact.enlarged(sensitivity.value)
        if method == "zwb":
            root = zwb_constant(delta)
            sigma = (root + math.sqrt(root**2 + epsilon)) / (math.sqrt(2) * epsilon) * distance * (1 + 1e-12)
        else:
            sigma = smallest(lambda s: gaussian_delta(epsilon, _rounding.ratio_up(distance, s)) <= delta, distance)
        return cls(sensitivity, sigma, dim)

    @classmethod
    def of_mu(cls, sensitivity: Sensitivity, mu: float, dim: int) -> "GaussianMechanism":
        """Return the mechanism that spends `mu`: enlarged sensitivity over standard deviation.

        Independent or adaptive uses compose to the root of the sum of squares.
        """
        _validate.real("mu", mu, above=0.0)
        return cls(sensitivity, _rounding.ratio_up(exact.enlarged(sensitivity.value), mu), dim)

    @cached_property
    def step(self) -> float:
        """Step of the grid of values and releases."""
        return exact.spacing(self.sensitivity.value, self.sigma, math.sqrt(self.dim) * (1 + 1e-15))

    @property
    def event(self) -> GaussianNoise:
        """Enlarged sensitivity and `sigma`; the sampler's deviation is larger by `INFLATION`."""
        return GaussianNoise(exact.enlarged(self.sensitivity.value), self.sigma)

    def simulate(self, size: int, generator: np.random.Generator) -> Floats:
        """Return `size` vectors of about the noise's law, (size, dim): for pictures, not for a run."""
        return self.sigma * generator.standard_normal((size, self.dim))

    def _sample(self, value: Floats, source: BitSource) -> Floats:
        check_shape(value, self.dim)
        return add_gaussian(value, self.sigma, self.step, source)


def zwb_constant(delta: float) -> float:
    """``c_delta = sqrt(log((sqrt(1 + 16 delta) + 1) / (8 delta)))``, without cancellation, for delta in (0, 1/2)."""
    if not 0 < delta < 0.5:
        raise InvalidParameterError("delta", delta, "must be > 0 and < 1/2", "Use NormNoiseMechanism for delta=0")
    return math.sqrt(math.log(math.sqrt(1 + 16 * delta) + 1) - math.log(8) - math.log(delta))


def add_gaussian(value: Floats, sigma: float, step: float, source: BitSource) -> Floats:
    """Round `value`, shape (d,), to the grid and add discrete Gaussian noise of deviation ``sigma * INFLATION``."""
    deviation = _rounding.product_up(sigma, INFLATION) / step  # exact division: the step is a power of two
    return exact.from_units(exact.discrete_gaussian(exact.to_units(value, step), deviation, source), step)


@final_dataclass
class SampledGaussian(Planned):
    """Adaptive noisy sums over secret samples in one run, charged as one release.

    It has the profile of `PoissonSteps`, provided that a unit that takes part moves the released value by at most
    `step.sensitivity`, and one that does not moves it not at all: that is the algorithm's lemma.
    """

    # The mechanism of one release, whose sensitivity is to one unit's presence: half of that to a replaced unit.
    step: GaussianMechanism
    rate: float  #: probability of each unit to be sampled (`PoissonSteps`)
    steps: int  #: number of releases, positive
    name: ClassVar[str] = "Gaussian on secret samples"
    sensitivity = forwarded("step", "sensitivity")  # of one release
    exact_bits = forwarded("step", "exact_bits")

    def __post_init__(self) -> None:
        _ = self.event  # its checks are ours

    @property
    def event(self) -> PoissonSteps:
        """All steps together; the enlarged sensitivity, twice it for two centers, covers rounding to the grid."""
        return PoissonSteps(self.rate, self.steps, self.step.event)

    def start(self, units: int, label: str, source: BitSource, ledger: Ledger) -> "SampledSession":
        """Record all steps, and return the session that takes them on a public number of units."""
        ledger.record(self.planned(label))
        return SampledSession(self, units, source)


@final
class SampledSession:
    """The steps of one run; obtained from `SampledGaussian.start`."""

    def __init__(self, mechanism: SampledGaussian, units: int, source: BitSource) -> None:
        self._mechanism, self._units, self._source = mechanism, units, source
        self._coins = source.generator()  # a stream of its own
        self.left = mechanism.steps

    def release(self, value: Callable[[Sample], Floats]) -> Floats:
        """Draw a fresh sample and return its value with noise.

        `value` goes from positions of units, shape (m,), m >= 0, ascending, to an array of the mechanism's shape.
        Beyond the planned number of steps `BudgetExceededError` is raised, and nothing sampled.
        """
        if self.left < 1:
            raise BudgetExceededError("Gaussian on secret samples: no step of the plan is left")
        self.left -= 1
        _progress.advance(self, self._mechanism.steps - self.left, self._mechanism.steps)
        return self._noisy(np.asarray(value(self._sample()), dtype=np.float64))

    def _sample(self) -> Sample:
        return poisson_sample(self._units, self._mechanism.rate, self._coins)

    def _noisy(self, value: Floats) -> Floats:
        return self._mechanism.step._sample(value, self._source)


def poisson_sample(units: int, rate: float, coins: np.random.Generator) -> Sample:
    """Return the positions of the sampled units, ascending; each unit is sampled with probability `rate`."""
    size = math.ceil(units * rate + 6 * math.sqrt(units * rate) + 10)
    found = np.cumsum(coins.geometric(rate, size)) - 1
    while found[-1] < units:
        found = np.append(found, found[-1] + np.cumsum(coins.geometric(rate, size)))
    return found[: np.searchsorted(found, units)]


@final_dataclass
class GaussianBudget(Planned):
    """Adaptive noisy values of one run, charged together as `whole`; the run sets their number."""

    whole: GaussianMechanism  #: The mechanism of a single release that spends the whole budget
    name: ClassVar[str] = "Gaussian, its uses counted in the run"
    sensitivity = forwarded("whole", "sensitivity")  # of one value
    event = forwarded("whole", "event")
    exact_bits = forwarded("whole", "exact_bits")

    def each(self, uses: int) -> GaussianMechanism:
        """Return the mechanism of one of `uses` equal releases, with noise rounded up to stay within the budget."""
        root = _rounding.widen_up(math.sqrt(_validate.integer("uses", uses, at_least=1)))
        return GaussianMechanism(self.whole.sensitivity, _rounding.product_up(self.whole.sigma, root), self.whole.dim)

    def start(self, label: str, source: BitSource, ledger: Ledger) -> "GaussianSession":
        """Record the whole budget, and return the session that spends it."""
        ledger.record(self.planned(label))
        return GaussianSession(self, source)


@final
class GaussianSession:
    """The releases of one run; obtained from `GaussianBudget.start`."""

    def __init__(self, budget: GaussianBudget, source: BitSource) -> None:
        self._budget, self._source = budget, source
        self._each: GaussianMechanism | None = None
        self._uses = self._done = 0

    def set_uses(self, uses: int) -> None:
        """Set the number of releases, once, from public facts and earlier releases."""
        if self._each is not None:
            raise BudgetExceededError("Gaussian budget: the number of uses is set already, and cannot be changed")
        self._each, self._uses = self._budget.each(uses), uses

    def release(self, value: Floats) -> Floats:
        """Return a value, shape (dim,), with noise; raise `BudgetExceededError` beyond the number that was set."""
        if self._each is None or self._done >= self._uses:
            raise BudgetExceededError("Gaussian budget: no use is left, or their number is not set yet")
        check_shape(value, self._budget.whole.dim)
        self._done += 1
        _progress.advance(self, self._done, self._uses)
        return self._noisy(self._each, value)

    def _noisy(self, each: GaussianMechanism, value: Floats) -> Floats:
        return each._sample(value, self._source)
