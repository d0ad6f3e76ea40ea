"""Find from how many records on the pinball loss is smoothed less, and what a look spares of tails.

    python benchmarks/quantiles.py [--epsilons 0.1 0.3 1 3 10] [--seeds 2] [--json FILE]
    python benchmarks/quantiles.py --costs [--huber] [--rows 10000 100000 400000] [--epsilons 0.3 1 3]

Tables are the learning regressions of `corpus.py` with 2,000 records or more (at most 20,000), fitted by schema; with
``--costs`` made-up costs of a heavy tail in [0, 500000]. An option is the number of records times epsilon for each
feature from which on the parabola is shorter (`SHORTER` in `dpconvex.estimators.regressors`), and the share of the
records that a look at the target's range spares for each halving (`spare_tail`). Measured is the excess pinball loss as
a share of a constant's, at least .02, on the records of the fit; the best loss is the least, options with epsilon 30
included. Printed: geometric means relative to a parabola of .075 of the range, with standard errors over tables, by
records times epsilon for each feature; and which option each table's others choose. With ``--huber`` the options
are what looks spare for Huber's loss, and printed are the absolute error over a constant's and the mean prediction.
Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import corpus
import prior
from dpconvex import PrivateHuberRegressor, PrivateQuantileRegressor
from dpconvex.data import CategoricalColumn, NumericColumn, NumericTarget, Schema
from dpconvex.estimators import regressors
from dpconvex.losses import PseudoHuberLoss, SmoothedPinballLoss

LEVELS, BOUNDS = (0.1, 0.25, 0.5, 0.9), (0, 500, 1500, 5000, 15000, 1e9)
OPTIONS = {"always .075": (np.inf, 0.0)} | {f"{k:,}": (float(k), 0.04) for k in (500, 1000, 2000, 4000, 8000)}
OPTIONS |= {"2,000, no tail": (2000.0, 0.0)}


def pinball(y: np.ndarray, p: np.ndarray | float, level: float) -> float:
    return float(np.mean(np.maximum(level * (y - p), (level - 1) * (y - p))))


def fitted(option: str, schema: Schema, frame: pd.DataFrame, level: float, epsilon: float, seed: int) -> Any:
    shorter, tail = OPTIONS[option]
    spared = property(lambda loss: tail * min(loss.quantile, 1 - loss.quantile))
    prior.forget()
    with (
        mock.patch.object(regressors, "SHORTER", shorter),
        mock.patch.object(SmoothedPinballLoss, "spare_tail", spared),
    ):
        return PrivateQuantileRegressor(epsilon, quantile=level, schema=schema, random_state=seed).fit(frame)


def measured(epsilons: list[float], seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the excess of every option, for each table, level and epsilon."""
    for name in corpus.HALVES["learning"]:
        schema, frame, target = (table := corpus.load(name)).schema, table.frame, table.schema.target
        if target is None or not target.numeric or frame is None or len(frame) < 2000:
            continue
        frame = frame.sample(min(20_000, len(frame)), random_state=0).reset_index(drop=True)
        y = np.clip(pd.to_numeric(frame[target.name], errors="coerce"), target.lower, target.upper).to_numpy()
        seen = np.isfinite(y)
        features = schema.domain().with_intercept(1.0).dim
        for level in LEVELS:
            constant, lost = pinball(y[seen], float(np.quantile(y[seen], level)), level), {}
            for epsilon, option in product([*epsilons, 30.0], OPTIONS):
                models = (fitted(option, schema, frame, level, epsilon, seed) for seed in range(seeds))
                losses = [pinball(y[seen], np.asarray(model.predict(frame))[seen], level) for model in models]
                lost[epsilon, option] = float(np.mean(losses))
            best = min(lost.values())
            for epsilon in epsilons:
                line = {"table": name, "level": level, "epsilon": epsilon, "records": len(y) * epsilon / features}
                gain = max(constant - best, 0.02 * constant)
                yield line | {option: max((lost[epsilon, option] - best) / gain, 0.02) for option in OPTIONS}


def summary(lines: list[dict[str, Any]]) -> None:
    found = pd.DataFrame(lines)
    logs = np.log(found[list(OPTIONS)].div(found["always .075"], axis=0)).assign(table=found.table)
    groups = {"all": logs}
    for low, high in pairwise(BOUNDS):
        groups[f"{low:,} to {high:,.0f}"] = logs[found.records.between(low, high, inclusive="left")]
    groups |= {f"level {level}": logs[found.level == level] for level in LEVELS}
    for name, part in groups.items():
        means = part.groupby("table").mean()
        shown = (f"{np.exp(means[o].mean()):.3f} ({means[o].std() / len(means) ** 0.5:.3f})" for o in OPTIONS)
        print(f"{name:18s} {len(part):4d} cells", *shown, "worst", *(f"{np.exp(part[o].max()):.2f}" for o in OPTIONS))
    means = logs.groupby("table").mean()
    print("left out, the others choose:", dict(Counter(means.drop(name).mean().idxmin() for name in means.index)))


def costs(n: int, seed: int) -> pd.DataFrame:
    """Return records whose costs have a Pareto tail, whatever their columns tell."""
    rng = np.random.default_rng(seed)
    age, smoker = rng.integers(18, 80, n), rng.random(n) < 0.2
    cost = (rng.pareto(2.2, n) + 0.2) * 2000 * np.exp(0.02 * (age - 40) + 1.2 * smoker)
    more = {"children": rng.poisson(1, n).clip(0, 8), "region": rng.choice(["ne", "nw", "se", "sw"], n)}
    return pd.DataFrame({"cost": cost.clip(0, 5e5), "age": age, "smoker": np.where(smoker, "y", "n"), **more})


def cost_schema() -> Schema:
    categories = CategoricalColumn("smoker", ("n", "y")), CategoricalColumn("region", ("ne", "nw", "se", "sw"))
    numbers = NumericColumn("age", 18.0, 80.0), NumericColumn("children", 0.0, 8.0)
    return Schema((*numbers, *categories), NumericTarget("cost", 0.0, 5e5))


def made_up(rows: list[int], epsilons: list[float], seeds: int) -> None:
    schema, test = cost_schema(), costs(100_000, 999)
    y = test.cost.to_numpy()
    print("pinball loss over a constant's, share of targets at most the prediction; options:", *OPTIONS)
    for level, n, epsilon in product((0.25, 0.5, 0.75, 0.9), rows, epsilons):
        cells = []
        for option in OPTIONS:
            found = [
                np.asarray(fitted(option, schema, costs(n, seed), level, epsilon, seed).predict(test))
                for seed in range(seeds)
            ]
            lost = np.mean([pinball(y, p, level) for p in found]) / pinball(y, float(np.quantile(y, level)), level)
            cells.append(f"{lost:.3f} {np.mean([np.mean(y <= p) for p in found]):.3f}")
        print(f"{level:<4g} n={n:<7d} eps={epsilon:<4g}", " | ".join(cells), flush=True)


def huber(rows: list[int], epsilons: list[float], seeds: int) -> None:
    schema, test = cost_schema(), costs(100_000, 999)
    y = test.cost.to_numpy()
    constant, tails = 2 * pinball(y, float(np.median(y)), 0.5), (0.0, 0.01, 0.02, 0.04)
    print(f"mean {y.mean():,.0f}, median {np.median(y):,.0f}; absolute error, mean prediction; spared:", *tails)
    for n, epsilon in product(rows, epsilons):
        cells = []
        for tail in tails:
            found = []
            for seed in range(seeds):
                prior.forget()
                with mock.patch.object(PseudoHuberLoss, "spare_tail", tail):
                    model = PrivateHuberRegressor(epsilon, schema=schema, random_state=seed).fit(costs(n, seed))
                found.append(np.asarray(model.predict(test)))
            lost = np.mean([np.mean(np.abs(y - p)) for p in found]) / constant
            cells.append(f"{lost:.3f} {np.mean(found):,.0f}")
        print(f"n={n:<7d} eps={epsilon:<4g}", " | ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--huber", action="store_true")
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 400_000])
    parser.add_argument("--json", type=Path)
    given, lines = parser.parse_args(), []
    warnings.simplefilter("ignore")
    if given.costs:
        return (huber if given.huber else made_up)(given.rows, given.epsilons or [0.3, 1.0, 3.0], given.seeds)
    for line in measured(given.epsilons or [0.1, 0.3, 1.0, 3.0, 10.0], given.seeds):
        lines.append(line)
        print(line, flush=True)
        if given.json:
            given.json.write_text(json.dumps(lines))
    summary(lines)


if __name__ == "__main__":
    main()
