r"""Phases of population localization with output perturbation, and the bound that they prove.

Symbols: m records and level C in a phase, ``lambda`` its ridge weight, tau the solver's radius, beta the noise scale.
All of it is utility: whatever these numbers are, a stage that spends ``e`` has ``beta >= (2C/(lambda m) + 2 tau)/e``.

Error of a phase, times lambda (docs, Heavy tails), in root mean square:

    Delta = lambda sqrt(d (d+1)) beta  (+)  [lambda tau + lambda shift + bias + G_2 / sqrt(m)]

where ``(+)`` adds independent zero-mean noise in squares, ``bias^2 = E[mean (A - C)_+]^2 + Var`` and the shift is that
of smoothing kinks. With s = 3 for repetitions (else 1) and ``F`` being ``G_1``-Lipschitz,

    E F(w) - F(w*) <= lambda_1 R^2/2 + s^2 sum_{i<T} lambda_{i+1} (Delta_i / lambda_i)^2 / 2 + s G_1 Delta_T / lambda_T
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import final

from scipy.stats import binom

from dpconvex.errors import InvalidParameterError
from dpconvex.losses.base import PiecewiseLinearLoss
from dpconvex.problems.data.moments import Moments
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.linear.truncated import Truncation
from dpconvex.problems.objective import ROUNDING

GROWTH = 5.0
"""Of the ridge weight from phase to phase; any value above ``2^(2 - 2/k)`` keeps the rate."""
ACCURACY = 0.05
"""Solver radius in units of ``C / (lambda m)``: noise is 5 % larger than for exact minimisers."""
SMOOTHING = 0.25
"""Shift of the minimiser by smoothing kinks, in units of the noise's mean length."""
FEWEST = 20
"""Records of a phase, at least, unless there is one phase only."""
SUCCESS = 0.9
"""Probability that one repetition comes within ``Delta / sqrt(1 - SUCCESS)`` (Markov)."""


@final
@dataclass(frozen=True)
class Stage:
    """One output perturbation.

    Parameters
    ----------
    radius : float
        Of the solver, tau.
    reach : float
        Sensitivity that the noise is calibrated to, at least ``2C/(lambda m) + 2 tau``.
    share : float
        Of epsilon.
    confine : float
        The next stage minimises within this distance of the release; infinite for the last one.
    """

    radius: float
    reach: float
    share: float = 1.0
    confine: float = math.inf


@final
@dataclass(frozen=True)
class Phase:
    """Constants of one phase.

    Parameters
    ----------
    first, step : int
        It reads the records ``first, first + step, ...``.
    repetitions : int
        Parts of it that are solved apart, interleaved likewise.
    m : int
        Records of a part; at most ``repetitions - 1`` records of the phase are left out.
    l2 : float
        Ridge weight lambda.
    truncation : Truncation
        Level C, ball and smoothing.
    stages : tuple of Stage
        One, or two in the paper's double output perturbation; their shares sum to 1.
    error : float
        Bound on the root mean squared distance of one part's release from the phase's population minimiser.
    """

    first: int
    step: int
    repetitions: int
    m: int
    l2: float
    truncation: Truncation
    stages: tuple[Stage, ...]
    error: float

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

    Parameters
    ----------
    phases : tuple of Phase
    bound : float
        On the expected excess population risk; with repetitions, on the risk itself but for the failure probability.
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
    """Return ``2C/(lambda m) + 2 tau``, how far the certified minimiser moves, rounded up."""
    return (2 * level / (l2 * m) + 2 * radius) * (1 + 1e-14)


def finest(problem: LinearModelProblem, truncation: Truncation, l2: float) -> float:
    """Return the smallest distance that double precision certifies for every data set."""
    curvature = truncation.curvature(problem.loss, problem.domain.l2) + l2
    return 4 * ROUNDING * (truncation.level + (curvature + l2) * problem.radius) / l2


def calibrated(problem: LinearModelProblem, epsilon: float, moments: Moments, failure: float | None = None) -> Schedule:
    """Return the default schedule of the specification's section 4.3.

    Parameters
    ----------
    problem : LinearModelProblem
    epsilon : float
        Of each release.
    moments : Moments
    failure : float, optional
        In (0, 1/2): a bound that fails with this probability at most, through repetitions; None: in expectation.
    """
    n, R, k = problem.n, problem.radius, moments.k
    first = _Scaled.of(problem, epsilon, moments, max(1, n // 2))
    ratio = math.log(GROWTH / 2 ** (1 - 1 / k))
    T = 3 + math.ceil(math.log(max(2 * moments.g1 / first.error, 1.0)) / ratio)
    while T > 1 and n // 2**T < FEWEST:
        T -= 1
    J = 1 if failure is None else repetitions(failure / T)
    while T > 1 and n // 2**T // J < FEWEST:
        T -= 1
    J = min(J, n)
    layout = [(2**t - 1, 2 ** (t + 1)) for t in range(T - 1)] + [(2 ** (T - 1) - 1, 2 ** (T - 1))]
    sizes = [len(range(start, n, step)) // J for start, step in layout]
    scaled = [_Scaled.of(problem, epsilon, moments, m) for m in sizes]
    base = scaled[0].error / (2 * R)  # kappa = 1, D = 2 R
    phases = tuple(
        part.phase(start, step, J, base * GROWTH**t, problem)
        for t, ((start, step), part) in enumerate(zip(layout, scaled, strict=True))
    )
    return Schedule(phases, _bound(phases, R, moments.g1))


def repetitions(failure: float) -> int:
    """Smallest odd J whose majority succeeds but for that probability, each with probability `SUCCESS`."""
    J = 1
    while binom.cdf(J // 2, J, SUCCESS) > failure:
        J += 2
    return J


def _bound(phases: tuple[Phase, ...], R: float, g1: float) -> float:
    """Telescoping over the phases (docs, Heavy tails)."""
    s = 1.0 if phases[0].repetitions == 1 else 3 / math.sqrt(1 - SUCCESS)
    total = phases[0].l2 * R**2 / 2
    for now, following in itertools.pairwise(phases):
        total += following.l2 * (s * now.error) ** 2 / 2
    return total + s * g1 * phases[-1].error


@final
@dataclass(frozen=True)
class _Scaled:
    """A phase's constants, those with the unit of a parameter times lambda.

    Parameters
    ----------
    m : int
    level : float
    shift, error : float
        Of smoothing; of the release.
    """

    m: int
    level: float
    shift: float
    error: float

    @classmethod
    def of(cls, problem: LinearModelProblem, epsilon: float, moments: Moments, m: int) -> _Scaled:
        d, k = problem.dim, moments.k
        share = 0.3 if k < 3 else 0.6  # measured; see the specification, 4.3
        level = share * moments.bound * (m * epsilon / d) ** (1 / k)
        level = min(level, problem.lipschitz)  # no gradient is longer: nothing is cut then
        cut = level < problem.lipschitz
        beta = 2 * (1 + ACCURACY) * level / (m * epsilon)
        shift = SMOOTHING * d * beta if isinstance(problem.loss, PiecewiseLinearLoss) else 0.0
        bias = math.sqrt(moments.excess(level) ** 2 + moments.excess_square(level) / m) if cut else 0.0
        centred = ACCURACY * level / m + shift + bias + moments.g2 / math.sqrt(m)
        return cls(m, level, shift, math.hypot(math.sqrt(d * (d + 1)) * beta, centred))

    def phase(self, first: int, step: int, J: int, l2: float, problem: LinearModelProblem) -> Phase:
        """Return the phase for a ridge weight."""
        # Smoothing lowers every loss by at most smoothing C^2 / 2: the minimiser moves by C sqrt(smoothing / lambda).
        smoothing = l2 * (self.shift / (l2 * self.level)) ** 2 if self.shift else 1.0
        truncation = Truncation(self.level, problem.radius, smoothing)
        wanted = ACCURACY * self.level / (l2 * self.m)
        radius = max(wanted, finest(problem, truncation, l2))
        extra = (radius - wanted) * (1 + 2 * (problem.dim + 1))  # what rounding adds; noise follows
        stage = Stage(radius, sensitivity(self.level, l2, self.m, radius))
        return Phase(first, step, J, self.m, l2, truncation, (stage,), self.error / l2 + extra)
