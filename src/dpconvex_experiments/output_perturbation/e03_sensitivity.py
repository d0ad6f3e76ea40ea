"""E3: no pair of neighbours moves the minimiser further than charged, and the mean attains it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm import output_perturbation
from dpconvex.algorithms.erm.output_perturbation import OutputPerturbationPlan
from dpconvex.losses import HingeLoss, LogisticLoss, SmoothedHingeLoss
from dpconvex.losses.base import LinearModelLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import Anchors, Estimate, exact
from dpconvex_experiments.output_perturbation._common import on_sphere

DIM = 2


@dataclass(frozen=True)
class _Case:
    name: str
    loss: LinearModelLoss
    l2: float
    tilt: float = 0.0
    attack: float = 0.0

    def plan(self, n: int) -> OutputPerturbationPlan:
        domain = DataDomain.l2_ball(DIM, 1.0)
        problem = LinearModelProblem(self.loss, domain, n, 1.0, self.tilt, self.attack)
        return output_perturbation.plan(problem, PrivacyParams(1.0), l2=self.l2)[0]


CASES = (
    _Case("mean (linear part of a hinge)", SmoothedHingeLoss(0.5), 4.0),
    _Case("ridge logistic", LogisticLoss(), 0.1),
    _Case("hinge", HingeLoss(), 0.5),
    _Case("tilted logistic, tilt 1", LogisticLoss(), 0.5, 1.0),
    _Case("tilted logistic, tilt 3", LogisticLoss(), 0.5, 3.0),
    _Case("robust logistic, attack 0.2", LogisticLoss(), 0.1, attack=0.2),
)
SIZES = (3, 10, 40)


def measure(setting: Setting) -> Outcome:
    """Search neighbours that differ in one record."""
    rng, pairs = np.random.default_rng(setting.seed), 12 if setting.quick else 150
    rows = []
    for case in setting.track(CASES, "Searching neighbours"):
        for n in SIZES:
            plan = case.plan(n)
            moved = max(_moved(plan, *_neighbours(rng, n, k)) for k in range(pairs))
            rows.append((case.name, n, plan.schedule.sensitivity, moved, moved / plan.schedule.sensitivity))
    shares = {f"{name}, n = {n}": share for name, n, _, _, share in rows}
    tight = {name: Estimate(share) for name, share in shares.items() if not name.startswith(CASES[0].name)}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for case in CASES:
            axes.plot(SIZES, [row[4] for row in rows if row[0] == case.name], "o-", label=case.name)
        axes.axhline(1, color="#444444", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("records")
        axes.set_ylabel("largest move found / sensitivity")
        axes.legend()

    return Outcome(
        ("problem", "n", "sensitivity", "largest move", "share"),
        tuple(rows),
        "no pair of neighbours exceeds the sensitivity; the mean attains it to 1e-10; the others come as near "
        "to it as our anchors",
        (
            *(
                exact(f"share, {name}", share, 1 - 1e-10 if name not in tight else 0.0, 1 + 1e-10)
                for name, share in shares.items()
            ),
            *Anchors("output-perturbation/e3-sensitivity", setting.quick).near(tight),
        ),
        draw,
        (
            f"{pairs} pairs each: a label of the last record turned, half of them on aligned data. What the solver "
            "certifies for both minimisers is subtracted from the distance found.",
        ),
    )


def _neighbours(rng: np.random.Generator, n: int, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return features (n, DIM), labels (n,) and labels of a neighbour, which turns the last record round."""
    X = on_sphere(rng, n, DIM)
    if k % 2 == 0:  # aligned: all records on one axis, as many on each side as you like
        X = np.repeat(X[-1:], n, axis=0)
    y = np.sign(rng.random(n) - rng.random())
    y[-1] = 1.0
    other = y.copy()
    other[-1] = -1.0
    return X, y, other


def _moved(plan: OutputPerturbationPlan, X: FloatArray, y: FloatArray, other: FloatArray) -> float:
    """Return a distance that the exact minimisers surely have, at least."""
    problem, l2 = plan.problem, plan.l2
    radius = max(1e-6 * plan.schedule.sensitivity, problem.certifiable_radius(l2))
    both = [plan.solver.solve(problem.objective(X, labels, l2), radius, plan.constraint) for labels in (y, other)]
    first, second = (problem.parameters(found.point) for found in both)
    slack = sum(min(found.accuracy.bound, radius) for found in both)
    return float(np.linalg.norm(first - second)) - slack


E3 = Experiment(
    "output-perturbation/e3-sensitivity",
    "Does any pair of neighbours move the minimiser further than charged?",
    "Lowy and Razaviyayn, Proposition 2.2, Lemma 5.2, Appendix F (erratum P10)",
    measure,
)
