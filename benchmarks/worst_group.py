"""Compare worst-group with average-loss training on Adult: accuracy and log-loss, on average and of the worst group.

    python benchmarks/worst_group.py [--group sex|race] [--seeds 3] [--json FILE]

Groups are the categories of one column. A third of the records is held out. Average training is over the same l1 ball
as worst-group training, and without a ball; worst-group training is by each of the library's methods. Noise is seeded,
hence not private: Adult is public.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex import (
    PrivateLogisticRegression,
    PrivateSparseLogisticRegression,
    PrivateWorstGroupClassifier,
    adult_schema,
    load_adult,
)
from dpconvex.data.table_cells import TableCells

DELTA = 1e-6
METHODS = ("vertex_mirror_descent", "gaussian_mirror_descent")


def scores(model, table, group: np.ndarray) -> dict:
    schema = adult_schema()
    right = schema.encode_target(table)
    p = model.predict_proba(table)[np.arange(len(right)), right]
    present = np.unique(group)
    losses = np.array([-np.log(np.maximum(p[group == g], 1e-12)).mean() for g in present])
    hits = np.array([(p[group == g] > 0.5).mean() for g in present])
    return {
        "average accuracy": float((p > 0.5).mean()),
        "worst accuracy": float(hits.min()),
        "average loss": float(-np.log(np.maximum(p, 1e-12)).mean()),
        "worst loss": float(losses.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", default="sex")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 4.0])
    parser.add_argument("--radius", type=float, default=3.0)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    schema, table = adult_schema(), load_adult()
    table = table.take(np.random.default_rng(0).permutation(len(table)))
    train, test = table.slice(0, 30_000), table.slice(30_000)
    group = TableCells.of_schema(schema, (arguments.group,)).encode(test)
    rows = []

    def add(name: str, epsilon: float, make) -> None:
        start = time.perf_counter()
        found = [scores(make(seed).fit(train), test, group) for seed in range(arguments.seeds)]
        mean = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
        rows.append({"method": name, "epsilon": epsilon, **mean, "seconds": (time.perf_counter() - start) / len(found)})
        print(rows[-1], flush=True)

    ball = {"schema": schema, "radius": arguments.radius}
    for epsilon in arguments.epsilon:
        add(
            "average, l2",
            epsilon,
            lambda seed, e=epsilon: PrivateLogisticRegression(e, DELTA, schema=schema, random_state=seed),
        )
        add(
            "average, l1 ball",
            epsilon,
            lambda seed, e=epsilon: PrivateSparseLogisticRegression(e, DELTA, **ball, random_state=seed),
        )
        for method in METHODS:
            add(
                f"worst group, {method}",
                epsilon,
                lambda seed, e=epsilon, m=method: PrivateWorstGroupClassifier(
                    e, DELTA, **ball, group_column=arguments.group, algorithm=m, random_state=seed
                ),
            )
    table_ = RichTable(
        "method", "epsilon", "average accuracy", "worst accuracy", "average loss", "worst loss", "seconds"
    )
    for row in rows:
        numbers = (f"{row[key]:.3f}" for key in ("average accuracy", "worst accuracy", "average loss", "worst loss"))
        table_.add_row(row["method"], str(row["epsilon"]), *numbers, f"{row['seconds']:.1f}")
    Console().print(table_)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
