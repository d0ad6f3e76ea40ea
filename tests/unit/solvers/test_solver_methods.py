"""Each fast solver at the sizes and accuracies that private learning asks of it."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex._types import Status
from dpconvex.losses import AbsoluteLoss, HingeLoss, LogisticLoss, PinballLoss, SoftmaxLoss
from dpconvex.problems import DataDomain, Records, RegularizedRisk
from dpconvex.solvers import LBFGS, DualCoordinateAscent, NewtonCholesky, SmoothedAcceleratedGradient, default_solver

pytestmark = pytest.mark.thin


def problem(loss, n, d, l2, *, linear=0.0, scale=1.0, dtype=np.float64):
    rng = np.random.default_rng(7)
    X = (scale * rng.standard_normal((n, d))).astype(dtype)
    score = X @ rng.standard_normal(d) + rng.logistic(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, loss.n_outputs) / loss.n_outputs))
    y = y if loss.n_outputs > 1 else score
    records = Records.clipped(X, DataDomain.l2_ball(d, 1.0).with_intercept())
    objective = RegularizedRisk(loss, records, y, l2)
    if not linear:
        return objective
    b = rng.standard_normal(objective.dim)
    b *= linear * np.linalg.norm(objective.gradient(np.zeros(objective.dim))) / np.linalg.norm(b)
    return RegularizedRisk(loss, records, y, l2, b)


@pytest.mark.parametrize("solver", [NewtonCholesky(), LBFGS()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradient_norm_of_1e_12_at_the_size_of_a_census(solver, dtype):
    objective = problem(LogisticLoss(), 36_000, 104, 1e-2, dtype=dtype)
    result = solver.solve(objective, 1e-10)
    assert result.status is Status.CERTIFIED
    assert np.linalg.norm(objective.gradient(result.point)) <= 1e-12


def test_newton_uses_few_passes_over_many_records():
    objective = problem(LogisticLoss(), 60_000, 20, 1e-3)
    result = NewtonCholesky().solve(objective, 1e-8)
    assert result.status is Status.CERTIFIED
    assert result.gradient_calls <= 12


@pytest.mark.parametrize("linear", [1.0, 30.0, 1000.0])
@pytest.mark.parametrize("solver", [NewtonCholesky(), LBFGS()], ids=repr)
@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(4)], ids=repr)
def test_large_linear_terms(solver, loss, linear):
    objective = problem(loss, 4000, 8, 1e-2, linear=linear)
    result = solver.solve(objective, 1e-8 * max(1.0, linear / 10))
    assert result.status is Status.CERTIFIED


def test_rows_sorted_by_label_do_not_mislead_the_subset():
    objective = problem(LogisticLoss(), 40_000, 10, 1e-3)
    X = objective.records.rows(slice(None))[:, :-1]
    order = np.argsort(objective.targets, kind="stable")
    records = Records.clipped(X[order], objective.records.domain)
    result = NewtonCholesky().solve(RegularizedRisk(LogisticLoss(), records, objective.targets[order], 1e-3), 1e-8)
    assert result.status is Status.CERTIFIED


def test_subset_that_knows_nothing_of_the_rest():
    """All records of the subset are zeros: its Hessian is wrong, the certificate is not."""
    X = np.random.default_rng(0).standard_normal((4000, 3))
    stride = 4000 // max(50 * 3, 4000 // 16)
    assert stride == 16
    X[::stride] = 0.0
    records = Records.clipped(X, DataDomain.l2_ball(3, 1.0))
    objective = RegularizedRisk(LogisticLoss(), records, X[:, 0], 1e-4)
    result = NewtonCholesky().solve(objective, 1e-6)
    assert result.status is Status.CERTIFIED


@pytest.mark.parametrize("loss", [HingeLoss(), AbsoluteLoss(3.0), PinballLoss(0.2, 3.0)], ids=repr)
@pytest.mark.parametrize("linear", [0.0, 10.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.thin
@pytest.mark.dear("float32-0.0-HingeLoss()", "float64-10.0-HingeLoss()", "float32-10.0-HingeLoss()")
def test_dual_coordinate_ascent(loss, linear, dtype):
    objective = problem(loss, 800, 10, 1e-2, linear=linear, dtype=dtype)
    result = DualCoordinateAscent().solve(objective, 1e-3)
    assert result.status is Status.CERTIFIED
    warm = DualCoordinateAscent().solve(objective, 1e-3, start=result.point)
    assert np.linalg.norm(warm.point - result.point) <= 2e-3
    rough = SmoothedAcceleratedGradient().solve(objective, 0.3)
    assert np.linalg.norm(rough.point - result.point) <= rough.accuracy.bound + result.accuracy.bound


@pytest.mark.gate
def test_a_million_columns_of_zeros():
    records = Records.clipped(np.zeros((3, 10**6)), DataDomain.l2_ball(10**6, 1.0).with_intercept())
    objective = RegularizedRisk(LogisticLoss(), records, np.array([1.0, 1.0, -1.0]), 0.1)
    result = default_solver(objective.loss, None, objective.dim).solve(objective, 1e-6)
    assert result.status is Status.CERTIFIED
    assert np.all(result.point[:-1] == 0)
