"""By how much must a plan for users that spends delta, or looks first, expect less than others to come first?

    python benchmarks/user_ranks.py --kind classes --rows 5000 [--alike] [--json FILE]

Learning tables dealt to users (`user_corpus.py`), delta 1e-6: every method is planned and fitted once, so what any
factors on expectations would have taken follows. Printed: excess relative to objective perturbation alone, geometric
means over tables (standard error), and what a table left out has with the factors that are best for all others.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Unit
from user_corpus import EPSILONS, LEARNING, Case

DELTA = 1e-6
METHODS = ("objective_perturbation", "noisy_gradient", "informed_gradient", "recentering", "constant")
FACTORS = {
    "informed_gradient": (0.4, 0.6, 0.8, 1.0, 1.25, 1.5, np.inf),
    "noisy_gradient": (1.0, 1.25, 1.5, 2.0, np.inf),
    "recentering": (0.8, 0.95, 1.1, 1.65, np.inf),
}

BASE = {"informed_gradient": 1.0, "noisy_gradient": 1.0, "recentering": 1.1}


def measured(case: Case, epsilon: float, seeds: int) -> dict[str, Any]:
    """Return, by method, what its plan expects to lose and what it lost, in shares of a constant's excess."""
    line: dict[str, Any] = {"table": case.name, "m": case.records, "epsilon": epsilon}
    kind = PrivateLinearRegression if case.number else PrivateLogisticRegression
    for method in METHODS:
        facts = {"domain": case.schema.domain(), "records_per_user": case.records, "algorithm": method, **case.own}
        try:
            plan = kind(epsilon, DELTA, **facts).plan(case.n, unit=Unit.USER)[0]
        except InvalidParameterError:
            continue
        losses = [case.fit(method, epsilon, DELTA, seed)[0] for seed in range(seeds)]
        line[method] = {"expected": plan.predicted_error.expected, "loss": float(np.mean(losses))}
    return line


def chosen(line: dict[str, Any], factors: dict[str, float]) -> float:
    """Return the logarithm of what the plan of the least expectation lost, relative to objective perturbation."""
    expected = {name: line[name]["expected"] * factors.get(name, 1.0) for name in METHODS if name in line}
    lost = line[min(expected, key=lambda name: expected[name])]["loss"]
    return float(np.log(max(lost, 0.002) / max(line["objective_perturbation"]["loss"], 0.002)))


def report(lines: list[dict[str, Any]], records: int | None) -> None:
    lines = [line for line in lines if records in (None, line["m"])]
    tables = sorted({line["table"] for line in lines})
    tried = [dict(zip(FACTORS, each, strict=True)) for each in product(*FACTORS.values())]
    of = {name: [line for line in lines if line["table"] == name] for name in tables}
    logs = np.array([[np.mean([chosen(line, each) for line in of[name]]) for name in tables] for each in tried])
    for name, factors in FACTORS.items():
        if any(name in line for line in lines):
            print(f"  {name}, others at {BASE}:")
            for factor in factors:
                print(f"    {factor:g}: {_shown(logs[tried.index({**BASE, name: factor})])}")
    order = np.argsort(logs.mean(1))[:5]
    print("  best:", "; ".join(f"{tuple(tried[k].values())} {_shown(logs[k])}" for k in order))
    left = [int(np.argmin(np.delete(logs, k, 1).mean(1))) for k in range(len(tables))]
    print("  left out:", _shown(np.array([logs[best, k] for k, best in enumerate(left)])))


def _shown(logs: np.ndarray) -> str:
    return f"{np.exp(logs.mean()):.3f} ({logs.std() / np.sqrt(len(logs)):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("numbers", "classes"), default="classes")
    parser.add_argument("--records", type=int, nargs="+", default=[1, 3, 10])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--alike", action="store_true")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    cases: Any = product(LEARNING, arguments.records)
    for name, records in cases:
        case = Case(name, records, arguments.alike, arguments.rows)
        if case.number == (arguments.kind == "numbers"):
            lines += [measured(case, epsilon, arguments.seeds) for epsilon in EPSILONS]
            if arguments.json:
                arguments.json.write_text(json.dumps(lines, indent=1))
    for records in (None, *arguments.records):
        print("all" if records is None else f"{records} records a user")
        report(lines, records)


if __name__ == "__main__":
    main()
