"""Count how often the measured epsilon lies inside the range that `required_epsilon` gives, from stored measurements.

    python benchmarks/advice.py [--results benchmarks/results/held_out/ours.jsonl ...]

A case is one table and one epsilon of `make bench-held-out`, `bench-exam` or `bench-keel`, without additive models. Its
goal is the excess that was measured there, averaged over seeds, so the epsilon that reaches the goal is known. The
range of `required_epsilon` holds this epsilon exactly if measured over expected excess lies between the two outer
numbers of `estimators.advice.MEASURED`, which are quantiles over all cases. The printed coverage judges each table by
the quantiles of the *other* tables.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

TAIL = 0.02
STORED = [Path(__file__).parent / "results" / name / "ours.jsonl" for name in ("held_out", "exam", "second", "keel")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", default=STORED)
    cases: dict[tuple[str, float, float], list[dict]] = defaultdict(list)
    lines = (path.read_text(encoding="utf-8").splitlines() for path in parser.parse_args().results)
    for line in (line for each in lines for line in each):
        row = json.loads(line)
        if row["method"].startswith("dpconvex") and "additive" not in row["method"] and row.get("expected"):
            cases[row["table"], row["delta"], row["epsilon"]].append(row)
    tables, ratios = [], []
    for (table, _, _), rows in cases.items():
        measured = np.mean([row["excess"] for row in rows])
        if measured > 0:  # the logarithm below needs a positive ratio
            tables.append(table)
            ratios.append(np.log(measured / rows[0]["expected"]))
    names, logs, inside = np.array(tables), np.array(ratios), 0
    for table in set(tables):
        low, high = np.quantile(logs[names != table], [TAIL, 1 - TAIL])
        inside += int(((low <= logs) & (logs <= high) & (names == table)).sum())
    quantiles = np.exp(np.quantile(logs, [TAIL, 0.5, 1 - TAIL]))
    print(f"measured over expected excess: {', '.join(f'{each:.2f}' for each in quantiles)}")
    print(f"measured epsilon inside the range: {inside} of {len(logs)} cases, {len(set(tables))} tables, each left out")


if __name__ == "__main__":
    main()
