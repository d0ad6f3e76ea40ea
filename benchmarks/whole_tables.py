"""Measure synthetic data for whole tables: total variation of all two-way tables, and training on drawn records.

    python benchmarks/whole_tables.py [--tables adult diamonds flights] [--epsilon 0.1 1] [--delta 0 1e-6] [--seeds 3]
        [--auc] [--json FILE] [--figure FILE] [--codes FILE]
    python benchmarks/whole_tables.py --ranges --tables adult diamonds credit --epsilon 0.3 1 3 --seeds 3

It compares the data (all rows, numbers in 16 bins) with the released model, and with as many records drawn from it, by
the mean and the largest total variation over all pairs of columns. The model of independent columns, with the whole
promise (`relations="none"`), is measured too. With `--auc` a logistic regression (for numbers a linear one) is trained
on records drawn from a release of 80 % of the rows and tested on the other 20 %, which were not synthesized, except for
diamonds; the last line of a table has the same for training on the real 80 %. `--codes` writes the encoded tables for
`whole_tables_peers.py`, and measures nothing.

`--ranges` compares releases with declared ranges to releases that find all ranges themselves, by as many drawn records
as the table has, in the 16 bins of the *declared* ranges, which favors the former. "own" is the model in its own bins.

Neighbors replace one record; the number of rows is public. Noise is seeded, hence not private: the tables are public.
`found_bins.py` measures bins that are found, `table_choices.py` the numbers that choose among designs, and
`table_inference.py` intervals and inference from synthetic records.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from itertools import product

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

import corpus
import tables
from dpconvex import PrivateSyntheticData
from dpconvex.algorithms.queries import noisy_tables
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.data import TableCells
from dpconvex.data.frames import open_table
from dpconvex.privacy import PrivacyParams
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
    """Return the mean and the largest total variation over the tables."""
    found = np.add.reduceat(np.abs(truth - answers), [block.start for block in queries.blocks]) / 2
    return float(found.mean()), float(found.max())


def auc(schema, train, test) -> float:
    """Return the area under the curve of a logistic regression, mean over classes; for numbers R^2 of a linear one."""
    labels, wanted = (np.asarray(schema.encode_target(part)) for part in (train, test))
    X, X_test = schema.encode(train), schema.encode(test)
    if schema.target.numeric:
        return float(LinearRegression().fit(X, labels).score(X_test, wanted))
    if len(np.unique(labels)) < 2:
        return 0.5  # no record of the rarer class was drawn
    model = LogisticRegression(C=10.0, max_iter=300).fit(X, labels)
    given = dict(zip(model.classes_, model.predict_proba(X_test).T, strict=True))
    return area(schema, wanted, given)


def area(schema, wanted: np.ndarray, given: dict) -> float:
    """Return the area under the curve of scores by class, mean over classes; a class without scores has 0."""
    each = np.unique(wanted)[1 if len(schema.target.classes) == 2 else 0 :]
    return float(np.mean([roc_auc_score(wanted == label, given.get(label, 0.0 * wanted)) for label in each]))


def measure(name: str, epsilons: list[float], deltas: list[float], seeds: int, with_auc: bool) -> list[dict]:
    table = TABLES[name]()
    cells = TableCells.of_schema(table.schema)
    codes, n = cells.encode(table.frame), len(table.frame)
    center = len(cells.shape) - 1
    queries = Marginals(cells.shape, Marginals.of_order(cells.shape, 2).subsets, center=center, ordered=cells.ordered)
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
    """Measure records drawn with declared and with private ranges, both in the bins of the declared ranges."""
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


def trained(name: str, table, epsilons: list[float], deltas: list[float]) -> list[dict]:
    """Train on records synthesized from 80 % of the rows, and test on the other rows."""
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
    """Draw mean total variation over epsilon for the first table measured."""
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
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=["adult", "diamonds", "flights"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.1, 0.3, 1, 3, 10])
    parser.add_argument("--delta", nargs="+", type=float, default=[1e-6, 0.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--auc", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--figure")
    parser.add_argument("--codes")
    parser.add_argument("--ranges", action="store_true")
    arguments = parser.parse_args()
    if arguments.codes:
        write_codes(arguments.tables, arguments.codes)
        return
    rows = []
    for name in arguments.tables:
        asked = (name, arguments.epsilon, arguments.delta, arguments.seeds)
        rows += found_ranges(*asked) if arguments.ranges else measure(*asked, arguments.auc and name != "diamonds")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
