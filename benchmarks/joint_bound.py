"""Compare fits with and without one private bound for the sum of all columns in [0, 1] (algorithm "joint_bound").

    python benchmarks/joint_bound.py onehot | schema | learning | held_out | adult | spambase | flags
        [--deltas 0] [--seeds 2] [--rows 6000] [--tuning name=value ...] [--json FILE]

``onehot``: learning tables of `corpus.py` as matrices in [0, 1], one column a level and a number, as `OneHotEncoder`
and `MinMaxScaler` make them; ``schema``: the same tables by schema; ``learning``, ``held_out``: targets that a program
chose (`many_tables.py`), by schema. ``adult`` and ``spambase`` are matrices in [0, 1], too, and ``flags`` are made
columns of which 2 to 20 % are 1 and all tell of a class. A ratio is the training excess with the method on offer over
that without it; an excess counts as at least .01 of a constant's. Only cells in which ``auto`` takes the method are
listed: others are equal. Printed are geometric means with standard errors over tables, and the worst cell, for cells
whose columns were bounded together, and those whose bound was too large for that. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import corpus
import many_tables
from consistency import FLOOR, SMOOTH, Case, case
from dpconvex import NumericColumn, Schema
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.two_stage import joint_bound
from dpconvex.data import ClassTarget
from tables import adult, spambase

EPSILONS = (0.1, 0.3, 1.0, 3.0)
TABLES = ("onehot", "schema", "learning", "held_out", "adult", "spambase", "flags")
Ask = Callable[[float, float, int], tuple[Any, float]]


def onehot(schema: Any, frame: pd.DataFrame) -> np.ndarray:
    """Return a column of 0 and 1 for each level, and numbers scaled into [0, 1]; missing numbers are 0."""
    parts = []
    for column in schema.columns:
        cells = frame[column.name]
        if column.numeric:
            numbers = pd.to_numeric(cells, errors="coerce").to_numpy(float)
            inside = (np.clip(numbers, column.lower, column.upper) - column.lower) / (column.upper - column.lower)
            parts.append(np.nan_to_num(inside)[:, None])
        else:
            parts.append(pd.get_dummies(cells.astype(str)).to_numpy(float))
    return np.column_stack(parts)


def matrices(given: argparse.Namespace) -> Iterator[tuple[Case, np.ndarray | None]]:
    """Yield tables with the matrix that is fitted, or None for a fit by schema."""
    if given.tables == "flags":
        for n, d, share in product((3000, 10_000), (20, 50, 150), (0.02, 0.05, 0.1, 0.2)):
            rng = np.random.default_rng(round(1000 * share) + d + n)
            X = (rng.random((n, d)) < share) * 1.0
            y = X @ rng.normal(size=d) > rng.logistic(size=n)
            names = [f"c{k}" for k in range(d)]
            schema = Schema(tuple(NumericColumn(name, 0, 1) for name in names), ClassTarget("y", ("0", "1")))
            frame = pd.DataFrame(X, columns=names).assign(y=np.where(y, "1", "0"))
            yield Case(f"{n} records, {d} columns, {share:g}", schema, frame), X
    elif given.tables in ("adult", "spambase"):
        found: Any = {"adult": adult, "spambase": spambase}[given.tables]()
        frame = found.frame.to_pandas() if hasattr(found.frame, "to_pandas") else found.frame
        one = Case(given.tables, found.schema, frame.iloc[: given.rows].reset_index(drop=True))
        yield one, onehot(one.schema, one.frame)
    else:
        for name in (*corpus.LEARNING, *corpus.MORE_NUMBERS):
            if name not in corpus.MANY_CLASSES:
                one = case(name, given.rows)
                yield one, onehot(one.schema, one.frame) if given.tables == "onehot" else None


def tables(given: argparse.Namespace) -> Iterator[tuple[str, str, Ask]]:
    """Yield a name, the kind of target, and a function of epsilon, delta and seed: a fitted model, and its excess."""
    if given.tables in ("learning", "held_out"):
        for place in many_tables.tables(given.tables):
            for task in many_tables.tasks(*place, given.rows):
                yield task.name, task.kind, partial(of_task, task)
    else:
        for found, X in matrices(given):
            yield found.name, found.kind, partial(of_case, found, X)


def of_task(task: many_tables.Task, epsilon: float, delta: float, seed: int) -> tuple[Any, float]:
    kind = SMOOTH["numbers" if task.kind == many_tables.KINDS[2] else "classes"]
    coins = many_tables.checksum(f"{task.name} {seed}")  # with equal seeds, errors of tables would be dependent
    model = kind(epsilon, delta, schema=task.schema, random_state=coins).fit(task.frame)
    gain = max(task.constant - task.best, 0.02 * task.constant)
    return model, (many_tables.loss(task, model) - task.best) / gain


def of_case(found: Case, X: np.ndarray | None, epsilon: float, delta: float, seed: int) -> tuple[Any, float]:
    models = []

    def kept(*values: Any, **options: Any) -> Any:
        models.append(SMOOTH[found.kind](*values, **options))
        return models[0]

    form = {} if X is None else {"X": X, "feature_bounds": (0, 1)}
    excess = found.ask(epsilon, delta, many_tables.checksum(f"{found.name} {seed}"), kind=kept, **form)
    return models[0], excess


def stages(plan: Any) -> Iterator[Any]:
    while plan is not None:
        yield plan
        plan = getattr(plan, "then", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", choices=TABLES)
    parser.add_argument("--deltas", nargs="+", type=float, default=[0.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--tuning", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    values: dict[str, Any] = {name: json.loads(value) for name, value in (each.split("=") for each in given.tuning)}
    offered, without = joint_bound.Tuning(**values), joint_bound.Tuning(columns=10**9)
    lines = []
    for name, kind, ask in tables(given):
        for epsilon, delta in product(EPSILONS, given.deltas):
            excess: dict[str, list[float]] = {"with": [], "without": []}
            used = []
            for seed in range(given.seeds):
                registry.plans.cache_clear()
                joint_bound.TUNING = offered
                model, found = ask(epsilon, delta, seed)
                joint = next((each for each in stages(model.plan_) if isinstance(each, joint_bound.JointPlan)), None)
                if joint is None:
                    break
                used.append(joint.moved)
                excess["with"].append(found)
                registry.plans.cache_clear()
                joint_bound.TUNING = without
                excess["without"].append(ask(epsilon, delta, seed)[1])
            if used:
                share = float(np.mean(used))
                means = {k: max(float(np.mean(v)), FLOOR) for k, v in excess.items()}
                facts = {"columns": len(joint.numeric), "bound": joint.bound, "n": joint.problem.n}
                lines.append(
                    {"table": name, "kind": kind, "epsilon": epsilon, "delta": delta, "used": share, **means, **facts}
                )
                if given.json:
                    given.json.write_text(json.dumps(lines))
    if not lines:
        return print("No cell takes the method.")
    found = pd.DataFrame(lines)
    found["moved"] = np.log(found["with"] / found["without"])
    found["used"] = np.where(found.used > 0.5, "bounded together", "too large")
    for by in (["used"], ["used", "kind"], ["used", "epsilon"], ["used", "delta"]):
        for key, part in found.groupby(by):
            each = part.groupby("table").moved.mean()
            mean, error, worst = np.exp(each.mean()), each.std() / len(each) ** 0.5, np.exp(part.moved.max())
            print(*key, f"| {mean:.3f} ({error:.3f}), worst {worst:.2f}, {len(part)} cells, {len(each)} tables")


if __name__ == "__main__":
    main()
