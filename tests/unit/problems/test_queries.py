"""Linear queries: every way of answering agrees with the definition, and content never raises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems.queries import DenseQueries, LinearQueries, Marginals

SHAPE = (3, 2, 4)
DENSE = DenseQueries(np.random.default_rng(0).uniform(-1, 1, (7, 24)), -1.0, 1.0)
FAMILIES: list[LinearQueries] = [
    DENSE,
    Marginals.of_order(SHAPE, 1),
    Marginals.of_order(SHAPE, 2),
    Marginals.of_order(SHAPE, 9),
    Marginals(SHAPE, ((1,), (0, 2))),
]
EVERY = pytest.mark.parametrize("queries", FAMILIES, ids=lambda q: f"{type(q).__name__}-{q.count}")


@EVERY
def test_answers_are_the_queries_times_the_weights(queries: LinearQueries) -> None:
    matrix = np.stack([queries.query(j) for j in range(queries.count)])
    assert matrix.shape == (queries.count, queries.cells)
    assert matrix.min() >= queries.low
    assert matrix.max() <= queries.high
    weights = np.random.default_rng(1).random(queries.cells)
    np.testing.assert_allclose(queries.answers(weights), matrix @ weights, rtol=1e-13)
    records = np.random.default_rng(2).integers(0, queries.cells, 50)
    np.testing.assert_allclose(queries.record_sums(records), matrix[:, records].sum(axis=1), rtol=1e-12, atol=1e-12)


@EVERY
def test_blocks_partition_the_queries_and_their_change_is_bounded(queries: LinearQueries) -> None:
    covered = np.concatenate([np.arange(queries.count)[block] for block in queries.blocks])
    np.testing.assert_array_equal(covered, np.arange(queries.count))
    matrix = np.stack([queries.query(j) for j in range(queries.count)])
    largest = max(
        float(np.linalg.norm(matrix[block, :, None] - matrix[block, None, :], axis=0).max()) for block in queries.blocks
    )
    assert 0.4 * queries.block_l2 < largest <= queries.block_l2
    rng = np.random.default_rng(3)
    weights, values = rng.random(queries.cells), rng.random(queries.count)
    np.testing.assert_allclose(queries.combine(values), values @ matrix, rtol=1e-13)
    for b, block in enumerate(queries.blocks):
        np.testing.assert_allclose(queries.block_answers(b, weights), matrix[block] @ weights, rtol=1e-13)
        np.testing.assert_allclose(queries.block_combine(b, values[block]), values[block] @ matrix[block], rtol=1e-13)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3), st.randoms())
def test_each_marginal_table_sums_to_the_weight_of_all_cells(shape: list[int], order: int, random: object) -> None:
    queries = Marginals.of_order(tuple(shape), order)
    weights = np.random.default_rng(len(shape) * 10 + order).random(queries.cells)
    answers = queries.answers(weights)
    for block in queries.blocks:
        assert answers[block].sum() == pytest.approx(weights.sum(), rel=1e-12)


def test_a_query_says_which_columns_and_categories_it_is_about() -> None:
    queries = Marginals.of_order(SHAPE, 2)
    for j in range(queries.count):
        at = next(b for b, block in enumerate(queries.blocks) if block.start <= j < block.stop)
        subset = queries.subsets[at]
        categories = np.unravel_index(j - queries.blocks[at].start, [SHAPE[a] for a in subset])
        table = queries.query(j).reshape(SHAPE)
        place = tuple(categories[subset.index(a)] if a in subset else slice(None) for a in range(3))
        assert table[place].min() == 1.0
        assert table.sum() == table[place].size


@EVERY
def test_records_that_are_no_cells_count_as_cell_0_and_none_is_dropped(queries: LinearQueries) -> None:
    odd = np.array([-1, queries.cells, 3, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    np.testing.assert_array_equal(queries.clip_records(odd), [0, 0, 3, 0, 0])
    np.testing.assert_array_equal(queries.clip_records(np.array([2**64 - 1, 1], dtype=np.uint64)), [0, 1])
    for wrong in (np.zeros(3), np.zeros((2, 2), dtype=int), np.array(["a"])):
        with pytest.raises(InvalidDataError):
            queries.clip_records(wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Marginals((), ((0,),)),
        lambda: Marginals((3, 0), ((0,),)),
        lambda: Marginals((3, 2), ()),
        lambda: Marginals((3, 2), ((),)),
        lambda: Marginals((3, 2), ((2,),)),
        lambda: Marginals((3, 2), ((1, 0),)),
        lambda: Marginals((3, 2), ((1, 1),)),
        lambda: Marginals((3, 2), ((0,),), center=2),
        lambda: Marginals((3, 2), ((0,),), impossible=(((0, 1), (1, 2)),)),
        lambda: Marginals((3, 2), ((0,),), impossible=(((0, 1), (0, 2)),)),
        lambda: Marginals((3, 2), ((0,),), impossible=(((0, 1), (1, 0)), ((1, 1), (0, 1)))),
        lambda: Marginals((3, 2), ((0,),), high=2.0),
        lambda: Marginals.of_order((3, 2), 0),
        lambda: DenseQueries(np.zeros(3)),
        lambda: DenseQueries(np.full((2, 2), np.nan)),
        lambda: DenseQueries(np.full((2, 2), 2.0)),
        lambda: DenseQueries(np.zeros((2, 2)), 1.0, 1.0),
    ],
)
def test_public_mistakes_are_named(make) -> None:
    with pytest.raises(InvalidParameterError):
        make()


@pytest.mark.parametrize(
    "subsets", [((0,), (0, 1), (0, 1, 2), (2,)), ((1, 3),), ((3,), (0, 3), (1, 2)), ((0, 1, 2, 3),)]
)
def test_tables_of_different_order_share_their_sums(subsets: tuple[tuple[int, ...], ...]) -> None:
    queries = Marginals((3, 1, 4, 2), subsets)
    weights = np.random.default_rng(0).random(queries.cells)
    alone = [queries.block_answers(b, weights) for b in range(len(subsets))]
    np.testing.assert_allclose(queries.answers(weights), np.concatenate(alone), rtol=1e-13)
