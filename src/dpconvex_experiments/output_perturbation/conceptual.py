"""E14, E15: the exponential mechanism of Appendix G, and the worst instance for noise that covers the whole ball."""

import math
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm import output_perturbation
from dpconvex.losses import AbsoluteLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex_experiments.base import Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate, exact, exponent, mean
from dpconvex_experiments.output_perturbation._common import laplace
from dpconvex_experiments.reference import exponential_mechanism
from dpconvex_experiments.shared import lines, panels, unit_vectors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# E14: the excess of Algorithms 9 and 11 falls with the exponents of Appendix G, on losses with a kink at the minimum.

RIDGE, MINIMUM, BLOCK = 0.1, 0.337, 10
METHODS = ("whole ball", "localized", "output perturbation")
THEORY: dict[str, tuple[float, float]] = dict(zip(METHODS, ((-1.2, -0.7), (-2.2, -1.4), (-1.02, -0.98)), strict=True))
"""Limits around the exponents -1, -2 and -1 of the theory; logarithms of grids and radii change the first two."""


@experiment(
    "output-perturbation/e14-exponential",
    "Lowy and Razaviyayn, Appendix G: Theorem G.1, Proposition G.2, Algorithms 9 to 11",
)
def exponential(setting: Setting, _anchors: Anchors) -> Outcome:
    """What do localization and the exponential mechanism gain where the loss has a kink?

    Release the minimizer of a sum of absolute values, and measure its excess over the number of records.
    """
    sizes, blocks = ((100, 1_600), 20) if setting.quick else ((200, 800, 3_200), 40)
    source = SeededSource(setting.seed)
    found: dict[str, list[Estimate]] = {name: [] for name in METHODS}
    for n in setting.track(sizes, "Releasing"):
        X, y = np.ones((n, 1)), np.full(n, MINIMUM)
        for name, plan in _plans(n).items():
            lost = [_excess(plan.run(X, y, source).point, plan.l2) for _ in range(blocks * BLOCK)]
            found[name].append(Estimate.of(np.median(np.reshape(lost, (blocks, BLOCK)), axis=1)))
    rows = [
        (n, *(excess.value for excess in all_), max(excess.error for excess in all_))
        for n, *all_ in zip(sizes, *found.values(), strict=True)
    ]
    gain = found[METHODS[1]][-1].over(found[METHODS[2]][-1])

    def draw(figure: "Figure") -> None:
        curves = {name: [excess.value for excess in all_] for name, all_ in found.items()}
        lines(figure.subplots(), sizes, curves, ("records", "excess risk"))

    return Outcome(
        ("n", *METHODS, "largest s.e."),
        tuple(rows),
        "the typical excess falls like 1/n over the whole ball and like 1/n^2 when localized, logarithms apart, where "
        "output perturbation has 1/n, and localization loses less at the largest n",
        (
            *(mean(f"exponent, {name}", exponent(sizes, all_), *THEORY[name]) for name, all_ in found.items()),
            mean("localized over output perturbation", gain, 0.0, 1.0),
        ),
        draw,
        f"Mean of |w - {MINIMUM:g}|, one parameter, R = L = 1, epsilon = 1. Means of {blocks} medians of {BLOCK} "
        "runs each: rare misses of the small ball make most of a mean of so few, and a median of many jumps on the "
        f"mechanism's grid. The last two have a ridge of {RIDGE:g} in their target.",
    )


def _plans(n: int) -> dict[str, LinearModelPlan]:
    problem = LinearModelProblem(AbsoluteLoss(1.0), DataDomain.l2_ball(1, 1.0), n, 1.0)
    privacy = PrivacyParams(1.0)
    found = (
        exponential_mechanism.plan(problem, privacy)[0],
        exponential_mechanism.plan_localized(problem, privacy, RIDGE)[0],
        output_perturbation.plan(problem, privacy, l2=RIDGE)[0],
    )
    return dict(zip(METHODS, found, strict=True))


def _excess(w: Floats, l2: float) -> float:
    """Return the excess over the kink, the minimizer with this ridge too."""
    return float(abs(w[0] - MINIMUM) + l2 / 2 * (w[0] ** 2 - MINIMUM**2))


# E15: the worst objective for the diameter mechanism is a cone, and no other known mechanism was asked for.

RATIOS = (1.0, 2.0, 5.0, 10.0, 50.0)
"""Ratios of epsilon to d that are measured; below 2 the bound says nothing."""
DEPTHS = np.linspace(0.0, 1.0, 6)


@experiment(
    "output-perturbation/e15-worst-case", "Lowy and Razaviyayn, Theorem 3.4.1 (erratum U11); docs, Output perturbation"
)
def worst_case(setting: Setting, anchors: Anchors) -> Outcome:
    """Is the bound of the diameter mechanism tight, for which objective, and is the mechanism the best one?

    Search for the objective on which a projected noisy minimizer loses most of L R d / epsilon.
    """
    dims, count = ((1, 2), 2_000) if setting.quick else ((1, 2, 5), 40_000)
    rng = np.random.default_rng(setting.seed)
    rows: list[tuple[float, ...]] = []
    checks: list[Check] = []
    near: dict[str, Estimate] = {}
    for d in setting.track(dims, "Searching"):
        for ratio in RATIOS:
            epsilon, where = ratio * d, f"d = {d}, epsilon/d = {ratio:g}"
            noise = laplace(d, 2.0, epsilon).simulate(count, rng)
            cones = [_cone(noise, depth) for depth in DEPTHS]
            worst = int(np.argmax([cone.mean() for cone in cones]))
            risk, bound = Estimate.of(cones[worst]), 2 / ratio
            searched = _search(rng, noise[:500], float(DEPTHS[worst])) / float(cones[worst][:500].mean())
            levels = Estimate.of(_two_levels(rng, d, epsilon, count // 4))
            rows.append((d, ratio, bound, risk.value, float(DEPTHS[worst]), searched, levels.value, risk.error))
            checks.append(mean(f"of the bound, {where}", risk.times(1 / bound), 0.99 if ratio == 50 else 0.0, 1.0))
            checks.append(exact(f"best objective found over the cone, {where}", searched, 0.6, 1 + 1e-9))
            near |= {f"two levels over noise, {where}": levels.over(risk)}
            if d == 1:
                scale = 2 / epsilon
                exactly = scale * -math.expm1(-1 / scale)
                checks.append(mean(f"cone at the center, {where}", Estimate.of(cones[0]), exactly, exactly))
    checks += [mean(name, e, 0.0, 1.0) for name, e in near.items()]

    def draw(figure: "Figure") -> None:
        for axes, d in zip(panels(figure, len(dims)), dims, strict=True):
            mine = [row for row in rows if row[0] == d]
            curves = {
                name: [row[k] for row in mine] for k, name in ((2, "bound"), (3, "worst case"), (6, "two levels"))
            }
            lines(axes, RATIOS, curves, ("epsilon / d", f"excess risk / LR, d = {d}"))

    return Outcome(
        ("d", "eps/d", "bound", "worst", "depth", "searched", "two levels", "s.e."),
        tuple(rows),
        "the cone reaches the bound where noise is small; no objective that a search finds is worse than the cone; a "
        "mechanism of two levels loses less everywhere",
        (*checks, *anchors.near(near)),
        draw,
        "R = L = 1. Worst: L times the distance of the projected noisy minimizer, at the worst of six depths from "
        "the center (0) to the sphere (1). Searched: hill climbing over maxima of 6 absolute values, as a share of "
        "the cone on the same draws. Two levels: uniform on a ball around the minimizer with density e^epsilon, "
        "and 1 elsewhere, at the worse of the center and the sphere; an experiment, not a part of the library.",
    )


def _cone(noise: Floats, depth: float) -> Floats:
    """Return how far the projected release is from a minimizer at that depth."""
    moved = _released(noise, depth)
    moved[:, 0] -= depth
    return np.linalg.norm(moved, axis=1)


def _released(noise: Floats, depth: float) -> Floats:
    points = noise.copy()
    points[:, 0] += depth
    return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True))


def _search(rng: np.random.Generator, noise: Floats, depth: float, steps: int = 300) -> float:
    """Return the largest risk found over ``max_k |<g_k, w - a>|``, |g_k| at most 1: convex, least at a, 1-Lipschitz."""
    moved = _released(noise, depth)
    moved[:, 0] -= depth

    def risk(g: Floats) -> float:
        return float(np.abs(moved @ g.T).max(1).mean())

    best = unit_vectors(rng, 6, noise.shape[1]) * rng.uniform(0.5, 1.0, (6, 1))
    value = risk(best)
    for _ in range(steps):
        g = best + rng.normal(0.0, 0.2, best.shape)
        g /= np.maximum(1.0, np.linalg.norm(g, axis=1, keepdims=True))
        if (found := risk(g)) > value:
            best, value = g, found
    return value


def _two_levels(rng: np.random.Generator, d: int, epsilon: float, count: int) -> Floats:
    """Return distances from the minimizer of a point of density ``e^epsilon`` in a ball of radius s around it, else 1.

    The small ball is shifted into the large one, so its volume, and with it the density, is the same for every data
    set: pure epsilon-DP whatever the minimizer. s is the best of a grid; of center and sphere, the worse.
    """
    u = unit_vectors(rng, count, d) * rng.random((count, 1)) ** (1 / d)
    found = []
    for s in np.geomspace(1e-3, 1.0, 40):
        inside = math.exp(epsilon) * s**d / (math.exp(epsilon) * s**d + 1 - s**d)
        both = []
        for depth in (0.0, 1.0):
            a = depth * np.eye(d)[0]
            far = np.linalg.norm(u - a, axis=1)
            outside = np.linalg.norm(u - a * (1 - s), axis=1) > s
            rest = far[outside].mean() if outside.any() else 0.0
            both.append(inside * np.linalg.norm(s * u - a * s, axis=1) + (1 - inside) * rest)
        found.append(max(both, key=lambda each: float(each.mean())))
    return min(found, key=lambda each: float(each.mean()))
