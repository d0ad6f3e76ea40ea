"""Measure what declaring the public shares of two classes gains, by the smallest share that predictions start from.

    python benchmarks/rates.py [--least 0 0.27 0.3333 --seeds 4 --rows 6000 --delta 1e-6 --additive]

Tables are the learning tables of `corpus.py` with two classes; the declared rates are the table's, rounded to a tenth
of a percent. It prints the ratio of the training excess to that of a fit without rates; an excess counts as at least
.002 of a constant's. `RAREST` in `dpconvex.losses.classification` was chosen by this benchmark.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from corpus import HALVES, MANY_CLASSES, RECIPES, load
from dpconvex import PrivateAdditiveClassifier, PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.errors import DpconvexWarning
from dpconvex.losses import classification
from excess_loss import log_loss, optimum

NAMES = [n for n in HALVES["learning"] if n not in MANY_CLASSES and len(RECIPES[n].target.split()) == 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--least", type=float, nargs="+", default=[0.0, 0.2, 0.27, 1 / 3, 0.4])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=6_000)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--additive", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    kind: Any = PrivateAdditiveClassifier if arguments.additive else PrivateLogisticRegression
    found: dict[tuple[bool, float], list[np.ndarray]] = {}
    for name, epsilon in product(NAMES, arguments.epsilons):
        table = load(name)
        assert table.frame is not None
        frame, X, y = table.frame.iloc[: arguments.rows], table.X[: arguments.rows], table.y[: arguments.rows]
        rate = float(y.mean())
        best = optimum(X, y, table.schema.domain().with_intercept(1.0))
        constant = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate) - best
        told = replace(table.schema, target=replace(table.schema.target, rates=(round(1 - rate, 3), round(rate, 3))))
        excess = []
        for least in (None, *arguments.least):
            if least is not None:
                classification.RAREST = max(least, 1e-9)
            registry.plans.cache_clear()
            own = {"schema": table.schema if least is None else told}
            models = (kind(epsilon, arguments.delta, random_state=seed, **own) for seed in range(arguments.seeds))
            runs = [log_loss(np.asarray(model.fit(frame).decision_function(frame)), y) - best for model in models]
            excess.append(max(float(np.mean(runs)) / constant, 0.002))
        ratios = np.log(np.array(excess[1:]) / excess[0])
        found.setdefault((min(rate, 1 - rate) < 0.2, epsilon), []).append(ratios)
        print(f"{name:22s} {rate:.3f} {epsilon:<4g} " + " ".join(f"{value:.3f}" for value in excess), flush=True)
    print("shares below .2, epsilon, cells; relative to no rates, and standard errors:", arguments.least)
    for (rare, epsilon), cells in sorted(found.items()):
        means, errors = np.exp(np.mean(cells, 0)), np.std(cells, 0) / np.sqrt(len(cells))
        shown = " ".join(f"{mean:.2f} ({error:.2f})" for mean, error in zip(means, errors, strict=True))
        print(rare, epsilon, len(cells), shown)
    every = np.array([ratios for cells in found.values() for ratios in cells])
    print("all:", " ".join(f"{value:.3f}" for value in np.exp(every.mean(0))))


if __name__ == "__main__":
    main()
