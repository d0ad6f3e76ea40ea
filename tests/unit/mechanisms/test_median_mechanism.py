"""The exponential mechanism for a median: exact output law against the stated density, its range, its price."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import ndtri
from scipy.stats import chisquare

from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import BoundedRange, Ledger, PrivacyParams, PureMechanism
from dpconvex.privacy.events import pure_delta
from dpconvex.privacy.ledger import total_delta
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex_experiments.reference.location import MedianMechanism, covered_range, draw_interval

EDGES = np.linspace(-2, 3, 41)
FINITE = st.lists(st.floats(-4, 4), min_size=5, max_size=5)


def law(values, epsilon, edges=EDGES):
    """Probabilities of the cells between `edges`, from the stated density, by summing over all breaks."""
    inner = np.clip(np.asarray(values, dtype=float), edges[0], edges[-1])
    breaks = np.unique(np.concatenate([edges, inner]))
    middle, width = (breaks[1:] + breaks[:-1]) / 2, np.diff(breaks)
    rank = (inner[:, None] < middle).sum(0)
    mass = width * np.exp(-epsilon * np.abs(rank - len(inner) / 2) / 2)
    cells = np.bincount(np.searchsorted(edges, middle) - 1, mass, len(edges) - 1)
    return cells / mass.sum()


@pytest.mark.gate
@pytest.mark.parametrize(("count", "wrong"), [(5_000, 0.65), pytest.param(20_000, 1.0, marks=pytest.mark.slow)])
def test_samples_follow_the_density(count: int, wrong: float) -> None:
    """Chi-square over 40 cells, fixed seed: error probability 1e-3; another epsilon is refuted."""
    mechanism = MedianMechanism(1.3, -2.0, 3.0, 5)
    values = np.array([-1.5, 0.2, 0.2, 2.9, 7.0])
    source = SeededSource(0)
    draws = np.array([mechanism._sample(values, source) for _ in range(count)])
    observed, _ = np.histogram(draws, EDGES)
    assert chisquare(observed, law(values, 1.3) * count).pvalue > 1e-3
    assert chisquare(observed, law(values, wrong) * count).pvalue < 1e-6


class Scripted:
    """A generator of given bits: the first 62 of a uniform number, then bytes of those that follow."""

    def __init__(self, prefix: int, follows: bytes = b"") -> None:
        self.prefix, self.follows, self.asked = prefix, follows, 0

    def integers(self, low: int, high: int) -> int:
        assert (low, high) == (0, 2**62)
        return self.prefix

    def bytes(self, count: int) -> bytes:
        self.asked += 1
        return (self.follows * count)[:count]


@given(
    st.lists(st.sampled_from([-1.0, -0.3, 0.0, 5e-324, 1e-300, 2.0**-52, 1.0]), min_size=1, max_size=6).map(sorted),
    st.sampled_from([0.0, 0.25, 3.0, 700.0]),
    st.integers(0, 2**62 - 1) | st.sampled_from([0, 1, 2**61 - 1, 2**61, 2**62 - 1]),
)
def test_the_interval_is_that_of_exact_arithmetic(values, rate, prefix) -> None:
    """Against shares of 1000 digits; the halves and ends of the range lie on borders, where floats cannot decide."""
    ends = np.array([-1.0, *values, 1.0])
    script: Any = Scripted(prefix, b"\x55")
    with mpmath.workdps(1000):
        away = [abs(k - mpmath.mpf(len(values)) / 2) for k in range(len(values) + 1)]
        masses = [
            (mpmath.mpf(b) - mpmath.mpf(a)) * mpmath.exp(-mpmath.mpf(rate) * j)
            for a, b, j in zip(ends[:-1].tolist(), ends[1:].tolist(), away, strict=True)
        ]
        at = (prefix + mpmath.mpf(0x55) / 255) / mpmath.mpf(2) ** 62 * mpmath.fsum(masses)
        shares = np.array([mpmath.fsum(masses[: k + 1]) for k in range(len(masses))])
        assert draw_interval(ends, rate, script) == int((shares <= at).sum())


def test_masses_that_floats_cannot_hold_still_have_their_chance() -> None:
    """The first interval's mass is exp(-5000) of the whole: chosen when 8000 bits say so, and by no fewer."""
    ends = np.array([-1.0, *np.zeros(100), 1.0])
    ends[1:26] = -0.5
    script: Any = Scripted(0)
    assert draw_interval(ends, 200.0, script) == 0
    assert 62 + script.asked * 8 * 32 > 5000 / math.log(2)


def test_both_ways_to_an_interval_agree(monkeypatch) -> None:
    """Whatever the margin, the same bits give the same interval."""
    ends = np.sort(np.concatenate([[-3, 3], np.random.default_rng(0).normal(size=40)]))
    fast = [draw_interval(ends, 0.1, SeededSource(seed).generator()) for seed in range(200)]
    monkeypatch.setattr("dpconvex_experiments.reference.location._ERROR", 1.0)
    assert fast == [draw_interval(ends, 0.1, SeededSource(seed).generator()) for seed in range(200)]
    assert len(set(fast)) > 10


def test_releases_lie_on_a_grid_that_no_value_moves() -> None:
    """Low-order bits: floats between 0.1 and 0.3 betray 0.1; multiples of the step do not."""
    mechanism = MedianMechanism(1.0, -1.0, 1.0, 3)
    values = np.array([0.1, 0.3, math.pi / 4])
    for source in (SystemSource(), SeededSource(0)):
        draws = np.array([mechanism._sample(values, source) for _ in range(50)]) / mechanism.output_step
        np.testing.assert_array_equal(draws, np.rint(draws))
    assert mechanism.exact_bits(SystemSource())
    assert not mechanism.exact_bits(SeededSource(0))


@given(FINITE, st.integers(0, 4), st.floats(-4, 4), st.sampled_from([0.3, 1.0, 4.0]))
def test_no_neighbor_sees_a_larger_ratio_or_range(values, row, other, epsilon) -> None:
    """Exact densities on the common refinement: pure epsilon, and log ratios within an interval of length epsilon."""
    neighbor = list(values)
    neighbor[row] = other
    edges = np.unique(np.clip(np.concatenate([EDGES, values, neighbor]), -2, 3))
    with np.errstate(divide="ignore"):
        logs = np.log(law(values, epsilon, edges)) - np.log(law(neighbor, epsilon, edges))
    assert np.abs(logs).max() <= epsilon + 1e-9
    assert logs.max() - logs.min() <= epsilon + 1e-9


def test_the_whole_range_is_used() -> None:
    """A value that jumps over the median: half the range would be caught."""
    values, neighbor = [0.0, 1.0, 2.0, 2.5, 2.8], [0.0, 1.0, 2.0, 2.5, -1.5]
    logs = np.log(law(values, 1.0)) - np.log(law(neighbor, 1.0))
    assert logs.max() - logs.min() > 0.999


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 5.0])
def test_every_two_valued_loss_of_the_range_is_covered(epsilon) -> None:
    """Proof of `BoundedRange`, by search over t and over the epsilon at which delta is asked for."""
    event = BoundedRange(epsilon)
    tight = 0.0
    for t in np.linspace(0, epsilon, 101)[1:-1]:
        p = -math.expm1(t - epsilon) / -math.expm1(-epsilon)  # of the value t, under the first distribution
        mu = ndtri(1 - p * math.exp(-t)) - ndtri(1 - p)
        assert mu <= event.mu * (1 + 1e-9)
        tight = max(tight, mu / event.mu)
        for at in np.linspace(-epsilon, epsilon, 21):
            delta = max(0, p - math.exp(at) * p * math.exp(-t)) + max(
                0, (1 - p) - math.exp(at) * (1 - p) * math.exp(epsilon - t)
            )
            assert delta <= gaussian_delta(at, event.mu) + 1e-12
    assert tight > 0.9999


def test_many_uses_cost_less_charged_as_gaussians() -> None:
    pure, ranged = (MedianMechanism(0.1, 0.0, 1.0, 3, charged) for charged in ("pure", "gaussian"))
    assert pure.event == PureMechanism(0.1)
    assert ranged.event == BoundedRange(0.1)
    assert total_delta([pure.planned("m")] * 50, 2.0) == 1.0
    assert total_delta([ranged.planned("m")] * 50, 2.0) < 1e-5


def test_one_use_alone_costs_no_more_than_its_gaussian_nor_than_its_epsilon() -> None:
    event = BoundedRange(0.4)
    assert event.delta(0.01) <= gaussian_delta(0.01, event.mu) < pure_delta(Fraction(0.4), 0.01)
    assert event.delta(0.4) == 0.0 < gaussian_delta(0.4, event.mu)


@pytest.mark.parametrize("mu", [3e-14, 6e-12, 1.2e-7, 1e-4, 0.1, 1.0, 6.0])
def test_the_range_is_the_inverse_of_its_cover(mu) -> None:
    assert mu * (1 - 1e-8) - 6e-15 < BoundedRange(covered_range(mu)).mu <= mu


def test_extreme_values_and_ties() -> None:
    mechanism = MedianMechanism(50.0, -1.0, 1.0, 4)
    for values in (np.zeros(4), np.full(4, 1e300), np.array([-np.inf, np.inf, np.nan, 0])):
        ledger = Ledger(PrivacyParams(50.0), [mechanism.planned("m")])
        assert -1 <= mechanism.release(values, "m", SeededSource(0), ledger) <= 1
    for bad in ({"lower": 1.0}, {"upper": -1.0}, {"lower": -1e308, "upper": 1e308}, {"dim": 0}, {"charged": "twice"}):
        with pytest.raises(InvalidParameterError):
            MedianMechanism(**({"epsilon": 1.0, "lower": -1.0, "upper": 1.0, "dim": 2} | bad))
