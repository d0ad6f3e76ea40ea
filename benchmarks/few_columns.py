"""Find from how many records on looks at the declared ranges of columns should be taken.

    python benchmarks/few_columns.py [--epsilon 0.3] [--seeds 2] [--additive | --users] [--json FILE]
    python benchmarks/few_columns.py --parts made | learning | held_out [--worth 0.5 ...] [--json FILE]

Tables are the learning half and `corpus.MORE_NUMBERS`, under pure epsilon. Samples are drawn so that epsilon times the
number of records, divided by the number of columns that may be looked at, is one of `EACH`. Ranges of columns are as
declared, and five times as wide (upwards). A ratio is the training excess with looks, for a tenth or a fifth of
epsilon, over that without looks; an excess counts as at least .01 of a constant's. Both fits of numbers look at the
target. A line has the geometric mean of the ratios, the standard error of its logarithm and the worst cell; lines
"from ... on" have the mean over all cells if looks are taken from that number on. With ``--users`` each user has three
records. Fits are seeded, hence not private.

``--parts`` compares what looks at columns and targets offer: all 528 parts, no look at all, and the parts that
`ranges.offered` names where all halvings are worth at most ``--worth`` of the units, at so many records times epsilon a
column (`UNITS`). Tables are those that a program chose (`many_tables.py`), or ``made``: even, normal and skewed
columns in ranges that are right or four times too wide, of which a third tell of a class or a number. An excess counts
from .02 of a constant's on.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import corpus
import many_tables
from consistency import ADDITIVE, FLOOR, Case
from declared_ranges import WIDENED, declared
from dpconvex import NumericColumn, Schema, _rounding
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.estimators._features import FromSchema

EACH = (100, 150, 220, 300, 400)
FROM = (100, 150, 220, 300, 400, 500)
UNITS = (155, 220, 320, 500, 900)
WIDE = ("declared", "5, upwards")
SHARES = (0.1, 0.2)


def cell(name: str, units: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a line for each width: excesses without and with looks; no line if the table has too few records."""
    table, many = corpus.load(name), 3 if given.users else 1
    columns = len(FromSchema(table.schema).lookable)
    n = round(units * columns / given.epsilon)
    if not columns or n * many > len(table.y):
        return []
    rows = np.random.default_rng(2).permutation(len(table.y))[: n * many]
    case = Case(name, table.schema, table.frame.iloc[rows].reset_index(drop=True))
    more: dict[str, Any] = {"kind": ADDITIVE[case.kind]} if given.additive else {}
    more |= {"given": {"groups": np.repeat(np.arange(n), 3)}} if given.users else {}
    lines = []
    for wide in WIDE:
        schema = declared(table.schema, "columns", *WIDENED["columns"][wide])
        line: dict[str, Any] = {"table": name, "units": units, "wide": wide, "kind": case.kind}
        for share in (0.0, *SHARES):
            ranges.looks_cost = lambda epsilon, _, count, share=share: (
                _rounding.product_down(share, epsilon) * (count > 0)
            )
            losses = [case.ask(given.epsilon, 0.0, seed, schema=schema, **more) for seed in range(given.seeds)]
            line[str(share)] = max(float(np.mean(losses)), FLOOR)
        lines.append(line)
    return lines


def made() -> Iterator[many_tables.Task]:
    """Yield tables of 4,000 records with 5, 10 and 30 columns in [-1, 1]."""
    laws: dict[str, Callable[..., np.ndarray]] = {
        "even": lambda rng, size: rng.uniform(-1, 1, size),
        "normal, a third": lambda rng, size: rng.normal(size=size) / 3,
        "normal, a fifth": lambda rng, size: rng.normal(size=size) / 5,
        "four times too wide": lambda rng, size: rng.uniform(-0.25, 0.25, size),
        "log-normal": lambda rng, size: np.exp(rng.normal(size=size)) / 20,
    }
    for (law, draw), d, number, seed in product(laws.items(), (5, 10, 30), (True, False), range(2)):
        rng = np.random.default_rng(1000 * seed + d)
        Z = draw(rng, (4000, d))
        z = ((Z - Z.mean(0)) / Z.std(0))[:, : max(3, d // 3)].mean(1) * max(3, d // 3) ** 0.5
        noise = rng.normal(size=4000), rng.random(4000)
        y = np.clip(0.5 + 0.12 * z + 0.05 * noise[0], 0, 1) if number else (noise[1] < 1 / (1 + np.exp(-2 * z))) * 1
        names = [f"c{k}" for k in range(d)]
        target: Any = NumericTarget("y", 0, 1) if number else ClassTarget("y", ("0", "1"))
        schema = Schema(tuple(NumericColumn(name, -1, 1) for name in names), target)
        frame = pd.DataFrame(Z, columns=names).assign(y=y if number else np.where(y, "1", "0"))
        case = Case(law, schema, frame)
        name, kind = f"{law} {d} {seed} {'number' if number else 'class'}", many_tables.KINDS[2 if number else 0]
        yield many_tables.Task(name, kind, schema, frame, schema.encode(frame), y, case.constant, case.best)


def parts_offered(given: argparse.Namespace) -> None:
    """Print excess relative to all parts, by kind of table and by records times epsilon a column."""
    few, costs, lines = ranges.offered, (ranges.looks_cost, ranges.look_cost), []
    chosen = (each for place in many_tables.tables(given.parts) for each in many_tables.tasks(*place, 6000))
    for task in made() if given.parts == "made" else chosen:
        columns = len(FromSchema(task.schema).lookable)
        for units in UNITS:
            epsilon = units * columns / len(task.y)
            if not columns or not 0.03 <= epsilon <= 10:
                continue
            for worth in (None, 0.0, *given.worth):
                ranges.offered = few if worth else lambda _: np.arange(len(ranges.FIRST))
                ranges.MOST_WORTH = worth or ranges.MOST_WORTH
                ranges.looks_cost, ranges.look_cost = (lambda *_, **__: 0.0,) * 2 if worth == 0 else costs
                for line in many_tables.measured(task, [epsilon * 1.0001], [0.0], 1):
                    gain = max(line["constant"] - line["best"], 0.02 * line["constant"])
                    kind = task.name.rsplit(" ", 3)[0] if given.parts == "made" else task.kind
                    told = {"kind": kind, "table": task.name, "units": units, "worth": str(worth)}
                    lines.append(told | {"excess": max((line["loss"] - line["best"]) / gain, 0.02)})
        if given.json:
            given.json.write_text(json.dumps(lines))
    found = pd.DataFrame(lines)
    wide = found.pivot_table(index=["kind", "table", "units"], columns="worth", values="excess")
    moved: Any = np.log(wide.div(wide["None"], axis=0))
    for by in ("kind", "units", None):
        for key, part in [("all", moved)] if by is None else moved.groupby(level=by):
            tables = part.groupby(level="table").mean()
            for worth in [name for name in moved if name != "None"]:
                mean, error = tables[worth].mean(), tables[worth].std() / len(tables) ** 0.5
                worst = np.exp(part[worth].max())
                print(f"{key} | worth {worth} | {np.exp(mean):.3f} ({error:.3f}), worst {worst:.1f}, {len(part)} cells")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--additive", action="store_true")
    parser.add_argument("--users", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--parts", choices=("made", "learning", "held_out"), help="compare what looks offer")
    parser.add_argument("--worth", nargs="+", type=float, default=[ranges.MOST_WORTH])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.parts:
        return parts_offered(given)
    names = [n for n in (*corpus.LEARNING, *corpus.MORE_NUMBERS) if n not in (*corpus.MANY_CLASSES, "lending")]
    lines = [line for name, units in product(names, EACH) for line in cell(name, units, given)]
    if given.json:
        given.json.write_text(json.dumps(lines))
    for share, wide, kind in product(SHARES, WIDE, ("classes", "numbers")):
        own = [line for line in lines if (line["wide"], line["kind"]) == (wide, kind)]
        gains = [(line["table"], line["units"], float(np.log(line[str(share)] / line["0.0"]))) for line in own]
        for units in EACH:
            found = np.array([gain for _, at, gain in gains if at == units])
            if len(found):
                mean, error, worst = np.exp(found.mean()), found.std() / len(found) ** 0.5, np.exp(found.max())
                print(
                    f"{share}, {wide}, {kind}, {units}: {mean:.2f} ({error:.2f}), worst {worst:.1f}, {len(found)} cells"
                )
        for least in FROM:
            of = {table: [g * (at >= least) for name, at, g in gains if name == table] for table, *_ in gains}
            means = np.array([np.mean(each) for each in of.values()])
            print(f"  from {least} on: {np.exp(means.mean()):.3f} ({means.std() / len(means) ** 0.5:.3f})")


if __name__ == "__main__":
    main()
