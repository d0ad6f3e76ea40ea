"""Find the share in `REMAINS` for numbers: when should a constant replace a regression on columns?

    python benchmarks/constant_share.py [--shares .3 .45 .6 .75 1] [--rows 600 2500] [--seeds 2] [--additive]

Tables are the regressions of the learning half and of `corpus.MORE_NUMBERS`, with ranges as declared, under pure
epsilon; ``--rows`` says how many records are drawn from each. `auto` fits with each share in the place of `REMAINS`.
The loss of a fit is its training loss above that of the best linear fit, as a share of the target's variance. Printed
for each share: the mean over tables of its loss less that of the first share, with the standard error over tables, and
for each epsilon; the geometric mean of the loss relative to the first share; and the number of cells whose loss is
above 1.1 times that of a constant. The last line judges each table by the share that is best for all other tables.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import corpus
import prior
from dpconvex import PrivateAdditiveRegressor, PrivateLinearRegression
from dpconvex.errors import DpconvexWarning

EPSILONS = (0.1, 0.3, 1.0, 3.0)
NAMES = [n for n in corpus.LEARNING if len(corpus.RECIPES[n].target.split()) == 3] + list(corpus.MORE_NUMBERS)


def measured(name: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a line for each size and epsilon: best loss, and excess by share, both over the target's variance."""
    table = corpus.load(name)
    target: Any = table.schema.target
    lines = []
    for rows in sorted({min(rows, len(table.y)) for rows in given.rows}):
        order = np.random.default_rng(1).permutation(len(table.y))[:rows]
        frame, y = table.frame.iloc[order], table.y[order]
        X = np.column_stack([table.X[order], np.ones(rows)])
        left = float(np.square(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).mean() / y.var())
        for epsilon in EPSILONS:
            excess: dict[float, list[float]] = {share: [] for share in given.shares}
            for seed in range(given.first, given.first + given.seeds):
                last = ("constant", 0.0)
                for share in sorted(given.shares):
                    if last[0] == "constant":  # a larger share takes no constant where a smaller one took none
                        prior.use({"remains": share})
                        kind = PrivateAdditiveRegressor if given.additive else PrivateLinearRegression
                        model = kind(epsilon, schema=table.schema, random_state=seed).fit(frame)
                        z = np.clip(model.predict(frame), target.lower, target.upper)
                        last = model.plan_.algorithm, float(np.square(z - y).mean() / y.var()) - left
                    excess[share].append(last[1])
            means = {str(share): float(np.mean(each)) for share, each in excess.items()}
            lines.append({"table": name, "rows": rows, "epsilon": epsilon, "left": left, "excess": means})
    return lines


def show(lines: list[dict[str, Any]], shares: list[float]) -> None:
    """Print what fits with each share lose."""
    names, first = sorted({line["table"] for line in lines}), str(shares[0])
    by: dict[str, dict[str, float]] = {}
    for share in map(str, shares):
        each, at = defaultdict(list), defaultdict(list)
        for line in lines:
            each[line["table"]].append(line["excess"][share])
            at[line["epsilon"]].append(line["excess"][share] - line["excess"][first])
        by[share] = {name: float(np.mean(each[name])) for name in names}
        more = np.array([by[share][name] - by[first][name] for name in names])
        logs = [np.log((z["excess"][share] + z["left"]) / (z["excess"][first] + z["left"])) for z in lines]
        worse = sum(line["excess"][share] + line["left"] > 1.1 for line in lines)
        error = more.std(ddof=1) / np.sqrt(len(more)) if len(more) > 1 else np.nan
        print(
            f"share {share}: {more.mean():+.4f} ± {error:.4f}, by epsilon",
            *(f"{np.mean(at[epsilon]):+.4f}" for epsilon in EPSILONS),
            f"| loss, geometric mean {np.exp(np.mean(logs)):.3f} | above 1.1 constants {worse} of {len(lines)}",
        )
    chosen = {}
    for name in names:
        others = {share: np.mean([by[share][n] for n in names if n != name]) for share in by}
        chosen[name] = min(others, key=lambda share: others[share])
    kept = np.mean([by[chosen[name]][name] - by[first][name] for name in names])
    print(f"each table by the share that is best for all others: {kept:+.4f}; chosen {dict(Counter(chosen.values()))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.3, 0.45, 0.6, 0.75, 1.0])
    parser.add_argument("--rows", nargs="+", type=int, default=[600, 2500])
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--additive", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    lines = []
    for name in given.tables:
        lines += measured(name, given)
        if given.json:
            given.json.write_text(json.dumps(lines, indent=1))
    show(lines, given.shares)


if __name__ == "__main__":
    main()
