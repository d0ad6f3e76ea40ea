"""A constant for numbers with a declared range: its noisy mean, and when a look at the range comes first.

    python benchmarks/constant_look.py [--seeds 4] [--users]

Regressions of the learning half and `corpus.MORE_NUMBERS`; their ranges as declared, 3 times (upwards), 10 times (both
ways) and 30 times as wide (upwards). Samples drawn from each table, epsilon .1, pure; with ``--users`` in threes, each
of three neighbors in the order of the target, so that users differ. Squared distance of the constant from the mean (of
users), as a share of the target's variance, counted from a thousandth on: geometric means and means by epsilon times
units. Then, of all cells from 60 on, each table by the setting that is best for the others. Fits are seeded.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

import corpus
from declared_ranges import WIDENED, widened
from dpconvex import PrivateLinearRegression
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.two_stage import constant, ranges
from lost_ranges import NAMES

UNITS = (3, 10, 20, 40, 60, 100, 200, 400)  #: Epsilon times units
OLD = "objective perturbation alone, "
SETTINGS: dict[str, dict[str, Any]] = {
    "50 units": {},
    f"{OLD}no look": {"ALONE_NEEDED": np.inf},
    f"{OLD}50 units": {},
    "no look": {"ALONE_NEEDED": np.inf},
    "30 units": {"LOOKED_ALONE": 30.0},
    "80 units": {"LOOKED_ALONE": 80.0},
    "from 40 on": {"ALONE_NEEDED": 40.0},
    "half the width is worth 1": {"HALVED": 1.0},
    "half the width is worth 3": {"HALVED": 3.0},
}
TODAY = {name: getattr(ranges, name) for given in SETTINGS.values() for name in given}
WIDE = WIDENED["target"]


class Looking(PrivateLinearRegression):
    _may_look = True  # although a constant is asked for


def use(setting: str) -> None:
    """Let constants be planned with that."""
    for name, value in {**TODAY, **SETTINGS[setting]}.items():
        setattr(ranges, name, value)
    registry.SquaredLoss = type(None) if setting.startswith(OLD) else constant.SquaredLoss
    registry.plans.cache_clear()


def cell(table: corpus.Table, units: int, wide: str, users: bool, seeds: int) -> list[float]:
    """Return the squared distance of constants from the mean over the variance, one a seed."""
    n = min(10 * units, len(table.y) // (3 if users else 1))
    rows = np.random.default_rng(1).permutation(len(table.y))[: n * (3 if users else 1)]
    rows = rows[np.argsort(table.y[rows], kind="stable")] if users else rows
    below, above, _ = WIDE[wide]
    schema = replace(table.schema, target=widened(table.schema.target, below, above), columns=table.schema.columns[:1])
    groups = {"groups": np.repeat(np.arange(n), 3)} if users else {}
    frame, y = table.frame.iloc[rows], table.y[rows]
    found = []
    for seed in range(seeds):
        model = Looking(units / n, schema=schema, random_state=seed, algorithm="constant").fit(frame, **groups)
        found.append(float((model.predict(frame[:1])[0] - y.mean()) ** 2 / y.var()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--users", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables, logs = [corpus.load(name) for name in NAMES], defaultdict[Any, list[float]](list)
    for setting in SETTINGS:
        use(setting)
        for units, wide in product(UNITS, WIDE):
            every = [cell(table, units, wide, given.users, given.seeds) for table in tables]
            mean = np.exp(np.log(np.maximum(every, 1e-3)).mean())
            print(f"{setting}; {units}, {wide}: {mean:.3f}, mean {np.mean(every):.2f}", flush=True)
            for name, found in zip(NAMES, every, strict=True):
                logs[setting, name] += np.log(np.maximum(found, 1e-3)).tolist() if units >= 60 else []
    means = {setting: np.array([np.mean(logs[setting, name]) for name in NAMES]) for setting in SETTINGS}
    table = np.array(list(means.values()))
    best = [np.delete(table, k, 1).mean(1).argmin() for k in range(len(NAMES))]
    base = means["50 units"]
    for setting, found in means.items():
        off = found - base
        print(f"{setting}: {np.exp(off.mean()):.3f} of that of 50 units (s.e. of the log. {off.std() / 27**0.5:.3f})")
    left = table[best, np.arange(len(NAMES))] - base
    print(f"left out: {np.exp(left.mean()):.3f}; chosen {[list(SETTINGS)[k] for k in best]}")


if __name__ == "__main__":
    main()
