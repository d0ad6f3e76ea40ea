"""zCDP, draws of bounded range, and their composition with other events."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

from dpconvex.errors import UnsupportedEventError
from dpconvex.privacy import FailureProbability, GaussianNoise, PureMechanism, VertexDraws, accounting
from dpconvex.privacy.events import event_from_dict
from dpconvex.privacy.profiles import ORDERS, bounded_range_divergence, gaussian_delta, largest_rho, zcdp_delta


# The table of the specification, section 2.1: sqrt(8 rho), computed there by other code.
@pytest.mark.parametrize(
    ("epsilon", "delta", "root"),
    [(0.5, 1e-5, 0.261), (0.5, 1e-6, 0.2305), (1, 1e-6, 0.4414), (1, 1e-8, 0.371), (4, 1e-6, 1.578), (8, 1e-6, 2.902)],
)
def test_budgets_of_the_specification(epsilon: float, delta: float, root: float) -> None:
    assert math.sqrt(8 * largest_rho(epsilon, delta)) == pytest.approx(root, abs=6e-4)


@given(st.floats(0.05, 8), st.floats(1e-12, 1e-2))
def test_the_budget_is_the_largest_that_fits(epsilon: float, delta: float) -> None:
    rho = largest_rho(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= delta < zcdp_delta(rho * (1 + 1e-6), epsilon)


@given(st.floats(1e-4, 2.0), st.floats(0.1, 6.0))
def test_a_gaussian_is_covered_by_its_zcdp_cost(mu: float, epsilon: float) -> None:
    assert zcdp_delta(mu**2 / 2, epsilon) >= gaussian_delta(epsilon, mu)


def test_no_budget_claims_a_pure_promise() -> None:
    """A float delta may underflow: it must not become 0 (hidden assumption H9)."""
    assert zcdp_delta(1e-12, 5.0) > 0.0
    assert VertexDraws(1e-8, 1, 1e-16).delta(1e-8 / 2) > 0.0


@pytest.mark.parametrize("eta", [0.02, 0.1, 0.5, 1.0, 3.0, 20.0])
def test_divergences_are_those_of_the_worst_two_point_law(eta: float) -> None:
    found = bounded_range_divergence(eta)
    t = np.linspace(0, eta, 20_003)[1:-1]
    q = -np.expm1(t - eta) / (np.exp(t) - np.exp(t - eta))
    for index in range(0, len(ORDERS), 300):
        a = ORDERS[index]
        if a * eta > 300:
            break
        worst = np.log(q * np.exp(a * t) + (1 - q) * np.exp(a * (t - eta))).max() / (a - 1)
        assert worst * (1 - 1e-9) - 1e-12 <= found[index] <= worst * 1.001 + 1e-9


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6), st.integers(0, 10**6), st.floats(0.05, 4.0))
def test_no_soft_max_pair_beats_the_divergences(scores: list[float], seed: int, eta: float) -> None:
    s = np.array(scores)
    shift = np.random.default_rng(seed).choice([0.0, eta], len(s)) + 7.0
    p, q = (np.exp(v - np.logaddexp.reduce(v)) for v in (s, s + shift))
    for first, second in ((p, q), (q, p)):
        for index in range(0, len(ORDERS), 400):
            a = ORDERS[index]
            if a * eta > 300:
                break
            divergence = np.log((second * (first / second) ** a).sum()) / (a - 1)
            assert divergence <= bounded_range_divergence(eta)[index] * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("eta", "draws"), [(0.05, 60), (0.2, 9), (1.0, 3)])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_exact_compositions_stay_below(eta: float, draws: int, epsilon: float) -> None:
    """Independent two-point draws, exactly: likelihood ratios e^(eta/2) and e^(-eta/2)."""
    p = math.exp(eta / 2) / (1 + math.exp(eta / 2))
    k = np.arange(draws + 1)
    first, second = binom.pmf(k, draws, p), binom.pmf(k, draws, 1 - p)
    exact = np.maximum(first - math.exp(epsilon) * second, 0).sum()
    charged = VertexDraws(eta, draws, draws * eta**2).delta(epsilon)
    assert exact <= charged
    if exact > 1e-4:
        assert charged < 5 * exact
    half = VertexDraws(eta, draws, draws * eta**2 / 4).delta(epsilon)  # as if a range were half as long
    assert half < exact or exact == 0 or eta * draws < epsilon


def test_round_trip_and_refusals() -> None:
    event = VertexDraws(0.1, 20, 0.15)
    assert event_from_dict(event.to_dict()) == event
    for fields in ({"draws": 0}, {"draws": 1.5}, {"largest": -1.0}, {"square_sum": math.inf}, {"more": 1}):
        with pytest.raises(UnsupportedEventError):
            event_from_dict(event.to_dict() | fields)


def test_composition_adds_up_in_zcdp() -> None:
    event, gaussian = VertexDraws(0.05, 100, 0.2), GaussianNoise(1.0, 8.0)
    assert accounting.accountant_name([(event, 1)]) == "zCDP"
    assert accounting.spent_delta([(event, 1)], 1.0) == event.delta(1.0)
    merged = accounting.spent_delta([(event, 1), (gaussian, 4)], 1.0)
    assert merged == pytest.approx(zcdp_delta(0.2 / 8 + 4 / 128, 1.0), rel=1e-9)
    assert accounting.spent_delta([(event, 2)], 1.0) == pytest.approx(zcdp_delta(0.05, 1.0), rel=1e-9)
    epsilon = accounting.spent_epsilon([(event, 1), (gaussian, 1)], 1e-6)
    assert accounting.spent_delta([(event, 1), (gaussian, 1)], epsilon) <= 1e-6
    failing = accounting.spent_delta([(event, 1), (FailureProbability(1e-3), 1)], 1.0)
    assert failing == pytest.approx(zcdp_delta(0.025, 1.0) + 1e-3, rel=1e-6)


@given(st.floats(0.01, 2.0), st.floats(0.05, 3.0))
def test_pure_parts_cost_the_better_of_two_bounds(pure: float, epsilon: float) -> None:
    event = VertexDraws(0.05, 100, 0.2)
    found = accounting.spent_delta([(event, 1), (PureMechanism(pure), 1)], epsilon)
    concentrated = zcdp_delta(0.025 + pure**2 / 2, epsilon)
    apart = zcdp_delta(0.025, epsilon - pure) if epsilon >= pure else 1.0
    assert found == pytest.approx(min(concentrated, apart), rel=1e-6)
    assert accounting.spent_epsilon([(event, 1)], 0.0) == math.inf


def test_the_sum_of_ranges_is_bounded_both_ways() -> None:
    assert VertexDraws(0.1, 10, 0.1).range_sum == pytest.approx(1.0)
    assert VertexDraws(0.5, 10, 0.1).range_sum == pytest.approx(1.0)
    assert VertexDraws(0.1, 10, 0.1).range_sum <= Fraction(0.1) * 10
