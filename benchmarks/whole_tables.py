"""Synthetic data for whole tables: total variation of all two-way tables, and training on synthetic records.

    python benchmarks/whole_tables.py [--tables adult diamonds flights] [--epsilon 0.1 1] [--delta 0 1e-6] [--seeds 3]
        [--auc] [--json FILE] [--figure FILE] [--codes FILE]
    python benchmarks/whole_tables.py --corpus learning [--json FILE]
    python benchmarks/whole_tables.py --mending learning [--delta 1e-6] [--json FILE]
    python benchmarks/whole_tables.py --one-noise learning --seeds 1 [--delta 1e-6] [--values 3]
    python benchmarks/whole_tables.py --bins 16 private --tables learning (or drafted, or names) --seeds 1
    python benchmarks/whole_tables.py --ranges --tables adult diamonds credit --epsilon 0.3 1 3 --seeds 3
    python benchmarks/whole_tables.py --coverage --tables adult diamonds --epsilon 0.1 1 --seeds 20
    python benchmarks/whole_tables.py --copies 5 --epsilon 0.1 1 --seeds 100

Mean and largest total variation over all pairs of columns between the model, or as many records drawn from it, and the
data, all rows of the table, numbers in 16 bins; beside it the model of independent columns with the whole promise
(`relations="none"`). With `--auc` a logistic regression is trained on records drawn from a release of 80 % of the rows
and tested on the other 20 %, which were not synthesized; the last line of a table is the same on the real 80 %.
`--codes` writes the encoded tables for `whole_tables_peers.py`, and measures nothing.

`--corpus` measures all pairs, no pair and a chosen forest on half of the corpus. On the learning half it fits the
numbers of `noisy_tables.EXPECTED` and says what the choice by a fit to all *other* tables loses; on the other half it
says what the choice loses as it is.

`--mending` measures, on half of the corpus, what fitting again does to the mean and to the largest total variation, for
thresholds of `latent_classes.MISSED`, and with Laplace noise for numbers of further fits (`noisy_tables.AGAIN`): the
ratio to the same fit without. On the learning half it says what each table loses by the one that is best, in the mean
of both logarithms, for all others.

`--one-noise` measures, on half of the corpus, all pairs with noise of each table and of all tables at once,
where that is taken; with `--values`, of columns of at most so many values.

`--bins` compares public bins of equal width to bins that are found inside the ranges that `schema draft` reads off,
single records protected, by measures that depend on neither: of 80 % of the rows and as many drawn records; beside them
both halves of these rows, and columns whose rows are shuffled apart. With 16 and private it says from which noise of a
cell on found bins lose, each table judged by all others.

`--ranges` compares releases with declared ranges to releases that find all ranges themselves: as many drawn records as
the table has, put into the 16 bins of the *declared* ranges, which favors these; "own": the model, in its own bins.

`--coverage` counts how often the intervals of `marginal(..., interval=0.95)` hold the data's shares: all cells of all
tables of one and two columns, cell by cell, and all cells of a table at once (``together=True``).

`--copies m` asks whether inference from synthetic records could be repaired: seven columns of Adult, 20,000 records
drawn anew for each seed from its rows, which are the population; how often 95 % intervals hold its means and least-
squares coefficients (income on the others, of bins' numbers). m copies are simulated from the released model, noise and
fit included: the rule of Raghunathan and Reiter, the model's own figures with the copies' spread, and the same with
twice the model's figures less the copies' mean; beside them one synthetic table as if it were data.
Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize
from scipy.stats import ks_2samp, t as student
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score, roc_auc_score

import corpus
import drafted_tables
import tables
from dpconvex import PrivateSyntheticData
from dpconvex.algorithms.queries import latent_classes, noisy_tables, noisy_tree
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.data import NumericColumn, NumericTarget, Schema, TableCells, draft_schema
from dpconvex.data.frames import numbers, open_table
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource

TABLES = {
    "adult": lambda: tables.adult(45_222),
    "diamonds": tables.diamonds,
    "flights": tables.flights,
    "credit": tables.credit,
    "caravan": tables.caravan,
    "celeba": tables.celeba,
    **{name: partial(corpus.load, name) for half in corpus.HALVES.values() for name in half},
}


def variations(queries: Marginals, truth: np.ndarray, answers: np.ndarray) -> tuple[float, float]:
    """Mean and largest total variation over the tables."""
    found = np.add.reduceat(np.abs(truth - answers), [block.start for block in queries.blocks]) / 2
    return float(found.mean()), float(found.max())


def auc(schema, train, test) -> float:
    labels = schema.encode_target(train)
    if len(np.unique(labels)) < 2:
        return 0.5  # nothing of the rarer class was drawn
    model = LogisticRegression(C=10.0, max_iter=300).fit(schema.encode(train), labels)
    return float(roc_auc_score(schema.encode_target(test), model.predict_proba(schema.encode(test))[:, 1]))


def measure(name: str, epsilons: list[float], deltas: list[float], seeds: int, with_auc: bool) -> list[dict]:
    table = TABLES[name]()
    cells = TableCells.of_schema(table.schema)
    codes, n = cells.encode(table.frame), len(table.frame)
    center = len(cells.shape) - 1
    ordered = tuple(k for k, part in enumerate(cells.described) if part.numeric)
    queries = Marginals(cells.shape, Marginals.of_order(cells.shape, 2).subsets, center=center, ordered=ordered)
    truth = queries.record_sums(codes) / n
    rows = []
    for delta in deltas:
        for epsilon in epsilons:
            for kind in ("auto", "none") if len(cells.shape) < 60 else ("auto",):
                privacy = PrivacyParams(epsilon, delta)
                plan = plan_queries(queries, n, privacy)[0]
                if kind != "auto":
                    plan = noisy_tables.plan(queries, n, privacy, relations=kind)
                found, start = [], time.process_time()
                for seed in range(seeds):
                    result = plan.run(codes, SeededSource(seed))
                    model = variations(queries, truth, result.answers)
                    drawn = result.model.sample(n, np.random.default_rng(seed))
                    found.append((*model, variations(queries, truth, queries.record_sums(drawn) / n)[0]))
                mean, largest, records = np.mean(found, axis=0)
                seconds = (time.process_time() - start) / seeds
                facts = {
                    "chosen": kind == "auto",
                    "law": plan.law,
                    "method": plan.algorithm,
                    "measured": kind if kind == "none" else str(plan.public.get("relations", "forest")),
                    "raw": plan.raw,
                    "seeds": seeds,
                }
                row = {"table": name, "epsilon": epsilon, "delta": delta, **facts, "mean": mean, "largest": largest}
                rows.append({**row, "deviation": float(np.std(found, axis=0)[0]), "records": records, "cpu": seconds})
                print(shown(rows[-1]), flush=True)
    if with_auc:
        rows += trained(name, table, epsilons, deltas)
    return rows


def found_ranges(name: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Records drawn with declared and with private ranges, both in bins of the declared ones."""
    table, rows = TABLES[name](), []
    cells = TableCells.of_schema(table.schema)
    codes, queries = cells.encode(table.frame), Marginals.of_order(cells.shape, 2)
    truth, schemas = queries.record_sums(codes) / len(codes), (table.schema, table.schema.without_ranges())
    for (delta, epsilon), schema in product(product(deltas, epsilons), schemas):
        found = []
        for seed in range(seeds):
            model = PrivateSyntheticData(epsilon, delta, schema=schema, bins=16, random_state=seed).fit(table.frame)
            drawn = queries.record_sums(cells.encode(model.sample(len(codes), seed))) / len(codes)
            own = model.queries_.record_sums(model.cells_.encode(open_table(table.frame))) / len(codes)
            found.append((*variations(queries, truth, drawn), variations(queries, own, model.answers_)[0]))
        row = {"table": name, "epsilon": epsilon, "delta": delta, "ranges": "found" if model.ranges_ else "declared"}
        row |= {"measured": str(model.plan_.public["relations"]), "seeds": seeds}
        row |= {"mean": np.mean(found, axis=0)[0], "s.e.": np.std(found, axis=0, ddof=1)[0] / seeds**0.5}
        rows.append({**row, "largest": np.mean(found, axis=0)[1], "own": np.mean(found, axis=0)[2]})
        print(shown(rows[-1]), flush=True)
    return rows


def coverage(name: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Shares of cells, and of whole tables, that lie in their intervals; nothing is fitted."""
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


DRAFTED = ["accidents", "ames", "birds", "covid", "happiness", "injury", "murders", "obesity", "storms", "weather"]


def stranger(name: str) -> tuple[pa.Table, Schema]:
    """A table with its schema as `schema draft` makes it, confirmed as it is; single records are protected."""
    if name in drafted_tables.TABLES:
        frame, schema, _ = drafted_tables.read(name)
    else:
        table = corpus.load(name)
        frame = table.frame
        draft = draft_schema(frame, table.schema.target.name)
        schema = Schema.from_toml_text(draft.replace("confirmed = false", "confirmed = true", 1))
    return open_table(frame).to_arrow(), replace(schema, user=None)


class Ruler:
    """Measures that depend on real rows alone: numbers in up to 16 bins between their quantiles, what is missing apart.

    Mean total variation of pairs, mean Kolmogorov-Smirnov distance of numeric columns, and what a boosted tree learns.
    """

    def __init__(self, schema: Schema, train: pa.Table, test: pa.Table) -> None:
        cells = TableCells.of_schema(schema)
        self.cells, self.numbers = cells, [k for k, part in enumerate(cells.described) if part.numeric]
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
        found = {"pairs": variations(self.queries, self.truth, self.shares(values))[0]}
        each = [[part[~np.isnan(part)] for part in (self.train[:, k], values[:, k])] for k in self.numbers]
        found["columns"] = float(np.mean([ks_2samp(*pair).statistic if min(map(len, pair)) else 1.0 for pair in each]))
        return found | {"learned": self.learned(values)}

    def learned(self, values: np.ndarray) -> float:
        """Area under the curve (mean over classes), or R^2, on the real test rows."""
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
    """Records drawn with each kind of bins, by measures that depend on no bins of theirs."""
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


LIMITS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, np.inf)


def judge_bins(rows: list[dict]) -> None:
    """Print by noise of a cell what found bins are over equal ones, and what `found_bins.PAYS` loses, left out."""
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


NUMBERS = ("age", "education-num", "hours-per-week", "sex", "marital-status", "income")
FIGURES = ("mean age", "mean hours", "mean income", "age", "education", "hours", "sex", "married")


def figures(second: np.ndarray) -> np.ndarray:
    """Three means, and the coefficients of income on all others, from the second moments of (1, numbers)."""
    return np.concatenate([second[0, [1, 3, 6]], np.linalg.solve(second[:6, :6], second[:6, 6])[1:]])


def variances(rows: np.ndarray) -> np.ndarray:
    """Of the same figures, as of records that were drawn independently; heteroskedasticity is allowed for."""
    X, second, n = rows[:, :6], rows.T @ rows / len(rows), len(rows)
    pull = (rows[:, 6] - X @ np.linalg.solve(second[:6, :6], second[:6, 6]))[:, None] * X
    inverse = np.linalg.inv(second[:6, :6])
    spread = np.diag(inverse @ (pull.T @ pull / n) @ inverse)[1:]
    return np.concatenate([rows[:, [1, 3, 6]].var(axis=0), spread]) / n


def copies(epsilons: list[float], deltas: list[float], seeds: int, count: int) -> list[dict]:
    """Shares of seeds in which each way's intervals hold the population's figures."""
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
        """Records one by one: the sampler rounds, so they are picked from ten times as many."""
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


def of_corpus(half: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Mean total variation of the three designs, a row a table and budget."""
    rows = []
    for name in corpus.LEARNING if half == "learning" else corpus.HELD_OUT:
        table = corpus.load(name)
        cells = TableCells.of_schema(table.schema)
        codes, n, columns = cells.encode(table.frame), len(table.frame), len(cells.shape)
        queries = Marginals(cells.shape, Marginals.of_order(cells.shape, 2).subsets, center=columns - 1)
        truth = queries.record_sums(codes) / n
        if columns < 4:
            continue  # no forest to choose
        for delta, epsilon in product(deltas, epsilons):
            privacy = PrivacyParams(epsilon, delta)
            usual = {"all": "tables", "none": "auto"}
            plans = {k: noisy_tables.plan(queries, n, privacy, relations=k, noise=each) for k, each in usual.items()}
            plans["tree"] = noisy_tree.plan(queries, n, privacy)
            row = {"table": name, "n": n, "epsilon": epsilon, "delta": delta, "law": plans["all"].law}
            row |= {"noise": plans["all"].alone, "raw": plans["all"].raw, "center": plans["tree"].center is not None}
            row["chosen"] = min(plans, key=lambda kind: plans[kind].ranked)
            for kind, plan in plans.items() if 0.02 < row["raw"] < 4 else ():
                runs = [plan.run(codes, SeededSource(seed)).answers for seed in range(seeds)]
                row[kind] = float(np.mean([variations(queries, truth, answers)[0] for answers in runs]))
            if "tree" in row:
                rows.append(row)
                print(shown(row), flush=True)
    return rows


def with_pairs(half: str, values: float = np.inf) -> Iterator[tuple[str, np.ndarray, Marginals, np.ndarray]]:
    """Each table of a half of the corpus: its name, codes of its records, all pairs of columns, and their shares.

    Of columns of at most so many values.
    """
    for name in corpus.HALVES[half]:
        table = corpus.load(name)
        cells = TableCells.of_schema(table.schema)
        kept = [k for k, size in enumerate(cells.shape) if size <= values]
        if len(kept) < 2:
            continue
        codes = cells.encode(table.frame)[:, kept]
        queries = Marginals.of_order(tuple(cells.shape[k] for k in kept), 2)
        yield name, codes, queries, queries.record_sums(codes) / len(codes)


def one_noise(half: str, epsilons: list[float], deltas: list[float], seeds: int, values: float) -> list[dict]:
    """Errors of all pairs with independent noise and with one of all tables, where that is smaller."""
    rows = []
    for name, codes, queries, truth in with_pairs(half, values):
        for delta, epsilon, seed in product(deltas, epsilons, range(seeds)):
            plans = {"auto": noisy_tables.plan(queries, len(codes), PrivacyParams(epsilon, delta), relations="all")}
            if len(queries.shape) < 4 or not plans["auto"].joint or not 0.003 < plans["auto"].raw < 4:
                continue
            plans["tables"] = noisy_tables.plan(
                queries, len(codes), plans["auto"].privacy, relations="all", noise="tables"
            )
            row = {"table": name, "epsilon": epsilon, "delta": delta, "seed": seed, "raw": plans["auto"].raw}
            for noise, plan in plans.items():
                row[noise], row[f"{noise} largest"] = variations(
                    queries, truth, plan.run(codes, SeededSource(seed)).answers
                )
            rows.append(row)
            print(shown(row), flush=True)
    for delta, what in product(deltas, ("", " largest")):
        ratios = np.log([row[f"auto{what}"] / row[f"tables{what}"] for row in rows if row["delta"] == delta])
        mean, error, most = ratios.mean(), ratios.std(ddof=1) / len(ratios) ** 0.5, np.exp(ratios.max())
        mean, error = np.exp(mean), np.exp(mean) * error
        print(f"delta {delta}, one noise over independent{what}: {mean:.3f} ({error:.3f}), at most {most:.2f}")
    return rows


VARIANTS = {"gaussian": ("MISSED", (np.inf, 1.5, 2.0, 2.5, 3.0)), "laplace": ("again", (0, 1, 2))}


def mending(half: str, epsilons: list[float], deltas: list[float], seeds: int) -> list[dict]:
    """Errors of fits to the same noisy tables of all pairs, a row a table, budget and seed."""
    rows, usual, fits = [], latent_classes.MISSED, latent_classes._fits
    for name, codes, queries, truth in with_pairs(half):
        for delta, epsilon, seed in product(deltas, epsilons, range(seeds)):
            privacy = PrivacyParams(epsilon, delta)
            plan = noisy_tables.plan(queries, len(codes), privacy, relations="all", noise="tables")
            if len(queries.shape) < 3 or plan.steps or not 0.02 < plan.raw < (1.5 if plan.law == "gaussian" else 4):
                continue
            released = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
            row = {"table": name, "epsilon": epsilon, "delta": delta, "law": plan.law, "raw": plan.raw, "seed": seed}
            found: list = []  # the fits of folds are the same for all thresholds
            if plan.law == "gaussian":
                latent_classes._fits = lambda *given, found=found: (found or found.append(fits(*given)) or found)[0]
            for value in VARIANTS[plan.law][1]:
                latent_classes.MISSED = value if plan.law == "gaussian" else usual
                fitting = plan.fitting if plan.law == "gaussian" else replace(plan.fitting, again=value)
                model = latent_classes.fit(released, fitting)
                answers = np.concatenate([model.marginal(subset).ravel() for subset in queries.subsets])
                row[f"{value}"] = variations(queries, truth, answers)
            latent_classes.MISSED, latent_classes._fits = usual, fits
            rows.append(row)
            print(shown(row), flush=True)
    return rows


def judge_mending(rows: list[dict], learning: bool, law: str) -> None:
    rows, (name_, (without, *values)) = [row for row in rows if row["law"] == law], VARIANTS[law]
    if not rows:
        return
    ratios = {t: np.log([np.divide(row[f"{t}"], row[f"{without}"]) for row in rows]) for t in values}
    for t, found in ratios.items():
        mean, most, changed = np.exp(found.mean(axis=0)), np.exp(found.max(axis=0)), (found != 0).any(axis=1).sum()
        both = [f"{mean[k]:.3f} (at most {most[k]:.2f})" for k in range(2)]
        print(f"{law}, {name_} {t}: mean {both[0]}, largest {both[1]}; changed {changed} of {len(rows)}")
    own, out = np.array([row["table"] for row in rows]), []
    for name in np.unique(own) if learning else ():
        best = min(values, key=lambda t: ratios[t][own != name].mean())
        out.append(ratios[best][own == name])
    if out:
        print("each table by what is best for the others:", np.exp(np.concatenate(out).mean(axis=0)).round(3))


def fitted(kind: str, rows: list[dict]) -> np.ndarray:
    """Logarithms of relations and scale, and the powers of both noises (of `raw` for all pairs alone)."""
    start = np.array(
        {"all": (-9, 0.3, 0.65, 0.1), "none": (-2.8, -0.2, 0.75, 0.0), "tree": (-3.5, 0.3, 0.8, 0.0)}[kind]
    )
    free = np.array([kind != "all", True, True, kind == "all"])

    def loss(numbers: np.ndarray) -> float:
        full = np.where(free, numbers, start)
        off = np.array([np.log(forecast(full, row) / row[kind]) for row in rows])
        return float(np.mean(np.sqrt(1 + off**2 / 0.09) - 1) + 1e-3 * ((full - start) ** 2).sum())

    found = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 6000, "fatol": 1e-9, "xatol": 1e-5})
    return np.where(free, found.x, start)


def forecast(numbers: np.ndarray, row: dict) -> float:
    scale = np.exp(numbers[1]) * row["noise"] ** numbers[2] * row["raw"] ** max(numbers[3], 0.0)
    return float(np.hypot(np.exp(numbers[0]), scale))


def judge(rows: list[dict], learning: bool) -> None:
    """Print what the choice loses: on the learning half with each table left out of the fit."""
    kinds = ("all", "none", "tree")
    for law in ("laplace", "gaussian"):
        here, found = [row for row in rows if row["law"] == law], []
        if not here:
            continue
        for name in {row["table"] for row in here}:
            others = [row for row in here if row["table"] != name]
            numbers = {kind: fitted(kind, others) for kind in kinds} if learning else {}
            for row in (row for row in here if row["table"] == name):
                caution = {"tree": 1.0 if row["center"] else 1.1}
                guess = {kind: forecast(numbers[kind], row) * caution.get(kind, 1) for kind in numbers}
                chosen = min(guess, key=guess.__getitem__) if learning else row["chosen"]
                found.append((row[chosen] / row["none"], row[chosen] / min(row[kind] for kind in kinds), chosen))
        against, best, names = zip(*found, strict=True)
        mean, worse = np.exp(np.mean(np.log([against, best]), axis=1)), sum(ratio > 1.1 for ratio in against)
        print(f"{law}: over independent columns {mean[0]:.3f} (largest {max(against):.2f}, above 1.1 in {worse} of")
        print(
            f"  {len(against)}), over the best {mean[1]:.3f} (largest {max(best):.2f}); chosen {dict(Counter(names))}"
        )
        for kind in kinds if learning else ():
            relations, scale, *powers = fitted(kind, here)
            print(f"  {kind}: {np.exp(relations):.3f}, {np.exp(scale):.3f}, {powers[0]:.3f}, {powers[1]:.3f}")


def trained(name: str, table, epsilons: list[float], deltas: list[float]) -> list[dict]:
    """Train on records synthesized from 80 % of the rows, test on the others."""
    frame = open_table(table.frame).to_arrow()
    order = np.random.default_rng(1).permutation(len(frame))
    train, test = frame.take(order[len(frame) // 5 :]), frame.take(order[: len(frame) // 5])
    rows = []
    for delta in deltas:
        for epsilon in epsilons:
            model = PrivateSyntheticData(epsilon, delta, schema=table.schema, bins=16, random_state=0).fit(train)
            score = auc(table.schema, model.sample(random_state=0), test)
            rows.append({"table": name, "epsilon": epsilon, "delta": delta, "seeds": 1, "auc": score})
            print(shown(rows[-1]), flush=True)
    rows.append({"table": name, "epsilon": None, "delta": None, "auc": auc(table.schema, train, test)})
    print(shown(rows[-1]), flush=True)
    return rows


def shown(row: dict) -> str:
    return "  ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
    )


def draw(rows: list[dict], path: str) -> None:
    """Mean total variation against epsilon, of the first table measured."""
    import matplotlib.pyplot as plt

    rows = [row for row in rows if row["table"] == rows[0]["table"] and "mean" in row]
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for color, delta in enumerate(sorted({row["delta"] for row in rows})):
        name = f"delta {delta:g}"
        for chosen, style, what in ((True, "o-", name), (False, "x:", f"independent columns, {name}")):
            found = [row for row in rows if row["delta"] == delta and row["chosen"] == chosen]
            axes.loglog(
                [row["epsilon"] for row in found], [row["mean"] for row in found], style, color=f"C{color}", label=what
            )
    axes.set(xlabel="epsilon", ylabel="mean total variation of two-way tables")
    axes.legend(fontsize=8)
    figure.savefig(path)


def write_codes(names: list[str], path: str) -> None:
    stored = {}
    for name in names:
        table = TABLES[name]()
        cells = TableCells.of_schema(table.schema)
        stored |= {name: cells.encode(table.frame).astype(np.uint8), f"{name}_shape": np.array(cells.shape)}
    np.savez_compressed(path, **stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tables",
        nargs="+",
        choices=(*TABLES, *drafted_tables.TABLES, "learning", "drafted"),
        default=["adult", "diamonds", "flights"],
    )
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.3, 1, 3, 10])
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-6, 0.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--auc", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--figure")
    parser.add_argument("--codes")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--ranges", action="store_true")
    parser.add_argument("--copies", type=int)
    parser.add_argument("--corpus", choices=tuple(corpus.HALVES))
    parser.add_argument("--mending", choices=tuple(corpus.HALVES))
    parser.add_argument("--one-noise", choices=tuple(corpus.HALVES))
    parser.add_argument("--bins", nargs="+", choices=("16", "private", "auto"))
    parser.add_argument("--values", type=float, default=np.inf)
    arguments = parser.parse_args()
    if arguments.corpus:
        rows = of_corpus(arguments.corpus, [0.03, 0.1, 0.3, 1, 3], arguments.delta, arguments.seeds)
        judge(rows, arguments.corpus == "learning")
        arguments.tables = []
    elif arguments.mending:
        rows = mending(arguments.mending, [0.03, 0.1, 0.3, 1, 3], arguments.delta, arguments.seeds)
        for law in VARIANTS:
            judge_mending(rows, arguments.mending == "learning", law)
        arguments.tables = []
    elif arguments.one_noise:
        rows = one_noise(arguments.one_noise, [0.1, 0.3, 1, 3, 10], arguments.delta, arguments.seeds, arguments.values)
        arguments.tables = []
    elif arguments.bins:
        ways = [int(way) if way.isdigit() else way for way in arguments.bins]
        names = {"learning": corpus.LEARNING, "drafted": DRAFTED}
        chosen = [each for name in arguments.tables for each in names.get(name, [name])]
        rows = of_bins(chosen, arguments.epsilon, arguments.delta, arguments.seeds, ways)
        judge_bins(rows)
        arguments.tables = []
    elif arguments.copies:
        rows = copies(arguments.epsilon, arguments.delta, arguments.seeds, arguments.copies)
        arguments.tables = []
    elif arguments.codes:
        write_codes(arguments.tables, arguments.codes)
        return
    else:
        rows = []
    for name in arguments.tables:
        if arguments.coverage:
            rows += coverage(name, arguments.epsilon, arguments.delta, arguments.seeds)
            continue
        if arguments.ranges:
            rows += found_ranges(name, arguments.epsilon, arguments.delta, arguments.seeds)
            continue
        classes = arguments.auc and name != "diamonds"
        rows += measure(name, arguments.epsilon, arguments.delta, arguments.seeds, classes)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
