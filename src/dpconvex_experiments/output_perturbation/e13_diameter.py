"""E13: objectives that are no average: noise for the whole ball is never worse than the paper's regularisation."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpconvex.algorithms.erm import output_perturbation
from dpconvex.losses import HingeLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.custom.losses import LocationLoss
from dpconvex.problems.custom.problem import CustomProblem
from dpconvex.problems.custom.whole_objective import MaxRisk
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex.sets import L2Ball
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import Anchors, Check, Estimate, exact
from dpconvex_experiments.output_perturbation._common import laplace, panels, releases

DIMS = (1, 2, 5)
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
Row = tuple[float, ...]


def measure(setting: Setting) -> Outcome:
    """Release the centre of the smallest ball around the records by both mechanisms, with the same bits."""
    count = 200 if setting.quick else 5_000
    jobs = [(d, epsilon) for d in DIMS for epsilon in EPSILONS]
    found = {job: _row(*job, count, setting.seed) for job in setting.track(jobs, "Releasing centres")}
    rows = [(*row, regularised.value, wide.value, wide.error) for row, regularised, wide in found.values()]
    anchors = Anchors("output-perturbation/e13-diameter", setting.quick)
    checks: list[Check] = []
    for (d, epsilon), (row, regularised, wide) in found.items():
        where = f"d = {d}, epsilon = {epsilon:g}"
        checks.append(exact(f"bounds, diameter over regularised, {where}", row[5] / row[4], 0.0, 1.0, "plan"))
        checks.append(exact(f"reach, regularised, {where}", row[2], 2.0, math.inf, "plan"))
        checks.append(exact(f"reach, the library's plan, {where}", row[3], 0.0, 2 * (1 + 1e-9), "plan"))
        # The same bits, so that less noise is surely nearer.
        checks.append(
            exact(f"risks, diameter over regularised, {where}", wide.value / regularised.value, 0.0, 1 + 1e-6)
        )
    near = {f"risk 2R, d = {d}, epsilon = {epsilon:g}": wide for (d, epsilon), (_, _, wide) in found.items()}

    def draw(figure: Figure) -> None:
        for axes, d in zip(panels(figure, len(DIMS)), DIMS, strict=True):
            mine = [row for row in rows if row[0] == d]
            for k, (name, risk, bound) in enumerate((("regularised", 6, 4), ("diameter", 7, 5))):
                axes.loglog(EPSILONS, [row[risk] for row in mine], "o-", color=f"C{k}", label=name)
                axes.loglog(EPSILONS, [row[bound] for row in mine], "--", color=f"C{k}", linewidth=1.2)
            axes.axhline(1, color="#444444", linewidth=1, linestyle=":")
            axes.set_xlabel("epsilon")
            axes.set_title(f"d = {d}")
        figure.axes[0].set_ylabel("excess risk / LR; dashed: bounds")
        figure.axes[0].legend()

    return Outcome(
        ("d", "epsilon", "reach", "library", "bound", "bound 2R", "risk", "risk 2R", "s.e."),
        tuple(rows),
        "the diameter mechanism has the smaller bound and no larger measured risk everywhere, and the library's own "
        "plan needs no larger reach than it; its risks are near their anchors",
        (*checks, *anchors.near(near)),
        draw,
        (
            f"Largest distance to 2d records on the axes, R = L = 1, delta = 0, {count} releases. Reach: what the "
            "noise covers in the paper's regularised mechanism (Theorem 3.4.1a) and in the library's plan; the "
            "diameter mechanism covers 2. Then bounds and measured risks of both.",
            "Where noise drowns everything the library regularises almost to a constant, and covers less than 2.",
        ),
    )


def _row(d: int, epsilon: float, count: int, seed: int) -> tuple[Row, Estimate, Estimate]:
    one = LinearModelProblem(HingeLoss(), DataDomain.l2_ball(d, 1.0), 1, 1.0)  # n = 1: nothing is averaged
    schedule = output_perturbation.plan(one, PrivacyParams(epsilon), constants="paper", noise="l2")[0].schedule
    x = d / epsilon
    schedule = replace(schedule, solver_radius=math.sqrt(2 * x**1.5 / schedule.l2))  # alpha = L R x^(3/2)
    bound = schedule.l2 / 2 + (1 + schedule.l2) * (schedule.solver_radius + x * schedule.reach)
    worst = CustomProblem(MaxRisk(LocationLoss(DataDomain.l2_ball(d, 1.0), 1e-9)), 2 * d, 1.0)
    own = output_perturbation.plan(worst, PrivacyParams(epsilon))[0].schedule.reach
    X = np.vstack([np.eye(d), -np.eye(d)]) / 2
    risk = worst.objective(X, np.zeros(2 * d), 0.0)
    ball, zero = L2Ball(1.0), np.zeros(d)
    found = []
    for reach in (schedule.reach, 2.0):
        points = releases(laplace(d, reach, epsilon), zero, PrivacyParams(epsilon), count, SeededSource(seed))
        found.append(Estimate.of(risk.value(ball.project(point)) - risk.value(zero) for point in points))
    return (d, epsilon, schedule.reach, own, bound, 2 * x), found[0], found[1]


E13 = Experiment(
    "output-perturbation/e13-diameter",
    "What is the paper's mechanism worth for objectives that are no average?",
    "Lowy and Razaviyayn, Theorem 3.4.1 (erratum U11)",
    measure,
)
