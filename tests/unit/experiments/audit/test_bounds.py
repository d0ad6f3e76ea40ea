"""Lower bounds from exact losses: right where the answer is known, wrong as rarely as they say, better than nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpconvex.privacy.profiles import gaussian_delta
from dpconvex_experiments.audit.bounds import Losses, bet, epsilon_of_losses, gaussian_epsilon

DELTA, ERROR = 0.05, 1e-3


def gaussian_losses(squares, rng):
    """Losses of Gaussian releases whose squared shifts add up to these."""
    return squares / 2 + np.sqrt(squares) * rng.standard_normal(len(squares))


def test_fixed_shifts_are_priced_by_formula() -> None:
    found = Losses(np.zeros(8), np.full(8, 1.0), 3)
    assert found.mu == 1.0
    epsilon = epsilon_of_losses(found, 1e-6, ERROR)
    assert gaussian_delta(epsilon, 1.0) >= 1e-6 > gaussian_delta(epsilon * (1 + 1e-6), 1.0)
    assert epsilon_of_losses(Losses(np.zeros(8), np.zeros(8), 1), DELTA, ERROR) == -math.inf


def test_one_loss_refutes_a_pure_promise() -> None:
    assert epsilon_of_losses(Losses(np.array([0.1, -0.7]), np.full(2, np.nan), 1), 0.0, ERROR) == 0.7


def test_gaussian_shifts_that_vary_prove_what_the_least_one_does() -> None:
    """No loss is looked at: with 4000 transcripts the chance of a smaller sum is at most 0.0019, but for the error."""
    squares = np.append(np.full(3999, 4.0), 1.0)
    found = Losses(np.zeros(4000), squares, 9)
    assert found.mu is None
    beyond = 1 - (ERROR / 2) ** (1 / 4000)
    assert epsilon_of_losses(found, DELTA, ERROR) == pytest.approx(gaussian_epsilon(1.0, DELTA + beyond))
    assert 0 < beyond < 0.0019 + 1e-4


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_a_bet_comes_near_the_truth(mu) -> None:
    losses = gaussian_losses(np.full(20_000, mu**2), np.random.default_rng(0))
    truth = gaussian_epsilon(mu**2, DELTA)
    assert 0.85 * truth < bet(losses, DELTA, ERROR) <= truth


@pytest.mark.gate
def test_a_bet_loses_as_rarely_as_it_says() -> None:
    """400 bets at an error of 0.05 on a true promise: at most 20 expected, more than 38 with probability 1e-4."""
    rng, mu = np.random.default_rng(1), 1.0
    truth = gaussian_epsilon(mu**2, DELTA)
    wrong = sum(bet(gaussian_losses(np.full(60, mu**2), rng), DELTA, 0.05) > truth for _ in range(400))
    assert wrong <= 38


def test_infinite_losses_count() -> None:
    """A third of the transcripts cannot come from the neighbor: no epsilon is enough at a delta of 0.05."""
    losses = np.where(np.arange(300) % 3 == 0, np.inf, 0.0)
    assert bet(losses, DELTA, ERROR) > 1000
    assert bet(np.where(np.arange(300) % 100 == 0, np.inf, 0.0), DELTA, ERROR) == -math.inf


def test_no_losses_prove_nothing() -> None:
    assert bet(np.zeros(100), DELTA, ERROR) == -math.inf
