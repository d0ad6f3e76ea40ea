r"""Levels, budget and step of Algorithm 3, from public facts alone (specification, 2.3, 2.4 and 5.4).

``P[N = k] = 2^-k/C_M`` on ``0..M`` with ``C_M = 2 - 2^-M``. The three gradients of Algorithm 2 have coefficients
``C_M 2^N, -C_M 2^N, 1``; at N = 0 the last two are taken at the same point. The antithetic form splits the second in
two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpconvex.errors import InvalidParameterError
from dpconvex.problems.minimax.base import SimplexSaddle

MOST_STEPS = 20_000


@final
@dataclass(frozen=True)
class Budget:
    """What Algorithm 3 takes as input.

    Parameters
    ----------
    M : int
        Truncation of the levels.
    U : float
        Budget of samples: levels are drawn until ``sum 2^N`` exceeds ``U - 2^M``.
    tau : float
        Wanted step.
    alpha : float
        Printed batches have ``max(1, 2^N/alpha)`` records.
    """

    M: int
    U: float
    tau: float
    alpha: float


def normaliser(M: int) -> float:
    """Return ``C_M = sum_{k <= M} 2^-k = 2 - 2^-M``."""
    return 2.0 - 2.0**-M


def kappa(N: int, M: int, antithetic: bool) -> float:
    """Return the sum of the magnitudes of the coefficients of the gradients at different points.

    Parameters
    ----------
    N, M : int
        ``0 <= N <= M``.
    antithetic : bool
    """
    C = normaliser(M)
    if N == 0:
        return C + 1 if antithetic else 2 * C - 1
    return 2 * C * 2**N + 1


def draw_levels(U: float, M: int, coins: int) -> NDArray[np.int64]:
    """Return the levels of one run, shape (T,), T at least 2: as many as the budget allows, and one more.

    Parameters
    ----------
    U : float
        Budget.
    M : int
        Truncation.
    coins : int
        Seed: levels are public.
    """
    generator = np.random.default_rng(coins)
    weights = 0.5 ** np.arange(M + 1)
    drawn = generator.choice(M + 1, size=max(2, math.ceil(U)) + 1, p=weights / weights.sum())
    before = np.cumsum(2**drawn) - 2**drawn
    taken = int(np.count_nonzero(before <= U - 2**M))
    return drawn[: max(2, taken)].astype(np.int64)


def order_of_gap(problem: SimplexSaddle, M: int, antithetic: bool, T: int, steps: tuple[float, float]) -> float:
    """Return the regret with the second moment that is typical, and the bias, of T steps.

    Parameters
    ----------
    problem : SimplexSaddle
    M : int
    antithetic : bool
        Then the second moment does not grow with M (specification, 5.4).
    T : int
    steps : tuple of float
    """
    total = 4 * min(2 * problem.second_smoothness / 2**M, 2 * max(problem.lipschitz))
    growth = 1.0 if antithetic else 1.0 + M / 2
    for d, step, L in zip((problem.dx, problem.dy), steps, problem.lipschitz, strict=True):
        if d > 1 and L > 0:
            total += 2 * math.log(d) / (step * T) + 2.5 * step * L**2 * growth if step > 0 else math.inf
    return total


def calibrated(
    problem: SimplexSaddle, budget: float, pure: bool, antithetic: bool | None, M: int | None, U: float | None
) -> Budget:
    """Return what minimises `order_of_gap` under the zCDP accountant.

    Parameters
    ----------
    problem : SimplexSaddle
    budget : float
        ``sqrt(8 rho)``; with `pure` epsilon.
    pure : bool
    antithetic : bool or None
        None: for M > 0.
    M, U : optional
        Fixed by the caller.
    """
    ell, L = math.log(problem.dx) + math.log(problem.dy), max(problem.lipschitz)
    best: tuple[float, Budget] | None = None
    for level in [M] if M is not None else range(9):
        mean = (level + 1) / normaliser(level)  # of 2^N
        both = level > 0 if antithetic is None else antithetic
        cost = sum(0.5**N * kappa(N, level, both) for N in range(level + 1)) / normaliser(level)
        for T in (
            np.unique(np.geomspace(2, min(problem.n / 2, MOST_STEPS), 40).astype(int)).tolist() if U is None else [0]
        ):
            total = T * mean + 2**level if U is None else U
            T_mean = max(2.0, total / mean)
            draws = (2 * mean + 1) * T_mean / 2
            exposure = draws if pure else math.sqrt(draws)
            cap = budget * problem.n * 1.3 / (T_mean * cost * max(problem.spread) * exposure)
            step = min(cap, math.sqrt(0.8 * ell / T_mean) / L)
            value = order_of_gap(problem, level, both, int(T_mean), (step, step))
            found = Budget(level, total, math.sqrt(0.8 * ell / T_mean) / L, math.nan)
            best = (value, found) if best is None or value < best[0] else best
    assert best is not None
    return best[1]


def printed(problem: SimplexSaddle, epsilon: float, delta: float, M: int | None, U: float | None) -> Budget:
    """Return Theorem 3.14's M, U, tau and alpha: the largest M with ``2^M <= sqrt(U(M))``.

    Parameters
    ----------
    problem : SimplexSaddle
    epsilon, delta : float
        ``epsilon < 8 log(1/delta)``, delta positive.
    M, U : optional
        Fixed by the caller.
    """
    if not delta > 0 or not epsilon < 8 * math.log(1 / delta):
        what = "needs delta > 0 and epsilon < 8 log(1/delta)"
        raise InvalidParameterError("constants", "paper", what, "Use constants='calibrated'")
    ell, logd = math.log(problem.dx) + math.log(problem.dy), math.log(1 / delta)
    L0, L1, L2 = max(problem.spread) / 4, problem.smoothness, problem.second_smoothness

    def constants(level: int) -> Budget:
        C = L0**2 + L2**2 + ell * level * L1**2
        cap = problem.n * epsilon * math.sqrt(C) / (math.sqrt(4 * 48 * 81 * ell * logd) * L0)
        total = min(cap, problem.n / 2) if U is None else U
        tau = math.sqrt(ell / (C * total))
        alpha = (2 * epsilon**2 / (48 * 81 * logd * (tau * L0) ** 2 * problem.n)) ** (1 / 3)
        return Budget(level, total, tau, alpha)

    if M is not None:
        return constants(M)
    level = 0
    while level < 40 and 2 ** (level + 1) <= math.sqrt(constants(level + 1).U):
        level += 1
    return constants(level)
