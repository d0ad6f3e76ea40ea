r"""Phases of population localization with output perturbation, and the bound that they prove.

Symbols: m records and level C of a phase, ``lambda`` its ridge weight, tau the solver's radius, beta the noise scale.
These numbers affect utility only (docs, Heavy tails): for any of them, a stage that spends ``e`` has
``beta >= (2C/(lambda m) + 2 tau)/e``. ``Delta`` is `Phase.error` times lambda: noise and bias in root mean square.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from dpconvex._types import final_dataclass
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.algorithms.erm.heavy_tailed.surrogates import Part, Surrogate
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.problems.linear.truncated import Truncation
from dpconvex.sets import ConvexSet, L2Ball


@final_dataclass
class Tuning:
    """Constants that we chose (docs, Heavy tails)."""

    growth: float = 5.0  #: factor of the ridge weight from phase to phase; any value above 2^(2 - 2/k) keeps the rate
    one_level_growth: float = 8.0  #: this factor if all phases cut at one level; any value above 4 keeps the rate
    one_level_start: float = 4.0  #: its first ridge weight over Delta_1/D: the bound is least at 8, the loss at 2 to 4
    accuracy: float = 0.05  #: solver radius in units of C / (lambda m): noise is 5 % larger than for exact minimizers
    smoothing: float = 0.25  #: shift of the minimizer by smoothing kinks, in units of the noise's mean length
    fewest: int = 20  #: least number of records of a phase, unless there is one phase only
    success: float = 0.9  #: probability that a repetition comes within Delta / sqrt(1 - success) (Markov)
    level_shares: tuple[float, float] = (0.3, 0.6)  #: level over G_k (m epsilon / d)^(1/k): for k below 3, else

    def level(self, k: float, bound: float, scale: float) -> float:
        """Return the level for the k-th moment `bound`, `scale` being ``m epsilon / d``: it balances bias and noise."""
        return (self.level_shares[0] if k < 3 else self.level_shares[1]) * bound * scale ** (1 / k)


TUNING = Tuning()


@final_dataclass
class Stage:
    """One output perturbation."""

    radius: float  #: the solver's radius tau
    reach: float  #: sensitivity that the noise is calibrated to, at least 2C/(lambda m) + 2 tau
    share: float = 1.0  #: share of epsilon
    confine: float = math.inf  #: the next stage minimizes, or chooses, within this distance of the release
    side: int = 0  #: number of points along an axis of the net from which the stage chooses


@final_dataclass
class Phase:
    """Constants of one phase: it reads the records ``first, first + step, ...``."""

    first: int
    step: int
    repetitions: int  #: number of interleaved parts that are solved separately
    m: int  #: number of records of a part; at most repetitions - 1 records of the phase are left out
    l2: float  #: ridge weight lambda
    truncation: Truncation  #: level C, ball and smoothing
    stages: tuple[Stage, ...]  #: one stage, or two in the paper's double output perturbation; their shares sum to 1
    error: float  #: bound on the root mean squared distance of a part's release from the phase's population minimizer

    def __post_init__(self) -> None:
        if math.fsum(stage.share for stage in self.stages) > 1:
            raise InvalidParameterError("stages", self.stages, "must have shares that sum to at most 1")
        for stage in self.stages:
            if stage.reach < sensitivity(self.truncation.level, self.l2, self.m, stage.radius):
                raise InvalidParameterError("reach", stage.reach, "must be at least the proven sensitivity")


@final_dataclass
class Schedule:
    """All phases, and the bound on the population risk, in expectation or, by repetitions, with high probability."""

    phases: tuple[Phase, ...]
    bound: float
    price: float = 1.0  #: price of repetitions: the bound over the bound in expectation without them; printed: 1

    def check(self, n: int) -> None:
        """Raise `InvalidParameterError` unless phases read disjoint records of the `n`; privacy rests on it."""
        for a, b in itertools.combinations(self.phases, 2):
            if (a.first - b.first) % math.gcd(a.step, b.step) == 0:
                raise InvalidParameterError("phases", (a, b), "must read disjoint records: other remainders")
        for phase in self.phases:
            if phase.first + (phase.repetitions * phase.m - 1) * phase.step >= n:
                raise InvalidParameterError("phases", phase, f"must read no more than the {n} records")


def sensitivity(level: float, l2: float, m: int, radius: float) -> float:
    """Return ``2C/(lambda m) + 2 tau``, how far the certified minimizer moves, rounded up."""
    return (2 * level / (l2 * m) + 2 * radius) * (1 + 1e-14)


@final_dataclass
class Setting:
    """Facts that all phases share: problem, moments, surrogate, and the set W with its sizes."""

    problem: Any  #: a `LinearModelProblem`, or another problem that the surrogate is for
    epsilon: float
    moments: Moments
    surrogate: Surrogate
    domain: ConvexSet
    diameter: float  #: diameter of W
    reach: float  #: largest distance of a member of W from the first center, the projection of 0
    one: float | None = None  #: level of all phases, if fixed: bound and `moments` are then those of the surrogates

    @classmethod
    def of(
        cls, problem: Any, epsilon: float, moments: Moments, surrogate: Surrogate,
        constraint: ConvexSet | None, one: float | None = None,
    ) -> "Setting":  # fmt: skip
        """Return the setting; without a constraint W is the ball of the problem's radius."""
        R = problem.radius
        if constraint is None:
            return cls(problem, epsilon, moments, surrogate, L2Ball(R), 2 * R, R, one)
        first = constraint.project(np.zeros(problem.dim))
        reach = min(constraint.diameter, constraint.radius + float(np.linalg.norm(first)))
        return cls(problem, epsilon, moments, surrogate, constraint, constraint.diameter, reach, one)

    def truncation(self, level: float, l2: float, shift: float) -> Truncation:
        """Return level and ball, smoothed so that the minimizer moves by `shift` over lambda; 0: not smoothed."""
        # Smoothing lowers every loss by at most smoothing C^2 / 2: the minimizer moves by C sqrt(smoothing / lambda).
        return Truncation(level, self.problem.radius, l2 * (shift / (l2 * level)) ** 2 if shift else 1.0)

    def finest(self, truncation: Truncation, l2: float, m: int) -> float:
        """Return the smallest distance that is certified for every data set."""
        return self.surrogate.finest(self.part(truncation, l2, m))

    def part(self, truncation: Truncation, l2: float, m: int) -> Part:
        """Return the public facts of one minimization."""
        return Part(self.problem, self.domain, truncation, l2, m, self.moments)

    def level(self, m: int) -> float:
        """Return the level for m records, at most the largest possible gradient, at which nothing is cut."""
        scale = m * self.epsilon / self.problem.dim
        level = TUNING.level(self.moments.k, self.moments.bound, scale) if self.one is None else self.one
        return min(level, self.problem.lipschitz)

    def bias(self, level: float, m: int) -> float:
        """Return how far surrogates move the minimizer of m records, times lambda, in root mean square."""
        if self.one is not None or level >= self.problem.lipschitz:
            return 0.0
        mean, square = self.surrogate.bias(self.moments, level)
        return math.sqrt(mean**2 + square / m)

    @property
    def smooths(self) -> bool:
        """Whether kinks are smoothed."""
        return self.surrogate.smooths and isinstance(self.problem.loss, PiecewiseLinearLoss)


def calibrated(
    setting: Setting, failure: float | None = None, scaling: "Callable[[Setting, int], Scaled] | None" = None
) -> Schedule:
    """Return the schedule of the specification, 4.3; with `failure`, the bound holds with this failure probability."""
    n, moments = setting.problem.n, setting.moments
    scaling = scaling or one_release
    first = scaling(setting, max(1, n // 2))
    growth = TUNING.growth if setting.one is None else TUNING.one_level_growth
    if setting.one is None:
        ratio = math.log(growth / 2 ** (1 - 1 / moments.k))
        T = 3 + math.ceil(math.log(max(2 * moments.g1 / first.error, 1.0)) / ratio)
    else:
        T = 1 + math.ceil(math.log2(n) / 4)  # public: 4^(T - 1) is at least sqrt(n)
    while T > 1 and n // 2**T < TUNING.fewest:
        T -= 1
    J = 1 if failure is None else repetitions(failure / T)
    while T > 1 and n // 2**T // J < TUNING.fewest:
        T -= 1
    if n < J:  # fewer parts would fail more often than promised
        what = f"must be at least {J}: so many parts keep the bound with failure probability {failure:g}"
        raise InvalidParameterError("n", n, what, "Use more records or a larger failure probability, or leave it out")
    layout = [(2**t - 1, 2 ** (t + 1)) for t in range(T - 1)] + [(2 ** (T - 1) - 1, 2 ** (T - 1))]
    sizes = [len(range(start, n, step)) // J for start, step in layout]
    scaled = [scaling(setting, m) for m in sizes]
    # Factor on root mean square distances: Markov's inequality, and 3 for `localization.middle`.
    s = 1.0 if failure is None else (1.0 if J == 1 else 3.0) / math.sqrt(1 - TUNING.success)
    start = (1.0 if setting.one is None else TUNING.one_level_start) * s  # balances the bound's two terms
    base = start * scaled[0].error / setting.diameter
    phases = tuple(
        part.phase((begin, step, J), base * growth**t)
        for t, ((begin, step), part) in enumerate(zip(layout, scaled, strict=True))
    )
    bound = phases[0].l2 * setting.reach**2 / 2  # by telescoping over the phases (docs, Heavy tails)
    for now, following in itertools.pairwise(phases):
        bound += following.l2 * (s * now.error) ** 2 / 2
    bound += s * moments.g1 * phases[-1].error
    once = bound if failure is None else calibrated(setting, None, scaling).bound
    return Schedule(phases, bound, bound / once)


def repetitions(failure: float) -> int:
    """Return the smallest odd J whose majority, each succeeding with `Tuning.success`, fails with this probability."""
    J = 1
    while binom.cdf(J // 2, J, TUNING.success) > failure:
        J += 2
    return J


class Scaled(NamedTuple):
    """A phase whose ridge weight is not yet fixed."""

    error: float  #: root mean squared distance from the minimizer, times lambda
    phase: Callable[[tuple[int, int, int], float], Phase]  #: maps layout and ridge weight to the phase


def one_release(setting: Setting, m: int) -> Scaled:
    """Return a phase of one output perturbation; quantities in the unit of parameters are multiplied by lambda."""
    d, level = setting.problem.dim, setting.level(m)
    beta = 2 * (1 + TUNING.accuracy) * level / (m * setting.epsilon)
    shift = TUNING.smoothing * d * beta if setting.smooths else 0.0
    centered = TUNING.accuracy * level / m + shift + setting.bias(level, m) + setting.moments.g2 / math.sqrt(m)
    error = math.hypot(math.sqrt(d * (d + 1)) * beta, centered)

    def phase(layout: tuple[int, int, int], l2: float) -> Phase:
        truncation = setting.truncation(level, l2, shift)
        wanted = TUNING.accuracy * level / (l2 * m)
        radius = max(wanted, setting.finest(truncation, l2, m))
        extra = (radius - wanted) * (1 + 2 * (d + 1))  # what rounding adds; noise follows
        stage = Stage(radius, sensitivity(level, l2, m, radius))
        return Phase(*layout, m, l2, truncation, (stage,), error / l2 + extra)

    return Scaled(error, phase)
