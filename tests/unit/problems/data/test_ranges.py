"""Cells of numbers and what is read off released counts: every double has a cell, every outcome a range."""

from __future__ import annotations

from dataclasses import astuple
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex.errors import InvalidParameterError
from dpconvex.problems import NumberRange
from dpconvex.problems.data import ranges
from dpconvex.problems.data.ranges import CELLS, END, MISSING, PARTS

EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 2.0**-30, 1.7e308, -1.7e308, np.inf, -np.inf, np.nan]


@given(st.floats() | st.sampled_from(EXTREMES))
def test_every_double_has_one_cell_that_holds_it(value) -> None:
    cell = int(ranges.cells(np.array([value]))[0])
    assert 0 <= cell < CELLS
    size, level = abs(value), abs(cell - END)
    if np.isnan(value):
        assert cell == MISSING
    elif level == 0:
        assert size < 2.0**-30
    else:
        assert size >= 2.0 ** (level - 31)
        assert level == END or size < 2.0 ** (level - 30)
        assert (cell > END) == (value > 0)


def counted(values) -> np.ndarray:
    return np.bincount(ranges.cells(np.asarray(values, float)), minlength=CELLS).astype(float)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-3, 1.0, 1e4]))
def test_whatever_is_released_there_is_a_range(seed, linear, size) -> None:
    """Nothing is refused after a release."""
    rng = np.random.default_rng(seed)
    counts = size * rng.standard_normal(CELLS) * (rng.random(CELLS) < rng.random())
    found = ranges.find(counts, 1.0, linear)
    assert ranges.released(found)
    assert not linear or found.transform == "none"
    cells = ranges.crowded(found, size * rng.standard_normal(PARTS + 1), 1.0)
    inside = ranges.kept(found, *cells).encode(np.array(EXTREMES))
    assert np.abs(inside).max() <= 0.5


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.linspace(17, 90, 5000), NumberRange(8.0, 128.0)),
        (-np.linspace(17, 90, 5000), NumberRange(-128.0, -8.0)),
        (np.linspace(-3, 3, 5000), NumberRange(-4.0, 4.0)),
        (np.zeros(5000), NumberRange(0.0, 2.0**17, "signed_log")),
        (np.full(5000, np.nan), NumberRange(0.0, 1.0)),
        (np.full(5000, np.inf), NumberRange(2.0**39, 2.0**41)),
        (np.r_[np.zeros(4000), np.full(1000, 3000.0)], NumberRange(0.0, 4096.0, "signed_log", 128.0)),
    ],
)
def test_ranges_of_typical_columns(values, found) -> None:
    assert ranges.find(counted(values), 10.0, False) == found


def test_noise_alone_seldom_makes_a_target_large() -> None:
    noise = np.random.default_rng(0).laplace(scale=2**-0.5, size=(2000, CELLS))
    found = [ranges.find(counts, 1.0, True, ranges.RARER) for counts in noise]
    sizes = np.log2([max(abs(one.lower), abs(one.upper)) for one in found])
    assert np.quantile(sizes, [0.5, 0.9, 0.99]) == pytest.approx([0, 5, 9], abs=2)
    assert np.mean(sizes > 16) < 0.003
    many = counted(np.random.default_rng(1).uniform(30_000, 60_000, 2000))  # of 2^15: that much evidence is enough
    assert ranges.find(many + 100 * noise[0], 100.0, True, ranges.RARER).upper == 65_536


def test_octaves_that_drown_one_by_one_are_found_together() -> None:
    """Sizes from 2^8 to 2^28, as of populations: 650 in each octave, under noise of 250 a sign."""
    rng = np.random.default_rng(0)
    counts = counted(2.0 ** rng.uniform(8, 28, 13_000))
    noise = 250 * rng.laplace(scale=2**-0.5, size=(400, CELLS))
    found = [ranges.find(counts + each, 250.0, True, ranges.RARER).upper >= 2**25 for each in noise]
    assert np.mean(found) > 0.7  # off the fullest octave alone .64


def test_empty_ends_are_cut_on_linear_scales_alone() -> None:
    counts = np.zeros(PARTS + 1)
    counts[10:20] = 100.0
    assert ranges.crowded(NumberRange(0, 32), counts, 5.0) == (10, 20)
    assert ranges.kept(NumberRange(0, 32), 10, 20) == NumberRange(10.0, 20.0)
    assert ranges.crowded(NumberRange(0, 32, "signed_log"), counts, 5.0) == (0, PARTS)
    assert ranges.crowded(NumberRange(0, 32), 0 * counts, 5.0) == (0, PARTS)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e4]), st.sampled_from([0, 1, 40, 1e6]))
def test_whatever_is_released_there_are_as_many_knots(seed, size, spike) -> None:
    rng = np.random.default_rng(seed)
    counts = size * rng.standard_normal(PARTS + 1) * (rng.random(PARTS + 1) < rng.random())
    counts[rng.integers(PARTS + 1)] += spike
    edges = ranges.sought(counts, 1.0)
    assert len(edges) == ranges.SOUGHT
    assert (edges[0], edges[-1]) == (0, PARTS)
    assert min(np.diff(edges)) > 0
    for kind, knots in product(("none", "signed_log"), (2, 4, ranges.SOUGHT, 16)):
        edges = ranges.crowded(NumberRange(0, 32, kind), counts, 1.0, knots)
        assert len(edges) == knots
        assert edges[0] >= 0
        assert edges[-1] <= PARTS
        assert min(np.diff(edges)) > 0


def test_zeros_are_a_kind_of_their_own_on_logarithmic_scales() -> None:
    counts = np.zeros(PARTS + 1)
    counts[0], counts[18:30] = 900.0, 10.0
    for place, edges in ((0, {0, 1}), (7, {7, 8}), (PARTS - 1, {PARTS - 1, PARTS})):
        moved = np.append(np.roll(counts[:PARTS], place), 0.0)
        assert edges <= set(ranges.crowded(NumberRange(0, 32, "signed_log"), moved, 1.0, 8))
    log, linear = (ranges.crowded(NumberRange(0, 32, kind), counts, 1.0, 8) for kind in ("signed_log", "none"))
    assert (log[:2], linear[:4]) == ((0, 1), (0, 1, 2, 3))  # there, equal shares fall into the fullest cell
    assert log[2] > 3


def test_knots_are_where_numbers_are() -> None:
    counts = np.ones(PARTS + 1)
    counts[[0, 20, 25]] = 900.0, 40.0, 40.0
    assert ranges.sought(counts, 3.0) == (0, 1, 21, 26, PARTS)  # zeros are a kind of their own
    assert ranges.sought(counts, 100.0) == (0, 1, 16, 24, PARTS)  # nothing else stands out
    assert ranges.sought(0 * counts, 1.0) == (0, 8, 16, 24, PARTS)
    assert ranges.sought(np.full(PARTS + 1, 50.0), 1.0) == (0, 8, 16, 24, PARTS)


@pytest.mark.parametrize("one", [NumberRange(-4, 9), NumberRange(0, 9, "log1p"), NumberRange(-4, 9, "signed_log", 2)])
def test_even_numbers_are_even_after_the_transform(one) -> None:
    np.testing.assert_allclose(one.encode(np.array(one.even(5))), np.linspace(-0.5, 0.5, 5), atol=1e-12)
    values = np.linspace(-5, 10, 400)
    assert (np.diff(one.encode(values)) >= 0).all()
    assert (ranges.parts(one, np.array([np.nan, -1e9, 1e9])) == [PARTS, 0, PARTS - 1]).all()


@pytest.mark.parametrize(
    "fields", [(1, 1), (0, np.inf), (-1e308, 1e308), (-1, 1, "log1p"), (0, 1, "none", 2.0), (-1, 1, "sqrt")]
)
def test_ranges_are_checked(fields) -> None:
    with pytest.raises(InvalidParameterError):
        NumberRange(*fields)


def test_integers_stay_integers_and_other_numbers_become_floats() -> None:
    """Digests of saved models, those of earlier versions too, tell 0 from 0.0."""
    assert list(map(type, astuple(NumberRange(0, 100)))) == [int, int, str, float]
    assert list(map(type, astuple(NumberRange(np.float32(0), np.int64(100))))) == [float, float, str, float]
