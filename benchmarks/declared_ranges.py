"""Measure what looks at declared ranges gain on the learning tables, by how carelessly the ranges are declared.

    python benchmarks/declared_ranges.py target|columns|residuals [--seeds 5] [--rows 20000] [--tables NAME ...]
                                         [--delta 0] [--additive] [--today] [--json FILE]
    python benchmarks/declared_ranges.py target --law

Tables are the learning half of `corpus` and `corpus.MORE_NUMBERS`; a ratio is the training excess of
``algorithm="auto"`` with a look over that without one. An excess counts as at least .002 of a constant's, for smaller
ones are mere digits of solver and noise. Cells with too few records have no look, and their ratio counts as 1.

``target`` measures looks at the target of regressions, without looks at columns. The range is declared as it is, three
times as wide (upwards), ten times (both ways) and thirty times (upwards). ``columns`` measures looks at columns, for
classes and numbers; both fits of numbers look at the target. Ranges are as declared, five times as wide (upwards), or
thirty times for every second column. ``residuals`` takes regressions as declared, and compares the residuals that plans
expect after a look, and the caps that are tried, with the first setting.

Printed for each setting of `algorithms/erm/two_stage/ranges.py`, and by width: the geometric mean of the ratios, also
for each epsilon, the median, the share of cells that are worse by 5 %, and the worst ratio. The last lines judge each
table by the setting that is best for all *other* tables. ``--today`` measures only the settings that are in use.
``--law`` makes no private fit: it prints how much more variance columns explain in the part of the target's range that
is kept. Fits are seeded, hence not private.
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
import prior
from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.errors import DpconvexWarning
from dpconvex.estimators import regressors
from dpconvex.estimators._features import FromSchema
from excess_loss import log_loss, optimum

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    "target": {
        "today": {},
        "half the width is worth 1": {"HALVED": 1.0},
        "half the width is worth 3": {"HALVED": 3.0},
        "80 units, 1.5 to 6 %": {"LOOKED": 80.0, "LOOK_SHARES": (0.015, 0.06)},
        "at least 5 %": {"LOOK_SHARES": (0.05, 0.1)},
        "from 250 on": {"NEEDED": 250.0},
    },
    "columns": {
        "today": {},
        "half the width is worth 3": {"HALVED_EACH": 3.0},
        "half the width is worth 4": {"HALVED_EACH": 4.0},
        "half the width is worth 6": {"HALVED_EACH": 6.0},
        "50 units each, 1 to 5 %": {"LOOKED_EACH": 50.0, "EACH_SHARES": (0.01, 0.05)},
    },
}
NAMES = sorted({name for of in SETTINGS.values() for given in of.values() for name in given})
NO_COLUMNS: dict[str, Any] = {"EACH_SHARES": (0.0, 0.0)}  #: Settings under which no look at columns is taken
TODAY = {name: getattr(ranges, name) for name in NAMES}
WIDENED: dict[str, dict[str, tuple[float, float, int]]] = {
    "target": {"declared": (0, 0, 1), "3, upwards": (0, 2, 1), "10": (4.5, 4.5, 1), "30, upwards": (0, 29, 1)},
    "columns": {"declared": (0, 0, 1), "5, upwards": (0, 4, 1), "every second 30, upwards": (0, 29, 2)},
}
"""How ranges are widened: by how many widths below and above, and which ranges: 1 for all, 2 for every second one."""
RESIDUALS = {
    f"factors of {step:.2g}, {deviation:g}": (step, deviation)
    for step, deviation in ((2.0, 0.1), (2.0, 0.13), (2.0, 0.17), (2**0.5, 0.13), (2**0.5, 0.15))
}
"""Settings: the factor between neighboring caps (1/2 to 1/16 of the range), and the residuals expected after a look."""
EPSILONS = (0.1, 0.3, 1.0, 3.0)
FLOOR, WORSE = 2e-3, 1.05


def use(setting: dict[str, Any]) -> None:
    """Let all looks be planned with the constants of a setting."""
    for name, value in {**TODAY, **setting}.items():
        setattr(ranges, name, value)


def widened(part: Any, below: float, above: float) -> Any:
    """Return a column or a target with a range that much wider."""
    width = part.upper - part.lower
    return replace(part, lower=part.lower - below * width, upper=part.upper + above * width)


def declared(schema: Schema, of: str, below: float, above: float, every: int) -> Schema:
    """Return the schema with ranges of the target, or of the columns that a fit may look at, declared wider."""
    if of == "target":
        return replace(schema, target=widened(schema.target, below, above))
    looked = [name for name, *_ in FromSchema(schema).divisible][::every]
    columns = (widened(each, below, above) if each.name in looked else each for each in schema.columns)
    return replace(schema, columns=tuple(columns))


def facts(table: corpus.Table) -> tuple[float, float]:
    """Return the loss of the best linear model of the declared columns, and that of a constant."""
    if not table.schema.target.numeric:
        rate = float(table.y.mean())
        domain = table.schema.domain().with_intercept(1.0)
        return optimum(table.X, table.y, domain), log_loss(np.full(len(table.y), np.log(rate / (1 - rate))), table.y)
    design = np.column_stack([table.X, np.ones(len(table.X))])
    fitted = design @ np.linalg.lstsq(design, table.y, rcond=None)[0]
    return float(np.square(fitted - table.y).mean()), float(table.y.var())


def excess(
    table: corpus.Table,
    known: tuple[float, float],
    schema: Schema,
    epsilon: float,
    given: argparse.Namespace,
    look: bool = True,
) -> float:
    """Return the mean training excess over the first of the `facts`, at least `FLOOR` of a constant's."""
    target: Any = schema.target
    kinds: Any = (PrivateLinearRegression, PrivateAdditiveRegressor)
    if not target.numeric:
        kinds = PrivateLogisticRegression, PrivateAdditiveClassifier
    best, constant = known
    found = []
    for seed in range(given.seeds):
        model = kinds[given.additive](epsilon, given.delta, schema=schema, random_state=seed)
        model._looks = look
        model.fit(table.frame)
        if target.numeric:
            z = np.clip(model.predict(table.frame), target.lower, target.upper)
            found.append(float(np.square(z - table.y).mean()))
        else:
            found.append(log_loss(model.decision_function(table.frame), table.y))
    return max(float(np.mean(found)) - best, FLOOR * (constant - best))


def measured(name: str, given: argparse.Namespace) -> dict[str, list[float]]:
    """Return, by setting, log-ratios of the excess with a look to that without: one for each width and epsilon."""
    table = corpus.load(name)
    table = replace(table, X=table.X[: given.rows], y=table.y[: given.rows], frame=table.frame[: given.rows])
    columns, known, found = given.of == "columns", facts(table), dict[str, list[float]]()
    for how in WIDENED[given.of].values():
        schema = declared(table.schema, given.of, *how)
        count = len(FromSchema(schema).lookable)
        for epsilon in EPSILONS:
            use(NO_COLUMNS)
            plain = excess(table, known, schema, epsilon, given, look=columns)
            seen: dict[tuple[float, float], float] = {}
            for label, setting in settings(given).items():
                use(setting if columns else NO_COLUMNS | setting)
                n = len(table.y)
                cost = ranges.looks_cost(epsilon, n, count) if columns else ranges.look_cost(epsilon, n)
                key = cost, ranges.HALVED_EACH if columns else ranges.HALVED
                if key not in seen:
                    looked = excess(table, known, schema, epsilon, given) if cost else plain
                    seen[key] = float(np.log(looked / plain))
                found.setdefault(label, []).append(seen[key])
    use({})
    return found


def residuals(name: str, given: argparse.Namespace) -> dict[str, list[float]]:
    """Return, by setting, log-ratios of the excess to that of the first of `RESIDUALS`: one for each epsilon."""
    table = corpus.load(name)
    table = replace(table, X=table.X[: given.rows], y=table.y[: given.rows], frame=table.frame[: given.rows])
    known, found, usual = facts(table), dict[str, list[float]](), regressors.CAPS
    looks = [ranges.look_cost(epsilon, len(table.y)) > 0 for epsilon in EPSILONS]
    for label, (step, deviation) in RESIDUALS.items():
        steps = np.arange(round(3 / np.log2(step)) + 1)
        regressors.CAPS = tuple((step**-steps / 2).tolist())
        prior.use({"residual_in_part": deviation})
        pairs = zip(EPSILONS, looks, strict=True)
        found[label] = [np.log(excess(table, known, table.schema, e, given)) if look else 0.0 for e, look in pairs]
    regressors.CAPS = usual
    prior.use({})
    first = next(iter(found.values()))
    return {label: [a - b for a, b in zip(logs, first, strict=True)] for label, logs in found.items()}


def settings(given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the settings that are compared."""
    return {"today": {}} if given.today else SETTINGS[given.of]


def law(name: str, rows: int) -> list[float]:
    """Return log-ratios of the variance that the best linear model explains, in the part kept over the whole range.

    Variances are in units of the squared width of either. The part is the one with the best score, without noise, at
    epsilon .3 and 1; an epsilon counts only if it is enough for a look.
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
    parser.add_argument("of", choices=("target", "columns", "residuals"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=20_000, help="the largest number of records of a table")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--additive", action="store_true", help="fit additive models")
    parser.add_argument("--today", action="store_true", help="measure only the settings in use")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--law", action="store_true", help="print only what columns explain in the part that is kept")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    every = [name for name in (*corpus.LEARNING, *corpus.MORE_NUMBERS) if name not in corpus.MANY_CLASSES]
    recipes = {**corpus.RECIPES, **corpus.MORE_NUMBERS}
    numbers = [name for name in every if len(recipes[name].target.split()) > 1]
    names = given.tables or (every if given.of == "columns" and not given.law else numbers)
    if given.law:
        ratios = [ratio for name in names for ratio in law(name, given.rows)]
        print(f"{len(ratios)} cases: explained variance times {np.exp(np.mean(ratios)):.2f} (geometric mean)")
        return
    cells = {}
    for name in names:
        cells[name] = residuals(name, given) if given.of == "residuals" else measured(name, given)
        print(name, "measured", flush=True)
        if given.json:
            given.json.write_text(json.dumps(cells, indent=1) + "\n")
    report(cells, list(WIDENED.get(given.of, ["declared"])))


def report(cells: dict[str, dict[str, list[float]]], widths: list[str]) -> None:
    """Print means over tables, and means in which each table is left out of the choice of a setting."""
    shape = len(cells), len(widths), len(EPSILONS)
    labels = list(next(iter(cells.values())))
    logs = {label: np.array([own[label] for own in cells.values()]).reshape(shape) for label in labels}
    for label, log in logs.items():
        print(f"{label}: {np.exp(log.mean()):.3f}")
        for k, width in enumerate(widths):
            own = log[:, k]
            parts = " ".join(f"{np.exp(each.mean()):.2f} ({np.exp(np.median(each)):.2f})" for each in own.T)
            bad = np.mean(own > np.log(WORSE))
            mean, worst = np.exp(own.mean()), np.exp(own.max())
            print(f"  {width:12s} {mean:.3f}, by epsilon {parts}, worse {bad:.0%}, worst {worst:.1f}")
    best = [min(logs, key=lambda label, k=k: np.delete(logs[label], k, 0).mean()) for k in range(len(cells))]
    left_out = np.array([logs[label][k] for k, label in enumerate(best)])
    for k, width in enumerate(widths):
        means = left_out[:, k].mean(1)
        error = means.std(ddof=1) / np.sqrt(len(cells)) if len(cells) > 1 else np.nan
        print(f"left out, {width}: {np.exp(means.mean()):.3f} (standard error of the logarithm {error:.3f})")
    print("chosen:", {label: best.count(label) for label in dict.fromkeys(best)})


if __name__ == "__main__":
    main()
