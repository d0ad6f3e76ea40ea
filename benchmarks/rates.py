"""Measure what declaring the public shares of two classes gains, by the smallest share that predictions start from.

    python benchmarks/rates.py [learning keel programs --least 0 0.27 0.3333 --seeds 4 --rows 6000 --additive]

Tables of two classes: ``learning`` are those of `corpus.py`, the others those of `shares.py`. The declared rates are
the table's, rounded to a tenth of a percent. It prints the ratio of the training excess to that of a fit without rates;
an excess counts as at least .002 of a constant's. `RAREST` in `dpconvex.losses.classification` was chosen by this
benchmark. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import many_tables
from corpus import HALVES, MANY_CLASSES, RECIPES, load
from dpconvex import PrivateAdditiveClassifier, PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.errors import DpconvexWarning
from dpconvex.losses import classification
from excess_loss import optimum
from shares import tasks

NAMES = [n for n in HALVES["learning"] if n not in MANY_CLASSES and len(RECIPES[n].target.split()) == 1]
RARE = (0.1, 0.25)  # bounds of the printed groups, by the share of the rarer class


def learning(rows: int) -> Iterator[many_tables.Task]:
    """Yield the learning tables of two classes."""
    for name in NAMES:
        table = load(name)
        assert table.frame is not None
        X, y, rate = table.X[:rows], np.asarray(table.y[:rows], dtype=np.int64), float(table.y[:rows].mean())
        constant = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
        best = optimum(X, y, table.schema.domain().with_intercept(1.0))
        frame = table.frame.iloc[:rows]
        yield many_tables.Task(name, many_tables.KINDS[0], table.schema, frame, X, y, constant, best)


def measured(task: many_tables.Task, epsilon: float, given: argparse.Namespace) -> list[float]:
    """Return the mean excess without rates, and with them for every least share, over a constant's excess."""
    kind: Any = PrivateAdditiveClassifier if given.additive else PrivateLogisticRegression
    shares = np.bincount(task.y) / len(task.y)
    target: Any = task.schema.target
    rates = (round(shares[0], 3), 1 - round(shares[0], 3))
    told = replace(task.schema, target=replace(target, rates=rates))
    found = []
    for least in (None, *given.least):
        if least is not None:
            classification.RAREST = max(least, 1e-9)
        registry.plans.cache_clear()
        own = task._replace(schema=task.schema if least is None else told)
        lost = []
        for seed in range(given.seeds):
            coins = many_tables.checksum(f"{task.name} {seed}")
            model = kind(epsilon, given.delta, schema=own.schema, random_state=coins).fit(task.frame)
            lost.append(many_tables.loss(own, model) - task.best)
        gain = max(task.constant - task.best, many_tables.LEAST_GAIN * task.constant)
        found.append(max(float(np.mean(lost)) / gain, many_tables.LEAST_EXCESS))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["learning"], choices=["learning", "keel", "programs"])
    parser.add_argument("--least", type=float, nargs="+", default=[0.0, 0.2, 0.27, 1 / 3, 0.4])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--additive", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    groups = [f"below {RARE[0]}", f"{RARE[0]} to {RARE[1]}", f"above {RARE[1]}"]
    found: dict[tuple[int, float], list[np.ndarray]] = {}
    for name in given.tables:
        for task in learning(given.rows) if name == "learning" else tasks([name], given.rows):
            rarer = float(np.bincount(task.y).min() / len(task.y))
            if task.kind != many_tables.KINDS[0] or rarer < 0.001:  # rates of 0 cannot be declared
                continue
            for epsilon in given.epsilons:
                excess = measured(task, epsilon, given)
                ratios = np.log(np.array(excess[1:]) / excess[0])
                found.setdefault((int(np.searchsorted(RARE, rarer, "right")), epsilon), []).append(ratios)
                print(f"{task.name:30s} {rarer:.3f} {epsilon:<4g} " + " ".join(f"{x:.3f}" for x in excess), flush=True)
    print("share of the rarer class, epsilon, tables; relative to no rates (error over tables), by least:", given.least)
    for (group, epsilon), cells in sorted(found.items()):
        means, errors = np.exp(np.mean(cells, 0)), np.std(cells, 0) / np.sqrt(len(cells))
        shown = " ".join(f"{mean:.2f} ({error:.2f})" for mean, error in zip(means, errors, strict=True))
        print(f"{groups[group]:12s}", epsilon, len(cells), shown)
    every = np.array([ratios for cells in found.values() for ratios in cells])
    print("all:", " ".join(f"{value:.3f}" for value in np.exp(every.mean(0))))


if __name__ == "__main__":
    main()
