"""Find the share in `REMAINS`: when should a constant replace a fit? Measured on the learning half of the corpus.

    python benchmarks/prediction.py --corpus learning --seeds 3 --json plans.json
    python benchmarks/constant.py plans.json
    python benchmarks/constant.py --doubt

The rule: a noisy mean (or rate) replaces the best plan that uses columns if that plan's expected excess is above a
share of the expected excess of zero parameters plus the constant's own expected error. For each share the table has the
geometric mean over tables of the excess with the rule over the excess without it, the number of cells whose excess is
above 1.1 times the constant's, and the number of cells that take the constant. With ``--doubt`` no data are read: for
class shares that are drawn evenly, it prints the mean excess log-loss of a constant by the number that is added to each
noisy count (`algorithms/erm/two_stage/constant.py`), in deviations of the noise.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

import corpus
from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.algorithms.erm.two_stage.constant import REMAINS
from dpconvex.errors import DpconvexWarning
from dpconvex.mechanisms import JointHistogram
from excess_loss import optimum

SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 0.9)


def lost(table: Any, n: int) -> float:
    """Return the excess of the best constant on the records that `prediction.py` reads."""
    order = np.random.default_rng(0).permutation(len(table.X))[:n]
    X, y, target = table.X[order], table.y[order], table.schema.target
    if target.numeric:
        design, width = np.column_stack([X, np.ones(len(X))]), target.upper - target.lower
        residual = design @ np.linalg.lstsq(design, y, rcond=None)[0] - y
        return float(y.var() - np.square(residual).mean()) / 2 / width**2
    rate = y.mean()
    best = optimum(X, y, table.schema.domain().with_intercept(1.0))
    return float(-rate * np.log(rate) - (1 - rate) * np.log(1 - rate)) - best


def doubts(n: int = 1000, draws: int = 4000) -> None:
    """Print mean excess log-losses of constants, by what is added to counts, in deviations of their noise."""
    tried = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
    for classes, budget in product((2, 3, 5, 9), (15, 30, 60, 150, 500)):
        rng, histogram = np.random.default_rng(0), JointHistogram((classes,), budget / n)
        shares, noise = rng.dirichlet(np.ones(classes), draws), histogram.simulate(draws, rng)
        noisy = np.maximum(n * shares + noise - noise.mean(1, keepdims=True), 0)
        found = []
        for doubt in tried:
            counts = noisy + doubt * max(float(histogram.deviations[0]), 1.0)
            found.append(np.sum(shares * np.log(shares / counts * counts.sum(1, keepdims=True)), 1).mean())
        print(
            f"{classes} classes, n epsilon {budget}:", *(f"{d:g}: {x:.4f}" for d, x in zip(tried, found, strict=True))
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", type=Path, nargs="?")
    parser.add_argument("--doubt", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    if given.doubt:
        doubts()
        return
    if given.plans is None:
        parser.error("give the plans of prediction.py, or --doubt")
    cells, found = defaultdict(list), []
    for plan in json.loads(given.plans.read_text())["plans"]:
        if plan["algorithm"] != "constant":
            cells[plan["table"], plan["delta"], plan["epsilon"]].append(plan)
    tables: dict[str, Any] = {name: corpus.load(name) for name in dict.fromkeys(name for name, *_ in cells)}
    worst = {
        name: lost(table, next(p["n"] for key in cells if key[0] == name for p in cells[key]))
        for name, table in tables.items()
    }
    for (name, delta, epsilon), plans in cells.items():
        schema, first = tables[name].schema, min(plans, key=lambda plan: plan["expected"])
        kind = PrivateLinearRegression if schema.target.numeric else PrivateLogisticRegression
        plan: Any = kind(epsilon, delta, schema=schema, algorithm="constant").plan(first["n"])[0]
        share = REMAINS[plan.problem.loss.task]
        zero = min(plan.problem.trivial, plan.problem.typical.at_zero)
        own = plan.predicted_error.expected - share * zero
        noise = (1 if schema.target.numeric else 4) / (first["n"] * epsilon) ** 2
        found.append(
            (schema.target.numeric, name, zero, own, first["expected"], np.mean(first["measured"]), worst[name], noise)
        )
    shown = RichTable("task", "share", "excess", "worse than a constant", "taken", "cells")
    for numeric in (True, False):
        for share in SHARES:
            ratios, bad, taken = defaultdict(list), 0, 0
            for _, name, zero, own, expected, measured, constant, noise in (c for c in found if c[0] == numeric):
                take = share * zero + own < expected
                excess = constant + noise if take else max(float(measured), 1e-7)
                ratios[name].append(np.log(excess / max(float(measured), 1e-7)))
                bad, taken = bad + (excess > 1.1 * constant), taken + take
            mean = np.exp(np.mean([np.mean(each) for each in ratios.values()]))
            count = sum(map(len, ratios.values()))
            shown.add_row(
                "numbers" if numeric else "classes", f"{share:g}", f"{mean:.3f}", str(bad), str(taken), str(count)
            )
    Console().print(shown)


if __name__ == "__main__":
    main()
