r"""Noisy projected gradient descent with gradients clipped per unit: a record, or everything of one user.

Guarantee
    (epsilon, delta)-DP, neighbors replace one record, or one user with all records (the unit of the promise), or add or
    remove one.
Lemma
    A mean over K units of vectors of length at most C moves by at most ``2C/K`` in l2 when one unit is replaced, at
    every point, whatever the point depends on. A unit is in one batch, which is read in ``steps / batches`` steps;
    Gaussian noise composes adaptively (mu by the root of the sum of squares), batches are disjoint, steps and averages
    are post-processing. The sensitivity is ``2C/K``, K the least number of units in a batch, plus the rounding of sums.
Samples (rate q < 1)
    In every step each unit, a user with all records, takes part with probability q, by coins of its own that are drawn
    afresh and never released (`SampledGaussian`). The sum over those that do, divided by the public ``q n``, never by
    their number, moves by at most ``C/(q n)`` in l2 with a unit's taking part, and a replaced one changes no other's
    coin: users stand in the order of their labels, and a new label moves others by a place, but the law of independent
    coins knows no order. So T steps cost what `PoissonSteps` says.
Added or removed units
    Then their number is private, and one that is declared, n0, stands in its place wherever a plan divides: a sum of
    vectors of length at most C, over n0, moves by at most ``C/n0`` when one joins it. The sum is over exact multiples
    of a grid, so others' roundings stay as they are; it is cut to ``1000 C`` (a projection onto a ball, which brings no
    two points farther apart), so that roundings of the sum are at most `ROUNDING` times that. All units, one batch.
Assumptions
    The number of units is public, or a declared one; C, steps and step size are functions of public numbers. Records
    are put into batches by position, users by a uniform permutation (coins of their own): its law does not change when
    a user's label does.
Steps and bounds (docs, Noisy gradient descent and Clipped users)
    Typical steps measure gradients divided by D, `gaussian_block_weights`: the lemma is about ``D^-1 g``, and g gets
    noise of deviation ``sigma D``. Others have the bound of `accelerated_sgd`; plain ones average half of the points.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, attributes, final_dataclass
from dpconvex.algorithms import PredictedError, PrivateResult, StatedPlan, check_average, in_units, recorded
from dpconvex.algorithms.erm.accelerated_sgd import Descent, Stage, balanced_stage
from dpconvex.algorithms.erm.gradient_descent import typical_steps
from dpconvex.algorithms.erm.gradient_descent.gradients import Clipping, Gradient, mean_gradients, sampled_gradient
from dpconvex.algorithms.erm.gradient_descent.typical_steps import Steps
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import gaussian_block_weights
from dpconvex.mechanisms import GaussianMechanism, Planned, SampledGaussian
from dpconvex.privacy import Assumption, Ledger, Neighboring, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.events.subsampled import LEAST_DELTA, LEAST_RATE, largest_contribution
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.problems.base import ROUNDING
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball

LABEL = "mean clipped gradient"
TAIL = 0.5  #: Share of the iterates that plain steps average: the last half.
DRIFT = 0.15  #: Deviation of the last point of accelerated steps without curvature, over ``sigma T^1.5 / Gamma``.
SPARSE = 1.5  #: Factor on what is expected of classes of words, twice of which may be lost (`benchmarks/texts.py`).
FAR = 30.0  #: Radius of the ball for typical steps, over the comparator's norm: it only keeps numbers finite.
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


@dataclass(frozen=True)
class NoisyGradientPlan(StatedPlan):
    """Constants of one run of noisy gradient descent in the ball of the problem's radius; a unit is what is clipped."""

    clip: float  #: Length C to which a unit's gradient is cut
    batches: int  #: Disjoint batches of units, taken in turn; 1: all units in every step
    steps: int  #: T, a multiple of `batches`
    step_size: float  #: eta of plain steps
    gamma: float | None  #: Gamma of accelerated steps; None: plain steps
    #: Noise of one gradient. Its sensitivity is that to a replaced unit or, with samples, to a unit's taking part.
    mechanism: GaussianMechanism
    bound: float  #: Upper bound of the expected excess mean loss
    trivial: float  #: Most excess mean loss of the zero vector
    rests_on: str  #: The assumptions under which the bound is proved, or that it is an estimate
    l2: float = 0.0  #: Ridge weight; its gradient needs no noise
    typical: Steps | None = None  #: Steps with momentum, chosen for typical data; None: steps with a proved bound
    #: D of one output (dim,), by which gradients are divided before they are cut; None: they are not divided.
    deviations: Floats | None = None
    expected: float | None = None  #: Expected excess mean loss on typical data
    rate: float = 1.0  #: Probability with which a unit takes part in a step; 1: every unit of the batch does
    neighbors = tuple(Neighboring)  # pyright: ignore[reportAssignmentType]
    noise_name = "gaussian"
    constants = "calibrated"
    algorithm: ClassVar[str] = "noisy_gradient"

    @property
    def ball(self) -> L2Ball:
        """The ball onto which parameters are projected after every step."""
        return L2Ball(self.problem.radius * (1.0 if self.typical is None else FAR))

    @cached_property
    def clipping(self) -> Clipping:
        """How a unit's gradient is measured and cut."""
        return Clipping(self.problem, self.clip, self.deviations)

    @property
    def predicted_error(self) -> PredictedError:
        source = f"noisy projected gradient descent; {self.rests_on}"
        proved = not self.rests_on.startswith("an estimate")
        words = "sparse" in {block.values for block in self.problem.domain.blocks}
        caution = SPARSE if words and self.problem.loss.task == "classification" else 1.0
        return PredictedError(self.bound, self.trivial, source, expected=self.expected, proved=proved, caution=caution)

    @property
    def sampled(self) -> SampledGaussian | None:
        """The mechanism of all steps on samples; None where steps read whole batches."""
        return SampledGaussian(self.mechanism, self.rate, self.steps) if self.rate < 1 else None

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {LABEL: self.mechanism if self.sampled is None else self.sampled}

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """The releases of all gradients: one entry for each batch, or one for all samples."""
        if self.sampled is not None:
            return (self.sampled.planned(LABEL),)
        times = self.steps // self.batches
        return tuple(replace(self.mechanism.planned(LABEL, block), times=times) for block in self.blocks)

    @property
    def only_sums(self) -> bool:
        whole = self.batches == 1 and (self.rate == 1 or not self.problem.grouped)
        return whole and self.problem.only_sums  # batches are records by their position, samples users by theirs

    @property
    def blocks(self) -> tuple[str | None, ...]:
        """Names of the disjoint batches; a single None if there is one batch."""
        return (None,) if self.batches == 1 else tuple(f"batch {j + 1}" for j in range(self.batches))

    @property
    def theorem(self) -> str:
        unit = self.privacy.unit
        if self.sampled is not None:
            drawn = f"sums over samples that every {unit} joins with probability q"
            return f"Noisy gradient descent: {drawn}, each gradient cut to length C, composed adaptively."
        return f"Noisy gradient descent: mean gradients, each {unit}'s cut to length C, composed adaptively."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        how = "its vector is scaled down to C" if self.clipping.cuts else "C is the Lipschitz constant over the domain"
        where = "" if self.deviations is None else ", each block's part divided by its scale,"
        sizes = Assumption("the number of steps and their size are public", "the plan fixes them; every step is taken")
        drawn = Assumption("batches do not depend on the data", "by position, or by coins apart from data and noise")
        if self.sampled is not None:
            what = f"{self.privacy.unit}s take part independently with the stated rate, and who did stays secret"
            drawn = Assumption(what, "coins of the session that adds the noise; sums are divided by rate times n")
        return (Assumption(f"every {self.privacy.unit}'s gradient{where} has length at most C", how), sizes, drawn)

    @property
    def coefficient_deviation(self) -> Floats:
        """Deviation (dim,) of the released point from noise alone, as if the loss had no curvature."""
        if self.typical is not None:
            walked = math.sqrt(float(self.typical.response(np.zeros(1))[1][0])) * self.mechanism.sigma
            return np.minimum(walked * self.clipping.scales, self.problem.radius)
        if self.gamma is None:
            walked = self.step_size * self.mechanism.sigma * math.sqrt(2 * self.steps / 3)
        else:
            walked = DRIFT * self.mechanism.sigma * self.steps**1.5 / self.gamma
        return np.full(self.problem.dim, min(walked, self.problem.radius))

    def describe(self) -> Mapping[str, Any]:
        facts: dict[str, Any] = {"noise": self.noise_name, "level": self.clip, "batches": self.batches}
        if self.rate < 1:
            facts["rate"] = self.rate
        facts |= attributes(self, "steps", "step_size", "gamma")
        if self.typical is not None:
            start = np.cumsum([0] + [block.size for block in self.problem.domain.all_blocks[:-1]])
            facts |= attributes(self.typical, "momentum", "averaged")
            facts["block_scales"] = self.clipping.scales[start].tolist()
        return facts

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        released = self._on_sample(X, y, groups, source) if self.sampled else self._on_batch(X, y, groups, source)

        def noisy(w: Floats) -> Floats:
            return self.clipping.scales * released(w) + self.l2 * w

        w, total, averaged = np.zeros(self.problem.dim), np.zeros(self.problem.dim), math.ceil(TAIL * self.steps)
        if self.typical is not None:
            return self.finish(self.typical.minimize(w, noisy, self.ball.project), source)
        if self.gamma is not None:
            descent = Descent((Stage(self.steps, self.gamma),), 0.0, self.bound)
            return self.finish(descent.minimize(w, noisy, self.ball.project)[0], source)
        for t in range(self.steps):
            if t >= self.steps - averaged:  # the mean is of the points where gradients are taken
                total += w
            w = self.ball.project(w - self.step_size * noisy(w))
        return self.finish(total / averaged, source)

    def _on_batch(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> Gradient:
        """Return the function that releases a noisy mean gradient, of the batches in turn."""
        ledger = Ledger(self.privacy, self.releases)
        gradients = mean_gradients(self.clipping, self.batches, X, y, groups, source)
        turn = iter(range(self.steps))

        def released(w: Floats) -> Floats:
            j = next(turn) % self.batches
            return self.mechanism.release(gradients[j](w), LABEL, source, ledger, self.blocks[j])

        return released

    def _on_sample(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> Gradient:
        """Return the function that releases a noisy gradient of a fresh, secret sample of units at each call."""
        assert self.sampled is not None
        session = self.sampled.start(self.problem.n, LABEL, source, Ledger(self.privacy, self.releases))
        gradient = sampled_gradient(self.clipping, self.rate, X, y, groups)
        return lambda w: session.release(partial(gradient, w))


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
