"""Measure the largest error of synthetic data from Adult over all marginals of an order, by method.

    python benchmarks/synthetic_data.py [--seeds 3] [--json FILE]

The methods are: the library's choice; query noise with a fitted histogram; MWEM with replay; the saddle-point method;
independent Gaussian noise on every marginal without any fit (its answers are not those of any table); the product of
the exact one-way marginals, which is not private; and the uniform distribution. Errors are of shares of the records,
for several numbers of records, orders and epsilons. Noise is seeded, hence not private: Adult is public.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex import PrivateSyntheticData, adult_schema, load_adult
from dpconvex.data import TableCells
from dpconvex.privacy.profiles import gaussian_delta, smallest
from dpconvex.problems.queries import Marginals

COLUMNS = ("age", "workclass", "education", "marital-status", "race", "sex", "income")
BINS = {"age": (17, 25, 35, 45, 55, 90)}
DELTA = 1e-6


def independent_noise(queries: Marginals, truth: np.ndarray, n: int, epsilon: float, rng: np.random.Generator) -> float:
    """Return the largest error of Gaussian noise on all tables together: l2 sensitivity sqrt(2 tables) / n."""
    distance = np.sqrt(2 * len(queries.blocks)) / n
    sigma = smallest(lambda s: gaussian_delta(epsilon, distance / s) <= DELTA, distance)
    return float(np.abs(rng.normal(0, sigma, queries.count)).max())


def product_of_marginals(cells: TableCells, records: np.ndarray) -> np.ndarray:
    weights = np.ones(1)
    for axis, column in enumerate(records.T):
        weights = np.multiply.outer(weights, np.bincount(column, minlength=cells.shape[axis]) / len(records))
    return weights.ravel()


def measure(n: int, order: int, epsilon: float, methods: list[str], seeds: int) -> list[dict]:
    table = load_adult().take(np.random.default_rng(0).permutation(45_222)[:n])
    cells = TableCells.of_schema(adult_schema(), COLUMNS, BINS)
    records, queries = cells.encode(table), Marginals.of_order(cells.shape, order)
    truth = queries.record_sums(records) / n
    shared = {"n": n, "order": order, "epsilon": epsilon, "queries": queries.count, "cells": queries.cells}
    rows = []
    for method in methods:
        errors, start = [], time.perf_counter()
        for seed in range(seeds):
            model = PrivateSyntheticData(
                epsilon, DELTA, schema=adult_schema(), columns=COLUMNS, bins=BINS, order=order, algorithm=method
            ).set_params(random_state=seed)
            errors.append(-model.fit(table).score(table))
        seconds = (time.perf_counter() - start) / seeds
        rows.append({**shared, "method": method, "error": float(np.mean(errors)), "seconds": seconds})
        print(rows[-1], flush=True)
    rng = np.random.default_rng(1)
    noise = [independent_noise(queries, truth, n, epsilon, rng) for _ in range(seeds)]
    product = np.abs(queries.answers(product_of_marginals(cells, records)) - truth).max()
    uniform = np.abs(queries.answers(np.full(queries.cells, 1 / queries.cells)) - truth).max()
    fixed = {"independent noise": float(np.mean(noise)), "product (not private)": product, "uniform": uniform}
    return rows + [{**shared, "method": name, "error": float(e), "seconds": 0.0} for name, e in fixed.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows: list[dict] = []
    for n, order, epsilon in [(1000, 2, 1.0), (10_000, 2, 1.0), (45_222, 2, 1.0), (45_222, 3, 1.0), (45_222, 2, 0.1)]:
        rows += measure(n, order, epsilon, ["auto", "query_noise", "mwem", "saddle_point"], arguments.seeds)
    table = RichTable("n", "order", "epsilon", "cells", "queries", "method", "largest error", "seconds")
    for row in rows:
        table.add_row(
            *(str(row[k]) for k in ("n", "order", "epsilon", "cells", "queries", "method")),
            f"{row['error']:.4f}",
            f"{row['seconds']:.1f}",
        )
    Console().print(table)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
