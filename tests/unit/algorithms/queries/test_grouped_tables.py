"""Pairs of grouped columns: cost by enumeration, users, added records, groups of any noise, models, accuracy."""

from __future__ import annotations

from itertools import product
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.queries import grouped_tables, noisy_tables
from dpconvex.algorithms.queries.grouped_tables import GroupedTablesPlan
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Mechanism
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Unit
from dpconvex.privacy.ledger import fits, total_epsilon
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import UserGroups
from dpconvex.problems.data.users import exact_weights
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource

SHAPE = (4, 2, 5)
QUERIES = Marginals.of_order(SHAPE, 2)
BOTH = pytest.mark.parametrize("delta", [0.0, 0.01])
REST = np.random.default_rng(0).integers(0, SHAPE, (5, 3))


def planned(privacy: PrivacyParams, n: int = 6, queries: Marginals = QUERIES) -> GroupedTablesPlan:
    plan = grouped_tables.plan(queries, n, privacy, groups=2, share=0.4, noise="tables")
    assert plan.groups == (2, 2, 2)
    assert plan.law == ("gaussian" if privacy.delta else "laplace")
    return plan


def seen(plan: GroupedTablesPlan, codes, answers: int, weights=None) -> list[tuple[Mechanism, np.ndarray]]:
    """What reaches the mechanisms, where the released numbers are the same whatever the data are."""
    values, rng = [], np.random.default_rng(answers)

    def release(self, value, *_):
        values.append((self, np.array(value, dtype=float)))
        return rng.uniform(0, 4, len(values[-1][1]))

    with mock.patch.object(Mechanism, "release", release):
        plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases), weights)
    return values


def cost(plan: GroupedTablesPlan, first, second) -> float:
    """What two sequences of values cost, in units of the promise."""
    total, privacy = 0.0, plan.privacy
    for (mechanism, mine), (_, its) in zip(first, second, strict=True):
        if privacy.delta:
            total += float((mine - its) @ (mine - its)) / mechanism.sigma**2
        else:
            total += float(np.abs(mine - its).sum()) / mechanism.scale
    return total**0.5 / largest_mu(privacy.epsilon, privacy.delta) if privacy.delta else total / privacy.epsilon


@BOTH
def test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more(delta: float) -> None:
    """All pairs of records, with groups from noisy tables of any kind: some attain what is charged, none exceed it."""
    plan, worst = planned(PrivacyParams(3.0, delta)), 0.0
    for answers in range(4):
        each = [seen(plan, np.vstack([row, REST]), answers) for row in product(*map(range, SHAPE))]
        worst = max(worst, *(cost(plan, a, b) for k, a in enumerate(each) for b in each[:k]))
    assert 0.9999 < worst <= 1


@BOTH
def test_a_replaced_user_and_an_added_record_cost_what_is_charged(delta: float) -> None:
    users, worst = planned(PrivacyParams(3.0, delta, unit=Unit.USER), 4), 0.0
    for answers in range(4):
        found = []
        for k, row in enumerate(([0, 0, 0], [3, 1, 4], [1, 1, 2], [2, 0, 3])):
            mine = np.tile(row, (k + 1, 1))
            groups = UserGroups.of(np.array(["az"[k % 2]] * len(mine) + ["b", "b", "c", "d", "d"]))
            found.append(seen(users, np.vstack([mine, REST]), answers, exact_weights(groups)))
        worst = max(worst, *(cost(users, a, b) for k, a in enumerate(found) for b in found[:k]))
    assert 0.9999 < worst <= 1
    added = planned(PrivacyParams(3.0, delta, Neighboring.ADD_OR_REMOVE_ONE))
    pairs = [[seen(added, codes, 0) for codes in (REST, np.vstack([REST, row]))] for row in product(*map(range, SHAPE))]
    assert 0.9999 < max(cost(added, *pair) for pair in pairs) <= 1


@BOTH
def test_one_noise_of_grouped_pairs_covers_their_matrix(delta: float) -> None:
    """All pairs of records of a domain, whatever groups the noisy tables of columns make."""
    queries = Marginals.of_order((3, 2, 4), 2)
    plan = grouped_tables.plan(queries, 4, PrivacyParams(3.0, delta), groups=2, share=0.5, noise="matrix")
    places, size, worst = plan.pairs._matrix.places, 4, 0.0
    for answers in range(3):
        found = []
        for row in product(*map(range, queries.shape)):
            matrix = np.zeros((size, size))
            matrix[places] = seen(plan, np.vstack([row, REST[:3] % 2]), answers)[-1][1]
            found.append(matrix + np.triu(matrix, 1).T)
        for one in found:
            apart = np.array(found) - one
            nuclear = np.abs(np.linalg.eigvalsh(apart)).sum(-1).max()
            worst = max(worst, np.sqrt((apart**2).sum((-1, -2)).max() / 2) if delta else nuclear)
    assert 0.75 < worst / plan.pairs.releases[0].sensitivity.value <= 1


@BOTH
def test_every_release_is_in_the_ledger_which_uses_the_promise(delta: float) -> None:
    for shape in ((16, 8, 16, 5, 7, 2), (8,) * 40, (5,) * 30):
        plan = grouped_tables.plan(Marginals.of_order(shape, 2), 20_000, PrivacyParams(0.3, delta))
        assert fits(plan.releases, plan.privacy)
        assert total_epsilon(plan.releases, delta) > 0.98 * 0.3
        assert len(plan.releases) <= 15
        assert max(plan.groups) in grouped_tables.GROUPS


@pytest.mark.parametrize("ordered", [False, True])
def test_any_noise_leaves_as_many_groups_as_planned(ordered: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(2, 30))
        shares = rng.choice([0.0, 1.0, -1.0, 1e9, -1e9]) + rng.standard_cauchy(size) * rng.choice([0.0, 1e-9, 1.0, 1e6])
        count = int(rng.integers(2, size + 1))
        found = grouped_tables.grouped(shares, float(rng.choice([1e-9, 0.1, 10.0])), count, ordered)
        assert set(found) == set(range(count))
        assert not ordered or (np.diff(found) >= 0).all()


def related(n: int, seed: int = 0) -> np.ndarray:
    """Seven numbers that follow one another, two categories that nothing tells of."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 12, n)
    near = [np.clip(first + rng.integers(-1, 2, n), 0, 11) for _ in range(6)]
    return np.column_stack([first, *near, rng.integers(0, 12, (n, 2))])


WIDE = Marginals.of_order((12,) * 9, 2)
ORDERED = Marginals(WIDE.shape, WIDE.subsets, ordered=tuple(range(7)))


@BOTH
def test_related_columns_stay_related_where_noise_hides_all_pairs(delta: float) -> None:
    codes, n = related(20_000), 20_000
    truth = ORDERED.record_sums(codes) / n
    privacy = PrivacyParams(0.2 if delta == 0 else 0.05, delta and 1e-6)
    plan = grouped_tables.plan(ORDERED, n, privacy)
    others = [noisy_tables.plan(ORDERED, n, privacy, relations=kind) for kind in ("all", "none")]
    errors = [
        [float(np.abs(truth - each.run(codes, SeededSource(seed)).answers).mean()) for each in (plan, *others)]
        for seed in range(3)
    ]
    found, *rest = np.mean(errors, axis=0)
    assert found < 0.8 * min(rest)


def test_a_model_of_groups_has_the_shares_of_columns_and_draws_them() -> None:
    codes = related(5_000)
    plan = grouped_tables.plan(ORDERED, 5_000, PrivacyParams(20.0), groups=4, share=0.5)
    result = plan.run(codes, SeededSource(0))
    for k in (0, 8):
        shares = np.bincount(codes[:, k], minlength=12) / 5_000
        np.testing.assert_allclose(result.model.marginal([k]), shares, atol=0.03)
    three = result.model.marginal([2, 0, 8])
    np.testing.assert_allclose(three.sum(axis=2), result.model.marginal([2, 0]), atol=1e-12)
    np.testing.assert_allclose(three.sum(axis=(0, 1)), result.model.marginal([8]), atol=1e-12)
    drawn = result.model.sample(20_000, np.random.default_rng(0))
    counted = np.histogram2d(drawn[:, 2], drawn[:, 0], bins=[np.arange(13)] * 2)[0] / 20_000
    np.testing.assert_allclose(counted, result.model.marginal([2, 0]), atol=0.01)
    inside = result.tables.interval((0,), result.model.marginal([0]), 0.95, True)
    assert (inside.low <= np.bincount(codes[:, 0], minlength=12) / 5_000).all()
    with pytest.raises(InvalidParameterError, match="measured"):
        result.tables.interval((0, 2), result.model.marginal([0, 2]), 0.95, False)


def test_columns_of_one_value_stay_and_nothing_to_group_is_refused() -> None:
    plan = grouped_tables.plan(Marginals.of_order((1, 5, 3), 2), 10, PrivacyParams(1.0), groups=2)
    found = plan.run(np.zeros((10, 3), dtype=int), SeededSource(0))
    assert found.model.sample(7, np.random.default_rng(0)).shape == (7, 3)
    for queries in (Marginals.of_order((2, 2, 2), 2), Marginals((5, 2), ((0,), (1,)))):
        with pytest.raises(InvalidParameterError, match="more values than groups"):
            grouped_tables.plan(queries, 10, PrivacyParams(1.0))
    impossible = Marginals((3, 3), ((0, 1),), impossible=(((0, 0), (1, 1)),))
    with pytest.raises(InvalidParameterError, match="impossible"):
        grouped_tables.plan(impossible, 10, PrivacyParams(1.0))
    for wrong, name in (({"groups": 1}, "groups"), ({"share": 1.0}, "share")):
        with pytest.raises(InvalidParameterError, match=name):
            grouped_tables.plan(QUERIES, 10, PrivacyParams(1.0), **wrong)
