"""Additive models beside linear ones, as they come: held-out log-loss and AUC, or R^2, and seconds of a fit.

    python benchmarks/additive.py [--tables adult flights fertility spambase diamonds] [--splits 5] [--epsilons 0.1 1]
        [--json FILE]

Pure epsilon, declared ranges, everything planned from public facts. A fifth of each table is held out. Fits are seeded,
hence not private: this measures accuracy on public data. DP-EBM is not run here: it needs a package of its own.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.metrics import roc_auc_score

from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    adult_schema,
    load_adult,
)
from tables import REGRESSION_TABLES, TABLES

MODELS = {
    "classes": {"linear": PrivateLogisticRegression, "additive": PrivateAdditiveClassifier},
    "numbers": {"linear": PrivateLinearRegression, "additive": PrivateAdditiveRegressor},
}


def table_of(name: str):
    if name == "adult":
        return adult_schema(), load_adult()
    table = {**TABLES, **REGRESSION_TABLES}[name]()
    return table.schema, table.frame


def rows(frame, chosen: np.ndarray):
    return frame.iloc[chosen] if hasattr(frame, "iloc") else frame.take(chosen)


def measure(name: str, epsilons, splits: int, most: int) -> list[dict]:
    schema, frame = table_of(name)
    n, kind, found = len(frame), "numbers" if schema.target.numeric else "classes", []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(n)
        test, train = rows(frame, order[: n // 5]), rows(frame, order[n // 5 :][:most])
        truth = schema.encode_target(test)
        for epsilon in epsilons:
            for which, model in MODELS[kind].items():
                start = time.perf_counter()
                fitted = model(epsilon, schema=schema, random_state=seed).fit(train)
                seconds, row = time.perf_counter() - start, {"table": name, "epsilon": epsilon, "model": which}
                if kind == "classes":
                    loss = -fitted.predict_log_proba(test)[np.arange(len(truth)), truth].mean()
                    row |= {"loss": float(loss), "auc": float(roc_auc_score(truth, fitted.decision_function(test)))}
                else:
                    error = np.square(fitted.predict(test) - truth).mean() / truth.var()
                    row |= {"loss": float(error), "auc": float(1 - error)}
                plan = fitted.plan_
                knots = max((len(each) for each in getattr(fitted, "knots_", [])), default=0)
                found.append({**row, "seed": seed, "seconds": seconds, "knots": knots, "algorithm": plan.algorithm})
                print(found[-1], flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["adult", "flights", "fertility", "spambase", "diamonds"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--most", type=int, default=10**9, help="Training records of a table, at most.")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    every = [
        row for name in arguments.tables for row in measure(name, arguments.epsilons, arguments.splits, arguments.most)
    ]
    shown = RichTable("table", "epsilon", "model", "loss", "s.e.", "AUC or R2", "seconds", "knots")
    for key in dict.fromkeys((row["table"], row["epsilon"], row["model"]) for row in every):
        group = [row for row in every if (row["table"], row["epsilon"], row["model"]) == key]
        loss = np.array([row["loss"] for row in group])
        error = loss.std(ddof=1) / len(loss) ** 0.5 if len(loss) > 1 else np.nan
        means = [f"{np.mean([row[name] for row in group]):.3f}" for name in ("auc", "seconds")]
        shown.add_row(
            key[0], f"{key[1]:g}", key[2], f"{loss.mean():.4f}", f"{error:.4f}", *means, str(group[0]["knots"])
        )
    Console().print(shown)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(every, file, indent=1)
