r"""Iterations, samples, period and step of Algorithm 5, from public facts alone.

With ``l = log d`` and constants L0, L1, L2 of the problem, for q > 1 and ``tau <= 1/(8 q L0)`` (specification, 3.5,
with the doubled second moments of erratum E6):

    l/(tau T) + tau L0^2/2 + 2 bias(K) + 8 tau q V(K) + 4 L1 q (1 + log(T/q))/T + 2 L1/K_out

``bias(K) = 2 L2/K`` and ``V = 8 L2^2/K^2 + 8 L1^2 (4 + l)/K`` if second-order-smooth; else ``4 L1/sqrt(K)`` and
Corollary 2.14. For q = 1 the terms with q are 0: every gradient is taken at a fresh point, drawn after x^t is fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from dpconvex.errors import InvalidParameterError
from dpconvex.problems.minimax.base import SimplexSaddle

Fixed = tuple[int | None, int | None, int | None, int | None]
"""T, K, q and draws of the output where the caller fixes them."""


@final
@dataclass(frozen=True)
class Shape:
    """What the run looks like.

    Parameters
    ----------
    T : int
        Iterations.
    K : int
        Draws of a query point.
    q : int
        Period with which query points are renewed.
    output : int
        Draws of the output.
    """

    T: int
    K: int
    q: int
    output: int


def _moments(problem: SimplexSaddle, K: int) -> tuple[float, float]:
    """Return bias and second moment of the gradient at an average of K vertices."""
    ell, L0, L1 = math.log(problem.dx), problem.lipschitz[0], problem.smoothness
    L2 = min(problem.second_smoothness, 1e150)
    first = 8 * math.sqrt(2) * L1**2 / (K**1.5 * math.sqrt(4 + ell))
    first += 8 * math.sqrt(2) * (L0**2 + L1**2) * math.sqrt((4 + ell) / K)
    bias = min(2 * L2 / K, 4 * L1 / math.sqrt(K), 2 * L0)
    return bias, min(8 * L2**2 / K**2 + 8 * L1**2 * (4 + ell) / K, first, 4 * L0**2)


def _terms(problem: SimplexSaddle, shape: Shape) -> tuple[float, float, float]:
    """Return the coefficients of ``1/tau`` and ``tau``, and the rest."""
    ell, L1 = math.log(problem.dx), problem.smoothness
    bias, second = _moments(problem, shape.K)
    stale = shape.q > 1
    drift = 4 * L1 * shape.q * (1 + math.log(shape.T / shape.q)) / shape.T if stale else 0.0
    linear = problem.lipschitz[0] ** 2 / 2 + (8 * shape.q * second if stale else 0.0)
    return ell / shape.T, linear, 2 * bias + drift + 2 * L1 / shape.output


def explicit_bound(problem: SimplexSaddle, shape: Shape, step: float) -> float:
    """Return the bound on the expected excess risk; infinite where its condition on the step fails.

    Parameters
    ----------
    problem : SimplexSaddle
    shape : Shape
    step : float
        tau.
    """
    if shape.q > 1 and step > (1 + 1e-9) / (8 * shape.q * problem.lipschitz[0]):
        return math.inf
    inverse, linear, rest = _terms(problem, shape)
    return inverse / step + linear * step + rest


def _best_step(problem: SimplexSaddle, shape: Shape) -> float:
    inverse, linear, _ = _terms(problem, shape)
    best = math.sqrt(inverse / linear)
    return min(best, 1 / (8 * shape.q * problem.lipschitz[0])) if shape.q > 1 else best


def calibrated(problem: SimplexSaddle, budget: float, pure: bool, fixed: Fixed) -> tuple[Shape, float]:
    """Return the shape and step of the smallest bound.

    Parameters
    ----------
    problem : SimplexSaddle
    budget : float
        ``sqrt(8 rho)``; with `pure` epsilon.
    pure : bool
        Whether ranges are summed instead of their squares.
    fixed : tuple
        What the caller fixes.
    """
    n, spread = problem.n, problem.spread[0]
    counts = [fixed[0]] if fixed[0] else sorted({max(2, round(n ** (i / 24))) for i in range(1, 25)})
    sparse = [fixed[1]] if fixed[1] else [2**i for i in range(11)]
    best: tuple[float, Shape, float] | None = None
    for T in counts:
        for q in [fixed[2]] if fixed[2] else [2**i for i in range(max(1, int(math.log2(T) / 2) + 1))]:
            for K in sparse:
                for output in [fixed[3]] if fixed[3] else (K, 4 * K, 16 * K, 64 * K):
                    shape = Shape(T, K, min(q, T), output)
                    draws = (K * (q + T // q - 1) + output) / 2  # about half are from iterates after a batch
                    root = draws if pure else math.sqrt(draws)
                    cap = 1.3 * budget * n / (T * spread * root)  # nearly; unequal batches gain about 1.3
                    step = min(cap, _best_step(problem, shape))
                    value = explicit_bound(problem, shape, step)
                    if best is None or value < best[0]:
                        best = (value, shape, step)
    if best is None or not math.isfinite(best[0]):
        raise InvalidParameterError("problem", problem.name, "must have moderate constants", "Rescale the data")
    return best[1], _best_step(problem, best[1])


def printed(problem: SimplexSaddle, epsilon: float, delta: float, fixed: Fixed) -> tuple[Shape, float]:
    """Return Theorem 4.2's T, K, q (constants 1) and the least of its three steps.

    Parameters
    ----------
    problem : SimplexSaddle
    epsilon, delta : float
        Delta positive.
    fixed : tuple
        What the caller fixes.
    """
    if not delta > 0:
        raise InvalidParameterError("delta", delta, "must be > 0 for constants='paper'", "Use 1e-6 or less")
    n, ell, logd = problem.n, math.log(problem.dx), math.log(1 / delta)
    L0, L1, L2 = problem.spread[0] / 4, problem.smoothness, problem.second_smoothness
    second = math.isfinite(L2)
    found = n * epsilon / (ell * math.sqrt(logd)) if second else (n * epsilon) ** 0.8 / (ell * logd) ** 0.4
    T = fixed[0] or max(2, min(n, int(found)))
    q = fixed[2] or min(T, max(1, round(math.sqrt(T / ell) if second else math.sqrt(T) / ell)))
    K = fixed[1] or max(1, round(T / q if second else T / ell))
    if second:
        variance = L0**2 + L1**2 * q * ell / K + L2**2 * q / K**2
    else:
        variance = L0**2 + (L0**2 + L1**2) * q * math.sqrt(ell / K) + L1**2 * q / (math.sqrt(ell) * K**1.5)
    cap = (n // T) * epsilon / (8 * L0 * math.sqrt(2 * (T * K / q + q * K) * logd))
    return Shape(T, K, q, fixed[3] or K), min(math.sqrt(ell / (variance * T)), 1 / (8 * L0 * q), cap)
