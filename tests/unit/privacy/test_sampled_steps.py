"""Secret subsets, and records read as groups: profiles against direct computations, round trips, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy.event_registry import event_from_dict
from dpconvex.privacy.events import GaussianNoise, PureMechanism
from dpconvex.privacy.failure_events import FailureProbability
from dpconvex.privacy.group_events import GroupPrivacy
from dpconvex.privacy.guarded_events import GuardedGaussianNoise
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta
from dpconvex.privacy.sampled_steps import SampledSteps, step_profile


def gaussian_step(mu: float) -> GuardedGaussianNoise:
    """A step whose test is all but free and never errs: mu of the release alone."""
    return GuardedGaussianNoise("gaussian", 1.0, 1e9, 1e12, 0.0, 1.0, 1 / mu)


@pytest.mark.parametrize(("batch", "wanted"), [(1000, 4.887), (500, 2.308), (200, 0.866), (50, 0.198)])
def test_a_hundred_steps_cost_what_the_specification_computed(batch: int, wanted: float) -> None:
    """docs: user-level specification, section 4.5; mu of a step 0.1, delta 1e-6."""
    event = SampledSteps(1000, batch, 100, gaussian_step(0.1))
    assert epsilon_of(event.delta, 1e-6) == pytest.approx(wanted, abs=6e-4)


@given(mu=st.floats(0.05, 2.0), steps=st.integers(1, 20), epsilon=st.floats(0.0, 4.0))
def test_whole_population_is_plain_composition_from_above(mu: float, steps: int, epsilon: float) -> None:
    found = SampledSteps(40, 40, steps, gaussian_step(mu)).delta(epsilon)
    exact = gaussian_delta(epsilon, mu * math.sqrt(steps))
    assert exact * (1 - 1e-9) <= found <= exact * 1.05 + 2e-5


def test_one_step_is_exact_for_the_worst_mixture() -> None:
    """n = 2, K = 1, the other unit at the neighbour's place: N(0, 1) or N(mu, 1) with equal odds, against N(0, 1)."""
    mu, grid = 1.0, np.linspace(-12, 12, 200_001)
    p = 0.5 * norm.pdf(grid) + 0.5 * norm.pdf(grid, mu)
    q = norm.pdf(grid)
    event = SampledSteps(2, 1, 1, gaussian_step(mu))
    for epsilon in (0.0, 0.2, 0.5):
        direct = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (grid[1] - grid[0]))
        assert direct <= event.delta(epsilon) * (1 + 1e-6)
        assert event.delta(epsilon) <= direct * 1.02 + 1e-6


def test_failing_tests_are_amplified_and_added() -> None:
    never = GuardedGaussianNoise("gaussian", 1.0, 10.0, 1e3, 0.0, 1.0, 10.0)
    often = GuardedGaussianNoise("gaussian", 1.0, 10.0, 25.0, 0.0, 1.0, 10.0)  # fails with 0.6 %
    apart = SampledSteps(100, 20, 5, often).delta(2.0) - SampledSteps(100, 20, 5, never).delta(2.0)
    assert apart == pytest.approx(1 - (1 - 0.2 * often.failure) ** 5, rel=0.02)


def test_the_step_profile_falls_and_starts_at_the_amplified_total_variation() -> None:
    e = np.linspace(0, 3, 50)
    h = step_profile(e, 0.3, 0.7, 1e-3)
    assert np.all(np.diff(h) < 0)
    assert h[0] == pytest.approx(0.3 * (1e-3 + (1 - 1e-3) * (2 * norm.cdf(0.35) - 1)), rel=1e-9)


def test_events_survive_a_certificate() -> None:
    for event in (
        SampledSteps(100, 20, 5, gaussian_step(0.5)),
        GroupPrivacy(4, GaussianNoise(1.0, 8.0)),
        GroupPrivacy(4, PureMechanism(0.25)),
    ):
        again = event_from_dict(event.to_dict())
        assert again == event
        assert hash(again) == hash(event)
    broken = SampledSteps(100, 20, 5, gaussian_step(0.5)).to_dict() | {"batch": 200}
    with pytest.raises(UnsupportedEventError):
        event_from_dict(broken)


def test_refusals() -> None:
    with pytest.raises(InvalidParameterError, match="batch"):
        SampledSteps(10, 11, 1, gaussian_step(1.0))
    with pytest.raises(InvalidParameterError, match="step"):
        SampledSteps(10, 5, 1, GuardedGaussianNoise("laplace", 1.0, 10.0, 5.0, 0.0, 1.0, 1.0))


# Groups


def test_groups_of_pure_and_gaussian_mechanisms() -> None:
    assert float(GroupPrivacy(5, PureMechanism(0.25)).pure_epsilon or 0) == 1.25
    gaussian = GroupPrivacy(5, GaussianNoise(1.0, 10.0))
    assert gaussian.delta(1.0) == pytest.approx(gaussian_delta(1.0, 0.5), rel=1e-12)
    assert gaussian.pure_epsilon is None
    parts = gaussian.parts
    assert parts is not None
    assert parts.mu == pytest.approx(0.5)


@given(size=st.integers(2, 8), epsilon=st.floats(0.01, 6.0), mu=st.floats(0.05, 1.0))
def test_the_general_rule_is_never_below_the_exact_group_of_a_gaussian(size: int, epsilon: float, mu: float) -> None:
    class Opaque(GaussianNoise):
        """A Gaussian whose parts are not known."""

        @property
        def parts(self) -> None:  # type: ignore[override]
            return None

    general = GroupPrivacy(size, Opaque(mu, 1.0)).delta(epsilon)
    assert general >= gaussian_delta(epsilon, size * mu) * (1 - 1e-9)


def test_what_may_fail_has_no_parts_for_groups() -> None:
    event = GroupPrivacy(3, FailureProbability(1e-9))
    assert event.parts is None
    assert event.delta(0.0) == pytest.approx(3e-9)
