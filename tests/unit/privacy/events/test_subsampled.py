"""Secret samples, and records read as groups: profiles against direct computations, round trips, refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

from dpconvex.errors import InvalidParameterError, UnsupportedEventError
from dpconvex.privacy import (
    Event,
    FailureProbability,
    GaussianNoise,
    GuardedGaussianNoise,
    PoissonSteps,
    PureMechanism,
    SampledSteps,
    WholeRun,
)
from dpconvex.privacy.accounting import spent_epsilon
from dpconvex.privacy.events import Parts, event_from_dict
from dpconvex.privacy.events.subsampled import MOST_CONTRIBUTION, largest_contribution, poisson_profile, step_profile
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta, largest_mu, mixed_delta
from dpconvex_experiments.reference.group_privacy import GroupPrivacy


def gaussian_step(mu: float) -> GuardedGaussianNoise:
    """A step whose test is all but free and never errs: mu of the release alone."""
    return GuardedGaussianNoise("gaussian", 1.0, 1e9, 1e12, 0.0, 1.0, 1 / mu)


@pytest.mark.parametrize(("batch", "wanted"), [(1000, 4.887), (500, 2.308), (200, 0.866), (50, 0.198)])
def test_a_hundred_steps_cost_what_the_specification_computed(batch: int, wanted: float) -> None:
    """docs: user-level specification, section 4.5; mu of a step 0.1, delta 1e-6."""
    event = SampledSteps(1000, batch, 100, gaussian_step(0.1))
    assert epsilon_of(event.delta, 1e-6) == pytest.approx(wanted, abs=6e-4)


@pytest.mark.gate
@given(mu=st.floats(0.05, 2.0), steps=st.integers(1, 20), epsilon=st.floats(0.0, 4.0))
def test_whole_population_is_plain_composition_from_above(mu: float, steps: int, epsilon: float) -> None:
    found = SampledSteps(40, 40, steps, gaussian_step(mu)).delta(epsilon)
    exact = gaussian_delta(epsilon, mu * math.sqrt(steps))
    assert exact * (1 - 1e-9) <= found <= exact * 1.05 + 2e-5


def test_one_step_is_exact_for_the_worst_mixture() -> None:
    """n = 2, K = 1, the other unit at the neighbor's place: N(0, 1) or N(mu, 1) with equal odds, against N(0, 1)."""
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


@dataclass(frozen=True)
class Both(Event):
    """A mechanism of which no more is known than that randomized response and a Gaussian together dominate it."""

    pure: float
    mu: float

    @property
    def pure_epsilon(self) -> None:
        return None

    @property
    def parts(self) -> Parts:
        return Parts(Fraction(self.pure), self.mu)

    def delta(self, epsilon: float) -> float:
        return mixed_delta(epsilon, self.pure, self.mu)


def test_a_chain_of_two_may_cost_more_than_its_enlarged_parts() -> None:
    """Uniform P1 on [0, 1], P0 with ``P0[0, a] = g(a)`` and P2 with ``P1[0, a] = g(P2[0, a])``, g the largest power.

    P0, P1 and P1, P2 are as far apart as the profile allows, and ``P0[0, a] = g(g(b))``, ``b = P2[0, a]``.
    """
    pure, mu = 1.0, 0.5
    event = Both(pure, mu)
    slopes = np.linspace(-12, 12, 2401)
    profile = np.array([event.delta(e) if e >= 0 else 1 - math.exp(e) + math.exp(e) * event.delta(-e) for e in slopes])

    def power(b: np.ndarray) -> np.ndarray:
        return np.min(profile + np.exp(slopes) * b[:, None], axis=1).clip(0, 1)

    b = np.geomspace(1e-6, 1, 1500)
    both = power(power(b))
    worst = 0.0
    for epsilon in np.linspace(0.2, 3.0, 15):
        truth = float(np.max(both - math.exp(epsilon) * b))
        worst = max(worst, truth - mixed_delta(epsilon, 2 * pure, 2 * mu))
        assert GroupPrivacy(2, event).delta(epsilon) >= truth - 1e-4
    assert worst > 1e-3  # what the enlarged parts would have hidden, far above the grid's error
    assert GroupPrivacy(2, event).parts is None
    uses = ((None, 1, PureMechanism(pure)), (None, 1, GaussianNoise(mu, 1.0)))
    parts = GroupPrivacy(2, WholeRun(uses)).parts
    assert parts is not None
    assert (parts.pure, parts.mu) == (2, pytest.approx(2 * mu))


def test_what_may_fail_has_no_parts_for_groups() -> None:
    event = GroupPrivacy(3, FailureProbability(1e-9))
    assert event.parts is None
    assert event.delta(0.0) == pytest.approx(3e-9)


# Poisson samples


def mixtures(rate: float, first: float, second: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Densities of two mixtures with a center at 0, on a grid, and its step."""
    x = np.linspace(-16, 16, 400_001)
    p, q = ((1 - rate) * norm.pdf(x) + rate * norm.pdf(x, center) for center in (first, second))
    return p, q, x[1] - x[0]


@pytest.mark.parametrize(("rate", "r"), [(0.1, 0.3), (0.5, 1.0), (0.01, 2.0), (0.9, 0.5), (0.02, 0.05)])
def test_one_poisson_step_is_the_mixture_pair(rate: float, r: float) -> None:
    p, q, dx = mixtures(rate, r, -r)
    for epsilon in (0.0, 0.01, 0.1, 0.5, 1.5):
        direct = float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * dx)
        assert float(poisson_profile(np.array([epsilon]), rate, r)[0]) == pytest.approx(direct, rel=1e-6, abs=1e-11)
        found = PoissonSteps(rate, 1, GaussianNoise(r, 1.0)).delta(epsilon)
        assert direct * (1 - 1e-8) - 1e-12 <= found <= direct * 1.01 + 1e-5


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(0.02, 0.98),
    r=st.floats(0.1, 2.0),
    epsilon=st.floats(-1.5, 1.5),
    lengths=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    angle=st.floats(0, math.pi),
)
def test_the_pair_dominates_all_contributions_in_the_plane(rate, r, epsilon, lengths, angle) -> None:
    """The lemma: no two contributions of length at most r, in whatever directions, tell more at any epsilon."""
    x = np.linspace(-9, 9, 361)
    a, b = np.meshgrid(x, x)
    cell = (x[1] - x[0]) ** 2

    def density(u: float, v: float) -> np.ndarray:
        return np.exp(-((a - u) ** 2 + (b - v) ** 2) / 2) / (2 * math.pi)

    here = density(0, 0)
    first = (1 - rate) * here + rate * density(lengths[0] * r, 0)
    second = (1 - rate) * here + rate * density(lengths[1] * r * math.cos(angle), lengths[1] * r * math.sin(angle))
    found = float(np.maximum(first - math.exp(epsilon) * second, 0).sum() * cell)
    bound = float(poisson_profile(np.array([abs(epsilon)]), rate, r)[0])
    if epsilon < 0:  # the symmetry of the relation
        bound = -math.expm1(epsilon) + math.exp(epsilon) * bound
    assert found <= bound * (1 + 1e-4) + 1e-6


@pytest.mark.gate
@given(r=st.floats(0.02, 1.0), steps=st.integers(1, 30), epsilon=st.floats(0.0, 4.0))
def test_a_rate_near_one_is_plain_composition_from_above(r: float, steps: int, epsilon: float) -> None:
    found = PoissonSteps(1 - 1e-9, steps, GaussianNoise(r, 1.0)).delta(epsilon)
    exact = gaussian_delta(epsilon, 2 * r * math.sqrt(steps))
    assert exact * (1 - 1e-6) <= found <= exact * 1.05 + 2e-5


@pytest.mark.thin
@pytest.mark.parametrize(
    ("rate", "steps", "sigma"),
    [(0.1, 64, 6.7), pytest.param(0.01, 1000, 1.2, marks=pytest.mark.gate), (0.3, 200, 10.0)],
)
def test_poisson_steps_agree_with_the_other_accountant_and_with_sampled_losses(rate, steps, sigma) -> None:
    """dp-accounting's own pair, and 60,000 sums of losses (5 standard errors: wrong with probability below 1e-5)."""
    event = PoissonSteps(rate, steps, GaussianNoise(1.0, sigma))
    own = epsilon_of(event.delta, 1e-6)
    opinion = event.second_opinion(1e-6)
    assert opinion is not None
    assert own == pytest.approx(opinion[1], rel=1e-5)
    rng, r, runs = np.random.default_rng(0), 1 / sigma, 60_000
    total = np.zeros(runs)
    for _ in range(steps):
        x = rng.standard_normal(runs) + r * (rng.random(runs) < rate)
        p, q = (np.log(1 - rate + rate * np.exp(side * r * x - r * r / 2)) for side in (1, -1))
        total += p - q
    epsilon = own / 3
    gains = np.maximum(-np.expm1(epsilon - total), 0.0)
    assert gains.mean() == pytest.approx(event.delta(epsilon), abs=5 * gains.std() / math.sqrt(runs) + 1e-5)


@pytest.mark.parametrize(("rate", "steps", "epsilon"), [(0.3, 20, 0.1), (0.1, 640, 1.0), (0.01, 512, 3.0)])
def test_the_largest_contribution_spends_the_promise(rate: float, steps: int, epsilon: float) -> None:
    r = largest_contribution(rate, steps, epsilon, 1e-6)
    assert 0.98e-6 <= PoissonSteps(rate, steps, GaussianNoise(r, 1.0)).delta(epsilon) <= 1e-6
    assert PoissonSteps(rate, steps, GaussianNoise(1.01 * r, 1.0)).delta(epsilon) > 1e-6
    whole = largest_mu(epsilon, 1e-6) / (2 * rate * math.sqrt(steps))  # as if no step could see who takes part
    assert 0.8 * whole < r < 1.01 * whole


def test_rates_that_protect_by_themselves_end_the_search() -> None:
    assert largest_contribution(0.01, 2, 1.0, 0.3) >= MOST_CONTRIBUTION / 1.25


@pytest.mark.parametrize("sigma", [1e-300, 1e-3, 0.04, 1e3, 1e300])
@pytest.mark.parametrize(("rate", "steps"), [(1e-6, 10**6), (1 - 1e-12, 10**6), (0.5, 3), (1e-6, 1)])
@pytest.mark.thin
def test_absurd_numbers_are_priced_quickly_or_refused(rate: float, steps: int, sigma: float) -> None:
    try:
        found = PoissonSteps(rate, steps, GaussianNoise(1.0, sigma)).delta(0.5)
    except ArithmeticError:
        return  # a verifier says that it cannot be priced
    assert 0 < found <= 1


def test_poisson_events_survive_a_certificate_and_refuse() -> None:
    event = PoissonSteps(0.1, 7, GaussianNoise(1.0, 3.0))
    again = event_from_dict(event.to_dict())
    assert (again, hash(again)) == (event, hash(event))
    for change in ({"rate": 1.0}, {"rate": 0.0}, {"rate": 1e-300}, {"steps": 0}, {"steps": 10**7}, {"rate": math.nan}):
        with pytest.raises(UnsupportedEventError):
            event_from_dict(event.to_dict() | change)
    with pytest.raises(InvalidParameterError, match="delta"):
        largest_contribution(0.1, 10, 1.0, 1e-12)
    assert event.pure_epsilon is None
    with pytest.raises(UnsupportedEventError):
        spent_epsilon([(event, 2)], 1e-6)
    assert spent_epsilon([(event, 1), (PureMechanism(0.5), 1)], 1e-6) == pytest.approx(
        0.5 + spent_epsilon([(event, 1)], 1e-6), rel=1e-9
    )
