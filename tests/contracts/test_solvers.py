"""What every solver promises, for every loss and set that it accepts."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize

import dpconvex.solvers
from dpconvex._types import Status
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.losses import LOSSES, PiecewiseLinearLoss
from dpconvex.problems import DataDomain, Records, RegularizedRisk
from dpconvex.sets import Box, L1Ball, L2Ball, Simplex, WholeSpace
from dpconvex.solvers import (
    SOLVERS,
    ExtraGradient,
    Katyusha,
    SmoothedAcceleratedGradient,
    Solver,
    Subgradient,
    default_solver,
)
from instances import instances

EXAMPLES = [loss for kind in LOSSES for loss in instances(kind)]
DIM = 3
CONTENT = ("normal", "zeros", "duplicates", "constant column", "separable", "spoilt", "huge")


def sets(dim):
    return [WholeSpace(), L2Ball(0.5), L1Ball(0.3), Box(-0.1, 0.2, dim=dim), Simplex(dim)]


def features(content, n, rng):
    X = rng.standard_normal((n, DIM))
    if content == "zeros":
        X[:] = 0
    elif content == "duplicates":
        X[:] = X[0]
    elif content == "constant column":
        X[:, 0] = 3.0
    elif content == "spoilt":
        X[0] = [np.nan, np.inf, -np.inf]
    elif content == "huge":
        X *= 1e300
    return X


def make(loss, content="normal", n=12, l2=0.3, seed=0, linear=0.0):
    rng = np.random.default_rng(seed)
    X = features(content, n, rng)
    if content == "separable":
        y = np.sign(X[:, 0]) if loss.n_outputs == 1 else (X[:, 0] > 0).astype(float)
    else:
        y = rng.integers(0, loss.n_outputs, n) if loss.n_outputs > 1 else 2 * rng.standard_normal(n)
    if content == "spoilt":
        y = y.astype(float)
        y[-1] = np.nan
    records = Records.clipped(X, DataDomain.l2_ball(DIM, 1.0).with_intercept())
    b = linear * rng.standard_normal(loss.n_outputs * records.dim) if linear else None
    return RegularizedRisk(loss, records, y, l2, b)


@cache
def shared(loss, linear=0.0):
    """One problem for all solvers of a loss, so that its references are solved once."""
    return make(loss, linear=linear)


@cache  # by identity: an objective that is made anew is solved anew
def reference(objective, constraint):
    """The minimizer to about 1e-13 (smooth) or 1e-6 (piecewise linear), by dense methods that share no code."""
    X = objective.records.rows(slice(None))
    loss, y, k = objective.loss, objective.targets, objective.loss.n_outputs
    b = np.zeros(objective.dim) if objective.linear is None else objective.linear
    if isinstance(loss, PiecewiseLinearLoss):  # the dual, over a box
        lo, hi = loss.slope_interval(y)

        def dual(u):
            w = -(b + u @ X / len(X)) / objective.l2
            return u @ y / len(X) + objective.l2 / 2 * w @ w, (y - X @ w) / len(X)

        bounds = list(zip(lo, hi, strict=True))
        found = minimize(dual, np.zeros(len(X)), jac=True, bounds=bounds, options={"ftol": 0, "gtol": 1e-13})
        return -(b + found.x @ X / len(X)) / objective.l2
    w = np.zeros(objective.dim)
    for _ in range(100_000):  # projected gradient
        z = X @ w if k == 1 else X @ w.reshape(k, -1).T
        g = (loss.derivative(z, y).T @ X).ravel() / len(X) + objective.l2 * w + b
        previous, w = w, constraint.project(w - g / objective.smoothness)
        if np.linalg.norm(w - previous) <= 1e-15 * (1 + np.linalg.norm(w)):
            return w
    return w


def check(result, objective, constraint, radius):
    known = isinstance(constraint, WholeSpace) or not isinstance(objective.loss, PiecewiseLinearLoss)
    assert constraint.contains(result.point)
    assert (result.status is Status.CERTIFIED) == (result.accuracy.bound <= radius)
    assert result.accuracy.kind == "distance"
    if known:
        error = np.linalg.norm(result.point - reference(objective, constraint))
        tolerance = 2e-6 if isinstance(objective.loss, PiecewiseLinearLoss) else 1e-11
        assert error <= result.accuracy.bound + tolerance * (1 + np.linalg.norm(result.point))


def affordable_radius(loss):
    return 0.1 if isinstance(loss, PiecewiseLinearLoss) or math.isinf(loss.curvature_bound) else 1e-8


def solvers_of(loss):
    """Every example of a solver that takes the loss, with or without a constraint."""
    return [
        solver
        for kind in SOLVERS
        for solver in instances(kind)
        if solver.refusal(loss, WholeSpace(), 8) is None or solver.refusal(loss, L2Ball(1.0), 8) is None
    ]


def accepted(solver, loss, dim):
    return WholeSpace() if solver.refusal(loss, WholeSpace(), dim) is None else L2Ball(1.0)


FIRST = [instances(kind)[0] for kind in LOSSES]
"""One loss of each kind; the other examples are for the gate."""


def each(losses):
    gate = [pytest.param(loss, marks=() if loss in FIRST else pytest.mark.gate, id=repr(loss)) for loss in losses]
    return pytest.mark.parametrize("loss", gate)


every_loss = each(EXAMPLES)


@every_loss
@pytest.mark.thin
def test_bound_is_at_least_the_true_error_on_every_set(loss, case):
    objective = shared(loss)
    for solver in solvers_of(loss):
        slow = type(solver).__name__.endswith(("Subgradient", "Plane"))
        radius = 0.1 if slow else affordable_radius(loss)
        for constraint in sets(objective.dim):
            if solver.refusal(loss, constraint, objective.dim) is None:
                with case(solver, constraint):
                    result = solver.solve(objective, radius, constraint)
                    assert result.status is Status.CERTIFIED
                    check(result, objective, constraint, radius)


@pytest.mark.parametrize("loss", [loss for loss in EXAMPLES if isinstance(loss, PiecewiseLinearLoss)], ids=repr)
@pytest.mark.thin
@pytest.mark.dear("HingeLoss()")
def test_two_solvers_of_constrained_piecewise_linear_problems_agree_within_their_bounds(loss):
    for seed in range(2):
        objective = make(loss, seed=seed)
        for constraint in sets(objective.dim):
            one = SmoothedAcceleratedGradient().solve(objective, 0.1, constraint)
            two = Subgradient(max_steps=500).solve(objective, 0.02, constraint)
            assert np.linalg.norm(one.point - two.point) <= one.accuracy.bound + two.accuracy.bound
            assert two.accuracy.bound <= 0.5  # the comparison says something


@settings(max_examples=60, deadline=None)
@given(
    loss=st.sampled_from(EXAMPLES),
    content=st.sampled_from(CONTENT),
    n=st.sampled_from([1, 2, 5, 20]),
    l2=st.sampled_from([0.1, 1.0]),
    linear=st.sampled_from([0.0, 1.0, 100.0]),
    which=st.integers(0, 4),
    seed=st.integers(0, 10**6),
)
def test_default_solver_certifies_whatever_the_data_hold(loss, content, n, l2, linear, which, seed):
    objective = make(loss, content, n, l2, seed, linear)
    constraint = sets(objective.dim)[which]
    radius = affordable_radius(loss) * (1 + linear)
    result = default_solver(loss, constraint, objective.dim).solve(objective, radius, constraint)
    assert result.status is Status.CERTIFIED
    check(result, objective, constraint, radius)


@every_loss
@pytest.mark.thin
@pytest.mark.usefixtures("asking")  # for one BLAS thread, which other tests do not
def test_content_never_raises_or_warns(loss, case):
    for content in CONTENT:
        objective = make(loss, content, n=3)
        for solver in solvers_of(loss):
            with case(solver, content):
                result = solver.solve(objective, 0.5, accepted(solver, loss, objective.dim))
                assert result.status is Status.CERTIFIED
                assert np.all(np.isfinite(result.point))


@each([loss for loss in EXAMPLES if not isinstance(loss, PiecewiseLinearLoss)])
@pytest.mark.thin
@pytest.mark.dear("SquaredLoss(target_bound=1.0, prediction_bound=inf)")
def test_an_impossible_radius_fails_with_a_true_bound(loss, case):
    """Rounding forbids 1e-18: the status must say so (with few steps: the full count would be long)."""
    objective = shared(loss, linear=1.0)
    for solver in solvers_of(loss):
        if "Guaranteed" not in type(solver).__name__:
            with case(solver):
                constraint = accepted(solver, loss, objective.dim)
                result = type(solver)(max_steps=10).solve(objective, 1e-18, constraint)
                assert result.status in (Status.STEP_LIMIT, Status.STALLED)
                check(result, objective, constraint, 1e-18)


@every_loss
def test_solvers_are_deterministic_and_leave_the_start_alone(loss, case):
    objective = shared(loss)
    start = np.full(objective.dim, 0.1)
    for solver in solvers_of(loss):
        with case(solver):
            constraint = accepted(solver, loss, objective.dim)
            first, second = (solver.solve(objective, 0.3, constraint, start) for _ in range(2))
            # Katyusha's compiled sums may be reordered, by where in memory its arrays lie: last bits differ.
            np.testing.assert_array_max_ulp(first.point, second.point, 16 if isinstance(solver, Katyusha) else 0)
            np.testing.assert_array_equal(start, 0.1)


LINEAR = [kind for kind in SOLVERS if kind is not ExtraGradient]  # saddles: tests/unit/solvers/test_extragradient.py


@pytest.mark.parametrize("kind", LINEAR)
def test_public_errors(kind):
    solver = instances(kind)[0]
    loss = next(loss for loss in EXAMPLES if solver.refusal(loss, WholeSpace(), 4) is None)
    objective = make(loss)
    with pytest.raises(InvalidParameterError, match="radius="):
        solver.solve(objective, 0.0)
    with pytest.raises(InvalidParameterError, match="l2="):
        solver.solve(make(loss, l2=0.0), 1.0)
    with pytest.raises(InvalidDataError, match="start has shape"):
        solver.solve(objective, 1.0, start=np.zeros(99))
    refused = [loss for loss in EXAMPLES if solver.refusal(loss, WholeSpace(), 4) is not None]
    if refused:
        with pytest.raises(InvalidParameterError, match="solver="):
            solver.solve(make(refused[0]), 1.0)


def test_every_solver_is_exported():
    subclasses = {kind for kind in Solver.__subclasses__() if kind.__module__.startswith("dpconvex.solvers.")}
    assert subclasses == set(SOLVERS)
    assert {kind.__name__ for kind in SOLVERS} <= set(dpconvex.solvers.__all__)
