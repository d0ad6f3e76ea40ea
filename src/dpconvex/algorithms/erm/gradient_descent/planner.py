"""Choice of the constants of noisy gradient descent, from public facts. The module `plan` proves what they promise."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import final_dataclass
from dpconvex.algorithms import check_average, in_units, recorded
from dpconvex.algorithms.erm.accelerated_sgd import balanced_stage
from dpconvex.algorithms.erm.gradient_descent import typical_steps
from dpconvex.algorithms.erm.gradient_descent.plan import TAIL, NoisyGradientPlan
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import gaussian_block_weights
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import PrivacyParams, Sensitivity
from dpconvex.privacy.events.subsampled import LEAST_DELTA, LEAST_RATE, largest_contribution
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import LinearModelProblem
from dpconvex.problems.base import ROUNDING

ADDED = "a sum of vectors of length at most C over a declared K changes by at most C/K with one more, plus rounding"
LEMMA = "a mean of K vectors of length at most C changes by at most 2C/K when one is replaced, plus rounding"
SAMPLED_LEMMA = "a record in the sample adds a vector of length at most C/(q n), any other adds none; rounding"
MOST_GIVEN = 10_000  #: Most steps that a caller may ask for if the plan chooses momentum: it tabulates their weights.
MOST_BATCHES = 1024


@final_dataclass
class BoundTuning:
    """Constants for plans that are chosen by their proved bound."""

    most_passes: int = 256  #: Most passes over the data that a plan chooses by itself.
    # The plan takes the fewest steps whose bound is at most this factor above the least bound.
    tolerated_bound: float = 1.05


TUNING_BY_BOUND = BoundTuning()


@recorded("noisy_gradient")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams,
    *, clip: float | None = None, batches: int = 1, steps: int | None = None, step_size: float | None = None,
    accelerated: bool = True, proved: bool = False, l2: float = 0.0, rate: float | None = None,
) -> NoisyGradientPlan:  # fmt: skip
    """Return the plan with the least expected error on typical data, or with the least proved bound.

    Delta must be positive. `clip` is the level C, from public knowledge, in the l2 norm; by default it is the best
    level for typical data, or the Lipschitz constant where the bound decides. With several `batches`, each step reads
    one of `batches` disjoint parts of the data. `steps` is T, at least 2 and a multiple of `batches`; by default as few
    as suffice, at most 256 passes. `step_size` is the eta of plain steps; by default it minimizes the bound.

    The bound decides if `proved` is true, with several batches, with plain steps and with a given step size. Steps are
    then `accelerated` if the loss is smooth and no step size is given. With a ridge of weight `l2`, the excess is
    measured in the regularized loss. `rate` is the probability with which a unit takes part in a step (Poisson
    sampling). By default it is the best of 1 and a few smaller rates on typical data, within the time that rate 1 may
    take; it is 1 for users, who take part with all their records, and where the bound decides.
    """
    check_average(problem, privacy, NoisyGradientPlan.neighbors)
    if privacy.pure:
        remedy = "Use a value far below 1/n, or algorithm='output_perturbation'"
        raise InvalidParameterError("delta", privacy.delta, "must be positive for noisy gradient descent", remedy)
    _validate.integer("batches", batches, at_least=1, at_most=min(problem.n, MOST_BATCHES))
    if problem.private_n and (batches > 1 or (rate is not None and rate < 1)):
        name, value = ("batches", batches) if batches > 1 else ("rate", rate)
        raise InvalidParameterError(name, value, "must be 1 where the number of units is private", "Leave it out")
    _validate.real("l2", l2, at_least=0.0)
    if clip is not None:
        _validate.real("clip", clip, above=0.0)
    elif math.isinf(problem.lipschitz):
        raise InvalidParameterError("loss", problem.loss.name, "has unbounded slopes", "Give a clipping level")
    if steps is not None and _validate.integer("steps", steps, at_least=max(2, batches)) % batches:
        raise InvalidParameterError("steps", steps, f"must be a multiple of batches, {batches}")
    _validate.optional(_validate.real, {"step_size": step_size}, above=0.0)
    setting = _Setting(problem, privacy, batches, l2, accelerated)
    if accelerated and step_size is None and batches == 1 and not proved:
        if steps is not None and steps > MOST_GIVEN:
            raise InvalidParameterError("steps", steps, f"must be at most {MOST_GIVEN}", "Leave it out")
        if rate is not None:
            rates = (_validate.real("rate", rate, at_least=LEAST_RATE, at_most=1.0),)
        else:
            drawn = privacy.delta >= LEAST_DELTA and not problem.private_n and not problem.grouped
            rates = (1.0, *typical_steps.TUNING.sampling_rates) if drawn else (1.0,)
        return setting.typical(clip, steps, rates)
    if rate is not None and rate != 1:
        remedy = "Use rate=1, or leave batches, steps' sizes and bounds alone"
        raise InvalidParameterError("rate", rate, "must be 1 for batches and for proved or plain steps", remedy)
    first = 1 if batches == 1 else 0  # one pass would be one step, and the first point is 0 for all data
    passes = [batches * 2**k for k in range(first, TUNING_BY_BOUND.most_passes.bit_length())]
    found = [setting.tuned(T, clip, step_size) for T in ([steps] if steps else passes)]
    enough = TUNING_BY_BOUND.tolerated_bound * min(option.bound for option in found)
    chosen = next(option for option in found if option.bound <= enough)
    return setting.planned(mechanism=setting.mechanism(chosen.clip, chosen.steps), **vars(chosen))


@dataclass(frozen=True)
class _Option:
    """Constants of a run and their bound; `gamma` is None for plain steps."""

    clip: float
    steps: int
    step_size: float
    gamma: float | None
    bound: float
    rests_on: str = ""


@dataclass(frozen=True)
class _Setting:
    """The public facts that constants and bounds are computed from."""

    problem: LinearModelProblem
    privacy: PrivacyParams
    batches: int
    l2: float
    accelerated: bool

    @cached_property
    def mu(self) -> float:
        """The whole privacy budget, as the mean difference of a Gaussian pair (mu of Gaussian DP)."""
        return largest_mu(self.privacy.epsilon, self.privacy.delta)

    @property
    def least_batch(self) -> int:
        return self.problem.n // self.batches

    def mu_of_step(self, steps: int) -> float:
        return self.mu / math.sqrt(steps // self.batches) * (1 - 1e-12)  # accountants round up

    def planned(self, *, bound: float, **constants: Any) -> NoisyGradientPlan:
        """Return the plan with these constants; its bound is cut to ``2 L R``, which no fit exceeds."""
        L, R = self.problem.lipschitz, self.problem.radius
        bound, trivial = min(bound, 2 * L * R), min(self.problem.trivial, L * R)
        facts: dict[str, Any] = {"problem": self.problem, "privacy": self.privacy, "batches": self.batches}
        return NoisyGradientPlan(**facts, l2=self.l2, bound=bound, trivial=trivial, **constants)

    def mechanism(self, clip: float, steps: int, rate: float = 1.0) -> GaussianMechanism:
        """Return the Gaussian mechanism of one gradient, over all units of a batch or over a sample."""
        problem = self.problem
        if rate == 1:
            value = problem.differing * clip / self.least_batch + 2 * ROUNDING * problem.most_times * clip
            lemma, mu = ADDED if problem.private_n else LEMMA, self.mu_of_step(steps)
        else:
            value = clip / (rate * self.problem.n) + 2 * ROUNDING * clip / rate
            lemma = in_units(SAMPLED_LEMMA, self.privacy)
            mu = largest_contribution(rate, steps, self.privacy.epsilon, self.privacy.delta) * (1 - 1e-12)
        sensitivity = Sensitivity(value * (1 + 1e-12), "l2", lemma, self.privacy.neighboring, self.privacy.unit)
        return GaussianMechanism.of_mu(sensitivity, mu, self.problem.dim)

    def typical(self, clip: float | None, steps: int | None, rates: tuple[float, ...]) -> NoisyGradientPlan:
        """Return the plan with the least expected error on typical data."""
        problem, deviations = self.problem, None
        scales, longest, levels = np.ones(problem.domain.dim), clip or 0.0, ((1.0, 0.0),)
        if clip is None:
            deviations, length = gaussian_block_weights(problem.domain)
            scales, longest = deviations, typical_steps.slope_unit(problem.loss) * length
            levels = typical_steps.typical_levels(problem, 1 / deviations**2)
            shorter = math.sqrt(problem.records_per_user or 1)  # a user's gradient is a mean over all its records
            levels = tuple((level / shorter, cost) for level, cost in levels)
        noise = problem.differing * longest / (problem.n * self.mu) * scales
        chosen = typical_steps.choose(problem, noise, mu=self.mu, levels=levels, steps=steps, l2=self.l2, rates=rates)
        level, T, rate = longest * chosen.level, chosen.steps.count, chosen.rate
        mechanism = self.mechanism(level, T, rate)
        # The noise's variance and, for samples, the variance of a mean of vectors of length at most C.
        variance = float(np.sum(np.square(mechanism.sigma * scales))) * problem.loss.n_outputs
        variance += (1 / rate - 1) / problem.n * (level * float(scales.max())) ** 2
        return self.planned(
            bound=typical_steps.quadratic_bound(chosen.steps, problem, variance, self.l2), clip=level, steps=T,
            step_size=chosen.steps.size, gamma=None, mechanism=mechanism,
            rests_on="an estimate: for quadratic risks of at most half the largest curvature, clipping bias left out",
            typical=chosen.steps, deviations=deviations, expected=chosen.expected, rate=rate,
        )  # fmt: skip

    def tuned(self, steps: int, clip: float | None, step_size: float | None) -> _Option:
        """Return the constants for T steps, with the given step size or the one that minimizes the bound."""
        L = self.problem.lipschitz
        clip = L if clip is None else min(clip, L)
        found = self._excess(clip, steps, step_size)
        if clip >= L:
            where = "on the data" if self.batches == 1 else "on the population"
            return replace(found, rests_on=f"proved {where}")
        bias = 2 * self.problem.radius * (L - clip)
        return replace(found, bound=found.bound + bias, rests_on="with the largest bias that clipping can have")

    def _excess(self, clip: float, steps: int, step_size: float | None) -> _Option:
        """Return the constants and their bound, which leaves out the bias of clipping."""
        problem = self.problem
        L, R = min(clip, problem.lipschitz) + self.l2 * problem.radius, problem.radius
        sigma = problem.differing * clip / (self.least_batch * self.mu_of_step(steps))
        variance = problem.dim * sigma**2 + (L**2 / self.least_batch if self.batches > 1 else 0.0)
        beta = problem.smoothness + self.l2
        if self.accelerated and math.isfinite(beta) and step_size is None:
            # One stage of accelerated steps: the first bound of `accelerated_sgd`, at its best Gamma.
            gamma = balanced_stage(beta, 0.0, R, lambda _: variance, steps).stages[0].gamma
            bound = 2 * gamma * R**2 / (steps * (steps + 1)) + (2 * steps + 1) * variance / (6 * gamma)
            return _Option(clip, steps, 0.0, gamma, bound)
        # Plain steps: R^2/(eta T) + 2 eta V^2 where they are short enough, for kinks with (L^2 + V^2)/2 for V^2.
        largest = 1 / (2 * beta) if math.isfinite(beta) else math.inf
        weight = variance if math.isfinite(beta) else (L**2 + variance) / 2
        eta = min(largest, R / math.sqrt(2 * steps * weight)) if step_size is None else step_size
        if eta > largest:  # longer steps than smoothness allows: the Lipschitz bound still holds
            weight = (L**2 + variance) / 2
        return _Option(clip, steps, eta, None, (R**2 / (2 * eta * steps) + eta * weight) / TAIL)
