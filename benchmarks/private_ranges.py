"""Measure what declared ranges are worth: test loss with privately found ranges against test loss with declared ones.

    python benchmarks/private_ranges.py [--tables adult flights] [--splits 5] [--epsilons 0.3 1 3] [--rows 10000 40000]
    python benchmarks/private_ranges.py --corpus learning|held_out [--splits 5] [--additive] [--target]

Fits are by `auto` under pure epsilon, with everything planned. In the fits called "none" every numeric column, and a
numeric target, has ``range = "private"``. The excess is the loss on the test fifth less that of the unregularized fit
of the declared encoding, which is not private: log-loss for classes, mean squared error over the target's variance for
numbers. Values are clipped to the declared ranges; rows are drawn and split by ``default_rng(split)``. Fits are seeded,
hence not private.

With ``--corpus`` the tables are those of a half of `corpus.py` (for the learning half, also `corpus.MORE_NUMBERS`) that
have 10,000 records or more for training, as they are. Columns of 0 and 1 keep that range, as in drafts without ranges.
An excess counts as at least .01 of a constant's; the printed ratios of "none" to declared ranges are geometric means
over tables. With ``--target`` the target's range stays declared.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

import corpus
from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from tables import REGRESSION_TABLES, TABLES, Table


def frame_of(table: Table) -> pd.DataFrame:
    """Return the table as it was before it was encoded, with values clipped to the declared ranges."""
    found, start = {}, 0
    for column in table.schema.columns:
        size = column.block.size
        part, start = table.X[:, start : start + size], start + size
        if column.numeric:
            first, last = column.range.ends
            values = first + (part[:, 0] + 0.5) * (last - first)
            values = np.expm1(values) if column.transform == "log1p" else values
            found[column.name] = np.round(values, 9)
        elif size == 1:
            found[column.name] = np.array(column.categories)[(part[:, 0] > 0).astype(int)]
        else:
            found[column.name] = np.array([*column.categories, "(other)"])[part.argmax(1)]
    labels = table.schema.target.labels
    found[table.schema.target.name] = np.array(labels)[table.y.astype(int)] if labels else table.y
    return pd.DataFrame(found)


def losses(model, frame: pd.DataFrame, truth: np.ndarray, labels: bool) -> float:
    if labels:
        return float(-model.predict_log_proba(frame)[np.arange(len(truth)), truth.astype(int)].mean())
    return float(np.mean((model.predict(frame) - truth) ** 2) / np.var(truth))


def best(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, labels: bool) -> float:
    if not labels:
        return float(np.mean((LinearRegression().fit(X, y).predict(X_test) - y_test) ** 2) / np.var(y_test))
    model = LogisticRegression(C=1e4, max_iter=3000).fit(X, y)
    return float(-model.predict_log_proba(X_test)[np.arange(len(y_test)), y_test.astype(int)].mean())


def measure(name: str, rows: int, epsilons: list[float], splits: int) -> dict:
    table = (TABLES | REGRESSION_TABLES)[name]()
    labels = bool(table.schema.target.labels)
    frame = frame_of(table)
    kind = PrivateLogisticRegression if labels else PrivateLinearRegression
    schemas = {"declared": table.schema, "none": table.schema.without_ranges()}
    excess = {(which, epsilon): [] for which in schemas for epsilon in epsilons}
    n = min(rows, len(frame) * 4 // 5)
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(frame))
        train, test = order[:n], order[len(frame) * 4 // 5 :][:20_000]
        floor = best(table.X[train], table.y[train], table.X[test], table.y[test], labels)
        for which, epsilon in excess:
            model = kind(epsilon, schema=schemas[which], random_state=1000 * split + int(100 * epsilon))
            model.fit(frame.iloc[train])
            excess[which, epsilon].append(losses(model, frame.iloc[test], table.y[test], labels) - floor)
    result = {"table": name, "n": n}
    for epsilon in epsilons:
        pair = [np.array(excess[which, epsilon]) for which in schemas]
        means = [float(each.mean()) for each in pair]
        deviation = float((pair[1] - pair[0]).std(ddof=1) / np.sqrt(splits))
        result[f"epsilon {epsilon:g}"] = {
            **{which: round(mean, 5) for which, mean in zip(schemas, means, strict=True)},
            "ratio": round(means[1] / means[0], 3),
            "standard error of the difference": round(deviation, 5),
        }
    return result


LEAST, FLOOR = 10_000, 0.01


def without(schema: Schema, target: bool) -> Schema:
    """Return the schema without ranges, except [0, 1] and, if `target`, the target's."""
    found = schema.without_ranges()
    columns = tuple(
        own if own.numeric and (own.lower, own.upper) == (0, 1) else other
        for own, other in zip(schema.columns, found.columns, strict=True)
    )
    return replace(found, columns=columns, target=schema.target if target else found.target)


def of_corpus(given: argparse.Namespace) -> None:
    """Print each table's excesses, and the geometric means of the factors by which they grow without ranges."""
    names = corpus.HALVES[given.corpus] + tuple(corpus.MORE_NUMBERS) * (given.corpus == "learning")
    logs: dict[str, list[float]] = {}
    for name in (name for name in names if name not in corpus.MANY_CLASSES):
        table = corpus.load(name)
        n, y, labels = len(table.y), table.y, not table.schema.target.numeric
        if n * 4 // 5 < LEAST:
            continue
        kinds = (
            (PrivateLinearRegression, PrivateAdditiveRegressor),
            (PrivateLogisticRegression, PrivateAdditiveClassifier),
        )
        schemas = table.schema, without(table.schema, given.target)
        for epsilon in given.epsilons:
            found = []
            for split in range(given.splits):
                order = np.random.default_rng(split).permutation(n)
                test, train = order[: n // 5], order[n // 5 :]
                floor = best(table.X[train], y[train], table.X[test], y[test], labels)
                rate = y[train].mean()
                constant = -np.log(np.where(y[test] == 1, rate, 1 - rate)).mean() if labels else 1.0
                fits = (
                    kinds[labels][given.additive](epsilon, schema=schema, random_state=split).fit(
                        table.frame.iloc[train]
                    )
                    for schema in schemas
                )
                own = [losses(model, table.frame.iloc[test], y[test], labels) for model in fits]
                found.append([(each - floor) / (constant - floor) for each in own])
            declared, none = np.mean(found, axis=0)
            error = np.std(np.diff(found, axis=1), ddof=1) / given.splits**0.5
            logs.setdefault(f"{epsilon:g}", []).append(np.log(max(none, FLOOR) / max(declared, FLOOR)))
            print(
                f"{name:18} {epsilon:4g} declared {declared:.4f} none {none:.4f} (difference's error {error:.4f})",
                flush=True,
            )
    for epsilon, each in logs.items():
        error, worst = np.std(each, ddof=1) / len(each) ** 0.5, np.exp(max(each))
        print(f"epsilon {epsilon}: {np.exp(np.mean(each)):.3f} (error of the logarithm {error:.3f}), worst {worst:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", choices=tuple(corpus.HALVES))
    parser.add_argument("--additive", action="store_true", help="with --corpus: fit additive models")
    parser.add_argument("--target", action="store_true", help="with --corpus: the target keeps its range")
    parser.add_argument("--tables", nargs="+", default=["adult", "flights", "fertility", "diamonds", "delays"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 40_000])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in () if given.corpus else given.tables:
        for rows in given.rows:
            print(json.dumps(measure(name, rows, given.epsilons, given.splits)), flush=True)
    if given.corpus:
        of_corpus(given)


if __name__ == "__main__":
    main()
