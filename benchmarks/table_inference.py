"""Count how often 95 % intervals from synthetic data hold the true shares of cells, and figures of a population.

    python benchmarks/table_inference.py --coverage adult diamonds --epsilon 0.1 1 --seeds 20
    python benchmarks/table_inference.py --copies 5 --epsilon 0.1 1 --seeds 100

`--coverage` counts how often the intervals of `marginal(..., interval=0.95)` hold the data's shares: each cell of all
tables of one and two columns by itself, and all cells of a table at once (``together=True``).

`--copies m` asks whether inference from synthetic records could be repaired. The rows of Adult (seven columns) are the
population; for each seed 20,000 records are drawn from them. It counts how often intervals hold the population's means
and least-squares coefficients (of income on the other columns, with the numbers of bins). From the released model m
copies are simulated, noise and fit included. Four ways are compared: the rule of Raghunathan and Reiter; the model's
own figures with the spread of the copies; twice the model's figures less the mean of the copies, with this spread; and
one synthetic table treated as if it were data.
Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import json
from itertools import product

import numpy as np
from scipy.stats import t as student

import tables
from dpconvex.algorithms.queries import noisy_tables
from dpconvex.data import TableCells
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource
from whole_tables import TABLES, shown


def coverage(name: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Return the shares of cells, and of whole tables, that lie in their intervals; nothing is fitted."""
    table = TABLES[name]()
    cells = TableCells.of_schema(table.schema)
    codes, n, rows = cells.encode(table.frame), len(table.frame), []
    queries = Marginals.of_order(cells.shape, 2)
    for k, (delta, epsilon) in enumerate(product(deltas, epsilons)):
        plan = noisy_tables.plan(queries, n, PrivacyParams(epsilon, delta), relations="all")
        truth = {s: noisy_tables.table_counts(codes, cells.shape, (s,))[0] / n for s in plan.subsets}
        held: dict[str, list[np.ndarray]] = {}
        for seed in range(seeds):
            released = plan.release(codes, SeededSource(k * seeds + seed), Ledger(plan.privacy, plan.releases))
            for subset, shares in truth.items():
                table_ = shares.reshape([cells.shape[axis] for axis in subset])
                for together in (False, True):
                    found = released.interval(subset, table_, 0.95, together)
                    inside = (found.low <= table_) & (table_ <= found.high)
                    parts = {"at once": inside.all()} if together else {"cells": inside, "occupied": inside[table_ > 0]}
                    for what, part in parts.items():
                        held.setdefault(f"{('columns', 'pairs')[len(subset) - 1]} {what}", []).append(part)
        row = {"table": name, "epsilon": epsilon, "delta": delta, "law": plan.law, "seeds": seeds}
        for what, found in held.items():
            runs = np.array_split(np.concatenate(found, axis=None), seeds)
            means = np.array([part.mean() for part in runs])
            row |= {what: float(means.mean()), f"{what} s.e.": float(means.std(ddof=1) / seeds**0.5)}
        rows.append(row)
        print(shown(row), flush=True)
    return rows


NUMBERS = ("age", "education-num", "hours-per-week", "sex", "marital-status", "income")


FIGURES = ("mean age", "mean hours", "mean income", "age", "education", "hours", "sex", "married")


def figures(second: np.ndarray) -> np.ndarray:
    """Return three means, and the coefficients of income on all others, from the second moments of (1, numbers)."""
    return np.concatenate([second[0, [1, 3, 6]], np.linalg.solve(second[:6, :6], second[:6, 6])[1:]])


def variances(rows: np.ndarray) -> np.ndarray:
    """Return the variances of `figures` for independently drawn records; heteroskedasticity is allowed for."""
    X, second, n = rows[:, :6], rows.T @ rows / len(rows), len(rows)
    pull = (rows[:, 6] - X @ np.linalg.solve(second[:6, :6], second[:6, 6]))[:, None] * X
    inverse = np.linalg.inv(second[:6, :6])
    spread = np.diag(inverse @ (pull.T @ pull / n) @ inverse)[1:]
    return np.concatenate([rows[:, [1, 3, 6]].var(axis=0), spread]) / n


def copies(epsilons: list[float], deltas: list[float], seeds: int, count: int) -> list[dict]:
    """Return the shares of seeds in which each way's intervals hold the population's figures."""
    table, n, rows = tables.adult(45_222), 20_000, []
    cells = TableCells.of_schema(table.schema, (*NUMBERS, "race"))
    codes, queries = cells.encode(table.frame), Marginals.of_order(cells.shape, 2)
    scales = [np.arange(size) / (size - 1) for size in cells.shape]
    scales[4] = np.array([float("civ" in label) for label in cells.columns[4].labels])

    def numbers(codes: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(codes)), *(scales[k][codes[:, k]] for k in range(6))])

    def of_model(model) -> np.ndarray:
        second = np.ones((7, 7))
        for i in range(6):
            second[0, i + 1] = second[i + 1, 0] = scales[i] @ model.marginal((i,))
            second[i + 1, i + 1] = scales[i] ** 2 @ model.marginal((i,))
            for j in range(i):
                second[i + 1, j + 1] = second[j + 1, i + 1] = scales[i] @ model.marginal((i, j)) @ scales[j]
        return figures(second)

    def drawn(model, rng: np.random.Generator) -> np.ndarray:
        """Return independent records, picked from ten times as many because the sampler rounds shares."""
        return model.sample(10 * n, rng)[rng.integers(0, 10 * n, n)]

    def of_records(codes: np.ndarray) -> np.ndarray:
        Z = numbers(codes)
        return np.stack([figures(Z.T @ Z / n), variances(Z)])

    everyone = numbers(codes)
    truth = figures(everyone.T @ everyone / len(codes))
    for delta, epsilon in product(deltas, epsilons):
        plan = noisy_tables.plan(queries, n, PrivacyParams(epsilon, delta), relations="all")
        held: dict[str, list[np.ndarray]] = {}
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            model = plan.run(codes[rng.integers(0, len(codes), n)], SeededSource(seed)).model
            own, one, found, again = of_model(model), of_records(drawn(model, rng)), [], []
            for k in range(count):
                copy = plan.run(drawn(model, rng), SeededSource(seeds + seed * count + k)).model
                again.append(of_model(copy))
                found.append(of_records(drawn(copy, rng)))
            mean, within = np.mean(found, axis=0)
            total = (1 + 1 / count) * np.var([each for each, _ in found], axis=0, ddof=1) - within
            spread, wide = np.var(again, axis=0, ddof=1), student.ppf(0.975, count - 1)
            ways = {
                "one table as data": (one[0], 1.96 * np.sqrt(one[1])),
                "Raghunathan-Reiter": (mean, wide * np.sqrt(np.maximum(total, within))),
                "model, spread of copies": (own, wide * np.sqrt(spread)),
                "corrected": (2 * own - np.mean(again, axis=0), wide * np.sqrt((1 + 1 / count) * spread)),
            }
            for way, (middle, half) in ways.items():
                held.setdefault(way, []).append(np.abs(middle - truth) <= half)
        for way, inside in held.items():
            row = {"epsilon": epsilon, "delta": delta, "raw": plan.raw, "seeds": seeds, "way": way}
            rows.append(
                {**row, "all": float(np.mean(inside)), **dict(zip(FIGURES, np.mean(inside, axis=0), strict=True))}
            )
            print(shown(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--coverage", nargs="+", choices=tuple(TABLES))
    what.add_argument("--copies", type=int)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.3, 1, 3, 10])
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-6, 0.0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json")
    given = parser.parse_args()
    rows = copies(given.epsilon, given.delta, given.seeds, given.copies) if given.copies else []
    for name in given.coverage or ():
        rows += coverage(name, given.epsilon, given.delta, given.seeds)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
