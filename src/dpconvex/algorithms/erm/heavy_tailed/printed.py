r"""The constants that the paper prints: localization with *double* output perturbation (Algorithms 1, 2 and 4).

Left open by the paper and filled in here: ``lambda_1`` (minimises the bound), the constant of J (``50 log(T/delta)``,
what Hoeffding's inequality needs), where to stop (errata E8 to E10). Everything else is as printed; the noise is 1.9
times larger than privacy asks for. The bound is that of the docs with the bias repaired (erratum E1) and exact
quantiles of the noise (erratum E3). It is vacuous unless n is in the millions.
"""

from __future__ import annotations

import itertools
import math

from scipy.stats import gamma

from dpconvex.algorithms.erm.heavy_tailed.schedule import SMOOTHING, Phase, Schedule, Stage, finest
from dpconvex.errors import InvalidParameterError
from dpconvex.losses.base import PiecewiseLinearLoss
from dpconvex.problems.data.moments import Moments
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.problems.linear.truncated import Truncation

GROWTH, AGGREGATION, TAIL = 32.0, 3.0, 3.0
"""Of the ridge weight; what aggregation multiplies distances by; zeta of Algorithm 2."""


def paper(problem: LinearModelProblem, epsilon: float, moments: Moments, failure: float) -> Schedule:
    """Return the printed schedule with failure probability `failure`.

    Raises
    ------
    InvalidParameterError
        If n is too small for a single phase: fewer than twice the repetitions.
    """
    n, R = problem.n, problem.radius
    T = max(1, math.ceil(math.log2(n)))
    J = math.ceil(50 * math.log(T / failure))
    sizes = [n // 2**t // J for t in range(1, T + 1)]
    sizes = [m for m in sizes if m >= 1]
    if not sizes:
        raise InvalidParameterError("n", n, f"must be at least {2 * J} for the printed constants", "Use 'calibrated'")
    errors = [_error(problem, epsilon, moments, m) for m in sizes]
    total = sum(GROWTH / 2 * (AGGREGATION * e) ** 2 / GROWTH**t for t, e in enumerate(errors[:-1]))
    total += AGGREGATION * moments.g1 * errors[-1] / GROWTH ** (len(sizes) - 1)
    base = math.sqrt(2 * total) / R
    phases: list[Phase] = []
    for t, (m, error) in enumerate(zip(sizes, errors, strict=True)):
        phase = _phase(problem, epsilon, moments, (2**t - 1, 2 ** (t + 1), J, m), base * GROWTH**t, error)
        if phases and phase.stages[1].radius < finest(problem, phase.truncation, phase.l2):
            break  # beyond double precision
        phases.append(phase)
    bound = base * R**2 / 2
    bound += sum(b.l2 / 2 * (AGGREGATION * a.error) ** 2 for a, b in itertools.pairwise(phases))
    return Schedule(tuple(phases), bound + AGGREGATION * moments.g1 * phases[-1].error)


def _level(problem: LinearModelProblem, epsilon: float, moments: Moments, m: int) -> float:
    return moments.bound * (m * epsilon / problem.dim) ** (1 / moments.k)


def _error(problem: LinearModelProblem, epsilon: float, moments: Moments, m: int) -> float:
    """Distance from the population minimiser, times lambda, that each part keeps with probability 0.6."""
    level = _level(problem, epsilon, moments, m)
    noise = 12 * level / (epsilon * m) * float(gamma.ppf(0.9, problem.dim)) + level / (3 * m)
    shift = SMOOTHING * 12 * problem.dim * level / (epsilon * m) * isinstance(problem.loss, PiecewiseLinearLoss)
    return noise + shift + 10 * moments.excess(level) + math.sqrt(10 / m) * moments.g2


def _phase(
    problem: LinearModelProblem,
    epsilon: float,
    moments: Moments,
    layout: tuple[int, int, int, int],
    l2: float,
    error: float,
) -> Phase:
    first, step, J, m = layout
    level = _level(problem, epsilon, moments, m)
    unit = level / (l2 * m)
    shift = SMOOTHING * 12 * problem.dim * unit / epsilon
    truncation = Truncation(level, problem.radius, l2 * (shift / level) ** 2)
    ball = 200 * TAIL * problem.dim * unit / epsilon  # 100 zeta C d / (lambda m (epsilon / 2))
    slack = finest(problem, truncation, l2)  # the first phase may need it at extreme constants
    radii = [max(share * unit, slack if first == 0 else 0.0) for share in (1.0, 1 / 6)]
    stages = tuple(
        Stage(radius, max(6 * unit, (2 * unit + 2 * radius) * (1 + 1e-13)), 0.5, confine)
        for radius, confine in zip(radii, (ball, math.inf), strict=True)
    )
    return Phase(first, step, J, m, l2, truncation, stages, error / l2)
