"""E7: bounds and measured risk of convex losses over n, for the paper's schedule and the sharp one."""

from __future__ import annotations

import numpy as np

from dpconvex.algorithms.erm import output_perturbation
from dpconvex.losses import AbsoluteLoss, LogisticLoss
from dpconvex.losses.base import LinearModelLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import Anchors, Check, Estimate, exact, exponent
from dpconvex_experiments.output_perturbation._common import Risk, balanced, lines, panels, slope

DIM, RADIUS, EPSILON = 10, 5.0, 10.0
LOSSES: dict[str, LinearModelLoss] = {"absolute": AbsoluteLoss(1.0), "logistic": LogisticLoss()}
RATES = {"absolute": -1 / 2, "logistic": -2 / 3}
CONSTANTS = {"paper": "paper", "calibrated": "sharp"}


def measure(setting: Setting) -> Outcome:
    """Plan and run on balanced data, whose minimiser is 0 for every regularisation: what is measured is the noise."""
    sizes = (1_000, 4_000, 16_000) if setting.quick else (1_000, 3_000, 10_000, 30_000, 100_000)
    runs, source = 40 if setting.quick else 200, SeededSource(setting.seed)
    jobs = [(loss, constants, n) for loss in LOSSES for constants in CONSTANTS for n in sizes]
    found: dict[tuple[str, str], list[tuple[Estimate, float, float]]] = {}
    for loss, constants, n in setting.track(jobs, "Running"):
        found.setdefault((loss, constants), []).append(_measured(LOSSES[loss], n, constants, runs, source))
    rows, checks = [], list[Check]()
    anchors = Anchors("output-perturbation/e7-convex", setting.quick)
    near: dict[str, Estimate] = {}
    for (loss, constants), triples in found.items():
        name, theory = f"{loss}, {CONSTANTS[constants]}", RATES[loss]
        risks = [risk for risk, _, _ in triples]
        bounds = [bound for _, bound, _ in triples]
        of_bound = [risk.times(1 / bound) for risk, bound, _ in triples]
        of_printed = [risk.times(1 / printed) for risk, _, printed in triples]
        measured, planned = exponent(sizes, risks), slope(sizes, bounds)
        rows.append((name, *measured[:2], planned, theory, max(of_bound).value, max(of_printed).value))
        checks.append(exact(f"exponent of the bound, {name}", planned, theory - 0.05, theory + 0.05, "plan"))
        checks.append(anchors.within(f"exponent of the risk, {name}", measured, -1.1, theory + 0.1, linear=True))
        checks.append(anchors.within(f"largest of the bound, {name}", max(of_bound), 0.0, 1.0, "plan"))
        checks.append(anchors.within(f"largest of the printed bound, {name}", max(of_printed), 0.0, 1.0))
        near |= {f"risk, {name}, n = {n}": risk for n, risk in zip(sizes, risks, strict=True)}

    def draw(figure: Figure) -> None:
        for axes, loss in zip(panels(figure, 2), LOSSES, strict=True):
            kinds = [(CONSTANTS[c], list(zip(*found[loss, c], strict=True))) for c in CONSTANTS]
            lines(
                axes,
                sizes,
                {f"risk, {name}": [risk.value for risk in values[0]] for name, values in kinds},
                ("records", f"excess risk, {loss} loss"),
                dashed={f"bound, {name}": values[1] for name, values in kinds},
            )

    return Outcome(
        ("loss, schedule", "measured", "s.e.", "bound", "theory", "of bound", "of printed"),
        tuple(rows),
        "bounds fall with exponents -1/2 and -2/3 (within 0.05), measured risk at least as fast (within 0.1), and it "
        "stays below the bound of the plan and the printed one, and near its anchor",
        (*checks, *anchors.near(near)),
        draw,
        (
            f"d = {DIM}, R = {RADIUS:g}, epsilon = {EPSILON:g}, delta = 0, {runs} runs at each n. Exponents "
            "in n of the measured risk, of the plan's bound, of the theorem. Last two: largest measured risk "
            "over the plan's bound and over the printed one.",
        ),
    )


def _measured(
    loss: LinearModelLoss, n: int, constants: str, runs: int, source: SeededSource
) -> tuple[Estimate, float, float]:
    """Return mean excess risk, the plan's bound and the printed one."""
    problem = LinearModelProblem(loss, DataDomain.l2_ball(DIM, 1.0), n, RADIUS)
    plan = output_perturbation.plan(problem, PrivacyParams(EPSILON), constants=constants)[0]
    X, y = balanced(loss, n, DIM)
    risk = Risk(loss, X, y)
    excess = [risk(plan.run(X, y, source).point) - risk(np.zeros(DIM)) for _ in range(runs)]
    printed = plan.predicted_error.printed
    return Estimate.of(excess), plan.predicted_error.bound, np.inf if printed is None else printed


E7 = Experiment(
    "output-perturbation/e7-convex",
    "Does the risk of convex losses fall as the theorems say?",
    "Lowy and Razaviyayn, Theorems 3.4, 3.5; sharp schedule (docs, Output perturbation)",
    measure,
)
