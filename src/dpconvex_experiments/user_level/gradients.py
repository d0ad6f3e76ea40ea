"""X9: how many gradients of single records the methods ask for, by their plans; no data."""

from __future__ import annotations

import math

import numpy as np

from dpconvex.algorithms.erm.user_level import plan_accelerated
from dpconvex.algorithms.erm.user_level.accelerated_schedule import printed
from dpconvex.losses import LogisticLoss
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import exact
from dpconvex_experiments.shared import lines, panels, slope
from dpconvex_experiments.user_level._common import PAPER, promise, user_problem

LARGE = (1e6, 1e7, 1e8, 1e9)
SMALL = (10.0, 1e2, 1e3, 1e4)
SMOOTHNESS = (1e4, 1e5, 1e6, 1e7)
THEORY = {
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
        (name, value, count, slopes[name], THEORY[name])
        for name, (x, y) in curves.items()
        for value, count in zip(x, y, strict=True)
    ]

    def draw(figure: Figure) -> None:
        smooth, kinks = panels(figure, 2)
        for axes, names in ((smooth, ("n, smooth", "n, kinks")), (kinks, ("m, smooth", "m, kinks"))):
            x = curves[names[0]][0]
            of_one_pass = {name: (np.array(curves[name][1]) / _items(name, x)).tolist() for name in names}
            lines(axes, x, of_one_pass, (names[0][0], "gradients over n m"))

    return Outcome(
        ("what", "value", "gradients", "slope", "theory"),
        tuple(rows),
        "the paper's counts have its exponents within 0.03; the calibrated plans need a power of n of 1.45 to 1.6",
        (
            *(
                exact(f"exponent, {name}", slopes[name], THEORY[name] - 0.03, THEORY[name] + 0.03)
                for name in THEORY
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


def _items(name: str, x: tuple[float, ...]) -> np.ndarray:
    return np.array([value * 100.0 if name.startswith("n") else 1e8 * value for value in x])
