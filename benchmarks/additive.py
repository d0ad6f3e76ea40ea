"""Compare additive with linear models at their defaults: held-out log-loss and AUC, or R^2, and seconds of a fit.

    python benchmarks/additive.py [--tables adult flights fertility spambase diamonds] [--splits 5] [--epsilons 0.1 1]
        [--json FILE]
    python benchmarks/additive.py --best --tables adult --json BEST  # models without privacy
    python benchmarks/additive.py --open --tables adult --json OPEN  # no ranges declared
    python benchmarks/additive.py --summary FILE BEST OPEN [--picture PICTURE]  # excess over the best additive model

Epsilon is pure, ranges are declared, and everything is planned from public facts. A fifth of each table is held out.
Targets that are numbers have the squared error over the variance as loss. Fits are seeded, hence not private: this
measures accuracy on public data.

With ``--peers`` DP-EBM of `interpret` is fitted too, at delta 1e-6, with the same declared ranges: at its defaults, and
"tuned", with the learning rate that is best on the held-out records, which is not private and favors it. Its promise is
for a record that is added or removed. A replaced record may move a sum of residuals by twice as much, so "DP-EBM" gets
twice the noise that it ships with at this budget, and thus our relation of neighbors; "as shipped" keeps its own noise.

With ``--best`` only models without privacy are fitted: boosted additive ones of `interpret` (without interactions), and
linear ones of scikit-learn with a cross-validated ridge. ``--summary`` subtracts the loss of the former on each split.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score

import private_ranges
from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    adult_schema,
    load_adult,
)
from dpconvex.data.frames import open_table
from side_by_side.noise import gaussian_mu
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
    if isinstance(frame, np.ndarray):
        return frame[chosen]
    return frame.iloc[chosen] if hasattr(frame, "iloc") else frame.take(chosen)


def split_of(count: int, seed: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of a fifth of the records, held out, and of at most `most` others, for training."""
    order = np.random.default_rng(seed).permutation(count)
    return order[: count // 5], order[count // 5 :][:most]


DELTA = 1e-6  #: Delta of DP-EBM; our fits spend none.


RATES = {"DP-EBM": (0.01,), "DP-EBM tuned": (0.01, 0.03, 0.1, 0.3), "DP-EBM as shipped": (0.01,)}


def boosting(schema, epsilon: float, seed: int, shipped: bool, rate: float):
    """Return DP-EBM with the public facts of our schema."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    if not shipped:  # at this budget it adds twice the noise
        mu = gaussian_mu(epsilon, DELTA) / 2
        epsilon = brentq(lambda e: gaussian_mu(e, DELTA) - mu, 1e-4, epsilon)
    numeric = {column.name: (column.lower, column.upper) for column in schema.columns if column.numeric}
    options = {
        "epsilon": epsilon, "delta": DELTA, "random_state": seed, "n_jobs": 1, "learning_rate": rate,
        "feature_names": [column.name for column in schema.columns], "privacy_bounds": numeric,
        "feature_types": ["continuous" if column.numeric else "nominal" for column in schema.columns],
    }  # fmt: skip
    if not schema.target.numeric:
        return DPExplainableBoostingClassifier(**options)
    ends = {"privacy_target_min": schema.target.lower, "privacy_target_max": schema.target.upper}
    return DPExplainableBoostingRegressor(**options, **ends)


def as_boosted(schema, frame):
    """Return the schema's columns as DP-EBM takes them: numbers clipped to their ranges, and texts."""
    import pandas as pd

    cells = {}
    for column in schema.columns:
        found = column.read(open_table(frame))
        if column.numeric:
            values = np.nan_to_num(column.compact(found), nan=(column.lower + column.upper) / 2)
            cells[column.name] = np.clip(values, column.lower, column.upper)
        else:
            cells[column.name] = np.array([*column.categories, "other"], dtype=object)[column.compact(found)]
    return pd.DataFrame(cells)


def measure_peers(name: str, epsilons, splits: int, most: int) -> list[dict]:
    schema, frame = table_of(name)
    X, y, found, known = as_boosted(schema, frame), schema.encode_target(frame), [], {}
    for which, epsilon in product(RATES, epsilons):
        tried = []
        for rate in RATES[which]:
            tried.append([])
            for seed in range(splits):
                test, train = split_of(len(y), seed, most)
                asked = epsilon, seed, which.endswith("shipped"), rate
                if asked not in known:
                    start = time.perf_counter()
                    model = boosting(schema, *asked).fit(X.iloc[train], y[train])
                    seconds = {"seconds": time.perf_counter() - start}
                    known[asked] = seconds | scores(schema, model, X.iloc[test], y[test])
                row = {"table": name, "epsilon": epsilon, "model": which, "seed": seed, "knots": 0}
                tried[-1].append(row | known[asked])
        found += min(tried, key=lambda rows: np.mean([row["loss"] for row in rows]))
        print(found[-1], flush=True)
    return found


def measure_best(name: str, epsilons, splits: int, most: int) -> list[dict]:
    """Measure models without privacy; `epsilons` are not used."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    schema, frame = table_of(name)
    inputs = {"linear": schema.encode(frame), "additive": as_boosted(schema, frame)}
    y, found = schema.encode_target(frame), []
    boosted = ExplainableBoostingRegressor if schema.target.numeric else ExplainableBoostingClassifier
    kinds = ["continuous" if column.numeric else "nominal" for column in schema.columns]
    linear = (
        RidgeCV(np.logspace(-6, 3, 10)) if schema.target.numeric
        else LogisticRegressionCV(Cs=6, max_iter=500, scoring="neg_log_loss")
    )  # fmt: skip
    models = {"linear": linear, "additive": boosted(interactions=0, n_jobs=1, random_state=0, feature_types=kinds)}
    for seed, (which, model) in product(range(splits), models.items()):
        test, train = split_of(len(y), seed, most)
        start, X = time.perf_counter(), inputs[which]
        fitted = clone(model).fit(rows(X, train), y[train])
        row = {"table": name, "epsilon": None, "model": f"best {which}", "seed": seed, "knots": 0}
        row |= {"seconds": time.perf_counter() - start}
        found.append(row | scores(schema, fitted, rows(X, test), y[test]))
        print(found[-1], flush=True)
    return found


def scores(schema, model, X, y) -> dict[str, float]:
    if schema.target.numeric:
        guess = np.clip(model.predict(X), schema.target.lower, schema.target.upper)
        error = np.square(guess - y).mean() / y.var()
        return {"loss": float(error), "auc": float(1 - error)}
    odds = model.predict_proba(X)
    return {"loss": float(-np.log(odds[np.arange(len(y)), y]).mean()), "auc": float(roc_auc_score(y, odds[:, 1]))}


def measure_open(name: str, epsilons, splits: int, most: int) -> list[dict]:
    """Measure fits to schemas whose columns declare no range, except [0, 1]."""
    found = measure(name, epsilons, splits, most, lambda schema: private_ranges.without(schema, target=False))
    return [row | {"model": f"{row['model']}, no ranges"} for row in found]


def measure(name: str, epsilons, splits: int, most: int, asked=lambda schema: schema) -> list[dict]:
    schema, frame = table_of(name)
    n, kind, found = len(frame), "numbers" if schema.target.numeric else "classes", []
    for seed in range(splits):
        test, train = (rows(frame, chosen) for chosen in split_of(n, seed, most))
        truth = schema.encode_target(test)
        for epsilon in epsilons:
            for which, model in MODELS[kind].items():
                start = time.perf_counter()
                fitted = model(epsilon, schema=asked(schema), random_state=seed).fit(train)
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


SHOWN = {
    "linear": "linear, ours", "additive": "additive, ours", "additive, no ranges": "the same, no ranges declared",
    "DP-EBM tuned": "DP-EBM, tuned on the answer",
}  # fmt: skip


def excesses(every: list[dict]) -> dict[tuple, np.ndarray]:
    """Return losses less those of the best additive model on the same split, by table, model and epsilon."""
    best = {(row["table"], row["seed"]): row["loss"] for row in every if row["model"] == "best additive"}
    found: dict[tuple, list[float]] = {}
    for row in every:
        if (row["table"], row["seed"]) in best:
            key = row["table"], row["model"], row["epsilon"]
            found.setdefault(key, []).append(row["loss"] - best[row["table"], row["seed"]])
    return {key: np.array(values) for key, values in found.items()}


def summary(every: list[dict], picture: str | None) -> None:
    """Print a line of Markdown for each table and epsilon, and draw the excesses if a picture is asked for."""
    found = excesses(every)
    tables = [name for name, model, _ in found if model == "best linear"]
    epsilons = sorted({epsilon for *_, epsilon in found if epsilon is not None})

    def cell(*key) -> str:
        values = found.get(key, np.zeros(0))
        return f"{values.mean():.4f} ± {values.std(ddof=1) / len(values) ** 0.5:.4f}" if len(values) > 1 else ""

    for name, epsilon in product(tables, epsilons):
        cells = [cell(name, "best linear", None), *(cell(name, model, epsilon) for model in SHOWN)]
        print(f"| {name} | {epsilon:g} | {' | '.join(cells)} |")
    if picture is not None:
        import matplotlib.pyplot as plt

        size = {"figsize": (2.7 * len(tables), 2.9), "layout": "constrained", "squeeze": False}
        figure, panels = plt.subplots(1, len(tables), **size)
        for panel, name in zip(panels[0], tables, strict=True):
            for (model, title), color in zip(SHOWN.items(), ("C1", "C0", "C2", "C7"), strict=True):
                at = [epsilon for epsilon in epsilons if (name, model, epsilon) in found]
                means = [found[name, model, epsilon].mean() for epsilon in at]
                panel.plot(at, means, "o-", color=color, label=title, ms=4)
            best = found[name, "best linear", None].mean()
            panel.axhline(best, color="black", lw=1, ls="--", label="linear, not private")
            highest = max(found[name, model, epsilons[0]].mean() for model in ("linear", "additive"))
            panel.set(title=name, xscale="log", ylim=(0, 1.2 * max(highest, best)), xlabel="epsilon")
            panel.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
            panel.minorticks_off()
        panels[0][0].set_ylabel("excess loss")
        figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small")
        figure.savefig(picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["adult", "flights", "fertility", "spambase", "diamonds"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--most", type=int, default=10**9, help="The largest number of training records of a table.")
    parser.add_argument("--peers", action="store_true", help="Fit DP-EBM too (pip install --no-deps interpret-core).")
    parser.add_argument("--only-peers", action="store_true")
    parser.add_argument("--open", action="store_true", help="Fit only ours, with no declared range but [0, 1].")
    parser.add_argument("--best", action="store_true", help="Fit only models without privacy.")
    parser.add_argument("--summary", nargs="+")
    parser.add_argument("--picture")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.summary:
        summary([row for path in arguments.summary for row in json.loads(Path(path).read_text())], arguments.picture)
        raise SystemExit
    sources = [] if arguments.only_peers or arguments.best or arguments.open else [measure]
    sources += [measure_peers] if arguments.peers or arguments.only_peers else []
    sources += [measure_best] * arguments.best + [measure_open] * arguments.open
    asked = (arguments.epsilons, arguments.splits, arguments.most)
    every = [row for name, source in product(arguments.tables, sources) for row in source(name, *asked)]
    shown = RichTable("table", "epsilon", "model", "loss", "s.e.", "AUC or R2", "seconds", "knots")
    for key in dict.fromkeys((row["table"], row["epsilon"], row["model"]) for row in every):
        group = [row for row in every if (row["table"], row["epsilon"], row["model"]) == key]
        loss = np.array([row["loss"] for row in group])
        error = loss.std(ddof=1) / len(loss) ** 0.5 if len(loss) > 1 else np.nan
        means = [f"{np.mean([row[name] for row in group]):.3f}" for name in ("auc", "seconds")]
        shown.add_row(
            key[0],
            f"{key[1] or np.inf:g}",
            key[2],
            f"{loss.mean():.4f}",
            f"{error:.4f}",
            *means,
            str(group[0]["knots"]),
        )
    Console().print(shown)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(every, file, indent=1)
