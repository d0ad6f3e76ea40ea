"""What sums that do not depend on order cost, and fits larger than memory.

    python benchmarks/scale.py passes            # cost of a pass: floats added up, and sums of this library
    python benchmarks/scale.py stream            # a fit of Parquet files: memory, and time against reading them

The table compares, on one thread and on the same rows, a gradient pass with BLAS (predictions, slopes, adjoint; sums
depend on blocks and threads), the same with weights split in two limbs and features on a grid (products exact in BLAS),
and the library's. Worst-case errors are proved in `dpconvex.problems.data.summation`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402  (after the thread settings)

from dpconvex.losses import LogisticLoss  # noqa: E402
from dpconvex.problems import DataDomain, Records, RegularizedRisk, UserGroups  # noqa: E402
from dpconvex.problems.data.users import clipped_mean  # noqa: E402

ROWS = 1310  # of a block: about 1 MB


def slopes(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Slopes of the logistic loss."""
    return -y / (1 + np.exp(y * z))


def floats(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """A gradient pass as BLAS adds: fast, and its last bits depend on the blocks."""
    out = np.zeros(X.shape[1])
    for first in range(0, len(X), ROWS):
        block = X[first : first + ROWS]
        out += slopes(block @ w, y[first : first + ROWS]) @ block
    return out


def operands(X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Features on a grid of 2^-20, weights in two limbs of 20 bits: every product and sum of BLAS is exact."""
    out, buffer = np.zeros((2, X.shape[1])), np.empty((1024, X.shape[1]))
    whole = np.rint(w * 2.0**16)
    limbs = np.stack([whole, np.rint((w * 2.0**16 - whole) * 2.0**20)])
    for first in range(0, len(X), len(buffer)):
        block = X[first : first + len(buffer)]
        grid = np.trunc(np.multiply(block, 2.0**20, out=buffer[: len(block)]), out=buffer[: len(block)])
        high, low = limbs @ grid.T
        slope = slopes((high + low * 2.0**-20) * 2.0**-36, y[first : first + len(buffer)]) * 2.0**20
        out += np.stack([np.rint(slope), np.rint((slope - np.rint(slope)) * 2.0**20)]) @ grid
    return (out[0] + out[1] * 2.0**-20) * 2.0**-40


def best(work: Callable[[], object], repeats: int) -> float:
    """Least seconds of some calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def passes(args: argparse.Namespace) -> None:
    """Print nanoseconds an entry of X."""
    rng = np.random.default_rng(args.seed)
    print(f"{'n':>10}{'d':>6}  {'pass':<28}{'ns / entry':>12}{'ratio':>8}")
    for d in args.columns:
        first = 1.0
        for name, work in cases(args.entries // d, d, rng).items():
            work()  # compiled, and in memory
            nanoseconds = best(work, args.repeats) / (args.entries // d * d) * 1e9
            first = nanoseconds if name.endswith("floats") else first
            print(f"{args.entries // d:>10}{d:>6}  {name:<28}{nanoseconds:>12.2f}{nanoseconds / first:>8.2f}")


def cases(n: int, d: int, rng: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Return what is timed, on data of this size."""
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


def table(n: int, d: int, seed: int) -> object:
    """Rows of d numeric columns in [-1, 1] and two classes, as an Arrow table."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)).astype(np.float32)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-4 * X[:, 0] - 2 * X[:, 1])), "yes", "no")
    return pa.table({**{f"x{j}": X[:, j] for j in range(d)}, "y": y})


def stream(args: argparse.Namespace) -> None:
    """Write Parquet files, then fit them in a fresh process, streamed or read whole."""
    import subprocess
    import sys
    import tempfile

    import pyarrow.parquet

    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for k in range(args.files):
            pyarrow.parquet.write_table(table(args.rows // args.files, args.d, k), f"{folder}/{k}.parquet")
        size = sum(os.path.getsize(f"{folder}/{k}.parquet") for k in range(args.files))
        print(
            f"n={args.rows} d={args.d}, {size / 2**20:.0f} MiB of Parquet, {args.rows * args.d / 2**27:.0f} MiB encoded"
        )
        print(f"{'fit':<10}{'seconds':>9}{'passes':>8}{'s / pass':>10}{'read once':>11}{'peak MiB':>10}  coefficients")
        for kind in ("stream", "memory"):
            subprocess.run([sys.executable, __file__, "one", folder, str(args.d), kind], check=True)


def one(args: argparse.Namespace) -> None:
    """Fit files and print a row of the table."""
    import hashlib
    import resource

    import pyarrow.dataset

    from dpconvex import PrivateLogisticRegression
    from dpconvex.data import ClassTarget, NumericColumn, Schema
    from dpconvex.problems.data.sources import EncodedRows

    files = pyarrow.dataset.dataset(args.folder)
    ahead, passes = EncodedRows.ahead, []
    EncodedRows.ahead = lambda self: passes.append(1) or ahead(self)  # type: ignore[method-assign, assignment]
    start = time.perf_counter()
    for _ in files.scanner(batch_readahead=2, fragment_readahead=1).to_batches():
        pass
    reading, start = time.perf_counter() - start, time.perf_counter()
    schema = Schema(tuple(NumericColumn(f"x{j}", -1, 1) for j in range(args.d)), ClassTarget("y", ("no", "yes")))
    model = PrivateLogisticRegression(1.0, schema=schema, random_state=0, algorithm="objective_perturbation")
    model.fit(files if args.kind == "stream" else files.to_table())
    seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    digest = hashlib.sha256(model.coef_.tobytes()).hexdigest()[:12]
    each = seconds / max(len(passes), 1)
    print(
        f"{args.kind:<10}{seconds:>9.1f}{len(passes):>8}{each:>10.2f}{reading:>11.2f}{peak:>10.0f}  {digest}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    table = commands.add_parser("passes", help="cost of a pass over data in memory")
    table.add_argument("--entries", type=int, default=40_000_000, help="of X")
    table.add_argument("--columns", type=int, nargs="+", default=[10, 100, 1000])
    table.add_argument("--repeats", type=int, default=5)
    table.add_argument("--seed", type=int, default=0)
    table.set_defaults(run=passes)
    files = commands.add_parser("stream", help="fits of Parquet files")
    files.add_argument("--rows", type=int, default=2_000_000)
    files.add_argument("--d", type=int, default=60)
    files.add_argument("--files", type=int, default=8)
    files.add_argument("--folder", help="where temporary files are written")
    files.set_defaults(run=stream)
    row = commands.add_parser("one", help=argparse.SUPPRESS)
    row.add_argument("folder")
    row.add_argument("d", type=int)
    row.add_argument("kind", choices=["stream", "memory"])
    row.set_defaults(run=one)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
