"""Noisy tables: sensitivity by enumeration, budget, fallbacks, intervals; latent classes: slopes, folds, records."""

from __future__ import annotations

from itertools import combinations, product
from math import pi
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.queries import latent_classes, noisy_tables
from dpconvex.algorithms.queries.base import fit_histogram, planned_steps
from dpconvex.algorithms.queries.latent_classes import FitPlan, LatentClasses
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.algorithms.queries.released_tables import Histogram
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Mechanism
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.privacy.ledger import fits, total_epsilon
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource
from dpconvex_experiments.shared import largest_error

ADULT = (16, 8, 16, 16, 7, 14, 6, 5, 2, 16, 16, 16, 41, 2)
SMALL = Marginals.of_order((2, 3, 2), 2)


def counted(plan, codes) -> list[np.ndarray]:
    """What reaches the mechanisms."""
    values = []

    def release(self, value, *_):
        values.append(np.array(value, dtype=float))
        return values[-1]

    with mock.patch.object(Mechanism, "release", release):
        plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
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


@pytest.mark.parametrize("epsilon", [0.1, pi, 10.0])
def test_every_table_is_in_the_ledger_and_scales_are_few(epsilon) -> None:
    for shape, delta in ((ADULT, 0.0), (ADULT, 1e-6), ((8,) * 60, 1e-6), (tuple(range(2, 42)), 0.0)):
        queries, privacy = Marginals.of_order(shape, 2), PrivacyParams(epsilon, delta)
        plan = noisy_tables.plan(queries, 45_222, privacy, relations="all")
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
    with_target = noisy_tables.plan(queries, 45_222, PrivacyParams(0.3), relations="center")
    assert {subset for subset in with_target.subsets if len(subset) == 2} == {(axis, 13) for axis in range(13)}
    with pytest.raises(InvalidParameterError, match="center"):
        noisy_tables.plan(Marginals(ADULT, every), 45_222, PrivacyParams(0.3), relations="center")


def test_the_choice_among_methods_follows_the_noise() -> None:
    """Adult: a chosen forest between all pairs and columns alone; where nothing is chosen, the tables as before."""
    queries = Marginals(ADULT, tuple(combinations(range(14), 2)), center=13)
    chosen = {0.02: ("noisy_tables", 0), 0.3: ("noisy_tree", 0), 1.0: ("noisy_tree", 0), 10.0: ("noisy_tables", 0)}
    for epsilon, (name, place) in chosen.items():
        assert plan_queries(queries, 45_222, PrivacyParams(epsilon))[place].algorithm == name
    for epsilon in (0.1, 1.0):
        assert plan_queries(queries, 45_222, PrivacyParams(epsilon, 1e-6))[0].algorithm == "noisy_tables"
    assert plan_queries(Marginals.of_order((4, 5), 1), 500, PrivacyParams(1.0))[0].algorithm == "noisy_tables"


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
def test_intervals_hold_as_often_as_they_say(delta, together) -> None:
    """120 releases of 6 tables at level 0.8, within 5 deviations; the cells of a table at once more often."""
    shape, n = (2, 3, 4), 400
    codes, queries = dependent(n, shape, 0), Marginals.of_order(shape, 2)
    plan = noisy_tables.plan(queries, n, PrivacyParams(1.0, delta), relations="all")
    tables = {subset: Marginals(shape, (subset,)) for subset in plan.subsets}
    truth = {s: (q.record_sums(codes) / n).reshape([shape[a] for a in s]) for s, q in tables.items()}
    held = {1: [], 2: []}
    for seed in range(120):
        found = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
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
    model = latent_classes.fit(tables, FitPlan(8, 2, 40, False, False))
    assert len(model.weights) <= 16
    assert len(np.unique(model.levels[0].round(6), axis=0)) > 1
