"""Measure the private geometric median: time over that of a converged solver without privacy, and accuracy.

    python benchmarks/geometric_median.py speed [--full] [--json FILE]
    python benchmarks/geometric_median.py accuracy [--seeds 5] [--full] [--json FILE]
    python benchmarks/geometric_median.py statuses [--seeds 5] [--json FILE]

Time is wall-clock time, with noise from the operating system, after one run that compiles; below 1e6 numbers the best
of three runs counts. Slopes in n and d are least-squares slopes of the logarithm of time. The solver is
`geometric_median` with a proven relative gap of 1e-10. Accuracy, of all methods for a location, is the mean distance to
the records over that of the solver's point; statuses are compared with it. These runs are seeded, hence not private:
the data are synthetic.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex.algorithms.location.geometric_median import plan
from dpconvex.algorithms.location.registry import LOCATION_METHODS, plan_location
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments.shared import gaussian_cluster, mean_distance, student_t

R, MIN_RADIUS, DELTA = 1000.0, 1e-3, 1e-6
BOOSTS = ("none", "descent", "fixed_order", "stable_sgd")
CLOUDS: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "cluster": lambda n, d, rng: gaussian_cluster(50.0, n, d, 0.1, 0.9, rng)[0],
    "contaminated 20%": lambda n, d, rng: gaussian_cluster(50.0, n, d, 0.1, 0.8, rng)[0],
    "clean": lambda n, d, rng: gaussian_cluster(50.0, n, d, 0.1, 1.0, rng)[0],
    "heavy tails": lambda n, d, rng: student_t(5.0, n, d, rng),
    "skewed": lambda n, d, rng: rng.exponential(size=(n, d)),
}


def best_time(work: Callable[[], object], size: int) -> float:
    times = []
    for _ in range(3 if size < 1e6 else 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def speed(sizes: list[tuple[int, int]], boosts: tuple[str, ...]) -> list[dict]:
    rows = []
    for n, d in [(2000, 5), *sizes]:  # the first run compiles
        X = np.ascontiguousarray(CLOUDS["cluster"](n, d, np.random.default_rng(n + d)))
        domain, source = PointDomain(d, R, MIN_RADIUS), SystemSource()
        solver = best_time(lambda X=X: geometric_median(X), X.size)
        value = geometric_median(X).value
        for boost in boosts:
            planned = plan(domain, n, PrivacyParams(1.0, DELTA), boost=boost)
            seconds = best_time(lambda X=X, planned=planned, source=source: planned.run(X, source), X.size)
            ratio = mean_distance(X, planned.run(X, source).location) / value
            rows.append({"n": n, "d": d, "boost": boost, "seconds": seconds, "solver": solver, "ratio": ratio})
    return [row for row in rows if row["n"] > 2000 or row["d"] != 5]


def slope(rows: list[dict], by: str, key: str) -> float:
    return float(np.polyfit(np.log([row[by] for row in rows]), np.log([row[key] for row in rows]), 1)[0])


def accuracy(cells: list[tuple[str, int, int, float]], seeds: int) -> list[dict]:
    rows = []
    for cloud, n, d, epsilon in cells:
        domain, privacy = PointDomain(d, R, MIN_RADIUS), PrivacyParams(epsilon, DELTA)
        ratios: dict[str, list[float]] = {}
        failed = 0
        for seed in range(seeds):
            X = clip_points(CLOUDS[cloud](n, d, np.random.default_rng(seed)), domain)
            value = geometric_median(X).value
            for boost in BOOSTS:
                result = plan(domain, n, privacy, boost=boost).run(X, SeededSource(seed))
                ratios.setdefault(f"median, {boost}", []).append(mean_distance(X, result.location) / value)
                failed += boost == "descent" and result.status != "ok"
            for name in LOCATION_METHODS.keys() - {"geometric_median", "stable_sgd", "fixed_order", "center_only"}:
                try:
                    location = plan_location(domain, n, privacy, name).run(X, SeededSource(seed)).location
                except InvalidParameterError:  # a method that needs all pairs refuses so many records
                    continue
                ratios.setdefault(name, []).append(mean_distance(X, location) / value)
            if n <= 2000 and epsilon <= 1:
                paper = plan(domain, n, privacy, constants="paper", boost="fixed_order")
                ratios.setdefault("median, paper", []).append(
                    mean_distance(X, paper.run(X, SeededSource(seed)).location) / value
                )
        quartiles = {name: np.percentile(values, [25, 50, 75]).tolist() for name, values in ratios.items()}
        rows.append({"cloud": cloud, "n": n, "d": d, "epsilon": epsilon, "not_ok": failed, "ratios": quartiles})
    return rows


def statuses(seeds: int) -> list[dict]:
    """Return what single runs say of themselves and what they lose, from far too few records to enough of them."""
    clouds = CLOUDS | {
        "three fifths elsewhere": lambda n, d, rng: rng.normal(
            np.where(np.arange(n) < 0.6 * n, 50, 20)[:, None], 1, (n, d)
        ),
        "half at one point": lambda n, d, rng: np.where(np.arange(n)[:, None] < n // 2, 7.25, rng.normal(7, 1, (n, d))),
    }
    cells = [(n, d, e) for n in (100, 300, 1000, 3000) for d in (2, 10, 50) for e in (0.1, 0.3, 1.0, 3.0)]
    rows = []
    for cloud, draw in clouds.items():
        for n, d, epsilon in cells:
            planned = plan(PointDomain(d, R, MIN_RADIUS), n, PrivacyParams(epsilon, DELTA))
            for seed in range(seeds):
                X = clip_points(draw(n, d, np.random.default_rng(seed)), planned.domain)
                result = planned.run(X, SeededSource(seed))
                excess = mean_distance(X, result.location) / geometric_median(X).value - 1
                cell = {"cloud": cloud, "n": n, "d": d, "epsilon": epsilon, "seed": seed}
                rows.append({**cell, "status": str(result.status), "excess": excess})
    return rows


def show_statuses(rows: list[dict], console: Console) -> None:
    table = RichTable("status", "runs", "median", "below 1 %", "below 10 %", "largest", title="f / min f - 1")
    for status in sorted({row["status"] for row in rows}):
        excess = np.array([row["excess"] for row in rows if row["status"] == status])
        below = [f"{np.mean(excess < share):.1%}" for share in (0.01, 0.1)]
        table.add_row(status, str(len(excess)), f"{np.median(excess):.2g}", *below, f"{excess.max():.2g}")
    console.print(table)


def show_speed(rows: list[dict], console: Console) -> None:
    table = RichTable("n", "d", "boost", "private s", "solver s", "times", "objective ratio", title="speed, epsilon 1")
    for row in rows:
        table.add_row(
            f"{row['n']:,}",
            str(row["d"]),
            row["boost"],
            f"{row['seconds']:.3f}",
            f"{row['solver']:.3f}",
            f"{row['seconds'] / row['solver']:.1f}",
            f"{row['ratio']:.7f}",
        )
    console.print(table)
    for by, other in (("n", "d"), ("d", "n")):
        for fixed in sorted({row[other] for row in rows}):
            for boost in BOOSTS:
                line = [row for row in rows if row[other] == fixed and row["boost"] == boost]
                if len(line) > 2:
                    slopes = f"private {slope(line, by, 'seconds'):.2f}, solver {slope(line, by, 'solver'):.2f}"
                    console.print(f"slope in {by} at {other} = {fixed}, {boost}: {slopes}")


def show_accuracy(rows: list[dict], console: Console) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row["ratios"]))
    table = RichTable("data", "n", "d", "eps", "not ok", *names, title="median of f / min f (quartiles in the JSON)")
    for row in rows:
        values = [f"{row['ratios'][name][1]:.5g}" if name in row["ratios"] else "-" for name in names]
        table.add_row(row["cloud"], f"{row['n']:,}", str(row["d"]), f"{row['epsilon']:g}", str(row["not_ok"]), *values)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "accuracy", "statuses"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    console = Console(width=200)
    if arguments.what == "speed":
        sizes = [(10_000, 50), (30_000, 50), (100_000, 50), (10_000, 10), (100_000, 10), (10_000, 200)]
        if arguments.full:
            sizes += [(300_000, 50), (1_000_000, 50), (1_000_000, 10), (10_000, 1000), (100_000, 200)]
        rows = speed(sorted(sizes, key=lambda size: (size[1], size[0])), ("descent", "fixed_order"))
        show_speed(rows, console)
    elif arguments.what == "statuses":
        rows = statuses(arguments.seeds)
        show_statuses(rows, console)
    else:
        epsilons = (0.5, 1.0, 2.0, 8.0) if arguments.full else (1.0,)
        sizes = [(1000, 10), (1000, 50), (10_000, 50)] + ([(100_000, 50)] if arguments.full else [])
        cells = [(cloud, n, d, epsilon) for cloud in CLOUDS for n, d in sizes for epsilon in epsilons]
        rows = accuracy(cells, arguments.seeds)
        show_accuracy(rows, console)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
