"""Joint histograms: the exact law for two columns of two cells, sums, what a release never tells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.randomness import SeededSource


def released(mechanism, counts, seed):
    ledger = Ledger(PrivacyParams(100.0), [mechanism.planned("histogram")])
    return mechanism.release(counts, "histogram", SeededSource(seed), ledger)


@pytest.mark.parametrize("cells", [(2, 2), (2, 3), (5,)])
def test_the_density_ratio_reaches_epsilon_and_never_more(cells) -> None:
    """On a grid of outcomes, for all replacements of one record."""
    mechanism, starts = JointHistogram(cells, 0.7), np.cumsum([0, *cells[:-1]])

    def counts(chosen):
        found = np.zeros(sum(cells))
        found[starts + np.array(chosen)] = 1.0
        return found

    rng = np.random.default_rng(0)
    outcomes = rng.standard_normal((300, sum(cells))) * 20 * mechanism.scale
    worst = 0.0
    for a, b in itertools.permutations(itertools.product(*map(range, cells)), 2):
        first, second = counts(a), counts(b)
        losses = mechanism.norm(outcomes - second) - mechanism.norm(outcomes - first)
        worst = max(worst, float(losses.max()) / mechanism.scale)
    assert 0.999 * 0.7 <= worst <= 0.7 * (1 + 1e-9)


def test_columns_keep_their_sum_and_no_count_is_given_away() -> None:
    """A sampler's representative has a coordinate that is 0: added to counts it would tell one in every release."""
    mechanism, counts = JointHistogram((3, 4), 1.0), np.array([10.0, 20, 70, 1, 2, 3, 94])
    for seed in range(50):
        found = released(mechanism, counts, seed)
        assert (np.abs(found - counts) > 100 * mechanism.step).all()
        assert found[:3].sum() == pytest.approx(100, abs=10 * mechanism.step)
        assert found[3:].sum() == pytest.approx(100, abs=10 * mechanism.step)


def test_deviations_do_not_grow_with_the_number_of_cells() -> None:
    """About 2.83 p / epsilon records (docs, Additive models, section 5 of the specification: p columns)."""
    for cells in (8, 144):
        mechanism = JointHistogram((cells,) * 5, 1.0)
        assert (mechanism.deviations < 2.83 * 5 * 1.02).all()
        assert (mechanism.deviations > 2.1 * 5).all()
        noise = mechanism.simulate(2000, np.random.default_rng(0))
        assert noise.std() == pytest.approx(mechanism.deviations[0], rel=0.05)


def test_a_column_needs_two_cells() -> None:
    with pytest.raises(InvalidParameterError, match="cells"):
        JointHistogram((3, 1), 1.0)
