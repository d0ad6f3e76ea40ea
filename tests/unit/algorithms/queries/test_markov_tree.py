"""Markov trees: marginals and records are those of the product; fits are the nearest, of largest entropy, finite."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpconvex.algorithms.queries.markov_tree import MarkovTree, fit, of_largest_entropy, with_sums
from dpconvex.algorithms.queries.released_tables import ReleasedTables

SHAPE = (2, 3, 2, 3, 2)


def random_tree(center: int | None) -> tuple[MarkovTree, np.ndarray]:
    """A tree with two parts, and all its probabilities."""
    rng = np.random.default_rng(0)
    given = 1 if center is None else SHAPE[center]
    weights = rng.dirichlet(np.ones(given))
    levels = tuple(rng.dirichlet(np.ones(size), given) for size in SHAPE)
    if center is not None:
        levels = tuple(np.eye(given) if axis == center else part for axis, part in enumerate(levels))
    pairs = ((0, 1), (1, 3)) if center == 2 else ((0, 1), (1, 3), (2, 4))
    edges = tuple((i, j, rng.dirichlet(np.ones(SHAPE[j]), (given, SHAPE[i]))) for i, j in pairs)
    model = MarkovTree(SHAPE, center, weights, levels, edges)
    parents = {child: (parent, table) for parent, child, table in edges}
    every = np.zeros(SHAPE)
    for cell in np.ndindex(SHAPE):
        for y in range(given) if center is None else (cell[center],):
            p = weights[y]
            for axis, value in enumerate(cell):
                if axis in parents:
                    parent, table = parents[axis]
                    p *= table[y, cell[parent], value]
                elif axis != center:
                    p *= levels[axis][y, value]
            every[cell] += p
    return model, every


@pytest.mark.parametrize("center", [None, 2])
def test_marginals_are_sums_of_the_product(center) -> None:
    model, every = random_tree(center)
    for size in (1, 2, 3, 5):
        for axes in combinations(range(5), size):
            rest = tuple(set(range(5)) - set(axes))
            np.testing.assert_allclose(model.marginal(axes), every.sum(axis=rest), atol=1e-12)
    np.testing.assert_allclose(model.marginal((3, 0, 2)), every.sum(axis=(1, 4)).transpose(2, 0, 1), atol=1e-12)


@pytest.mark.parametrize("center", [None, 2])
def test_records_are_as_often_as_the_model_says(center) -> None:
    model, every = random_tree(center)
    drawn = model.sample(100_000, np.random.default_rng(1))
    cells = np.bincount(np.ravel_multi_index(tuple(drawn.T), SHAPE), minlength=every.size) / 100_000
    assert np.abs(cells - every.ravel()).max() < 5 * 0.5 / 100_000**0.5
    for axis in range(5):  # systematic: closer than independent draws would be
        share = np.bincount(drawn[:, axis], minlength=SHAPE[axis]) / 100_000
        assert np.abs(share - model.marginal((axis,))).max() < 2e-4


def test_a_table_with_given_sums_is_the_nearest_one() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        noisy, rows, columns = rng.normal(0.1, 0.2, (3, 4)), rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
        found = with_sums(noisy, rows, columns)
        np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-12)
        np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-3)
        sums = [
            {"type": "eq", "fun": lambda x, r=rows: x.reshape(3, 4).sum(axis=1) - r},
            {"type": "eq", "fun": lambda x, c=columns: (x.reshape(3, 4).sum(axis=0) - c)[1:]},
        ]
        best = minimize(
            lambda x, y=noisy: ((x - y.ravel()) ** 2).sum(),
            np.outer(rows, columns).ravel(),
            bounds=[(0, 1)] * 12,
            constraints=sums,
        )
        assert np.abs(found.ravel() - best.x).max() < 2e-3


def test_an_edge_given_the_center_has_the_largest_entropy() -> None:
    """Any move that keeps the three tables of pairs is orthogonal to the logarithm."""
    rng = np.random.default_rng(3)
    every = rng.dirichlet(np.ones(12)).reshape(2, 3, 2)
    pair, first, second = every.sum(axis=0), every.sum(axis=2), every.sum(axis=1)
    found = of_largest_entropy(pair, first, second)
    for table, axis in ((pair, 0), (first, 2), (second, 1)):
        np.testing.assert_allclose(found.sum(axis=axis), table, atol=1e-6)
    for i, j in combinations(range(3), 2):
        move = np.zeros((2, 3, 2))
        move[:, i], move[:, j] = [[1, -1], [-1, 1]], [[-1, 1], [1, -1]]
        assert abs((move * np.log(found)).sum()) < 1e-6


@pytest.mark.parametrize("center", [None, 2])
def test_fits_of_pure_noise_and_of_empty_tables_are_distributions(center) -> None:
    rng = np.random.default_rng(4)
    star = [] if center is None else [(min(a, center), max(a, center)) for a in range(5) if a != center]
    subsets = (*((axis,) for axis in range(5)), *star, (0, 1), (1, 3))
    for scale in (0.0, 1.0, 1e6):
        noisy = tuple(scale * rng.normal(size=[SHAPE[axis] for axis in s]) for s in subsets)
        model = fit(ReleasedTables(SHAPE, subsets, noisy, (1.0,) * len(subsets), "gaussian", 2), center)
        every = model.marginal(range(5))
        assert every.min() >= 0
        assert every.sum() == pytest.approx(1)
        assert model.sample(50, rng).shape == (50, 5)
