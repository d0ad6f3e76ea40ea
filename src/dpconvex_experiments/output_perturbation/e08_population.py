"""E8: excess population loss: exact for the mean, below the bound for logistic regression, and free for large n."""

from __future__ import annotations

import numpy as np

from dpconvex.algorithms.erm import output_perturbation
from dpconvex.algorithms.erm.output_perturbation.schedules import privacy_ratio
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex_experiments import checks
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import Anchors, Check, Estimate
from dpconvex_experiments.output_perturbation._common import (
    Risk,
    energy,
    lines,
    logistic_records,
    noise,
    on_sphere,
    releases,
)

DIM = 5
SIZES = (10, 30, 100, 300, 1000, 3000)
DELTA = 1e-6


def measure(setting: Setting) -> Outcome:
    """Draw data sets and noise; the mean of points on the unit sphere has a population loss in closed form."""
    count, source = 150 if setting.quick else 2000, SeededSource(setting.seed)
    rng = np.random.default_rng(setting.seed)
    rows: list[tuple[str, int, float, float | None, float | None, float]] = []
    terms: list[tuple[float, float]] = []
    found: list[Check] = []
    for delta in (0.0, DELTA):
        for n in setting.track(SIZES, "Means"):
            statistical, private, total = _mean(rng, n, delta, count, source)
            exact = _exact(n, delta)
            q = privacy_ratio(DIM, 1.0, delta) / n
            claim = 4.0 * min(2 / n + 4 * q**2, 2 * (1 / n + q))  # L = 2: Propositions 4.2 (kappa = 1) and 4.1
            rows.append((f"mean, delta {delta:g}", n, *total[:2], exact, claim))
            found.append(checks.mean(f"excess, delta = {delta:g}, n = {n}", total, exact, exact))
            found.append(checks.exact(f"exact over bound, delta = {delta:g}, n = {n}", exact / claim, 0.0, 1.0))
            if delta == 0:
                terms.append((statistical, private))
    anchors = Anchors("output-perturbation/e8-population", setting.quick)
    near: dict[str, Estimate] = {}
    crossing = Estimate(1.0, 0.1, count).times(_crossing([s / p for s, p in terms]))
    for n in (2_000,) if setting.quick else (2_000, 20_000, 200_000):
        excess, bound = _logistic(rng, n, setting.quick, source)
        rows.append(("logistic", n, *excess[:2], None, bound))
        near[f"logistic, n = {n}"] = excess
        found.append(anchors.within(f"logistic, n = {n}", near[f"logistic, n = {n}"], 0.0, bound, "plan"))
    guide = 2 * DIM**2

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lines(
            axes,
            SIZES,
            {"statistical": [s for s, _ in terms], "private": [p for _, p in terms]},
            ("records", "expected excess population loss of a mean"),
        )
        axes.axvline(guide, color="#444444", linewidth=1, linestyle=":", label="2 kappa (d / epsilon)^2")
        axes.legend()

    return Outcome(
        ("problem", "n", "excess", "s.e.", "exact", "bound"),
        tuple(rows),
        "means agree with the exact value, which is below its bound; logistic regression is below its bound and near "
        "its anchor; the private term falls below the statistical one at an n within a factor 4 of 2 kappa "
        "(d/epsilon)^2",
        (
            *found,
            *(check for name, excess in near.items() for check in anchors.near({name: excess})),
            anchors.within("crossing over 2 kappa (d/epsilon)^2", crossing.times(1 / guide), 0.25, 4),
        ),
        draw,
        (
            f"d = {DIM}, epsilon = 1, {count} data sets each; bounds of the mean: the smaller of Propositions 4.1 and "
            f"4.2. The terms cross at n = {crossing.value:.0f}; 2 kappa (d/epsilon)^2 = {guide}.",
            "Logistic: three runs (ten in full), sharp population schedule and its bound, loss on fresh records "
            "against the true coefficients, which minimise it.",
        ),
    )


def _mean(
    rng: np.random.Generator, n: int, delta: float, count: int, source: SeededSource
) -> tuple[float, float, Estimate]:
    """Return the two measured terms of the excess, and the excess, which holds their product too."""
    centres = np.array([on_sphere(rng, n, DIM).mean(0) for _ in range(count)])
    added = releases(noise(DIM, 2 / n, 1.0, delta), np.zeros(DIM), PrivacyParams(1.0, delta), count, source)
    excess = 0.5 * ((centres + added) ** 2).sum(1)
    return 0.5 * float((centres**2).sum(1).mean()), 0.5 * float((added**2).sum(1).mean()), Estimate.of(excess)


def _exact(n: int, delta: float) -> float:
    """``mu/2 (tr Sigma / n + E|z|^2)`` with mu = 1, points on the unit sphere and sensitivity 2/n."""
    return 0.5 * (1 / n + energy(DIM, 1.0, delta) * (2 / n) ** 2)


def _crossing(ratios: list[float]) -> float:
    """Return the n at which statistical over private passes 1, between the sizes."""
    return float(np.exp(np.interp(0.0, np.log(ratios), np.log(SIZES))))


def _logistic(rng: np.random.Generator, n: int, quick: bool, source: SeededSource) -> tuple[Estimate, float]:
    """Return the mean excess of some runs on the same records, and the plan's bound."""
    truth = np.linspace(-1, 1, DIM) * 2
    X, y = logistic_records(rng, n, truth)
    problem = LinearModelProblem(LogisticLoss(), DataDomain.l2_ball(DIM, 1.0), n, 5.0)
    plan = output_perturbation.plan(problem, PrivacyParams(1.0), target="population")[0]
    fresh = Risk(LogisticLoss(), *logistic_records(rng, 100_000 if quick else 1_000_000, truth))
    excess = Estimate.of(fresh(plan.run(X, y, source).point) - fresh(truth) for _ in range(3 if quick else 10))
    return excess, plan.predicted_error.bound


E8 = Experiment(
    "output-perturbation/e8-population",
    "What does privacy cost on the population, and when is it free?",
    "Lowy and Razaviyayn, Propositions 4.1 to 4.4 (errata U6, U7, U8)",
    measure,
)
