"""Noisy descent: sensitivity of the gradient, budget, accuracy; constant and settling steps as boosters."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex.algorithms.location import noisy_descent
from dpconvex.algorithms.location.base import WarmStart
from dpconvex.algorithms.location.noisy_descent import (
    NoisyGradients,
    gradient_sensitivity,
    mean_gradient,
    plan_settling,
)
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments.reference.location import descend, plan_constant_steps

PROMISE = PrivacyParams(5.0, 1e-2)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([1e-200, 1e-3, 1.0, 1e12]))
def test_no_replaced_record_moves_the_gradient_further(n, dim, seed, scale) -> None:
    rng = np.random.default_rng(seed)
    anchor, offset = scale * rng.standard_normal((2, dim))
    X = scale * rng.standard_normal((n, dim))
    if seed % 3 == 0:
        X[: n // 2] = anchor
    neighbor = X.copy()
    neighbor[0] = anchor + offset if seed % 2 else scale * rng.standard_normal(dim)
    moved = mean_gradient(X, anchor, offset) - mean_gradient(neighbor, anchor, offset)
    assert np.linalg.norm(moved) <= gradient_sensitivity(n, dim).value


def test_the_sensitivity_is_attained() -> None:
    """Opposite unit vectors: half of it would be caught."""
    X, neighbor = np.ones((10, 2)), np.ones((10, 2))
    neighbor[0] = -1
    moved = mean_gradient(X, np.zeros(2), np.zeros(2)) - mean_gradient(neighbor, np.zeros(2), np.zeros(2))
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
    descend(gradients, np.zeros((5, 1)), np.zeros(1), 1.0, 0.1, SeededSource(0), ledger, steps=2)
    with pytest.raises(BudgetExceededError):
        descend(gradients, np.zeros((5, 1)), np.zeros(1), 1.0, 0.1, SeededSource(0), ledger, steps=2)


def test_the_listing_of_constant_steps(monkeypatch) -> None:
    """Without noise: gradient descent, average of the last half."""
    monkeypatch.setattr("dpconvex.mechanisms.GaussianMechanism._sample", lambda self, value, source: value)
    rng = np.random.default_rng(0)
    X, center = rng.standard_normal((50, 3)), np.array([2.0, 0, 0])
    plan = plan_constant_steps(50, 3, 1.0, steps=7, step=0.3, tail=0.5)
    got = plan.refine(X, WarmStart(center, 0.9, 0.8), SeededSource(0), Ledger(PROMISE, plan.releases))
    z, kept = center, []
    for _ in range(7):
        gap = z - X
        z = z - plan.step * 0.8 * (gap / np.linalg.norm(gap, axis=1, keepdims=True)).mean(0)
        z = center + (z - center) * min(1, 0.9 / np.linalg.norm(z - center))
        kept.append(z)
    np.testing.assert_allclose(got.location, np.mean(kept[3:], axis=0), atol=1e-12)
    assert got.factor == 1


def settled(X, start, mu=1.0, seed=0, source=None, **options):
    plan = plan_settling(*X.shape, mu, **options)
    return plan, plan.refine(X, start, source or SeededSource(seed), Ledger(PROMISE, plan.releases))


def test_the_listing_of_settling_steps(monkeypatch) -> None:
    """Without noise: steps fall, are halved when gradients oppose, and iterates since then are averaged."""
    monkeypatch.setattr("dpconvex.mechanisms.GaussianMechanism._sample", lambda self, value, source: value)
    rng = np.random.default_rng(0)
    X, center = rng.standard_normal((50, 3)), np.array([2.0, 0, 0])
    for radius in (0.8, 40.0):
        plan, got = settled(X, WarmStart(center, 9.0, radius), steps=20)
        last = plan.step * radius
        first = max(last, 15 * 9.0 / 20)
        sizes = [first * (last / first) ** (k / 3) for k in range(3)] + [last * 3 ** (-k / 16) for k in range(17)]
        z, kept, factor, before = center, [], 1.0, np.zeros(3)
        for t, size in enumerate(sizes):
            gap = z - X
            gradient = (gap / np.linalg.norm(gap, axis=1, keepdims=True)).mean(0)
            if gradient @ before < -plan.quiet:
                factor, kept = factor / 2, []
            before = gradient
            z = z - factor * size * gradient
            z = center + (z - center) * min(1, 9.0 / np.linalg.norm(z - center))
            kept += [z] if t >= 3 else []
        np.testing.assert_allclose(got.location, np.mean(kept, axis=0), atol=1e-9)
        assert got.factor == factor
    assert factor < 1


def test_steps_and_averages_are_functions_of_released_gradients(monkeypatch) -> None:
    """Equal answers of the mechanism, unequal data: equal locations and factors, to the bit."""
    answers = np.random.default_rng(1).standard_normal((60, 3))
    found = []
    for seed in (2, 3, 4):
        given = iter(answers)
        monkeypatch.setattr(
            "dpconvex.mechanisms.GaussianMechanism._sample", lambda self, value, source, given=given: next(given)
        )
        X = 50 * np.random.default_rng(seed).standard_normal((40, 3))
        found.append(settled(X, WarmStart(np.ones(3), 9.0, 3.0))[1])
    assert found[0].factor < 1
    for other in found[1:]:
        np.testing.assert_array_equal(other.location, found[0].location)
        assert other.factor == found[0].factor


@pytest.mark.gate
def test_noise_alone_hardly_ever_halves_the_steps() -> None:
    """Settled iterates whose steps are short: with threshold 0 instead, half of the steps would be halved."""
    X = np.random.default_rng(0).standard_normal((2000, 5))
    true = geometric_median(X).point
    factors = [settled(X, WarmStart(true, 4.0, 0.5), mu=0.2, seed=k)[1].factor for k in range(40)]
    assert np.mean(factors) > 0.95


@pytest.mark.parametrize("source", [SeededSource(0), SystemSource()])
def test_it_comes_as_close_as_stated(source) -> None:
    """About 2.4 sqrt(d) / (n mu) radii: within a factor, for a seed and for system entropy (chance below 1e-6)."""
    rng = np.random.default_rng(1)
    n, d, mu = 4000, 20, 0.2
    X = np.concatenate([10 + rng.standard_normal((3600, d)), 200 * rng.standard_normal((400, d))])
    true, radius = geometric_median(X).point, math.sqrt(d)
    start = WarmStart(true + 1.5 * radius / math.sqrt(d), 2 * radius, radius)
    plan, found = settled(X, start, mu, source=source)
    error = np.linalg.norm(found.location - true)
    assert error < 3 * 2 * math.sqrt(d) / (n * mu) * radius
    assert error == pytest.approx(plan.deviation * radius * math.sqrt(d), rel=0.75)


def test_half_the_iterates_are_much_better_than_all() -> None:
    """Spec 4.3: the same releases, averaged differently, differ by orders of magnitude."""
    X = np.random.default_rng(0).standard_normal((20_000, 10))
    true = geometric_median(X)
    errors = []
    for tail in (1.0, 0.5):
        plan = plan_constant_steps(20_000, 10, 1.0, steps=20, step=0.5, tail=tail)
        start = WarmStart(true.point + 2.0, 8.0, 3.0)
        point = plan.refine(X, start, SeededSource(0), Ledger(PROMISE, plan.releases)).location
        errors.append(np.linalg.norm(X - point, axis=1).mean() / true.value - 1)
    assert errors[1] < errors[0] / 100


def test_a_ball_far_wider_than_the_radius_can_still_be_crossed() -> None:
    X = np.random.default_rng(0).standard_normal((5000, 2))
    found = settled(X, WarmStart(np.array([75.0, 0]), 100.0, 1.0))[1]
    # It starts 75 radii away, and ends within one (0.66 to 0.73 at eight seeds): the last steps are still falling.
    assert np.linalg.norm(found.location - geometric_median(X).point) < 1.0


@pytest.mark.parametrize("inflation", [1.0, 10.0, 1e2, 1e4])
def test_settling_steps_forgive_a_radius_that_is_far_too_large(inflation) -> None:
    X = np.random.default_rng(0).standard_normal((5000, 10))
    true = geometric_median(X)
    radius = 3.2 * inflation
    found = settled(X, WarmStart(true.point + radius / 10, 2 * radius, radius), 0.3)[1]
    floor = 2 * math.sqrt(10) / (5000 * 0.3) * 3.2
    assert np.linalg.norm(found.location - true.point) < 4 * floor
    assert (found.factor <= 1 / 8) == (inflation > 10) or inflation == 10


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_few_steps_are_enough_for_an_answer(steps) -> None:
    X = np.ones((30, 2))
    assert np.isfinite(settled(X, WarmStart(np.zeros(2), 3.0, 1.0), steps=steps)[1].location).all()


@pytest.mark.parametrize("bad", [{"steps": 0}, {"step": 0.0}, {"tail": 0.0}, {"tail": 1.5}])
def test_public_constants_are_checked(bad) -> None:
    with pytest.raises(InvalidParameterError):
        plan_constant_steps(10, 2, 1.0, **{"steps": 5, "step": 1.0, **bad})
    with pytest.raises(InvalidParameterError):
        plan_settling(10, 2, 1.0, steps=0)
    assert plan_settling(10, 2, 1.0).describe()["boost"] == "descent"
    assert noisy_descent.LEMMA in plan_settling(10, 2, 1.0).releases[0].sensitivity.lemma
