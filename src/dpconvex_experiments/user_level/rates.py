"""X7 to X9: exponents of the worst excess of the accelerated method, and of the gradients that methods ask for."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.erm.user_level import plan_accelerated, plan_phased
from dpconvex.losses import AbsoluteLoss, LinearModelLoss, LogisticLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.randomness import SeededSource
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exact, exponent
from dpconvex_experiments.reference.lower_bound import LinearLoss
from dpconvex_experiments.reference.printed_users import accelerated
from dpconvex_experiments.shared import lines, panels, slope, streams, unit_vectors

# What all experiments use: users with equally many records, plans for them.

PAPER = "Lowy, Liu and Asi 2024, Faster algorithms for user-level private SCO"
DELTA = 1e-6


def promise(epsilon: float) -> PrivacyParams:
    """Return the promise for users."""
    return PrivacyParams(epsilon, DELTA, unit=Unit.USER)


def user_problem(loss: LinearModelLoss, dim: int, n: int, m: int, radius: float) -> LinearModelProblem:
    """Return the problem of `n` users with `m` records each, features in the unit ball."""
    return LinearModelProblem(loss, DataDomain.l2_ball(dim, 1.0), n, radius, records_per_user=m)


def same_size(n: int, m: int) -> UserGroups:
    """Return `n` users with `m` consecutive records each."""
    return UserGroups(np.arange(n + 1) * m)


# X7 and X8: worst excess of the accelerated method over signal strengths, against n, m, epsilon and d.

STRENGTHS = (0.5, 1.0, 2.0, 8.0)
"""Lengths of the mean record, in units of the plan's bound; with the last one the excess is the noise's alone."""
THEORY = {"n": -1.0, "n, threshold": -1.0, "m": -0.5, "epsilon": -1.0, "d": 0.5}
LIMITS = {"n": (-1.15, -0.9), "n, threshold": (-1.15, -0.9)}
"""Limits of exponents that differ from the usual ones, which are 0.2 around `THEORY`."""


@dataclass(frozen=True)
class Point:
    """One setting."""

    n: int
    m: int
    d: int
    epsilon: float
    test: str = "tested"

    @property
    def unit(self) -> float:
        """The private term of the lower bound, for ``L = R = 1``."""
        return float(np.sqrt(self.d / self.m)) / (self.epsilon * self.n)

    @property
    def words(self) -> str:
        """The setting in words, for the names of checks."""
        tested = "" if self.test == "tested" else f", {self.test}"
        return f"n = {self.n}, m = {self.m}, d = {self.d}, epsilon = {self.epsilon:g}{tested}"

    def streams(self, seed: int, run: int) -> tuple[np.random.Generator, SeededSource]:
        """Return the random numbers of the data and of the noise."""
        return streams(seed, run, self.n, self.m, self.d, int(8 * self.epsilon), len(self.test))


def sweeps(base: Point, *, quick: bool) -> dict[str, tuple[Point, ...]]:
    """Return the settings of every sweep, all through `base` but that of the other test."""
    some = slice(None, None, 2 if quick else 1)
    many = (2000, 8000) if quick else (2000, 8000, 32_000, 128_000)
    values = {"m": (4, 8, 16, 32, 64), "epsilon": (2.0, 4.0, 8.0), "d": (10, 20, 40, 80, 160)}
    others = {name: tuple(replace(base, **{name: value}) for value in chosen[some]) for name, chosen in values.items()}
    grown = {"n": base, "n, threshold": replace(base, test="threshold")}
    return {name: tuple(replace(one, n=n) for n in many) for name, one in grown.items()} | others


def worst_excess(point: Point, runs: int, seed: int) -> tuple[Estimate, Estimate, float]:
    """Return the largest mean excess *on the data* over signal strengths, that at the strongest, and the plan's bound.

    Records are ``r e_1 + (1 - r) V`` with V uniform on the sphere, and with -V for a user of the other half, so that
    the mean record g is ``r e_1``; each user's records are replaced by their mean, for the loss is linear. The excess
    of w in the unit ball is ``<w, g> + |g|``. For a fixed r a method may be faster than the rate, so r is in units of
    the bound. With a strong signal the excess is noise and nothing else; the worst is the descent's as well.
    """
    problem = user_problem(LinearLoss(), point.d, point.n, point.m, 1.0)
    plan = plan_accelerated(problem, promise(point.epsilon), test=point.test, outliers=0.02)
    excess = np.zeros((runs, len(STRENGTHS)))
    for run in range(runs):
        rng, source = point.streams(seed, run)
        V = unit_vectors(rng, point.n // 2 * point.m, point.d).reshape(point.n // 2, point.m, point.d).mean(axis=1)
        for j, strength in enumerate(STRENGTHS):
            r = min(0.5, strength * plan.bound)
            X = (1 - r) * np.concatenate([V, -V])
            X[:, 0] += r
            w = plan.run(X, np.zeros(len(X)), source, same_size(point.n, 1)).point
            excess[run, j] = r * (w[0] + 1)
    worst = excess[:, excess.mean(axis=0).argmax()]
    return Estimate.of(worst), Estimate.of(excess[:, -1]), plan.bound


@experiment("user-level/rates", f"{PAPER}, Theorem 3.2 and the lower bound it quotes")
def rates(setting: Setting, anchors: Anchors) -> Outcome:
    """Does the worst excess have the exponents of the theory in users, records, epsilon and d?"""
    runs = 2 if setting.quick else 6
    plans = sweeps(Point(2000, 16, 20, 8.0), quick=setting.quick)
    points = dict.fromkeys(p for chosen in plans.values() for p in chosen)
    found = {p: worst_excess(p, runs, setting.seed) for p in setting.track(points, "Measuring")}
    rows, slopes, planned = [], {}, {}
    for name, chosen in plans.items():
        x = [getattr(p, name.split(",")[0]) for p in chosen]
        slopes[name] = exponent(x, [found[p][0] for p in chosen])
        planned[name] = slope(x, [found[p][2] for p in chosen])
        rows += [
            (name, value, *found[p][0][:2], found[p][2], slopes[name].value, slopes[name].error, planned[name])
            for value, p in zip(x, chosen, strict=True)
        ]

    def draw(figure: Figure) -> None:
        for axes, name in zip(panels(figure, len(plans)), plans, strict=True):
            x = [getattr(p, name.split(",")[0]) for p in plans[name]]
            curves = {"measured": [found[p][0].value for p in plans[name]]}
            lines(axes, x, curves, (name, "worst excess"), dashed={"bound": [found[p][2] for p in plans[name]]})

    limits = {name: (value - 0.2, value + 0.2) for name, value in THEORY.items()} | LIMITS
    planned_limits = (-1.4, -0.6) if setting.quick else LIMITS["n"]
    return Outcome(
        ("sweep", "value", "excess", "s.e.", "bound", "slope", "s.e. ", "planned"),
        tuple(rows),
        f"slopes are within 0.2 of -1/2 in m, 1/2 in d, -1 in epsilon, and between {limits['n'][0]:g} and "
        f"{limits['n'][1]:g} in n, measured and planned; no excess is above its bound or below a tenth of the lower "
        "bound's private term; each is near its anchor",
        (
            *(anchors.within(f"exponent of {name}", a, *limits[name], linear=True) for name, a in slopes.items()),
            *(exact(f"exponent of the bound, {name}", planned[name], *planned_limits, "plan") for name in LIMITS),
            *(
                anchors.within(f"excess, {p.words}", excess, 0.1 * p.unit, bound, "plan")
                for p, (excess, _, bound) in found.items()
            ),
            *anchors.near({f"excess, {p.words}": excess for p, (excess, _, _) in found.items()}),
            *anchors.near({f"excess of noise alone, {p.words}": strong for p, (_, strong, _) in found.items()}),
        ),
        draw,
        "Linear loss over the unit ball; records r e_1 + (1 - r) V, V uniform on the sphere, and -V for the other "
        f"half of the users; largest mean of {runs} runs over r at {', '.join(map(str, STRENGTHS))} bounds. Not "
        "swept: n = 2000, m = 16, d = 20, epsilon = 8. Test and release at every step, 2.5 L/sqrt(m) apart; "
        "'n, threshold' has AboveThreshold. Beyond 8000 users in cohorts.\n"
        "Unit: sqrt(d)/(epsilon n sqrt(m)), the private term of the lower bound, of which the logarithm of 1/delta "
        "is no part; that logarithm makes the slope in epsilon a little flatter, and the fixed cost of the test a "
        "little steeper than theory's in n and epsilon.",
    )


# Algorithm 1: phased SGD in one pass, over users and records, at the worst of signals that do not depend on either.

SIGNALS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)


def one_pass_excess(n: int, m: int, runs: int, seed: int) -> Estimate:
    """Return the largest mean excess on the population over signals r, for records ``r e_1 + (1 - r) V`` as above.

    The absolute loss with all targets at their bound is ``1 - <w, x>`` in the unit ball, and has a compiled form.
    """
    plan = plan_phased(user_problem(AbsoluteLoss(1.0), 10, n, m, 1.0), promise(8.0))
    found: list[list[float]] = [[] for _ in SIGNALS]
    for run in range(runs):
        rng, source = streams(seed, run, n, m)
        V = unit_vectors(rng, n * m, 10)
        for each, r in zip(found, SIGNALS, strict=True):
            X = (1 - r) * V
            X[:, 0] += r
            each.append(r * (1 - plan.run(X, np.ones(n * m), source, same_size(n, m)).point[0]))
    return max(map(Estimate.of, found))


@experiment("user-level/one-pass", f"{PAPER}, Theorem 2.1")
def one_pass(setting: Setting, anchors: Anchors) -> Outcome:
    """Does the worst excess of phased SGD fall like one over the root of the number of records?"""
    runs = 6 if setting.quick else 8
    grown = (4000, 32_000) if setting.quick else (4000, 16_000, 64_000)
    swept = {"n": [(n, 16) for n in grown], "m": [(4000, m) for m in ((8, 64) if setting.quick else (8, 32, 128))]}
    points = dict.fromkeys(point for chosen in swept.values() for point in chosen)
    found = {p: one_pass_excess(*p, runs, setting.seed) for p in setting.track(points, "Measuring")}
    x = {name: [p[name == "m"] for p in chosen] for name, chosen in swept.items()}
    slopes = {name: exponent(x[name], [found[p] for p in chosen]) for name, chosen in swept.items()}

    def draw(figure: Figure) -> None:
        for axes, (name, chosen) in zip(panels(figure, 2), swept.items(), strict=True):
            lines(axes, x[name], {"measured": [found[p].value for p in chosen]}, (name, "worst excess"))

    return Outcome(
        ("sweep", "value", "excess", "s.e.", "slope", "s.e. "),
        tuple(
            (name, value, *found[p][:2], *slopes[name][:2])
            for name, chosen in swept.items()
            for value, p in zip(x[name], chosen, strict=True)
        ),
        "the largest mean excess over signals falls with an exponent of -0.35 to -0.65 in users and in records of each",
        (
            *(
                anchors.within(f"exponent of {name}", found, -0.65, -0.35, linear=True)
                for name, found in slopes.items()
            ),
            *anchors.near({f"excess, n = {n}, m = {m}": excess for (n, m), excess in found.items()}),
        ),
        draw,
        f"Linear loss over the unit ball, d = 10, epsilon = 8, delta = {DELTA:g}, {runs} runs; n = 4000 and m = 16 "
        f"where not swept; signals {SIGNALS[0]} to {SIGNALS[-1]}, by factors of 2. Calibrated constants.",
    )


# Remark 3.6: strongly convex losses, on the population, where privacy is what costs.

RIDGE, PULL = 0.5, 0.25
"""Weight of the ridge, and length of the mean record; the minimizer lies halfway to the border of the ball."""


def ridge_excess(point: Point, runs: int, seed: int) -> tuple[Estimate, float]:
    """Return the excess on the population of ``<x, w> + l2/2 |w|^2``, and the plan's bound.

    A user's mean record is ``r e_1`` plus a normal vector of variance ``(1 - r)^2/m`` in all: what the mean of m
    records ``r e_1 + (1 - r) V`` tends to.
    """
    problem, best = user_problem(LinearLoss(), point.d, point.n, point.m, 1.0), np.zeros(point.d)
    best[0] = -PULL / RIDGE
    options = {"test": point.test, "target": "population", "l2": RIDGE}
    plan = plan_accelerated(problem, promise(point.epsilon), **options)
    found = []
    for run in range(runs):
        rng, source = point.streams(seed, run)
        X = (1 - PULL) / math.sqrt(point.m * point.d) * rng.standard_normal((point.n, point.d))
        X[:, 0] += PULL
        w = plan.run(X, np.zeros(point.n), source, same_size(point.n, 1)).point
        found.append(RIDGE / 2 * float((w - best) @ (w - best)))
    return Estimate.of(found), plan.bound


@experiment("user-level/strongly-convex", f"{PAPER}, Remark 3.6")
def strongly_convex(setting: Setting, anchors: Anchors) -> Outcome:
    """Does the excess of strongly convex losses fall like the square of the number of users?

    Measure both guards where privacy is what costs.
    """
    runs = 16 if setting.quick else 12
    large = {"clipped": (2000, 8000, 32_000), "tested": (4000, 8000, 16_000)}
    sizes = {"clipped": (500, 2000), "tested": (2000, 6000)} if setting.quick else large
    points = {test: [Point(n, 4096, 5, 1.0, test) for n in chosen] for test, chosen in sizes.items()}
    all_ = [p for chosen in points.values() for p in chosen]
    found = {p: ridge_excess(p, runs, setting.seed) for p in setting.track(all_, "Measuring")}
    slopes = {test: exponent(sizes[test], [found[p][0] for p in points[test]]) for test in sizes}
    planned = {test: slope(sizes[test], [found[p][1] for p in points[test]]) for test in sizes}
    limits = (-4.0, -1.5) if setting.quick else (-2.5, -1.7)

    def draw(figure: Figure) -> None:
        for axes, test in zip(panels(figure, len(sizes)), sizes, strict=True):
            curves = {"measured": [found[p][0].value for p in points[test]]}
            bounds = {"bound": [found[p][1] for p in points[test]]}
            lines(axes, sizes[test], curves, (f"n, {test}", "excess"), dashed=bounds)

    return Outcome(
        ("guard", "n", "excess", "s.e.", "bound", "slope", "s.e. ", "planned"),
        tuple(
            (p.test, p.n, *found[p][0][:2], found[p][1], slopes[p.test].value, slopes[p.test].error, planned[p.test])
            for p in all_
        ),
        f"slopes in n are between {limits[0]:g} and {limits[1]:g}, measured and planned; excesses are below their "
        "bounds, and above a hundredth of them",
        (
            *(anchors.within(f"exponent, {test}", slopes[test], *limits, linear=True) for test in sizes),
            *(exact(f"exponent of the bound, {test}", planned[test], *limits, "plan") for test in sizes),
            *(
                anchors.within(f"excess, {p.words}", excess, bound / 100, bound, "plan")
                for p, (excess, bound) in found.items()
            ),
            *anchors.near({f"excess, {p.words}": excess for p, (excess, _) in found.items()}),
        ),
        draw,
        f"Linear loss with a ridge of weight {RIDGE} over the unit ball, mean record of length {PULL}; m = 4096, d "
        f"= 5, epsilon = 1; means of {runs} runs. The test's fixed cost makes 'tested' steeper than -2.",
    )


# X9: how many gradients of single records the methods ask for, by their plans; no data.

LARGE = (1e6, 1e7, 1e8, 1e9)
SMALL = (10.0, 1e2, 1e3, 1e4)
SMOOTHNESS = (1e4, 1e5, 1e6, 1e7)
EXPONENTS = {
    "n, smooth": 9 / 8,
    "m, smooth": 9 / 8,
    "beta": 1 / 4,
    "n, kinks": 11 / 8,
    "m, kinks": 5 / 4,
    "n, calibrated": 9 / 8,
}
"""Exponents of the number of gradients for d = n, epsilon = 1: Theorem 3.2 with beta = 1e4, Theorem 4.1."""


def counted(n: float, m: float, smoothness: float) -> float:
    """Return the paper's ``sum_i T_i K_i m`` without its logarithmic factors, for ``d = n``, ``epsilon = 1``.

    Losses with kinks are smoothed at ``r = sqrt(d)/(epsilon n sqrt(m))``, to a smoothness of ``n sqrt(m)``.
    """
    return accelerated(n, m, n, 1.0, 1e-9, smoothness=smoothness, q=0.1, logarithms=False).gradients


def calibrated(n: int) -> float:
    """Return what the calibrated plan asks for: ``d = 20``, ``m = 100``, ``epsilon = 1``, all users at every step."""
    return plan_accelerated(user_problem(LogisticLoss(), 20, n, 100, 5.0), promise(1.0)).planned_gradients


@experiment("user-level/gradients", f"{PAPER}, Theorems 3.2 and 4.1, Table 1")
def gradients(setting: Setting, _anchors: Anchors) -> Outcome:
    """How many gradients do the schedules need, and with which exponents?"""
    sizes = (4_000, 32_000, 256_000) if setting.quick else (2_000, 8_000, 32_000, 128_000, 512_000)
    curves = {
        "n, smooth": (LARGE, [counted(n, 100.0, 1e4) for n in LARGE]),
        "m, smooth": (SMALL, [counted(1e8, m, 1e4) for m in SMALL]),
        "beta": (SMOOTHNESS, [counted(1e8, 100.0, beta) for beta in SMOOTHNESS]),
        "n, kinks": (LARGE, [counted(n, 100.0, n * 10) for n in LARGE]),
        "m, kinks": (SMALL, [counted(1e8, m, 1e8 * math.sqrt(m)) for m in SMALL]),
        "n, calibrated": (sizes, [calibrated(n) for n in setting.track(sizes, "Planning")]),
    }
    slopes = {name: slope(x, y) for name, (x, y) in curves.items()}
    rows: list[tuple[Cell, ...]] = [
        (name, value, count, slopes[name], EXPONENTS[name])
        for name, (x, y) in curves.items()
        for value, count in zip(x, y, strict=True)
    ]

    def draw(figure: Figure) -> None:
        smooth, kinks = panels(figure, 2)
        for axes, names in ((smooth, ("n, smooth", "n, kinks")), (kinks, ("m, smooth", "m, kinks"))):
            x = curves[names[0]][0]
            records = np.array(x) * (100.0 if axes is smooth else 1e8)  # n m
            of_one_pass = {name: (np.array(curves[name][1]) / records).tolist() for name in names}
            lines(axes, x, of_one_pass, (names[0][0], "gradients over n m"))

    return Outcome(
        ("what", "value", "gradients", "slope", "theory"),
        tuple(rows),
        "the paper's counts have its exponents within 0.03; the calibrated plans need a power of n of 1.45 to 1.6",
        (
            *(
                exact(f"exponent, {name}", slopes[name], EXPONENTS[name] - 0.03, EXPONENTS[name] + 0.03)
                for name in EXPONENTS
                if name != "n, calibrated"
            ),
            exact("exponent, n, calibrated", slopes["n, calibrated"], 1.45, 1.6, "anchor"),
        ),
        draw,
        "Counts are sum_i T_i K_i m of the printed schedules without logarithms, with n = d, epsilon = 1, q = 0.1; "
        "smooth with beta = 1e4, where the term with beta^(1/4) is the larger one. With its logarithms the printed "
        "schedule cannot be run: minibatches are larger than phases (Errata, E8).\n"
        "Calibrated: all users at every step, d = 20, so the number of steps alone is chosen; it grows as noise "
        "falls, like sqrt(n), in steps of a factor sqrt(2), until 1024.",
    )
