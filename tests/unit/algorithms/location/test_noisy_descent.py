"""Noisy descent: sensitivity of the gradient, budget, accuracy; and descent as a booster."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex.algorithms.location import noisy_descent
from dpconvex.algorithms.location.base import WarmStart
from dpconvex.algorithms.location.noisy_descent import NoisyGradients, gradient_sensitivity, mean_gradient, plan_descent
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import geometric_median

PROMISE = PrivacyParams(5.0, 1e-2)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([1e-200, 1e-3, 1.0, 1e12]))
def test_no_replaced_record_moves_the_gradient_further(n, dim, seed, scale) -> None:
    rng = np.random.default_rng(seed)
    anchor, offset = scale * rng.standard_normal((2, dim))
    X = scale * rng.standard_normal((n, dim))
    if seed % 3 == 0:
        X[: n // 2] = anchor
    neighbour = X.copy()
    neighbour[0] = anchor + offset if seed % 2 else scale * rng.standard_normal(dim)
    moved = mean_gradient(X, anchor, offset) - mean_gradient(neighbour, anchor, offset)
    assert np.linalg.norm(moved) <= gradient_sensitivity(n, dim).value


def test_the_sensitivity_is_attained() -> None:
    """Opposite unit vectors: half of it would be caught."""
    X, neighbour = np.ones((10, 2)), np.ones((10, 2))
    neighbour[0] = -1
    moved = mean_gradient(X, np.zeros(2), np.zeros(2)) - mean_gradient(neighbour, np.zeros(2), np.zeros(2))
    assert 0.999999 * gradient_sensitivity(10, 2).value <= np.linalg.norm(moved) <= gradient_sensitivity(10, 2).value
    assert gradient_sensitivity(10, 2, Unit.USER).unit is Unit.USER


def test_rounding_stays_a_small_part_of_the_sensitivity() -> None:
    for n, dim in ((20, 1000), (10**6, 1000)):
        assert 2 / n < gradient_sensitivity(n, dim).value < 2 / n * (1 + 1e-5)


@pytest.mark.parametrize("steps", [1, 20, 50])
def test_all_gradients_together_spend_the_budget(steps) -> None:
    gradients = NoisyGradients.of_mu("gradients", 100, 3, 0.25, steps)
    spent = math.sqrt(steps) * gradients.mechanism.event.mu
    assert 0.25 * (1 - 1e-9) < spent <= 0.25
    assert gradients.release.times == steps


def test_steps_beyond_the_plan_are_refused() -> None:
    gradients = NoisyGradients.of_mu("gradients", 5, 1, 0.25, 3)
    ledger = Ledger(PROMISE, [gradients.release])
    gradients.descend(np.zeros((5, 1)), np.zeros(1), 1.0, 0.1, SeededSource(0), ledger, steps=2)
    with pytest.raises(BudgetExceededError):
        gradients.descend(np.zeros((5, 1)), np.zeros(1), 1.0, 0.1, SeededSource(0), ledger, steps=2)


@pytest.mark.parametrize("decay", [1.0, 8.0])
def test_the_listing(monkeypatch, decay) -> None:
    """Without noise: gradient descent, constant (the paper's) or shrinking steps, average of the last half."""
    monkeypatch.setattr("dpconvex.mechanisms.GaussianMechanism._sample", lambda self, value, source: value)
    rng = np.random.default_rng(0)
    X, centre = rng.standard_normal((50, 3)), np.array([2.0, 0, 0])
    plan = plan_descent(50, 3, 1.0, steps=7, step=1.0 if decay > 1 else 0.3, decay=decay, tail=0.5)
    got = plan.refine(X, WarmStart(centre, 0.9, 0.8), SeededSource(0), Ledger(PROMISE, plan.releases))
    z, kept = centre, []
    for t in range(7):
        gap = z - X
        z = z - plan.step * decay ** (-t / 6) * 0.8 * (gap / np.linalg.norm(gap, axis=1, keepdims=True)).mean(0)
        z = centre + (z - centre) * min(1, 0.9 / np.linalg.norm(z - centre))
        kept.append(z)
    np.testing.assert_allclose(got, np.mean(kept[3:], axis=0), atol=1e-12)


@pytest.mark.parametrize("source", [SeededSource(0), SystemSource()])
def test_it_comes_as_close_as_stated(source) -> None:
    """About 2 sqrt(d) / (n mu) radii: within a factor 3, for a seed and for system entropy (chance below 1e-9)."""
    rng = np.random.default_rng(1)
    n, d, mu = 4000, 20, 0.2
    X = np.concatenate([10 + rng.standard_normal((3600, d)), 200 * rng.standard_normal((400, d))])
    true, radius = geometric_median(X).point, math.sqrt(d)
    plan = plan_descent(n, d, mu)
    start = WarmStart(true + 1.5 * radius / math.sqrt(d), 2 * radius, radius)
    error = np.linalg.norm(plan.refine(X, start, source, Ledger(PROMISE, plan.releases)) - true)
    assert error < 3 * 2 * math.sqrt(d) / (n * mu) * radius
    assert error == pytest.approx(plan.deviation * radius * math.sqrt(d), rel=0.75)


def test_half_the_iterates_are_much_better_than_all() -> None:
    """Spec 4.3: the same releases, averaged differently, differ by orders of magnitude."""
    X = np.random.default_rng(0).standard_normal((20_000, 10))
    true = geometric_median(X)
    errors = []
    for tail in (1.0, 0.5):
        plan = plan_descent(20_000, 10, 1.0, step=0.5, decay=1.0, tail=tail)
        start = WarmStart(true.point + 2.0, 8.0, 3.0)
        point = plan.refine(X, start, SeededSource(0), Ledger(PROMISE, plan.releases))
        errors.append(np.linalg.norm(X - point, axis=1).mean() / true.value - 1)
    assert errors[1] < errors[0] / 100


def test_a_ball_far_wider_than_the_radius_can_still_be_crossed() -> None:
    X = np.random.default_rng(0).standard_normal((5000, 2))
    plan = plan_descent(5000, 2, 1.0)
    start = WarmStart(np.array([75.0, 0]), 100.0, 1.0)
    point = plan.refine(X, start, SeededSource(0), Ledger(PROMISE, plan.releases))
    assert np.linalg.norm(point - geometric_median(X).point) < 0.5


def test_shrinking_steps_forgive_a_radius_that_is_far_too_large() -> None:
    X = np.random.default_rng(0).standard_normal((5000, 10))
    true = geometric_median(X)
    errors = []
    for step, decay in ((0.5, 1.0), (1.0, 30.0)):
        plan = plan_descent(5000, 10, 0.3, step=step, decay=decay, tail=0.5)
        start = WarmStart(true.point + 10.0, 100.0, 100.0)
        point = plan.refine(X, start, SeededSource(0), Ledger(PROMISE, plan.releases))
        errors.append(np.linalg.norm(X - point, axis=1).mean() / true.value - 1)
    assert errors[1] < errors[0] / 5


@pytest.mark.parametrize("bad", [{"steps": 0}, {"step": 0.0}, {"decay": 0.5}, {"tail": 0.0}, {"tail": 1.5}])
def test_public_constants_are_checked(bad) -> None:
    with pytest.raises(InvalidParameterError):
        plan_descent(10, 2, 1.0, **bad)
    assert plan_descent(10, 2, 1.0).describe()["boost"] == "descent"
    assert noisy_descent.LEMMA in plan_descent(10, 2, 1.0).releases[0].sensitivity.lemma
