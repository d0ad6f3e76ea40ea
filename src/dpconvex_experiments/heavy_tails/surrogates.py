"""Truncation, the Lipschitz extension by its ways, and what they cost at one accuracy."""

import math
import time
from dataclasses import replace

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.erm.heavy_tailed import HeavyTailedPlan, Moments, plan
from dpconvex.algorithms.erm.heavy_tailed.surrogates import Data, Part, surrogate_named
from dpconvex.losses import AbsoluteLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.problems.linear.truncated import ExtensionRisk
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate, exact, mean
from dpconvex_experiments.heavy_tails.rates import PAPER
from dpconvex_experiments.reference.extensions import FixedSteps
from dpconvex_experiments.shared import streams

LEVEL, RIDGE, ACCURACY = 1.0, 1.0, 2.0  # level C, ridge lambda, and tau in C / (lambda m)
WAYS = ("extension", "structured", "joint", "fixed_steps", "truncated")
FINE, DRAWS = 100.0, 400  # reference points are FINE times as accurate; draws of the noise, at epsilon = 1
EXPONENTS = {"fixed_steps": 2.0, "printed_steps": 4.0}


@experiment("heavy-tails/surrogates", f"{PAPER}, Theorem D.4")
def surrogates(setting: Setting, _anchors: Anchors) -> Outcome:
    """Truncation and the Lipschitz extension by its five ways

    Minimize the same ridge risks by every way, to one tau, and add the noise of an epsilon of 1.
    """
    runs, m = (2, 3) if setting.quick else (8, 6)
    problem = LinearModelProblem(AbsoluteLoss(1e3), DataDomain.l2_ball(2, 100.0), m, 1.0)
    plans = {
        way: plan(problem, PrivacyParams(60.0), Moments(2.0, 1.0), surrogate=way) for way in (*WAYS, "printed_steps")
    }
    tau = ACCURACY * LEVEL / (RIDGE * m)
    beta = 2 * LEVEL / (RIDGE * m) + 2 * tau
    squares: dict[str, list[Floats]] = {way: [] for way in WAYS}
    gaps: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for run in setting.track(range(runs), "Minimizing"):
        rng, _ = streams(setting.seed, run, m)
        data = Records.clipped(rng.standard_t(2.1, (m, 2)), problem.domain), rng.standard_t(3, m)
        best, gap_of = _compared(_part(plans["extension"], m), data, tau)
        for way in WAYS:
            noise = rng.standard_normal((DRAWS, 2))
            noise *= rng.gamma(2, beta, (DRAWS, 1)) / np.linalg.norm(noise, axis=1, keepdims=True)
            begun = time.perf_counter()
            point = _point(plans[way], way, data, tau)
            seconds[way].append(time.perf_counter() - begun)
            least = _point(plans[way], way, data, tau / FINE) if way == "truncated" else best
            squares[way].append(np.square(point + noise - least).sum(1) / (6 * beta**2))
            gaps[way].append(gap_of(point))
    found = {way: Estimate.of(np.concatenate(squares[way])) for way in WAYS}
    most = 1 + (tau * (1 + 2 / FINE)) ** 2 / (6 * beta**2)  # noise is independent: squares add up
    checks: list[Check] = [mean(f"squared distance of the noise's, {way}", found[way], 1 - 1e-9, most) for way in WAYS]
    for way in WAYS[:-1]:  # all others certify a gap of alpha, and none is below the least
        worst = max(gaps[way], key=lambda gap: abs(gap - 0.5))
        checks.append(exact(f"worst gap, of alpha, {way}", worst, -2 / FINE**2, 1 + 2 / FINE**2))
    for way, exponent in EXPONENTS.items():
        slope = _counted(plans[way], way)
        checks.append(exact(f"exponent of the steps in m, {way}", slope, exponent - 0.1, exponent + 0.1, "theorem"))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for way in WAYS:
            axes.semilogx(seconds[way], [float(s.mean()) for s in squares[way]], "o", label=way)
        axes.set(xlabel="seconds", ylabel="mean squared distance, in units of the noise's")
        axes.legend()

    return Outcome(
        ("surrogate", "squared distance", "s.e.", "worst gap, of alpha", "seconds"),
        tuple((way, *found[way][:2], max(gaps[way]), float(np.mean(seconds[way]))) for way in WAYS),
        "every way to the extension ends within its gap; releases are as far from the exact minimizer as the noise and "
        "at most as tau adds to it; the planned steps of Theorem D.4 grow like m^4 as printed, like m^2 by convexity",
        tuple(checks),
        draw,
        f"Absolute loss, d = 2, m = {m}, features t(2.1), targets t(3), unit disc, C = 1, lambda = {RIDGE:g}, "
        f"tau = {ACCURACY:g} C/(lambda m), epsilon = 1; {runs} data sets with {DRAWS} draws of the noise each.",
    )


def _part(one: HeavyTailedPlan[LinearModelProblem], m: int) -> Part:
    phase = one.phases[0]
    truncation = replace(phase.truncation, level=LEVEL, smoothing=1e-4)
    return one.part(replace(phase, l2=RIDGE, truncation=truncation, m=m, stages=()))


def _point(one: HeavyTailedPlan[LinearModelProblem], way: str, data: Data, tau: float) -> Floats:
    part, start = _part(one, data[0].n), np.zeros(2)
    return surrogate_named(way).minimize(part, data, start, (part.domain, tau, start))


def _compared(part: Part, data: Data, tau: float):
    """Return the extension's minimizer, and a function of points to their gaps, in units of ``alpha``."""
    start, method = np.zeros(2), surrogate_named("extension")
    best = method.minimize(part, data, start, (part.domain, tau / FINE, start))
    risk = method.risk(part, data, start, tau / FINE)
    assert isinstance(risk, ExtensionRisk)
    least = risk.value(best)
    return best, lambda point: (risk.value(point) - least) / (RIDGE / 2 * tau**2)


def _counted(one: HeavyTailedPlan[LinearModelProblem], way: str) -> float:
    """Return the exponent of the planned number of steps in m, at one tau in units of ``C / (lambda m)``."""
    method = surrogate_named(way)
    assert isinstance(method, FixedSteps)
    ends = [method.steps(_part(one, m), ACCURACY * LEVEL / (RIDGE * m)) for m in (4, 400)]
    return math.log(ends[1] / ends[0]) / math.log(100)
