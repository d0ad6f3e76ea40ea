"""Vertices are drawn with exact probabilities, as often as planned, and recorded first."""

from __future__ import annotations

import itertools
import math
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare

from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms import VertexSampling
from dpconvex.mechanisms.selection import ENLARGEMENT, FLOOR, SMALLEST, soft_weights
from dpconvex.privacy import Ledger, PrivacyParams, PureMechanism, Release, Sensitivity, VertexDraws
from dpconvex.randomness import BitSource, SeededSource, SystemSource, exact

MECHANISM = VertexSampling(Sensitivity(0.01, "range", "example"), 100, 0.01, 200_000)


def session(mechanism=MECHANISM, source=None):
    ledger = Ledger(PrivacyParams(1e3, 0.4), [mechanism.planned("draws")])
    return mechanism.start("draws", source or SeededSource(3), ledger)


class Script:
    """A generator whose integers are given."""

    def __init__(self, prefixes, rest=b"\0"):
        self.prefixes, self.rest = np.asarray(prefixes), rest

    def integers(self, low, high, size):
        return self.prefixes

    def bytes(self, length):
        return self.rest * length


@given(
    st.lists(st.floats(1e-300, 1e3), min_size=1, max_size=40),
    st.lists(st.integers(0, 2**62 - 1), min_size=1, max_size=8),
    st.sampled_from([b"\0", b"\xff", b"\x5a"]),
)
def test_indices_are_those_of_exact_sums(weights: list[float], prefixes: list[int], rest: bytes) -> None:
    ends = list(itertools.accumulate(map(Fraction, weights)))
    more = exact._MORE_BITS
    tail = int.from_bytes(rest * (more // 8), "little")
    expected = []
    for prefix in prefixes:
        at = Fraction((prefix << more) | tail, 1 << (62 + more)) * ends[-1]
        expected.append(next(j for j, end in enumerate(ends) if at < end))
    assert exact.draw(np.array(weights), len(prefixes), Script(prefixes, rest)).tolist() == expected


def test_cells_far_below_float_resolution_can_be_drawn() -> None:
    """Naive inverse sampling never returns the middle one: its cell is 10^-40 wide."""
    weights = np.array([1.0, 1e-40, 1.0])
    prefix, more = 2**61, exact._MORE_BITS
    inside = int(Fraction(10) ** -41 / 2 * 2 ** (62 + more))  # a little into the cell
    found = exact._refined(weights, np.array([prefix]), _Bytes(inside.to_bytes(more // 8, "little")))
    assert found == [1]


class _Bytes:
    def __init__(self, content):
        self.content = content

    def bytes(self, length):
        return self.content


@pytest.mark.parametrize("source", [SeededSource(0), SystemSource()], ids=["seeded", "system"])
def test_goodness_of_fit(source: BitSource) -> None:
    """Fails with probability 1e-6 if the law is right."""
    scores = np.array([0.0, -1.0, 1.5, -4.0, 0.3])
    found = np.bincount(session(source=source).draw(scores, 100_000), minlength=5)
    p = np.exp(scores) / np.exp(scores).sum()
    assert chisquare(found, p * found.sum()).pvalue > 1e-6
    flat = np.bincount(session(source=source).draw(np.zeros(5), 100_000), minlength=5)
    assert chisquare(flat, p * found.sum()).pvalue < 1e-6


def test_scores_are_floored_so_that_no_vertex_is_impossible() -> None:
    weights = soft_weights(np.array([0.0, -1e9, -800.0]))
    assert (weights > 0).all()
    assert weights[1] == weights[2] == math.exp(-FLOOR)


@given(st.lists(st.floats(-2000, 2000), min_size=2, max_size=8), st.integers(0, 10**6))
def test_rounding_and_floor_keep_the_range(scores: list[float], seed: int) -> None:
    eta = MECHANISM.sensitivity.value
    s = np.array(scores)
    other = s + np.random.default_rng(seed).uniform(0, eta, len(s)) - 5.0
    first, second = (np.log(soft_weights(MECHANISM.on_grid(v))) for v in (s, other))
    difference = first - second
    assert np.ptp(difference) <= MECHANISM.charged.largest + 1e-12


def test_exponentials_are_fine_enough_for_the_smallest_ranges() -> None:
    """Their rounding is absolute, ``2^-52`` or so: of ranges of 10^-12 it would be a ten-thousandth."""
    rng, eta = np.random.default_rng(0), 1.5 * SMALLEST
    mechanism = VertexSampling(Sensitivity(eta, "range", "example"), 1, eta**2, 1)
    scores = mechanism.on_grid(-rng.uniform(0, 5, 300))
    pair = [soft_weights(mechanism.on_grid(scores + shift)) for shift in (0.0, rng.choice([0.0, eta], 300))]
    with localcontext(prec=40):
        losses = [Decimal(a).ln() - Decimal(b).ln() for a, b in zip(*(p.tolist() for p in pair), strict=True)]
        assert Decimal(eta) / 2 < max(losses) - min(losses) <= Decimal(mechanism.charged.largest)
    with pytest.raises(InvalidParameterError, match="larger epsilon"):
        VertexSampling(Sensitivity(eta / 2, "range", "example"), 1, eta**2 / 4, 1)
    with pytest.raises(InvalidParameterError, match="larger epsilon"):  # one large range among many small ones
        VertexSampling(Sensitivity(1.0, "range", "example"), 10**6, eta**2, 10**6)


def test_sums_of_grid_points_are_exact() -> None:
    parts = [MECHANISM.on_grid(np.random.default_rng(i).normal(size=50)) for i in range(200)]
    total = np.zeros(50)
    for part in parts:
        total += part
    np.testing.assert_array_equal(total, [math.fsum(column) for column in zip(*parts, strict=True)])
    np.testing.assert_array_equal(MECHANISM.on_grid(total), total)


@pytest.mark.parametrize("content", [np.nan, np.inf, -np.inf, 1e308, 0.0])
def test_content_neither_raises_nor_warns(content: float) -> None:
    scores = np.full(6, content)
    scores[0] = 1.0
    assert set(session().draw(scores, 50).tolist()) <= set(range(6))


def test_draws_are_limited_and_recorded_first() -> None:
    mechanism = VertexSampling(Sensitivity(0.01, "range", "example"), 3, 2e-4, 4)
    draws = session(mechanism)
    draws.draw(np.zeros(3), 3)
    with pytest.raises(BudgetExceededError, match="1 draws are left"):
        draws.draw(np.zeros(3), 2)
    draws.draw(np.zeros(3))
    with pytest.raises(BudgetExceededError):
        draws.draw(np.zeros(3))
    ledger = Ledger(PrivacyParams(1.0, 1e-6), [])
    with pytest.raises(BudgetExceededError):
        mechanism.start("draws", SeededSource(0), ledger)
    once = Ledger(PrivacyParams(1.0, 1e-6), [mechanism.planned("draws")])
    mechanism.start("draws", SeededSource(0), once)
    assert once.recorded == [mechanism.planned("draws")]
    with pytest.raises(BudgetExceededError):
        mechanism.start("draws", SeededSource(0), once)


def test_events() -> None:
    event = MECHANISM.event
    assert isinstance(event, VertexDraws)
    assert event.draws == 100
    enlarged = Fraction(0.01) * Fraction(ENLARGEMENT) ** 2  # ranges are charged after rounding
    assert enlarged <= event.square_sum <= enlarged * (1 + Fraction(1, 10**12))
    assert 0.01 < event.largest <= 0.01 * (1 + 1e-5)
    pure = VertexSampling(Sensitivity(0.01, "range", "example"), 100, 0.01, 100, range_sum=1.0)
    assert isinstance(pure.event, PureMechanism)
    assert 1.0 < pure.event.epsilon < 1.00001
    release = MECHANISM.planned("draws")
    assert Release.from_dict(release.to_dict()) == release
    assert pickle.loads(pickle.dumps(MECHANISM)) == MECHANISM


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitivity": Sensitivity(0.01, "linf", "x")},
        {"draws": 0},
        {"limit": 0},
        {"square_sum": 0.0},
        {"square_sum": 0.02},
        {"range_sum": -1.0},
    ],
)
def test_refusals(wrong: dict) -> None:
    right = {"sensitivity": Sensitivity(0.01, "range", "x"), "draws": 100, "square_sum": 0.01, "limit": 100}
    with pytest.raises(InvalidParameterError):
        VertexSampling(**(right | wrong))


def test_equal_seeds_repeat_and_system_entropy_does_not() -> None:
    scores = np.zeros(1000)
    first, second = (session(source=SeededSource(1)).draw(scores, 20) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    first, second = (session(source=SystemSource()).draw(scores, 20) for _ in range(2))
    assert (first != second).any()  # equal with probability 1e-60
