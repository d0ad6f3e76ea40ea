"""Noisy tables: sensitivity by enumeration, budget, fallbacks, intervals; latent classes: slopes, folds, records."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from math import pi
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.queries import latent_classes, noisy_tables, released_tables
from dpconvex.algorithms.queries.base import fit_histogram, planned_steps
from dpconvex.algorithms.queries.latent_classes import FitPlan, LatentClasses
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.algorithms.queries.released_tables import Histogram
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.mechanisms import Mechanism
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Unit
from dpconvex.privacy.ledger import fits, total_epsilon
from dpconvex.problems import UserGroups
from dpconvex.problems.data.users import exact_weights
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource
from dpconvex_experiments.shared import largest_error

ADULT = (16, 8, 16, 16, 7, 14, 6, 5, 2, 16, 16, 16, 41, 2)
SMALL = Marginals.of_order((2, 3, 2), 2)


def counted(plan, codes, weights=None) -> list[np.ndarray]:
    """What reaches the mechanisms."""
    values = []

    def release(self, value, *_):
        values.append(np.array(value, dtype=float))
        return values[-1]

    with mock.patch.object(Mechanism, "release", release):
        plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases), weights)
    return values


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more(delta) -> None:
    """All pairs of records of a domain: the largest cost is attained, and the ledger charges it."""
    plan = noisy_tables.plan(SMALL, 2, PrivacyParams(3.0, delta), relations="all")
    assert plan.law == ("gaussian" if delta else "laplace")
    worst, scales = 0.0, [plan.n * noise * (0.5**0.5 if plan.law == "laplace" else 1) for *_, noise in plan.noises]
    for first, second in product(product(*map(range, SMALL.shape)), repeat=2):
        rest = [0, 1, 1]
        pairs = zip(counted(plan, np.array([first, rest])), counted(plan, np.array([second, rest])), strict=True)
        moved = [a - b for a, b in pairs]
        if plan.law == "laplace":
            cost = sum(np.abs(m).sum() / scale for m, scale in zip(moved, scales, strict=True))
        else:
            cost = np.sqrt(sum((m @ m) / scale**2 for m, scale in zip(moved, scales, strict=True)))
        worst = max(worst, float(cost))
    budget = 3.0 if plan.law == "laplace" else plan.mu
    assert 0.99999 * budget < worst <= budget


FEW = Marginals.of_order((2, 3), 2)
USERS = [rows for m in (1, 2, 3) for rows in combinations_with_replacement(list(product(range(2), range(3))), m)]
OTHERS = [list(product(range(2), range(3)))[:m] for m in (6, 5, 4, 1, 6)]


def of_users(plan, users) -> np.ndarray:
    """What reaches the mechanisms of users' records, each user labelled, in an order that mixes them."""
    labelled = [(str(name), row) for name, rows in users for row in rows]
    mixed = [labelled[i] for i in np.random.default_rng(len(labelled)).permutation(len(labelled))]
    groups = UserGroups.of(np.array([name for name, _ in mixed]))
    weights = exact_weights(groups)
    assert all(weights[np.array([n for n, _ in mixed]) == name].sum() <= 1 for name, _ in mixed)
    return np.concatenate(counted(plan, np.array([row for _, row in mixed]), weights))


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 0.0), (0.5, 0.2)])
def test_a_replaced_user_costs_what_is_charged_and_no_more(epsilon, delta) -> None:
    """All users of up to three records for all others of up to three, under any label: 2 and the root of 2."""
    plan = noisy_tables.plan(FEW, 6, PrivacyParams(epsilon, delta, unit=Unit.USER), relations="all")
    assert plan.law == ("gaussian" if delta else "laplace")
    assert fits(plan.releases, plan.privacy)
    scales = np.concatenate([np.full(each.dim, each.sigma if delta else each.scale) for _, each, _ in plan.noises])
    ends = np.cumsum([each.dim for _, each, _ in plan.noises])[:-1]
    rest = list(zip("bcdef", OTHERS, strict=True))
    # The replaced user is the first or the last in the order of labels.
    moved = np.array([of_users(plan, [(name, rows), *rest]) for name in "az" for rows in USERS])
    worst = 0.0
    for one in moved:
        steps = moved - one
        for table in np.split(steps, ends, axis=1):
            assert np.abs(table).sum(axis=1).max() <= 2
            assert (table**2).sum(axis=1).max() <= 2
        cost = np.sqrt(((steps / scales) ** 2).sum(axis=1)) if delta else np.abs(steps / scales).sum(axis=1)
        worst = max(worst, float(cost.max()))
    assert 0.99999 * (plan.mu or epsilon) < worst <= (plan.mu or epsilon)


def test_users_count_the_same_and_share_it_among_their_records() -> None:
    """Five users, one with all other records: the tables are means of the users' own, and their order is nothing."""
    rng, n = np.random.default_rng(0), 5000
    codes = rng.integers(0, (2, 3, 2), (n, 3))
    labels = np.where(np.arange(n) % 7 < 6, 0, rng.integers(0, 5, n))
    plan = noisy_tables.plan(SMALL, 5, PrivacyParams(1.0, unit=Unit.USER), relations="all")
    order = rng.permutation(n)
    found = [counted(plan, codes[rows], exact_weights(UserGroups.of(labels[rows]))) for rows in (np.arange(n), order)]
    for subset, one, other in zip(plan.subsets, *found, strict=True):
        np.testing.assert_array_equal(one, other)
        shares = [Marginals(SMALL.shape, (subset,)).record_sums(codes[labels == u]) for u in range(5)]
        np.testing.assert_allclose(one, sum(share / share.sum() for share in shares), atol=1e-5)
    with pytest.raises(InvalidDataError, match="5 users"):
        plan.run(codes, SeededSource(0))
    with pytest.raises(InvalidDataError, match="5 users"):
        plan.run(codes, SeededSource(0), UserGroups.of(np.arange(n)))
    with pytest.raises(InvalidDataError, match="one for each of groups") as refused:
        plan.run(codes[1:], SeededSource(0), UserGroups.of(labels))
    assert str(n - 1) not in str(refused.value)
    assert plan.run(codes, SeededSource(0), UserGroups.of(labels)).certificate.target.unit == "user"


def added(delta: float, epsilon: float = 3.0) -> PrivacyParams:
    return PrivacyParams(epsilon, delta, Neighboring.ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize("declared", [1, 2, 1000])
@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_an_added_record_costs_what_is_charged_whatever_was_declared(delta, declared) -> None:
    """Every record added to none, one or many others: each attains the charged cost, and none exceeds it."""
    plan = noisy_tables.plan(SMALL, declared, added(delta), relations="all")
    assert fits(plan.releases, plan.privacy)
    for rest in (np.zeros((0, 3), int), np.array([[0, 1, 1]]), np.tile([1, 2, 0], (300, 1))):
        for record in product(*map(range, SMALL.shape)):
            pairs = zip(counted(plan, rest), counted(plan, np.vstack([rest, [record]])), strict=True)
            moved = [a - b for a, b in pairs]
            if plan.law == "laplace":
                cost = sum(np.abs(m).sum() / each.scale for m, (_, each, _) in zip(moved, plan.noises, strict=True))
            else:
                cost = np.sqrt(sum(m @ m / each.sigma**2 for m, (_, each, _) in zip(moved, plan.noises, strict=True)))
            assert 0.99999 * (plan.mu or 3.0) < cost <= (plan.mu or 3.0)


def test_noise_for_added_records_is_smaller_by_what_the_lemma_says() -> None:
    for delta, ratio in ((0.0, 2.0), (0.05, 2**0.5)):
        pair = [noisy_tables.plan(SMALL, 50, PrivacyParams(1.0, delta, kind), relations="all") for kind in Neighboring]
        assert {plan.law for plan in pair} == {"gaussian" if delta else "laplace"}
        for one, other in zip(*(plan.noises for plan in pair), strict=True):
            assert one[2] == pytest.approx(ratio * other[2])


def test_counts_of_far_more_records_than_declared_are_exact() -> None:
    plan = noisy_tables.plan(SMALL, 1, added(0.0), relations="all")
    for table in counted(plan, np.tile([1, 2, 1], (10**6, 1))):
        assert sorted(set(table)) == [0.0, 1e6]
        assert plan.noises[0][1].step <= 1  # a power of two: whole numbers are on the grid


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_all_that_leaves_is_a_function_of_noisy_counts(delta) -> None:
    """With the noisy counts given, nothing depends on how many records there are, none included."""
    plan = noisy_tables.plan(SMALL, 40, added(delta))
    rng, found = np.random.default_rng(0), []
    given = {each.dim: rng.normal(10, 3, each.dim) for _, each, _ in plan.noises}
    with mock.patch.object(Mechanism, "release", lambda self, *_: given[self.dim]):
        for n in (0, 1, 39, 40, 41, 500):
            for records in (np.tile([1, 0, 1], (n, 1)), np.full(n, 3)):
                result = plan.run(records, SeededSource(0))
                found.append(
                    (result.histogram.tolist(), result.answers.tolist(), result.certificate, vars(result.tables))
                )
    for each in found[1:]:
        assert repr(each) == repr(found[0])
    assert found[0][2].public["declared_n"] == 40
    assert "n" not in found[0][2].public


def test_refusals_do_not_tell_how_many_records_there_are() -> None:
    plan = noisy_tables.plan(SMALL, 40, added(0.0))
    for n in (0, 7, 8):
        for records in (np.zeros((n, 2), int), np.zeros((n, 3)), np.float64(1.0)):
            with pytest.raises(InvalidDataError) as refused:
                plan.run(records, SeededSource(0))
            assert "7" not in str(refused.value)
            assert "8" not in str(refused.value)
    plan.run([], SeededSource(0))  # an empty list has neither columns nor a type


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.dear("True-0.001", "False-0.001")
def test_intervals_hold_where_the_number_of_records_is_private(delta, together) -> None:
    """Their two parts hold each with half of the risk, so together more often than they say."""
    shape, n = (2, 3, 4), 400
    codes, queries = dependent(n, shape, 0), Marginals.of_order(shape, 2)
    plan = noisy_tables.plan(queries, 900, added(delta, 1.0), relations="all")
    truth = {s: Marginals(shape, (s,)).record_sums(codes) / n for s in plan.subsets}
    held, off = [], []
    for seed in range(150):
        found = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        off.append(abs(found.total.value - n) / found.total.reach(0.2))
        for s, shares in truth.items():
            table = found.interval(s, shares.reshape([shape[a] for a in s]), 0.8, together)
            inside = (table.low <= table.shares) & (table.shares <= table.high)
            held.append(inside.all() if together else inside.mean())
    assert np.mean(held) > 0.8
    assert np.mean(np.array(off) < 1) > (0.72 if delta else 0.8)  # exact for Gaussian noise, less 2.5 deviations
    assert np.mean(off) > 0.2  # and no wild bound


@pytest.mark.parametrize("delta", [0.0, 0.2])
def test_the_interval_of_a_large_share_allows_for_the_estimated_number(delta) -> None:
    """Of 40 cells' noise, which is in the estimate, while one cell's is in the count; without it 1 in 3 holds."""
    queries, codes = Marginals.of_order((40,), 2), np.repeat([[0], [1]], [360, 40], axis=0)
    plan = noisy_tables.plan(queries, 400, added(delta, 0.5))
    assert plan.law == ("gaussian" if delta else "laplace")
    held = []
    for seed in range(200):
        tables = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        found = tables.interval((0,), np.zeros(40), 0.7, False)
        held.append(found.low[0] <= 0.9 <= found.high[0])
    assert np.mean(held) > 0.7


@pytest.mark.parametrize("epsilon", [0.1, pi, 10.0])
@pytest.mark.dear("0.1", "10.0")
def test_every_table_is_in_the_ledger_and_scales_are_few(epsilon) -> None:
    for shape, delta in ((ADULT, 0.0), (ADULT, 1e-6), ((8,) * 60, 1e-6), (tuple(range(2, 42)), 0.0)):
        queries, privacy = Marginals.of_order(shape, 2), PrivacyParams(epsilon, delta)
        plan = noisy_tables.plan(queries, 45_222, privacy, relations="all", noise="tables")
        assert sum(release.times for release in plan.releases) == len(shape) * (len(shape) + 1) // 2
        assert len(plan.releases) <= 40
        assert fits(plan.releases, privacy)
        assert total_epsilon(plan.releases, delta) > 0.999 * epsilon


def test_noise_of_tables_is_drawn_anew_for_each() -> None:
    plan = noisy_tables.plan(Marginals.of_order((3, 3, 3), 2), 10, PrivacyParams(1.0), relations="all")
    codes = np.zeros((10, 3), int)
    for source in (SeededSource(1), SeededSource(2)):
        found = plan.release(codes, source, Ledger(plan.privacy, plan.releases)).noisy
        pairs = [table.ravel() for table in found[3:]]
        assert all(not np.isclose(a, b).any() for a, b in combinations(pairs, 2))


def test_fewer_tables_where_noise_would_hide_the_pairs() -> None:
    every = tuple(combinations(range(14), 2))
    queries = Marginals(ADULT, every, center=13)
    kinds = {
        (10.0, 0.0): "all",
        (3.0, 0.0): "all",
        (0.3, 0.0): "none",
        (0.1, 0.0): "none",
        (0.3, 1e-6): "all",
        (0.1, 1e-6): "all",
        (0.02, 1e-6): "none",
    }
    for (epsilon, delta), kind in kinds.items():
        plan = noisy_tables.plan(queries, 45_222, PrivacyParams(epsilon, delta))
        assert plan.relations == kind
        assert {len(subset) for subset in plan.subsets} == ({1} if kind == "none" else {1, 2})


def test_the_choice_among_methods_follows_the_noise() -> None:
    """Adult: a chosen forest between all pairs and columns alone; of many columns pairs of groups."""
    queries = Marginals(ADULT, tuple(combinations(range(14), 2)), center=13)
    chosen = {0.02: "noisy_tables", 0.3: "noisy_tree", 1.0: "noisy_tree", 10.0: "noisy_tables"}
    for epsilon, name in chosen.items():
        assert plan_queries(queries, 45_222, PrivacyParams(epsilon))[0].algorithm == name
    for epsilon in (0.1, 1.0):
        assert plan_queries(queries, 45_222, PrivacyParams(epsilon, 1e-6))[0].algorithm == "noisy_tables"
    many = Marginals((16,) * 24, tuple(combinations(range(24), 2)), ordered=tuple(range(24)))
    for epsilon, name in {0.1: "noisy_tables", 1.0: "grouped_tables", 20.0: "noisy_tables"}.items():
        assert plan_queries(many, 30_000, PrivacyParams(epsilon))[0].algorithm == name
    assert plan_queries(Marginals.of_order((4, 5), 1), 500, PrivacyParams(1.0))[0].algorithm == "noisy_tables"


def test_what_chance_tells_of_pairs_follows_from_sizes() -> None:
    """Independent columns: measured as said; no pair expects more of few records, and all pairs no more than R."""
    shape, n = (16, 4, 8, 2), 2_000
    codes = np.stack([np.random.default_rng(k).integers(0, size, n) for k, size in enumerate(shape)], axis=1)
    found = []
    for i, j in combinations(range(4), 2):
        table = np.bincount(codes[:, i] * shape[j] + codes[:, j], minlength=shape[i] * shape[j]) / n
        table = table.reshape(shape[i], shape[j])
        found.append(np.abs(table - np.outer(table.sum(1), table.sum(0))).sum() / 2)
    assert np.mean(found) == pytest.approx(noisy_tables.by_chance(shape, n), rel=0.1)
    assert noisy_tables.by_chance((5, 1), 10) == 0
    assert noisy_tables.by_chance((300, 300), 10) == 1
    queries = Marginals.of_order((16,) * 8, 2)
    few, many = (noisy_tables.plan(queries, n, PrivacyParams(1e6 / n), relations="none") for n in (1_000, 100_000))
    assert few.expected_variation > 2 * many.expected_variation
    every = noisy_tables.plan(Marginals.of_order((2,) * 6, 2), 10_000, PrivacyParams(1.0, 1e-6), relations="all")
    assert every.expected_variation == every.raw


def dependent(n: int, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Columns that follow one hidden class."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 4, n)
    return np.stack([(hidden + rng.integers(0, 2, n)) % size for size in shape], axis=1)


def mean_variation(model, codes, queries) -> float:
    truth = np.split(queries.record_sums(codes) / len(codes), [block.start for block in queries.blocks[1:]])
    pairs = zip(queries.subsets, truth, strict=True)
    return float(np.mean([np.abs(model.marginal(s).ravel() - t).sum() / 2 for s, t in pairs]))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.02, 0.0), (0.1, 0.0), (0.1, 1e-6), (3.0, 0.0), (3.0, 1e-6)])
def test_a_release_is_never_worse_than_independent_columns(epsilon, delta) -> None:
    """With the same promise and seed; 10 % is for the noise of one run."""
    shape = (4, 4, 5, 6, 4, 5)
    codes, queries = dependent(5000, shape, 0), Marginals.of_order(shape, 2)
    found = [
        noisy_tables.plan(queries, 5000, PrivacyParams(epsilon, delta), relations=kind).run(codes, SeededSource(1))
        for kind in ("auto", "none")
    ]
    errors = [mean_variation(result.model, codes, queries) for result in found]
    assert errors[0] < 1.1 * errors[1]
    if epsilon == 3.0:
        assert errors[0] < 0.2 * errors[1]


def test_the_fit_is_a_function_of_released_tables() -> None:
    codes, queries = dependent(3000, (4, 3, 5), 0), Marginals.of_order((4, 3, 5), 2)
    result = noisy_tables.plan(queries, 3000, PrivacyParams(0.3)).run(codes, SeededSource(0))
    again, answers, _ = result.plan.fitted(result.tables)
    np.testing.assert_array_equal(again.marginal((0, 1, 2)), result.model.marginal((0, 1, 2)))
    np.testing.assert_array_equal(answers, result.answers)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("unit", Unit)
@pytest.mark.dear("record-False-0.001", "user-True-0.001", "user-False-0.001")
def test_intervals_hold_as_often_as_they_say(delta, together, unit) -> None:
    """120 releases of 6 tables at level 0.8, within 5 deviations; the cells of a table at once more often.

    Those of users are for the means over users of the shares of their own records.
    """
    shape, n = (2, 3, 4), 400
    labels = np.arange(n) if unit == Unit.RECORD else np.random.default_rng(1).geometric(0.01, n)
    groups = UserGroups.of(labels)
    codes, queries, n = dependent(n, shape, 0), Marginals.of_order(shape, 2), groups.n_users
    plan = noisy_tables.plan(queries, n, PrivacyParams(1.0, delta, unit=unit), relations="all")
    weights = None if unit == Unit.RECORD else exact_weights(groups)
    own = [codes[labels == label] for label in np.unique(labels)]
    truth = {}
    for s in plan.subsets:
        mean = np.mean([Marginals(shape, (s,)).record_sums(rows) / len(rows) for rows in own], axis=0)
        truth[s] = mean.reshape([shape[a] for a in s])
    held = {1: [], 2: []}
    for seed in range(120):
        found = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases), weights)
        for subset, shares in truth.items():
            table = found.interval(subset, shares, 0.8, together)
            inside = (table.low <= shares) & (shares <= table.high)
            held[len(subset)] += [bool(inside.all())] if together else list(inside.ravel())
    for inside in held.values():
        deviation = np.sqrt(0.16 / len(inside)) * (1 if together else 1.5)  # pooled cells are correlated
        low, high = (0.8 - 5 * deviation, 0.8 + 5 * deviation + 0.03 * together)
        assert low < np.mean(inside) < high


def test_slopes_are_those_of_the_objective() -> None:
    codes, queries = dependent(300, (3, 2, 4), 0), Marginals.of_order((3, 2, 4), 2)
    plan = noisy_tables.plan(queries, 300, PrivacyParams(1.0), relations="all")
    tables = plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
    target, rng = latent_classes._Target(tables, ()), np.random.default_rng(0)
    raw = [rng.normal(size=(4, 9)), rng.normal(size=4)]

    def objective(parts) -> float:
        P, w = latent_classes._state(target, parts)
        pairs = (target.inverse * (P.T @ (w[:, None] * P) - target.shares) ** 2).sum() / 4
        return float(pairs + (target.one_weight * (w @ P - target.one) ** 2).sum() / 2)

    slopes = latent_classes._slopes(target, latent_classes._state(target, raw), target.inverse)
    for k, slope in enumerate(slopes):
        for place in np.ndindex(slope.shape):
            moved = [[part.copy() for part in raw] for _ in range(2)]
            moved[0][k][place] += 1e-5
            moved[1][k][place] -= 1e-5
            assert slope[place] == pytest.approx((objective(moved[0]) - objective(moved[1])) / 2e-5, abs=1e-7)


def test_a_cell_that_is_left_out_is_so_in_both_places_and_an_impossible_one_never() -> None:
    codes, queries = dependent(300, (3, 2, 4), 0), Marginals.of_order((3, 2, 4), 2)
    plan = noisy_tables.plan(queries, 300, PrivacyParams(1.0), relations="all")
    tables = plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
    target = latent_classes._Target(tables, (((0, 1), (2, 3)),))
    fold = target.folds(5, np.random.default_rng(0))
    np.testing.assert_array_equal(fold, fold.T)
    assert set(np.unique(fold)) == {-1, 0, 1, 2, 3, 4}
    assert fold[1, 8] == -1
    assert (fold[:3, :3] == -1).all()
    assert target.inverse[1, 8] == latent_classes.ZERO_WEIGHT


def test_noise_alone_is_seldom_taken_for_a_missed_pair() -> None:
    """Tables of a model with noise of scales of their own; 150 pairs, within 4 deviations of 5 %."""
    shape = (6, 2, 5, 7, 3, 4)
    codes, queries = dependent(3000, shape, 0), Marginals.of_order(shape, 2)
    plan = noisy_tables.plan(queries, 3000, PrivacyParams(1.0, 1e-6), relations="all", noise="tables")
    assert plan.law == "gaussian"
    starts, truth, found = np.cumsum([0, *shape]), np.zeros((27, 27)), []
    for subset in queries.subsets:
        i, j = (slice(starts[axis], starts[axis + 1]) for axis in subset)
        truth[i, j] = noisy_tables.table_counts(codes, shape, (subset,))[0].reshape(shape[subset[0]], -1) / 3000
        truth[j, i] = truth[i, j].T
    for seed in range(10):
        tables = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        target, other = latent_classes._Target(tables, (((0, 1), (2, 3)),)), truth.copy()
        missed = target.missed(truth)
        np.testing.assert_array_equal(missed, missed.T)
        found += [missed[starts[i], starts[j] + 1] for i, j in queries.subsets]
        other[1, 11] = other[11, 1] = 0.9  # an impossible cell is no miss
        np.testing.assert_array_equal(target.missed(other), missed)
        other[:6, 6:8] += 0.1
        other[6:8, :6] += 0.1
        assert target.missed(other)[:6, 6:8].all()
    assert np.mean(found) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(found))


@pytest.mark.parametrize(("delta", "law"), [(1e-6, "gaussian"), (0.0, "laplace")])
def test_trends_are_seen_where_no_single_cell_is(delta: float, law: str) -> None:
    """Two bell-shaped columns of correlation 0.6, whose cells all drown in noise; noise alone has next to no trend."""
    shape, n = (16, 16, 16, 16), 4000
    draws = np.random.default_rng(0).normal(size=(n, 4))
    draws[:, 1] = 0.6 * draws[:, 0] + 0.8 * draws[:, 1]
    codes, queries = np.clip(np.floor(8 + 2.5 * draws), 0, 15).astype(int), Marginals.of_order(shape, 2)
    plan = noisy_tables.plan(queries, n, PrivacyParams(1.0 if delta else 2.5, delta), relations="all", noise="tables")
    tables = plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
    assert tables.law == law

    def correlation(model: LatentClasses, pair: tuple[int, int]) -> float:
        table, values = model.marginal(pair), np.arange(16)
        means = [table.sum(1 - k) @ values for k in range(2)]
        spreads = [np.sqrt(table.sum(1 - k) @ (values - means[k]) ** 2) for k in range(2)]
        return float((values - means[0]) @ table @ (values - means[1]) / spreads[0] / spreads[1])

    found = latent_classes.fit(tables, plan.fitting)
    with mock.patch.object(latent_classes, "_mended", lambda _, state, normal: state):
        before = latent_classes.fit(tables, plan.fitting)
    assert correlation(before, (0, 1)) < 0.3
    assert correlation(found, (0, 1)) > correlation(before, (0, 1)) + 0.15
    assert abs(correlation(found, (2, 3))) < 0.1
    assert mean_variation(found, codes, queries) < 1.02 * mean_variation(before, codes, queries)


def test_a_basis_of_cosines_is_orthonormal_and_sums_to_0() -> None:
    for size in (2, 3, 16):
        basis = released_tables.cosines(size)
        np.testing.assert_allclose(basis.T @ basis, np.eye(size - 1), atol=1e-12)
        np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)


@pytest.mark.gate
def test_a_strong_relation_that_stopping_shrinks_is_fitted_again() -> None:
    """Two columns that determine each other among others that hardly do; other tables stay where they were."""
    shape, rng = (12, 12, 8, 8, 8, 8), np.random.default_rng(0)
    codes = np.column_stack([rng.integers(0, size, 4000) for size in shape])
    codes[:, 1] = 11 - codes[:, 0]
    queries = Marginals.of_order(shape, 2)
    plan = noisy_tables.plan(queries, 4000, PrivacyParams(0.5, 1e-6), relations="all")
    tables = plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
    found = latent_classes.fit(tables, plan.fitting)
    with mock.patch.object(latent_classes, "_mended", lambda _, state, normal: state):
        before = latent_classes.fit(tables, plan.fitting)
    strong = np.fliplr(np.eye(12)) / 12
    error, old = (np.abs(model.marginal((0, 1)) - strong).sum() / 2 for model in (found, before))
    assert error < 0.8 * old
    assert mean_variation(found, codes, queries) < mean_variation(before, codes, queries)


@pytest.mark.gate
def test_laplace_noise_is_told_from_a_signal_by_its_likelihood() -> None:
    """What is left of noise around a small signal has the signal's mean and less variance; the fit is nearer."""
    noise = np.random.default_rng(0).laplace(size=2_000_000)
    for signal in (0.0, 0.1, -0.2):
        beyond = signal + noise
        left = latent_classes.LIKELY * beyond / np.sqrt(1 + beyond**2)
        assert left.mean() == pytest.approx(signal, abs=0.01)
        assert left.var() < 1.35
    codes, queries = dependent(5000, (4, 4, 5, 6, 4, 5, 8, 8), 0), Marginals.of_order((4, 4, 5, 6, 4, 5, 8, 8), 2)
    plan = noisy_tables.plan(queries, 5000, PrivacyParams(3.0), relations="all", noise="tables")
    errors = {0: 0.0, 1: 0.0}
    for seed in range(3):
        tables = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        for again in errors:
            fitting = replace(plan.fitting, again=again)
            errors[again] += mean_variation(latent_classes.fit(tables, fitting), codes, queries)
    assert errors[1] < 0.97 * errors[0]


@pytest.mark.thin
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_impossible_pairs_are_never_drawn_and_cost_little(epsilon) -> None:
    codes = dependent(5000, (4, 4, 5), 0)
    codes[(codes[:, 0] == 1) & (codes[:, 1] == 3), 1] = 1
    zeros = (((1, 3), (0, 1)),)  # given in the other order
    plans = [
        noisy_tables.plan(Marginals.of_order((4, 4, 5), 2), 5000, PrivacyParams(epsilon)),
        noisy_tables.plan(
            Marginals((4, 4, 5), ((0, 1), (0, 2), (1, 2)), impossible=zeros), 5000, PrivacyParams(epsilon)
        ),
    ]
    assert plans[0].noises == plans[1].noises
    results = [plan.run(codes, SeededSource(2)) for plan in plans]
    for one, other in zip(results[0].tables.noisy, results[1].tables.noisy, strict=True):
        np.testing.assert_array_equal(one, other)  # they are counted as they are
    drawn = results[1].model.sample(20_000, np.random.default_rng(0))
    assert not ((drawn[:, 0] == 1) & (drawn[:, 1] == 3)).any()
    assert results[1].model.marginal((1, 0))[3, 1] == 0
    errors = [mean_variation(result.model, codes, plans[0].queries) for result in results]
    assert errors[1] < 1.1 * errors[0] + 0.002


def test_records_follow_the_model_within_rounding() -> None:
    rng = np.random.default_rng(0)
    shape = (3, 4, 2)
    model = LatentClasses(shape, rng.dirichlet(np.ones(6)), tuple(rng.dirichlet(np.ones(d), 6) for d in shape))
    weights = model.marginal((0, 1, 2)).ravel()
    for each, single in ((model, 6), (Histogram(shape, weights), 12)):
        drawn = each.sample(3000, np.random.default_rng(1))
        assert drawn.shape == (3000, 3)
        for axis, size in enumerate(shape):
            found = np.bincount(drawn[:, axis], minlength=size) / 3000
            assert np.abs(found - each.marginal((axis,))).max() <= single / 3000  # one a class, or a cell
        table = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=12).reshape(3, 4) / 3000
        assert np.abs(table - each.marginal((0, 1))).max() < 0.02
    brute = np.einsum("k,ka,kb,kc->cab", model.weights, *model.levels)
    np.testing.assert_allclose(model.marginal((2, 0, 1)), brute, atol=1e-12)


def test_few_columns_and_columns_of_one_value() -> None:
    for shape in ((5,), (1, 4), (1, 1, 3, 2), (2, 2)):
        codes = dependent(500, shape, 0)
        plan = noisy_tables.plan(Marginals.of_order(shape, 2), 500, PrivacyParams(2.0))
        result = plan.run(codes, SeededSource(0))
        assert mean_variation(result.model, codes, plan.queries) < 0.05
        assert result.model.sample(10, np.random.default_rng(0)).shape == (10, len(shape))


def test_sizes_are_refused_from_public_facts() -> None:
    privacy = PrivacyParams(1.0)
    for shape in ((2,) * 101, (2000, 2100), (1, 1)):
        with pytest.raises(InvalidParameterError):
            noisy_tables.plan(Marginals.of_order(shape, 2), 100, privacy)
    with pytest.raises(InvalidParameterError, match="order=2"):
        noisy_tables.plan(Marginals.of_order((2, 2, 2), 3), 100, privacy)


def test_steps_of_a_histogram_follow_the_noise() -> None:
    """Issue 21.10: with little noise 200 steps leave most of the error; with much noise they are too many."""
    queries = Marginals.of_order((6, 7, 8, 5), 2)
    codes = dependent(50_000, queries.shape, 0)
    truth = queries.record_sums(codes) / len(codes)
    rng, uniform = np.random.default_rng(0), np.full(queries.cells, 1 / queries.cells)
    steps = [planned_steps(queries, sigma, 6) for sigma in (1e-1, 1e-2, 1e-3, 1e-5)]
    assert steps == sorted(steps)
    assert steps[0] < 200 < steps[-1]
    noisy = truth + rng.normal(0, 1e-5, queries.count)
    targets = {b: noisy[part] for b, part in enumerate(queries.blocks)}
    errors = [
        largest_error(queries, codes, fit_histogram(queries, targets, dict.fromkeys(targets, 1), uniform, count))
        for count in (200, steps[-1])
    ]
    assert errors[1] < 0.5 * errors[0]


def test_a_fit_ends_at_its_public_limit_and_starts_apart() -> None:
    codes, queries = dependent(300, (3, 2, 4), 0), Marginals.of_order((3, 2, 4), 2)
    plan = noisy_tables.plan(queries, 300, PrivacyParams(1.0), relations="all")
    tables = plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
    model = latent_classes.fit(tables, FitPlan(8, 2, 40, False, False, 1))
    assert len(model.weights) <= 16
    assert len(np.unique(model.levels[0].round(6), axis=0)) > 1


@pytest.mark.thin
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("n", [10, 1_000])
@pytest.mark.dear("1000-1e-06")
def test_where_noise_hides_all_pairs_none_is_measured(delta, n) -> None:
    """Both expectations are then near 1, the largest there is, and still have an order."""
    queries = Marginals.of_order((8,) * 40, 2)
    (first, *_) = plan_queries(queries, n, PrivacyParams(0.1, delta))
    every = noisy_tables.plan(queries, n, PrivacyParams(0.1, delta), relations="all")
    assert first.public["relations"] == "none"
    assert first.ranked < every.ranked
    assert every.expected_variation < 1
