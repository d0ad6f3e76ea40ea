"""Measure private adversarial training on real data: clean and robust accuracy, excess risk, and work of the solver.

    python benchmarks/adversarial.py [--norm l2] [--seeds 5] [--json FILE]

The data are the Adult census, balanced (as many people above 50,000 dollars as below), with four numeric columns and
marital status. Models are logistic, fitted by output perturbation under pure epsilon; no setting depends on the data.
Attacks move the encoded features, in which a numeric column is 1 wide. The excess adversarial risk is the mean
worst-case log-loss on the training records, at the radius that was trained for, above that of the non-private robust
minimizer (regularization 1e-5). The solver's work is the number of full passes over the data, and the seconds of the
solver alone, until its certificate reaches the planned radius. Fits are seeded, hence not private: the data are public.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex import PrivateLogisticRegression, adult_schema, load_adult
from dpconvex.algorithms.erm.output_perturbation import OutputPerturbationPlan
from dpconvex_experiments.shared import worst_losses

RADII = (0.0, 0.05, 0.1, 0.2)
EPSILONS = (0.5, 1.0, 4.0)
COLUMNS = ("age", "education-num", "hours-per-week", "capital-gain", "marital-status")
REFERENCE_L2 = 1e-5


def data() -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    table, full = load_adult(), adult_schema()
    schema = replace(full, columns=tuple(column for column in full.columns if column.name in COLUMNS))
    index, rng = schema.encode_target(table), np.random.default_rng(0)
    high = np.flatnonzero(index == 1)
    rows = rng.permutation(np.concatenate([high, rng.choice(np.flatnonzero(index == 0), len(high), replace=False)]))
    X, y = schema.encode(table)[rows], index[rows]
    cut = int(0.8 * len(rows))
    return schema.domain(), X[:cut], y[:cut], X[cut:], y[cut:]


def robust_accuracies(w: np.ndarray, b: float, X: np.ndarray, y: np.ndarray, norm: str) -> list[float]:
    """Return, for each radius, the share of records whose correct prediction no attack of this length changes."""
    dual = np.abs(w).sum() if norm == "linf" else np.linalg.norm(w)
    margin = (2.0 * y - 1) * (X @ w + b)
    return [float(np.mean(margin > radius * dual)) for radius in RADII]


def adversarial_risk(plan: OutputPerturbationPlan, w: np.ndarray, b: float, X: np.ndarray, y: np.ndarray) -> float:
    problem, sign = plan.problem, 2.0 * y - 1
    point = np.append(w, b / problem.domain.intercept)
    z = X @ w + b
    if problem.attack is None:
        return float(problem.loss.value(z, sign).mean())
    return float(worst_losses(problem.attack, problem.loss, z, sign, point, problem.domain).mean())


def solve(plan: OutputPerturbationPlan, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, dict[str, float]]:
    """Return the plan's minimizer and the solver's work; nothing here is private."""
    start = time.perf_counter()
    objective = plan.problem.objective(X, 2.0 * y - 1, plan.l2)
    found = plan.solver.solve(objective, plan.solver_radius, plan.constraint)
    work = {"passes": found.gradient_calls, "seconds": time.perf_counter() - start}
    return plan.problem.parameters(found.point), work


def model(domain: Any, epsilon: float, radius: float, norm: str, **more: Any) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(
        epsilon,
        domain=domain,
        algorithm="output_perturbation",
        coefficient_norm=4.0,
        adversarial_radius=radius,
        adversarial_norm=norm,
        classes=[0, 1],
        **more,
    )


def measure(norm: str, seeds: int) -> dict[str, Any]:
    domain, X, y, X_test, y_test = data()
    rows = []
    for radius in RADII:
        exact = model(domain, 1e6, radius, norm, l2=REFERENCE_L2).plan(len(X))[0]
        point, work = solve(exact, X, y)
        w, b = point[:-1], float(point[-1] * exact.problem.domain.intercept)
        best = adversarial_risk(exact, w, b, X, y)
        accuracies = robust_accuracies(w, b, X_test, y_test, norm)
        rows.append({"radius": radius, "epsilon": None, "excess": 0.0, "risk": best, "robust": accuracies, **work})
        for epsilon in EPSILONS:
            fits = [model(domain, epsilon, radius, norm, random_state=seed).fit(X, y) for seed in range(seeds)]
            plan = fits[0].plan_
            risks = [adversarial_risk(plan, f.encoded_coef_[0], f.encoded_intercept_[0], X, y) for f in fits]
            shares = [
                robust_accuracies(f.encoded_coef_[0], f.encoded_intercept_[0], X_test, y_test, norm) for f in fits
            ]
            rows.append(
                {
                    "radius": radius,
                    "epsilon": epsilon,
                    "excess": float(np.mean(risks) - best),
                    "excess_sd": float(np.std(risks)),
                    "bound": plan.predicted_error.bound,
                    "risk": float(np.mean(risks)),
                    "robust": np.mean(shares, axis=0).tolist(),
                    **solve(plan, X, y)[1],
                }
            )
    return {"table": "adult, balanced", "n": len(X), "dim": domain.dim + 1, "norm": norm, "seeds": seeds, "rows": rows}


def show(result: dict[str, Any]) -> None:
    title = f"{result['table']}: n={result['n']:,}, d={result['dim']}, {result['norm']} attacks on encoded features"
    table = RichTable(title=title)
    for name in ("trained for", "epsilon", *(f"accuracy at {radius:g}" for radius in RADII)):
        table.add_column(name, justify="right")
    for name in ("excess adversarial risk", "bound", "passes", "seconds"):
        table.add_column(name, justify="right")
    for row in result["rows"]:
        table.add_row(
            f"{row['radius']:g}",
            "not private" if row["epsilon"] is None else f"{row['epsilon']:g}",
            *(f"{accuracy:.3f}" for accuracy in row["robust"]),
            f"{row['excess']:.4f}",
            f"{row['bound']:.3f}" if "bound" in row else "",
            f"{row['passes']:.0f}",
            f"{row['seconds']:.3f}",
        )
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--norm", choices=("l2", "linf"), default="l2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    result = measure(arguments.norm, arguments.seeds)
    show(result)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
