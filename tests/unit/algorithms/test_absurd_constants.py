"""Planners called directly with public constants so extreme that floats cannot hold what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpconvex.algorithms import within_floats
from dpconvex.algorithms.minimax import anytime, bias_reduced, boosted, frank_wolfe, gaussian, vertex_descent
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import MatrixGame, l1_ball_loss

GAMES: dict[str, Callable[..., Any]] = {
    "vertex descent": vertex_descent.plan,
    "bias reduced": bias_reduced.plan,
    "boosted": boosted.plan,
    "mirror descent": gaussian.plan_mirror_descent,
    "sgda": gaussian.plan_sgda,
    "multiplicative weights": gaussian.plan_multiplicative_weights,
}
SINGLE: dict[str, Callable[..., Any]] = {
    "vertex descent": vertex_descent.plan,
    "anytime": anytime.plan,
    "frank wolfe": frank_wolfe.plan,
    "variance reduced": frank_wolfe.plan_variance_reduced,
    "mirror descent": gaussian.plan_mirror_descent,
}
PROMISES = ((1e-300, 0.0), (1e-300, 1e-300), (1e-10, 1e-10), (1.0, 1e-6), (1e300, 0.0), (1e10, 1e-6))


def refused(planner: Callable[..., Any], problem: Any) -> int:
    """Plan for all promises; return how many were refused. Nothing else may be raised."""
    count = 0
    for epsilon, delta in PROMISES:
        try:
            planner(problem, PrivacyParams(epsilon, delta))
        except InvalidParameterError:
            count += 1
    return count


@pytest.mark.parametrize("bound", [1e-50, 1e50])
@pytest.mark.parametrize("name", GAMES)
def test_games(name: str, bound: float) -> None:
    assert refused(GAMES[name], MatrixGame(300, 3, 4, bound)) > 0


@pytest.mark.thin
@pytest.mark.parametrize("bound", [1e-50, 1e-20, 1e20])
@pytest.mark.parametrize("name", SINGLE)
def test_minimization(name: str, bound: float) -> None:
    assert refused(SINGLE[name], l1_ball_loss(SquaredLoss(1.0, 1.0), 300, 3, bound)) > 0


@pytest.mark.parametrize("raised", [ZeroDivisionError, OverflowError, FloatingPointError])
def test_one_place_names_the_problem(raised: type[Exception]) -> None:
    with pytest.raises(InvalidParameterError, match="problem='game': must have constants"), within_floats("game"):
        raise raised
    with pytest.raises(ValueError, match="another"), within_floats("game"):
        raise ValueError("another")


@pytest.mark.parametrize("n", [10**12, 2**53, 10**18, 10**400])
def test_more_records_than_schedules_can_be_made_for(n: int) -> None:
    """The printed number of iterations grows with n: gigabytes of schedule."""
    made = []

    def planned(planner) -> None:
        made.append(l1_ball_loss(SquaredLoss(1.0, 1.0), n, 3, 1.0))
        planner(made[-1], PrivacyParams(1.0, 1e-6), constants="paper")

    for planner in (vertex_descent.plan, anytime.plan):
        with pytest.raises(InvalidParameterError, match=r"^n=\d+\.*\d*: "):
            planned(planner)
    assert len(made) == (2 if n <= 2**53 else 0)
