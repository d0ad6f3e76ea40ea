"""Noise modulo constants of simplex blocks: sensitivity by search, the sampler against rejection, its cells."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from dpconvex.geometry import GroupedNorm
from dpconvex.problems import Block, DataDomain
from dpconvex.randomness import real

DRAWS = 40_000


def block_of(d: int) -> GroupedNorm:
    return GroupedNorm(np.array([d]), np.ones(1), np.zeros(1), np.ones(1), centered=np.ones(1))


def quotient(v: np.ndarray) -> np.ndarray:
    """``min_t sum_k |v_k + t|``: the minimum is at one of the coordinates."""
    return np.abs(v[..., :, None] - v[..., None, :]).sum(-2).min(-1)


@pytest.mark.parametrize("d", range(2, 9))
@pytest.mark.dear("3]", "5]", "6]", "7]")
def test_the_norm_and_its_record_bound(d) -> None:
    """``|g x - g' x'| <= 2 A`` (docs, Additive models, Lemma E), which mixtures and slopes nearly reach."""
    rng, norm = np.random.default_rng(d), block_of(d)
    x, y = (rng.dirichlet(np.full(d, 0.3), 20_000) for _ in range(2))
    x[:50], y[:50] = np.eye(d)[0], np.eye(d)[1]
    slopes = rng.choice([-1.0, 1.0, 0.5], (2, 20_000, 1))
    change = slopes[0] * x - slopes[1] * y
    assert norm(change) == pytest.approx(quotient(change), abs=1e-12)
    assert norm(change + rng.standard_normal((20_000, 1))) == pytest.approx(norm(change), abs=1e-9)
    domain = DataDomain((Block(d, "simplex", 1.0),), intercept=1.0)
    bound = 2 * GroupedNorm.for_domain(domain).record_bound(domain)
    whole = np.column_stack([change, slopes[0] - slopes[1]])
    lengths = GroupedNorm.for_domain(domain)(whole)
    assert 0.97 * bound < lengths.max() <= bound
    assert norm(change).max() == pytest.approx(2.0, rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.dear("4]")
def test_the_sampler_against_rejection(d) -> None:
    """Uniform in the ball times Gamma(D + 1): second and fourth moments, and mean norm ``(d-1)/d`` of the ball."""
    rng, norm = np.random.default_rng(0), block_of(d)
    contrasts = np.linalg.qr(np.column_stack([np.ones(d), rng.standard_normal((d, d - 1))]))[0][:, 1:]
    points = rng.uniform(-1, 1, (600_000, d - 1)) @ contrasts.T  # the ball lies within the unit cube of the chart
    points = points[quotient(points) <= 1][:DRAWS]
    assert len(points) > 10_000
    radius = rng.gamma(d, 1.0, len(points))  # D + 1 = d
    drawn = real.simulate(norm, DRAWS, np.random.default_rng(1))
    assert drawn.sum(1) == pytest.approx(0.0, abs=1e-9)
    assert not (drawn == 0).any()
    for power in (2, 4):
        wanted, found = (np.abs(s) ** power for s in (points * radius[:, None], drawn))
        error = np.hypot(wanted.std(0) / math.sqrt(len(wanted)), found.std(0) / math.sqrt(len(found)))
        assert (np.abs(wanted.mean(0) - found.mean(0)) < 5 * error).all()
    mean = norm(drawn).mean() / (d - 1)  # |b| is Gamma(D)
    assert mean == pytest.approx(1.0, abs=5 / math.sqrt((d - 1) * DRAWS))
    assert quotient(points).mean() == pytest.approx((d - 1) / d, abs=0.01)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_every_order_is_equally_frequent(d) -> None:
    """Cells of the sampler: a permutation of the levels changes nothing, and the median is where its sign rule says."""
    drawn = real.simulate(block_of(d), DRAWS, np.random.default_rng(2))
    orders = {order: k for k, order in enumerate(permutations(range(d)))}
    counts = np.bincount([orders[tuple(row)] for row in drawn.argsort(1).tolist()], minlength=len(orders))
    expected = DRAWS / len(orders)
    statistic = float(np.square(counts - expected).sum() / expected)
    freedom = len(orders) - 1
    assert abs(statistic - freedom) < 6 * math.sqrt(2 * freedom)


def test_groups_have_the_dimensions_of_the_quotient() -> None:
    """``|b|_K / a`` of a group has a Gamma law of ``sum (d_j - 1)`` degrees."""
    norm = GroupedNorm(np.array([3, 4, 1]), np.ones(3), np.zeros(3), np.ones(1), centered=np.array([1, 1, 0]))
    lengths = norm(real.simulate(norm, DRAWS, np.random.default_rng(3)))
    assert lengths.mean() == pytest.approx(6.0, abs=5 * math.sqrt(6 / DRAWS))
    assert lengths.var() == pytest.approx(6.0, rel=0.06)
