"""Measure the excess training log-loss of private logistic regression, by noise norm and slope cap.

    python benchmarks/excess_loss.py [--tables adult flights ratings] [--caps 0.9 0.7 auto] [--seeds 5] [--json FILE]

Fits are planned from public facts, under pure epsilon: with every noise norm without a cap, and with ``grouped`` noise
and each cap that is asked for; ``auto`` is the cap of the plan.

The excess is over the unregularized optimum of the same encoded features; "constant" predicts the class frequency.
Fits are seeded, hence not private: this measures accuracy on public data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex import PrivateLogisticRegression
from dpconvex.errors import DpconvexWarning
from dpconvex.losses import LogisticLoss
from dpconvex.problems import Records, RegularizedRisk
from dpconvex.solvers import LBFGS, NewtonCholesky
from tables import TABLES

NOISES = ("l2", "l1", "weighted_l1", "grouped")
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def log_loss(logits: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0.0, np.where(y == 1, -logits, logits))))


def optimum(X: np.ndarray, y: np.ndarray, domain) -> float:
    risk = RegularizedRisk(LogisticLoss(), Records.clipped(X, domain), 2.0 * y - 1, 1e-9)
    solver = NewtonCholesky() if risk.dim <= 2000 else LBFGS()
    w = solver.solve(risk, 1e-2).point
    return log_loss(X @ w[:-1] + w[-1], y)


def measure(name: str, seeds: int, caps: list[str], noises: list[str]) -> dict:
    table = TABLES[name]()
    X, y, domain = table.X, table.y, table.schema.domain()
    best = optimum(X, y, domain.with_intercept(1.0))
    rate = float(np.mean(y))
    result = {
        "table": name,
        "n": len(X),
        "dim": domain.dim + 1,
        "optimum": best,
        "constant_excess": log_loss(np.full(len(y), np.log(rate / (1 - rate))), y) - best,
        "excess": {},
    }
    rows = [(noise, noise, 1.0) for noise in noises]
    rows += [(f"grouped, cap {cap}", "grouped", None if cap == "auto" else float(cap)) for cap in caps]
    for row, noise, cap in rows:
        for epsilon in EPSILONS:
            losses, start = [], time.perf_counter()
            for seed in range(seeds):
                model = PrivateLogisticRegression(
                    epsilon,
                    domain=domain,
                    algorithm="objective_perturbation",
                    noise=noise,
                    slope_cap=cap,
                    random_state=seed,
                    classes=[0, 1],
                )
                model.fit(X, y)
                losses.append(log_loss(X @ model.coef_[0] + model.intercept_[0], y) - best)
                used = model.plan_
            result["excess"].setdefault(row, {})[str(epsilon)] = {
                "mean": float(np.mean(losses)),
                "sd": float(np.std(losses)),
                "predicted_bound": used.predicted_error.bound,
                "expected": used.predicted_error.expected,
                "cap": used.problem.loss.slope_bound,
                "seconds_per_fit": (time.perf_counter() - start) / seeds,
            }
    return result


def show(result: dict) -> None:
    title = (
        f"{result['table']}: n={result['n']:,}, d={result['dim']}, optimum {result['optimum']:.4f}, "
        f"constant +{result['constant_excess']:.4f}; mean excess log-loss (s.d.)"
    )
    table = RichTable(title=title)
    table.add_column("noise")
    for epsilon in EPSILONS:
        table.add_column(f"epsilon {epsilon:g}", justify="right")
    for noise, row in result["excess"].items():
        table.add_row(noise, *(f"{row[str(e)]['mean']:.4f} ({row[str(e)]['sd']:.4f})" for e in EPSILONS))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["adult", "flights"], choices=list(TABLES))
    parser.add_argument("--noises", nargs="*", default=list(NOISES), choices=NOISES)
    parser.add_argument("--caps", nargs="*", default=["auto"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    results = []
    for name in arguments.tables:
        results.append(measure(name, arguments.seeds, arguments.caps, arguments.noises))
        show(results[-1])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
