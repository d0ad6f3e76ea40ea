"""Measure time and memory of user-level fits: 10^5 users, 10^7 records in any order.

    python benchmarks/user_speed.py [--users 100000] [--records 10000000] [--features 20] [--algorithms ...]

Each fit runs in a process of its own. The printed memory is the peak beyond the memory before the data were made,
relative to the data (features, targets and labels).
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time

import numpy as np


def data(users: int, records: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, users, records)
    X = rng.random((records, features))
    X -= 0.5
    y = (X[:, 0] > 0.1).astype(np.int8)
    return X, y, labels


def peak() -> float:
    """Return the largest resident memory of this process so far, in bytes."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def one(algorithm: str, users: int, records: int, features: int, queue) -> None:
    from dpconvex import PrivateLogisticRegression

    # Compile and import first, on few records.
    X, y, labels = data(max(200, users // 100), max(2000, records // 1000), features, 1)
    facts = {
        "feature_norm": 1.0,
        "classes": [0, 1],
        "algorithm": algorithm,
        "records_per_user": max(1, records // users),
    }
    model = PrivateLogisticRegression(1.0, 1e-6, random_state=0, **facts)
    try:
        model.fit(X, y, groups=labels)
    except Exception as error:
        print(f"{algorithm}: small fit: {error}")
    before = peak()
    X, y, labels = data(users, records, features, 0)
    size = X.nbytes + y.nbytes + labels.nbytes
    made = peak()
    start = time.perf_counter()
    try:
        model.fit(X, y, groups=labels)
    except Exception as error:
        queue.put(f"{algorithm:26} refused: {error}")
        return
    seconds = time.perf_counter() - start
    queue.put(
        f"{algorithm:26} {model.plan_.algorithm:24} {seconds:8.1f} s   peak {(peak() - before) / size:5.2f} x data "
        f"({size / 2**20:,.0f} MiB; making them {(made - before) / size:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--algorithms", nargs="+", default=["auto"])
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for algorithm in arguments.algorithms:
        queue = context.Queue()
        sizes = (arguments.users, arguments.records, arguments.features)
        process = context.Process(target=one, args=(algorithm, *sizes, queue))
        process.start()
        print(queue.get(), flush=True)
        process.join()


if __name__ == "__main__":
    main()
