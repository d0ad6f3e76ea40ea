"""X7 to X9: exponents of the worst excess of the accelerated method, and of the gradients that methods ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.erm.user_level import plan_accelerated
from dpconvex.algorithms.erm.user_level.accelerated_schedule import printed
from dpconvex.losses import LinearModelLoss, LogisticLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.linear.lower_bound import LinearLoss
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exact, exponent
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

STRENGTHS = (0.0, 0.02, 0.04, 0.08, 0.3)
THEORY = {"n": -1.0, "m": -0.5, "epsilon": -1.0, "d": 0.5}


@dataclass(frozen=True)
class Point:
    """One setting."""

    n: int
    m: int
    d: int
    epsilon: float

    @property
    def unit(self) -> float:
        """The private term of the lower bound, for ``L = R = 1``."""
        return float(np.sqrt(self.d / self.m)) / (self.epsilon * self.n)


def sweeps(base: Point, *, quick: bool) -> dict[str, tuple[Point, ...]]:
    """Return the settings of every sweep, all through `base`."""
    some = slice(None, None, 2 if quick else 1)
    values = {"n": (500, 1000, 2000), "m": (4, 8, 16, 32, 64), "epsilon": (2.0, 4.0, 8.0), "d": (10, 20, 40, 80, 160)}
    return {name: tuple(replace(base, **{name: value}) for value in chosen[some]) for name, chosen in values.items()}


def worst_excess(point: Point, runs: int, seed: int) -> tuple[Estimate, Estimate, float]:
    """Return the largest mean excess *on the data* over signal strengths, that at the strongest, and the plan's bound.

    Records are ``r e_1 + (1 - r) V`` with V uniform on the sphere, the loss is linear over the unit ball: the excess of
    w is ``<w, g> + |g|`` for the mean record g. For a fixed r a method may be faster than the rate. With a strong
    signal the excess is noise and nothing else; the worst is the descent's as well.
    """
    plan = plan_accelerated(
        user_problem(LinearLoss(), point.d, point.n, point.m, 1.0),
        promise(point.epsilon),
        test="tested",
        outliers=0.02,
    )
    excess = np.zeros((runs, len(STRENGTHS)))
    for run in range(runs):
        rng, source = streams(seed, run, point.n, point.m, point.d, int(8 * point.epsilon))
        V = unit_vectors(rng, point.n * point.m, point.d)
        for j, r in enumerate(STRENGTHS):
            X = (1 - r) * V
            X[:, 0] += r
            g = X.mean(axis=0)
            w = plan.run(X, np.zeros(len(X)), source, same_size(point.n, point.m)).point
            excess[run, j] = w @ g + np.linalg.norm(g)
    worst = excess[:, excess.mean(axis=0).argmax()]
    return Estimate.of(worst), Estimate.of(excess[:, -1]), plan.bound


@experiment(
    "user-level/rates",
    "Does the worst excess have the exponents of the theory in users, records, epsilon and d?",
    f"{PAPER}, Theorem 3.2 and the lower bound it quotes",
)
def rates(setting: Setting) -> Outcome:
    """Measure every sweep."""
    runs = 2 if setting.quick else 8
    plans = sweeps(Point(2000, 16, 20, 8.0), quick=setting.quick)
    points = dict.fromkeys(p for chosen in plans.values() for p in chosen)
    found = {p: worst_excess(p, runs, setting.seed) for p in setting.track(points, "Measuring")}
    rows, slopes = [], {}
    for name, chosen in plans.items():
        x = [getattr(p, name) for p in chosen]
        slopes[name] = exponent(x, [found[p][0] for p in chosen])
        rows += [
            (name, value, *found[p][0][:2], found[p][2], found[p][0].value / p.unit, slopes[name].value, THEORY[name])
            for value, p in zip(x, chosen, strict=True)
        ]

    def draw(figure: Figure) -> None:
        for axes, name in zip(panels(figure, len(plans)), plans, strict=True):
            x = [getattr(p, name) for p in plans[name]]
            curves = {"measured": [found[p][0].value for p in plans[name]]}
            lines(axes, x, curves, (name, "worst excess"), dashed={"bound": [found[p][2] for p in plans[name]]})

    off = 0.3 if setting.quick else 0.2
    anchors = Anchors("user-level/rates", setting.quick)
    where = {p: f"n = {p.n}, m = {p.m}, d = {p.d}, epsilon = {p.epsilon:g}" for p in points}
    return Outcome(
        ("sweep", "value", "excess", "s.e.", "bound", "of unit", "slope", "theory"),
        tuple(rows),
        f"slopes are within {off} of -1 in n and epsilon, -1/2 in m, 1/2 in d; no excess is above its bound or below a "
        "tenth of the lower bound's private term; each is near its anchor",
        (
            *(
                anchors.within(f"exponent of {name}", a, THEORY[name] - off, THEORY[name] + off, linear=True)
                for name, a in slopes.items()
            ),
            *(
                anchors.within(f"excess, {where[p]}", excess, 0.1 * p.unit, bound, "plan")
                for p, (excess, _, bound) in found.items()
            ),
            *anchors.near({f"excess, {where[p]}": excess for p, (excess, _, _) in found.items()}),
            *anchors.near(
                {f"excess at r = {STRENGTHS[-1]}, {where[p]}": strong for p, (_, strong, _) in found.items()}
            ),
        ),
        draw,
        (
            "Linear loss over the unit ball; records r e_1 + (1 - r) V, V uniform on the sphere; largest mean of "
            f"{runs} runs over {len(STRENGTHS)} strengths r. Not swept: n = 2000, m = 16, d = 20, epsilon = 8. Test "
            "and release at every step, 2.5 L/sqrt(m) apart.",
            "Unit: sqrt(d)/(epsilon n sqrt(m)), the private term of the lower bound, of which the logarithm of 1/delta "
            "is no part; that logarithm makes the slope in epsilon a little flatter, and the fixed cost of the test a "
            "little steeper than theory's in n and epsilon.",
        ),
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
"""Exponents: d = n, epsilon = 1; Theorem 3.2 with beta = 1e4, Theorem 4.1."""


def counted(n: float, m: float, smoothness: float) -> float:
    """Return the paper's ``sum_i T_i K_i m`` without its logarithmic factors, for ``d = n``, ``epsilon = 1``."""
    return printed(n, m, n, 1.0, 1e-9, smoothness=smoothness, q=0.1, logarithms=False).gradients


def with_kinks(n: float, m: float) -> float:
    """Return the same for losses with kinks, smoothed at ``r = sqrt(d)/(epsilon n sqrt(m))``."""
    return counted(n, m, n * math.sqrt(m))


def calibrated(n: int) -> float:
    """Return what the calibrated plan asks for: ``d = 20``, ``m = 100``, ``epsilon = 1``, all users at every step."""
    return plan_accelerated(user_problem(LogisticLoss(), 20, n, 100, 5.0), promise(1.0)).planned_gradients


@experiment(
    "user-level/gradients",
    "How many gradients do the schedules need, and with which exponents?",
    f"{PAPER}, Theorems 3.2 and 4.1, Table 1",
)
def gradients(setting: Setting) -> Outcome:
    """Evaluate plans and fit powers."""
    sizes = (4_000, 32_000, 256_000) if setting.quick else (2_000, 8_000, 32_000, 128_000, 512_000)
    curves = {
        "n, smooth": (LARGE, [counted(n, 100.0, 1e4) for n in LARGE]),
        "m, smooth": (SMALL, [counted(1e8, m, 1e4) for m in SMALL]),
        "beta": (SMOOTHNESS, [counted(1e8, 100.0, beta) for beta in SMOOTHNESS]),
        "n, kinks": (LARGE, [with_kinks(n, 100.0) for n in LARGE]),
        "m, kinks": (SMALL, [with_kinks(1e8, m) for m in SMALL]),
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
        (
            "Counts are sum_i T_i K_i m of the printed schedules without logarithms, with n = d, epsilon = 1, q = 0.1; "
            "smooth with beta = 1e4, where the term with beta^(1/4) is the larger one. With its logarithms the printed "
            "schedule cannot be run: minibatches are larger than phases (Errata, E8).",
            "Calibrated: all users at every step, d = 20, so the number of steps alone is chosen; it grows as noise "
            "falls, like sqrt(n), in steps of a factor sqrt(2), until 1024.",
        ),
    )
