"""When is a target's range, found among those of many columns, more often lost than found? What `LOST` states.

    python benchmarks/lost_ranges.py [--seeds 3] [--json FILE]

Regressions of the learning half, all ranges left to the fit, pure epsilon, at most 20,000 records. Training excess over
the best linear fit, as a share of the target's variance: of ``auto``, and of a constant, which looks for the target's
range alone. Printed by the deviation of an octave's count as a share of the records; then, for shares from which on
the constant is taken, geometric means over cells, and what each choice of a share loses on the table left out of it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import corpus
from dpconvex import PrivateLinearRegression

EPSILONS, MOST = (0.03, 0.1, 0.3, 1.0), 20_000
SHARES = (0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.15, 9.0)
NAMES = [n for n in corpus.LEARNING if len(corpus.RECIPES[n].target.split()) == 3] + list(corpus.MORE_NUMBERS)


def measured(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return a line an epsilon and seed."""
    table = corpus.load(name)
    schema, n = table.schema.without_ranges(), min(len(table.y), MOST)
    frame, X, y = table.frame.iloc[:n], np.column_stack([table.X[:n], np.ones(n)]), table.y[:n]
    best = float(np.square(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).mean())
    lines = []
    for epsilon in EPSILONS:
        for seed in range(seeds):
            line: dict[str, Any] = {"table": name, "epsilon": epsilon, "seed": seed}
            for label in ("auto", "constant"):
                model = PrivateLinearRegression(epsilon, schema=schema, random_state=seed, algorithm=label).fit(frame)
                line[label] = (float(np.square(model.predict(frame) - y).mean()) - best) / float(y.var())
                if label == "auto":
                    line["chosen"] = model.plan_.algorithm
                    line["share"] = float(np.sqrt(8) * (len(schema.unranged) + 1) / n / model.plan_.first.epsilon)
            lines.append(line)
    return lines


def cost(lines: list[dict[str, Any]], share: float) -> float:
    """Return the mean logarithm of the excess where the constant is taken from that share on."""
    return float(np.mean([np.log(max(x["constant" if x["share"] >= share else "auto"], 1e-3)) for x in lines]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    every = [line for name in NAMES for line in measured(name, given.seeds)]
    if given.json:
        given.json.write_text(json.dumps(every, indent=1))
    lines = [line for line in every if line["chosen"] != "constant"]
    for low, high in ((0, 0.02), (0.02, 0.04), (0.04, 0.06), (0.06, 0.08), (0.08, 0.12), (0.12, 9)):
        own = [line for line in lines if low <= line["share"] < high]
        for label in ("auto", "constant") if own else ():
            found = np.array([line[label] for line in own])
            print(f"{low:g} to {high:g}, {len(own)} cells: {label} {found.mean():.3g}, median {np.median(found):.3g}")
    for share in SHARES:
        print(f"from {share:g} on: geometric mean {np.exp(cost(lines, share)):.3f}")
    chosen = {name: min(SHARES, key=lambda s: cost([x for x in lines if x["table"] != name], s)) for name in NAMES}
    kept = [cost(own, chosen[name]) for name in NAMES if (own := [x for x in lines if x["table"] == name])]
    print(f"each table left out: shares {sorted(set(chosen.values()))}, geometric mean {np.exp(np.mean(kept)):.3f}")


if __name__ == "__main__":
    main()
