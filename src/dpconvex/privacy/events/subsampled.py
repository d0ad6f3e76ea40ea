r"""Steps on secret random samples of the units: subsets of a fixed size behind a test, and Poisson samples.

Subsets (`SampledSteps`): each step draws K of n units without replacement, uniformly and afresh, and runs test and
release on them, so nothing is conditioned on having passed (erratum E6). If the mechanism on K units has, for every
pair that differs in one unit, the profile ``t + (1 - t) delta_mu(epsilon)`` (`GuardedGaussianNoise`), the step has,
with ``g = K/n`` (Balle, Barthe and Gaboardi 2018, Theorem 9; docs, User gradients),

    h(e) = g [t + (1 - t) delta_mu(log(1 + (exp(e) - 1)/g))],    h(-e) = 1 - exp(-e) + exp(-e) h(e),    e >= 0

Poisson samples (`PoissonSteps`): every unit takes part with probability q, independently, and the sum over those that
do gets Gaussian noise; a unit adds at most r standard deviations of it.

**Lemma** (docs, Noisy gradient descent). ``P* = (1-q) N(0, 1) + q N(r, 1)`` and ``Q* = (1-q) N(0, 1) + q N(-r, 1)``
dominate every pair of outcomes on data sets with one unit replaced, given the coins of all others.

T adaptive steps are dominated by the T-fold product (Zhu, Dong and Wang 2022, "Optimal accounting of differential
privacy via characteristic function", Theorem 10), on a pessimistic grid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from dpconvex import _rounding, _validate
from dpconvex._types import forwarded
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events.base import Event, inner_event
from dpconvex.privacy.events.basic import GaussianNoise, GuardedGaussianNoise
from dpconvex.privacy.params import Neighboring
from dpconvex.privacy.profiles import charge, largest_mu


def fft_slack(steps: int) -> float:
    """Delta charged because FFTs do not round upwards: they err by 1e-13 (2048 steps) to 1.7e-11 (a million steps)."""
    return max(1e-13, 2e-16 * steps)


@dataclass(frozen=True)
class SampledSteps(Event):
    """`steps` uses of a guarded mean, each on a fresh secret uniform subset of `batch` of `population` units."""

    population: int  #: n
    batch: int  #: K, at most n
    steps: int  #: T
    step: GuardedGaussianNoise  #: one use on K units, with a Gaussian test
    neighboring: ClassVar[Neighboring | None] = Neighboring.REPLACE_ONE
    kind: ClassVar[str] = "sampled_steps"
    claimed_sensitivity = forwarded("step", "sensitivity")  # of one step

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", inner_event("step", self.step, GuardedGaussianNoise))
        _validate.integer("batch", self.batch, at_least=1)
        _validate.integer("steps", self.steps, at_least=1, at_most=MOST_STEPS)
        if not self.batch <= _validate.integer("population", self.population, at_least=1):
            raise InvalidParameterError("batch", self.batch, f"must be at most the population, {self.population}")
        if self.step.score_noise != "gaussian" or self.step.coupling:
            raise InvalidParameterError("step", self.step, "must have a Gaussian test and no coupling")

    @property
    def rate(self) -> float:
        """Probability that a unit takes part in a step, rounded up."""
        return _rounding.ratio_up(self.batch, self.population)

    def delta(self, epsilon: float) -> float:
        charge(self._work / 40)  # the price of looking a value up
        return _delta(epsilon, self.rate, self.step.mu, self.step.failure, self.steps)

    @cached_property
    def _work(self) -> float:
        """Approximate computing that the composition takes (see `charge`); it is counted on first use."""
        mu, rate = self.step.mu, self.rate
        largest, width = _step_grid(rate, mu)
        spread = self.steps * min(rate**2 * math.expm1(min(mu * mu, 50.0)), largest**2)  # variance of the losses
        reach = min(2 * largest * self.steps, spread + 16 * math.sqrt(spread) + 40 * largest)
        work = 5_000 + 1.5 * self.steps + min(largest / width, MOST_POINTS) / 2 + reach / width / 4
        charge(work)
        return work


@dataclass(frozen=True)
class PoissonSteps(Event):
    """`steps` sums with Gaussian noise, each over a fresh secret sample that a unit joins with probability `rate`."""

    rate: float  #: q, at least `LEAST_RATE` and below 1
    steps: int  #: T, positive, at most `MOST_STEPS`
    step: GaussianNoise  #: One step; its sensitivity is the largest length that one unit adds to the sum by taking part
    neighboring: ClassVar[Neighboring | None] = Neighboring.REPLACE_ONE
    kind: ClassVar[str] = "poisson_steps"
    finest: ClassVar[bool] = True
    claimed_sensitivity = forwarded("step", "sensitivity")  # of one step, to a unit's taking part

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", inner_event("step", self.step, GaussianNoise))
        _validate.real("rate", self.rate, at_least=LEAST_RATE, below=1.0)
        _validate.integer("steps", self.steps, at_least=1, at_most=MOST_STEPS)

    def delta(self, epsilon: float) -> float:
        charge(self._work / 40)  # the price of looking a value up
        return poisson_delta(epsilon, self.rate, self.step.mu, self.steps)

    @cached_property
    def _work(self) -> float:
        """Computing that the composition takes (see `charge`); it is counted on first use."""
        largest, width = _poisson_grid(self.rate, self.step.mu, self.steps)
        work = 0.1 * self.steps * 2 * largest / width
        charge(work)
        return work

    def second_opinion(self, delta: float) -> tuple[str, float] | None:
        """Epsilon by ``dp_accounting``'s own privacy-loss distribution of the pair P*, Q*."""
        if not self.step.mu <= 1.25 * MOST_CONTRIBUTION:
            return None
        from dp_accounting.pld import privacy_loss_distribution
        from dp_accounting.privacy_accountant import NeighboringRelation

        how: dict[str, Any] = {"sampling_prob": self.rate, "neighboring_relation": NeighboringRelation.REPLACE_ONE}
        how["value_discretization_interval"] = _poisson_grid(self.rate, self.step.mu, self.steps)[1]
        one = privacy_loss_distribution.from_gaussian_mechanism(1 / self.step.mu * (1 - 1e-15), **how)
        return "PLD of dp-accounting", float(one.self_compose(self.steps).get_epsilon_for_delta(delta))


@lru_cache(maxsize=4096)  # certificates ask for the same values again
def poisson_delta(epsilon: float, rate: float, contribution: float, steps: int) -> float:
    """Return delta of `PoissonSteps` at `epsilon`, rounded up; `contribution` is a unit's, in standard deviations."""
    if not contribution <= 1.25 * MOST_CONTRIBUTION:
        return 1.0
    value = float(_poisson(min(1.0, rate * RATE_SLACK), contribution, steps).get_delta_for_epsilon(epsilon))
    return min(1.0, _rounding.sum_up((value, fft_slack(steps))))


@lru_cache(maxsize=256)
def largest_contribution(rate: float, steps: int, epsilon: float, delta: float) -> float:
    """Return the largest contribution, in standard deviations, whose `poisson_delta` is at most `delta`.

    The result is below the exact value by at most `CLOSE`, relatively, and at most 1.25 times `MOST_CONTRIBUTION`. A
    delta so small that convolutions on a grid cannot tell it from 0 is refused.
    """
    slack = fft_slack(steps)
    if delta < max(LEAST_DELTA, 10 * slack):
        what = f"must be at least {max(LEAST_DELTA, 10 * slack):.3g} for {steps} sampled steps"
        raise InvalidParameterError("delta", delta, what, "Use all records in every step: rate=1")
    aim = delta - 2 * slack  # at nearly the same noise, the profile may be larger by rounding
    mu = largest_mu(epsilon, delta)
    low = high = math.sqrt(math.asinh(mu**2 / (4 * rate**2 * steps)))  # a guess from the variance of the losses
    while poisson_delta(epsilon, rate, low, steps) > aim:
        high, low = low, low * 0.8
    while low == high < MOST_CONTRIBUTION:
        higher = high * 1.25
        low, high = (high, higher) if poisson_delta(epsilon, rate, higher, steps) > aim else (higher, higher)
    while high > low * (1 + CLOSE):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if poisson_delta(epsilon, rate, middle, steps) <= aim else (low, middle)
    return low


RATE_SLACK = 1 + 1e-9  #: Factor on the sampling rate in prices, as the sampler's coins are made of floats
LEAST_DELTA = 1e-11  #: Smallest delta that convolutions on a grid can tell from 0
CLOSE = 1e-4  #: Relative accuracy of `largest_contribution`
MOST_CONTRIBUTION = 4.0
"""Contributions above this many standard deviations are not searched: a unit that takes part is as good as seen."""
LEAST_RATE, MOST_STEPS = 1e-6, 10**6  #: Smallest sampling rate, and largest number of steps, of `PoissonSteps`
ALL_POINTS = 2**20
"""Most grid points for the losses of all steps together: no number in a certificate may make its check take minutes."""


def _poisson_grid(rate: float, r: float, steps: int) -> tuple[float, float]:
    """As `_step_grid`: ten points in a standard deviation of a step's loss, or fewer where `ALL_POINTS` demands it."""
    loss = min(r * (r + 9.5), 50.0)  # largest loss of a step in which the unit surely takes part
    largest = math.log1p(rate * math.expm1(loss)) - math.log(1 - rate + rate * math.exp(-loss))
    fine = min(1e-3, rate * math.sqrt(math.sinh(min(r * r, 20.0))) / 10)
    return largest, max(fine, steps * largest / ALL_POINTS)


@lru_cache(maxsize=64)
def _poisson(rate: float, r: float, steps: int):
    return _self_composed(lambda e: poisson_profile(e, rate, r), *_poisson_grid(rate, r, steps), steps)


def poisson_profile(epsilon: np.ndarray, rate: float, r: float) -> np.ndarray:
    """Return the profile of one step, P* against Q* of the module's docstring, at nonnegative epsilons.

    The likelihood ratio is ``e^epsilon`` at x with ``k y^2 - (1-q)(e^epsilon - 1) y - k e^epsilon = 0``,
    ``y = e^(r x)``, ``k = q e^(-r^2/2)``.
    """
    k, apart = rate * math.exp(-r * r / 2), (1 - rate) * np.expm1(epsilon)
    y = (apart + np.sqrt(np.square(apart) + 4 * k * k * np.exp(epsilon))) / (2 * k)
    x = np.log(y) / r
    with np.errstate(under="ignore"):
        out, first = np.exp(log_ndtr(-x)), np.exp(log_ndtr(r - x))
        second = np.exp(epsilon + log_ndtr(-r - x))
        return np.maximum(rate * (first - second) - apart * out, 0.0) + 1e-13 * (rate * first + (1 + apart) * out)


@lru_cache(maxsize=4096)  # verification plans again and asks for the same values again
def _delta(epsilon: float, rate: float, mu: float, failure: float, steps: int) -> float:
    value = float(_composed(rate, mu, failure, steps).get_delta_for_epsilon(epsilon))
    return min(1.0, _rounding.sum_up((value, fft_slack(steps))))


@lru_cache(maxsize=16)
def _composed(rate: float, mu: float, failure: float, steps: int):
    return _self_composed(lambda e: step_profile(e, rate, mu, failure), *_step_grid(rate, mu), steps)


def _step_grid(rate: float, mu: float) -> tuple[float, float]:
    """Largest loss of a step on a subset that does not count as infinite, and the spacing of the grid of losses."""
    return math.log1p(rate * math.expm1(min(mu * mu / 2 + 9 * mu, 50.0))), min(1e-3, mu / 60)


def _self_composed(profile: Callable[[np.ndarray], np.ndarray], largest: float, grid: float, steps: int):
    """Composition of `steps` equal steps, of a profile given at epsilon >= 0, on a pessimistic grid up to `largest`."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    k = min(math.ceil(largest / grid), MOST_POINTS)
    indices = np.arange(-k, k + 1)
    losses = indices * grid
    above = profile(np.abs(losses))
    with np.errstate(under="ignore"):
        deltas = np.where(losses >= 0, above, -np.expm1(losses) + np.exp(losses) * above)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(grid, indices, np.clip(deltas, 0.0, 1.0))
    one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
    return one.self_compose(steps) if steps > 1 else one


MOST_POINTS = 2**18  #: Most grid points for losses on either side of 0; losses beyond the grid count as infinite.


def step_profile(epsilon: np.ndarray, rate: float, mu: float, failure: float) -> np.ndarray:
    """Return ``h(epsilon)`` of the module's docstring, for nonnegative epsilons."""
    inner = epsilon + np.log1p((rate - 1) * np.exp(-epsilon)) - math.log(rate)
    with np.errstate(under="ignore"):
        first = np.exp(log_ndtr(mu / 2 - inner / mu))
        second = np.exp(inner + log_ndtr(-mu / 2 - inner / mu))
    gaussian = np.maximum(first - second, 0.0) + 1e-13 * first  # charged for rounding
    return rate * (failure + (1 - failure) * gaussian)
