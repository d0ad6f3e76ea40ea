"""A look at the target's declared range: what it gains on the learning tables, by how carelessly the range is declared.

    python benchmarks/target_range.py [--seeds 5] [--rows 20000] [--tables NAME ...] [--delta 0] [--json FILE]

Training excess of ``algorithm="auto"`` for regressions, those of the learning half of `corpus` and
`corpus.MORE_NUMBERS`, with a look over that without one: the declared range as it is, three times as wide (upwards),
ten times (both ways), thirty times (upwards). Geometric means, medians, the share of cells that are worse by 5 % and
the worst; settings of `algorithms/erm/two_stage/ranges.py`; and what is left when each table is judged
by the setting that is best on the *others*. An excess counts as at least .002 of a constant's: below that it is the
solver's and the noise's last digits. Cells without enough records have no look, and count as 1. Fits are seeded, hence
not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import corpus
from dpconvex import PrivateLinearRegression
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.errors import DpconvexWarning

TODAY = {name: getattr(ranges, name) for name in ("LOOKED", "LOOK_SHARES", "NEEDED", "HALVED")}
SETTINGS: dict[str, dict[str, Any]] = {
    "today": {},
    "half the width is worth 1": {"HALVED": 1.0},
    "half the width is worth 3": {"HALVED": 3.0},
    "80 units, 1.5 to 6 %": {"LOOKED": 80.0, "LOOK_SHARES": (0.015, 0.06)},
    "at least 5 %": {"LOOK_SHARES": (0.05, 0.1)},
    "from 250 on": {"NEEDED": 250.0},
}
WIDENED = {"declared": (0.0, 0.0), "3, upwards": (0.0, 2.0), "10": (4.5, 4.5), "30, upwards": (0.0, 29.0)}
"""What is added below and above, in widths."""
EPSILONS = (0.1, 0.3, 1.0, 3.0)
FLOOR, WORSE = 2e-3, 1.05


def use(setting: dict[str, Any]) -> None:
    """Let all looks be planned with that."""
    for name, value in {**TODAY, **setting}.items():
        setattr(ranges, name, value)


def excess(table: corpus.Table, bounds: tuple[float, float], epsilon: float, given: argparse.Namespace, look: bool):
    """Return the mean training excess in squares of the target's unit, at least `FLOOR` of a constant's."""
    X, y = table.X, table.y
    design = np.column_stack([X, np.ones(len(X))])
    best = float(np.square(design @ np.linalg.lstsq(design, y, rcond=None)[0] - y).mean())
    found = []
    for seed in range(given.seeds):
        model = PrivateLinearRegression(
            epsilon, given.delta, domain=table.schema.domain(), target_bounds=bounds, random_state=seed
        )
        model._looks = look
        model.fit(X, y)
        z = np.clip(X @ np.ravel(model.coef_) + float(model.intercept_), *bounds)
        found.append(float(np.square(z - y).mean()) - best)
    return max(float(np.mean(found)), FLOOR * (float(y.var()) - best))


def measured(name: str, given: argparse.Namespace) -> dict[str, list[float]]:
    """Return log-ratios of the excess with a look to that without one, by setting: a number a width and epsilon."""
    table = corpus.load(name)
    table = replace(table, X=table.X[: given.rows], y=table.y[: given.rows], frame=None)
    target: Any = table.schema.target
    low, high = target.lower, target.upper
    found: dict[str, list[float]] = {label: [] for label in SETTINGS}
    for below, above in WIDENED.values():
        bounds = low - below * (high - low), high + above * (high - low)
        for epsilon in EPSILONS:
            plain = excess(table, bounds, epsilon, given, False)
            seen: dict[tuple[float, float], float] = {}
            for label, setting in SETTINGS.items():
                use(setting)
                key = ranges.look_cost(epsilon, len(table.y)), ranges.HALVED
                if key not in seen:
                    looked = excess(table, bounds, epsilon, given, True) if key[0] else plain
                    seen[key] = float(np.log(looked / plain))
                found[label].append(seen[key])
    use({})
    return found


def law(name: str, rows: int) -> list[float]:
    """Return how much more of the range's square the best linear model explains in the part kept, as a logarithm.

    The part is that of the best score, without noise, at epsilon .3 and 1, where there are enough records for a look.
    """
    table = corpus.load(name)
    target: Any = table.schema.target
    X, y = table.X[:rows], (table.y[:rows] - target.lower) / (target.upper - target.lower)
    design = np.column_stack([X, np.ones(len(X))])

    def explained(values: np.ndarray, width: float) -> float:
        return float((design @ np.linalg.lstsq(design, values, rcond=None)[0]).var()) / width**2

    found = []
    for cost in filter(None, (ranges.look_cost(epsilon, len(y)) for epsilon in (0.3, 1.0))):
        cells = np.bincount(np.clip(np.floor(y * 32), 0, 31).astype(int), minlength=32)
        below, width = np.append(0, np.cumsum(cells)), (ranges.STOP - ranges.FIRST) / 32
        best = int(np.argmax(below[ranges.STOP] - below[ranges.FIRST] - ranges.HALVED * 2 / cost * np.log2(width)))
        kept = np.clip(y, ranges.FIRST[best] / 32, ranges.STOP[best] / 32)
        found.append(float(np.log(explained(kept, width[best]) / explained(np.clip(y, 0, 1), 1.0))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="records of a table, at most")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--law", action="store_true", help="only what columns explain in the part that is kept")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    regressions = [name for name in corpus.LEARNING if len(corpus.RECIPES[name].target.split()) > 1]
    names = given.tables or [*(name for name in regressions if name not in corpus.MANY_CLASSES), *corpus.MORE_NUMBERS]
    if given.law:
        found = [ratio for name in names for ratio in law(name, given.rows)]
        print(f"{len(found)} cases: explained variance times {np.exp(np.mean(found)):.2f} (geometric mean)")
        return
    every = {}
    for name in names:
        every[name] = measured(name, given)
        print(name, "measured", flush=True)
        if given.json:
            given.json.write_text(json.dumps(every, indent=1) + "\n")
    shape = len(names), len(WIDENED), len(EPSILONS)
    logs = {label: np.array([cells[label] for cells in every.values()]).reshape(shape) for label in SETTINGS}
    for label, log in logs.items():
        print(f"{label}: {np.exp(log.mean()):.3f}")
        for k, width in enumerate(WIDENED):
            own = log[:, k]
            parts = " ".join(f"{np.exp(each.mean()):.2f} ({np.exp(np.median(each)):.2f})" for each in own.T)
            bad = np.mean(own > np.log(WORSE))
            mean, worst = np.exp(own.mean()), np.exp(own.max())
            print(f"  {width:12s} {mean:.3f}, by epsilon {parts}, worse {bad:.0%}, worst {worst:.1f}")
    chosen = [min(logs, key=lambda label, k=k: np.delete(logs[label], k, 0).mean()) for k in range(len(names))]
    left_out = np.array([logs[label][k] for k, label in enumerate(chosen)])
    for k, width in enumerate(WIDENED):
        means = left_out[:, k].mean(1)
        error = means.std(ddof=1) / np.sqrt(len(names)) if len(names) > 1 else np.nan
        print(f"left out, {width}: {np.exp(means.mean()):.3f} (standard error of the logarithm {error:.3f})")
    print("chosen:", {label: chosen.count(label) for label in dict.fromkeys(chosen)})


if __name__ == "__main__":
    main()
