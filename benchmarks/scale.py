"""Measure fits of data larger than memory, and engines: every row of the table in docs/large_data.md.

    python benchmarks/scale.py identity          # the same bits from memory, streams, Dask, Ray, killed workers
    python benchmarks/scale.py big               # 20 GB of Parquet under a limit of 2 GiB; a pass against reading
    python benchmarks/scale.py stream            # smaller files: a pass against reading them, memory
    python benchmarks/scale.py memory            # in memory: time over scikit-learn's, extra memory over X
    python benchmarks/scale.py cells             # a frame of categories: extra memory over its cells
    python benchmarks/scale.py workers           # two Dask workers against one
    python benchmarks/scale.py slopes            # time over n: logistic, statistics, median, marginals
    python benchmarks/scale.py passes            # cost of exact sums: floats added up, and sums of this library
    python benchmarks/scale.py report            # table and picture of what was measured, for the documentation

Each but `passes` and `report` writes what it measured to benchmarks/results/scale.json, under its name. `--rows`
(`--sizes` of slopes, `--entries` of passes) makes it smaller, and `--folder` says where temporary files are written.
Times mean something only on an idle machine.

`passes` compares, on one thread and on the same rows, a gradient pass with BLAS (predictions, slopes, adjoint; sums
depend on blocks and threads), the same with weights split in two limbs and features on a grid (products exact in BLAS),
and the library's. Worst-case errors are proved in `dpconvex.problems.data.summation`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402  (after the thread settings)

from dpconvex.losses import LogisticLoss  # noqa: E402
from dpconvex.problems import DataDomain, Records, RegularizedRisk, UserGroups  # noqa: E402
from dpconvex.problems.data.users import clipped_mean  # noqa: E402

ROWS = 1310  # rows of a block: about 1 MB
ROOT = Path(__file__).resolve().parent
RESULTS, TABLE = ROOT / "results" / "scale.json", ROOT / "results" / "scale.md"
PICTURE = ROOT.parent / "docs" / "_static" / "benchmarks" / "scale.svg"
GROUP = 2**17  # rows in a row group of a Parquet file


def slopes_of(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the slopes of the logistic loss."""
    return -y / (1 + np.exp(y * z))


def floats(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the gradient as BLAS adds it: fast, but its last bits depend on the blocks."""
    out = np.zeros(X.shape[1])
    for first in range(0, len(X), ROWS):
        block = X[first : first + ROWS]
        out += slopes_of(block @ w, y[first : first + ROWS]) @ block
    return out


def operands(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return it from features on a grid of 2^-20 and weights in limbs of 20 bits, for which BLAS computes exactly."""
    out, buffer = np.zeros((2, X.shape[1])), np.empty((1024, X.shape[1]))
    whole = np.rint(w * 2.0**16)
    limbs = np.stack([whole, np.rint((w * 2.0**16 - whole) * 2.0**20)])
    for first in range(0, len(X), len(buffer)):
        block = X[first : first + len(buffer)]
        grid = np.trunc(np.multiply(block, 2.0**20, out=buffer[: len(block)]), out=buffer[: len(block)])
        high, low = limbs @ grid.T
        slope = slopes_of((high + low * 2.0**-20) * 2.0**-36, y[first : first + len(buffer)]) * 2.0**20
        out += np.stack([np.rint(slope), np.rint((slope - np.rint(slope)) * 2.0**20)]) @ grid
    return (out[0] + out[1] * 2.0**-20) * 2.0**-40


def best(work: Callable[[], object], repeats: int) -> float:
    """Return the seconds of the fastest of some calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def passes(args: argparse.Namespace) -> None:
    """Print the nanoseconds that a pass takes for each entry of X."""
    rng = np.random.default_rng(args.seed)
    print(f"{'n':>10}{'d':>6}  {'pass':<28}{'ns / entry':>12}{'ratio':>8}")
    for d in args.columns:
        first = 1.0
        for name, work in cases(args.entries // d, d, rng).items():
            work()  # compiles, and brings the data into memory
            nanoseconds = best(work, args.repeats) / (args.entries // d * d) * 1e9
            first = nanoseconds if name.endswith("floats") else first
            print(f"{args.entries // d:>10}{d:>6}  {name:<28}{nanoseconds:>12.2f}{nanoseconds / first:>8.2f}")


def cases(n: int, d: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Return the work that is timed, on data of this size."""
    X = rng.standard_normal((n, d)) / np.sqrt(2 * d)
    y, w = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.standard_normal(d)
    records = Records.clipped(X, DataDomain.l2_ball(d, 1.0))
    objective, groups = RegularizedRisk(LogisticLoss(), records, y, 1e-3), UserGroups.of(np.arange(n) // 20)
    return {
        "gradient, floats": lambda: floats(X, y, w),
        "gradient, operands": lambda: operands(X, y, w),
        "gradient, this library": lambda: objective.gradient(w),
        "Gram, floats": lambda: [X[i : i + 8192].T @ X[i : i + 8192] for i in range(0, n, 8192)],
        "Gram, this library": lambda: records.gram(np.ones(n)),
        "users' gradients, cut": lambda: clipped_mean(LogisticLoss(), records, y, groups, None, w, 0.1),
    }


def table(n: int, d: int, seed: int, dtype: str = "float32") -> Any:
    """Return n rows of d numeric columns in [-1, 1], two classes and a number, as an Arrow table."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    X = [2 * rng.random(n, dtype=np.dtype(dtype).type) - 1 for _ in range(d)]
    yes = rng.random(n) < 1 / (1 + np.exp(-4 * X[0] - 2 * X[1]))
    y = pa.DictionaryArray.from_arrays(pa.array(yes.astype(np.int8)), ["no", "yes"])
    return pa.table({**{f"x{j}": X[j] for j in range(d)}, "y": y, "z": X[0] / 2 + X[1] / 4})


def schema(d: int, number: bool = False) -> Any:
    """Return the schema of a `table`."""
    from dpconvex.data import ClassTarget, NumericColumn, NumericTarget, Schema

    target = NumericTarget("z", -1, 1) if number else ClassTarget("y", ("no", "yes"))
    return Schema(tuple(NumericColumn(f"x{j}", -1, 1) for j in range(d)), target)


def logistic(X: object, d: int, **options: Any) -> Any:
    """Fit with seeded noise, to compare: not private."""
    from dpconvex import PrivateLogisticRegression

    options = {"schema": schema(d), "random_state": 0, "algorithm": "objective_perturbation"} | options
    return PrivateLogisticRegression(1.0, **options).fit(X)


@contextlib.contextmanager
def files(n: int, d: int, count: int, place: str | None, dtype: str = "float32") -> Iterator[str]:
    """Yield a folder with Parquet files of n rows in all; it is removed afterward."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory(dir=place, prefix="scale-") as folder:
        for k in range(count):
            part = table(n // count, d, k, dtype)
            path = f"{folder}/{k:03d}.parquet"
            pyarrow.parquet.write_table(part, path, row_group_size=GROUP, use_dictionary=["y"])
        os.sync()  # what is still being written would slow the first of the runs that are compared
        yield folder


def size_of(folder: str) -> int:
    """Return the number of bytes of the files in a folder."""
    return sum(path.stat().st_size for path in Path(folder).iterdir())


def digest(model: Any) -> str:
    """Return a digest of the released coefficients and the certificate."""
    certificate = model.certificate_.to_json() if hasattr(model.certificate_, "to_json") else repr(model.certificate_)
    return hashlib.sha256(model.coef_.tobytes() + certificate.encode()).hexdigest()[:12]


def peak() -> float:
    """Return the peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(*words: object, threads: int = 2) -> dict[str, Any]:
    """Run a command of this file in a fresh process and return what it prints."""
    setting = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), str(threads))
    if "--limit" in words:  # address space counts: allocators must not set gigabytes aside
        setting |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2", "ARROW_IO_THREADS": "2"}
    command = [sys.executable, __file__, *map(str, words)]
    answer = subprocess.run(command, env=os.environ | setting, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"{words}: {answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def record(name: str, found: dict[str, Any]) -> None:
    """Print what was measured, and write it to `RESULTS`."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[name] = found | {"date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    print(json.dumps(found, indent=1))


# Identity.


def identity(args: argparse.Namespace) -> None:
    """Fit the same rows everywhere and compare coefficients and certificates."""
    import pyarrow.dataset

    n, d = args.rows, args.d
    found: dict[str, str] = {}
    with files(n, d, 12, args.folder) as folder, files(d, d, 1, args.folder) as shuffled:
        whole = pyarrow.dataset.dataset(folder).to_table()
        order = np.random.default_rng(1).permutation(len(whole))
        write_parts(whole.take(order), shuffled, 7)
        for threads in (1, 2):
            found[f"memory, {threads} threads"] = child("fit", folder, d, "memory", threads=threads)["digest"]
            found[f"stream, {threads} threads"] = child("fit", folder, d, "stream", threads=threads)["digest"]
        found["memory, rows permuted"] = child("fit", shuffled, d, "memory")["digest"]
        found["stream, files shuffled"] = child("fit", shuffled, d, "stream")["digest"]
        for engine in ("dask", "ray"):
            for workers in (1, 2, 4):
                answer = child("fit", shuffled, d, engine, "--workers", workers, threads=1)
                found[f"{engine}, {workers} workers"] = answer["digest"]
        killed = child("fit", folder, d, "dask", "--workers", 2, "--kills", 10, threads=1)
        for k, (mark, tasks) in enumerate(zip(killed["digests"], killed["tasks"], strict=True)):
            found[f"dask, worker killed {k + 1} ({tasks} tasks on it)"] = mark
    same = len(set(found.values())) == 1
    record("identity", {"n": len(whole), "d": d, "same": same, "cases": len(found), "digests": found})
    if not same:
        raise SystemExit("the models differ")


def write_parts(whole: Any, folder: str, count: int) -> None:
    """Write a table as files of unequal lengths, in the place of what is in a folder."""
    import pyarrow.parquet

    for path in Path(folder).iterdir():
        path.unlink()
    ends = [0, *sorted(np.random.default_rng(2).integers(1, len(whole), count - 1).tolist()), len(whole)]
    for k, (start, stop) in enumerate(pairwise(ends)):
        pyarrow.parquet.write_table(whole.slice(start, stop - start), f"{folder}/{k}.parquet", row_group_size=5000)


def fit(args: argparse.Namespace) -> None:
    """Fit the files of a folder; print seconds, passes and peak memory."""
    import pyarrow.dataset

    from dpconvex.problems.data.sources.arrow import MEMORY
    from dpconvex.problems.data.sources.rows import EncodedTables

    if args.limit:
        resource.setrlimit(resource.RLIMIT_AS, (args.limit, args.limit))
        MEMORY.set(2**27)  # as --memory 128MiB: libraries and buffers of Arrow need the rest
    source, run, passes = pyarrow.dataset.dataset(args.folder), EncodedTables.run, []
    EncodedTables.run = lambda *given: passes.append(1) or run(*given)  # type: ignore[method-assign, assignment]
    if args.kind in ("dask", "ray"):
        print(json.dumps(on_engine(args)))
        return
    start = time.perf_counter()
    model = logistic(source if args.kind == "stream" else source.to_table(), args.d)
    seconds = time.perf_counter() - start
    print(json.dumps({"digest": digest(model), "seconds": seconds, "passes": len(passes), "peak": peak()}))


def on_engine(args: argparse.Namespace) -> dict[str, Any]:
    """Fit on a local cluster, several times; kill a worker in the middle of passes if that is asked for."""
    if args.kind == "ray":
        import ray

        ray.init(num_cpus=args.workers, include_dashboard=False, log_to_driver=False)
        return {"digest": digest(logistic(ray.data.read_parquet(args.folder), args.d))}
    import dask.dataframe
    from distributed import Client, LocalCluster

    local: dict[str, Any] = {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "silence_logs": 50}
    with LocalCluster(n_workers=args.workers, threads_per_worker=1, **local) as cluster, Client(cluster) as client:
        frame = dask.dataframe.read_parquet(args.folder)
        model = logistic(frame, args.d)  # workers have loaded what they need
        marks, tasks = [], []
        for k in range(args.kills):
            with killing(client, k % 5 + 2, tasks):
                marks.append(digest(logistic(frame, args.d)))
        seconds = [best(lambda: logistic(frame, args.d), 1) for _ in range(args.repeats)]
        return {"digest": digest(model), "seconds": seconds, "digests": marks, "tasks": tasks}


@contextlib.contextmanager
def killing(client: Any, at: int, tasks: list[int]) -> Iterator[None]:
    """Kill a worker that has tasks, in the given pass; note how many it had."""
    import signal
    import threading

    from dpconvex.problems.data.sources.cluster import DaskPartitions

    run, calls, pids = DaskPartitions.run, [], client.run(os.getpid)

    def kill() -> None:
        for _ in range(500):
            busy = {worker: len(keys) for worker, keys in client.processing().items() if keys}
            if busy:
                victim = max(busy, key=lambda worker: busy[worker])
                os.kill(pids[victim], signal.SIGKILL)
                tasks.append(busy[victim])
                return
            time.sleep(0.002)
        tasks.append(0)

    def watched(self: Any, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) != at:
            return run(self, *arguments)
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            return run(self, *arguments)
        finally:
            thread.join()

    DaskPartitions.run = watched  # type: ignore[method-assign]
    try:
        yield
    finally:
        DaskPartitions.run = run  # type: ignore[method-assign]


# Fits of files, compared with reading them.


def big(args: argparse.Namespace) -> None:
    """Write files of doubles, read them, and fit them under a limit of address space."""
    written = contextlib.nullcontext(args.written) if args.written else None
    with written or files(args.rows, args.d, args.files, args.folder, "float64") as folder:
        found = against_reading(folder, args, "--limit", int(args.limit * 2**30))
    record("big", found | {"limit_gib": args.limit})


def stream(args: argparse.Namespace) -> None:
    """Fit files that the system keeps in memory, streamed and read whole."""
    with files(args.rows, args.d, args.files, args.folder) as folder:
        found = against_reading(folder, args)
        whole = child("fit", folder, args.d, "memory")
    found |= {
        "memory_seconds": whole["seconds"],
        "memory_peak": whole["peak"],
        "same": whole["digest"] == found["digest"],
    }
    record("stream", found)


def against_reading(folder: str, args: argparse.Namespace, *limit: object) -> dict[str, Any]:
    """Return what a fit of files takes, and the ratio of a pass to the mean time of reading them with pyarrow."""
    reads = [child("read", folder)["seconds"]]
    fitted = child("fit", folder, args.d, "stream", *limit)
    reads += [child("read", folder)["seconds"]]
    read, each = float(np.mean(reads)), fitted["seconds"] / fitted["passes"]
    facts = {"n": args.rows, "d": args.d, "bytes": size_of(folder), "read": read, "reads": reads}
    return facts | fitted | {"pass": each, "ratio": each / read}


def read(args: argparse.Namespace) -> None:
    """Read files with pyarrow and do nothing."""
    import pyarrow.dataset

    start = time.perf_counter()
    for _ in pyarrow.dataset.dataset(args.folder).to_batches():
        pass
    print(json.dumps({"seconds": time.perf_counter() - start}))


# In memory.


def memory(args: argparse.Namespace) -> None:
    """Run benchmarks/speed_logistic.py and keep its results."""
    words = ["--n", str(args.rows), "--d", str(args.d), "--json"]
    answer = subprocess.run([sys.executable, ROOT / "speed_logistic.py", *words], capture_output=True, check=True)
    rows = {row["method"]: row for row in json.loads(answer.stdout)["results"]}
    found = {"n": args.rows, "d": args.d, "sklearn_seconds": rows["sklearn"]["seconds"]}
    found |= {"time_ratio": rows["private"]["time_ratio"], "memory_ratio": rows["private"]["memory_ratio"]}
    record("memory", found | {"seconds": rows["private"]["seconds"]})


def cells(args: argparse.Namespace) -> None:
    """Fit a frame of 12 columns with 40 categories each, in fresh processes."""
    found = [child("categories", n, args.levels) for n in (args.rows // 10, args.rows)]
    growth = (found[1]["extra"] - found[0]["extra"]) / (found[1]["cells"] - found[0]["cells"])
    record("cells", {"levels": args.levels, "small": found[0], "large": found[1], "growth_over_cells": growth})


def categories(args: argparse.Namespace) -> None:
    """Print the memory that a fit takes beyond the table."""
    import pyarrow as pa

    from dpconvex import PrivateLogisticRegression
    from dpconvex.data import CategoricalColumn, ClassTarget, Schema

    rng, labels = np.random.default_rng(0), [f"c{k}" for k in range(args.levels)]

    def column(values: np.ndarray, names: list[str]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(values.astype(np.int8)), names)

    columns = {f"k{j}": column(rng.integers(0, args.levels, args.n), labels) for j in range(12)}
    whole = pa.table({**columns, "y": column(rng.random(args.n) < 0.3, ["no", "yes"])})
    described = Schema(tuple(CategoricalColumn(k, tuple(labels)) for k in columns), ClassTarget("y", ("no", "yes")))
    model = PrivateLogisticRegression(1.0, schema=described, random_state=0, algorithm="objective_perturbation")
    model.fit(whole.slice(0, 2000))  # compiled
    before, start = peak(), time.perf_counter()
    model.fit(whole)
    facts = {"n": args.n, "cells": 13 * args.n / 2**20, "matrix": 96 * args.levels * args.n / 2**20}
    print(json.dumps(facts | {"extra": peak() - before, "seconds": time.perf_counter() - start}))


# Engines and sizes.


def workers(args: argparse.Namespace) -> None:
    """Time whole fits on one and on two Dask workers, in turn, after a round that finds no file or code in memory."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    with files(args.rows, args.d, 32, args.folder) as folder:
        for _ in range(1 + args.repeats):
            for count, found in seconds.items():
                found += child("fit", folder, args.d, "dask", "--workers", count, "--repeats", 1, threads=1)["seconds"]
    for found in seconds.values():
        del found[0]
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    record("workers", {"n": args.rows, "d": args.d, "seconds": seconds, "ratios": ratios})


METHODS = ("logistic", "statistics", "median", "marginals")


def slopes(args: argparse.Namespace) -> None:
    """Time fits of growing n on one thread, each in a fresh process, and fit a line in logarithms.

    Work after the last pass depends on the records only through what was released: it is part of the whole time, not
    of the time of passes.
    """
    found: dict[str, Any] = {}
    for n in args.sizes:
        with files(n, args.d, max(1, n // 10**6), args.folder) as folder:
            for name in args.methods:
                found.setdefault(name, []).append(child("scaling", name, folder, args.d, threads=1))
    for name, rows in found.items():
        columns = {part: [row[part] for row in rows] for part in ("seconds", "passes")}
        steps = {part: np.polyfit(np.log(args.sizes), np.log(each), 1)[0] for part, each in columns.items()}
        found[name] = columns | {"slope": float(steps["passes"]), "whole": float(steps["seconds"])}
    record("slopes", {"n": args.sizes, "d": args.d, "methods": found})


def scaling(args: argparse.Namespace) -> None:
    """Print the seconds of a fit of files, and how many of them passes over the records take."""
    import pyarrow.dataset

    from dpconvex.problems.data.sources.rows import EncodedTables

    source = pyarrow.dataset.dataset(args.folder)
    if args.name == "median":  # of all columns
        source = source.replace_schema(pyarrow.schema([source.schema.field(f"x{j}") for j in range(args.d)]))
    work, run, passed = fits(args.name, args.d), EncodedTables.run, [0.0]

    def watched(*given: Any) -> Iterator[Any]:
        start = time.perf_counter()
        try:
            yield from run(*given)
        finally:
            passed[-1] += time.perf_counter() - start

    EncodedTables.run = watched  # type: ignore[method-assign, assignment]
    work(pyarrow.dataset.dataset(source.head(1000)))  # compiled
    seconds = []
    for _ in range(3 if source.count_rows() < 10**6 else 1):
        passed.append(0.0)
        seconds.append(best(lambda: work(source), 1))
    print(json.dumps({"seconds": min(seconds), "passes": min(passed[1:])}))


def fits(name: str, d: int) -> Callable[[Any], object]:
    """Return a fit by its name."""
    from dpconvex import PrivateGeometricMedian, PrivateLinearRegression, PrivateSyntheticData

    numbers = {"schema": schema(d, number=True), "random_state": 0}
    return {
        "logistic": lambda X: logistic(X, d),
        "statistics": lambda X: PrivateLinearRegression(
            1.0, delta=1e-6, algorithm="sufficient_statistics", **numbers
        ).fit(X),
        "median": lambda X: PrivateGeometricMedian(1.0, delta=1e-6, radius_bound=4.0, random_state=0).fit(X),
        "marginals": lambda X: PrivateSyntheticData(1.0, schema=schema(3), random_state=0).fit(X),
    }[name]


# The documentation.


def report(args: argparse.Namespace) -> None:
    """Write the table and the picture of what was measured."""
    known = json.loads(RESULTS.read_text())
    lines = ["| what | size | measured | asked | command |", "|---|---|---|---|---|"]
    for name, row in ROWS_OF.items():
        if name in known:
            size, measured, asked = row(known[name])
            lines.append(f"| {TITLES[name]} | {size} | {measured} | {asked} | `benchmarks/scale.py {name}` |")
    TABLE.write_text("\n".join(lines) + "\n")
    print(TABLE.read_text())
    if "slopes" in known:
        picture(known["slopes"])


TITLES = {
    "identity": "the same coefficients and certificates",
    "big": "Parquet files under a limit of memory",
    "stream": "files that the system keeps in memory",
    "memory": "a private fit in memory, over scikit-learn",
    "cells": "a frame of 12 columns of 40 categories",
    "workers": "two Dask workers over one",
    "slopes": "time over n, in logarithms",
}


def size_text(found: dict[str, Any]) -> str:
    """Return the numbers of rows and columns, in words."""
    return f"n = {found['n']:,}, d = {found['d']}"


ROWS_OF: dict[str, Callable[[dict[str, Any]], tuple[str, str, str]]] = {
    "identity": lambda r: (size_text(r), f"{r['cases']} of {r['cases']} fits" if r["same"] else "differ", "all"),
    "big": lambda r: (
        f"{size_text(r)}, {r['bytes'] / 1e9:.1f} GB",
        f"{r['seconds']:.0f} s, {r['passes']} passes, peak {r['peak']:.0f} MiB under {r['limit_gib']:g} GiB; "
        f"a pass is {r['ratio']:.2f} times pyarrow reading them ({r['read']:.1f} s)",
        "1.5 times at most",
    ),
    "stream": lambda r: (
        f"{size_text(r)}, {r['bytes'] / 1e6:.0f} MB",
        f"a pass is {r['ratio']:.2f} times pyarrow reading them ({r['read']:.2f} s); "
        f"peak {r['peak']:.0f} MiB, read whole {r['memory_peak']:.0f} MiB",
        "–",
    ),
    "memory": lambda r: (
        size_text(r),
        f"{r['time_ratio']:.2f} of its time ({r['seconds']:.2f} s); extra memory {r['memory_ratio']:.2f} of X",
        "0.9; 0.25",
    ),
    "cells": lambda r: (
        f"n = {r['small']['n']:,} and {r['large']['n']:,}",
        f"extra {r['small']['extra']:.0f} and {r['large']['extra']:.0f} MiB, cells {r['small']['cells']:.0f} and "
        f"{r['large']['cells']:.0f}, the matrix {r['small']['matrix']:.0f} and {r['large']['matrix']:.0f}; "
        f"each MiB of cells adds {r['growth_over_cells']:.2f}",
        "1.5",
    ),
    "workers": lambda r: (size_text(r), ", ".join(f"{x:.2f}" for x in r["ratios"]) + " times as fast", "1.6"),
    "slopes": lambda r: (
        f"n = {min(r['n']):,} to {max(r['n']):,}, d = {r['d']}",
        "passes " + ", ".join(f"{name} {each['slope']:.2f}" for name, each in r["methods"].items()) + "; whole fits "
        f"{min(each['whole'] for each in r['methods'].values()):.2f} to "
        f"{max(each['whole'] for each in r['methods'].values()):.2f}",
        "1.0 ± 0.1",
    ),
}


def picture(found: dict[str, Any]) -> None:
    """Draw seconds over n."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, each in found["methods"].items():
        axes.loglog(found["n"], each["passes"], "o-", label=f"{name}, slope {each['slope']:.2f}")
    axes.set(xlabel="records", ylabel="seconds in passes, one thread")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    def command(name: str, run: Callable[[argparse.Namespace], None], **options: Any) -> argparse.ArgumentParser:
        part = commands.add_parser(name, help=run.__doc__)
        for option, value in options.items():
            part.add_argument(f"--{option}", type=type(value), default=value)
        part.add_argument("--folder", help="where temporary files are written")
        part.set_defaults(run=run)
        return part

    command("identity", identity, rows=400_000, d=12)
    large = command("big", big, rows=40_000_000, d=60, files=40, limit=2.0)
    large.add_argument("--written", help="a folder with such files, which are left there")
    command("stream", stream, rows=2_000_000, d=60, files=8)
    command("memory", memory, rows=1_000_000, d=100)
    command("cells", cells, rows=4_000_000, levels=40)
    command("workers", workers, rows=10_000_000, d=20, repeats=3)
    growing = command("slopes", slopes, d=10)
    growing.add_argument("--sizes", type=int, nargs="+", default=[100_000, 400_000, 2_000_000, 10_000_000, 40_000_000])
    growing.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    table = command("passes", passes, entries=40_000_000, repeats=5, seed=0)
    table.add_argument("--columns", type=int, nargs="+", default=[10, 100, 1000])
    command("report", report)

    def inner(name: str, run: Callable[[argparse.Namespace], None], *words: str, **options: Any) -> None:
        part = commands.add_parser(name)
        for word in words:
            part.add_argument(word, type=int if word in ("d", "n", "levels") else str)
        for option, value in options.items():
            part.add_argument(f"--{option}", type=int, default=value)
        part.set_defaults(run=run)

    inner("fit", fit, "folder", "d", "kind", workers=2, kills=0, repeats=0, limit=0)
    inner("read", read, "folder")
    inner("categories", categories, "n", "levels")
    inner("scaling", scaling, "name", "folder", "d")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
