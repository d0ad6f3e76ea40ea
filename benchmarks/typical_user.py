"""Measure how near the privately found number of records of a typical user comes to the true one.

    python benchmarks/typical_user.py [--runs 200]      # half a minute

For every table of users (`USER_TABLES` and `OTHERS` of `benchmarks/user_tables.py`) and epsilon it prints the share of
runs in which the released number is in the cell of the true median, or in one beside it, for several values of `NOISY`
and `DOUBTED` of `dpconvex.algorithms.erm.two_stage.typical_user`.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

from dpconvex.algorithms.erm import objective_perturbation
from dpconvex.algorithms.erm.two_stage import typical_user
from dpconvex.losses import LogisticLoss
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem
from user_tables import OTHERS, USER_TABLES

NOISY, DOUBTED = (0.01, 0.02, 0.05), (0.1, 0.3, 1.0)


def near(sizes: np.ndarray, epsilon: float, runs: int, rng: np.random.Generator) -> float:
    domain = DataDomain.box(2, 0.5).with_intercept()
    problem = LinearModelProblem(LogisticLoss(), domain, len(sizes), 1.0, records_per_user=1)
    planner = lambda one, promise: objective_perturbation.plan(one, promise, noise="grouped")  # noqa: E731
    plan = typical_user.plan(problem, PrivacyParams(epsilon, unit=Unit.USER), planner)[0]
    cells = np.minimum(np.frexp(sizes)[1] - 1, len(typical_user.TYPICAL) - 1)
    counts = np.bincount(cells, minlength=len(typical_user.TYPICAL)).astype(float)
    true = int(np.frexp(np.median(sizes))[1] - 1)
    assert isinstance(plan.first, JointHistogram)
    noise = plan.first.deviations[0] / np.sqrt(2) * rng.laplace(size=(runs, len(counts)))
    found = [typical_user.TYPICAL.index(plan.read_off(counts + each)) for each in noise]
    return float(np.mean(np.abs(np.array(found) - true) <= 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    for name, make in {**USER_TABLES, **OTHERS}.items():
        try:
            sizes = np.bincount(make().users)
        except (ImportError, AssertionError, FileNotFoundError):
            print(f"{name}: its package is not installed")
            continue
        for epsilon in (0.1, 1.0):
            shown = []
            for typical_user.NOISY, typical_user.DOUBTED in product(NOISY, DOUBTED):
                share = near(sizes, epsilon, runs, np.random.default_rng(0))
                shown.append(f"{typical_user.NOISY:g}/{typical_user.DOUBTED:g} {share:.2f}")
            print(name, len(sizes), f"median {np.median(sizes):g}", f"epsilon {epsilon:g}", *shown, flush=True)


if __name__ == "__main__":
    main()
