"""Noisy gradient descent on secret samples of records or users: sensitivity, mutants, cost, exact losses, choice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm import gradient_descent
from dpconvex.algorithms.erm.gradient_descent import gradients
from dpconvex.algorithms.erm.gradient_descent.gradients import sampled_gradient
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.select import Options
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.losses import HingeLoss, HuberLoss, LinearModelLoss, LogisticLoss, SoftmaxLoss
from dpconvex.privacy import Ledger, PoissonSteps, PrivacyParams, Unit, verify
from dpconvex.problems import Block, DataDomain, LinearModelProblem, Records, RegularizedRisk, UserGroups
from dpconvex.problems.data.users import clipped_mean, record_weights
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import NewtonCholesky
from dpconvex_experiments.audit.replay import sampled_losses
from dpconvex_experiments.audit.target import run_of

pytestmark = pytest.mark.thin

PROMISE = PrivacyParams(1.0, 1e-5)
N = 12
DOMAIN = DataDomain((Block(8, "l1", 1.0), Block(1, "linf", 0.5), Block(3, "l2", 2.0))).with_intercept(1.0)
LOSSES: list[LinearModelLoss] = [LogisticLoss(), SoftmaxLoss(3), HingeLoss(), HuberLoss(1.0, 1.0)]
WILD = np.array([0.0, 1.0, -2.0, 1e300, -1e-300, np.nan, np.inf, -np.inf])


def problem(loss, n=N, domain=DOMAIN):
    return LinearModelProblem(loss, domain, n, default_radius(domain, loss.n_outputs))


def table(rng, n, loss):
    """Records as long as the domain allows, and some that must be clipped."""
    hot = np.eye(8)[rng.integers(0, 8, n)] * rng.choice([-1.0, 1.0, 5.0], (n, 1))
    ball = rng.standard_normal((n, 3))
    ball *= 2.0 / np.linalg.norm(ball, axis=1, keepdims=True)
    X = np.concatenate([hot, rng.choice([-0.5, 0.5, 9.0], (n, 1)), ball], axis=1)
    y = rng.integers(0, loss.n_outputs, n) if loss.n_outputs > 1 else rng.choice([-1.0, 1.0], n)
    return X, y.astype(float)


def largest_moves(plan, tries=60):
    """Largest move of the gradient when the first record joins a sample, and when it is another one there."""
    rng, joins, turns = np.random.default_rng(0), 0.0, 0.0
    for k in range(tries):
        X, y = table(rng, N, plan.problem.loss)
        X2, y2 = X.copy(), y.copy()
        X2[0], y2[0] = (-X[0], y[0]) if k % 2 else (rng.choice(WILD, 12), rng.choice(WILD))
        w = rng.standard_normal(plan.problem.dim) * 10.0 ** rng.integers(-3, 3)
        others = np.flatnonzero(rng.random(N - 1) < plan.rate) + 1
        with np.errstate(all="ignore"):
            first, second = (sampled_gradient(plan.clipping, plan.rate, *data) for data in ((X, y), (X2, y2)))
            out, mine, other = first(w, others), first(w, np.append(0, others)), second(w, np.append(0, others))
            np.testing.assert_array_equal(out, second(w, others))
        joins = max(joins, float(np.linalg.norm(mine - out)), float(np.linalg.norm(other - out)))
        turns = max(turns, float(np.linalg.norm(mine - other)))
    return joins / plan.mechanism.sensitivity.value, turns / plan.mechanism.sensitivity.value


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("clip", [None, 0.1])
@pytest.mark.parametrize("rate", [0.03, 0.6])
@pytest.mark.dear("0.03-None-logistic", "0.03-None-huber")
def test_no_record_moves_a_gradient_further_than_charged(loss, clip, rate) -> None:
    plan = gradient_descent.plan(problem(loss), PROMISE, steps=8, rate=rate, clip=clip)
    joins, turns = largest_moves(plan)
    assert 0.5 < joins <= 1
    assert joins < turns <= 2


def _unclipped(problem, records, targets, lengths, clip, w):
    return _clipped(problem, records, targets, lengths, 1e9, w)


_clipped = gradients.clipped_sum


def test_the_attack_finds_forgotten_clipping(monkeypatch) -> None:
    monkeypatch.setattr(gradients, "clipped_sum", _unclipped)
    assert largest_moves(gradient_descent.plan(problem(LogisticLoss()), PROMISE, steps=8, rate=0.3, clip=0.1))[0] > 2


def test_the_attack_finds_means_over_the_drawn_number(monkeypatch) -> None:
    """Where only the changed record is drawn, the mean of the sample is its whole gradient."""

    def mean(clipping, rate, X, y):
        total = gradients.sampled_gradient(clipping, rate, X, y)
        return lambda w, sample: total(w, sample) * rate * N / max(1, len(sample))

    monkeypatch.setattr(f"{__name__}.sampled_gradient", mean)
    assert largest_moves(gradient_descent.plan(problem(LogisticLoss()), PROMISE, steps=8, rate=0.6))[0] > 1.5


def test_the_gradient_of_all_records_is_the_full_one_over_the_rate_and_of_none_it_is_zero() -> None:
    rng = np.random.default_rng(1)
    for loss in LOSSES:
        X, y = table(rng, N, loss)
        sampled = gradient_descent.plan(problem(loss), PROMISE, steps=8, rate=0.25)
        whole = replace(sampled, rate=1.0)
        w = rng.standard_normal(sampled.problem.dim)
        (full,) = gradients.mean_gradients(whole.clipping, 1, X, y, None, SeededSource(0))
        gradient = sampled_gradient(sampled.clipping, sampled.rate, X, y)
        np.testing.assert_allclose(gradient(w, np.arange(N)), full(w) / 0.25, rtol=1e-12, atol=1e-15)
        assert not gradient(w, np.arange(0)).any()


@pytest.mark.parametrize("wrong", ["half the noise", "twice the rate", "more steps"])
def test_whatever_costs_more_than_the_promise_does_not_start(wrong) -> None:
    plan = gradient_descent.plan(problem(LogisticLoss()), PROMISE, steps=16, rate=0.2)
    Ledger(plan.privacy, plan.releases)
    changes = {
        "half the noise": {"mechanism": replace(plan.mechanism, sigma=plan.mechanism.sigma / 2)},
        "twice the rate": {"rate": 0.4},
        "more steps": {"steps": 20},
    }
    X, y = table(np.random.default_rng(0), N, LogisticLoss())
    with pytest.raises(BudgetExceededError):
        replace(plan, **changes[wrong]).run(X, y, SeededSource(0))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_run_verifies_by_two_accountants_and_states_the_rate(loss) -> None:
    plan = gradient_descent.plan(problem(loss), PROMISE, rate=0.2)
    result = plan.run(*table(np.random.default_rng(1), N, loss), SystemSource())
    found = verify(result.certificate)
    assert found.passed
    assert any(check.name in ("second accountant", "two accountants agree") for check in found.checks)
    assert result.certificate.spent_epsilon == pytest.approx(1.0, rel=1e-3)
    assert result.certificate.public["rate"] == 0.2
    assert result.certificate.public["steps"] == plan.steps
    assert "sample" in result.certificate.theorem
    assert vars(result).keys() == {"point", "certificate", "plan", "status"}  # no sample leaves the run


@pytest.mark.gate
def test_exact_losses_are_those_of_the_dominating_pair() -> None:
    """Steps of no length, records in the worst corner: mean and spread of 250 losses, 5 standard errors.

    A sampler or an auditor that forgets the rate has losses more than twice as large.
    """
    p = LinearModelProblem(HingeLoss(), DataDomain.box(1, 1.0), 6, 1.0)
    plan = gradient_descent.plan(p, PrivacyParams(2.0, 0.01), steps=4, rate=0.3, clip=p.lipschitz)
    assert plan.typical is not None
    plan = replace(plan, typical=replace(plan.typical, size=1e-12))
    X, y = np.ones((6, 1)), np.ones(6)
    other, runs = np.append(y[:-1], -1.0), 250
    found = sampled_losses(plan.releases[0].event, run_of(plan), (X, y), (X, other), runs).losses
    event = plan.releases[0].event
    assert isinstance(event, PoissonSteps)
    rng, r = np.random.default_rng(0), event.step.mu
    x = rng.standard_normal((100_000, 4)) + r * (rng.random((100_000, 4)) < 0.3)
    p1, p2 = (np.log(0.7 + 0.3 * np.exp(side * r * x - r * r / 2)) for side in (1, -1))
    wanted = (p1 - p2).sum(1)
    assert found.mean() == pytest.approx(wanted.mean(), abs=5 * wanted.std() / runs**0.5)
    assert found.std() == pytest.approx(wanted.std(), rel=0.2)


def simulated(n, numeric=12, signal=2.0):
    rng = np.random.default_rng(4)
    X = rng.uniform(-0.5, 0.5, (n, numeric)) * np.where(np.arange(numeric) % 2, 0.2, 1.0)
    logits = X @ (signal * rng.standard_normal(numeric))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-logits)), 1.0, -1.0)
    return X, y, problem(LogisticLoss(), n, DataDomain((Block(numeric, "linf", 0.5),)).with_intercept(1.0))


@pytest.mark.gate
def test_in_as_many_passes_samples_come_nearer_and_the_expected_error_is_about_right() -> None:
    X, y, p = simulated(60_000)
    risk = RegularizedRisk(p.loss, Records.clipped(X, p.domain), y, 1e-7)
    lowest = risk.value(NewtonCholesky().solve(risk, 1e-3).point)
    promise, excess = PrivacyParams(1.0, 1e-6), {}
    for rate in (1.0, 0.1):
        plan = gradient_descent.plan(p, promise, steps=round(8 / rate), rate=rate)
        excess[rate] = np.mean([risk.value(plan.run(X, y, SeededSource(s)).point) - lowest for s in range(2)])
        assert plan.expected is not None
        assert plan.expected / 5 < excess[rate] < plan.expected * 5
        assert excess[rate] <= plan.predicted_error.bound
    assert excess[0.1] < excess[1.0] / 3


def test_samples_are_chosen_where_passes_are_few_and_only_where_noise_need_not_compose() -> None:
    wide, promise = problem(LogisticLoss(), 10**6, DataDomain.l2_ball(300, 1.0)), PrivacyParams(1.0, 1e-6)
    chosen, whole = gradient_descent.plan(wide, promise), gradient_descent.plan(wide, promise, rate=1.0)
    assert chosen.rate < 1 == whole.rate
    assert chosen.steps * chosen.rate < whole.steps < chosen.steps
    assert chosen.predicted_error.rank < 0.9 * whole.predicted_error.rank
    assert gradient_descent.plan(problem(LogisticLoss(), 1000), promise).rate == 1
    assert gradient_descent.plan(wide, PrivacyParams(1.0, 1e-13)).rate == 1  # no convolution tells such deltas from 0
    for noise, sampled in (("auto", True), ("gaussian", False)):
        (found,) = plans(wide, promise, "noisy_gradient", Options(noise=noise))
        assert ("rate" in found.public) == sampled


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"rate": 0.5, "proved": True}, "rate"),
        ({"rate": 0.5, "batches": 2, "steps": 4}, "rate"),
        ({"rate": 0.5, "step_size": 0.1}, "rate"),
    ],
)
def test_refusals(options, name) -> None:
    with pytest.raises(InvalidParameterError, match=name):
        gradient_descent.plan(problem(LogisticLoss()), PROMISE, **options)


def test_tiny_deltas_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="delta"):
        gradient_descent.plan(problem(LogisticLoss()), PrivacyParams(1.0, 1e-13), rate=0.5)


@pytest.mark.gate
@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(8.0, 1.2e-11, 2048), (12.0, 2e-11, 1024), (5.0, 1e-10, 512)])
def test_a_plan_with_a_tiny_delta_is_not_refused_when_it_runs(epsilon, delta, steps) -> None:
    """Convolutions round: the noise is planned for a delta that leaves room for evaluating the profile anew."""
    task = problem(LogisticLoss(), 400, DataDomain.box(2, 1.0))
    for rate in (0.01, 0.03, 0.1):
        plan = gradient_descent.plan(task, PrivacyParams(epsilon, delta), rate=rate, steps=steps)
        Ledger(plan.privacy, plan.releases)


@pytest.mark.gate
def test_what_the_plan_cannot_price_or_tabulate_is_refused() -> None:
    task = problem(LogisticLoss(), 400, DataDomain.box(2, 1.0))
    with pytest.raises(InvalidParameterError, match="delta="):
        gradient_descent.plan(task, PrivacyParams(1.0, 1.5e-11), rate=0.1, steps=9_000)
    with pytest.raises(InvalidParameterError, match="steps="):
        gradient_descent.plan(task, PrivacyParams(1.0, 1e-6), steps=10**6)


USERS, PER_USER = PrivacyParams(1.0, 1e-5, unit="user"), 4


def of_users(loss=None, **given):
    return gradient_descent.plan(replace(problem(loss or LogisticLoss()), records_per_user=PER_USER), USERS, **given)


def users_table(seed, loss):
    """Twelve users of one to seven records in any order, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(N), rng.integers(1, 8, N)))
    return (*table(rng, len(labels), loss), labels)


@pytest.mark.parametrize("loss", LOSSES[1:3], ids=lambda loss: loss.name)
@pytest.mark.parametrize("rate", [0.03, 0.6])
def test_a_user_takes_part_with_all_records_and_moves_a_gradient_as_far_as_charged(loss, rate) -> None:
    plan = of_users(loss, steps=8, rate=rate)
    clipping, farthest = plan.clipping, 0.0
    for seed in range(12):
        X, y, labels = users_table(seed, loss)
        gradient = sampled_gradient(clipping, rate, X, y, UserGroups.of(labels))
        w = np.random.default_rng(seed).standard_normal(plan.problem.dim) * 3
        assert not gradient(w, np.arange(0)).any()
        singles = [gradient(w, np.array([k])) for k in range(N)]
        np.testing.assert_allclose(gradient(w, np.arange(N)), np.sum(singles, axis=0), rtol=1e-9, atol=1e-12)
        for k, single in enumerate(singles):
            own = labels == k
            records, groups = Records.clipped(X[own], DOMAIN), UserGroups.of(labels[own])
            given = loss, records, loss.clip_targets(y[own]), groups, record_weights(groups), w
            mine = clipped_mean(*given, plan.clip, scales=clipping.divided) / (rate * N)
            np.testing.assert_allclose(single, mine, rtol=1e-9, atol=1e-13)
            farthest = max(farthest, float(np.linalg.norm(single)) / plan.mechanism.sensitivity.value)
    assert 0.5 < farthest <= 1


def test_a_new_label_moves_others_by_a_place_and_changes_nothing_but_its_own_part() -> None:
    """The law of independent coins knows no order: coupled user by user, the sums of the others are the same."""
    plan, rate, rng = of_users(steps=8, rate=0.4), 0.4, np.random.default_rng(3)
    X, y, labels = users_table(0, LogisticLoss())
    other = np.where(labels == N - 1, -1, labels)  # the last user comes first under its new label
    w = rng.standard_normal(plan.problem.dim)
    first, second = (sampled_gradient(plan.clipping, rate, X, y, UserGroups.of(each)) for each in (labels, other))
    for _ in range(10):
        drawn = np.flatnonzero(rng.random(N) < rate)
        np.testing.assert_array_equal(first(w, drawn), second(w, np.sort((drawn + 1) % N)))


@pytest.mark.gate
def test_samples_of_users_cost_their_exact_pair_and_are_not_taken_unless_asked() -> None:
    plan = of_users(rate=0.25)
    event = plan.releases[0].event
    assert isinstance(event, PoissonSteps)
    assert (event.rate, event.steps, plan.rate) == (0.25, plan.steps, 0.25)
    assert 0.98 * USERS.delta < event.delta(1.0) <= USERS.delta
    assert plan.releases[0].sensitivity.unit == Unit.USER
    assert not plan.only_sums
    assert of_users().rate == 1.0
    assert all(check.passed for check in verify(plan.certificate(SystemSource())).checks)
    assert isinstance(of_users(rate=1.0).mechanism, type(plan.mechanism))
    with pytest.raises(InvalidParameterError, match=r"rate=0\.5: must be 1 for batches"):
        of_users(rate=0.5, proved=True)


def test_a_run_on_samples_of_users_is_the_same_for_every_order_of_rows() -> None:
    plan = of_users(steps=4, rate=0.5)
    X, y, labels = users_table(1, LogisticLoss())
    order = np.random.default_rng(0).permutation(len(y))
    points = [
        plan.run(X[rows], y[rows], SeededSource(2), UserGroups.of(labels[rows])).point
        for rows in (np.arange(len(y)), order)
    ]
    np.testing.assert_array_equal(*points)
