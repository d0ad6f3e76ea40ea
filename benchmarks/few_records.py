"""Find from how many records on a look at a target's declared range should be taken: `LEAST`, `LEAST_ALONE`.

    python benchmarks/few_records.py [--seeds 2] [--constant] [--users] [--json FILE]

Tables are the regressions of the learning half and of `corpus.MORE_NUMBERS`; samples are drawn from each, under pure
epsilon. The range is declared as it is, 3 times as wide (upwards) and 10 times (both ways). The excess of a fit is its
training loss above that of the best linear fit, as a share of the target's variance; below .002 it counts as .002. A
line is printed for each width and each epsilon times records: the geometric mean of the excess with a look over that
without one, its standard error, and the worst cell. Lines "from ... on" have the mean over all cells if the look is
taken from that number on; the last line judges each table by the number that is best for all other tables. With
``--constant`` a constant is fitted, and its loss is the squared distance from the mean. With ``--users`` each user has
three records, drawn at random. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import corpus
from declared_ranges import WIDENED, widened
from dpconvex import PrivateLinearRegression
from dpconvex.algorithms.erm.two_stage import ranges
from lost_ranges import NAMES

#: Pairs of epsilon times units, and epsilon.
CELLS = ((150, 0.1), (220, 0.1), (300, 0.1), (400, 0.1), (220, 0.3), (400, 0.3))
ALONE = ((30, 0.1), (60, 0.1), (100, 0.1), (60, 0.3), (200, 0.1))
FROM = (150, 200, 250, 350, 500)
NEVER, FLOOR = {"LEAST": np.inf, "LEAST_ALONE": np.inf}, 2e-3
ALWAYS = {"LEAST": 0.0, "LEAST_ALONE": 0.0}


class Looking(PrivateLinearRegression):
    _may_look = True  # although a constant is asked for


def cell(name: str, units: int, epsilon: float, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a line for each width: excess without a look and with one; no line if records are too few."""
    table, many = corpus.load(name), 3 if given.users else 1
    n = round(units / epsilon)
    if n * many > len(table.y):
        return []
    rows = np.random.default_rng(2).permutation(len(table.y))[: n * many]
    groups = {"groups": np.repeat(np.arange(n), 3)} if given.users else {}
    frame, y, X = table.frame.iloc[rows], table.y[rows], np.column_stack([table.X[rows], np.ones(n * many)])
    best = y.mean() if given.constant else X @ np.linalg.lstsq(X, y, rcond=None)[0]
    lines, algorithm = [], "constant" if given.constant else "auto"
    for wide in ("declared", "3, upwards", "10"):
        below, above, _ = WIDENED["target"][wide]
        schema = replace(table.schema, target=widened(table.schema.target, below, above))
        line: dict[str, Any] = {"table": name, "units": units, "wide": wide}
        for label, setting in (("without", NEVER), ("with", ALWAYS)):
            for key, value in setting.items():
                setattr(ranges, key, value)
            losses = []
            for seed in range(given.seeds):
                model = Looking(epsilon, schema=schema, random_state=seed, algorithm=algorithm).fit(frame, **groups)
                losses.append(np.square(model.predict(frame) - y).mean() - np.square(best - y).mean())
            line[label] = max(float(np.mean(losses) / y.var()), FLOOR)
        lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--constant", action="store_true")
    parser.add_argument("--users", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = ALONE if given.constant else CELLS
    lines = [line for name, (units, epsilon) in product(NAMES, cells) for line in cell(name, units, epsilon, given)]
    if given.json:
        given.json.write_text(json.dumps(lines))
    for line in lines:
        line["gain"] = float(np.log(line["with"] / line["without"]))
    for wide, units in product(("declared", "3, upwards", "10"), sorted({units for units, _ in cells})):
        gains = np.array([x["gain"] for x in lines if (x["wide"], x["units"]) == (wide, units)])
        if len(gains):
            error = gains.std() / len(gains) ** 0.5
            mean, worst = np.exp(gains.mean()), np.exp(gains.max())
            print(f"{wide}, {units}: {mean:.2f} (s.e. {error:.2f}), worst {worst:.1f}, {len(gains)} cells")
    taken = {
        least: {
            name: np.mean([x["gain"] * (x["units"] >= least) for x in lines if x["table"] == name])
            for name in {x["table"] for x in lines}
        }
        for least in FROM
    }
    for least, means in taken.items():
        print(f"from {least} on: {np.exp(np.mean(list(means.values()))):.3f}")
    left = []
    for name in taken[FROM[0]]:
        best = min(FROM, key=lambda least: np.mean([m for other, m in taken[least].items() if other != name]))
        left.append((best, taken[best][name]))
    print(f"left out: {np.exp(np.mean([m for _, m in left])):.3f}, chosen {sorted(best for best, _ in left)}")


if __name__ == "__main__":
    main()
