"""Bounds: what no private method can go below (X3), and from which n a proven one says anything."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

import numpy as np
from scipy.stats import binom

from dpconvex._types import Floats
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed import Moments, clipped_gradient
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate, exact, exponent
from dpconvex_experiments.heavy_tails.rates import DIAMETER, PAPER, RADIUS, LinearLoss, rate, wide_problem
from dpconvex_experiments.reference.lower_bound import PackingLaw, hardest
from dpconvex_experiments.shared import LINE_STYLES, lines, panels, streams, unit_vectors

# X3: the instances of the lower bound, what is measured on them, and what no private method can go below.

DIM, EPSILON = 10, 1.0
ORDERS = (2.0, 4.0)
KAPPAS = (1.0, 4.0, 16.0, 64.0)


def estimated_mean(w: Floats, norm: float) -> Floats:
    """Return the estimate ``-norm w/|w|`` of a mean of that norm (Lemma G.1); the first axis for w = 0."""
    length = float(np.linalg.norm(w))
    return norm * np.eye(len(w))[0] if length == 0 else -norm * w / length


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
    law = PackingLaw(k, p, np.eye(DIM)[0])
    plan = _plan(n, Moments(k, 1.0, law.moment(2.0), law.mean_norm))  # the exact moments of the gradients
    found = []
    for run in range(runs):
        rng, source = streams(seed, run, int(k), n, int(kappa))
        instance = PackingLaw(k, p, unit_vectors(rng, 1, DIM)[0])
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


@experiment("heavy-tails/lower-bound", f"{PAPER}, Theorem 4.1, Lemmas G.1 and G.3, Proposition G.4")
def lower_bound(setting: Setting, anchors: Anchors) -> Outcome:
    """How far above the lower bound is the risk on its own instances?"""
    sizes = (4_000, 16_000) if setting.quick else (4_000, 16_000, 64_000)
    runs = 12 if setting.quick else 24
    rows: list[tuple[float, ...]] = []
    worsts: dict[tuple[float, int], Estimate] = {}
    near: dict[str, Estimate] = {}
    above: dict[str, tuple[Estimate, float]] = {}
    for k, n in setting.track([(k, n) for k in ORDERS for n in sizes], "Measuring"):
        measured = [packing_excess(k, n, kappa, runs, setting.seed) for kappa in KAPPAS]
        private, (sampling, rho) = hardest(k, n, DIM, EPSILON)[0], sampling_lower_bound(n)
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
        f"d = {DIM}, epsilon = {EPSILON:g}, linear loss over the unit ball. k.x: mean excess of {runs} random "
        "directions with p = x d/(n epsilon), over D G_k (d/(n epsilon))^(1-1/k); the plan is told the moments of "
        f"these instances. Packing: the worst of them; exponents {exponents}.\n"
        "Private: the paper's lower bound with its constants (Lemmas G.1 and G.3; 2^d directions on the sphere, as "
        "means must have the same length), largest over p. Two: measured on laws on +-e_1, G_k = 1; any: what no "
        "method, private or not, can go below there.",
    )


# From which n a proven bound is below what any constant vector is charged: plans only, no data.

Case = tuple[float, int, float]
"""The order k of the moment, the dimension d and epsilon."""
CASES: tuple[Case, ...] = tuple(itertools.product((2.0, 4.0), (10, 50, 100), (0.5, 1.0, 4.0)))
SHARES = (1.0, 0.1)
LARGEST = 10**15
Bound = Callable[[LinearModelProblem, float, Moments], float]


def _localized(constants: str, failure: float | None) -> Bound:
    def bound(problem: LinearModelProblem, epsilon: float, moments: Moments) -> float:
        privacy = PrivacyParams(epsilon)
        return heavy_tailed.plan(problem, privacy, moments, constants=constants, failure=failure).schedule.bound

    return bound


BOUNDS: Mapping[str, Bound] = {
    "localized": _localized("calibrated", None),
    "but for 0.1": _localized("calibrated", 0.1),
    "printed": _localized("paper", 0.1),
    "descent": lambda problem, epsilon, moments: clipped_gradient.plan(problem, PrivacyParams(epsilon), moments).bound,
}


def smallest(enough: Callable[[int], bool]) -> int | None:
    """Return an n from which on `enough` is true, to 1 %; None if it is above 1e15.

    Bisection: bounds fall with n but for small steps, where phases are added.
    """
    low, high = 1, LARGEST
    if not enough(high):
        return None
    while high > 1.01 * low + 1:
        middle = round((low * high) ** 0.5)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@cache  # bisections begin alike
def value(bound: Bound, case: Case, n: int) -> float:
    """Return the bound for ``G_1 = G_2 = G_k = 1``; infinite if n is too small for the constants."""
    k, dim, epsilon = case
    moments = Moments(k, 1.0)
    try:
        return bound(wide_problem(LinearLoss(), dim, n, moments), epsilon, moments)
    except InvalidParameterError:
        return math.inf


def thresholds(case: Case, target: float) -> list[int | None]:
    """Return, for every bound, from which n it is at most `target`."""
    return [smallest(lambda n, bound=bound: value(bound, case, n) <= target) for bound in BOUNDS.values()]


@experiment("heavy-tails/constants", f"{PAPER}, Theorem 3.1; docs, Heavy tails")
def constants(setting: Setting, anchors: Anchors) -> Outcome:
    """From how many records on does each set of constants prove anything?

    Bisect for every bound, setting and share of the trivial bound.
    """
    cases = [case for case in CASES if not setting.quick or case[1] == 10]
    rows: list[tuple[Cell, ...]] = []
    for case in setting.track(cases, "Planning"):
        ours, other = (partial(value, BOUNDS[name], case) for name in ("localized", "descent"))
        crossing = smallest(lambda n, ours=ours, other=other: ours(n) <= other(n))
        rows += [(*case, share, *thresholds(case, share * DIAMETER), crossing) for share in SHARES]
    where = [f"k = {k}, d = {d}, epsilon = {epsilon}, share {share}" for k, d, epsilon, share, *_ in rows]
    near = {at: Estimate(float(row[4] or LARGEST)) for at, row in zip(where, rows, strict=True)}

    def draw(figure: Figure) -> None:
        for axes, share in zip(panels(figure, len(SHARES)), SHARES, strict=True):
            chosen = [row for row in rows if row[3] == share]
            for j, (name, style) in enumerate(zip(BOUNDS, LINE_STYLES, strict=False)):
                axes.plot(range(len(cases)), [row[4 + j] or math.nan for row in chosen], style, label=name)
            axes.set(yscale="log", title=f"smallest n, bound below {share:g} G_1 D", xlabel="k, d, epsilon")
            labels = [f"{k:g}, {d}, {epsilon:g}" for k, d, epsilon in cases]
            axes.set_xticks(range(len(cases)), labels, rotation=90, fontsize=7)
        figure.axes[0].legend()

    return Outcome(
        ("k", "d", "epsilon", "share", *BOUNDS, "overtakes"),
        tuple(rows),
        "the calibrated bound beats G_1 D with n <= 100,000 records for d <= 50 and epsilon >= 1, and with a "
        "thousandth of what the printed constants need in every setting; its thresholds are near their anchors",
        (*(check for row in rows if row[3] == 1.0 for check in _useful(row)), *anchors.near(near)),
        draw,
        "G_1 = G_2 = G_k = 1, D = 2, linear loss. Share: 1 is the trivial bound G_1 D, what any fixed vector may "
        "lose; 0.1 a tenth of it. The zero vector loses at most half. Localized: calibrated, in expectation; the "
        "next two hold but for probability 0.1. Printed: with the bias repaired.\n"
        "Descent: pure clipped gradient descent by its own bound, which is on the excess on the *data*; the others "
        "are on the population's. Overtakes: from where the localized bound is the smaller one. Empty: above 1e15.",
    )


def _useful(row: tuple[Cell, ...]) -> Iterator[Check]:
    k, d, epsilon, _, localized, _, printed, *_ = (float(cell or LARGEST) for cell in row)
    name = f"k = {k:g}, d = {d:g}, epsilon = {epsilon:g}"
    yield exact(f"printed over calibrated, {name}", printed / localized, 1_000, math.inf)
    if d <= 50 and epsilon >= 1:
        yield exact(f"records, {name}", localized, 1, 100_000)
