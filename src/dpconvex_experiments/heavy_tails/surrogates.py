"""Truncation, the Lipschitz extension by five ways, and what they cost at one certified accuracy."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm.heavy_tailed import Moments, plan
from dpconvex.algorithms.erm.heavy_tailed.surrogates import SURROGATES, Extension
from dpconvex.losses import AbsoluteLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.problems.linear.extension_risk import ExtensionRisk
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Check, exact
from dpconvex_experiments.heavy_tails.rates import PAPER
from dpconvex_experiments.shared import streams

LEVEL, RIDGE, ACCURACY = 1.0, 1.0, 2.0  # C, lambda, and tau in units of C / (lambda m)
WAYS = ("truncated", "extension", "structured", "joint", "fixed_steps")
FINE = 100.0  # how much closer the point is that the others are compared with


@experiment(
    "heavy-tails/surrogates", "Truncation and the Lipschitz extension by its five ways", f"{PAPER}, Theorem D.4"
)
def surrogates(setting: Setting) -> Outcome:
    """Minimize the same ridge risks by every way, to one tau."""
    runs, m = (1, 3) if setting.quick else (5, 6)
    problem = LinearModelProblem(AbsoluteLoss(1e3), DataDomain.l2_ball(2, 100.0), m, 1.0)
    tau = ACCURACY * LEVEL / (RIDGE * m)
    alpha, beta = RIDGE / 2 * tau**2, 2 * LEVEL / (RIDGE * m) + 2 * tau  # beta: at epsilon = 1
    rows: list[tuple[Cell, ...]] = []
    checks: list[Check] = []
    for run in setting.track(range(runs), "Minimizing"):
        rng, _ = streams(setting.seed, run, m)
        X, y = rng.standard_t(2.1, (m, 2)), rng.standard_t(3, m)
        data, start = (Records.clipped(X, problem.domain), y), np.zeros(2)
        plans = {name: plan(problem, PrivacyParams(60.0), Moments(2.0, 1.0), surrogate=name) for name in WAYS}
        noise = rng.gamma(2, beta, (400, 1)) * (lambda g: g / np.linalg.norm(g, axis=1)[:, None])(
            rng.standard_normal((400, 2))
        )
        risk: ExtensionRisk | None = None
        least = math.nan
        for name in ("extension", *(way for way in WAYS if way != "extension")):
            phase = plans[name].phases[0]
            truncation = replace(phase.truncation, level=LEVEL, smoothing=1e-4)
            part, method = plans[name].part(replace(phase, l2=RIDGE, truncation=truncation)), SURROGATES[name]
            region = plans[name].domain
            begun = time.perf_counter()
            point = method.minimize(part, data, start, (region, tau, start))
            spent = time.perf_counter() - begun
            if isinstance(method, Extension) and risk is None:
                best = method.minimize(part, data, start, (region, tau / FINE, start))
                risk = method.risk(part, data, start, tau / FINE)
                least = risk.value(best)
            assert risk is not None  # the extension is first; tells the type checker
            gap = (risk.value(point) - least) / alpha
            released = np.array([region.project(point + b) for b in noise])
            excess = _loss(X, y, released).mean() - _loss(X, y, best[None]).min()
            rows.append((name, run, gap, excess, spent))
            if name != "truncated":  # another function; all others certify a gap of alpha, and none is below the least
                checks.append(exact(f"run {run}, {name}: gap, of alpha", gap, -2 / FINE**2, 1.0 + 2 / FINE**2))
            else:  # A.2: minimizers differ by at most the mean slope of the difference
                lengths = np.linalg.norm(X, axis=1)
                bound = np.where(lengths > LEVEL, 2 * lengths, 0.0).mean() / RIDGE + tau + tau / FINE + 0.01
                apart = float(np.linalg.norm(point - best))
                checks.append(exact(f"run {run}, truncated: distance, of its bound", apart / bound, 0.0, 1.0))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for way in WAYS:
            found = [row for row in rows if row[0] == way]
            axes.loglog([float(row[4] or 0) for row in found], [float(row[3] or 0) for row in found], "o", label=way)
        axes.set(xlabel="seconds", ylabel="excess after noise at epsilon = 1")
        axes.legend()

    return Outcome(
        ("surrogate", "run", "gap, of alpha", "excess after noise", "seconds"),
        tuple(rows),
        "every way to the extension ends within its gap, certified or planned; truncation is as near as Lemma 3 says",
        tuple(checks),
        draw,
        (
            f"Absolute loss, d = 2, m = {m}, features t(2.1), targets t(3), unit disc, C = 1, lambda = {RIDGE:g}, "
            f"tau = {ACCURACY:g} C/(lambda m); gaps of the extended risk; excess of the mean loss on the records.",
        ),
    )


def _loss(X: FloatArray, y: FloatArray, points: FloatArray) -> FloatArray:
    """Mean losses of points, one a row."""
    return np.abs(X @ points.T - y[:, None]).mean(0)
