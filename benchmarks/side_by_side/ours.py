"""dpconvex at its defaults: `algorithm="auto"`, nothing tuned.

PYTHONPATH=benchmarks python -m side_by_side.ours [--quick] [--tables adult ...]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from side_by_side.cells import Data, Fit, Job, Method, arguments, run
from side_by_side.prepare import domain_of


def fit(data: Data, jobs: Sequence[Job]) -> list[Fit]:
    """Seeded, hence not private: this measures accuracy on public data."""
    return [fit_one(data, job.epsilon, job.delta, job.seed) for job in jobs]


def fit_one(data: Data, epsilon: float, delta: float, seed: int) -> Fit:
    domain = domain_of(data.facts["blocks"]).with_intercept(1.0)
    if data.kind == "regression":
        model = PrivateLinearRegression(epsilon, delta, domain=domain, target_bounds=(-0.5, 0.5), random_state=seed)
    else:
        classes = range(max(data.facts["outputs"], 2))
        model = PrivateLogisticRegression(epsilon, delta, domain=domain, classes=list(classes), random_state=seed)
    model.fit(data.X, data.y)
    plan = model.plan_
    # Half squared errors in the plan; squared errors in units of the variance in the table.
    unit = 2 / data.facts["variance"] if data.kind == "regression" else 1.0
    error = plan.predicted_error
    notes = {
        "algorithm": plan.algorithm, "noise": plan.noise_name, "l2": plan.l2,
        "bound": unit * error.bound, "trivial": unit * error.trivial,
        "expected": None if error.expected is None else unit * error.expected,
    }  # fmt: skip
    return Fit(np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_), notes=notes)


KINDS = ("binary", "multiclass", "regression")
METHODS = (Method("dpconvex", "pure", KINDS, fit), Method("dpconvex, delta > 0", "approximate", KINDS, fit))


if __name__ == "__main__":
    run(METHODS, arguments("ours", __doc__), ("dpconvex", "numpy", "scipy"))
