"""Does a private search pay? Held-out loss of searches against the default and against the best choice in hindsight.

    python benchmarks/private_search.py [--cells adult ...] [--seeds 5] [--json FILE] [--figure FILE]

Each cell is a table, a model and a grid whose first setting is what a user without a search would run. Every setting is
also fitted alone, to all training records with the whole budget; the best of these, chosen on the *answer*, is what no
private method can know. Losses are measured on a fifth of the records, held out by a fixed permutation, that no search
sees. Fits are seeded, hence not private: this measures accuracy on public data.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.metrics import log_loss

from dpconvex import PrivateHuberRegressor, PrivateLogisticRegression, PrivateSearchCV, __version__
from tables import REGRESSION_TABLES, TABLES

EPSILONS = (0.1, 0.3, 1.0, 3.0)
METHODS = ("composition", "repeats")


@dataclass(frozen=True)
class Cell:
    title: str
    X: np.ndarray
    y: np.ndarray
    model: Callable
    grid: list[dict]
    loss: Callable
    score_bound: float | None = None


def adult() -> Cell:
    table = TABLES["adult"]()
    domain = table.schema.domain().with_intercept()

    def model(epsilon, delta, seed):
        return PrivateLogisticRegression(epsilon, delta, domain=domain, random_state=seed, classes=[0, 1])

    usual = model(1.0, 0.0, 0).plan(10_000)[0].problem.radius
    grid = [{"coefficient_norm": usual * factor} for factor in (1.0, 0.125, 0.35, 3.0)]
    return Cell(
        "adult, logistic: coefficient_norm from 1/8 to 3 times the default; log-loss",
        table.X, table.y, model, grid, lambda m, X, y: log_loss(y, m.predict_proba(X)),
    )  # fmt: skip


def _huber(name: str, title: str, widest: tuple[float, float] | None, grid, score_bound=None) -> Cell:
    """Return a cell; `widest` is the only range that a careful user could declare, None the table's."""
    table = REGRESSION_TABLES[name]()
    domain, target = table.schema.domain().with_intercept(), table.schema.target
    bounds = (target.lower, target.upper) if widest is None else widest
    middle = np.median(table.y)  # of all records: only a yardstick of this benchmark

    def model(epsilon, delta, seed):
        return PrivateHuberRegressor(epsilon, delta, target_bounds=bounds, domain=domain, random_state=seed)

    def loss(m, X, y):
        return float(np.abs(m.predict(X) - y).mean() / np.abs(middle - y).mean())

    return Cell(title, table.X, table.y, model, grid(bounds[1] - bounds[0]), loss, score_bound)


def price_range() -> Cell:
    ranges = (1_000_000.0, 200_000.0, 50_000.0, 20_000.0, 5_000.0)
    return _huber(
        "diamonds",
        "diamonds, Huber: range of the price from 5,000 to 1,000,000 dollars; absolute error over that of the median",
        (0.0, ranges[0]),
        lambda width: [{"target_bounds": (0.0, top)} for top in ranges],
        0.05,
    )


def huber_width() -> Cell:
    return _huber(
        "spending",
        "spending, Huber: width from 0.02 to 0.8 of the range; absolute error over that of the median",
        None,
        lambda width: [{"width": share * width} for share in (0.2, 0.02, 0.05, 0.1, 0.8)],
    )


CELLS = {"adult": adult, "price_range": price_range, "huber_width": huber_width}


def measure(name: str, seeds: int, deltas: list[float]) -> dict:
    cell = CELLS[name]()
    order = np.random.default_rng(0).permutation(len(cell.X))
    test, train = np.split(order, [len(order) // 5])
    X, y, held = cell.X[train], cell.y[train], (cell.X[test], cell.y[test])
    rows = []
    for delta in deltas:
        for epsilon in EPSILONS:
            row = {"epsilon": epsilon, "delta": delta, "single": [], "search": {}}
            for settings in cell.grid:
                fits = [cell.model(epsilon, delta, s).set_params(**settings).fit(X, y) for s in range(seeds)]
                row["single"].append([cell.loss(fit, *held) for fit in fits])
            for method in METHODS:
                start, losses, chosen = time.process_time(), [], []
                search = PrivateSearchCV(cell.model(epsilon, delta, 0), [_lists(g) for g in cell.grid])
                search.set_params(score_bound=cell.score_bound)
                row["auto"] = search.plan(*X.shape)[0].method
                for seed in range(seeds):
                    search.set_params(method=method, estimator__random_state=1000 + seed).fit(X, y)
                    losses.append(cell.loss(search, *held))
                    chosen.append(cell.grid.index(search.best_params_))
                plan = search.plan_
                row["search"][method] = {
                    "losses": losses,
                    "chosen": chosen,
                    "seconds": (time.process_time() - start) / seeds,
                    "price": plan.price,
                    "cost": plan.cost,
                    "stake": plan.stake,
                }
            rows.append(row)
            print(name, delta, epsilon, _line(row), flush=True)
    return {"cell": name, "title": cell.title, "n": len(X), "grid": cell.grid, "rows": rows, "dpconvex": __version__}


def _lists(settings: dict) -> dict:
    return {name: [value] for name, value in settings.items()}


def _line(row: dict) -> list[str]:
    single = [np.mean(losses) for losses in row["single"]]
    found = [f"{single[0]:.3f}", f"{min(single):.3f}"]
    for method in METHODS:
        search = row["search"][method]
        found.append(f"{np.mean(search['losses']):.3f} ({np.mean(search['losses']) / single[0]:.2f})")
    return [*found, row["auto"]]


def show(result: dict) -> None:
    table = RichTable(title=f"{result['title']}; n={result['n']:,}. In brackets: over the default's loss")
    for column in ("delta", "epsilon", "default", "best in hindsight", *METHODS, "auto takes"):
        table.add_column(column, justify="right")
    for row in result["rows"]:
        table.add_row(f"{row['delta']:g}", f"{row['epsilon']:g}", *_line(row))
    Console(width=140).print(table)


def draw(results: list[dict], path: str) -> None:
    """Draw losses over epsilon for delta = 0, with one panel for each cell."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 3.4), constrained_layout=True)
    for axis, result in zip(np.atleast_1d(axes), results, strict=True):
        rows = [row for row in result["rows"] if row["delta"] == 0]
        epsilons = [row["epsilon"] for row in rows]
        single = np.array([[np.mean(losses) for losses in row["single"]] for row in rows])
        axis.plot(epsilons, single[:, 0], "k-", label="default, no search")
        axis.plot(epsilons, single.min(axis=1), "k:", label="best setting in hindsight")
        for method, marker in (("composition", "s"), ("repeats", "o")):
            losses = [np.mean(row["search"][method]["losses"]) for row in rows]
            axis.plot(epsilons, losses, marker + "-", markersize=4, label=f"search, {method}")
        axis.set(xscale="log", xlabel="epsilon", title=result["title"].partition(":")[0])
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.set_ylabel(result["title"].partition("; ")[2], fontsize=8)
    np.atleast_1d(axes)[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--deltas", nargs="+", type=float, default=[0.0, 1e-6])
    parser.add_argument("--json")
    parser.add_argument("--figure")
    parser.add_argument("--draw", metavar="JSON", help="Draw earlier results; measure nothing.")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    if arguments.draw:
        with open(arguments.draw) as file:
            results = json.load(file)
    else:
        results = [measure(name, arguments.seeds, arguments.deltas) for name in arguments.cells]
    for result in results:
        show(result)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)
    if arguments.figure:
        draw(results, arguments.figure)


if __name__ == "__main__":
    main()
