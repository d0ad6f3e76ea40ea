"""Compare lengths of coefficients that plans expect of classes, by how many records there are for each column.

    python benchmarks/lengths.py learning keel programs [--classes two --seeds 2 --rows 6000 --delta 0]
    python benchmarks/lengths.py --summary FILE ...

``learning`` and ``held_out`` are the tables of `corpus.py` with two classes, ``programs`` the targets of classes of the
learning half of `many_tables.py` (``programs_held_out``: of the other), ``keel`` the tables of `keel_tables.py`. Fits
are ``algorithm="auto"`` by schema; squared lengths are 1/4, 1, 2, 4 and 16 times the ordinary ones, and "rule" is what
`Tuning.many` says. A cell is the mean training excess of a table at a budget, at least .002 of a constant's. Printed:
geometric means of cells relative to the ordinary length with standard errors over tables, by budget and by records
times epsilon over encoded columns. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

import corpus
import many_tables
import prior
import shares
from dpconvex import PrivateLogisticRegression
from excess_loss import optimum

OPTIONS: dict[str, dict[str, Any]] = {
    f"{factor:g}": {"squared_length": 7 / 16 * factor, "many": (np.inf,)} for factor in (1, 0.25, 2, 4, 16)
} | {"rule": {}}
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
RECORDS = (0, 30, 100, 200, 300, 500, 1000, 3000, np.inf)


def tasks(source: str, rows: int) -> Iterator[many_tables.Task]:
    """Yield tables with classes, and what a constant and the best linear model lose on them."""
    if source == "programs_held_out":
        for each in many_tables.tables("held_out"):
            yield from (found for found in many_tables.tasks(*each, rows) if found.kind != many_tables.KINDS[2])
        return
    if source not in corpus.HALVES:
        yield from shares.tasks([source], rows)
        return
    for name in corpus.HALVES[source]:
        if name in corpus.MANY_CLASSES or len(corpus.RECIPES[name].target.split()) > 1:
            continue
        table = corpus.load(name)
        frame = table.frame.sample(min(rows, len(table.frame)), random_state=0)
        X, y = table.schema.encode(frame), np.asarray(table.schema.encode_target(frame)).astype(int)
        constant = -float(np.log(np.bincount(y)[y] / len(y)).mean())
        best = optimum(X, y, table.schema.domain().with_intercept(1.0))
        yield many_tables.Task(name, many_tables.KINDS[0], table.schema, frame, X, y, constant, best)


def measured(task: many_tables.Task, options: list[str], delta: float, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the mean excess of every option and budget."""
    gain = max(task.constant - task.best, many_tables.LEAST_GAIN * task.constant)
    for option in options:
        prior.use(OPTIONS[option])
        for epsilon in EPSILONS:
            lost = []
            for seed in range(seeds):
                coins = many_tables.checksum(f"{task.name} {seed}")
                model = PrivateLogisticRegression(epsilon, delta, schema=task.schema, random_state=coins)
                lost.append(many_tables.loss(task, model.fit(task.frame)) - task.best)
            excess = float(np.mean(lost)) / gain
            records = len(task.y) * epsilon / (task.X.shape[1] + 1)
            yield {"table": task.name, "epsilon": epsilon, "records": records, "option": option, "excess": excess}


def summary(lines: list[dict[str, Any]]) -> None:
    found = pd.DataFrame(lines)
    found["excess"] = found.excess.clip(lower=many_tables.LEAST_EXCESS)
    cells = found.pivot_table(index=["source", "table", "epsilon", "records"], columns="option", values="excess")
    options = [option for option in OPTIONS if option in cells and option != "1"]
    logs = np.log(cells[options].div(cells["1"], axis=0)).reset_index()
    logs["records"] = pd.cut(logs.records, RECORDS)
    for keys in ("epsilon", "records"):
        for (source, key), part in logs.groupby(["source", keys], observed=True):
            each = part.groupby("table")[options].mean()
            errors = each.std() / len(each) ** 0.5
            shown = ", ".join(
                f"{option} {np.exp(each[option].mean()):.3f} ({errors[option]:.3f})" for option in options
            )
            print(f"{source}, {keys} {key}, {len(part)} cells: {shown}")
    for source, part in logs.groupby("source"):
        each = part.groupby("table")[options].mean()
        means, errors = np.exp(each.mean()).round(3), (each.std() / len(each) ** 0.5).round(3)
        print(f"{source}, all {len(each)} tables: {means.to_dict()}, standard errors {errors.to_dict()}")


def sweep(given: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for source in given.sources:
        for task in tasks(source, given.rows):
            if (len(task.schema.target.classes) == 2) == (given.classes == "two"):  # pyright: ignore
                found = measured(task, given.options, given.delta, given.seeds)
                yield task.name, [{"source": source} | each for each in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=["learning"], metavar="SOURCE")
    parser.add_argument("--options", nargs="+", default=list(OPTIONS), choices=list(OPTIONS))
    parser.add_argument("--classes", choices=("two", "several"), default="two")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=6000)
    shares.run(parser, sweep, summary)


if __name__ == "__main__":
    main()
