"""The exponential mechanism for a median: exact output law against the stated density, its range, its price."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import chisquare

from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import MedianMechanism
from dpconvex.privacy import BoundedRange, Ledger, PrivacyParams, PureMechanism
from dpconvex.privacy.events import pure_delta
from dpconvex.privacy.gaussian_cover import covered_range
from dpconvex.privacy.ledger import total_delta
from dpconvex.privacy.profiles import gaussian_delta
from dpconvex.randomness import SeededSource

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


def test_samples_follow_the_density() -> None:
    """Chi-square over 40 cells, 20000 draws, fixed seed: error probability 1e-3; another epsilon is refuted."""
    mechanism = MedianMechanism(1.3, -2.0, 3.0, 5)
    values = np.array([-1.5, 0.2, 0.2, 2.9, 7.0])
    source, count = SeededSource(0), 20_000
    draws = np.array([mechanism._sample(values, source) for _ in range(count)])
    observed, _ = np.histogram(draws, EDGES)
    assert chisquare(observed, law(values, 1.3) * count).pvalue > 1e-3
    assert chisquare(observed, law(values, 1.0) * count).pvalue < 1e-6


@given(FINITE, st.integers(0, 4), st.floats(-4, 4), st.sampled_from([0.3, 1.0, 4.0]))
def test_no_neighbour_sees_a_larger_ratio_or_range(values, row, other, epsilon) -> None:
    """Exact densities on the common refinement: pure epsilon, and log ratios within an interval of length epsilon."""
    neighbour = list(values)
    neighbour[row] = other
    edges = np.unique(np.clip(np.concatenate([EDGES, values, neighbour]), -2, 3))
    with np.errstate(divide="ignore"):
        logs = np.log(law(values, epsilon, edges)) - np.log(law(neighbour, epsilon, edges))
    assert np.abs(logs).max() <= epsilon + 1e-9
    assert logs.max() - logs.min() <= epsilon + 1e-9


def test_the_whole_range_is_used() -> None:
    """A value that jumps over the median: half the range would be caught."""
    values, neighbour = [0.0, 1.0, 2.0, 2.5, 2.8], [0.0, 1.0, 2.0, 2.5, -1.5]
    logs = np.log(law(values, 1.0)) - np.log(law(neighbour, 1.0))
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
    for bad in ({"lower": 1.0}, {"upper": -1.0}, {"dim": 0}, {"charged": "twice"}):
        with pytest.raises(InvalidParameterError):
            MedianMechanism(**({"epsilon": 1.0, "lower": -1.0, "upper": 1.0, "dim": 2} | bad))
