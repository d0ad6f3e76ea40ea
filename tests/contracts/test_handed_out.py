"""What a fit hands out beside released numbers has the same attributes whatever its records hold.

Plans, domains and losses keep what they have computed once. A fitted model hands them out, in pickles too, so what they
keep must not depend on the records: neither a missing cell nor one that is out of range may add an attribute. Two
processes, which have kept nothing yet, fit the same models, one of them with a single odd record; both must end with
the same attributes. Fits are seeded, so a difference is no chance.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse

from dpconvex import (
    CategoricalColumn,
    DataDomain,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateGeometricMedian,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSparseLogisticRegression,
    Schema,
    private_metrics,
    private_minimize,
)
from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.data import ClassTarget
from dpconvex.errors import DpconvexError
from dpconvex.estimators import _streams
from dpconvex.problems import Block, LocationLoss

N = 200
ODD = {"missing": [np.nan, 0.0], "infinite": [np.inf, -np.inf], "outside": [5.0, 1e200]}
BOUNDS: dict[str, dict[str, Any]] = {
    "bounds": {"feature_bounds": (-1, 1)},
    "norm": {"feature_norm": 1.3},
    "domain": {"domain": DataDomain.box(2, 1.0)},
}


LEVELS = DataDomain((Block(40, "simplex", 1.0, "level"), Block(2, "linf", 1.0, "numbers")))
TABLE = Schema(
    (CategoricalColumn("level", tuple(f"v{k}" for k in range(200))), NumericColumn("a", -1, 1)),
    ClassTarget("y", ("n", "y")),
)


def with_levels(X: Any) -> scipy.sparse.csr_array:
    """A sparse matrix of a category of 40 levels and the two numbers of every record."""
    return scipy.sparse.csr_array(np.column_stack([np.eye(40)[np.arange(len(X)) % 40], X]))


def table(X: Any, labels: Any) -> pl.DataFrame:
    """A table of a category of 200 levels, of which sparse matrices are made, and the first number of every record."""
    levels = [f"v{k % 200}" for k in range(len(X))]
    return pl.DataFrame({"level": levels, "a": X[:, 0], "y": np.array(["n", "y"])[labels]})


def cases(every: bool) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield names and fits of records (n, 2), numbers (n,) and labels (n,); `every` adds every algorithm."""
    fixed, labels, target = {"random_state": 1, "epsilon": 5.0}, {"classes": [0, 1]}, {"target_bounds": (-1, 1)}
    for name, domain in list(BOUNDS.items())[not every :]:
        for model in (PrivateLogisticRegression, PrivateLinearSVC):
            yield f"{model.__name__} {name}", lambda X, y, k, m=model, d=domain: m(**fixed, **labels, **d).fit(X, k)
        for model in (PrivateLinearRegression, PrivateHuberRegressor, PrivateQuantileRegressor):
            yield f"{model.__name__} {name}", lambda X, y, k, m=model, d=domain: m(**fixed, **target, **d).fit(X, y)
        for algorithm in ERM_METHODS if every else ():
            o = {**fixed, **domain, "algorithm": algorithm, "delta": 1e-6}
            yield f"{algorithm} {name}", lambda X, y, k, o=o: PrivateLogisticRegression(**o, **labels).fit(X, k)
            yield (
                f"{algorithm}, numbers {name}",
                lambda X, y, k, o=o: PrivateLinearRegression(**o, **target).fit(X, y),
            )
    bounds = {**fixed, "feature_bounds": (-1, 1)}
    yield "additive", lambda X, y, k: PrivateAdditiveClassifier(**bounds, **labels).fit(X, k)
    yield "inference", lambda X, y, k: PrivateLinearRegression(**bounds, **target, inference=True).fit(X, y)
    yield "users", lambda X, y, k: PrivateLogisticRegression(**bounds, **labels).fit(X, k, groups=np.arange(N) // 3)
    heavy = {**bounds, **target, "heavy_tailed": 2, "fit_intercept": False}  # of zeros, which leave nothing to do
    odd = lambda X: 1.0 * ~np.isfinite(X).all(axis=1)  # noqa: E731
    yield "heavy", lambda X, y, k: PrivateLinearRegression(**heavy).fit(np.outer(odd(X), [0.5, -1]), odd(X))
    yield "median", lambda X, y, k: PrivateGeometricMedian(**fixed, delta=1e-6, radius_bound=2.0).fit(X)
    sparse = {**fixed, "delta": 1e-6, "feature_bound": 1.0}
    yield "lasso", lambda X, y, k: PrivateLasso(**sparse, **target).fit(X, y)
    yield "sparse", lambda X, y, k: PrivateSparseLogisticRegression(**sparse, **labels).fit(X, k)
    loss = LocationLoss(DataDomain.l2_ball(2, 1.0), width=0.2)
    yield "minimize", lambda X, y, k: private_minimize(loss, X, epsilon=1.0, radius=1.0, random_state=1)
    yield (
        "sparse matrix",
        lambda X, y, k: PrivateLogisticRegression(**fixed, **labels, domain=LEVELS).fit(with_levels(X), k),
    )
    yield "cells", lambda X, y, k: PrivateLogisticRegression(**fixed, schema=TABLE).fit(table(X, k).lazy())
    clean = np.random.default_rng(1).uniform(-1, 1, (N, 2))
    model = PrivateLogisticRegression(**bounds, **labels).fit(clean, clean[:, 0] > 0)
    yield "metrics", lambda X, y, k: private_metrics(model, X, k, epsilon=1.0, random_state=1)


def paths(found: Any, path: str, seen: dict[int, Any]) -> Iterator[str]:
    """Yield the path of every attribute of this library's objects in `found`."""
    if id(found) in seen:
        return
    seen[id(found)] = found  # kept, so that no other object gets its identity
    if isinstance(found, dict):
        for key, value in found.items():
            yield from paths(value, f"{path}[{key!r}]", seen)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from paths(value, f"{path}[]", seen)
    elif type(found).__module__.startswith("dpconvex") and hasattr(found, "__dict__") and not isinstance(found, type):
        for key, value in vars(found).items():
            yield f"{path}.{key}"
            yield from paths(value, f"{path}.{key}", seen)


def attributes(odd: str, every: bool) -> dict[str, list[str]]:
    """Return the attributes that each fit hands out, where one record is odd."""
    warnings.simplefilter("ignore")
    X = np.random.default_rng(0).uniform(-0.9, 0.9, (N, 2))
    y, found = X[:, 1].copy(), {}
    labels = (X[:, 0] > 0).astype(int)
    if odd:
        X[7] = ODD[odd]
    for name, fit in cases(every):
        try:
            found[name] = sorted(set(paths(fit(X, y, labels), "fitted", {})))
        except DpconvexError as error:  # an algorithm that does not apply
            found[name] = [type(error).__name__]
    return found


def started(odd: str, every: bool) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, odd, "every" * every], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.gate)])
def test_no_record_decides_which_attributes_are_handed_out(every: bool) -> None:
    """A cell that had to be clipped made a domain keep how it clips, in the model's plan and in every pickle of it."""
    kinds = ["", *ODD] if every else ["", "missing"]
    outputs = [json.loads(process.communicate()[0]) for process in [started(odd, every) for odd in kinds]]
    assert sum(len(found) > 1 for found in outputs[0].values()) > (50 if every else 15)
    for odd, found in zip(kinds[1:], outputs[1:], strict=True):
        differ = {name: sorted({*outputs[0][name]} ^ {*found[name]}) for name in found}
        assert not {name: some for name, some in differ.items() if some}, odd


@pytest.mark.parametrize("model", [PrivateLogisticRegression, PrivateAdditiveClassifier])
def test_a_private_number_of_records_decides_no_attribute(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many there are decides whether a frame is kept as cells, whose sparse matrices are clipped in another way."""
    X, found = np.random.default_rng(0).uniform(-0.9, 0.9, (N, 2)), []
    for least in (0, 0, 2**60):  # plans share parts with those that were made before
        monkeypatch.setattr(_streams, "LEAST", least)
        unfitted = model(random_state=1, schema=TABLE, neighbors="add_or_remove_one", rows=N)
        found.append(set(paths(unfitted.fit(table(X, (X[:, 0] > 0) * 1)), "fitted", {})))
    assert found[1] == found[2]


if __name__ == "__main__":
    print(json.dumps(attributes(sys.argv[1], sys.argv[2] == "every")))
