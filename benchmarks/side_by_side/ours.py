"""Fit dpconvex at its defaults: `algorithm="auto"`, nothing tuned.

    PYTHONPATH=benchmarks python -m side_by_side.ours [--quick] [--tables adult ...] [--methods "dpconvex additive"]

Models are linear. Additive models are fitted only if ``--methods`` names them, to tables of two classes or numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from side_by_side.cells import Data, Fit, Job, Method, arguments, run
from side_by_side.prepare import described, domain_of, split


@lru_cache(maxsize=1)
def records(name: str) -> tuple[Any, Any, Any] | None:
    """Return the schema, the records for training and those that are held out; None if there is no schema."""
    table = described(name)
    if table is None:
        return None
    frame = table.frame if isinstance(table.frame, pa.Table) else table.frame.reset_index(drop=True)
    parts = (frame.take(rows) for rows in split(len(table.X)))
    return table.schema, *parts


def fit(data: Data, jobs: Sequence[Job], additive: bool = False) -> list[Fit]:
    """Fit with seeds, hence not privately: this measures accuracy on public data."""
    return [fit_one(data, job.epsilon, job.delta, job.seed, additive) for job in jobs]


def fit_one(data: Data, epsilon: float, delta: float, seed: int, additive: bool) -> Fit:
    given, scores = records(data.facts["name"]), None
    kinds: Any = (PrivateLinearRegression, PrivateLogisticRegression)
    kind = (kinds, (PrivateAdditiveRegressor, PrivateAdditiveClassifier))[additive][data.kind != "regression"]
    if given is None:
        classes = list(range(data.facts["outputs"]))
        domain = domain_of(data.facts["blocks"]).with_intercept(1.0)
        model = kind(epsilon, delta, domain=domain, classes=classes, random_state=seed).fit(data.X, data.y)
    else:
        schema, *parts = given
        model = kind(epsilon, delta, schema=schema, random_state=seed).fit(parts[0])
        scores = tuple(scored(model, part, data.kind) for part in parts)
    plan = model.plan_
    # Plans have half squared errors, the table has squared errors over the variance.
    unit = 2 / data.facts["variance"] if data.kind == "regression" else 1.0
    error = plan.predicted_error
    notes = {
        "algorithm": plan.algorithm, "noise": plan.noise_name, "l2": plan.l2,
        "bound": unit * error.bound, "trivial": unit * error.trivial,
        "expected": None if error.expected is None else unit * error.expected,
    }  # fmt: skip
    return Fit(np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_), notes=notes, scores=scores)


def scored(model: Any, part: Any, kind: str) -> np.ndarray:
    """Return scores of records, (n, outputs); predicted numbers are in [-1/2, 1/2], as targets are for the peers."""
    if kind == "regression":
        target = model.schema.target
        return ((model.predict(part) - target.lower) / (target.upper - target.lower) - 0.5)[:, None]
    return model.decision_function(part).reshape(len(part), -1)


KINDS = ("binary", "multiclass", "regression")
METHODS = (Method("dpconvex", "pure", KINDS, fit), Method("dpconvex, delta > 0", "approximate", KINDS, fit))
ADDITIVE = Method("dpconvex additive", "pure", ("binary", "regression"), partial(fit, additive=True))


if __name__ == "__main__":
    given = arguments("ours", __doc__)
    run((*METHODS, ADDITIVE) if given.methods else METHODS, given, ("dpconvex", "numpy", "scipy"))
