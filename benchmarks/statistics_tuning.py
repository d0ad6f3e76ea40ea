"""Compare rounds, resolution and pull of refined sufficient statistics on the learning tables of the corpus.

    python benchmarks/statistics_tuning.py [--seeds 3] [--rows 20000] [--json FILE]

It measures the training excess of ``algorithm="sufficient_statistics"`` at delta 1e-6, relative to today's setting.
Printed for each setting: the geometric mean over tables and budgets, and the worst cell. The last line judges each
table by the setting that is best for all *other* tables. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

import corpus
from dpconvex import PrivateLinearRegression
from dpconvex.algorithms.erm import registry, sufficient_statistics as plans
from dpconvex.data import NumericTarget

EPSILONS, SETTINGS = (0.1, 0.3, 1.0, 3.0), tuple(product((20, 40, 60, 100), (1.7, 1.0), (0.3, 0.15)))
FLOOR = 1e-7  # an excess counts as at least this much


def excesses(name: str, rows: int, seeds: int, today: object) -> dict[str, list[float]]:
    """Return the mean excess of every setting at each budget, over the squared width of the target's range."""
    table = corpus.load(name)
    X, y, target = table.X[:rows], table.y[:rows], table.schema.target
    width, design = target.upper - target.lower, np.column_stack([X, np.ones(len(X))])
    best = np.square(design @ np.linalg.lstsq(design, y, rcond=None)[0] - y).mean()
    found: dict[str, list[float]] = {}
    for setting, epsilon in product((None, *SETTINGS), EPSILONS):
        plans.TUNING = today
        if setting is not None:
            rounds, resolution, pull = setting
            stages = (today.stages[0], (rounds, today.stages[1][1]))
            plans.TUNING = replace(today, stages=stages, resolution=resolution, pull=pull)
        registry.plans.cache_clear()
        values = []
        for seed in range(seeds):
            model = PrivateLinearRegression(
                epsilon, 1e-6, domain=table.schema.domain(), target_bounds=(target.lower, target.upper),
                random_state=seed, algorithm="sufficient_statistics",
            ).fit(X, y)  # fmt: skip
            z = np.clip(X @ np.ravel(model.coef_) + np.ravel(model.intercept_)[0], target.lower, target.upper)
            values.append(float(np.square(z - y).mean() - best) / width**2)
        found.setdefault(str(setting), []).append(max(float(np.mean(values)), FLOOR))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000, help="the largest number of records of a table")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    today = plans.TUNING
    names = [name for name in corpus.LEARNING if isinstance(corpus.load(name).schema.target, NumericTarget)]
    every = {name: excesses(name, given.rows, given.seeds, today) for name in names}
    if given.json:
        given.json.write_text(json.dumps(every, indent=1) + "\n")
    logs = {
        s: np.array([np.log(np.divide(found[s], found["None"])) for found in every.values()])
        for s in map(str, SETTINGS)
    }
    for setting, log in sorted(logs.items(), key=lambda each: each[1].mean()):
        by_epsilon = " ".join(f"{value:.2f}" for value in np.exp(log.mean(0)))
        found = f"geometric mean {np.exp(log.mean()):.3f}; by epsilon {by_epsilon}; worst {np.exp(log.max()):.2f}"
        print(f"{setting:18s} {found}")
    left_out = []
    for k in range(len(names)):
        chosen = min(logs, key=lambda s: np.delete(logs[s], k, axis=0).mean())
        left_out.append(logs[chosen][k])
    print(f"leave one table out: {np.exp(np.mean(left_out)):.3f}, worst cell {np.exp(np.max(left_out)):.2f}")


if __name__ == "__main__":
    main()
