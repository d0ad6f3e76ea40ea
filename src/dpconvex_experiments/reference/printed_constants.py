"""Constants of methods as their papers print them (repaired), in the place of those that are calibrated here.

None of them carries privacy: plans price every schedule by what it draws and adds, and refuse what the promise does not
cover, or a sensitivity below the one that is proved. Saddle points: Gonzalez, Guzman and Paquette 2024; Frank-Wolfe as
they cite it. Heavy tails: Lowy 2026, Algorithms 1, 2 and 4. Output perturbation: Lowy and Razaviyayn. Symbols are
those of the `schedule` modules of the methods.
"""

import itertools
import math

import numpy as np
from scipy.stats import gamma

from dpconvex import _rounding
from dpconvex._types import IntArray
from dpconvex.algorithms.erm.heavy_tailed.schedule import TUNING, Phase, Schedule, Setting, Stage
from dpconvex.algorithms.erm.output_perturbation import schedules
from dpconvex.algorithms.minimax import anytime, base, bias_reduced, frank_wolfe, vertex_descent
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import printed
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import SimplexSaddle
from dpconvex.problems.base import Problem
from dpconvex.problems.linear.truncated import Truncation

PRINTED_TAIL = 3.0  #: The paper's zeta (Algorithm 2).


def require_printed(epsilon: float, delta: float) -> None:
    """Raise `InvalidParameterError` unless the printed steps of the saddle-point paper apply."""
    if delta <= 0 or epsilon >= 8 * math.log(1 / delta):
        what = "needs delta > 0 and epsilon < 8 log(1/delta)"
        raise InvalidParameterError("constants", "paper", what, "Use constants='calibrated'")


@printed("vertex_mirror_descent")
def vertex_mirror_descent(
    problem: SimplexSaddle, epsilon: float, delta: float, *, T: int | None = None, K: int | None = None
) -> vertex_descent.Schedule:
    """Return Theorem 3.1's T and K (constants 1; or those given), and Proposition 3.3's step, one for both blocks."""
    require_printed(epsilon, delta)
    n, logd = problem.n, math.log(1 / delta)
    bound = vertex_descent.Bound(problem, False)
    ell, L0 = sum(bound.ells), max(s / 4 for s in problem.spread)
    quadratic, second = bound.bias(1) == 0, math.isfinite(problem.second_smoothness)
    if quadratic:
        found = n * epsilon / math.sqrt(ell * logd)
    elif second:
        found = (n * epsilon) ** 0.8 / (ell**0.2 * logd**0.4)
    else:
        found = (n * epsilon) ** (2 / 3) / logd ** (1 / 3)
    T = T if T is not None else max(2, min(n, int(found)))
    wanted = 1 if quadratic else max(1, round(math.sqrt(T / ell) if second else T / ell))
    K = K if K is not None else wanted
    base.affordable(n, T)
    layout = vertex_descent.Layout(T, K, False, False)
    sizes = np.full(T - 1, max(n // T, 1))
    # Proposition 3.3, with the 1/16 that Theorem 3.1 drops: erratum E9.
    cap = (n // T) * epsilon / (16 * L0 * math.sqrt(T * (K + 1) * logd)) if L0 else math.inf
    step = min(cap, math.sqrt(ell / T) / max(problem.lipschitz))
    return vertex_descent.Schedule.of(layout, sizes, (step, step if problem.dy > 1 else 0.0), bound)


@printed("anytime_mirror_descent")
def anytime_mirror_descent(
    problem: SimplexSaddle, epsilon: float, delta: float, fixed: anytime.Fixed
) -> tuple[anytime.Shape, float]:
    """Return Theorem 4.2's T, K, q (constants 1) and the least of its three steps."""
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
    return anytime.Shape(T, K, q, fixed[3] or K), min(math.sqrt(ell / (variance * T)), 1 / (8 * L0 * q), cap)


@printed("bias_reduced_mirror_descent")
def bias_reduced_mirror_descent(
    problem: SimplexSaddle, epsilon: float, delta: float, M: int | None, U: float | None
) -> bias_reduced.Budget:
    """Return Theorem 3.14's M, U, tau and alpha: the largest M with ``2^M <= sqrt(U(M))``, where none are given."""
    require_printed(epsilon, delta)
    ell, logd = math.log(problem.dx) + math.log(problem.dy), math.log(1 / delta)
    L0, L1, L2 = max(problem.spread) / 4, problem.smoothness, problem.second_smoothness

    def constants(level: int) -> bias_reduced.Budget:
        C = L0**2 + L2**2 + ell * level * L1**2
        cap = problem.n * epsilon * math.sqrt(C) / (math.sqrt(4 * 48 * 81 * ell * logd) * L0)
        total = min(cap, problem.n / 2) if U is None else U
        tau = math.sqrt(ell / (C * total))
        alpha = (2 * epsilon**2 / (48 * 81 * logd * (tau * L0) ** 2 * problem.n)) ** (1 / 3)
        return bias_reduced.Budget(level, total, tau, alpha)

    if M is not None:
        return constants(M)
    level = 0
    while level < 40 and 2 ** (level + 1) <= math.sqrt(constants(level + 1).U):
        level += 1
    return constants(level)


@printed("variance_reduced_frank_wolfe")
def variance_reduced_frank_wolfe(
    problem: SimplexSaddle, privacy: PrivacyParams, budget: float, most: int, phases: int | None
) -> tuple[int, IntArray, tuple[float, ...]]:
    """Return Theorem 3.22's phases, batches and score scales (one over the noise); no scale beyond what is private."""
    if not privacy.delta > 0:
        raise InvalidParameterError("constants", "paper", "needs delta > 0", "Use constants='calibrated'")
    n, epsilon, L0 = problem.n, privacy.epsilon, problem.spread[0] / 4
    b = max(1.0, n / math.log(n) ** 2)
    goal = problem.smoothness * b * epsilon / (L0 * math.log(1 / privacy.delta) * math.log(problem.dx))
    P = phases or max(1, min(most, round(2 / 3 * math.log2(max(1.0, goal)))))
    sizes = np.array([max(1, math.ceil(b / 2**node.depth)) for node, _ in frank_wolfe.walk(P)])
    if int(sizes.sum()) > n:
        raise InvalidParameterError("phases", P, f"needs {sizes.sum()} records of n={n}", "Use fewer")
    exposed = frank_wolfe.exposures(problem, P, False) / sizes
    of = np.array([node.phase for node, _ in frank_wolfe.walk(P)])
    noise = [2 * L0 * 2 ** (t / 2) * math.log(n / privacy.delta) / (b * epsilon) for t in range(1, P + 1)]
    caps = [budget / float(exposed[of == t].max()) for t in range(1, P + 1)]
    return P, sizes, tuple(min(1 / each, cap) for each, cap in zip(noise, caps, strict=True))


@printed("heavy_tailed")
def heavy_tailed(setting: Setting, failure: float) -> Schedule:
    """Return the schedule of double output perturbation; n must be at least twice the repetitions.

    The paper leaves open ``lambda_1`` (here: minimizes the bound), the constant of J (``50 log(T/delta)``, what
    Hoeffding's inequality needs) and where to stop (errata E8 to E10). The bound has the bias repaired (E1) and exact
    quantiles (E3).
    """
    n, R, moments = setting.problem.n, setting.reach, setting.moments
    growth, aggregation = 32.0, 3.0  # of the ridge weight; what aggregation multiplies distances by
    T = max(1, math.ceil(math.log2(n)))
    J = math.ceil(50 * math.log(T / failure))
    sizes = [n // 2**t // J for t in range(1, T + 1)]
    sizes = [m for m in sizes if m >= 1]
    if not sizes:
        raise InvalidParameterError("n", n, f"must be at least {2 * J} for the printed constants", "Use 'calibrated'")
    errors = [_printed_error(setting, m) for m in sizes]
    total = sum(growth / 2 * (aggregation * e) ** 2 / growth**t for t, e in enumerate(errors[:-1]))
    total += aggregation * moments.g1 * errors[-1] / growth ** (len(sizes) - 1)
    base = math.sqrt(2 * total) / R
    phases: list[Phase] = []
    for t, (m, error) in enumerate(zip(sizes, errors, strict=True)):
        phase = _printed_phase(setting, (2**t - 1, 2 ** (t + 1), J, m), base * growth**t, error)
        if phases and phase.stages[1].radius < setting.finest(phase.truncation, phase.l2, phase.m):
            break  # beyond double precision
        phases.append(phase)
    bound = base * R**2 / 2
    bound += sum(b.l2 / 2 * (aggregation * a.error) ** 2 for a, b in itertools.pairwise(phases))
    return Schedule(tuple(phases), bound + aggregation * moments.g1 * phases[-1].error)


def _printed_level(setting: Setting, m: int) -> float:
    moments = setting.moments
    return moments.bound * (m * setting.epsilon / setting.problem.dim) ** (1 / moments.k)


def _printed_error(setting: Setting, m: int) -> float:
    """Distance from the population minimizer, times lambda, that each part keeps with probability 0.6."""
    problem, epsilon, moments = setting.problem, setting.epsilon, setting.moments
    level = _printed_level(setting, m)
    noise = 12 * level / (epsilon * m) * float(gamma.ppf(0.9, problem.dim)) + level / (3 * m)
    shift = TUNING.smoothing * 12 * problem.dim * level / (epsilon * m) * setting.smooths
    return noise + shift + 10 * setting.surrogate.bias(moments, level)[0] + math.sqrt(10 / m) * moments.g2


def _printed_phase(setting: Setting, layout: tuple[int, int, int, int], l2: float, error: float) -> Phase:
    first, step, J, m = layout
    problem, epsilon, level = setting.problem, setting.epsilon, _printed_level(setting, m)
    unit = level / (l2 * m)
    shift = TUNING.smoothing * 12 * problem.dim * unit / epsilon
    truncation = Truncation(level, problem.radius, l2 * (shift / level) ** 2)
    ball = 200 * PRINTED_TAIL * problem.dim * unit / epsilon  # 100 zeta C d / (lambda m (epsilon / 2))
    slack = setting.finest(truncation, l2, m)  # the first phase may need it at extreme constants
    radii = [max(share * unit, slack if first == 0 else 0.0) for share in (1.0, 1 / 6)]
    stages = tuple(
        Stage(radius, max(6 * unit, (2 * unit + 2 * radius) * (1 + 1e-13)), 0.5, confine)
        for radius, confine in zip(radii, (ball, math.inf), strict=True)
    )
    return Phase(first, step, J, m, l2, truncation, stages, error / l2)


@printed("output_perturbation")
def output_perturbation(
    problem: Problem, l2: float | None, epsilon: float, delta: float, target: str = "empirical"
) -> schedules.Schedule:
    """Return the repaired printed schedule: Theorems 3.4 and 3.5 for classes G and J, 3.1.2 and 3.2.2 for F and H.

    The Lipschitz constant includes the regularizer, ``L + l2 R``. Tilted losses: Theorems 5.1, 5.2 with Lemma 5.2's
    sensitivity; they need `l2`. Population: Propositions 4.1 to 4.4, stability term ``(L + l2 R) reach`` in full.
    """
    L, beta, R, n, d = problem.lipschitz, problem.smoothness, problem.radius, problem.n, problem.dim
    smooth, population = math.isfinite(beta), target == "population"
    ratio = schedules.privacy_ratio(d, epsilon, delta)
    tilted, unit = problem.aggregation == "tilted", 1.0 if problem.aggregation == "whole" else 1 / n
    q, more, weight, ball = ratio * unit, population / math.sqrt(n), unit, R if problem.local else math.inf
    if delta == 0:
        moment1, moment2 = ratio, d * (d + 1) / epsilon**2
    else:
        moment1, moment2 = ratio / math.sqrt(2), ratio**2 / 2
    if l2:
        R = R if problem.local else min(L / l2, math.sqrt(2 * problem.value_at_zero / l2))
        lam, total, theorem = l2, L + l2 * R, f"Theorem 3.{2 if smooth else 1}.2"
        if tilted:
            ball, theorem = problem.minimizer_norm(l2), f"Theorem 5.{2 if smooth else 1} (repaired)"
            # min(1, C/n) of Lemma 5.2; never below the boxed bound, also in floating point
            over_n = math.exp(min(0.0, problem.log_weight_ratio(ball) - math.log(n)))
            weight = max(schedules.largest_weight(problem, ball), min(1.0, _rounding.widen_up(over_n)))
        if smooth:
            alpha = total**2 / l2 * min((beta + l2) / l2 * q**2, weight**2)
        else:
            alpha = total**2 / l2 * weight * min(weight, ratio)
        shrinkage, source = 0.0, theorem if tilted else f"{theorem}{'a' if delta == 0 else 'b'}"
    elif smooth:
        beta = max(beta, L / (2 * R))  # L <= 2 beta R may be assumed, by a larger beta
        lam = (beta * L**2 / R**2) ** (1 / 3) * (q ** (2 / 3) + more)
        scale = beta ** (1 / 3) * L ** (2 / 3) * R ** (4 / 3)
        alpha = min(L ** (4 / 3) * R ** (2 / 3) / beta ** (1 / 3) * q ** (-2 / 3) * unit**2, scale * q ** (2 / 3))
        total, shrinkage, source = L + lam * R, lam * R**2 / 2, "Theorem 3.5 (repaired)"
    else:
        lam = L / R * (math.sqrt(q) + more) if population else L / (R * math.sqrt(1 + 1 / q))
        alpha = L * R * q**1.5 / (1 if problem.aggregation == "whole" else (1 + ratio) ** 2)
        total, shrinkage, source = L + lam * R, lam * R**2 / 2, "Theorem 3.4 (repaired)"
    sensitivity = 2 * total / lam * weight * (1 + 1e-14)
    r = max(math.sqrt(2 * alpha / lam), problem.certifiable_radius(lam))
    reach = schedules.within_ball(sensitivity, r, ball)
    bound = shrinkage + total * (r + moment1 * reach)
    projected = problem.local
    if smooth and not (projected and population):
        curved = shrinkage + (beta + lam) / 2 * (moment2 * reach**2 + r**2)
        curved += total * r if projected else 0.0  # the gradient at a minimizer on the sphere is not 0
        bound, projected = min(bound, curved), projected and bound <= curved
    if population:
        bound, source = bound + total * reach, f"{source}, population (Lemma 4.1)"
    return schedules.Schedule(lam, sensitivity, r, bound, source, ball, projected)
