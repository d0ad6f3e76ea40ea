"""Intervals: Lemma 1 to the last digits, noise of the curvature against simulation, coverage, what is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpconvex.algorithms import curvature
from dpconvex.inference import intervals as pivot
from dpconvex.inference.intervals import Intervals
from dpconvex.losses import HuberLoss, LogisticLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.randomness import SeededSource

NUMBERS = DataDomain((Block(2, "linf", 0.5),), 1.0)
MIXED = DataDomain((Block(2, "linf", 0.5), Block(3, "simplex", 1.0, "a"), Block(4, "simplex", 1.0, "b")), 1.0)
THETA = np.array([2.5, -1.5, 0.5, -0.2, -0.3, 0.4, -0.4, 0.6, -0.6, 0.3])  #: Sums over categories are 0.


def records(rng: np.random.Generator, n: int, shares: Any = (0.4, 0.3, 0.2, 0.1), missing: float = 0.0) -> Any:
    a, b = np.eye(3)[rng.integers(0, 3, n)], np.eye(4)[rng.choice(4, n, p=shares)]
    a[rng.random(n) < missing], b[rng.random(n) < missing] = 1 / 3, 1 / 4
    X = np.hstack([rng.uniform(-0.5, 0.5, (n, 2)), a, b])
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ THETA[:-1] - THETA[-1])), 1.0, -1.0)


def intervals(X: np.ndarray, y: np.ndarray, seed: int, epsilon: float = 3.0, domain: DataDomain = MIXED) -> Intervals:
    problem = LinearModelProblem(LogisticLoss(), domain, len(X), 5.0)
    result = curvature.plan(problem, PrivacyParams(epsilon)).run(X, y, SeededSource(seed))
    plan: Any = result.plan
    return Intervals(plan.released(result.point), plan.draws)


CONTRASTS = np.zeros((7, 10))  #: Two numbers, two levels of the first category less its first, three of the second.
CONTRASTS[[0, 1], [0, 1]] = 1.0
CONTRASTS[[2, 3, 4, 5, 6], [3, 4, 6, 7, 8]] = 1.0
CONTRASTS[[2, 3], 2] = CONTRASTS[[4, 5, 6], 5] = -1.0


@pytest.mark.parametrize("loss", [LogisticLoss(), LogisticLoss(0.7), HuberLoss(0.3, 2.0)], ids=repr)
def test_the_gradient_at_the_minimizer_is_known_but_for_noise_of_known_law(loss: Any) -> None:
    """Lemma 1: ``n H r - n l2 w* = b + S`` for every data set and b, H the mean Hessian on the way to theta."""
    rng, n, l2 = np.random.default_rng(0), 300, 0.02
    X, b, theta = rng.uniform(-1, 1, (n, 3)), rng.normal(0, 5, 3), np.array([1.0, -2.0, 0.5])
    y = loss.clip_targets(np.sign(X @ theta + rng.normal(size=n)))
    w, above = np.zeros(3), loss.curvature_bound * X.T @ X / n + l2 * np.eye(3)
    for _ in range(3000):
        g = X.T @ loss.derivative(X @ w, y) / n + l2 * w + b / n
        w = w - np.linalg.solve(above, g)
    assert np.abs(g).max() < 1e-12
    r, at = theta - w, np.linspace(0, 1, 1001)
    slopes = loss.derivative(X @ theta, y) - loss.derivative(X @ w, y)  # the integral of the curvature, times x r
    along = X @ r
    mean = (X * (slopes / along)[:, None]).T @ X / n
    S = X.T @ loss.derivative(X @ theta, y)
    np.testing.assert_allclose(n * mean @ r - n * l2 * w, b + S, atol=1e-9)
    few = np.mean([loss.hessian_weights(X[:3] @ (w + t * r), y[:3]) for t in at], axis=0)
    np.testing.assert_allclose(few, (slopes / along)[:3], atol=2e-3)


def test_the_noise_of_the_curvature_has_the_covariance_that_is_reckoned_with() -> None:
    """Q of formula (2.2): of E r, E filled in by the patterns, against the law's own draws."""
    problem = LinearModelProblem(LogisticLoss(), MIXED, 1000, 5.0)
    plan = curvature.plan(problem, PrivacyParams(1.0))
    given = plan.released(THETA)
    e, r = plan.draws(40_000, np.random.default_rng(1))[1], np.random.default_rng(2).normal(size=10)
    moved = np.einsum("sf,fij,j->si", e, given.patterns, r, optimize=True)
    reckoned = np.einsum(
        "f,fij,jk,flk->il", given.deviations**2, given.patterns, np.outer(r, r), given.patterns, optimize=True
    )
    size = np.sqrt(np.outer(reckoned.diagonal(), reckoned.diagonal()))
    np.testing.assert_allclose(np.cov(moved.T) / size, reckoned / size, atol=0.06)


@pytest.mark.thin
@pytest.mark.parametrize("missing", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
@pytest.mark.gate
def test_intervals_cover_as_often_as_they_say(missing: float, full: bool) -> None:
    """Seven coefficients; 4 standard errors below 95 %. Without the correction for the ridge, three in five cover."""
    runs, covered = 30 if full else 14, []
    for seed in range(runs):
        found = intervals(*records(np.random.default_rng(100 + seed), 20_000, missing=missing), seed)
        each = found.estimates(CONTRASTS, 0.95)
        assert each.finite.all()
        covered.append((each.lower <= CONTRASTS @ THETA) & (each.upper >= CONTRASTS @ THETA))
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / np.size(covered))


def test_estimates_scatter_as_the_law_of_the_noise_says_where_data_stay_the_same() -> None:
    """First order of (2.2), sampling left out: noise of half the size, or of twice, fails."""
    X, y = records(np.random.default_rng(0), 30_000)
    problem = LinearModelProblem(LogisticLoss(), NUMBERS, len(X), 5.0)
    plan = curvature.plan(problem, PrivacyParams(0.8))
    found = []
    for seed in range(30):
        result: Any = plan.run(X[:, :2], y, SeededSource(seed))
        found.append(Intervals(result.plan.released(result.point), result.plan.draws))
    given = plan.released(np.zeros(3))
    noise = given.factor @ found[0].spread.inverse @ given.linear @ found[0].spread.inverse @ given.factor.T
    ratio = np.std([each.theta for each in found], axis=0) / np.sqrt(noise.diagonal()) * len(X)
    assert (ratio > 0.65).all()
    assert (ratio < 1.5).all()
    stated = found[0].estimates(np.eye(3), 0.95).std_err
    sampling = given.factor @ found[0].spread.inverse @ given.factor.T / len(X)  # gradients scatter as curvature says
    assert (stated < 1.3 * np.sqrt(noise.diagonal() / len(X) ** 2 + sampling.diagonal())).all()


def test_what_a_large_ridge_takes_away_is_given_back() -> None:
    """Log-odds up to 1 over the range, a ridge ten times the usual: parameters are too small, estimates are not."""
    rng, truth = np.random.default_rng(8), np.array([1.0, -0.8, 0.2])
    X = rng.uniform(-0.5, 0.5, (40_000, 2))
    y = np.where(rng.random(len(X)) < 1 / (1 + np.exp(-X @ truth[:2] - truth[2])), 1.0, -1.0)
    problem = LinearModelProblem(LogisticLoss(), NUMBERS, len(X), 5.0)
    result: Any = curvature.plan(problem, PrivacyParams(3.0), l2=0.003).run(X, y, SeededSource(0))
    found = Intervals(result.plan.released(result.point), result.plan.draws).estimates(np.eye(3), 0.95)
    assert (np.abs(result.point - truth)[:2] > 2 * found.std_err[:2]).all()
    assert (np.abs(found.estimate - truth) < 3.5 * found.std_err).all()
    assert (np.abs(found.estimate) > np.abs(result.point))[:2].all()


def test_a_level_that_nobody_has_is_not_known_and_the_others_are() -> None:
    found = intervals(*records(np.random.default_rng(3), 40_000, (0.5, 0.3, 0.2, 0.0)), 0)
    each = found.estimates(CONTRASTS, 0.95)
    assert each.finite.tolist() == [True] * 6 + [False]
    assert each.lower[-1] == -np.inf
    assert each.upper[-1] == np.inf
    assert np.isnan([each.std_err[-1], each.p_value[-1]]).all()
    assert np.isnan(found.covariance(CONTRASTS)[-1]).all()
    assert found.most_seen([5, 6, 7, 8]) == 0


def test_joint_intervals_are_wider_and_tests_agree_with_intervals() -> None:
    found = intervals(*records(np.random.default_rng(4), 20_000), 1)
    alone, joint = found.estimates(CONTRASTS, 0.95), found.estimates(CONTRASTS, 0.95, joint=True)
    assert (joint.upper > alone.upper).all()
    assert ((alone.p_value < 0.05) == ((alone.lower > 0) | (alone.upper < 0))).all()
    np.testing.assert_allclose(np.sqrt(found.covariance(CONTRASTS).diagonal()), alone.std_err)
    np.testing.assert_array_equal(found.estimates(CONTRASTS, 0.95).upper, alone.upper)  # the seed is public


def test_where_noise_is_all_nothing_is_known() -> None:
    found = intervals(*records(np.random.default_rng(5), 300), 1, 0.1)
    assert not found.estimates(CONTRASTS, 0.95).finite.any()


def test_weak_directions_are_lifted_to_about_their_noise() -> None:
    H, B = np.diag([1.0, -0.5]), np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]]])
    lifted = pivot.lifted(H, B, np.array([0.01, 0.3]))
    assert lifted[0, 0] == pytest.approx(1.0)
    assert lifted[1, 1] == pytest.approx(0.3)


def test_robust_variances_are_lifted_towards_the_models_where_noise_hides_them() -> None:
    """By half the noise, and not above the model; elsewhere what was released, above the model or below."""
    H, patterns = np.diag([1.0, 4.0, 9.0]), np.array([np.diag(row) for row in np.eye(3)])
    model, released = 0.5 * H, np.diag([0.1, 0.4, 30.0])
    found = pivot.robust(released, model, H, patterns, np.array([0.1, 0.05, 1.0]))
    assert np.diag(found) == pytest.approx([0.15, 0.4, 30.0])
    near = pivot.robust(released, 0.12 * H, H, patterns, np.array([0.1, 0.05, 1.0]))
    assert np.diag(near) == pytest.approx([0.12, 0.4, 30.0])
    negative = pivot.robust(np.diag([-1.0, 0.4, 30.0]), model, H, patterns, np.array([0.1, 0.05, 1.0]))
    assert np.linalg.eigvalsh(negative).min() == pytest.approx(0.05)
