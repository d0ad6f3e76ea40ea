"""Noisy gradient descent with constants for typical data: scales and clipping attacked, linear model, choice."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm import gradient_descent
from dpconvex.algorithms.erm.gradient_descent import gradients, typical_steps
from dpconvex.algorithms.erm.gradient_descent.typical_steps import Steps
from dpconvex.errors import BudgetExceededError
from dpconvex.losses import HingeLoss, HuberLoss, LinearModelLoss, LogisticLoss, SoftmaxLoss
from dpconvex.privacy import Ledger, PrivacyParams, verify
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.problems import Block, DataDomain, LinearModelProblem, Records, RegularizedRisk
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.sets import L2Ball
from dpconvex.solvers import NewtonCholesky

PROMISE = PrivacyParams(1.0, 1e-5)
N = 10
DOMAIN = DataDomain((Block(8, "l1", 1.0), Block(1, "linf", 0.5), Block(3, "l2", 2.0))).with_intercept(1.0)
LOSSES: list[LinearModelLoss] = [LogisticLoss(), SoftmaxLoss(3), HingeLoss(), HuberLoss(1.0, 1.0)]


def problem(loss, n=N, domain=DOMAIN):
    return LinearModelProblem(loss, domain, n, default_radius(domain, loss.n_outputs))


def corners(rng, n, width=8):
    """Records as long as the domain allows, and some that must be clipped."""
    hot = np.eye(width)[rng.integers(0, width, n)] * rng.choice([-1.0, 1.0, 5.0], (n, 1))
    ball = rng.standard_normal((n, 3))
    ball *= 2.0 / np.linalg.norm(ball, axis=1, keepdims=True)
    return np.concatenate([hot, rng.choice([-0.5, 0.5, 9.0], (n, 1)), ball], axis=1)


def largest_move(plan, tries=60):
    """Largest move of the mean divided gradient, over replaced records and points; in units of what is charged."""
    rng, worst, width = np.random.default_rng(0), 0.0, plan.problem.domain.blocks[0].size
    classes = plan.problem.loss.n_outputs
    labels = np.arange(classes) if classes > 1 else np.array([-1.0, 1.0])
    for k in range(tries):
        X, y = corners(rng, N, width), rng.choice(labels, N).astype(float)
        X2, y2 = X.copy(), y.copy()
        X2[0], y2[0] = -X[0] if k % 2 else corners(rng, 1, width)[0], rng.choice(labels)
        w = rng.standard_normal(plan.problem.dim) * 10.0 ** rng.integers(-3, 3)
        pairs = ((X, y), (X2, y2))
        with np.errstate(all="ignore"):
            first, second = (
                gradients.mean_gradients(plan.clipping, 1, A, b, None, SeededSource(0))[0] for A, b in pairs
            )
            worst = max(worst, float(np.linalg.norm(first(w) - second(w))))
    return worst / plan.mechanism.sensitivity.value


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_replaced_record_moves_a_divided_gradient_further_than_charged(loss) -> None:
    move = largest_move(gradient_descent.plan(problem(loss), PROMISE, steps=8))
    assert 0.5 < move <= 1


def _unclipped(problem, records, targets, lengths, clip, w):
    return _clipped(problem, records, targets, lengths, 1e9, w)


def _unscaled(problem, records, targets, lengths, clip, w):
    return _clipped(problem, records, targets, lambda block: np.sqrt(block.squared_norms()), clip, w)


_clipped = gradients.clipped_sum


@pytest.mark.parametrize("mutant", [_unclipped, _unscaled])
def test_the_attack_finds_forgotten_clipping_and_forgotten_scales(mutant, monkeypatch) -> None:
    monkeypatch.setattr(gradients, "clipped_sum", mutant)
    wide = replace(DOMAIN, blocks=(Block(400, "l1", 1.0), *DOMAIN.blocks[1:]))
    assert largest_move(gradient_descent.plan(problem(LogisticLoss(), domain=wide), PROMISE, steps=8)) > 1.2


def test_all_steps_together_fit_the_promise_and_half_the_noise_does_not() -> None:
    plan = gradient_descent.plan(problem(LogisticLoss()), PROMISE)
    mu = plan.mechanism.sensitivity.value / plan.mechanism.sigma * math.sqrt(plan.steps)
    assert gaussian_delta(1.0, mu) == pytest.approx(1e-5, rel=1e-3)
    louder = replace(plan, mechanism=replace(plan.mechanism, sigma=plan.mechanism.sigma / 2))
    with pytest.raises(BudgetExceededError):
        Ledger(louder.privacy, louder.releases)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_run_verifies_and_the_certificate_states_the_scales(loss) -> None:
    rng = np.random.default_rng(1)
    plan = gradient_descent.plan(problem(loss), PROMISE)
    y = rng.integers(0, loss.n_outputs, N).astype(float) if loss.n_outputs > 1 else rng.choice([-1.0, 1.0], N)
    result = plan.run(corners(rng, N), y, SystemSource())
    assert verify(result.certificate).passed
    assert result.certificate.spent_epsilon == pytest.approx(1.0, rel=1e-4)
    scales = result.certificate.public["block_scales"]
    assert len(scales) == len(DOMAIN.all_blocks)
    assert scales[1] == pytest.approx(math.sqrt(0.5))  # 1/sqrt(m), m = sqrt(1) / 0.5
    assert np.linalg.norm(result.point) <= plan.ball.radius * (1 + 1e-12)


@pytest.mark.gate
def test_the_noise_has_the_stated_scale_in_every_block() -> None:
    """One step from 0 without data dependence: deviation ``eta sigma D``, within 6 % at 5 sigma of 3,500 draws."""
    plan = gradient_descent.plan(problem(LogisticLoss(), domain=DOMAIN), PROMISE, steps=2)
    plan = replace(plan, typical=Steps(2, 1e-9, 0.0, 1))
    X, y = np.zeros((N, 12)), np.ones(N)
    points = np.array([plan.run(X, y, SeededSource(s)).point for s in range(300)])
    expected = 1e-9 * plan.mechanism.sigma * math.sqrt(2) * plan.clipping.scales
    ratio = points.std(0) / expected
    assert np.sqrt(np.mean(ratio**2)) == pytest.approx(1.0, abs=0.06)
    assert np.all(np.abs(ratio - 1) < 0.25)


@pytest.mark.parametrize("steps", [Steps(1, 0.7, 0.0, 1), Steps(13, 0.5, 0.9, 1), Steps(20, 1.1, 0.8, 10)])
def test_the_response_is_that_of_a_run_on_a_quadratic(steps) -> None:
    """Exact: the minimizer's share, and the squares of the answers to one unit of noise in each step."""
    curvature = np.array([0.0, 0.1, 1.0])
    missed, spread = steps.response(curvature)
    target = np.array([3.0, -2.0, 1.0])

    def run(at):
        turn = iter(range(steps.count))
        return steps.minimize(np.zeros(3), lambda w: curvature * (w - target) + (next(turn) == at), L2Ball(1e9).project)

    quiet = run(None)
    np.testing.assert_allclose(quiet, (1 - missed) * target, atol=1e-12)
    answers = np.array([run(t) - quiet for t in range(steps.count)])
    np.testing.assert_allclose(np.square(answers).sum(0), spread, rtol=1e-9)


def simulated(seed, n, numeric=6, levels=(5, 12, 3), signal=1.5):
    rng = np.random.default_rng(seed)
    hot = [np.eye(k)[rng.integers(0, k, n)] for k in levels]
    X = np.concatenate([*hot, rng.uniform(-0.5, 0.5, (n, numeric))], axis=1)
    logits = X @ (signal * rng.standard_normal(X.shape[1]))
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-logits)), 1.0, -1.0)
    blocks = (*(Block(k, "l1", 1.0) for k in levels), *[Block(1, "linf", 0.5)] * numeric)
    return X, y, problem(LogisticLoss(), n, DataDomain(blocks).with_intercept(1.0))


@pytest.mark.thin
@pytest.mark.parametrize(("n", "epsilon"), [(2_000, 0.5), (2_000, 3.0), (20_000, 1.0)])
def test_typical_constants_beat_proved_ones_and_the_expected_error_is_about_right(n, epsilon) -> None:
    X, y, p = simulated(2, n)
    risk = RegularizedRisk(p.loss, Records.clipped(X, p.domain), y, 1e-7)
    lowest = risk.value(NewtonCholesky().solve(risk, 1e-3).point)
    promise = PrivacyParams(epsilon, 1e-6)
    typical, proved = gradient_descent.plan(p, promise), gradient_descent.plan(p, promise, proved=True)
    ours, theirs = (
        np.mean([risk.value(plan.run(X, y, SeededSource(s)).point) - lowest for s in range(3)])
        for plan in (typical, proved)
    )
    assert ours < 0.8 * theirs
    assert typical.expected is not None
    assert typical.expected / 4 < ours < typical.expected * 4
    assert ours <= typical.predicted_error.bound


def test_records_all_alike_in_a_corner_do_not_make_a_run_diverge() -> None:
    """Curvature far above what the steps count on: clipped gradients keep the loss small all the same."""
    n = 2_000
    p = problem(LogisticLoss(), n, DataDomain((Block(20, "linf", 0.5),)).with_intercept(1.0))
    X, y = np.full((n, 20), 0.5), np.where(np.arange(n) % 10 == 0, -1.0, 1.0)
    plan = gradient_descent.plan(p, PrivacyParams(3.0, 1e-6))
    w = plan.run(X, y, SeededSource(0)).point
    assert RegularizedRisk(p.loss, Records.clipped(X, p.domain), y, 0.0).value(w) < 0.5  # best .325, zero vector .693


def test_a_million_wide_records_are_read_less_often() -> None:
    fewer, more = (problem(LogisticLoss(), n, DataDomain.l2_ball(300, 1.0)) for n in (10**5, 10**6))
    few, many = (gradient_descent.plan(p, PROMISE, rate=1.0) for p in (fewer, more))
    assert many.steps <= typical_steps.TUNING.least_passes < few.steps <= typical_steps.TUNING.most_steps
    assert gradient_descent.plan(more, PROMISE).expected < few.expected  # samples read them less often still


def test_less_noise_asks_for_more_steps_and_longer_levels() -> None:
    plans = [gradient_descent.plan(problem(LogisticLoss(), n), PROMISE) for n in (100, 10_000, 10**6)]
    assert plans[0].steps < plans[1].steps <= plans[2].steps
    assert plans[0].clip < plans[2].clip
    assert plans[0].expected > plans[1].expected > plans[2].expected


def test_absurd_budgets_have_finite_constants() -> None:
    for epsilon in (1e-9, 1e6):
        plan = gradient_descent.plan(problem(LogisticLoss(), 50), PrivacyParams(epsilon, 1e-9))
        assert math.isfinite(plan.typical.size)
        point = plan.run(np.zeros((50, 12)), np.ones(50), SeededSource(0)).point
        assert np.all(np.isfinite(point))
