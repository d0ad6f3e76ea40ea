"""Encode the tables by their public schemas, split them, and find the non-private optimum: arrays for every method.

    PYTHONPATH=benchmarks python -m side_by_side.prepare [--quick] [--tables adult ...]

Tables of the corpus are prepared if they are named. ``--tables held_out`` stands for the tables with two classes or
numbers of the half on which nothing was ever chosen, ``--tables learning`` for those of the other half, ``--tables
exam`` and ``--tables second`` for the lists of `exam_tables.py`, ``--tables keel`` for the tables of `keel_tables.py`.
"""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import xlogy

import corpus
import keel_tables
import tables
from dpconvex.losses import LogisticLoss
from dpconvex.problems import Block, DataDomain, Records, RegularizedRisk
from dpconvex.solvers import NewtonCholesky
from exam_tables import EXAM, SECOND
from side_by_side.cells import arguments, mean_loss

FASHION = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts it


def fashion() -> tuple[np.ndarray, np.ndarray, DataDomain]:
    """Return Fashion-MNIST: 60,000 images, each divided by its own Euclidean length."""
    images, labels = (FASHION / f"train-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1"))
    X = np.frombuffer(gzip.decompress(images.read_bytes())[16:], np.uint8).reshape(-1, 784).astype(float)
    y = np.frombuffer(gzip.decompress(labels.read_bytes())[8:], np.uint8)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y, DataDomain.l2_ball(784, 1.0)


def from_schema(make) -> tuple[np.ndarray, np.ndarray, DataDomain]:
    table = make()
    y = table.y
    if table.schema.target.numeric:
        target = table.schema.target
        y = (y - (target.lower + target.upper) / 2) / (target.upper - target.lower)
    return table.X, y, table.schema.domain()


BINARY = ("adult", "flights", "cancer", "fertility", "spambase")
SOURCES = {
    **{name: partial(from_schema, tables.TABLES[name]) for name in BINARY},
    "adult": partial(from_schema, partial(tables.adult, 45_222)),
    "fashion": fashion,
    **{name: partial(from_schema, make) for name, make in tables.REGRESSION_TABLES.items()},
}
DESCRIBED = {name: partial(corpus.load, name) for name in corpus.TWO_CLASSES_OR_NUMBERS}
DESCRIBED |= {name: partial(recipe.table, name) for name, recipe in {**EXAM, **SECOND}.items()}
DESCRIBED |= {name: partial(keel_tables.table, name) for name in keel_tables.KEEL}
GROUPS = {half: [name for name in names if name in DESCRIBED] for half, names in corpus.HALVES.items()}
GROUPS |= {"exam": list(EXAM), "second": list(SECOND), "keel": list(keel_tables.KEEL)}


def optimum(kind: str, X: np.ndarray, y: np.ndarray, domain: DataDomain) -> float:
    """Return the mean loss of the optimum; classes have a tiny penalty, so that separable data have one, too."""
    if kind == "regression":
        A = np.column_stack([X, np.ones(len(X))])
        gram, moments = A.T @ A, A.T @ y
        w = np.linalg.lstsq(gram, moments, rcond=1e-12)[0]
    elif kind == "binary":
        risk = RegularizedRisk(LogisticLoss(), Records.clipped(X, domain.with_intercept(1.0)), 2.0 * y - 1, 1e-9)
        w = NewtonCholesky().solve(risk, 1e-2).point
    else:
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=1e6, tol=1e-7, max_iter=1500).fit(X, y)
        codes = np.searchsorted(model.classes_, y)  # a rare class may have no record for training
        return mean_loss(kind, X @ model.coef_.T + model.intercept_, codes)
    return mean_loss(kind, (X @ w[:-1] + w[-1])[:, None], y)


def constant(kind: str, y: np.ndarray) -> float:
    """Return the mean loss of the best prediction without features."""
    if kind == "regression":
        return float(np.var(y))
    shares = np.bincount(y.astype(int)) / len(y)
    return float(-np.sum(xlogy(shares, shares)))


def split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which of n records are for training, and which are held out."""
    order = np.random.default_rng(0).permutation(n)
    return order[n // 5 :], order[: n // 5]


def described(name: str) -> tables.Table | None:
    """Return the table as its schema describes it; None for images, which have no schema."""
    makers = {**DESCRIBED, **tables.TABLES, **tables.REGRESSION_TABLES, "adult": partial(tables.adult, 45_222)}
    return makers[name]() if name in makers else None


def prepare(name: str, folder: Path) -> None:
    X, y, domain = SOURCES[name]() if name in SOURCES else from_schema(DESCRIBED[name])
    kind = (
        "regression" if np.ptp(y) <= 1 and not np.isin(y, (0, 1)).all() else "binary" if y.max() == 1 else "multiclass"
    )
    train, test = split(len(X))
    parts = {"X": X[train], "y": y[train], "X_test": X[test], "y_test": y[test]}
    folder.mkdir(parents=True, exist_ok=True)
    for part, array in parts.items():
        np.save(folder / f"{part}.npy", array)
    best = optimum(kind, parts["X"], parts["y"], domain)
    variance = float(np.var(parts["y"])) if kind == "regression" else 1.0
    facts = {
        "name": name, "kind": kind, "n": len(train), "d": X.shape[1], "norm": domain.l2,
        "outputs": int(y.max()) + 1 if kind == "multiclass" else 1,
        "blocks": [[block.size, block.norm, block.bound, block.name, block.values] for block in domain.blocks],
        "optimum": best, "constant": (constant(kind, parts["y"]) - best) / variance, "variance": variance,
    }  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts))
    print({key: value for key, value in facts.items() if key != "blocks"}, flush=True)


def domain_of(blocks: list) -> DataDomain:
    """Return the domain of encoded rows, from the facts."""
    return DataDomain(tuple(Block(*block) for block in blocks))


def main() -> None:
    given = arguments("prepare", __doc__, [name for name in SOURCES if name != "fashion" or FASHION.exists()])
    for name in GROUPS.get(given.tables[0], given.tables):
        if not (given.data / name / "facts.json").exists():
            prepare(name, given.data / name)
    given.results.mkdir(parents=True, exist_ok=True)
    path = given.results / "tables.json"
    kept = json.loads(path.read_text()) if path.exists() else {}  # facts of tables whose data are not here stay
    kept |= {each.parent.name: json.loads(each.read_text()) for each in given.data.glob("*/facts.json")}
    path.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
