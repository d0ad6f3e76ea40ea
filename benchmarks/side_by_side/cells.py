"""This module holds what both environments share: tables as arrays, measures and the store of results, in NumPy."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

EPSILONS = (0.1, 0.3, 1.0, 3.0)
SEEDS = tuple(range(10))
DELTA = 1e-6  # delta of the approximate track; the pure track has 0
QUICK = {"tables": ("cancer", "spambase", "diamonds"), "epsilons": (0.3, 3.0), "seeds": (0, 1)}
LARGE = 100_000_000  # entries of X times outputs beyond which settings are compared on one seed instead of three


@dataclass(frozen=True)
class Data:
    """An encoded table: the same numbers for every method.

    Parameters
    ----------
    facts : mapping
        Public facts (``name, kind, n, d, outputs, norm, blocks``) and, for scoring only, ``optimum, constant,
        variance``. Kinds: ``binary`` (targets 0 and 1), ``multiclass`` (0 to k - 1), ``regression`` ([-1/2, 1/2]).
    X, y, X_test, y_test : arrays
        Four fifths of the records for training, the rest held out.
    """

    facts: Mapping[str, Any]
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def load(cls, folder: Path, name: str) -> Data:
        arrays = (np.load(folder / name / f"{part}.npy") for part in ("X", "y", "X_test", "y_test"))
        return cls(json.loads((folder / name / "facts.json").read_text()), *arrays)

    @cached_property
    def single(self) -> np.ndarray:
        """Training features in single precision, which the peers compute in."""
        return self.X.astype(np.float32)

    @property
    def kind(self) -> str:
        return self.facts["kind"]

    def excess(self, z: np.ndarray, link: str = "own") -> float:
        """Return the mean training loss above the unregularized optimum's; for numbers, over the target's variance."""
        return (mean_loss(self.kind, z, self.y, link) - self.facts["optimum"]) / self.facts["variance"]

    def score(self, z: np.ndarray) -> float:
        """Return held-out accuracy, or R^2 of predictions clipped to the target's range."""
        if self.kind == "regression":
            residual = self.y_test - np.clip(z[:, 0], -0.5, 0.5)
            return float(1 - np.mean(residual**2) / np.var(self.y_test))
        guess = np.argmax(z, axis=1) if self.kind == "multiclass" else z[:, 0] > 0
        return float(np.mean(guess == self.y_test))


def mean_loss(kind: str, z: np.ndarray, y: np.ndarray, link: str = "own") -> float:
    """Return the mean log-loss, or the squared error of predictions clipped to the target's range.

    `link` ``one_vs_rest`` normalizes the sigmoids of the classes.
    """
    if kind == "regression":
        return float(np.mean((np.clip(z[:, 0], -0.5, 0.5) - y) ** 2))
    if kind == "binary":
        return float(np.mean(np.logaddexp(0.0, np.where(y == 1, -z[:, 0], z[:, 0]))))
    z = -np.logaddexp(0.0, -z) if link == "one_vs_rest" else z
    z = z - z.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y.astype(int)]))


@dataclass(frozen=True)
class Fit:
    """A released linear model, and what is worth keeping about the fit (`notes`).

    `scores` holds the scores of training and held-out records if the model clips columns into narrower ranges first;
    otherwise scores follow from `W` and `b`.
    """

    W: np.ndarray
    b: np.ndarray
    link: str = "own"
    notes: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Job:
    """One fit to make: a setting of the method, the budget, a seed."""

    setting: Mapping[str, Any]
    epsilon: float
    delta: float
    seed: int


@dataclass(frozen=True)
class Method:
    """One row of the comparison.

    Parameters
    ----------
    name : str
    track : {"pure", "approximate"}
    kinds : tuple of str
        Kinds of tables that the method is for.
    fit : callable
        ``(data, jobs) -> fits``.
    settings : callable
        Maps public facts of a table to settings. If there are several, the method is tuned: the setting with the least
        training loss counts, which is not private and favors it.
    like : Method, optional
        The method whose best setting this one takes.
    batches : callable
        ``(data, jobs) -> lists of jobs`` that are fitted together. Their time is shared out evenly.
    """

    name: str
    track: str
    kinds: tuple[str, ...]
    fit: Callable[[Data, Sequence[Job]], Sequence[Fit]]
    settings: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]] = lambda facts: ({},)
    like: Method | None = None
    batches: Callable[[Data, Sequence[Job]], Sequence[Sequence[Job]]] = lambda data, jobs: [[job] for job in jobs]


class Store:
    """Finished fits, one JSON object per line; what is there already is not run again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows = {self.key(row): row for row in map(json.loads, lines)}

    @staticmethod
    def key(row: Mapping[str, Any]) -> tuple:
        return (row["table"], row["method"], json.dumps(row["setting"], sort_keys=True), row["epsilon"], row["seed"])

    def add(self, row: dict[str, Any]) -> None:
        self.rows[self.key(row)] = row
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")


@contextmanager
def measured(cost: dict[str, float]) -> Iterator[None]:
    """Write wall time, processor time and additional peak memory (MB) of the block into `cost`."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, wall, cpu = _resident("VmRSS"), time.perf_counter(), time.process_time()
    yield
    cost["seconds"], cost["cpu_seconds"] = time.perf_counter() - wall, time.process_time() - cpu
    cost["memory_mb"] = max(0, _resident("VmHWM") - before) / 1e6


def _resident(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"no {name} in /proc/self/status: this benchmark needs Linux")


def complete(store: Store, method: Method, data: Data, jobs: Sequence[Job], tag: str) -> list[float]:
    """Run the jobs that the store lacks, and return the excess of all jobs."""
    name, track = data.facts["name"], method.track
    rows = [
        {"table": name, "track": track, "method": method.name, **dataclasses.asdict(job), "setting": dict(job.setting)}
        for job in jobs
    ]
    lacking = {store.key(row): job for row, job in zip(rows, jobs, strict=True) if store.key(row) not in store.rows}
    for batch in method.batches(data, list(lacking.values())):
        cost: dict[str, float] = {}
        with np.errstate(all="ignore"):
            with measured(cost):
                fits = method.fit(data, batch)
            share = {key: round(value / len(batch), 4) for key, value in cost.items()}
            for job, fit in zip(batch, fits, strict=True):
                row = next(row for row in rows if row["seed"] == job.seed and job == _job(row))
                store.add({**row, **scored(data, fit), **share, **fit.notes, "versions": tag})
    return [store.rows[store.key(row)]["excess"] for row in rows]


def _job(row: Mapping[str, Any]) -> Job:
    return Job(row["setting"], row["epsilon"], row["delta"], row["seed"])


def scored(data: Data, fit: Fit) -> dict[str, float]:
    z, held_out = fit.scores or (each @ fit.W.T + fit.b for each in (data.X, data.X_test))
    excess = data.excess(z, fit.link)
    # JSON has no infinity: a fit that diverged counts as a huge loss
    return {"excess": excess if np.isfinite(excess) else 1e300, "score": data.score(held_out)}


def run(methods: Sequence[Method], arguments: argparse.Namespace, packages: Sequence[str]) -> None:
    """Run every cell that is not in the store yet; tuned methods first find their setting."""
    tag = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)])
    store = Store(arguments.results / f"{arguments.who}.jsonl")
    tag = named(arguments.results / "versions.json", tag)
    for name in arguments.tables:
        data = Data.load(arguments.data, name)
        for method in methods:
            if data.kind in method.kinds and (not arguments.methods or method.name in arguments.methods):
                run_cells(store, method, data, arguments.epsilons, arguments.seeds, tag)


def named(path: Path, versions: str) -> str:
    """Return a short name for these versions, and keep it in a file beside the results."""
    name = hashlib.sha256(versions.encode()).hexdigest()[:8]
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, name: versions}, indent=1, sort_keys=True) + "\n")
    return name


def run_cells(
    store: Store, method: Method, data: Data, epsilons: Sequence[float], seeds: Sequence[int], tag: str
) -> None:
    """Run all budgets of one method on one table."""
    start, teacher = time.perf_counter(), method.like or method
    delta = DELTA if method.track == "approximate" else 0.0
    settings, trials = teacher.settings(data.facts), tuning_seeds(data.facts, seeds)
    best = dict.fromkeys(epsilons, settings[0])
    if len(settings) > 1:
        jobs = [Job(s, epsilon, delta, seed) for epsilon in epsilons for s in settings for seed in trials]
        losses = np.reshape(complete(store, teacher, data, jobs, tag), (len(epsilons), len(settings), len(trials)))
        winners = np.argmin(losses.mean(axis=2), axis=1)
        best = {epsilon: settings[winner] for epsilon, winner in zip(epsilons, winners, strict=True)}
    jobs = [Job(best[epsilon], epsilon, delta, seed) for epsilon in epsilons for seed in seeds]
    means = np.reshape(complete(store, method, data, jobs, tag), (len(epsilons), len(seeds))).mean(axis=1)
    print(f"{data.facts['name']} {method.name}, {time.perf_counter() - start:.0f} s")
    for epsilon, mean in zip(epsilons, means, strict=True):
        print(f"    {epsilon:4g} {mean:10.5f} {dict(best[epsilon])}", flush=True)


def tuning_seeds(facts: Mapping[str, Any], seeds: Sequence[int]) -> Sequence[int]:
    """Return the seeds on which settings of a tuned method are compared."""
    return seeds[:1] if entries(facts) > LARGE else seeds[:3]


def entries(facts: Mapping[str, Any]) -> int:
    """Return the number of entries of X times the number of outputs."""
    return facts["n"] * facts["d"] * facts["outputs"]


def arguments(who: str, description: str | None, tables: Sequence[str] = ()) -> argparse.Namespace:
    """Return the options of a script; without `--tables` it takes all of `tables`, or all prepared tables."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, default=Path("build/bench/tables"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--quick", action="store_true", help="three small tables, two epsilons, two seeds")
    given = parser.parse_args()
    ready = sorted(path.parent.name for path in given.data.glob("*/facts.json"))
    given.who, quick = who, QUICK if given.quick else {}
    given.tables = given.tables or quick.get("tables") or tables or ready
    given.epsilons = given.epsilons or quick.get("epsilons") or EPSILONS
    given.seeds = range(given.seeds) if given.seeds else quick.get("seeds") or SEEDS
    return given
