"""Measure grouped pairs of columns: what groups lose of relations, which error to expect, and where groups are better.

    python benchmarks/grouped_tables.py --kept
    python benchmarks/grouped_tables.py [--epsilon 0.1 0.3 1 3] [--delta 0 1e-6] [--json FILE]
    python benchmarks/grouped_tables.py --tables held_out (or names) [--seeds 3]

With `--kept` nothing is noisy: for the learning half of the corpus and four further tables it prints which share of the
mean total variation between pairs and independent columns is lost by grouping. A fit to that half gives
`grouped_tables.KEPT`, once for all columns, and the factor by which more is lost for columns without an order.

Without options it measures the mean and the largest total variation of pairs for several numbers of groups, with one
seed, on tables of the learning half where `auto` would otherwise take a forest or no pairs, or expects more than .05 of
all pairs. It fits `grouped_tables.EXPECTED`, and prints what the choice of groups gains and loses, each table judged by
the fit to all *other* tables. With `--tables` it measures what today's choice gains where `auto` takes groups. Noise is
seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from typing import Any

import numpy as np
from scipy.optimize import minimize

import corpus
from dpconvex.algorithms.queries import grouped_tables, noisy_tables
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.data import TableCells
from dpconvex.privacy import PrivacyParams
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource
from whole_tables import TABLES, variations

COUNTS = (2, 3, 4, 6, 8, 12)
TRIED = ((2, 0.6), (4, 0.6), (3, 0.35), (6, 0.35), (8, 0.2))
OTHERS = ("adult", "diamonds", "flights", "credit")


class Table:
    """A table's codes, its pairs of columns, and their exact shares."""

    def __init__(self, name: str) -> None:
        table = TABLES[name]()
        cells = TableCells.of_schema(table.schema)
        self.name, self.codes, self.shape = name, cells.encode(table.frame), cells.shape
        pairs = Marginals.of_order(cells.shape, 2).subsets
        self.queries = Marginals(cells.shape, pairs, center=len(cells.shape) - 1, ordered=cells.ordered)
        self.truth = self.queries.record_sums(self.codes) / len(self.codes)

    def left_out(self) -> dict[str, Any]:
        """Return, by number of groups, the share of the distance to independent columns that is lost without noise."""
        shape, subsets = self.shape, self.queries.subsets
        shares = [np.bincount(self.codes[:, k], minlength=size) / len(self.codes) for k, size in enumerate(shape)]
        apart = np.concatenate([np.outer(shares[i], shares[j]).ravel() for i, j in subsets])
        alone = variations(self.queries, self.truth, apart)[0]
        row = {"table": self.name, "sizes": shape, "ordered": self.queries.ordered, "independent": alone}
        for count in COUNTS:
            inside = []
            for k, each in enumerate(shares):
                of = grouped_tables.grouped(each, 1e-4, min(count, shape[k]), k in self.queries.ordered)
                held = each + 1e-12
                inside.append(np.where(of[:, None] == of, (held / np.bincount(of, held)[of])[:, None], 0.0))
            tables = zip(subsets, self.queries.blocks, strict=True)
            smooth = [
                inside[i] @ self.truth[block].reshape(shape[i], shape[j]) @ inside[j].T for (i, j), block in tables
            ]
            found = variations(self.queries, self.truth, np.concatenate([each.ravel() for each in smooth]))[0]
            row[str(count)] = found / alone
        return row


def kept() -> None:
    """Print what groups leave out, and what is fitted to it."""
    rows = [Table(name).left_out() for name in (*corpus.LEARNING, *OTHERS) if name_has_pairs(name)]
    for row in rows:
        print(f"{row['table']:22s} independent {row['independent']:.3f}", {c: round(row[str(c)], 2) for c in COUNTS})
    learning = [row for row in rows if row["table"] not in OTHERS]

    def expected(row: dict, count: int, numbers: np.ndarray, without: float) -> float:
        found = []
        for k, size in enumerate(row["sizes"]):
            at = np.log(16 * count / max(size, 16))
            lost = 1 - np.interp(at, np.log([1, *COUNTS, 16]), [0, *numbers, 1]) if count < size else 0.0
            found += [1 - min(1.0, lost * (1 if k in row["ordered"] else without))] * (size > 1)
        return 1 - float(np.outer(found, found)[np.triu_indices(len(found), 1)].mean())

    def loss(values: np.ndarray) -> float:
        pairs = product(learning, COUNTS)
        return sum((expected(row, count, values[:-1], values[-1]) - row[str(count)]) ** 2 for row, count in pairs)

    fit = minimize(loss, [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 2.0], method="Nelder-Mead", options={"maxiter": 8000})
    print(
        "kept:", dict(zip(COUNTS, fit.x[:-1].round(3), strict=True)), "times lost without an order:", fit.x[-1].round(2)
    )
    print("root mean square:", round((fit.fun / len(learning) / len(COUNTS)) ** 0.5, 3))


def name_has_pairs(name: str) -> bool:
    return len(TableCells.of_schema(TABLES[name]().schema).shape) > 2


def measure(name: str, epsilons: list[float], deltas: list[float]) -> list[dict]:
    rows, table = [], Table(name)
    queries, n = table.queries, len(table.codes)
    for delta, epsilon in product(deltas, epsilons):
        privacy = PrivacyParams(epsilon, delta)
        other = next(plan for plan in plan_queries(queries, n, privacy) if plan.algorithm != "grouped_tables")
        measured = str(other.public.get("relations"))
        if measured == "all" and other.ranked < 0.05:
            continue
        found = variations(queries, table.truth, other.run(table.codes, SeededSource(1)).answers)
        row = {"table": name, "columns": len(table.shape), "epsilon": epsilon, "delta": delta, "measured": measured}
        row |= {"mean": found[0], "largest": found[1], "ranked": other.ranked, "grouped": []}
        for count, share in TRIED:
            try:
                plan = grouped_tables.plan(queries, n, privacy, groups=count, share=share)
            except ValueError:
                continue  # no column has more values
            if plan.columns.raw > 0.08 or plan.pairs.expected_variation > 0.12:
                continue  # noise hides everything
            mean, largest = variations(queries, table.truth, plan.run(table.codes, SeededSource(1)).answers)
            facts = {"noise": plan.columns.raw, "pairs": plan.pairs.expected_variation, "left_out": plan.left_out}
            row["grouped"].append({"groups": count, "share": share, **facts, "mean": mean, "largest": largest})
        rows.append(row)
        best = min((each["mean"] for each in row["grouped"]), default=float("nan"))
        print(f"{name:22s} {delta:g} {epsilon:g} {measured:6s} {row['mean']:.4f} best groups {best:.4f}", flush=True)
    return rows


def forecast(numbers: np.ndarray, each: dict) -> float:
    relations, scale, power, of_pairs, powered = numbers
    noise, pairs = scale * each["noise"] ** power, of_pairs * each["pairs"] ** powered
    return float(np.sqrt((relations * each["left_out"]) ** 2 + noise**2 + pairs**2))


def fitted(rows: list[dict]) -> np.ndarray:
    each = [one for row in rows for one in row["grouped"]]

    def loss(logs: np.ndarray) -> float:
        return sum(np.log(forecast(np.exp(logs), one) / one["mean"]) ** 2 for one in each)

    start = np.log([0.06, 1.0, 1.0, 1.0, 1.0])
    return np.exp(minimize(loss, start, method="Nelder-Mead", options={"maxiter": 1500}).x)


def judge(rows: list[dict]) -> None:
    """Print the fit, and what the choice by a fit to all other tables gains and loses."""
    for delta in sorted({row["delta"] for row in rows}):
        kept_ = [row for row in rows if row["delta"] == delta and row["grouped"]]
        print("delta", delta, "EXPECTED", fitted(kept_).round(3), "of", len(kept_), "cells")
        gains = []
        for name in sorted({row["table"] for row in kept_}):
            numbers = fitted([row for row in kept_ if row["table"] != name])
            for row in (row for row in kept_ if row["table"] == name and row["columns"] >= noisy_tables.MANY):
                best = min(row["grouped"], key=lambda one: forecast(numbers, one))
                if forecast(numbers, best) / grouped_tables.GAINS < row["ranked"]:
                    gains.append([best[key] / row[key] for key in ("mean", "largest")])
        logs = np.log(gains)
        spread = logs.std(axis=0, ddof=1) / len(logs) ** 0.5
        print(f"taken in {len(gains)} cells: mean and largest pair", np.exp(logs.mean(axis=0)).round(3), "of the other")
        print(
            "standard error of the logarithm",
            spread.round(3),
            "worst, best",
            np.exp(logs[:, 0]).max().round(2),
            end=" ",
        )
        print(np.exp(logs[:, 0]).min().round(2))


def as_it_is(names: list[str], epsilons: list[float], deltas: list[float], seeds: int) -> None:
    """Where `auto` takes groups, print the mean and largest total variation of its plan and of the next one without."""
    gains = []
    for table in map(Table, names):
        for delta, epsilon in product(deltas, epsilons):
            plans = plan_queries(table.queries, len(table.codes), PrivacyParams(epsilon, delta))
            if plans[0].algorithm != "grouped_tables":
                continue
            other, each = next(plan for plan in plans if plan.algorithm != "grouped_tables"), []
            for plan in (plans[0], other):
                runs = [plan.run(table.codes, SeededSource(seed)).answers for seed in range(seeds)]
                each.append(np.mean([variations(table.queries, table.truth, answers) for answers in runs], axis=0))
            groups, measured = f"{max(plans[0].public['groups'])} groups", other.public.get("relations")
            print(f"{table.name:22s} {delta:g} {epsilon:g} {groups} {each[0].round(4)}, {measured} {each[1].round(4)}")
            gains.append(np.log(each[0] / each[1]))
    print(len(gains), "cells: mean and largest pair", np.exp(np.mean(gains, axis=0)).round(3), end=" ")
    print("worst", np.exp(np.max(gains, axis=0)).round(2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true")
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--delta", type=float, nargs="+", default=[0.0, 1e-6])
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.kept:
        return kept()
    if options.tables:
        names = corpus.HELD_OUT if options.tables == ["held_out"] else options.tables
        return as_it_is([*names], options.epsilon, options.delta, options.seeds)
    names = filter(name_has_pairs, corpus.LEARNING)
    rows = [row for name in names for row in measure(name, options.epsilon, options.delta)]
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)
    judge(rows)
    return None


if __name__ == "__main__":
    main()
