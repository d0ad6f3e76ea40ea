from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, rdp
from hypothesis import given, strategies as st

from dpconvex import _rounding
from dpconvex.privacy import GaussianNoise, accounting
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta, smallest

positive = st.floats(1e-6, 1e6)


@given(positive, positive)
def test_directed_rounding_is_on_the_stated_side(a: float, b: float) -> None:
    exact = Fraction(a) / Fraction(b)
    assert Fraction(_rounding.ratio_down(a, b)) <= exact <= Fraction(_rounding.ratio_up(a, b))
    exact = Fraction(a) * Fraction(b)
    assert Fraction(_rounding.product_down(a, b)) <= exact <= Fraction(_rounding.product_up(a, b))
    assert Fraction(_rounding.difference_down(a, b)) <= Fraction(a) - Fraction(b)
    assert Fraction(_rounding.sum_up((a, b, b))) >= Fraction(a) + 2 * Fraction(b)


@given(positive)
def test_power_of_two(x: float) -> None:
    power = _rounding.power_of_two_at_most(x)
    assert power <= x < 2 * power
    assert math.frexp(power)[0] == 0.5


def exact_gaussian_delta(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@given(st.floats(1e-4, 50.0), st.floats(1e-3, 20.0))
def test_gaussian_profile_is_never_below_the_truth_and_close_to_it(epsilon: float, mu: float) -> None:
    exact = exact_gaussian_delta(epsilon, mu)
    found = gaussian_delta(epsilon, mu)
    assert found >= exact * (1 - mpmath.mpf(1e-15))
    if exact > 1e-290:
        # The slack is absolute relative to the first term, which is at most a few hundred thousand times the result.
        assert found <= exact * (1 + mpmath.mpf(1e-2)) + mpmath.mpf(1e-12)


def test_gaussian_profile_limits() -> None:
    assert gaussian_delta(1.0, 0.0) == 0.0
    assert gaussian_delta(-1.0, 0.0) == pytest.approx(1 - math.exp(-1))
    assert gaussian_delta(0.0, 1e6) == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.1, 0.02), (1.0, 0.3), (3.0, 1.0), (8.0, 2.0)])
@pytest.mark.thin
def test_two_accountants_agree(epsilon: float, mu: float) -> None:
    event = GaussianNoise(mu, 1.0)
    second = float(accounting._pld([(event, 1)]).get_delta_for_epsilon(epsilon))
    assert second == pytest.approx(event.delta(epsilon), rel=1e-3, abs=1e-15)


def test_replace_one_gaussian_costs_what_field_notes_measured() -> None:
    # Sensitivity 2C under replace-one, sigma = C: 9.997 at delta 1e-5 (dp-accounting 0.6 PLD, replace-one).
    event = GaussianNoise(2.0, 1.0)
    assert accounting.spent_epsilon([(event, 1)], 1e-5) == pytest.approx(9.997, abs=1e-3)


def test_a1_the_renyi_accountant_of_dp_accounting_underprices_replace_one() -> None:
    """Erratum A1: 4.73 for the same event at delta 1e-5, the price of adding or removing the record."""
    prices = []
    for relation in (NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE):
        accountant = rdp.RdpAccountant(neighboring_relation=relation)
        prices.append(accountant.compose(GaussianDpEvent(1.0)).get_epsilon(1e-5))
    assert prices == pytest.approx([4.73, 4.73], abs=5e-3)


def test_smallest_returns_a_feasible_point() -> None:
    assert smallest(lambda x: x >= math.pi, 1.0) >= math.pi
    assert smallest(lambda x: x >= math.pi, 1.0) == pytest.approx(math.pi, rel=1e-12)
    assert smallest(lambda x: x >= 1e-9, 1.0) == pytest.approx(1e-9, rel=1e-12)
    assert epsilon_of(lambda e: 0.0, 1e-6) == 0.0
