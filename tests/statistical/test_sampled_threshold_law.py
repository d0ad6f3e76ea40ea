"""Theorem 3.1 of Lowy, Liu and Asi for minibatches (erratum E6): the exact law for ten users, by enumeration.

The paper amplifies the release of a step *given* that tests passed, as if the minibatch were still uniform then. It is
not. What is printed in Algorithm 2 is enumerated here over all 45 minibatches of 2 of 10 users: first one step given
that it passed, which refutes the proof's inequality (10); then whole runs of one and two steps with their tests, for
which no loss above the theorem's sum was found.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import laplace, norm

USERS, BATCH = 10, 2
CAMP = 1.5 * np.eye(USERS)[1:]  # nine users, any two further apart than 2, all within 2 of what is near the origin
Kind = tuple[float, float, float]  # probability of a kind of minibatch, its score, first coordinate of its mean


def kinds(place: float) -> list[Kind]:
    """All minibatches by score and first coordinate of the released mean; the tenth user stands at `place` e_0."""
    users = np.vstack([CAMP, place * np.eye(USERS)[0]])
    found: dict[tuple[float, float], float] = {}
    for batch in itertools.combinations(range(USERS), BATCH):
        points = users[list(batch)]
        near = (np.linalg.norm(points[:, None] - points[None], axis=2) <= 2).sum(axis=1)
        kept = np.clip((near - BATCH / 2) / (BATCH / 6), 0, 1)  # 0 or 1 for two users
        mean = float(kept @ points[:, 0] / kept.sum()) if kept.any() else 0.0
        key = float(near.sum()) / BATCH, mean
        found[key] = found.get(key, 0.0) + 1 / math.comb(USERS, BATCH)
    return [(chance, score, mean) for (score, mean), chance in found.items()]


def densities(law: list[Kind], y: np.ndarray, sigma: float, epsilon: float, xi: np.ndarray) -> np.ndarray:
    """Density of "passed, and released y" at every threshold noise, (len(xi), len(y)).

    Scores of two users have sensitivity 1: noises 2/epsilon and 4/epsilon, as AboveThreshold has them.
    """
    out = np.zeros((len(xi), len(y)))
    for chance, score, mean in law:
        passes = laplace.sf(0.8 * BATCH + xi - score, scale=4 / epsilon)
        out += chance * np.outer(passes, norm.pdf((y - mean) / sigma) / sigma)
    return out


def excess(p: np.ndarray, q: np.ndarray, epsilon: float, weight: float) -> float:
    """Hockey-stick of densities on a grid."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) * weight


def amplified(sigma: float, epsilon: float, steps: int, reach: float, y: np.ndarray) -> float:
    """Delta of so many releases from uniform minibatches, none tested: the middle of the theorem's proof."""
    q, step = BATCH / USERS, y[1] - y[0]
    p, r = ((1 - q) * norm.pdf(y / sigma) + q * norm.pdf((y - m) / sigma) for m in (reach, -reach))
    p, r = p / sigma, r / sigma
    if steps == 2:
        p, r = np.outer(p, p), np.outer(r, r)
    return excess(p, r, epsilon, step**steps)


Y = np.linspace(-14, 14, 561)
SIGMA = 1.0


def test_e6_given_that_it_passed_a_minibatch_is_not_uniform() -> None:
    """A user who stands between others who are far from one another is in most minibatches that pass."""
    xi = np.array([0.0])
    for epsilon, wanted in ((2.0, 1.1), (8.0, 1.9)):
        law, other = kinds(1.2), kinds(-1.2)
        assert sum(chance for chance, score, _ in law if score == 2) == pytest.approx(0.2)
        pair = [densities(found, Y, SIGMA, epsilon / 2, xi)[0] for found in (law, other)]
        given = [density / (density.sum() * (Y[1] - Y[0])) for density in pair]
        for level in (0.1, 0.3):
            claimed = amplified(SIGMA, level, 1, 0.6, Y)
            assert excess(*given, level, Y[1] - Y[0]) > wanted * claimed


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0, 10.0])
def test_e6_whole_runs_of_ten_users_stay_below_the_printed_sum(steps: int, epsilon: float) -> None:
    """Runs that pass every test, threshold noise integrated; half of epsilon is the tests', half the releases'.

    A user who moves between the others, and one who leaves them. Nothing is proved by it: longer runs are not covered.
    """
    grid = (np.arange(121) + 0.5) / 121
    xi, y, worst = laplace.ppf(grid, scale=2 / (epsilon / 2)), Y[::4], 0.0
    step = y[1] - y[0]
    for places in ((1.2, -1.2), (1.2, 30.0), (0.0, 30.0)):
        for sigma in (0.3, 1.0):
            pair = [densities(kinds(place), y, sigma, epsilon / 2, xi) for place in places]
            runs = [d.mean(axis=0) if steps == 1 else d.T @ d / len(xi) for d in pair]
            claimed = amplified(sigma, epsilon / 2, steps, 0.6, y)
            for p, q in (runs, runs[::-1]):
                found = excess(p, q, epsilon, step**steps)
                worst = max(worst, found - claimed)
    assert worst <= 1e-12
