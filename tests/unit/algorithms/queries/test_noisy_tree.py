"""A chosen forest of pairs: sensitivities by enumeration, budget, what may be chosen, intervals, accuracy."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.queries import noisy_tables, noisy_tree
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import ExponentialMechanism, Mechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.privacy.ledger import fits, total_epsilon
from dpconvex.problems import UserGroups
from dpconvex.problems.data.users import exact_weights
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource

SHAPE = (3, 2, 3, 2)
EVERY = tuple(combinations(range(4), 2))
QUERIES = Marginals(SHAPE, EVERY, center=3)
BOTH = pytest.mark.parametrize("delta", [0.0, 0.01])
CENTER = pytest.mark.parametrize("center", [True, False])


def seen(plan, codes, answers: int, weights=None) -> list[tuple[Mechanism, np.ndarray]]:
    """What reaches the mechanisms, where the released numbers are the same whatever the data are."""
    values, rng = [], np.random.default_rng(answers)

    def release(self, value, *_):
        values.append((self, np.array(value, dtype=float)))
        if isinstance(self, ReportNoisyMax | ExponentialMechanism):
            return int(rng.integers(len(values[-1][1])))
        return rng.uniform(0, 4, len(values[-1][1]))

    with mock.patch.object(Mechanism, "release", release):
        plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases), weights)
    return values


def cost_and_move(plan, first, second) -> tuple[float, float]:
    """What two sequences of values cost, and how far scores are apart."""
    cost, moved, gaussian = 0.0, 0.0, plan.law == "gaussian"
    for (mechanism, mine), (_, its) in zip(first, second, strict=True):
        if isinstance(mechanism, ReportNoisyMax | ExponentialMechanism):
            moved = max(moved, float(np.abs(mine - its).max()))
            cost += plan.choice.event.mu**2 if gaussian else mechanism.epsilon
        elif gaussian:
            cost += float((mine - its) @ (mine - its)) / mechanism.sigma**2
        else:
            cost += float(np.abs(mine - its).sum()) / mechanism.scale
    return (cost**0.5 if gaussian else cost), moved


@BOTH
@CENTER
def test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more(delta, center) -> None:
    """Pairs of records of a small domain, equal releases: tables attain what is charged, scores move by at most 1."""
    plan = noisy_tree.plan(QUERIES, 6, PrivacyParams(3.0, delta), pairs=2, center=center)
    assert (plan.law == "gaussian") == bool(delta)
    rest = np.random.default_rng(0).integers(0, 2, (5, 4)).tolist()
    worst, moved = 0.0, 0.0
    records = list(product(*map(range, SHAPE)))
    for first, second in ((records[0], records[-1]), *zip(records[::3], records[1::3], strict=True)):
        found = cost_and_move(plan, *(seen(plan, np.array([row, *rest]), 1) for row in (first, second)))
        worst, moved = max(worst, found[0]), max(moved, found[1])
    assert 0.9 < moved <= plan.choice.sensitivity.value < 1.0001
    assert 0.9999 * (plan.mu or 3.0) < worst <= (plan.mu or 3.0)


@BOTH
@CENTER
@pytest.mark.dear("True-0.01")
def test_a_replaced_user_costs_what_is_charged_and_no_more(delta, center) -> None:
    """Users of one to four records, the replaced one under another label: as records, which share a weight of 1."""
    plan = noisy_tree.plan(QUERIES, 4, PrivacyParams(3.0, delta, unit=Unit.USER), pairs=2, center=center)
    assert fits(plan.releases, plan.privacy)
    rng, worst, moved = np.random.default_rng(0), 0.0, 0.0
    others, labels = rng.integers(0, 2, (6, 4)), ["b", "b", "c", "d", "d", "d"]
    users = [np.tile(row, (k % 4 + 1, 1)) for k, row in enumerate(product(*map(range, SHAPE)))]
    found, users = [], [*users, *rng.integers(0, SHAPE, (4, 3, 4))]
    for k, mine in enumerate(users):
        groups = UserGroups.of(np.array(["az"[k // 2 % 2]] * len(mine) + labels))
        found.append(seen(plan, np.vstack([mine, others]), 1, exact_weights(groups)))
    for first, second in combinations(found, 2):
        cost, move = cost_and_move(plan, first, second)
        worst, moved = max(worst, cost), max(moved, move)
    assert 0.9 < moved <= plan.choice.sensitivity.value < 1.0001
    assert 0.9999 * (plan.mu or 3.0) < worst <= (plan.mu or 3.0)


@BOTH
def test_every_release_is_in_the_ledger_which_uses_the_promise(delta) -> None:
    for shape, center in (((16, 8, 16, 5, 7, 2), True), ((8,) * 40, False), ((2,) * 30, False)):
        queries = Marginals(shape, tuple(combinations(range(len(shape)), 2)), center=len(shape) - 1)
        plan = noisy_tree.plan(queries, 20_000, PrivacyParams(0.3, delta), center=center)
        assert fits(plan.releases, plan.privacy)
        assert total_epsilon(plan.releases, delta) > 0.99 * 0.3
        columns = len(shape) + (len(shape) - 1) * center
        assert sum(release.times for release in plan.releases) == columns + 2 * plan.pairs
        assert len(plan.releases) <= 15


def test_forests_shrink_with_the_noise_of_columns() -> None:
    """The share of a spanning forest falls from all to one pair, and that of the columns grows."""
    queries = Marginals((16,) * 10, tuple(combinations(range(10), 2)))
    plans = [noisy_tree.plan(queries, 10_000, PrivacyParams(epsilon)) for epsilon in (10.0, 1.0, 0.3, 0.03)]
    assert [plan.pairs for plan in plans] == sorted((plan.pairs for plan in plans), reverse=True)
    assert (plans[0].pairs, plans[-1].pairs) == (9, 1)
    assert [plan.shares[0] for plan in plans] == sorted(plan.shares[0] for plan in plans)
    assert all(3 * plan.shares[2] <= 1 - plan.shares[0] + 1e-12 for plan in plans)


@CENTER
def test_chosen_pairs_make_a_forest_without_the_center(center) -> None:
    plan = noisy_tree.plan(QUERIES, 50, PrivacyParams(1.0), pairs=9, center=center)
    assert plan.pairs == (2 if center else 3)  # at most a spanning forest
    codes = np.random.default_rng(0).integers(0, 2, (50, 4))
    for seed in range(20):
        found = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        chosen, parts = found.subsets[-plan.pairs :], {axis: axis for axis in range(4)}
        for i, j in chosen:
            assert parts[i] != parts[j]
            assert not center or 3 not in (i, j)
            parts = {axis: parts[i] if part == parts[j] else part for axis, part in parts.items()}


def follows(n: int, seed: int) -> np.ndarray:
    """Columns 0 and 2 nearly determine each other; the others are independent."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in SHAPE])
    codes[:, 2] = np.where(rng.random(n) < 0.9, codes[:, 0], codes[:, 2])
    return codes


@BOTH
def test_the_related_pair_is_chosen(delta) -> None:
    plan = noisy_tree.plan(QUERIES, 4000, PrivacyParams(1.0, delta), pairs=1, center=False)
    for seed in range(10):
        found = plan.release(follows(4000, seed), SeededSource(seed), Ledger(plan.privacy, plan.releases))
        assert found.subsets[-1] == (0, 2)


def test_the_choice_uses_what_was_released_and_no_true_table_of_columns() -> None:
    """Scores of data sets with the same pairs' tables but other records are alike; the model is of released numbers."""
    plan = noisy_tree.plan(QUERIES, 6, PrivacyParams(3.0), pairs=1, center=False)
    codes = np.random.default_rng(1).integers(0, 2, (6, 4))
    for answers in range(3):
        first, second = seen(plan, codes, answers), seen(plan, codes[::-1], answers)
        for (_, mine), (_, its) in zip(first, second, strict=True):
            np.testing.assert_array_equal(mine, its)


@pytest.mark.thin
@BOTH
def test_intervals_hold_as_often_as_they_say(delta) -> None:
    """Of columns whatever is chosen, and of the pair that was: 150 releases at level 0.8, within 4 deviations."""
    plan = noisy_tree.plan(QUERIES, 400, PrivacyParams(1.0, delta), pairs=1, center=True)
    codes = follows(400, 0)
    held = {"columns": [], "chosen": []}
    for seed in range(150):
        found = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        for kind, subset in (("columns", (0,)), ("chosen", found.subsets[-1])):
            truth = Marginals(SHAPE, (subset,)).record_sums(codes).reshape([SHAPE[a] for a in subset]) / 400
            interval = found.interval(subset, truth, 0.8, False)
            held[kind] += ((interval.low <= truth + 1e-9) & (truth <= interval.high + 1e-9)).ravel().tolist()
    for kind, inside in held.items():
        assert abs(np.mean(inside) - 0.8) < 4 * 0.4 / 150**0.5 * (1 if kind == "columns" else 0.8)


def mean_variation(model, codes, queries) -> float:
    truth = np.split(queries.record_sums(codes) / len(codes), [block.start for block in queries.blocks[1:]])
    pairs = zip(queries.subsets, truth, strict=True)
    return float(np.mean([np.abs(model.marginal(s).ravel() - t).sum() / 2 for s, t in pairs]))


@BOTH
@CENTER
def test_a_tree_of_data_that_follow_one_is_found(delta, center) -> None:
    """A Markov chain of 6 columns and much budget: a fifth of what independent columns leave."""
    rng, columns = np.random.default_rng(0), [np.random.default_rng(1).integers(0, 3, 20_000)]
    for _ in range(5):
        columns.append(np.where(rng.random(20_000) < 0.6, columns[-1], rng.integers(0, 3, 20_000)))
    codes, shape = np.column_stack(columns), (3,) * 6
    queries = Marginals(shape, tuple(combinations(range(6), 2)), center=5)
    privacy = PrivacyParams(5.0, delta)
    tree = noisy_tree.plan(queries, 20_000, privacy, pairs=5, center=center).run(codes, SeededSource(0))
    alone = noisy_tables.plan(queries, 20_000, privacy, relations="none").run(codes, SeededSource(0))
    assert mean_variation(tree.model, codes, queries) < 0.2 * mean_variation(alone.model, codes, queries)


def test_wrong_wishes_are_refused_from_public_facts() -> None:
    privacy = PrivacyParams(1.0)
    with pytest.raises(InvalidParameterError, match="center"):
        noisy_tree.plan(Marginals(SHAPE, EVERY), 50, privacy, center=True)
    with pytest.raises(InvalidParameterError, match="two pairs"):
        noisy_tree.plan(Marginals((3, 2), ((0,), (1,))), 50, privacy)
    with pytest.raises(InvalidParameterError, match="pairs"):
        noisy_tree.plan(QUERIES, 50, privacy, pairs=0)


@pytest.mark.parametrize("center", [True, False])
def test_impossible_pairs_are_never_drawn_whether_they_were_measured_or_not(center: bool) -> None:
    rng, n = np.random.default_rng(0), 20_000
    first = rng.integers(0, 3, n)
    codes = np.column_stack([first, (first + (rng.random(n) < 0.2)) % 3, rng.integers(0, 2, n), rng.integers(0, 4, n)])
    codes = codes[~((codes[:, 0] == 0) & (codes[:, 1] == 2)) & ~((codes[:, 2] == 1) & (codes[:, 3] == 3))]
    zeros = (((0, 0), (1, 2)), ((2, 1), (3, 3)))
    plain = Marginals((3, 3, 2, 4), Marginals.of_order((3, 3, 2, 4), 2).subsets, center=2)
    queries = replace(plain, impossible=zeros)
    found = {}
    for asked in (plain, queries):
        plan = noisy_tree.plan(asked, len(codes), PrivacyParams(1.0), pairs=1, center=center)
        result = plan.run(codes, SeededSource(0))
        found[asked.impossible] = mean_variation(result.model, codes, plain)
        drawn = result.model.sample(5000, np.random.default_rng(0))
        violated = [((drawn[:, i] == a) & (drawn[:, j] == b)).any() for (i, a), (j, b) in zeros]
        assert asked is plain or not any(violated)
        assert asked is plain or result.model.marginal((0, 3, 1))[0, :, 2].sum() == 0.0
        assert asked is plain or plan.public["impossible"] == [[[0, 0], [1, 2]], [[2, 1], [3, 3]]]
    assert found[zeros] < 1.1 * found[()]  # to say what is true of the data costs little, and here it helps
    measured = next(pair for pair in result.tables.subsets if len(pair) == 2 and set(pair) == ({0, 1}))
    assert result.model.marginal(measured).sum() == pytest.approx(1.0)
