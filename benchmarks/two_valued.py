"""Measure linear regression of targets of two values, and what plans expect of such targets costs others.

    python benchmarks/two_valued.py [yes numbers] [--half learning] [--epsilons 0.1 0.3 1 3] [--part I K] --json FILE
    python benchmarks/two_valued.py --summary FILE [FILE ...]

``yes`` are the tables with two classes of `corpus.py` and `many_tables.py`, whose classes count as 0 and 1 here, a
number in [0, 1]. ``numbers`` are their tables with numbers. Options are values of `Tuning.residual_of_two`; .13 is what
is expected of other targets. A cell is the excess of the squared training loss over that of the best linear model, as
a share of a constant's excess (which counts as at least 1 % of its loss), and at least .002. Printed, by source and
option: the geometric mean relative to the first option with its standard error over tables, how much of a constant's
loss is lost more, how many cells are above 1.1 constants, and the worst cell; then the option that is best for each
table by all others. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import corpus
import many_tables
import prior
from dpconvex import PrivateLinearRegression, Schema
from dpconvex.data import NumericTarget

OPTIONS: dict[str, dict[str, float]] = {
    f"{value:g}": {"residual_of_two": value} for value in (0.13, 0.25, 0.3, 0.4, 0.5)
}


def measure(name: str, schema: Schema, frame: pd.DataFrame) -> many_tables.Task:
    """Return a task with a number as target, and the least squares of a constant and of a linear model."""
    X, y = schema.encode(frame), np.asarray(schema.encode_target(frame))
    return many_tables.Task(name, many_tables.KINDS[2], schema, frame, X, y, *many_tables.squares(X, y, schema.target))


def coded(task: many_tables.Task) -> many_tables.Task:
    """Return the task whose two classes are the numbers 0 and 1."""
    target: Any = task.schema.target
    index = np.asarray(task.schema.encode_target(task.frame)).astype(int)
    frame = task.frame.assign(**{target.name: index.astype(float)})
    schema = replace(task.schema, target=NumericTarget(target.name, 0.0, 1.0))
    return measure(task.name, schema, frame)


def tasks(source: str, half: str, rows: int, part: tuple[int, int]) -> Iterator[many_tables.Task]:
    number = source == "numbers"
    for name in (*corpus.HALVES[half], *(corpus.MORE_NUMBERS if number and half == "learning" else ())):
        if name in corpus.MANY_CLASSES:
            continue
        table = corpus.load(name)
        target: Any = table.schema.target
        if target is None or target.numeric != number or (not number and len(target.classes) != 2):
            continue
        frame = table.frame.sample(min(rows, len(table.frame)), random_state=0).reset_index(drop=True)
        nothing = np.empty(0)
        task = many_tables.Task(name, "", table.schema, frame, nothing, nothing, 0.0, 0.0)
        yield measure(name, table.schema, frame) if number else coded(task)
    for k, each in enumerate(many_tables.tables(half)):
        if k % part[1] == part[0]:
            for task in many_tables.tasks(*each, rows):
                if task.kind == many_tables.KINDS[2 if number else 0]:
                    yield task if number else coded(task)


def sweep(given: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for source in given.sources:
        for task in tasks(source, given.half, given.rows, tuple(given.part)):
            gain = max(task.constant - task.best, many_tables.LEAST_GAIN * task.constant)
            for option, epsilon in product(given.options, given.epsilons):
                prior.use(OPTIONS[option])
                coins = many_tables.checksum(task.name)
                model = PrivateLinearRegression(epsilon, given.delta, schema=task.schema, random_state=coins)
                lost = many_tables.loss(task, model.fit(task.frame))
                rows.append({"source": source, "table": task.name, "epsilon": epsilon, "option": option})
                rows[-1] |= {"excess": (lost - task.best) / gain, "loss": lost / task.constant}
            given.json.write_text(json.dumps(rows))
    return rows


def summary(rows: list[dict[str, Any]]) -> None:
    found = pd.DataFrame(rows)
    found["log"] = np.log(found.excess.clip(lower=many_tables.LEAST_EXCESS))
    for source, part in found.groupby("source"):
        keys = ["table", "epsilon"]
        logs, losses = (part.pivot_table(index=keys, columns="option", values=each) for each in ("log", "loss"))
        options = [option for option in OPTIONS if option in logs]
        moved = logs[options].sub(logs[options[0]], axis=0)
        for option in options:
            each, lost = moved[option].groupby("table").mean(), losses[option] - losses[options[0]]
            by = np.exp(moved[option].groupby("epsilon").mean()).round(3).tolist()
            cells = part[part.option == option].excess
            print(
                f"{source}, {option}: {np.exp(each.mean()):.3f} ({each.std() / len(each) ** 0.5:.3f}), by epsilon {by},"
                f" loss {lost.mean():+.4f} of a constant's, above 1.1: {(cells > 1.1).sum()} of {len(cells)},"
                f" worst {cells.max():.2f}"
            )
        each = moved.groupby("table").mean()
        print("chosen by the others:", Counter(each.drop(left).mean().idxmin() for left in each.index))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=["yes", "numbers"], metavar="SOURCE")
    parser.add_argument("--half", choices=tuple(corpus.HALVES), default="learning")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--options", nargs="+", choices=tuple(OPTIONS), default=list(OPTIONS))
    parser.add_argument("--part", nargs=2, type=int, default=[0, 1], help="I K: every K-th of many_tables.py, from I")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [row for path in given.summary for row in json.loads(path.read_text())] if given.summary else sweep(given)
    summary(rows)


if __name__ == "__main__":
    main()
