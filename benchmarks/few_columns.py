"""Find from how many records on looks at the declared ranges of columns should be taken.

    python benchmarks/few_columns.py [--epsilon 0.3] [--seeds 2] [--additive | --users] [--json FILE]

Tables are the learning half and `corpus.MORE_NUMBERS`, under pure epsilon. Samples are drawn so that epsilon times the
number of records, divided by the number of columns that may be looked at, is one of `EACH`. Ranges of columns are as
declared, and five times as wide (upwards). A ratio is the training excess with looks, for a tenth or a fifth of
epsilon, over that without looks; an excess counts as at least .01 of a constant's. Both fits of numbers look at the
target. A line has the geometric mean of the ratios, the standard error of its logarithm and the worst cell; lines
"from ... on" have the mean over all cells if looks are taken from that number on. With ``--users`` each user has three
records. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import corpus
from consistency import ADDITIVE, FLOOR, Case
from declared_ranges import WIDENED, declared
from dpconvex import _rounding
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.estimators._features import FromSchema

EACH = (100, 150, 220, 300, 400)
FROM = (100, 150, 220, 300, 400, 500)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilon", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--additive", action="store_true")
    parser.add_argument("--users", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
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
