"""Attempts to refute the promise to users from the outputs of whole runs: a user with many records is replaced.

On half of the runs the best threshold event is chosen; on the other half Clopper-Pearson bounds turn its frequencies
into a lower bound on epsilon, wrong with probability at most `ERROR` for one audit. Seeds are fixed. Mutants: weights
that do not add up to 1 for a user, and noise of half the size.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.algorithms import base
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.geometry import L2Norm
from dpconvex.losses import SmoothedHingeLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.linear import problem
from dpconvex.randomness import SeededSource
from dpconvex_experiments.audit import prove

ERROR, EPSILON, N = 1e-2, 2.0, 3


def neighbors() -> tuple:
    """Two users of two records, and one that has forty records of one label or a single one of the other."""
    found = []
    for label, size in ((1.0, 40), (-1.0, 1)):
        y = np.concatenate([[1.0, 1.0, -1.0, -1.0], np.full(size, label)])
        users = np.concatenate([[0, 0, 1, 1], np.full(size, 2)])
        found.append((np.ones((len(y), 1)), y, UserGroups.of(users)))
    return tuple(found)


def plan_for(algorithm: str):
    loss = SmoothedHingeLoss(0.5)
    l2 = 100 * loss.curvature_bound / (N * EPSILON)  # margins stay where the loss is linear
    problem = LinearModelProblem(loss, DataDomain((Block(1, "linf", 1.0),)), N, 1.0, records_per_user=2)
    return plans(problem, PrivacyParams(EPSILON, unit="user"), algorithm, Options(l2=l2, noise="l2"))[0]


def draws(plan, data, source, runs) -> np.ndarray:
    X, y, groups = data
    return np.array([plan.run(X, y, source, groups).point[0] for _ in range(runs)])


def lower_bound(first: np.ndarray, second: np.ndarray) -> float:
    return prove(first[:, None], second[:, None], 0.0, ERROR).epsilon


@pytest.mark.thin
@pytest.mark.parametrize(
    ("algorithm", "mutant"),
    [
        pytest.param("output_perturbation", "none", marks=pytest.mark.gate),  # exact losses are quick (test_audits.py)
        pytest.param("objective_perturbation", "none", marks=pytest.mark.gate),
        ("objective_perturbation", "weights"),
        ("output_perturbation", "noise"),
    ],
)
def test_whole_users_are_protected(algorithm: str, mutant: str, full: bool, monkeypatch) -> None:
    """Each verdict is wrong with probability at most `ERROR`."""
    runs = 600 if full else 400
    plan, source = plan_for(algorithm), SeededSource(4)
    if mutant == "weights":
        monkeypatch.setattr(problem, "record_weights", lambda groups, share: np.full(groups.n_records, share))
    if mutant == "noise":
        transform = L2Norm.transform
        monkeypatch.setattr(L2Norm, "transform", lambda *a: [x / 2 for x in transform(*a)])
    certificate = plan.run(*neighbors()[0][:2], source, neighbors()[0][2]).certificate
    monkeypatch.setattr(base, "certify", lambda **_: certificate)  # the same for all runs, so made once
    found = lower_bound(*(draws(plan, data, source, runs) for data in neighbors()))
    assert found > 0
    assert (found > EPSILON) == (mutant != "none")
