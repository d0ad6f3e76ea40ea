"""Sections of saddle problems agree with the whole."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex.errors import InvalidParameterError
from dpconvex.problems import RankOneGame, SimplexPoint
from dpconvex.problems.minimax.base import SaddleSection

GAME = RankOneGame(20, 3, 4)
RECORDS = np.random.default_rng(0).choice([-1, 1], (20, 7)).astype(np.int8)
X, Y, ONE = SimplexPoint.full(np.array([0.2, 0.3, 0.5])), SimplexPoint.uniform(4), SimplexPoint.uniform(1)


def test_a_section_is_the_whole_on_its_records() -> None:
    part = SaddleSection(GAME, 5, 10)
    part.check(RECORDS)
    for found, whole in zip(
        part.gradient_sums(RECORDS, slice(0, 10), X, Y), GAME.gradient_sums(RECORDS, slice(5, 15), X, Y), strict=True
    ):
        np.testing.assert_array_equal(found, whole)
    assert part.value_sum(RECORDS, slice(2, 4), X, Y) == GAME.value_sum(RECORDS, slice(7, 9), X, Y)
    assert (part.dx, part.dy, part.spread) == (3, 4, GAME.spread)


def test_one_player_minimizes() -> None:
    gx, gy = GAME.gradient_sums(RECORDS, slice(0, 20), X, Y)
    value = GAME.value_sum(RECORDS, slice(0, 20), X, Y)
    for player, own, fixed, gradient, sign in (("x", X, Y, gx, 1), ("y", Y, X, -gy, -1)):
        part = SaddleSection(GAME, 0, 20, player, fixed)
        found, none = part.gradient_sums(RECORDS, slice(0, 20), own, ONE)
        np.testing.assert_allclose(found, gradient)
        assert none.shape == (1,)
        assert part.dy == 1
        assert part.value_sum(RECORDS, slice(0, 20), own, ONE) == pytest.approx(sign * value)
        assert (part.spread, part.bilinear) == ((4.0, 0.0), True)


@pytest.mark.parametrize(
    ("start", "n", "player", "fixed"), [(15, 6, "both", None), (0, 5, "x", None), (0, 5, "both", Y)]
)
def test_public_form_is_checked(start, n, player, fixed) -> None:
    with pytest.raises(InvalidParameterError):
        SaddleSection(GAME, start, n, player, fixed)
