"""Measure steps, passes and seconds of every solver until its certificate holds, by class of problem.

The certified radius is what output perturbation plans at epsilon 1 (pure), before it sees data. "Planned" is a solver's
own count from public facts: a guarantee for accelerated and subgradient methods, a forecast for the stochastic ones.
A solver without a small bound of its own is stopped after about --seconds, short of the planned radius.

    python benchmarks/solver_table.py [--data adult synthetic] [--seconds 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex.algorithms.erm.output_perturbation import plan
from dpconvex.losses import AbsoluteLoss, HingeLoss, LinearModelLoss, LogisticLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, LinearModelProblem, Records, RegularizedRisk
from dpconvex.problems.linear.problem import default_radius
from dpconvex.sets import WholeSpace
from dpconvex.solvers import (
    LBFGS,
    AcceleratedGradient,
    DualCoordinateAscent,
    Guaranteed,
    Katyusha,
    NewtonCholesky,
    SmoothedAcceleratedGradient,
    Solver,
    StochasticSubgradient,
    Subgradient,
)
from tables import adult


@dataclass(frozen=True)
class Case:
    """A class of problems: which loss, and whether the ridge is given (strongly convex) or planned."""

    letter: str
    title: str
    loss: LinearModelLoss
    l2: float | None
    regression: bool = False


CASES = (
    Case("H", "smooth, strongly convex: logistic, ridge 1e-3", LogisticLoss(), 1e-3),
    Case("J", "smooth: logistic, planned ridge", LogisticLoss(), None),
    Case("F", "strongly convex: hinge, ridge 1e-3", HingeLoss(), 1e-3),
    Case("G", "Lipschitz: absolute regression, planned ridge", AbsoluteLoss(target_bound=0.5), None, regression=True),
)


def adult_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, DataDomain, DataDomain]:
    """Return Adult: income, with all features; and age, scaled to [-1/2, 1/2], with all others."""
    table = adult()
    domain = table.schema.domain()
    assert domain.blocks[0].name == "age"
    return table.X, table.y, table.X[:, 0], domain, DataDomain(domain.blocks[1:])


def synthetic_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, DataDomain, DataDomain]:
    """Return 200,000 records of 50 features, most of them in the unit ball; logistic labels, Laplace residuals."""
    rng = np.random.default_rng(0)
    n, d = 200_000, 50
    X = rng.standard_normal((n, d)) * (0.9 / math.sqrt(d))
    w = rng.standard_normal(d)
    score = X @ w
    label = (rng.random(n) < 1 / (1 + np.exp(-3 * score))).astype(float)
    domain = DataDomain.l2_ball(d, 1.0)
    return X, label, 0.2 * score + rng.laplace(scale=0.05, size=n), domain, domain


DATA = {"adult": adult_data, "synthetic": synthetic_data}


def objective_of(case: Case, data: tuple) -> tuple[RegularizedRisk, float]:
    X, label, number, domain, rest = data
    features = X[:, 1:] if case.regression and rest is not domain else X
    domain = (rest if case.regression else domain).with_intercept()
    problem = LinearModelProblem(case.loss, domain, len(X), default_radius(domain))
    planned = plan(problem, PrivacyParams(1.0), l2=case.l2)[0]
    targets = number if case.regression else 2 * label - 1
    return RegularizedRisk(case.loss, Records.clipped(features, domain), targets, planned.l2), planned.solver_radius


def solvers_for(objective: RegularizedRisk, steps: int) -> dict[str, Solver]:
    """Return every solver that treats the loss; the slow ones take at most about `steps` passes."""
    epochs = max(1, steps // 3)
    candidates: dict[str, Solver] = {
        "NewtonCholesky": NewtonCholesky(),
        "LBFGS": LBFGS(),
        "AcceleratedGradient": AcceleratedGradient(steps),
        "Katyusha": Katyusha(epochs),
        "DualCoordinateAscent": DualCoordinateAscent(),
        "StochasticSubgradient, then dual": Guaranteed(StochasticSubgradient(10), DualCoordinateAscent()),
        "SmoothedAcceleratedGradient": SmoothedAcceleratedGradient(steps),
        "Subgradient": Subgradient(steps),
        "StochasticSubgradient": StochasticSubgradient(epochs),
    }
    space = WholeSpace()
    return {name: s for name, s in candidates.items() if s.refusal(objective.loss, space, objective.dim) is None}


def planned_steps(objective: RegularizedRisk, radius: float) -> dict[str, float]:
    """Return each solver's own count of steps, from public facts; stages and epochs for the stochastic ones."""
    mu, beta, gap, n = objective.l2, objective.smoothness, objective.initial_gap, objective.records.n
    lipschitz = objective.lipschitz_within(objective.lipschitz / mu)
    counts: dict[str, float] = {
        "Subgradient": Subgradient.steps_for(lipschitz, mu, radius),
        "StochasticSubgradient": StochasticSubgradient.steps_for(lipschitz, mu, radius) / n,
    }
    if math.isfinite(beta):
        counts["AcceleratedGradient"] = AcceleratedGradient.steps_for(beta, mu, gap, radius)
        counts["Katyusha"] = Katyusha.steps_for(beta, mu, n, gap, radius)
    else:
        slope, feature = objective.loss.slope_bound, objective.records.domain.l2
        counts["SmoothedAcceleratedGradient"] = SmoothedAcceleratedGradient.steps_for(slope, feature, mu, gap, radius)
    return counts


def measure(case: Case, data: tuple, seconds: float) -> dict:
    objective, radius = objective_of(case, data)
    start = time.perf_counter()
    for _ in range(5):
        objective.gradient(np.zeros(objective.dim))
    steps = max(10, int(seconds / ((time.perf_counter() - start) / 5)))
    counts, rows = planned_steps(objective, radius), []
    for name, solver in solvers_for(objective, steps).items():
        start = time.perf_counter()
        result = solver.solve(objective, radius)
        rows.append(
            {
                "solver": name,
                "planned_steps": counts.get(name),
                "steps": result.steps,
                "passes": result.gradient_calls,
                "seconds": time.perf_counter() - start,
                "status": str(result.status),
                "certified_over_planned_radius": result.accuracy.bound / radius,
            }
        )
    public = {"class": case.letter, "problem": case.title, "n": objective.records.n, "dim": objective.dim}
    return {**public, "l2": objective.l2, "radius": radius, "solvers": rows}


def compile_kernels() -> None:
    """Compile every solver before times are taken."""
    rng = np.random.default_rng(0)
    records = Records.clipped(rng.standard_normal((20, 2)), DataDomain.l2_ball(2, 1.0).with_intercept())
    for case in CASES:
        objective = RegularizedRisk(case.loss, records, rng.standard_normal(20), 0.1)
        for solver in solvers_for(objective, 3).values():
            solver.solve(objective, 1e-3)


def show(name: str, result: dict) -> None:
    table = RichTable(
        title=f"{name}, class {result['class']}: {result['problem']} ({result['l2']:.2g}), n={result['n']:,}, "
        f"d={result['dim']}, radius {result['radius']:.1e}"
    )
    for column in ("solver", "planned", "used", "passes", "seconds", "certified / planned radius"):
        table.add_column(column, justify="left" if column == "solver" else "right")
    for row in result["solvers"]:
        planned = "-" if row["planned_steps"] is None else f"{row['planned_steps']:,.3g}"
        used = f"{row['steps']:,}" + ("" if row["status"] == "certified" else " (stopped)")
        share = f"{row['certified_over_planned_radius']:.2g}"
        table.add_row(row["solver"], planned, used, f"{row['passes']:,}", f"{row['seconds']:.2f}", share)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--classes", nargs="+", choices=[case.letter for case in CASES], default=None)
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long a solver may take")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    args = parser.parse_args()
    compile_kernels()
    results: dict[str, list[dict]] = {}
    for name in args.data:
        data = DATA[name]()
        results[name] = []
        for case in CASES:
            if args.classes is None or case.letter in args.classes:
                results[name].append(measure(case, data, args.seconds))
                if not args.json:
                    show(name, results[name][-1])
    if args.json:
        print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
