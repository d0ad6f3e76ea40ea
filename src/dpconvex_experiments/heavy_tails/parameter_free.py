"""What it costs to know neither the moment nor its order: a private level beside the level for known moments."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.erm.heavy_tailed.level import Scale
from dpconvex.algorithms.erm.heavy_tailed.registry import APART, heavy_plans
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.heavy_tails.rates import DIAMETER, PAPER, RADIUS, rate
from dpconvex_experiments.reference.lower_bound import LinearLoss
from dpconvex_experiments.shared import lines, panels, streams, unit_vectors

LENGTH = 1e4
"""Records are clipped to this length, far above any of theirs; its cost is a logarithm of its logarithm."""
MOST = 4.0
"""Largest order of a moment that the plan for known moments is told: its constants are not meant for larger orders."""
SHARES, STRONG = (1.0, 4.0, 16.0), 0.9
"""Strengths of the signal at which the excess is measured: multiples of the rate, and a strong signal."""


@dataclass(frozen=True)
class Law:
    """Lengths of gradients, scaled such that their moment of order k is 1; barely more exist."""

    name: str
    tail: float  #: exponent of Pareto's law; infinite: all lengths are 1
    k: float

    def draw(self, rng: np.random.Generator, n: int) -> Floats:
        """Return lengths (n,)."""
        return (1 - rng.random(n)) ** (-1 / self.tail) * self.least

    @property
    def least(self) -> float:
        """The smallest length."""
        return 1.0 if math.isinf(self.tail) else ((self.tail - self.k) / self.tail) ** (1 / self.k)

    def beyond(self, level: float) -> float:
        """Return ``E (A - C)_+``, the bias of a level over the diameter."""
        if math.isinf(self.tail):
            return max(1.0 - level, 0.0)
        above = max(level, self.least)
        return (self.least / above) ** self.tail * above / (self.tail - 1) + max(self.least - level, 0.0)

    def unit(self, n: int, dim: int, epsilon: float) -> float:
        """Return the rate, the sum of its private and its statistical term."""
        return rate(self.k, dim, n, epsilon) + DIAMETER / math.sqrt(n)


LAWS = (Law("Pareto 2.2", 2.2, 2.0), Law("Pareto 4.2", 4.2, 4.0), Law("constant", math.inf, 1e3))
CASES = ((10, 1.0), (50, 0.25))


def found_levels(law: Law, n: int, dim: int, epsilon: float, runs: int, seed: int) -> tuple[Estimate, Estimate]:
    """Return ``C d/(m epsilon)`` and ``E (A - C)_+`` of private levels, over the private term of the rate."""
    problem = LinearModelProblem(LinearLoss(), DataDomain.l2_ball(dim, LENGTH), n, RADIUS)
    scale, m = Scale(problem, n // APART, epsilon, epsilon, 0.01), 3 * n // 8
    unit, noise, bias = rate(law.k, dim, m, epsilon) / DIAMETER, [], []
    for run in range(runs):
        rng, source = streams(seed, run, n, dim, int(law.k))
        X = np.zeros((scale.n, dim))
        X[:, 0] = law.draw(rng, scale.n)
        level = scale.run(X, X[:, 0], source, Ledger(PrivacyParams(epsilon), scale.releases))[0]
        noise.append(level * dim / (m * epsilon) / unit)
        bias.append(law.beyond(level) / unit)
    return Estimate.of(noise), Estimate.of(bias)


def worst_excess(law: Law, n: int, dim: int, epsilon: float, runs: int, seed: int) -> tuple[Estimate, Estimate]:
    """Return the largest mean excess over strengths r of the signal over the rate: nothing known, and all known.

    Records are ``r e_1 + (1 - r) V``, V of the law's lengths in random directions, as in `rates`.
    """
    problem = LinearModelProblem(LinearLoss(), DataDomain.l2_ball(dim, LENGTH), n, RADIUS)
    told = ((None, None), (min(law.k, MOST), 1.0))
    plans = [heavy_plans(problem, PrivacyParams(epsilon), *known, "heavy_tailed")[0] for known in told]
    unit = law.unit(n, dim, epsilon)
    strengths = [*(min(share * unit / DIAMETER, STRONG) for share in SHARES), STRONG]
    excess = np.zeros((len(plans), runs, len(strengths)))
    for run in range(runs):
        rng, source = streams(seed, run, n, dim, int(law.k), 1)
        V = unit_vectors(rng, n, dim) * law.draw(rng, n)[:, None]
        for (j, r), (i, plan) in itertools.product(enumerate(strengths), enumerate(plans)):
            X = (1 - r) * V
            X[:, 0] += r
            excess[i, run, j] = r * (1 + plan.run(X, np.zeros(n), source).point[0]) / unit
    free, known = (Estimate.of(one[:, one.mean(axis=0).argmax()]) for one in excess)
    return free, known


def _excess_cells(found: tuple[Estimate, Estimate] | None) -> tuple[float | None, ...]:
    """The excess, its standard error, that with known moments, and their ratio; empty where it is not measured."""
    if found is None:
        return (None,) * 4
    free, known = found
    return *free[:2], known.value, free.over(known).value


@experiment("heavy-tails/parameter-free", f"{PAPER}, Remark A.1 (left open there); docs, Heavy tails, No moment known")
def parameter_free(setting: Setting, anchors: Anchors) -> Outcome:
    """What does it cost to know neither the moment of the gradients nor its order?

    Measure levels and the excess, beside known moments, for growing n.
    """
    sizes = (20_000, 160_000) if setting.quick else (20_000, 80_000, 320_000, 1_280_000)
    runs, often = (3, 8) if setting.quick else (6, 12)
    cases = [(law, *case) for law in LAWS for case in CASES[: 1 if setting.quick else 2]]
    jobs = [(case, n) for case in cases for n in sizes]
    levels, excess = {}, {}
    for (law, dim, epsilon), n in setting.track(jobs, "Measuring"):
        at = law.name, dim, n
        levels[at] = found_levels(law, n, dim, epsilon, often, setting.seed)
        if dim * n <= 4_000_000:  # time, and memory: X is dense
            excess[at] = worst_excess(law, n, dim, epsilon, runs, setting.seed)
    prices = {at: free.over(known) for at, (free, known) in excess.items()}
    slopes: dict[str, Estimate] = {}
    for law, dim, _ in cases:
        at = [(law.name, dim, n) for n in sizes]
        name = f"{law.name}, d = {dim}"
        slopes[f"noise, {name}"] = exponent(sizes, [levels[one][0] for one in at])
        if not math.isinf(law.tail):
            slopes[f"bias, {name}"] = exponent(sizes, [levels[one][1] for one in at])
        there = [one for one in at if one in excess]
        if len(there) > 2 or setting.quick:  # two sizes of a wide problem are too few, and too small
            slopes[f"excess, {name}"] = exponent([one[2] for one in there], [excess[one][0] for one in there])
    rows = [(*at, *noise[:2], *bias[:2], *_excess_cells(excess.get(at))) for at, (noise, bias) in levels.items()]
    off = 0.3 if setting.quick else 0.2
    named = {f"{name}, d = {dim}, n = {n}": prices[name, dim, n] for name, dim, n in prices}

    def draw(figure: Figure) -> None:
        for axes, (law, dim, _) in zip(panels(figure, len(cases)), cases, strict=True):
            there = [(law.name, dim, n) for n in sizes]
            curves = {"noise": [levels[at][0].value for at in there], "bias": [levels[at][1].value for at in there]}
            curves = {name: values for name, values in curves.items() if max(values) > 0}
            lines(axes, sizes, curves, ("records", f"of the rate, {law.name}, d = {dim}"))

    return Outcome(
        ("law", "d", "n", "noise", "s.e.", "bias", "s.e. 2", "excess", "s.e. 3", "known", "price"),
        tuple(rows),
        f"noise, bias and worst excess over their rates have slope 0 in n within {off}; noise and bias are at most "
        "3 rates; the price, the excess over that with known moments, is at most 3 and near its anchor",
        (
            *(anchors.within(f"slope of {name}", found, -off, off, linear=True) for name, found in slopes.items()),
            *(anchors.within(f"noise of rate, {at}", noise, 0.0, 3.0) for at, (noise, _) in levels.items()),
            *(anchors.within(f"bias of rate, {at}", bias, -1e-9, 3.0, linear=True) for at, (_, bias) in levels.items()),
            *(anchors.within(f"price at most, {name}", price, 0.0, 3.0) for name, price in named.items()),
            *anchors.near(named),
        ),
        draw,
        "Linear loss over the unit ball; d = 10 at epsilon 1, d = 50 at epsilon 1/4. Noise: C d/(m epsilon), bias: "
        "E (A - C)_+, both over (d/(m epsilon))^(1-1/k) with m = 3 n/8; C is the released level, the plan knows "
        f"neither k nor G_k. Excess: the largest mean of {runs} runs over {len(SHARES) + 1} strengths of the "
        "signal, over D (d/(n epsilon))^(1-1/k) + D/sqrt(n). Known: told k (4 for constant lengths) and "
        "G_k = 1. Price: their ratio; below 1 nothing is lost, as the constants for known moments are other ones.",
    )
