"""Compare bins that are found inside private ranges with public bins of equal width, for synthetic data.

    python benchmarks/found_bins.py 16 private --tables learning (or drafted, or names) --seeds 1
        [--epsilon 0.3 1 3] [--delta 0 1e-6] [--json FILE]
    python benchmarks/found_bins.py tails --tables made learning --seeds 2 --epsilon 0.3 1 3

Ranges are those that `schema draft` reads off, and single records are protected. The measures (`Ruler`) do not depend
on the bins of either method. They compare 80 % of the rows with as many drawn records; for comparison they are also
taken between both halves of these rows, and for columns whose rows are shuffled independently. For 16 bins and private
ranges, the last lines say from which noise of a cell on found bins lose; each table is judged by all other tables.
With `tails`, the same releases are compared before and after their tails are mended (`algorithms.queries.tails`): pairs
and columns as above, the mean error of a column's mean in its deviations, and the mean size of the logarithm of
deviations over those of the data. `made` is a table of columns of known laws.
Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from scipy.stats import ks_2samp
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score, roc_auc_score

import corpus
import drafted_tables
from dpconvex import PrivateSyntheticData
from dpconvex.algorithms.queries import tails
from dpconvex.data import NumericColumn, NumericTarget, Schema, TableCells, draft_schema
from dpconvex.data.frames import numbers, open_table
from dpconvex.problems.queries import Marginals
from whole_tables import shown, variations

DRAFTED = ["accidents", "ames", "birds", "covid", "happiness", "injury", "murders", "obesity", "storms", "weather"]


def stranger(name: str) -> tuple[pa.Table, Schema]:
    """Return a table, and its schema as `schema draft` makes it, confirmed as it is; single records are protected."""
    if name == "made":
        return made()
    if name in drafted_tables.TABLES:
        frame, schema, _ = drafted_tables.read(name, None)
    else:
        table = corpus.load(name)
        frame = table.frame
        draft = draft_schema(frame, table.schema.target.name)
        schema = Schema.from_toml_text(draft.replace("confirmed = false", "confirmed = true", 1))
    return open_table(frame).to_arrow(), replace(schema, user=None)


def made(n: int = 40_000) -> tuple[pa.Table, Schema]:
    """Return a table of unrelated columns of many shapes, in wide ranges, one of them the target."""
    rng = np.random.default_rng(0)
    heavy = np.exp(rng.normal(8, 0.7, n)).clip(0, 60_000).round()
    columns = {
        "spiked": (np.where(rng.random(n) < 0.03, 99_999, np.where(rng.random(n) < 0.6, 0, heavy)), 0, 99_999, 1),
        "heavy": (np.exp(rng.normal(8, 1, n)).round(), 0, 500_000, 1),
        "heavier": (np.exp(rng.normal(5, 1.2, n)), 0, 100_000, 0.01),
        "below": (30 - np.exp(rng.normal(3, 1, n)), -5_000, 100, 0.1),
        "exponential": (rng.exponential(10, n), 0, 1_000, 0.01),
        "normal": (rng.normal(50, 10, n), -1_000, 1_000, 0.1),
        "even": (rng.uniform(0, 100, n), 0, 100, 0.1),
        "modes": (np.where(rng.random(n) < 0.8, rng.normal(20, 3, n), rng.normal(90, 4, n)).clip(0, 100), 0, 100, 0.1),
        "ages": (np.where(rng.random(n) < 0.7, rng.uniform(18, 65, n), rng.uniform(65, 90, n)).round(), 17, 90, 1),
    }
    lines = ["confirmed = true", "[target]", 'name = "spiked"', "lower = 0", "upper = 99999", "step = 1"]
    for name, (_, lower, upper, step) in list(columns.items())[1:]:
        lines += [f"[columns.{name}]", f"lower = {lower}", f"upper = {upper}", f"step = {step}"]
    return pa.table({name: each[0] for name, each in columns.items()}), Schema.from_toml_text("\n".join(lines))


class Ruler:
    """Measures that depend on real rows alone; numbers are put into up to 16 bins between their quantiles.

    Missing numbers have a bin of their own. The measures are the mean total variation of pairs, the mean
    Kolmogorov-Smirnov distance of numeric columns, and what a boosted model learns of the target.
    """

    def __init__(self, schema: Schema, train: pa.Table, test: pa.Table) -> None:
        cells = TableCells.of_schema(schema)
        self.cells, self.numbers = cells, cells.ordered
        self.train, self.test = self.values(train), self.values(test)
        self.edges = {k: np.unique(np.nanquantile(self.train[:, k], np.arange(1, 16) / 16)) for k in self.numbers}
        sizes = [len(self.edges[k]) + 2 if k in self.edges else size for k, size in enumerate(cells.shape)]
        self.queries = Marginals.of_order(tuple(sizes), 2)
        self.target = len(sizes) - 1
        self.truth = self.shares(self.train)

    def values(self, table: pa.Table) -> np.ndarray:
        frame, found = open_table(table), []
        for column, part in zip(self.cells.columns, self.cells.described, strict=True):
            read = part.read(frame)
            found.append(numbers(read, texts=True) if part.numeric else column.encode(read).astype(float))
            if part.numeric and isinstance(part, NumericTarget | NumericColumn):
                found[-1] = np.clip(found[-1], part.lower, part.upper)
        return np.column_stack(found)

    def shares(self, values: np.ndarray) -> np.ndarray:
        codes = np.nan_to_num(values, nan=0.0).astype(np.int64)
        for k, edges in self.edges.items():
            bins = np.searchsorted(edges, values[:, k], side="right")
            codes[:, k] = np.where(np.isnan(values[:, k]), len(edges) + 1, bins)
        return self.queries.record_sums(codes) / len(codes)

    def of(self, values: np.ndarray) -> dict[str, float]:
        return self.near(values) | {"learned": self.learned(values)}

    def near(self, values: np.ndarray) -> dict[str, float]:
        found = {"pairs": variations(self.queries, self.truth, self.shares(values))[0]}
        each = [[part[~np.isnan(part)] for part in (self.train[:, k], values[:, k])] for k in self.numbers]
        found["columns"] = float(np.mean([ks_2samp(*pair).statistic if min(map(len, pair)) else 1.0 for pair in each]))
        moved = [(b.mean() - a.mean()) / a.std() for a, b in each if len(b) and a.std()]
        wider = [np.log(max(b.std(), 1e-9) / a.std()) for a, b in each if len(b) and a.std()]
        return found | {"means": float(np.mean(np.abs(moved))), "deviations": float(np.mean(np.abs(wider)))}

    def learned(self, values: np.ndarray) -> float:
        """Return the area under the curve (mean over classes), or R^2, on the real test rows."""
        X, y = np.delete(values, self.target, axis=1), values[:, self.target]
        X_test, y_test = np.delete(self.test, self.target, axis=1), self.test[:, self.target]
        X, y = X[~np.isnan(y)], y[~np.isnan(y)]
        X_test, y_test = X_test[~np.isnan(y_test)], y_test[~np.isnan(y_test)]
        if self.target in self.edges:
            model = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X, y)
            return float(max(r2_score(y_test, model.predict(X_test)), -1.0))
        if len(np.unique(y)) < 2:
            return 0.5
        model = HistGradientBoostingClassifier(max_iter=40, random_state=0, early_stopping=False).fit(X, y)
        given = dict(zip(model.classes_, model.predict_proba(X_test).T, strict=True))
        kept = [c for c in np.unique(y_test) if 0 < (y_test == c).mean() < 1]
        return float(np.mean([roc_auc_score(y_test == c, given.get(c, np.zeros(len(y_test)))) for c in kept]))


def of_bins(names: Sequence[str], epsilons: list[float], deltas: list[float], seeds: int, ways: Sequence[Any]) -> list:
    """Measure records that are drawn with each kind of bins, and return a row for each table, budget and kind."""
    rows = []
    for name in names:
        table, schema = stranger(name)
        order = np.random.default_rng(1).permutation(len(table))
        train, test = table.take(order[len(table) // 5 :]), table.take(order[: len(table) // 5])
        ruler, rng = Ruler(schema, train, test), np.random.default_rng(0)
        mixed = np.column_stack([rng.permutation(column) for column in ruler.train.T])
        half = Ruler(schema, train.slice(0, len(train) // 2), test).of(ruler.train[len(train) // 2 :])
        found = {"real": {**half, "learned": ruler.learned(ruler.train)}, "independent": ruler.of(mixed)}
        for way, row in found.items():
            rows.append({"table": name, "n": len(train), "way": way, **row})
            print(shown(rows[-1]), flush=True)
        for (delta, epsilon), way in product(product(deltas, epsilons), ways):
            runs, start = [], time.process_time()
            for seed in range(seeds):
                model = PrivateSyntheticData(epsilon, delta, schema=schema, bins=way, random_state=seed).fit(train)
                runs.append(ruler.of(ruler.values(model.sample(random_state=seed))))
            seconds, public = (time.process_time() - start) / seeds, model.plan_.public
            noise = public.get("private_bins", {"deviations": [np.nan]})["deviations"][-1] / len(train)
            row = {"table": name, "n": len(train), "epsilon": epsilon, "delta": delta, "way": str(way), "noise": noise}
            row |= {"measured": str(public.get("relations")), "cpu": seconds, "seeds": seeds}
            rows.append(row | {key: float(np.mean([run[key] for run in runs])) for key in runs[0]})
            rows[-1] |= {
                f"{key} s.e.": float(np.std([r[key] for r in runs]) / max(seeds - 1, 1) ** 0.5) for key in runs[0]
            }
            print(shown(rows[-1]), flush=True)
    return rows


def of_tails(names: Sequence[str], epsilons: list[float], deltas: list[float], seeds: int) -> list:
    """Measure records drawn before and after tails are mended, and return a row for each table and budget."""
    rows, kinds = [], ("pairs", "columns", "means", "deviations")
    for name in names:
        table, schema = stranger(name)
        ruler = Ruler(schema, table, table.slice(0, 1))
        for delta, epsilon in product(deltas, epsilons):
            row: dict[str, Any] = {"table": name, "n": len(table), "epsilon": epsilon, "delta": delta}
            for way, stands in (("before", np.inf), ("after", tails.STANDS)):
                runs = []
                for seed in range(seeds):
                    with mock.patch.object(tails, "STANDS", stands):
                        model = PrivateSyntheticData(epsilon, delta, schema=schema, random_state=seed).fit(table)
                    runs.append(ruler.near(ruler.values(model.sample(random_state=seed))))
                row |= {f"{way} {kind}": float(np.mean([run[kind] for run in runs])) for kind in kinds}
            rows.append(row | {"measured": str(model.plan_.public.get("relations"))})
            print(shown(rows[-1]), flush=True)
    for chosen, delta in product((["made"], sorted({*names} - {"made"})), deltas):
        if here := [row for row in rows if row["table"] in chosen and row["delta"] == delta]:
            both = np.array([[[row[f"{way} {kind}"] for kind in kinds] for way in ("before", "after")] for row in here])
            ratios, means = np.exp(np.log(both[:, 1] / both[:, 0]).mean(axis=0)), both.mean(axis=0)
            print(f"{len(here)} cells, delta {delta:g}; {', '.join(kinds)}: after over before {ratios.round(3)}")
            print(f"means before {means[0].round(4)}, after {means[1].round(4)}")
    return rows


LIMITS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, np.inf)


def judge_bins(rows: list[dict]) -> None:
    """Print errors of found over equal bins by noise of a cell, then for each table by the limit the others choose."""
    pairs: dict[tuple, dict[str, dict]] = {}
    for row in rows:
        if "epsilon" in row:
            pairs.setdefault((row["table"], row["epsilon"], row["delta"]), {})[row["way"]] = row
    each = [both for both in pairs.values() if {"16", "private"} <= set(both) and both["private"]["noise"] > 0]
    noise = np.array([both["private"]["noise"] for both in each])
    tables_ = np.array([both["private"]["table"] for both in each])
    logs = np.log([[both["private"][k] / both["16"][k] for k in ("pairs", "columns")] for both in each])
    learned = np.array([both["private"]["learned"] - both["16"]["learned"] for both in each])
    for low, high in itertools.pairwise((*LIMITS[:-1], 1.0, np.inf)):
        if (here := (low < noise) & (noise <= high)).any():
            ratios = " ".join(f"{ratio:.3f}" for ratio in np.exp(logs[here].mean(axis=0)))
            gain = f"pairs, columns {ratios}; learned {learned[here].mean():+.3f}"
            print(f"noise {low:g} to {high:g}, {here.sum()} cells: {gain}")
    best = []
    gains = {limit: logs * (noise <= limit)[:, None] for limit in LIMITS}
    for name in np.unique(tables_):
        limit = min(LIMITS, key=lambda one: gains[one][tables_ != name].mean())
        best.append((limit, gains[limit][tables_ == name]))
    print("limits chosen without one table:", Counter(limit for limit, _ in best))
    for what, found in (("each table by the others'", np.concatenate([g for _, g in best])), ("always", logs)):
        print(f"{what}: pairs, columns over equal bins", np.exp(found.mean(axis=0)).round(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bins", nargs="+", choices=("16", "private", "auto", "tails"))
    halves = {"learning": corpus.LEARNING, "drafted": DRAFTED}
    names = ("made", *halves, *corpus.LEARNING, *corpus.HELD_OUT, *drafted_tables.TABLES)
    parser.add_argument("--tables", nargs="+", choices=names, default=["learning"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.3, 1, 3, 10])
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-6, 0.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json")
    given = parser.parse_args()
    ways = [int(way) if way.isdigit() else way for way in given.bins]
    chosen = [each for name in given.tables for each in halves.get(name, [name])]
    facts = chosen, given.epsilon, given.delta, given.seeds
    rows = of_tails(*facts) if ways == ["tails"] else of_bins(*facts, ways)
    if {"16", "private"} <= set(given.bins):
        judge_bins(rows)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
