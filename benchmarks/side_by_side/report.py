"""Write tables and figures from the kept results; nothing is measured.

PYTHONPATH=benchmarks python -m side_by_side.report [--results DIR] [--figures DIR]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ORDER = ("cancer", "spambase", "adult", "fertility", "flights", "fashion", "spending", "diamonds", "delays")

FLOOR = 1e-7  # an excess counts as at least this much


@dataclass(frozen=True)
class Track:
    """The methods that are compared; `target` and `share` are about the ratio to the best of `rivals`."""

    name: str
    ours: str
    rivals: tuple[str, ...]
    shown: tuple[str, ...]
    target: float
    share: float


TRACKS = (
    Track("pure", "dpconvex", ("diffprivlib", "diffprivlib tuned"), ("diffprivlib as shipped",), 0.5, 0.8),
    Track(
        "approximate", "dpconvex, delta > 0",
        ("noisy descent tuned", "Opacus tuned", "boosted AdaSSP tuned", "Hessian mixing tuned", "TukeyEM tuned",
         "double-noise Newton tuned"),
        ("Opacus", "Opacus as shipped"), 0.9, 0.6,
    ),
)  # fmt: skip

Key = tuple[str, str, float]
Rows = list[Mapping[str, Any]]


def load(folder: Path) -> dict[Key, Rows]:
    """Return the fits of every (table, method, epsilon) at its setting of the most seeds, then of the least excess."""
    found: dict[Key, dict[str, Rows]] = defaultdict(lambda: defaultdict(list))
    for path in (folder / "ours.jsonl", folder / "peers.jsonl"):
        for row in map(json.loads, path.read_text().splitlines()):
            found[row["table"], row["method"], row["epsilon"]][json.dumps(row["setting"])].append(row)
    return {key: max(by.values(), key=lambda rows: (len(rows), -mean(rows))) for key, by in found.items()}


def mean(rows: Rows, what: str = "excess") -> float:
    return float(np.mean([row[what] for row in rows]))


def cells(results: Mapping[Key, Rows], track: Track) -> list[tuple[str, float]]:
    """Return the tables and budgets for which ours and at least one rival are finished."""
    ours = {(table, epsilon) for table, method, epsilon in results if method == track.ours}
    theirs = {(table, epsilon) for table, method, epsilon in results if method in track.rivals}
    place = {name: k for k, name in enumerate(ORDER)}  # tables of the corpus after the others, by name
    return sorted(ours & theirs, key=lambda cell: (place.get(cell[0], len(ORDER)), *cell))


def best_rival(results: Mapping[Key, Rows], track: Track, cell: tuple[str, float], what: str = "excess") -> float:
    values = [mean(results[key], what) for name in track.rivals if (key := (cell[0], name, cell[1])) in results]
    return min(values) if what == "excess" else max(values)


def ratios(results: Mapping[Key, Rows], track: Track) -> np.ndarray:
    """Return our excess over the best rival's. Both have a floor, since clipping may beat the optimum a little."""
    found = [
        max(mean(results[table, track.ours, epsilon]), FLOOR) / max(best_rival(results, track, (table, epsilon)), FLOOR)
        for table, epsilon in cells(results, track)
    ]
    return np.array(found)


def number(value: float) -> str:
    return "diverged" if value > 1e3 else f"{value:.3f}" if value >= 0.1 else f"{value:.2g}"


def constants(folder: Path) -> dict[str, float]:
    """Return the excess of the best prediction without features, not private; a fit with more excess is worthless."""
    facts = json.loads((folder / "tables.json").read_text())
    return {name: fact["constant"] for name, fact in facts.items()}


def excess_table(results: Mapping[Key, Rows], track: Track, constant: Mapping[str, float]) -> str:
    methods = (track.ours, *track.rivals, *track.shown)
    lines = [
        "| table | $\\epsilon$ | " + " | ".join(methods) + " | constant | ratio |",
        "|---|---|" + "---|" * (len(methods) + 2),
    ]
    for (table, epsilon), ratio in zip(cells(results, track), ratios(results, track), strict=True):
        rows = [results.get((table, method, epsilon)) for method in methods]
        entries = ["" if row is None else number(mean(row)) for row in rows]
        mark = f"**{ratio:.2f}**" if ratio <= track.target else f"{ratio:.2f}"
        lines.append(f"| {table} | {epsilon:g} | {' | '.join(entries)} | {number(constant[table])} | {mark} |")
    return "\n".join(lines)


def score_table(results: Mapping[Key, Rows], track: Track) -> str:
    """Return held-out accuracy or R^2 of ours and of each rival, with one line for each table and method."""
    methods = (track.ours, *track.rivals)
    epsilons = sorted({epsilon for _, epsilon in cells(results, track)})
    lines = [
        "| table | method | " + " | ".join(f"$\\epsilon={epsilon:g}$" for epsilon in epsilons) + " |",
        "|---|---|" + "---|" * len(epsilons),
    ]
    for table in dict.fromkeys(table for table, _ in cells(results, track)):
        for method in methods:
            rows = [results.get((table, method, epsilon)) for epsilon in epsilons]
            if any(rows):
                entries = ["" if row is None else f"{max(mean(row, 'score'), -9.99):.3f}" for row in rows]
                lines.append(f"| {table} | {method} | {' | '.join(entries)} |")
    return "\n".join(lines)


def cost_table(results: Mapping[Key, Rows], track: Track) -> str:
    """Return median processor seconds and peak memory of one fit, over all budgets."""
    methods = (track.ours, *track.rivals)
    lines = ["| table | " + " | ".join(methods) + " |", "|---|" + "---|" * len(methods)]
    for table in dict.fromkeys(table for table, _ in cells(results, track)):
        entries = []
        for method in methods:
            rows = [row for key, found in results.items() if key[:2] == (table, method) for row in found]
            seconds, memory = (
                np.median([row[what] for row in rows] or [np.nan]) for what in ("cpu_seconds", "memory_mb")
            )
            entries.append(f"{seconds:.2f} s, {memory:.0f} MB" if rows else "")
        lines.append(f"| {table} | {' | '.join(entries)} |")
    return "\n".join(lines)


def summary(results: Mapping[Key, Rows], track: Track, constant: Mapping[str, float]) -> str:
    found, places = ratios(results, track), cells(results, track)
    peers = np.array([best_rival(results, track, cell) for cell in places])
    trivial = np.array([constant[table] for table, _ in places])
    strict = found * peers / np.minimum(peers, trivial)
    aim = track.target

    def share(hit: np.ndarray) -> str:
        return f"{np.mean(hit):.0%}"

    return (
        f"{len(found)} cells. Ratio to the better peer at most {aim:g}: **{share(found <= aim)}** of cells (aim: "
        f"{track.share:.0%}); at most 1: {share(found <= 1)}; above 1.05: {share(found > 1.05)}. Median ratio "
        f"{np.median(found):.2f}.\nIn {np.sum(peers > trivial)} cells no peer is better than the constant. With the "
        f"constant as one more peer: at most {aim:g} in {share(strict <= aim)}, above 1.05 in {share(strict > 1.05)}."
    )


def figure(results: Mapping[Key, Rows], track: Track, path: Path) -> None:
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "side by side"  # the same results give the same file
    tables = list(dict.fromkeys(table for table, _ in cells(results, track)))
    fig, axes = plt.subplots(-(-len(tables) // 3), 3, figsize=(10, 2.7 * -(-len(tables) // 3)), squeeze=False)
    looks = ("C3-o", "C0-s", "C2-^", "C1-v", "C7:x", "C5:+")
    styles = dict(zip((track.ours, *track.rivals, *track.shown), looks, strict=False))
    for axis, table in zip(axes.flat, tables, strict=False):
        for method, style in styles.items():
            points = sorted((key[2], mean(rows)) for key, rows in results.items() if key[:2] == (table, method))
            points = [point for point in points if point[1] < 1e3]
            if points:
                axis.plot(*zip(*points, strict=True), style, label=method, markersize=4)
        axis.set(xscale="log", yscale="log", title=table)
        axis.set_xticks((0.1, 0.3, 1, 3), ("0.1", "0.3", "1", "3"))
        axis.minorticks_off()
    for axis in axes.flat[len(tables) :]:
        axis.set_axis_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("excess risk")
    handles = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    fig.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles), frameon=False)
    fig.supxlabel("epsilon", y=0.055, fontsize=10)
    fig.tight_layout(rect=(0, 0.06, 1, 1))
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--figures", type=Path, default=Path("docs/_static/benchmarks"))
    given = parser.parse_args()
    given.figures.mkdir(parents=True, exist_ok=True)
    results, constant = load(given.results), constants(given.results)
    for track in TRACKS:
        if cells(results, track):
            parts = {
                "summary": summary(results, track, constant),
                "excess": excess_table(results, track, constant),
                "score": score_table(results, track),
                "cost": cost_table(results, track),
            }
            for part, text in parts.items():
                (given.results / f"{track.name}_{part}.md").write_text(text + "\n")
                print(text + "\n")
            figure(results, track, given.figures / f"{track.name}.svg")


if __name__ == "__main__":
    main()
