"""Sums of gradients over many records: how many roundings a summand meets, and what they are charged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpconvex.algorithms.minimax import frank_wolfe
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import MatrixGame, RankOneGame, SimplexPoint
from dpconvex.problems.minimax import base
from dpconvex.problems.minimax.base import SaddleSection


@dataclass(frozen=True)
class Depth:
    """A number that counts the additions behind it."""

    total: int
    depth: int = 0

    def __add__(self, other: Depth) -> Depth:
        return Depth(self.total + other.total, 1 + max(self.depth, other.depth))


@pytest.mark.parametrize("terms", [0, 1, 2, 3, 7, 64, 65, 1000, 4095])
def test_parts_are_added_pairwise(terms: int) -> None:
    some: Any = [(Depth(k), Depth(1)) for k in range(terms)]
    found = base._added_pairwise(some)
    if found is None:
        assert terms == 0
        return
    first, second = found
    assert (first.total, second.total) == (sum(range(terms)), terms)  # pyright: ignore[reportAttributeAccessIssue]
    assert first.depth <= 2 * max(1, terms).bit_length()  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.gate
def test_the_error_of_a_long_sum_is_within_its_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 7 records: 43,000 additions one after the other would err by thousands of roundings."""
    monkeypatch.setattr(base, "_MOST_ROWS", 7)
    n = 300_000
    game = RankOneGame(n, 2, 2)
    records = np.full((n, 4), 0.1)
    gx, _ = game.gradient_sums(records, slice(0, n), SimplexPoint.uniform(2), SimplexPoint.uniform(2))
    exact = math.fsum([0.1 * 0.1] * n)
    assert abs(gx - exact).max() <= 64 * 2**-53 * exact
    monkeypatch.undo()
    assert 4 * abs(gx - exact).max() <= game.sum_rounding * game.spread[0]


def test_the_charge_grows_with_public_sizes_and_is_paid() -> None:
    assert MatrixGame(1000, 3, 3).sum_rounding == 1e-6
    sizes = [MatrixGame(10**k, 3, 3).sum_rounding for k in (7, 8, 9)]
    assert sizes[0] > 1e-5
    assert np.allclose(np.divide(sizes[1:], sizes[:-1]), 10, rtol=0.01)
    whole = MatrixGame(10**9, 3, 1000)
    one = SaddleSection(whole, 0, 10**9, "x", SimplexPoint.uniform(1000))
    assert one.sum_rounding == whole.sum_rounding > 1e-3 / 4
    plan = frank_wolfe.plan(one, PrivacyParams(1.0, 1e-6))
    charged = plan.releases[0].sensitivity.value
    assert charged >= plan.score_scale * one.spread[0] / one.n * (1 + one.sum_rounding)
