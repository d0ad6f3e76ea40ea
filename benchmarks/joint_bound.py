"""Compare fits with and without one private bound for the sum of all numeric columns (algorithm "joint_bound").

    python benchmarks/joint_bound.py onehot | schema | learning | held_out [--deltas 0] [--seeds 2] [--rows 6000]
        [--tuning worth=0.2 ...] [--json FILE]

``onehot``: learning tables of `corpus.py` as matrices in [0, 1], one column a level and a number, as `OneHotEncoder` and
`MinMaxScaler` make them; ``schema``: the same tables by schema. ``learning``, ``held_out``: targets that a program chose
(`many_tables.py`), by schema. A ratio is the training excess with the method on offer over that without it; an excess
counts as at least .01 of a constant's. Only cells in which ``auto`` takes the method are listed: the others are equal.
Printed are geometric means with standard errors over tables, and the worst cell, for cells whose columns were bounded
together and those whose bound was too large for that. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import corpus
import many_tables
from consistency import FLOOR, SMOOTH, case
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.two_stage import joint_bound

EPSILONS = (0.1, 0.3, 1.0, 3.0)
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


def tables(given: argparse.Namespace) -> Iterator[tuple[str, str, Ask]]:
    """Yield a name, the kind of target, and a function of epsilon, delta and seed: a fitted model, and its excess."""
    if given.tables in ("learning", "held_out"):
        for place in many_tables.tables(given.tables):
            for task in many_tables.tasks(*place, given.rows):
                gain = max(task.constant - task.best, 0.02 * task.constant)

                def told(epsilon: float, delta: float, seed: int, task: Any = task, gain: float = gain) -> Any:
                    model = fitted_task(task, epsilon, delta, seed)
                    return model, (many_tables.loss(task, model) - task.best) / gain

                yield task.name, task.kind, told
        return
    for name in (*corpus.LEARNING, *corpus.MORE_NUMBERS):
        if name in corpus.MANY_CLASSES:
            continue
        found = case(name, given.rows)
        X = onehot(found.schema, found.frame)

        def asked(epsilon: float, delta: float, seed: int, found: Any = found, X: np.ndarray = X) -> Any:
            models = []

            def kept(*values: Any, **options: Any) -> Any:
                models.append(SMOOTH[found.kind](*values, **options))
                return models[0]

            form = {"X": X, "feature_bounds": (0, 1)} if given.tables == "onehot" else {}
            coins = many_tables.checksum(
                f"{found.name} {seed}"
            )  # with equal seeds, errors of tables would be dependent
            return models, found.ask(epsilon, delta, coins, kind=kept, **form)

        yield name, found.kind, lambda *of, asked=asked: (lambda found: (found[0][0], found[1]))(asked(*of))


def fitted_task(task: Any, epsilon: float, delta: float, seed: int) -> Any:
    kind = SMOOTH["numbers" if task.kind == many_tables.KINDS[2] else "classes"]
    coins = many_tables.checksum(f"{task.name} {seed}")
    return kind(epsilon, delta, schema=task.schema, random_state=coins).fit(task.frame)


def stages(plan: Any) -> Iterator[Any]:
    while plan is not None:
        yield plan
        plan = getattr(plan, "then", None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", choices=("onehot", "schema", "learning", "held_out"))
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
