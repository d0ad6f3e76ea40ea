"""Noise norms: the numbers of the docs, Objective perturbation, section 4, and what a norm must satisfy."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import GroupedNorm, L2Norm, gaussian_block_weights
from dpconvex.geometry.norms import MAX_RUNS
from dpconvex.problems import Block, DataDomain
from instances import NORMS

CATEGORIES = (7, 16, 7, 14, 6, 5, 2, 41)


def adult(numeric_bound: float) -> DataDomain:
    """The Adult schema of the docs, Objective perturbation, section 4: 104 columns in 14 blocks."""
    return DataDomain((Block(5, "linf", numeric_bound), *(Block(k, "l1", 1.0) for k in CATEGORIES)), 1.0)


def energy(norm, domain) -> float:
    """E||b||^2 at epsilon_1 = 1, slope bound 1: the scale is ``2 X_K``."""
    return (2 * norm.record_bound(domain)) ** 2 * norm.energy


@pytest.mark.parametrize(
    ("bound", "build", "golden"),
    [
        (0.5, GroupedNorm.for_domain, 51_048),
        (0.5, GroupedNorm.weighted_l1, 75_589),
        (0.5, GroupedNorm.l1, 110_032),
        (1.0, GroupedNorm.for_domain, 60_352),
        (1.0, GroupedNorm.weighted_l1, 97_223),
        (1.0, GroupedNorm.l1, 163_072),
        (1.0, GroupedNorm.block_max, 153_204),
        (1.0, lambda domain: L2Norm(domain.dim), 611_520),
    ],
)
def test_energies_of_the_adult_table(bound, build, golden) -> None:
    domain = adult(bound)
    assert energy(build(domain), domain) == pytest.approx(golden, abs=0.6)


def test_groups_of_the_adult_schema() -> None:
    norm = GroupedNorm.for_domain(adult(0.5))
    groups = [sorted(norm.sizes[norm.groups == g].tolist()) for g in range(len(norm.weights))]
    # {numeric x5, intercept, sex}, {5,6,7,7}, {14,16}, {41}
    assert sorted(groups) == [[1, 1, 1, 1, 1, 1, 2], [5, 6, 7, 7], [14, 16], [41]]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from([0.3, 1.0, 2.5])), min_size=1, max_size=6))
def test_grouping_is_optimal_and_never_loses(blocks) -> None:
    domain = DataDomain(tuple(Block(d, "l1", s) for d, s in blocks))
    best = energy(GroupedNorm.for_domain(domain), domain)
    assert best <= energy(GroupedNorm.weighted_l1(domain), domain) * (1 + 1e-9)
    assert energy(GroupedNorm.weighted_l1(domain), domain) <= energy(GroupedNorm.l1(domain), domain) * (1 + 1e-9)
    assert best <= energy(GroupedNorm.block_max(domain), domain) * (1 + 1e-9)


def test_dynamic_programme_against_all_contiguous_partitions() -> None:
    sizes = np.array([1, 1, 2, 5, 9, 40])
    domain = DataDomain(tuple(Block(int(d), "l1", 1.0 + i / 7) for i, d in enumerate(sizes)))
    widths = np.array([block.l1 for block in domain.blocks])
    spread = 2 * sizes * widths**2 / ((sizes + 1) * (sizes + 2))
    totals = []
    for cuts in itertools.product([0, 1], repeat=5):
        groups = np.concatenate([[0], np.cumsum(cuts)])
        columns = np.bincount(groups, sizes)
        totals.append(np.cbrt(4 * (columns + 1) * (columns + 2) * np.bincount(groups, spread)).sum() ** 3)
    norm = GroupedNorm.for_domain(domain)
    assert energy(norm, domain) == pytest.approx(min(totals), rel=1e-10)


def test_weights_are_the_best_for_their_groups() -> None:
    domain = adult(0.5)
    norm = GroupedNorm.for_domain(domain)
    for change in np.eye(len(norm.weights)):
        other = GroupedNorm(norm.sizes, norm.half_widths, norm.groups, norm.weights * (1 + 0.05 * change))
        assert energy(other, domain) > energy(norm, domain)


def test_a_million_columns_are_fast(full: bool) -> None:
    columns, start = 10**6 if full else 10**5, time.process_time()
    domain = DataDomain.box(columns, 1.0).with_intercept()
    norm = GroupedNorm.for_domain(domain)
    assert norm.dim == columns + 1
    assert len(norm.weights) == 1  # one cube
    assert time.process_time() - start < 10


def test_many_distinct_blocks_never_lose_to_weighted_l1() -> None:
    widths = np.random.default_rng(0).uniform(0.1, 1.0, 3 * MAX_RUNS)
    domain = DataDomain(tuple(Block(1, "linf", float(width)) for width in widths))
    norm = GroupedNorm.for_domain(domain)
    assert energy(norm, domain) < energy(GroupedNorm.weighted_l1(domain), domain)
    # Widths over 270 orders of magnitude: no weight underflows.
    spread = DataDomain(tuple(Block(1, "linf", float(2.0**-k)) for k in range(900)))
    assert energy(GroupedNorm.for_domain(spread), spread) <= energy(GroupedNorm.weighted_l1(spread), spread) * 1.001


def test_l2_blocks_are_balls_and_wider_l1_blocks_in_l1_norms() -> None:
    domain = DataDomain((Block(4, "l2", 1.5), Block(2, "l1", 1.0)))
    np.testing.assert_allclose(GroupedNorm.block_max(domain).half_widths, [1.5, 1.0])
    assert GroupedNorm.block_max(domain).euclidean.tolist() == [True, False]
    np.testing.assert_allclose(GroupedNorm.l1(domain).half_widths, [3.0, 1.0])
    assert not GroupedNorm.weighted_l1(domain).euclidean.any()
    with pytest.raises(InvalidParameterError, match="domain="):
        GroupedNorm.for_domain(domain).record_bound(DataDomain((Block(4, "l1", 1.5), Block(2, "l1", 1.0))))


@pytest.mark.parametrize("d", [5, 30, 784])
def test_energy_of_a_ball_and_a_constant(d) -> None:
    """Apart ``(E_1^(1/3) + E_2^(1/3))^3``, ``E_1 = 4 d (d + 1)``, ``E_2 = 8``; together ``8 (d + 1)(d + 2)``."""
    domain = DataDomain.l2_ball(d, 1.0).with_intercept(1.0)
    apart = ((4 * d * (d + 1)) ** (1 / 3) + 2) ** 3
    assert energy(GroupedNorm.for_domain(domain), domain) <= apart * (1 + 1e-9)
    assert energy(L2Norm(d + 1), domain) == pytest.approx(8 * (d + 1) * (d + 2))
    assert apart < 8 * (d + 1) * (d + 2)


@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: f"{norm.name}{norm.dim}")
def test_norm_axioms_and_absoluteness(norm) -> None:
    generator = np.random.default_rng(1)
    u, v = generator.standard_normal((2, 50, norm.dim))
    np.testing.assert_allclose(norm(-3 * u), 3 * norm(u))
    assert (norm(u + v) <= norm(u) + norm(v) + 1e-12).all()
    assert norm(u[0]).shape == ()
    if norm.absolute:
        assert (norm(np.clip(u, -0.5, 0.5)) <= norm(u)).all()
        np.testing.assert_allclose(norm(np.abs(u)), norm(u))


@pytest.mark.parametrize(
    "build", [GroupedNorm.for_domain, GroupedNorm.l1, GroupedNorm.weighted_l1, GroupedNorm.block_max]
)
def test_no_record_is_longer_than_the_record_bound(build) -> None:
    domain = DataDomain((Block(3, "linf", 0.5), Block(4, "l1", 2.0), Block(3, "l2", 1.0)), 1.5)
    norm = build(domain)
    generator = np.random.default_rng(2)
    rows = domain.clip(generator.standard_normal((2000, domain.n_features)) * 10 ** generator.uniform(-2, 2, (2000, 1)))
    lengths = norm(np.column_stack([rows, np.full(2000, 1.5)]))
    assert lengths.max() <= norm.record_bound(domain)
    corner = np.zeros(domain.dim)
    corner[:3], corner[3], corner[7:10], corner[10] = 0.5, 2.0, 1 / np.sqrt(3), 1.5
    assert norm(corner) == pytest.approx(norm.record_bound(domain), rel=1e-9)  # attained


def test_record_bounds_cover_squares_that_a_sum_swallows() -> None:
    """Eight thousand squares below half a unit in the last place: clipping leaves the row, too long by 2e-13."""
    d = 8192
    x = np.full(d, (0.99 * 2.0**-54) ** 0.5)
    x[:2] = 2**-0.5 * (1 - 1e-16)
    domain = DataDomain.l2_ball(d, 1.0)
    row = domain.clip(x[None])[0]
    length = math.sqrt(math.fsum(Fraction(float(v)) ** 2 for v in row))
    assert GroupedNorm.for_domain(domain).record_bound(domain) >= GroupedNorm.for_domain(domain).weights[0] * length
    assert domain.l2 >= length


def test_record_bound_on_another_domain() -> None:
    norm = GroupedNorm.weighted_l1(DataDomain.box(3, 1.0))
    assert norm.record_bound(DataDomain.box(3, 2.0)) == pytest.approx(2 * norm.record_bound(DataDomain.box(3, 1.0)))
    with pytest.raises(InvalidParameterError, match="domain="):
        norm.record_bound(DataDomain.l1_ball(3, 1.0))
    with pytest.raises(InvalidParameterError, match="domain="):
        L2Norm(2).record_bound(DataDomain.box(3, 2.0))


@pytest.mark.parametrize(
    "arguments",
    [
        ([], [], [], []),
        ([0], [1.0], [0], [1.0]),
        ([1], [-1.0], [0], [1.0]),
        ([1, 1], [1.0], [0, 0], [1.0]),
        ([1, 1], [1.0, 1.0], [0, 2], [1.0, 1.0]),
        ([1], [1.0], [0], [0.0]),
        ([1], [np.nan], [0], [1.0]),
    ],
)
def test_malformed_grouped_norms_are_refused(arguments) -> None:
    with pytest.raises(InvalidParameterError):
        GroupedNorm(*map(np.array, arguments))


def test_gaussian_block_weights_reach_the_optimum() -> None:
    domain = adult(0.5)
    deviations, bound = gaussian_block_weights(domain)
    # (sum_j s_j sqrt(d_j))^2: the five numeric columns have s sqrt(d) = 1/2 each
    optimum = (5 * 0.5 + sum(np.sqrt(CATEGORIES)) + 1.0) ** 2
    assert (deviations**2).sum() * bound**2 == pytest.approx(optimum, rel=1e-9)
    # 59,591 isotropic and 47,141 weighted: docs, Objective perturbation, section 4
    isotropic = domain.dim * domain.l2**2
    assert optimum / isotropic == pytest.approx(47_141 / 59_591, rel=1e-3)
