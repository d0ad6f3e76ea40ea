r"""Steps on secret random subsets of the units, test and release amplified together.

Each step draws K of n units without replacement, uniformly and afresh, and runs a whole mechanism on them: the test as
well as the release, so that nothing is conditioned on having passed (the repair of erratum E6 of the user-level paper).
If the mechanism on K units has, for every pair that differs in one unit, the profile ``t + (1 - t) delta_mu(epsilon)``
for ``epsilon >= 0`` (`GuardedGaussianNoise`), then the step has, with ``g = K/n``,

    h(e) = g [t + (1 - t) delta_mu(log(1 + (exp(e) - 1)/g))],    h(-e) = 1 - exp(-e) + exp(-e) h(e),    e >= 0

(Balle, Barthe and Gaboardi 2018, Theorem 9 for replace-one and subsets; the second half is the symmetry of the
relation). h is a privacy profile, so a dominating pair exists, and T adaptive steps are dominated by its T-fold
product, which is computed on a pessimistic grid.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr

from dpconvex import _rounding, _validate
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.events import Event
from dpconvex.privacy.guarded_events import GuardedGaussianNoise

FFT_SLACK = 1e-13
"""Charged to delta: convolutions by FFT err by some 1e-15 and are not rounded upwards."""


@dataclass(frozen=True)
class SampledSteps(Event):
    """`steps` uses of a guarded mean, each on a fresh secret uniform subset of `batch` of `population` units.

    Parameters
    ----------
    population, batch, steps : int
        n, K and T, positive, ``K <= n``.
    step : GuardedGaussianNoise
        One use on K units, with a Gaussian test; a mapping of its fields, as certificates have it, is accepted.
    """

    population: int
    batch: int
    steps: int
    step: GuardedGaussianNoise
    kind: ClassVar[str] = "sampled_steps"

    def __post_init__(self) -> None:
        if isinstance(self.step, dict):
            fields = {name: value for name, value in self.step.items() if name != "kind"}
            object.__setattr__(self, "step", GuardedGaussianNoise(**fields))
        _validate.integer("batch", self.batch, at_least=1)
        _validate.integer("steps", self.steps, at_least=1)
        if not self.batch <= _validate.integer("population", self.population, at_least=1):
            raise InvalidParameterError("batch", self.batch, f"must be at most the population, {self.population}")
        if self.step.score_noise != "gaussian" or self.step.coupling:
            raise InvalidParameterError("step", self.step, "must have a Gaussian test and no coupling")

    @property
    def pure_epsilon(self) -> None:
        """No pure guarantee."""
        return None

    @property
    def parts(self) -> None:
        """None: it is priced alone."""
        return None

    @property
    def claimed_sensitivity(self) -> float:
        """Of one release."""
        return self.step.sensitivity

    def delta(self, epsilon: float) -> float:
        """Profile of the composition, on a pessimistic grid."""
        rate = _rounding.ratio_up(self.batch, self.population)
        value = float(_composed(rate, self.step.mu, self.step.failure, self.steps).get_delta_for_epsilon(epsilon))
        return min(1.0, _rounding.sum_up((value, FFT_SLACK)))

    def to_dict(self) -> dict[str, Any]:
        """Plain fields, the step's as a mapping."""
        return {"kind": self.kind} | asdict(self) | {"step": self.step.to_dict()}


@lru_cache(maxsize=64)
def _composed(rate: float, mu: float, failure: float, steps: int):
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    grid = min(1e-3, mu / 60)
    largest = math.log1p(rate * math.expm1(min(mu * mu / 2 + 9 * mu, 50.0)))
    k = min(math.ceil(largest / grid), MOST_POINTS)
    indices = np.arange(-k, k + 1)
    losses = indices * grid
    above = step_profile(np.abs(losses), rate, mu, failure)
    with np.errstate(under="ignore"):
        deltas = np.where(losses >= 0, above, -np.expm1(losses) + np.exp(losses) * above)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(grid, indices, deltas)
    one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
    return one.self_compose(steps) if steps > 1 else one


MOST_POINTS = 2**18
"""Of the grid of losses, on either side of 0; losses beyond count as infinite."""


def step_profile(epsilon: np.ndarray, rate: float, mu: float, failure: float) -> np.ndarray:
    """Return ``h(epsilon)`` of the module's docstring, for nonnegative values."""
    inner = epsilon + np.log1p((rate - 1) * np.exp(-epsilon)) - math.log(rate)
    with np.errstate(under="ignore"):
        first = np.exp(log_ndtr(mu / 2 - inner / mu))
        second = np.exp(inner + log_ndtr(-mu / 2 - inner / mu))
    gaussian = np.maximum(first - second, 0.0) + 1e-13 * first  # against ourselves
    return rate * (failure + (1 - failure) * gaussian)
