"""X1: worst excess risk over signal strengths, against n, epsilon and d, beside the exponents of the theory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.privacy import PrivacyParams
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.heavy_tails._common import PAPER, LinearLoss, rate, wide_problem
from dpconvex_experiments.shared import lines, panels, streams, unit_vectors

ORDERS = (2.0, 4.0)
FRACTIONS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
STRONG = (0.3, 0.6, 0.9)


@dataclass(frozen=True)
class Point:
    """One setting of a sweep."""

    k: float  # moments of this order are bounded by 1; barely more exist
    n: int
    dim: int
    epsilon: float

    @property
    def unit(self) -> float:
        """The private term of the rate."""
        return rate(self.k, self.dim, self.n, self.epsilon)


SIGNS = {"n": -1, "epsilon": -1, "d": 1}


def sweeps(base: Point, *, quick: bool) -> dict[str, tuple[Point, ...]]:
    """Return the settings of every sweep, all of them through `base`."""
    sizes = (8_000, 32_000) if quick else (8_000, 16_000, 32_000, 64_000, 128_000)
    epsilons = (0.25, 1.0) if quick else (0.125, 0.25, 0.5, 1.0)
    dims = (12, 50) if quick else (12, 25, 50, 100)
    return {
        "n": tuple(replace(base, n=n) for n in sizes),
        "epsilon": tuple(replace(base, epsilon=epsilon) for epsilon in epsilons),
        "d": tuple(replace(base, dim=dim) for dim in dims),
    }


def pareto_noise(rng: np.random.Generator, k: float, n: int, dim: int) -> FloatArray:
    """Return directions with Pareto(k + 0.2) lengths whose k-th moment is 1, shape (n, dim)."""
    shape = k + 0.2
    lengths = (1 - rng.random(n)) ** (-1 / shape) * (0.2 / shape) ** (1 / k)
    return unit_vectors(rng, n, dim) * lengths[:, None]


def worst_excess(point: Point, runs: int, seed: int) -> tuple[Estimate, float, Estimate]:
    """Return the largest mean excess risk over signal strengths r, that r, and the excess at the largest r.

    Records are ``r e_1 + (1 - r) V`` with V of mean 0 and ``G_k = 1``; the loss is linear over the unit ball, so that
    the excess of w is ``r (1 + w_1)``. For one fixed r a method may be faster than the rate; the rate is that of the
    worst.
    """
    moments = Moments(point.k, 1.0)
    problem = wide_problem(LinearLoss(), point.dim, point.n, moments)
    plan = heavy_tailed.plan(problem, PrivacyParams(point.epsilon), moments)
    first = 2 * plan.problem.radius * plan.phases[0].l2  # Delta_1 of the specification
    strengths = sorted({min(first * fraction, STRONG[-1]) for fraction in FRACTIONS} | {*STRONG})
    excess = np.zeros((runs, len(strengths)))
    for run in range(runs):
        rng, source = streams(seed, run, int(point.k), point.n, point.dim, int(1e3 * point.epsilon))
        V = pareto_noise(rng, point.k, point.n, point.dim)
        for j, r in enumerate(strengths):
            X = (1 - r) * V
            X[:, 0] += r
            excess[run, j] = r * (1 + plan.run(X, np.zeros(point.n), source).point[0])
    worst = int(excess.mean(axis=0).argmax())
    return Estimate.of(excess[:, worst]), strengths[worst], Estimate.of(excess[:, -1])


@experiment(
    "heavy-tails/rates",
    "Does the worst excess risk have the exponents of the theory in n, epsilon and d?",
    f"{PAPER}, Theorem 3.1; docs, Heavy tails",
)
def rates(setting: Setting) -> Outcome:
    """Measure every sweep for both orders."""
    runs = 3 if setting.quick else 8
    n = 8_000 if setting.quick else 32_000
    plans = {k: sweeps(Point(k, n, 50, 0.25), quick=setting.quick) for k in ORDERS}
    points = dict.fromkeys(p for sweep in plans.values() for chosen in sweep.values() for p in chosen)
    found = {p: worst_excess(p, runs, setting.seed) for p in setting.track(points, "Measuring")}
    rows, slopes = [], {}
    for k, sweep in plans.items():
        for name, chosen in sweep.items():
            x, y = [_x(p, name) for p in chosen], [found[p][0] for p in chosen]
            theory = SIGNS[name] * (1 - 1 / k)
            fitted = exponent(x, y)
            slopes[f"exponent of {name}, k = {k:g}"] = fitted, theory
            rows += [
                (k, name, value, found[p][1], *e[:2], e.value / p.unit, fitted.value, theory)
                for value, p, e in zip(x, chosen, y, strict=True)
            ]

    def draw(figure: Figure) -> None:
        for axes, name in zip(panels(figure, 3), SIGNS, strict=True):
            x = [_x(p, name) for p in plans[ORDERS[0]][name]]
            curves = {f"k = {k:g}": [found[p][0].value for p in plans[k][name]] for k in ORDERS}
            theory = {f"0.4 of rate, k = {k:g}": [0.4 * p.unit for p in plans[k][name]] for k in ORDERS}
            lines(axes, x, curves, (name, "worst excess risk"), dashed=theory)
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.xaxis.minorticks_off()
            axes.get_legend().remove()  # pyright: ignore[reportOptionalMemberAccess]
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))

    count = len(FRACTIONS) + len(STRONG)
    off, high = (0.2, 0.6) if setting.quick else (0.1, 0.6)
    anchors = Anchors("heavy-tails/rates", setting.quick)
    where = {p: f"k = {p.k:g}, n = {p.n}, d = {p.dim}, epsilon = {p.epsilon:g}" for p in points}
    ratios = {f"of rate, {where[p]}": found[p][0].times(1 / p.unit) for p in points}
    # With a strong signal the excess is that of the noise alone; the worst one at k = 2 hardly is.
    strong = {f"of rate at r = {STRONG[-1]}, {where[p]}": found[p][2].times(1 / p.unit) for p in points}
    return Outcome(
        ("k", "sweep", "value", "worst r", "excess", "s.e.", "of rate", "slope", "theory"),
        tuple(rows),
        f"slopes are within {off} of the theory's; the excess is at most {high} D G_k (d/(n epsilon))^(1-1/k), and "
        "near its anchor",
        (
            *(anchors.within(name, a, b - off, b + off, linear=True) for name, (a, b) in slopes.items()),
            *(anchors.within(name, ratio, 0.0, high) for name, ratio in ratios.items()),
            *anchors.near(ratios),
            *anchors.near(strong),
        ),
        draw,
        (
            "Linear loss over the unit ball; records r e_1 + (1 - r) V with Pareto(k + 0.2) lengths of V, G_k = 1; the "
            f"largest mean of {runs} runs over {count} strengths r. Not swept: n = {n:,}, d = 50, "
            "epsilon = 0.25, where the private term of the rate is the larger one. Slopes are those of a sweep as a "
            "whole. Quick mode: fewer runs, wider limits.",
            "Where sqrt(n) does more harm than privacy (k = 4, epsilon = 1) the other term of the rate shows.",
        ),
    )


def _x(point: Point, name: str) -> float:
    return {"n": point.n, "epsilon": point.epsilon, "d": point.dim}[name]
