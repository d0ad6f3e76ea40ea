"""Print the Markdown table of a grid of audits: ``python tools/audit_table.py benchmarks/results/audit-grid.json``."""

from __future__ import annotations

import sys
from pathlib import Path

from dpconvex_experiments.audit_grid import EPSILONS, read_grid, summary


def main(file: Path) -> None:
    """Print one line for each target: what was proved at most over the bounds, for every claimed epsilon."""
    _, cells = read_grid(file)
    heads = ["audited", *(f"{epsilon:g}" for epsilon in EPSILONS), "seconds"]
    print("| " + " | ".join(heads) + " |")
    print("|---" + "|---:" * (len(heads) - 1) + "|")
    for name, best, _, seconds in sorted(summary(cells)):
        proved = [f"{best[epsilon]:.3g}" if epsilon in best else "-" for epsilon in EPSILONS]
        print(f"| {name} | {' | '.join(proved)} | {seconds:.0f} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
