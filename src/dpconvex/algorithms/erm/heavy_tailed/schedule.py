r"""Phases of population localization with output perturbation, and the bound that they prove: ours, and as printed.

Symbols: m records and level C in a phase, ``lambda`` its ridge weight, tau the solver's radius, beta the noise scale.
All of it is utility: whatever these numbers are, a stage that spends ``e`` has ``beta >= (2C/(lambda m) + 2 tau)/e``.

Error of a phase, times lambda (docs, Heavy tails), in root mean square:

    Delta = lambda sqrt(d (d+1)) beta  (+)  [lambda tau + lambda shift + bias + G_2 / sqrt(m)]

where ``(+)`` adds independent zero-mean noise in squares, ``bias^2 = E[mean (A - C)_+]^2 + Var`` and the shift is that
of smoothing kinks. With s = 3 for repetitions (else 1) and ``F`` being ``G_1``-Lipschitz,

    E F(w) - F(w*) <= lambda_1 R^2/2 + s^2 sum_{i<T} lambda_{i+1} (Delta_i / lambda_i)^2 / 2 + s G_1 Delta_T / lambda_T

`paper` returns the constants as printed: localization with *double* output perturbation (Algorithms 1, 2 and 4). The
paper leaves open ``lambda_1`` (here: minimizes the bound), the constant of J (``50 log(T/delta)``, what Hoeffding's
inequality needs) and where to stop (errata E8 to E10). All else is as printed; the noise is 1.9 times larger than
privacy asks for. The bound is that of the docs with the bias repaired (erratum E1) and exact quantiles of the noise
(erratum E3). It is vacuous unless n is in the millions.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

from scipy.stats import binom, gamma

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import PiecewiseLinearLoss
from dpconvex.problems import LinearModelProblem, Objective
from dpconvex.problems.base import Problem
from dpconvex.problems.linear.truncated import Truncation
from dpconvex.problems.objective import ROUNDING, inner_product_rounding


@final
@dataclass(frozen=True)
class Tuning:
    """Numbers of ours (docs, Heavy tails)."""

    growth: float = 5.0  #: of the ridge weight from phase to phase; any value above 2^(2 - 2/k) keeps the rate
    accuracy: float = 0.05  #: solver radius in units of C / (lambda m): noise is 5 % larger than for exact minimizers
    smoothing: float = 0.25  #: shift of the minimizer by smoothing kinks, in units of the noise's mean length
    fewest: int = 20  #: records of a phase, at least, unless there is one phase only
    success: float = 0.9  #: probability that a repetition comes within Delta / sqrt(1 - success) (Markov)
    level_shares: tuple[float, float] = (0.3, 0.6)  #: of G_k (m epsilon / d)^(1/k): for k below 3, and from 3 on

    def level(self, k: float, bound: float, scale: float) -> float:
        """Return the level for the k-th moment `bound`, `scale` being ``m epsilon / d``: it balances bias and noise."""
        return (self.level_shares[0] if k < 3 else self.level_shares[1]) * bound * scale ** (1 / k)


TUNING = Tuning()
MOST_POINTS, MOST_LOSSES = 2**14, 2**30
"""Of a net, and values of losses on it: some ten seconds."""
PRINTED_TAIL = 3.0
"""The paper's zeta (Algorithm 2)."""


class Surrogate(Protocol):
    """How each record's loss is made convex and C-Lipschitz in a phase; public constants."""

    @property
    def level(self) -> float: ...

    def risk(self, problem: Any, X: AnyArray, y: AnyArray, l2: float, center: FloatArray) -> Objective: ...

    def describe(self) -> dict[str, float]: ...


class Surrogates(ABC):
    """A kind of surrogates for the losses of a problem, and what they cost; public."""

    shifts = False  #: Whether kinks are smoothed, which shifts minimizers
    enforced: ClassVar[str]  #: How a record's loss becomes convex and C-Lipschitz, for certificates

    @abstractmethod
    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        """Return bounds on mean and mean square of the slope of a loss less its surrogate."""

    @abstractmethod
    def floor(self, level: float, l2: float, smoothing: float) -> float:
        """Return the smallest distance to the minimizer that is certified for every data set."""

    @abstractmethod
    def made(self, level: float, l2: float, smoothing: float, radius: float) -> Surrogate:
        """Return the surrogate of a phase whose solver has to come within `radius`."""

    @abstractmethod
    def error(self, surrogate: Any, l2: float) -> float:
        """Return how far computed values of the objective are apart from V, up to a constant, for every data set."""

    @abstractmethod
    def most_points(self, m: int) -> int:
        """Return how many values of the objective of m records are computed in bearable time."""


@final
@dataclass(frozen=True)
class Truncated(Surrogates):
    """Losses of a linear model with their slopes cut (docs, Heavy tails)."""

    problem: LinearModelProblem
    enforced = "its slope is cut at C over the record's norm, which leaves it convex"

    @property
    def shifts(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return isinstance(self.problem.loss, PiecewiseLinearLoss)

    def bias(self, moments: Moments, level: float) -> tuple[float, float]:
        return moments.excess(level), moments.excess_square(level)

    def floor(self, level: float, l2: float, smoothing: float) -> float:
        return finest(self.problem, Truncation(level, self.problem.radius, smoothing), l2)

    def made(self, level: float, l2: float, smoothing: float, radius: float) -> Truncation:
        return Truncation(level, self.problem.radius, smoothing)

    def error(self, surrogate: Truncation, l2: float) -> float:
        R, slack = self.problem.radius, inner_product_rounding(self.problem.dim)
        return 4 * slack * (self.problem.loss.value_at_zero + (surrogate.level + 4 * l2 * R) * R)

    def most_points(self, m: int) -> int:
        return max(9, min(MOST_POINTS, MOST_LOSSES // m))


@final
@dataclass(frozen=True)
class Stage:
    """One output perturbation."""

    radius: float  #: of the solver, tau
    reach: float  #: sensitivity that the noise is calibrated to, at least 2C/(lambda m) + 2 tau
    share: float = 1.0  #: of epsilon
    confine: float = math.inf  #: the next stage minimizes, or chooses, within this distance of the release
    side: int = 0  #: points along an axis of the net that it chooses from


@final
@dataclass(frozen=True)
class Phase:
    """Constants of one phase: it reads the records ``first, first + step, ...``."""

    first: int
    step: int
    repetitions: int  #: parts that are solved apart, interleaved likewise
    m: int  #: records of a part; at most repetitions - 1 records of the phase are left out
    l2: float  #: ridge weight lambda
    truncation: Surrogate  #: level C, and what else makes losses Lipschitz
    stages: tuple[Stage, ...]  #: one, or two in the paper's double output perturbation; their shares sum to 1
    error: float  #: bound on the root mean squared distance of a part's release from the phase's population minimizer

    def __post_init__(self) -> None:
        if math.fsum(stage.share for stage in self.stages) > 1:
            raise InvalidParameterError("stages", self.stages, "must have shares that sum to at most 1")
        for stage in self.stages:
            if stage.reach < sensitivity(self.truncation.level, self.l2, self.m, stage.radius):
                raise InvalidParameterError("reach", stage.reach, "must be at least the proven sensitivity")


@final
@dataclass(frozen=True)
class Schedule:
    """All phases, and what they prove.

    The bound is on the expected excess population risk; with repetitions, on the risk itself but for the failure
    probability.
    """

    phases: tuple[Phase, ...]
    bound: float

    def check(self, n: int) -> None:
        """Raise `InvalidParameterError` unless no two phases share one of the `n` records and none lacks any.

        Parallel composition and the ``m`` of the sensitivity rest on it.
        """
        for a, b in itertools.combinations(self.phases, 2):
            if (a.first - b.first) % math.gcd(a.step, b.step) == 0:
                raise InvalidParameterError("phases", (a, b), "must read disjoint records: other remainders")
        for phase in self.phases:
            if phase.first + (phase.repetitions * phase.m - 1) * phase.step >= n:
                raise InvalidParameterError("phases", phase, f"must read no more than the {n} records")


def sensitivity(level: float, l2: float, m: int, radius: float) -> float:
    """Return ``2C/(lambda m) + 2 tau``, how far the certified minimizer moves, rounded up."""
    return (2 * level / (l2 * m) + 2 * radius) * (1 + 1e-14)


def finest(problem: LinearModelProblem, truncation: Truncation, l2: float) -> float:
    """Return the smallest distance that double precision certifies for every data set."""
    curvature = truncation.curvature(problem.loss, problem.domain.l2) + l2
    return 4 * ROUNDING * (truncation.level + (curvature + l2) * problem.radius) / l2


def calibrated(
    problem: Problem,
    epsilon: float,
    moments: Moments,
    failure: float | None,
    surrogates: Surrogates,
    scaling: Scaling | None = None,
) -> Schedule:
    """Return the default schedule of the specification's section 4.3, each release at `epsilon`.

    `failure` in (0, 1/2): a bound that fails with this probability at most, through repetitions; None: in expectation.
    `scaling` has the constants of a phase; default: one output perturbation.
    """
    n, R, k = problem.n, problem.radius, moments.k
    scaling = scaling or OneRelease.of
    first = scaling(problem, epsilon, moments, max(1, n // 2), surrogates)
    ratio = math.log(TUNING.growth / 2 ** (1 - 1 / k))
    T = 3 + math.ceil(math.log(max(2 * moments.g1 / first.error, 1.0)) / ratio)
    while T > 1 and n // 2**T < TUNING.fewest:
        T -= 1
    J = 1 if failure is None else repetitions(failure / T)
    while T > 1 and n // 2**T // J < TUNING.fewest:
        T -= 1
    J = min(J, n)
    layout = [(2**t - 1, 2 ** (t + 1)) for t in range(T - 1)] + [(2 ** (T - 1) - 1, 2 ** (T - 1))]
    sizes = [len(range(start, n, step)) // J for start, step in layout]
    scaled = [scaling(problem, epsilon, moments, m, surrogates) for m in sizes]
    base = scaled[0].error / (2 * R)  # kappa = 1, D = 2 R
    phases = tuple(
        part.phase((start, step, J), base * TUNING.growth**t)
        for t, ((start, step), part) in enumerate(zip(layout, scaled, strict=True))
    )
    return Schedule(phases, _bound(phases, R, moments.g1))


def repetitions(failure: float) -> int:
    """Smallest odd J whose majority succeeds but for that probability, each with probability `Tuning.success`."""
    J = 1
    while binom.cdf(J // 2, J, TUNING.success) > failure:
        J += 2
    return J


def _bound(phases: tuple[Phase, ...], R: float, g1: float) -> float:
    """Telescoping over the phases (docs, Heavy tails)."""
    s = 1.0 if phases[0].repetitions == 1 else 3 / math.sqrt(1 - TUNING.success)
    total = phases[0].l2 * R**2 / 2
    for now, following in itertools.pairwise(phases):
        total += following.l2 * (s * now.error) ** 2 / 2
    return total + s * g1 * phases[-1].error


class Scaled(Protocol):
    """A phase's constants but for its ridge weight."""

    @property
    def error(self) -> float: ...  # root mean squared distance from the population minimizer, times lambda

    def phase(self, layout: tuple[int, int, int], l2: float) -> Phase: ...  # of first record, step, repetitions


Scaling = Callable[[Problem, float, Moments, int, Surrogates], Scaled]
"""From the problem, epsilon, moments, the records of a phase and surrogates to its constants."""


@final
@dataclass(frozen=True)
class OneRelease:
    """One output perturbation: the shift by smoothing and the error have the unit of a parameter times lambda."""

    m: int
    level: float
    shift: float
    error: float
    dim: int
    surrogates: Surrogates

    @classmethod
    def of(cls, problem: Problem, epsilon: float, moments: Moments, m: int, surrogates: Surrogates) -> OneRelease:
        """Return the constants."""
        d = problem.dim
        level = level_of(problem, epsilon, moments, m)
        beta = 2 * (1 + TUNING.accuracy) * level / (m * epsilon)
        shift = TUNING.smoothing * d * beta if surrogates.shifts else 0.0
        bias = bias_of(problem, moments, level, m, surrogates)
        centered = TUNING.accuracy * level / m + shift + bias + moments.g2 / math.sqrt(m)
        return cls(m, level, shift, math.hypot(math.sqrt(d * (d + 1)) * beta, centered), d, surrogates)

    def phase(self, layout: tuple[int, int, int], l2: float) -> Phase:
        """Return the phase."""
        # Smoothing lowers every loss by at most smoothing C^2 / 2: the minimizer moves by C sqrt(smoothing / lambda).
        smoothing = l2 * (self.shift / (l2 * self.level)) ** 2 if self.shift else 1.0
        wanted = TUNING.accuracy * self.level / (l2 * self.m)
        radius = max(wanted, self.surrogates.floor(self.level, l2, smoothing))
        extra = (radius - wanted) * (1 + 2 * (self.dim + 1))  # what rounding adds; noise follows
        stage = Stage(radius, sensitivity(self.level, l2, self.m, radius))
        surrogate = self.surrogates.made(self.level, l2, smoothing, radius)
        return Phase(*layout, self.m, l2, surrogate, (stage,), self.error / l2 + extra)


def level_of(problem: Problem, epsilon: float, moments: Moments, m: int) -> float:
    """Return the level for m records; at most the largest slope: no gradient is longer, and nothing is cut then."""
    return min(TUNING.level(moments.k, moments.bound, m * epsilon / problem.dim), problem.lipschitz)


def bias_of(problem: Problem, moments: Moments, level: float, m: int, surrogates: Surrogates) -> float:
    """Return what surrogates move the minimizer by, of m records, times lambda, in root mean square."""
    mean, square = surrogates.bias(moments, level)
    return math.sqrt(mean**2 + square / m) if level < problem.lipschitz else 0.0


def paper(problem: Problem, epsilon: float, moments: Moments, failure: float, surrogates: Surrogates) -> Schedule:
    """Return the printed schedule with failure probability `failure`; n must be at least twice the repetitions."""
    n, R = problem.n, problem.radius
    growth, aggregation = 32.0, 3.0  # of the ridge weight; what aggregation multiplies distances by
    T = max(1, math.ceil(math.log2(n)))
    J = math.ceil(50 * math.log(T / failure))
    sizes = [n // 2**t // J for t in range(1, T + 1)]
    sizes = [m for m in sizes if m >= 1]
    if not sizes:
        raise InvalidParameterError("n", n, f"must be at least {2 * J} for the printed constants", "Use 'calibrated'")
    errors = [_printed_error(problem, epsilon, moments, m, surrogates) for m in sizes]
    total = sum(growth / 2 * (aggregation * e) ** 2 / growth**t for t, e in enumerate(errors[:-1]))
    total += aggregation * moments.g1 * errors[-1] / growth ** (len(sizes) - 1)
    base = math.sqrt(2 * total) / R
    phases: list[Phase] = []
    for t, (m, error) in enumerate(zip(sizes, errors, strict=True)):
        l2, level = base * growth**t, _printed_level(problem, epsilon, moments, m)
        unit = level / (l2 * m)
        smoothing = l2 * (TUNING.smoothing * 12 * problem.dim * unit / epsilon / level) ** 2
        slack = surrogates.floor(level, l2, smoothing)
        if phases and unit / 6 < slack:
            break  # beyond double precision; the first phase may need the slack at extreme constants
        radii = [max(share * unit, slack if t == 0 else 0.0) for share in (1.0, 1 / 6)]
        ball = 200 * PRINTED_TAIL * problem.dim * unit / epsilon  # 100 zeta C d / (lambda m (epsilon / 2))
        stages = tuple(
            Stage(radius, max(6 * unit, (2 * unit + 2 * radius) * (1 + 1e-13)), 0.5, confine)
            for radius, confine in zip(radii, (ball, math.inf), strict=True)
        )
        surrogate = surrogates.made(level, l2, smoothing, min(radii))
        phases.append(Phase(2**t - 1, 2 ** (t + 1), J, m, l2, surrogate, stages, error / l2))
    bound = base * R**2 / 2
    bound += sum(b.l2 / 2 * (aggregation * a.error) ** 2 for a, b in itertools.pairwise(phases))
    return Schedule(tuple(phases), bound + aggregation * moments.g1 * phases[-1].error)


def _printed_level(problem: Problem, epsilon: float, moments: Moments, m: int) -> float:
    return moments.bound * (m * epsilon / problem.dim) ** (1 / moments.k)


def _printed_error(problem: Problem, epsilon: float, moments: Moments, m: int, surrogates: Surrogates) -> float:
    """Distance from the population minimizer, times lambda, that each part keeps with probability 0.6."""
    level = _printed_level(problem, epsilon, moments, m)
    noise = 12 * level / (epsilon * m) * float(gamma.ppf(0.9, problem.dim)) + level / (3 * m)
    shift = TUNING.smoothing * 12 * problem.dim * level / (epsilon * m) * surrogates.shifts
    return noise + shift + 10 * surrogates.bias(moments, level)[0] + math.sqrt(10 / m) * moments.g2
