"""Noisy gradient descent for records and users: sensitivity attacked, cost, bounds, batches, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.algorithms.erm import gradient_descent
from dpconvex.algorithms.erm.gradient_descent.gradients import mean_gradients
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.losses import HingeLoss, HuberLoss, LogisticLoss, SoftmaxLoss, SquaredLoss
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Unit, verify
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.problems import DataDomain, LinearModelProblem, Records, RegularizedRisk, UserGroups
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import NewtonCholesky

RECORDS, USERS = PrivacyParams(1.0, 1e-5), PrivacyParams(1.0, 1e-5, unit=Unit.USER)
DIM, N = 3, 12
WILD = np.array([0.0, 1.0, -2.0, 1e300, -1e-300, np.nan, np.inf, -np.inf])


def problem(loss, n=N, per_user=None, radius=2.0):
    return LinearModelProblem(loss, DataDomain.l2_ball(DIM, 1.0), n, radius, records_per_user=per_user)


def records(rng, n, outputs=1):
    X = rng.uniform(-1, 1, (n, DIM))
    return X, (rng.integers(0, outputs, n) if outputs > 1 else np.sign(X[:, 0])).astype(float)


def batch_gradients(plan, *data):
    return mean_gradients(plan.clipping, plan.batches, *data)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3), HingeLoss(), HuberLoss()], ids=lambda x: x.name)
@pytest.mark.parametrize("clip", [0.2, None])
@pytest.mark.parametrize("batches", [1, 3])
def test_no_replaced_record_moves_a_gradient_further_than_charged(loss, clip, batches) -> None:
    rng = np.random.default_rng(0)
    plan = gradient_descent.plan(problem(loss), RECORDS, clip=clip, batches=batches, steps=6)
    limit = plan.mechanism.sensitivity.value
    for _ in range(40):
        X, y = records(rng, N, loss.n_outputs)
        X2, y2 = X.copy(), y.copy()
        at = rng.integers(N)
        X2[at], y2[at] = rng.choice(WILD, DIM), rng.choice(WILD)
        w = rng.standard_normal(plan.problem.dim) * 10.0 ** rng.integers(-2, 4)
        with np.errstate(all="ignore"):
            first, second = (batch_gradients(plan, A, b, None, SeededSource(0)) for A, b in ((X, y), (X2, y2)))
            moves = [float(np.linalg.norm(f(w) - s(w))) for f, s in zip(first, second, strict=True)]
        assert max(moves) <= limit
        assert sum(move > 0 for move in moves) <= 1  # batches are disjoint


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), batches=st.sampled_from([1, 4]), clip=st.sampled_from([0.05, 1.0, None]))
def test_no_replaced_user_moves_a_gradient_further_than_charged(seed, batches, clip) -> None:
    """The new user has another number of records, and anything in them; the others keep their places."""
    rng = np.random.default_rng(seed)
    plan = gradient_descent.plan(problem(LogisticLoss(), N, 4), USERS, clip=clip, batches=batches, steps=8)
    sizes = rng.integers(1, 9, N)
    at, size = rng.integers(N), rng.integers(1, 40)
    first, last = sizes[:at].sum(), sizes[: at + 1].sum()
    X, y = records(rng, sizes.sum())
    other = rng.choice(WILD, (size, DIM)) if rng.random() < 0.5 else np.tile(rng.standard_normal(DIM), (size, 1))
    X2 = np.concatenate([X[:first], other, X[last:]])
    y2 = np.concatenate([y[:first], rng.choice(WILD, size), y[last:]])
    sizes2 = sizes.copy()
    sizes2[at] = size
    w = rng.standard_normal(DIM) * 10.0 ** rng.integers(-2, 3)
    with np.errstate(all="ignore"):
        one = mean_gradients(
            plan.clipping, plan.batches, X, y, UserGroups.of(np.repeat(np.arange(N), sizes)), SeededSource(1)
        )
        two = mean_gradients(
            plan.clipping, plan.batches, X2, y2, UserGroups.of(np.repeat(np.arange(N), sizes2)), SeededSource(1)
        )
        moves = [float(np.linalg.norm(f(w) - s(w))) for f, s in zip(one, two, strict=True)]
    assert max(moves) <= plan.mechanism.sensitivity.value
    assert sum(move > 0 for move in moves) <= 1


def test_the_sensitivity_is_attained_and_half_the_noise_breaks_the_promise() -> None:
    """Two opposite users beyond the level; all steps' exact profile fits delta, with half the noise it does not."""
    plan = gradient_descent.plan(problem(LogisticLoss(), N, 1), USERS, clip=0.1, steps=16)
    groups, X, y = UserGroups.of(np.arange(N)), np.tile(np.eye(DIM)[0], (N, 1)), np.ones(N)
    other = np.where(np.arange(N) == 0, -1.0, y)
    first, second = (batch_gradients(plan, X, t, groups, SeededSource(0))[0](np.zeros(DIM)) for t in (y, other))
    move = float(np.linalg.norm(first - second))
    assert move == pytest.approx(2 * plan.clip / N)
    mu = move / plan.mechanism.sigma * math.sqrt(plan.steps)
    assert gaussian_delta(1.0, mu) <= 1e-5
    assert gaussian_delta(1.0, 2 * mu) > 1e-4
    louder = replace(plan, mechanism=replace(plan.mechanism, sigma=plan.mechanism.sigma / 2))
    with pytest.raises(BudgetExceededError):
        Ledger(louder.privacy, louder.releases)


@pytest.mark.parametrize("per_user", [None, 4])
@pytest.mark.parametrize("batches", [1, 4])
def test_a_run_costs_what_was_promised_and_verifies(per_user, batches) -> None:
    rng = np.random.default_rng(3)
    X, y = records(rng, 3 * N if per_user else N)
    groups = UserGroups.of(np.repeat(np.arange(N), 3)) if per_user else None
    plan = gradient_descent.plan(
        problem(LogisticLoss(), N, per_user), USERS if per_user else RECORDS, batches=batches, steps=8
    )
    result = plan.run(X, y, SystemSource(), groups)
    assert verify(result.certificate).passed
    assert result.certificate.spent_epsilon == pytest.approx(1.0, rel=1e-4)
    assert np.linalg.norm(result.point) <= 2.0 * (1 + 1e-12)
    assert result.status == "ok"


@pytest.mark.parametrize("batches", [1, 40])
@pytest.mark.parametrize("loss", [LogisticLoss(), HingeLoss()], ids=lambda x: x.name)
@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.thin
@pytest.mark.dear("False-hinge-1", "True-hinge-40")
def test_the_proved_bound_holds_for_users(loss, batches, accelerated) -> None:
    """Clipping at L; mean of 8 seeded runs against the minimum over the ball (found with a small ridge)."""
    rng = np.random.default_rng(5)
    n, m = 400, 5
    X, y = records(rng, n * m)
    p = problem(loss, n, m, radius=1.0)
    plan = gradient_descent.plan(p, USERS, clip=p.lipschitz, batches=batches, accelerated=accelerated, proved=True)
    assert "proved" in plan.predicted_error.source
    groups = UserGroups.of(np.repeat(np.arange(n), m))
    risk = RegularizedRisk(loss, Records.clipped(X, p.domain), y, 0.0)
    values = [risk.value(plan.run(X, y, SeededSource(s), groups).point) for s in range(8)]
    lowest = min(risk.value(t * np.eye(DIM)[0]) for t in np.linspace(0, 1, 21))
    assert np.mean(values) - lowest <= plan.predicted_error.bound


def test_users_alike_get_short_levels_that_do_better_than_long_ones() -> None:
    rng = np.random.default_rng(6)
    n, m = 1000, 20
    X = rng.uniform(-1, 1, (n * m, DIM))
    y = np.where(rng.random(n * m) < 1 / (1 + np.exp(-X @ [2.0, -1.0, 1.0])), 1.0, -1.0)
    p, groups = problem(LogisticLoss(), n, m, radius=3.0), UserGroups.of(np.repeat(np.arange(n), m))
    risk = RegularizedRisk(LogisticLoss(), Records.clipped(X, p.domain), y, 1e-7)
    lowest = risk.value(NewtonCholesky().solve(risk, 1e-3).point)
    short, long = gradient_descent.plan(p, USERS), gradient_descent.plan(p, USERS, clip=p.lipschitz)
    one = gradient_descent.plan(replace(p, records_per_user=1), USERS)
    assert short.clip <= 1.5 * one.clip / math.sqrt(m)  # levels are those of records over the root; any of them
    assert "estimate" in short.predicted_error.source
    excess = [
        np.mean([risk.value(plan.run(X, y, SeededSource(s), groups).point) - lowest for s in range(3)])
        for plan in (short, long)
    ]
    assert excess[0] < excess[1] / 3
    assert excess[0] <= short.predicted_error.bound


def test_a_ridge_is_part_of_the_objective() -> None:
    rng = np.random.default_rng(7)
    n = 20_000
    X, y = records(rng, n)
    p = problem(HuberLoss(), n)
    plan = gradient_descent.plan(p, PrivacyParams(8.0, 1e-5), l2=1.0, steps=64)
    risk = RegularizedRisk(p.loss, Records.clipped(X, p.domain), p.loss.clip_targets(y), 1.0)
    best = NewtonCholesky().solve(risk, 1e-4).point
    assert np.linalg.norm(plan.run(X, y, SeededSource(0)).point - best) < 0.05


def test_more_users_or_epsilon_predict_less_and_fewer_steps_are_taken_where_noise_reigns() -> None:
    bounds = [gradient_descent.plan(problem(LogisticLoss(), n, 4), USERS).bound for n in (10**3, 10**4, 10**5)]
    assert bounds[0] > bounds[1] > bounds[2]
    plain = gradient_descent.plan(problem(LogisticLoss(), 10**4), RECORDS, accelerated=False)
    fast = gradient_descent.plan(problem(LogisticLoss(), 10**4), RECORDS)
    assert fast.bound < plain.bound
    assert fast.steps < plain.steps
    assert plain.gamma is None
    few = gradient_descent.plan(problem(LogisticLoss(), 50), RECORDS).steps
    assert few < gradient_descent.plan(problem(LogisticLoss(), 50_000), RECORDS).steps


@pytest.mark.parametrize(
    ("promise", "options", "name"),
    [
        (PrivacyParams(1.0), {}, "delta"),
        (RECORDS, {"batches": 0}, "batches"),
        (RECORDS, {"batches": N + 1}, "batches"),
        (RECORDS, {"batches": 4, "steps": 6}, "steps"),
        (RECORDS, {"steps": 1}, "steps"),
        (RECORDS, {"clip": 0.0}, "clip"),
        (RECORDS, {"l2": -1.0}, "l2"),
        (USERS, {}, "unit"),
        (PrivacyParams(1.0, 1e-5, neighboring=Neighboring.ADD_OR_REMOVE_ONE), {}, "neighboring"),
    ],
)
def test_refusals(promise, options, name) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        gradient_descent.plan(problem(LogisticLoss()), promise, **options)


def test_unbounded_slopes_need_a_level() -> None:
    steep = problem(SquaredLoss(1.0))
    with pytest.raises(InvalidParameterError, match="loss"):
        gradient_descent.plan(steep, RECORDS)
    plan = gradient_descent.plan(steep, RECORDS, clip=0.5)
    assert plan.clip == 0.5
    rng = np.random.default_rng(0)
    assert np.all(np.isfinite(plan.run(*records(rng, N), SeededSource(0)).point))
