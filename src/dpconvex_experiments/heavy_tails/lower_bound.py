"""X3: the instances of the lower bound, what is measured on them, and what no private method can go below."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments
from dpconvex.privacy import PrivacyParams
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.heavy_tails._common import DIAMETER, PAPER, RADIUS, LinearLoss, rate, wide_problem
from dpconvex_experiments.shared import lines, panels, streams, unit_vectors

DIM, EPSILON = 10, 1.0
ORDERS = (2.0, 4.0)
KAPPAS = (1.0, 4.0, 16.0, 64.0)


@dataclass(frozen=True)
class Packing:
    """Records that are 0 but with probability p, then ``p^(-1/k) nu``: ``G_k = 1``, mean ``p^(1-1/k) nu``.

    With the linear loss over the unit ball nothing but nu matters, and only about n p records show it.
    """

    k: float
    p: float  # in (0, 1]
    direction: FloatArray  # the unit vector nu

    @property
    def mean_norm(self) -> float:
        """``m = |E x|``, by which the minimal risk is below 0."""
        return self.p ** (1 - 1 / self.k)

    @property
    def moments(self) -> Moments:
        """Exact moments of the gradients: ``G_j = p^(1/j - 1/k)``."""
        return Moments(self.k, 1.0, self.p ** (1 / 2 - 1 / self.k), self.mean_norm)

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return records, shape (n, dim)."""
        return np.outer(rng.random(n) < self.p, self.p ** (-1 / self.k) * self.direction)

    def excess(self, w: FloatArray) -> float:
        """Return the excess risk of a point of the unit ball: ``m (<nu, w> + 1)``."""
        return self.mean_norm * (float(self.direction @ w) + RADIUS)


def estimated_mean(w: FloatArray, norm: float) -> FloatArray:
    """Return the estimate ``-norm w/|w|`` of a mean of that norm (Lemma G.1); the first axis for w = 0."""
    length = float(np.linalg.norm(w))
    return norm * np.eye(len(w))[0] if length == 0 else -norm * w / length


def private_lower_bound(k: float, n: int, dim: int, epsilon: float) -> float:
    r"""Return what every pure epsilon-DP method loses on average over some packing, for ``G_k = 1``.

    A half-packing V of the sphere with ``2^d`` directions: an excess below ``D m/128`` identifies nu (Lemmas G.1, G.3),
    which fails with probability ``q/(2 (1 + q))`` at least, ``q = (|V| - 1) exp(-epsilon ceil(n p))``. Largest over p.
    """
    shown = np.arange(1, n + 1 if n < 10_000 else 10_001)  # ceil(n p); the best is about d log 2 / epsilon
    log_q = math.log(2.0**dim - 1) - epsilon * shown
    failure = 1 / (2 * (1 + np.exp(np.minimum(-log_q, 700.0))))
    return float(np.max(DIAMETER * (shown / n) ** (1 - 1 / k) / 128 * failure))


def sampling_lower_bound(n: int) -> tuple[float, float]:
    r"""Return what every method, private or not, loses on one of two laws on ``+-e_1``, and the rho of their means.

    Excesses under means ``+-rho`` add up to ``D rho`` at least, so that the larger is ``D rho (1 - TV)/2``, with the
    total variation of n records, that of two binomial laws. Largest over a grid of rho.
    """
    counts = np.arange(n + 1)

    def loss(rho: float) -> float:
        plus, minus = (binom.pmf(counts, n, (1 + sign * rho) / 2) for sign in (1, -1))
        return DIAMETER * rho * (1 - 0.5 * float(np.abs(plus - minus).sum())) / 2

    return max((loss(rho), rho) for rho in np.minimum(np.linspace(0.3, 2.0, 18) / math.sqrt(n), 1.0))


def packing_excess(k: float, n: int, kappa: float, runs: int, seed: int) -> Estimate:
    """Return the mean excess risk on packing instances with ``p = kappa d/(n epsilon)`` and random directions."""
    p = min(kappa * DIM / (n * EPSILON), 1.0)
    plan = _plan(n, Packing(k, p, np.eye(DIM)[0]).moments)
    found = []
    for run in range(runs):
        rng, source = streams(seed, run, int(k), n, int(kappa))
        instance = Packing(k, p, unit_vectors(rng, 1, DIM)[0])
        found.append(instance.excess(plan.run(instance.draw(n, rng), np.zeros(n), source).point))
    return Estimate.of(found)


def two_point_excess(k: float, n: int, rho: float, runs: int, seed: int) -> Estimate:
    """Return the mean excess risk on both laws on ``+-e_1`` with means ``+-rho``, each in half of the runs."""
    plan = _plan(n, Moments(k, 1.0))
    found = []
    for run in range(runs):
        rng, source = streams(seed, run, int(k), n)
        sign = 1 if run % 2 else -1
        X = np.zeros((n, DIM))
        X[:, 0] = np.where(rng.random(n) < (1 + sign * rho) / 2, 1.0, -1.0)
        found.append(rho * (RADIUS + sign * plan.run(X, np.zeros(n), source).point[0]))
    return Estimate.of(found)


def _plan(n: int, moments: Moments) -> heavy_tailed.HeavyTailedPlan:
    return heavy_tailed.plan(wide_problem(LinearLoss(), DIM, n, moments), PrivacyParams(EPSILON), moments)


@experiment(
    "heavy-tails/lower-bound",
    "How far above the lower bound is the risk on its own instances?",
    f"{PAPER}, Theorem 4.1, Lemmas G.1 and G.3, Proposition G.4",
)
def lower_bound(setting: Setting) -> Outcome:
    """Measure on all instances, for growing n."""
    sizes = (4_000, 16_000) if setting.quick else (4_000, 16_000, 64_000, 256_000)
    runs = 12 if setting.quick else 24
    rows: list[tuple[float, ...]] = []
    worsts: dict[tuple[float, int], Estimate] = {}
    near: dict[str, Estimate] = {}
    above: dict[str, tuple[Estimate, float]] = {}
    for k, n in setting.track([(k, n) for k in ORDERS for n in sizes], "Measuring"):
        measured = [packing_excess(k, n, kappa, runs, setting.seed) for kappa in KAPPAS]
        private, (sampling, rho) = private_lower_bound(k, n, DIM, EPSILON), sampling_lower_bound(n)
        ratios = [m.times(1 / rate(k, DIM, n, EPSILON)) for m in measured]
        worsts[k, n] = max(measured)
        two = two_point_excess(k, n, rho, 2 * runs, setting.seed)
        rows.append((k, n, *(r.value for r in ratios), *max(measured)[:2], private, *two[:2], sampling))
        near |= {f"of rate, k = {k:g}, n = {n}, {x:g} d/(n epsilon)": r for x, r in zip(KAPPAS, ratios, strict=True)}
        near[f"two points, k = {k:g}, n = {n}"] = two
        above[f"packing, k = {k:g}, n = {n}"] = worsts[k, n], private
        above[f"two points, k = {k:g}, n = {n}"] = two, sampling
    slopes = {k: exponent(sizes, [worsts[k, n] for n in sizes]) for k in ORDERS}

    def draw(figure: Figure) -> None:
        for axes, k in zip(panels(figure, 2), ORDERS, strict=True):
            worst, _, private, two, _, sampling = zip(*(row[6:] for row in rows if row[0] == k), strict=True)
            curves = {"packing, measured": worst, "two points, measured": two}
            lower = {"no private method below": private, "no method below": sampling}
            lines(axes, sizes, curves, ("records", f"excess risk, k = {k:g}"), dashed=lower)

    off = 0.15
    exponents = ", ".join(f"{s.value:.3f} +- {s.error:.3f} (k = {k:g})" for k, s in slopes.items())
    anchors = Anchors("heavy-tails/lower-bound", setting.quick)
    return Outcome(
        ("k", "n", *(f"k.{kappa:g}" for kappa in KAPPAS), "packing", "s.e.", "private", "two", "s.e. 2", "any"),
        tuple(rows),
        f"the worst measured excess on packings has the exponent -(1 - 1/k) within {off} and is at most 1.5 D G_k "
        "(d/(n epsilon))^(1-1/k); no measured risk is below its lower bound; all are near their anchors",
        (
            *(
                anchors.within(f"exponent, k = {k:g}", s, 1 / k - 1 - off, 1 / k - 1 + off, linear=True)
                for k, s in slopes.items()
            ),
            *(
                anchors.within(f"worst of rate, k = {k:g}, n = {n}", w.times(1 / rate(k, DIM, n, EPSILON)), 0.0, 1.5)
                for (k, n), w in worsts.items()
            ),
            *(anchors.within(name, found, least, math.inf) for name, (found, least) in above.items()),
            *anchors.near(near),
        ),
        draw,
        (
            f"d = {DIM}, epsilon = {EPSILON:g}, linear loss over the unit ball. k.x: mean excess of {runs} random "
            "directions with p = x d/(n epsilon), over D G_k (d/(n epsilon))^(1-1/k); the plan is told the moments of "
            f"these instances. Packing: the worst of them; exponents {exponents}.",
            "Private: the paper's lower bound with its constants (Lemmas G.1 and G.3; 2^d directions on the sphere, as "
            "means must have the same length), largest over p. Two: measured on laws on +-e_1, G_k = 1; any: what no "
            "method, private or not, can go below there.",
        ),
    )
