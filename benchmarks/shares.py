"""Compare the shares of a prediction's prior variance that kinds of blocks get, and two ways to weigh noise.

    python benchmarks/shares.py adult flights [--seeds 4 --rows 20000]     # or any other names of tables.py
    python benchmarks/shares.py programs keel [--seeds 2 --rows 6000 --json FILE]
    python benchmarks/shares.py --summary FILE ...

``programs`` are the targets of classes of the learning half of `many_tables.py`, ``keel`` the tables of
`keel_tables.py`. Fits are ``algorithm="auto"`` by schema, pure. An option consists of settings of `planner.Shares`, and
of the weight of a block's noise: the excess loss that it costs, or its mean square ("energy"). A cell is the mean
training excess of a table at a budget, at least .002 of a constant's. Printed: geometric means of cells relative to the
first option, with standard errors over tables, by how rare the rarest class is; and for each table the option that is
best on all others. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa

import keel_tables
import many_tables
import prior
from dpconvex import PrivateLogisticRegression
from dpconvex.algorithms.erm.objective_perturbation import planner
from excess_loss import EPSILONS, optimum
from tables import TABLES

BEFORE = {"ball": 0.0, "constant_most": 1.0}
OPTIONS: dict[str, dict[str, Any]] = {
    "before: 1, 1, 1": BEFORE,
    "the constant 4": {"ball": 0.0, "constant": 100.0},
    "balls": {"constant_most": 1.0},
    "a fourth, at most 4": {},
    "a third, at most 6": {"constant": 1 / 3, "constant_most": 6.0},
    "a fourth": {"constant_most": 1e9},
    "a fourth, balls .7": {"ball": 0.7},
    "categories 1/2": {"category": 0.5},
    "energy": {"energy": True},
}
COSTS, PLANNED, RARE = planner.noise_costs, planner.SHARES, (0.1, 0.25)


def tasks(names: list[str], rows: int) -> Iterator[many_tables.Task]:
    """Yield the tables, with what a constant and the best linear model lose on them."""
    for name in names:
        if name == "programs":
            for each in many_tables.tables("learning"):
                yield from (found for found in many_tables.tasks(*each, rows) if found.kind != many_tables.KINDS[2])
        elif name == "keel":
            for each in keel_tables.KEEL:
                frame, schema = (table := keel_tables.table(each)).frame, table.schema
                assert frame is not None
                draw = np.random.default_rng(many_tables.checksum(each))
                kind = many_tables.KINDS[len(schema.target.classes) > 2]
                drawn = frame.sample(min(rows, len(frame)), random_state=0)
                found = many_tables.task(each, kind, drawn, schema.target.name, draw)
                if found is not None:
                    yield found
        else:
            table = TABLES[name]()
            whole: Any = table.frame
            whole = whole.to_pandas() if isinstance(whole, pa.Table) else whole
            frame = whole.sample(min(rows, len(whole)), random_state=0)
            X, y = table.schema.encode(frame), np.asarray(table.schema.encode_target(frame))
            constant = -float(np.log(np.bincount(y)[y] / len(y)).mean())
            best = optimum(X, y, table.schema.domain().with_intercept(1.0))
            yield many_tables.Task(name, many_tables.KINDS[0], table.schema, frame, X, y, constant, best)


def measured(task: many_tables.Task, seeds: int) -> Iterator[dict[str, Any]]:
    """Yield the mean excess of every option and budget."""
    floor = many_tables.LEAST_EXCESS * max(task.constant - task.best, many_tables.LEAST_GAIN * task.constant)
    for option, settings in OPTIONS.items():
        own = dict(settings)
        costs = (lambda problem, privacy: None) if own.pop("energy", False) else COSTS
        prior.forget()
        with (
            mock.patch.object(planner, "SHARES", replace(PLANNED, **own)),
            mock.patch.object(planner, "noise_costs", costs),
        ):
            for epsilon in EPSILONS:
                lost = []
                for seed in range(seeds):
                    coins = many_tables.checksum(f"{task.name} {seed}")
                    model = PrivateLogisticRegression(epsilon, schema=task.schema, random_state=coins)
                    lost.append(many_tables.loss(task, model.fit(task.frame)) - task.best)
                excess = max(float(np.mean(lost)), floor)
                rarest = float(np.bincount(task.y).min() / len(task.y))
                classes = len(task.schema.target.classes)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
                yield {"table": task.name, "rarest": rarest, "classes": classes} | {
                    "option": option, "epsilon": epsilon, "excess": excess,
                }  # fmt: skip


def summary(lines: list[dict[str, Any]]) -> None:
    cells = pd.DataFrame(lines).pivot_table(
        index=["table", "classes", "rarest", "epsilon"], columns="option", values="excess"
    )
    options = [option for option in OPTIONS if option in cells]
    logs = np.log(cells[options].div(cells[options[0]], axis=0)).dropna().reset_index()
    two = logs[logs.classes == 2]
    groups = {f"two classes, rarer below {RARE[0]}": two[two.rarest < RARE[0]]}
    groups[f"two classes, {RARE[0]} to {RARE[1]}"] = two[two.rarest.between(*RARE, inclusive="left")]
    groups |= {
        "two classes, others": two[two.rarest >= RARE[1]],
        "several classes": logs[logs.classes > 2],
        "all": logs,
    }
    for name, part in groups.items():
        for epsilon in (*sorted(set(part.epsilon)), None):
            among = part if epsilon is None else part[part.epsilon == epsilon]
            each = among.groupby("table")[options].mean()
            errors = each.std() / len(each) ** 0.5
            shown = ", ".join(
                f"{option} {np.exp(each[option].mean()):.3f} ({errors[option]:.3f})" for option in options[1:]
            )
            print(f"{name}, {epsilon or 'all budgets'}, {len(each)} tables: {shown}")
    each = logs.groupby("table")[options].mean()
    left = {table: each.drop(table).mean().idxmin() for table in each.index} if len(each) > 1 else {}
    if left:
        score = np.exp(np.mean([each.loc[table, option] for table, option in left.items()]))
        print(f"each table by the best option of the others: {score:.3f},", dict(Counter(left.values())))


def run(
    parser: argparse.ArgumentParser,
    sweep: Callable[[argparse.Namespace], Iterator[tuple[str, list[dict[str, Any]]]]],
    summary: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Summarize the files of ``--summary``, or the lines of a sweep's tables, which ``--json`` keeps as they come."""
    parser.add_argument("--json", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.summary:
        summary([line for path in given.summary for line in json.loads(path.read_text())])
        return
    lines: list[dict[str, Any]] = []
    for name, found in sweep(given):
        lines += found
        print(name, flush=True)
        if given.json:
            given.json.write_text(json.dumps(lines))
    summary(lines)


def sweep(given: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for option in set(OPTIONS) - set(given.options):
        del OPTIONS[option]
    for task in tasks(given.tables, given.rows):
        yield task.name, list(measured(task, given.seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["adult", "flights"], metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--options", nargs="+", default=list(OPTIONS), choices=list(OPTIONS))
    run(parser, sweep, summary)


if __name__ == "__main__":
    main()
