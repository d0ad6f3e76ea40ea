"""Pure, Gaussian and failing parts in one closed form; bounded Laplace noise; allowances."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad
from scipy.stats import laplace, norm

from dpconvex.errors import BudgetExceededError, InvalidParameterError, UnsupportedEventError
from dpconvex.mechanisms import FailureAllowance, GaussianMechanism
from dpconvex.privacy import (
    BoundedLaplaceNoise,
    FailureProbability,
    GaussianNoise,
    GaussianObjectivePerturbation,
    GuardedGaussianNoise,
    Ledger,
    PrivacyParams,
    PureMechanism,
    Release,
    Sensitivity,
    accounting,
)
from dpconvex.privacy.events import event_from_dict, pure_delta
from dpconvex.privacy.profiles import gaussian_delta, largest_mu, limited, mixed_delta
from dpconvex.privacy.verify import MOST_PRICING
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference.printed_median import BoundedLaplaceMechanism


@pytest.mark.parametrize(
    ("epsilon", "delta", "pure", "mu"),
    [(e, 1e-6, 0.0, m) for e, m in ((1, 0.2367), (0.5, 0.1241), (2, 0.4483), (8, 1.5315))]
    + [(e, 0.9e-6, 0.1 * e, m) for e, m in ((1, 0.2204), (0.5, 0.1159), (2, 0.4163), (8, 1.4129))],
)
def test_largest_budgets(epsilon: float, delta: float, pure: float, mu: float) -> None:
    # Golden numbers: computed independently for the paper's specification, by direct integration.
    found = largest_mu(epsilon, delta, pure)
    assert found == pytest.approx(mu, abs=5e-5)
    assert mixed_delta(epsilon, pure, found) <= delta < mixed_delta(epsilon, pure, found * (1 + 1e-9))


def test_the_largest_mu_fits_its_promise_at_small_epsilons() -> None:
    """One in five Gaussian releases at epsilon 1e-4 to 1e-3 was charged more than was promised, and stopped by it."""
    rng = np.random.default_rng(0)
    for epsilon, delta in zip(10 ** rng.uniform(-5, 0, 150), 10 ** rng.uniform(-12, -4, 150), strict=True):
        mu = largest_mu(epsilon, delta)
        for count in (1, 3, 50):
            events = ((GaussianNoise(mu / math.sqrt(count) * (1 - 1e-12), 1.0), count),)
            assert accounting.spent_epsilon(events, delta) <= epsilon


@pytest.mark.gate
@given(epsilon=st.floats(0.0, 5.0), pure=st.just(0.0) | st.floats(1e-3, 3.0), mu=st.floats(0.05, 3.0))
def test_the_mixture_is_the_composition(epsilon: float, pure: float, mu: float) -> None:
    def excess(z: float, sign: float) -> float:
        p, q = norm.pdf(z), norm.pdf(z - mu)
        heads = 1 / (1 + math.exp(-sign * pure))
        return max(0.0, heads * p - math.exp(epsilon) * (1 - heads) * q)

    kinks = [mu / 2 - (epsilon + sign * pure) / mu for sign in (-1, 1)]
    direct = sum(
        quad(excess, -12, 12 + mu, args=(sign,), points=[k for k in kinks if -12 < k < 12 + mu], limit=200)[0]
        for sign in (-1, 1)
    )
    assert mixed_delta(epsilon, pure, mu) == pytest.approx(direct, abs=1e-9)
    assert mixed_delta(epsilon, 0.0, mu) == gaussian_delta(epsilon, mu)
    if pure:
        assert mixed_delta(epsilon, pure, 0.0) == pytest.approx(pure_delta(Fraction(pure), epsilon), abs=1e-12)


@pytest.mark.gate
def test_the_closed_form_agrees_with_privacy_loss_distributions() -> None:
    events = [(PureMechanism(0.2), 1), (GaussianNoise(1.0, 6.0), 20), (GaussianNoise(2.0, 9.0), 1)]
    assert accounting.accountant_name(events) == "closed form"
    mu = math.sqrt(20 / 36 + 4 / 81)
    for epsilon in (0.5, 1.0, 3.0):
        ours = accounting.spent_delta(events, epsilon)
        assert ours == pytest.approx(mixed_delta(epsilon, 0.2, mu), rel=1e-6)
        assert ours == pytest.approx(float(accounting._pld(events).get_delta_for_epsilon(epsilon)), rel=2e-3)
    spent = accounting.spent_epsilon(events, 1e-6)
    assert accounting.spent_delta(events, spent) <= 1e-6 < accounting.spent_delta(events, spent * (1 - 1e-9))


def test_several_pure_events_in_closed_form_and_by_privacy_loss_distributions() -> None:
    events = [(PureMechanism(0.2), 2), (BoundedLaplaceNoise(1.0, 2.0, 40.0), 1), (GaussianNoise(1.0, 6.0), 3)]
    assert accounting.accountant_name(events) == "closed form"
    for epsilon in (0.3, 0.9, 1.4):
        other = float(accounting._pld(events).get_delta_for_epsilon(epsilon)) + events[1][0].parts.failure
        assert accounting.spent_delta(events, epsilon) == pytest.approx(other, rel=2e-3)
    # Without the Gaussian: sums of signs, by hand.
    likely = [1 / (1 + math.exp(-e)) for e in (0.2, 0.3)]
    both = likely[0] * likely[1] * -math.expm1(0.4 - 0.5)
    assert mixed_delta(0.4, 0.2, 0.0, 0.3) == pytest.approx(both, rel=1e-9)
    assert mixed_delta(0.7, 0.2, 0.5, 0.3) == pytest.approx(mixed_delta(0.7, 0.3, 0.5, 0.2), rel=1e-9)
    tiny = [(PureMechanism(1e-4), 2), (GaussianNoise(1.0, 1e4), 1)]
    assert accounting.spent_epsilon(tiny, 1e-40) < 2e-3  # where a grid of losses has no answer


@pytest.mark.thin
@pytest.mark.parametrize("sigma", [1.0, 1e3, 1e6])
@pytest.mark.gate
def test_the_second_opinion_agrees_at_every_scale(sigma: float) -> None:
    event = GaussianNoise(1.0, sigma)
    for ratio in (0.0, 1.0, 3.0):
        exact = event.delta(ratio / sigma)
        second = float(accounting._pld([(event, 1)]).get_delta_for_epsilon(ratio / sigma))
        assert exact * (1 - 1e-5) <= second <= exact * (1 + 1e-3)


def test_failures_are_added_once_each_and_outside() -> None:
    base = [(PureMechanism(0.2), 1), (GaussianNoise(1.0, 6.0), 1)]
    failing = [*base, (FailureProbability(1e-7), 2)]
    assert accounting.spent_delta(failing, 1.0) == pytest.approx(accounting.spent_delta(base, 1.0) + 2e-7, rel=1e-12)
    several = [*failing, (PureMechanism(0.1), accounting.MOST_PURE)]
    assert accounting.accountant_name(several) == "PLD"
    assert accounting.spent_delta(several, 1.0) >= accounting.spent_delta(failing, 1.0)
    safe = [counted for counted in several if not isinstance(counted[0], FailureProbability)]
    assert accounting.spent_delta(several, 1.0) - accounting.spent_delta(safe, 1.0) == pytest.approx(2e-7, rel=1e-6)
    assert accounting.spent_epsilon(several, 1e-7) == math.inf
    assert accounting.spent_epsilon([(FailureProbability(1e-3), 1)], 1e-6) == math.inf
    assert accounting.spent_epsilon([(FailureProbability(1e-3), 1)], 1e-3) == 0.0


def test_coarse_grids_of_large_losses_cost_next_to_nothing_and_a_check_can_pay_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = [(GaussianNoise(1.0, 1 / 4.0), 1), (PureMechanism(1 / 15), 6)]
    accounting._composed.cache_clear()
    with limited(MOST_PRICING):
        coarse = accounting.spent_delta(many, 28.0)
        accounting.spent_delta([(GaussianNoise(1.0, 1 / 3.99), 1), *many[1:]], 28.0)  # another, not from the cache
        assert accounting.spent_epsilon(many, coarse) == pytest.approx(28.0, rel=1e-6)
    monkeypatch.setattr(accounting, "MOST_GAUSSIAN", math.inf)
    fine = accounting.spent_delta(many, 28.0)
    assert fine * (1 - 1e-9) <= coarse <= fine * (1 + 1e-3)


@pytest.mark.parametrize("event", [FailureProbability(1e-7), BoundedLaplaceNoise(1.0, 2.0, 30.0)])
def test_events_survive_a_round_trip(event) -> None:
    assert event_from_dict(event.to_dict()) == event


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_bounded_laplace_costs_at_most_what_its_bound_is_for(epsilon: float, delta: float) -> None:
    mechanism = BoundedLaplaceMechanism.calibrate(Sensitivity(12.0, "absolute", "test"), epsilon, delta)
    parts = mechanism.event.parts
    assert float(parts.pure) <= epsilon
    # Exact loss by integration: hockey-stick divergence at the pure epsilon between noise and shifted noise.
    scale, bound, shift = mechanism.scale, mechanism.bound, 12.0
    mass = 1 - 2 * laplace.sf(bound / scale)
    strip = (laplace.cdf((-bound + shift) / scale) - laplace.cdf(-bound / scale)) / mass
    assert strip <= parts.failure <= delta
    assert parts.failure == pytest.approx(strip, rel=1e-2)


def test_the_printed_bound_is_too_short_for_large_epsilon() -> None:
    # At epsilon 4 the bound log(4/delta) costs 6.7 delta: so the mechanism refuses to calibrate it.
    event = BoundedLaplaceNoise(1.0, 0.25, 0.25 * math.log(4 / 1e-6))
    assert event.parts.failure == pytest.approx(6.7e-6, rel=0.01)
    with pytest.raises(InvalidParameterError):
        BoundedLaplaceMechanism.calibrate(Sensitivity(1.0, "absolute", "test"), 4.0, 1e-6)


@pytest.mark.thin
@pytest.mark.parametrize("source", [SeededSource(3), SystemSource()], ids=["seeded", "system"])
def test_bounded_laplace_stays_in_bounds_and_follows_its_law(source) -> None:
    # Error probability 1e-6 (Kolmogorov-Smirnov, Dvoretzky-Kiefer-Wolfowitz bound).
    mechanism = BoundedLaplaceMechanism(Sensitivity(1.0, "absolute", "test"), 1.5, 3.0)
    releases = 2000
    planned = Release("x", mechanism.name, mechanism.event, mechanism.sensitivity, times=releases)
    ledger = Ledger(PrivacyParams(1e5, 0.4), [])
    ledger._left[mechanism.planned("x")] = releases
    draws = np.array([mechanism.release(np.array([5.0]), "x", source, ledger)[0] for _ in range(releases)]) - 5.0
    assert planned.times == len(ledger.recorded)
    assert np.abs(draws).max() <= 3.0
    assert np.abs(draws).max() > 2.9
    mass = 1 - 2 * laplace.sf(2.0)
    uniform = np.sort((laplace.cdf(draws / 1.5) - laplace.sf(2.0)) / mass)
    assert np.abs(uniform - np.arange(releases) / releases).max() < math.sqrt(math.log(2e6) / (2 * releases)) + 1e-3


def test_an_allowance_is_charged_once_and_only_if_planned() -> None:
    allowance = FailureAllowance(1e-7, "coins")
    ledger = Ledger(PrivacyParams(1.0, 1e-6), [allowance.planned("coins")])
    allowance.charge("coins", ledger)
    with pytest.raises(BudgetExceededError):
        allowance.charge("coins", ledger)
    with pytest.raises(BudgetExceededError):
        Ledger(PrivacyParams(1.0, 1e-8), [allowance.planned("coins")])


@given(mu=st.floats(1e-3, 50.0), value=st.floats(1e-6, 1e6))
def test_a_gaussian_mechanism_of_mu_spends_mu(mu: float, value: float) -> None:
    event = GaussianMechanism.of_mu(Sensitivity(value, "l2", "test"), mu, 4).event
    assert event.mu == pytest.approx(mu, rel=1e-12)
    assert event.mu <= mu * (1 + 1e-15)


LONE = GaussianObjectivePerturbation(1.0, 8.0, 0.01, 0.01, "one_sided", 0.25)


def test_an_event_without_parts_is_charged_at_what_pure_ones_leave() -> None:
    assert LONE.parts is None
    pure = [(PureMechanism(0.2), 2), (PureMechanism(0.1), 1)]
    for events in ([(LONE, 1), *pure], [*pure, (LONE, 1)]):
        assert accounting.accountant_name(events) == "basic composition"
        assert accounting.supports(events)
        for epsilon in (0.6, 1.0, 3.0):
            assert accounting.spent_delta(events, epsilon) == pytest.approx(LONE.delta(epsilon - 0.5), rel=1e-9)
            assert accounting.spent_delta(events, epsilon) >= LONE.delta(epsilon - 0.5)
        assert accounting.spent_delta(events, 0.49) == 1.0
        spent = accounting.spent_epsilon(events, 1e-6)
        assert spent == pytest.approx(0.5 + accounting.spent_epsilon([(LONE, 1)], 1e-6), rel=1e-9)
        assert accounting.second_opinion(events, 1e-6) is None


@pytest.mark.parametrize("failure", [0.999e-6, 1e-9])
def test_a_tested_release_beside_pure_ones_costs_the_smaller_of_two_prices(failure: float) -> None:
    """In its parts a failure adds to delta, and in its own profile the larger of the two counts."""
    mu = largest_mu(0.9, 1e-6) * (1 - 1e-9)
    margin = float(-norm.ppf(failure))
    event = GuardedGaussianNoise("gaussian", 1e-9, 1.0, margin, 0.0, mu, 1.0)
    events = [(event, 1), (PureMechanism(0.1), 1)]
    spent, parts = accounting.spent_epsilon(events, 1e-6), accounting._closed_form(events)
    assert spent <= 0.1 + accounting.spent_epsilon([(event, 1)], 1e-6) * (1 + 1e-9) <= 1.0 + 1e-6
    assert accounting.epsilon_of(parts, 1e-6) >= spent * (1 - 1e-12)
    assert (accounting.epsilon_of(parts, 1e-6) > 1.2) == (failure > 1e-7)
    assert accounting.spent_delta(events, spent * (1 + 1e-9)) <= 1e-6
    assert accounting.spent_delta([*events, (event, 1)], 1.0) > 1e-6  # two of them have no such price


@pytest.mark.parametrize("more", [[], [GaussianNoise(1.0, 5.0)], [FailureProbability(1e-9)], [None]])
def test_two_events_without_a_sum_are_refused(more: list) -> None:
    events = [(LONE, 1 if more else 2), (PureMechanism(0.1), 1), *((event or LONE, 1) for event in more)]
    assert not accounting.supports(events)
    with pytest.raises(UnsupportedEventError):
        accounting.spent_epsilon(events, 1e-6)
