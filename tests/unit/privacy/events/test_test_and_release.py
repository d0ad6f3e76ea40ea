"""The event of a test followed by a Gaussian release: its profile, its composition, and what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from scipy.stats import norm

from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import GuardedGaussianNoise, PrivacyParams, Release, Sensitivity
from dpconvex.privacy.events import event_from_dict
from dpconvex.privacy.ledger import fits, total_delta
from dpconvex.privacy.profiles import gaussian_delta, mixed_delta

GAUSSIAN = GuardedGaussianNoise("gaussian", 1.0, 8.0, 40.0, 0.0, 1.0, 5.0)
LAPLACE = GuardedGaussianNoise("laplace", 2.0, 20.0, 300.0, 1e-8, 1.0, 5.0)


def release(event: GuardedGaussianNoise, times: int = 1, block: str | None = None) -> Release:
    return Release("mean", "robust mean", event, Sensitivity(1.0, "l2", "lemma", unit="user"), block, times)  # pyright: ignore[reportArgumentType]


def test_alone_it_costs_the_larger_of_bad_and_good_pairs() -> None:
    """Theorem B-3: the maximum, not the sum."""
    mu = math.hypot(1 / 8, 1 / 5)
    assert GAUSSIAN.mu == pytest.approx(mu)
    assert GAUSSIAN.failure == pytest.approx(norm.sf(5.0), rel=1e-3)
    assert GAUSSIAN.delta(0.5) == pytest.approx(gaussian_delta(0.5, mu), rel=1e-9)
    assert GAUSSIAN.delta(50.0) == GAUSSIAN.failure
    assert GAUSSIAN.failure > norm.sf(5.0)


def test_a_pure_test_and_coins_that_may_mislead() -> None:
    assert LAPLACE.failure == pytest.approx(math.exp(-15) / 2, rel=1e-3)
    assert LAPLACE.delta(0.3) == pytest.approx(mixed_delta(0.3, 0.1, 0.2) + 1e-8, rel=1e-9)
    assert LAPLACE.parts.pure == pytest.approx(0.1)
    assert LAPLACE.parts.failure == LAPLACE.failure


def test_composition_adds_failures_and_composes_gaussians() -> None:
    """Theorem B-5: ``1 - (1 - delta_t)^T (1 - delta_(sqrt(T) mu))``, bounded by the sum."""
    times, epsilon = 30, 8.0
    exact = 1 - (1 - GAUSSIAN.failure) ** times * (1 - gaussian_delta(epsilon, math.sqrt(times) * GAUSSIAN.mu))
    found = total_delta([release(GAUSSIAN, times)], epsilon)
    assert exact <= found <= exact * (1 + 1e-4)


def test_disjoint_blocks_cost_what_one_costs() -> None:
    promise = PrivacyParams(1.0, GAUSSIAN.delta(1.0), unit="user")  # pyright: ignore[reportArgumentType]
    assert fits([release(GAUSSIAN, block="a"), release(GAUSSIAN, block="b")], promise)
    assert not fits([release(GAUSSIAN), release(GAUSSIAN)], promise)


@pytest.mark.parametrize("event", [GAUSSIAN, LAPLACE])
def test_it_survives_a_certificate(event: GuardedGaussianNoise) -> None:
    assert event_from_dict(event.to_dict()) == event
    assert event.pure_epsilon is None
    assert event.claimed_sensitivity == 1.0


@pytest.mark.parametrize("change", [{"margin": 20.0}, {"sigma": 2.5}, {"score_scale": 16.0}, {"coupling": 1e-3}])
def test_weaker_constants_cost_more(change: dict[str, float]) -> None:
    weaker = replace(GAUSSIAN, **change)
    assert max(weaker.delta(0.5), weaker.parts.failure) > max(GAUSSIAN.delta(0.5), GAUSSIAN.parts.failure)


@pytest.mark.parametrize("change", [{"margin": 0.0}, {"margin": -1.0}, {"coupling": 1.0}, {"score_noise": "uniform"}])
def test_nonsense_is_refused(change: dict[str, float | str]) -> None:
    with pytest.raises(InvalidParameterError):
        replace(GAUSSIAN, **change)  # pyright: ignore[reportArgumentType]
