"""Compare speed and memory of certified ridge logistic regression with scikit-learn, on the same synthetic data.

Each method runs in a fresh process that makes the data, notes the peak memory so far, fits, and reports seconds,
additional peak memory as a share of X, and the gradient norm of the objective at its solution (for "private", at the
released point, noise included). Imports are timed too. A method is a function ``(X, y, l2) -> parameters`` with the
intercept last; add one to `METHODS` to compare it.

    python benchmarks/speed_logistic.py --n 1000000 --d 100
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

THREADS = "2"
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, THREADS)

import numpy as np  # noqa: E402  (after the thread settings)

TARGET = 1e-10  # certified gradient norm


def make_data(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that are mostly inside the unit ball (so that some are clipped), and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X *= 0.9 / np.sqrt(d)
    w = rng.standard_normal(d) * 3 / np.sqrt(d) * np.sqrt(d / 10)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-(X @ w) - 0.5)), 1.0, -1.0)
    return X, y


def newton(X: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    """Run the library's default solver, clipping included, to a certified gradient norm."""
    from dpconvex.losses import LogisticLoss
    from dpconvex.problems import DataDomain, Records, RegularizedRisk
    from dpconvex.solvers import default_solver

    domain = DataDomain.l2_ball(X.shape[1], 1.0).with_intercept()
    objective = RegularizedRisk(LogisticLoss(), Records.clipped(X, domain), y, l2)
    result = default_solver(objective.loss, dim=objective.dim).solve(objective, TARGET / l2)
    print(f"{result.status} {result.steps} steps, {result.gradient_calls} passes", file=sys.stderr)
    return result.point


def sklearn(X: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    """Run scikit-learn's default solver and tolerance (no clipping, unpenalized intercept, no certificate)."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (len(X) * l2)).fit(X, y)
    print(f"{model.n_iter_[0]} iterations", file=sys.stderr)
    return np.append(model.coef_[0], model.intercept_)


def estimator(X: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    """Run the whole private fit: checks, plan, clipping, certified solve, noise, certificate (epsilon 1, pure)."""
    from dpconvex import PrivateLogisticRegression

    model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=(-1, 1), l2=l2).fit(X, y)
    return np.append(model.coef_[0], model.intercept_)


def ranges(X: np.ndarray, y: np.ndarray, l2: float) -> np.ndarray:
    """Run a private fit of columns with declared ranges, by the defaults: looks, recentering, its own penalty."""
    from dpconvex import PrivateLogisticRegression

    model = PrivateLogisticRegression(1.0, feature_bounds=(-5, 5), classes=(-1, 1)).fit(X, y)
    return np.append(model.coef_[0], model.intercept_)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, float], np.ndarray]] = {
    "sklearn": sklearn,
    "solver": newton,
    "private": estimator,
    "ranges": ranges,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--d", type=int, default=100)
    parser.add_argument("--l2", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3, help="fits in each process, of which the median time counts")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--one", choices=METHODS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args)))
        return
    rows = [in_fresh_process(name) for name in args.methods]
    base = next((row["seconds"] for row in rows if row["method"] == "sklearn"), None)
    for row in rows:
        row["time_ratio"] = row["seconds"] / base if base else None
    if args.json:
        settings = {"n": args.n, "d": args.d, "l2": args.l2, "seed": args.seed, "threads": THREADS}
        print(json.dumps({"settings": settings, "results": rows, "import_seconds": imports()}, indent=2))
        return
    print(f"n={args.n} d={args.d} l2={args.l2:g}, {THREADS} threads, median of {args.repeats}")
    print(f"{'method':<12}{'seconds':>10}{'time ratio':>12}{'memory / X':>12}{'gradient norm':>16}")
    for row in rows:
        ratio = f"{row['time_ratio']:.2f}" if base else "-"
        line = f"{row['method']:<12}{row['seconds']:>10.2f}{ratio:>12}{row['memory_ratio']:>12.3f}"
        print(line + f"{row['gradient_norm']:>16.1e}")
    for statement, seconds in imports().items():
        print(f"{seconds:.2f} s of processor time: {statement}")


IMPORTS = (
    "import dpconvex",
    "from dpconvex import PrivateLogisticRegression",
    "from sklearn.linear_model import LogisticRegression",
)


def imports(repeats: int = 5) -> dict[str, float]:
    """Return the median processor time of each import in fresh interpreters, less that of an empty program."""

    def spent(statement: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", statement], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    times = {statement: [spent(statement) for _ in range(repeats)] for statement in ("pass", *IMPORTS)}
    medians = {statement: float(np.median(values)) for statement, values in times.items()}
    return {statement: medians[statement] - medians["pass"] for statement in IMPORTS}


def in_fresh_process(name: str) -> dict:
    command = [sys.executable, __file__, *sys.argv[1:], "--one", name]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def measure(name: str, args: argparse.Namespace) -> dict:
    warm = make_data(2000, args.d, args.seed + 1)
    METHODS[name](*warm, args.l2)  # so that imports and compilation are not timed
    X, y = make_data(args.n, args.d, args.seed)
    seconds = []
    reset_peak_memory()
    before = memory("VmRSS")
    for repeat in range(args.repeats):
        start = time.perf_counter()
        w = METHODS[name](X, y, args.l2)
        seconds.append(time.perf_counter() - start)
        if repeat == 0:
            extra = memory("VmHWM") - before
    return {
        "method": name,
        "seconds": float(np.median(seconds)),
        "memory_ratio": extra / X.nbytes,
        "gradient_norm": gradient_norm(name, X, y, args.l2, w),
    }


def gradient_norm(name: str, X: np.ndarray, y: np.ndarray, l2: float, w: np.ndarray) -> float:
    """Return the gradient norm of the objective that the method solves; only ours clips and penalizes the intercept."""
    ours = name != "sklearn"
    factor = 1 / np.maximum(np.sqrt(np.einsum("ij,ij->i", X, X)), 1) if ours else np.ones(len(X))
    slope = -y / (1 + np.exp(y * (factor * (X @ w[:-1]) + w[-1])))
    g = np.append((slope * factor) @ X, slope.sum()) / len(y) + l2 * w
    if not ours:
        g[-1] -= l2 * w[-1]
    return float(np.linalg.norm(g))


def memory(field: str) -> int:
    """Return a field of the process status in bytes: memory now (VmRSS), or its peak since the last reset (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"no {field} in /proc/self/status: this benchmark needs Linux")


def reset_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
