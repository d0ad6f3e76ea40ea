"""All tables in one matrix: sensitivity by enumeration, what is read off it, when it is taken, its coordinates."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement, product
from unittest import mock

import numpy as np
import pytest

from dpconvex.algorithms.queries import latent_classes, matrix_tables, noisy_tables, noisy_tree
from dpconvex.algorithms.queries.found_bins import FoundBinsPlan, Open
from dpconvex.algorithms.queries.latent_classes import FitPlan
from dpconvex.algorithms.queries.registry import plan_queries
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Mechanism
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Unit
from dpconvex.privacy.ledger import fits, total_epsilon
from dpconvex.problems import UserGroups
from dpconvex.problems.data.users import exact_weights
from dpconvex.problems.queries import Marginals
from dpconvex.randomness import SeededSource

PROMISES = (PrivacyParams(3.0), PrivacyParams(0.1, 1e-2))
BOTH = pytest.mark.parametrize("promise", PROMISES, ids=["pure", "gaussian"])


def planned(shape, n, privacy=None, **options) -> noisy_tables.NoisyTablesPlan:
    privacy = PrivacyParams(3.0) if privacy is None else privacy
    return noisy_tables.plan(Marginals.of_order(shape, 2), n, privacy, relations="all", noise="matrix", **options)


def given(plan, codes, weights=None) -> np.ndarray:
    """The matrix that reaches the mechanism, symmetric."""
    found, places = [], plan._matrix.places

    def release(self, value, *_):
        matrix = np.zeros((1 + sum(plan.queries.shape) - len(plan.queries.shape),) * 2)
        matrix[places] = value
        found.append(matrix + np.triu(matrix, 1).T)
        return value

    with mock.patch.object(Mechanism, "release", release):
        plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases), weights)
    return found[0]


def moved(plan, sums) -> float:
    """The largest distance of two of these matrices, in the norm that is charged, over what is charged."""
    (release,) = plan.releases
    if plan.law == "matrix":
        norms = [float(np.abs(np.linalg.eigvalsh(sums - one)).sum(-1).max()) for one in sums]
    else:
        norms = [float(np.sqrt(((sums - one) ** 2).sum((-1, -2)).max() / 2)) for one in sums]
    return max(norms) / release.sensitivity.value


@BOTH
@pytest.mark.parametrize("shape", [(2, 2, 2, 2), (2, 3, 2), (5, 4), (6, 1, 6), (3, 4, 5)])
def test_the_charged_cost_is_what_the_worst_neighbors_cost_and_no_more(shape, promise) -> None:
    """All pairs of records of a domain: the largest distance is nearly attained and never exceeds the claim."""
    plan, delta = planned(shape, 3, promise), promise.delta
    assert plan.law == ("gaussian" if delta else "matrix")
    (release,) = plan.releases
    assert release.times == 1
    assert 0.999999 * promise.epsilon < total_epsilon(plan.releases, delta) <= promise.epsilon
    assert fits(plan.releases, plan.privacy)
    rest = [[0] * len(shape), [size - 1 for size in shape]]
    sums = np.array([given(plan, np.array([one, *rest])) for one in product(*map(range, shape))])
    assert (0.75 if delta else 0.97) < moved(plan, sums) <= 1


@BOTH
def test_a_replaced_user_costs_what_is_charged_and_no_more(promise) -> None:
    """All users of up to three records for all others, under the first or the last label."""
    domain = list(product(range(2), range(3)))
    plan = planned((2, 3), 4, replace(promise, unit=Unit.USER))
    assert plan.releases[0].sensitivity.unit == Unit.USER
    rest = [(label, row) for label, rows in (("b", domain), ("c", domain[:2]), ("d", domain[1:2])) for row in rows]
    sums = []
    for name in "az":
        for rows in (each for m in (1, 2, 3) for each in combinations_with_replacement(domain, m)):
            labelled = [*rest, *((name, row) for row in rows)]
            weights = exact_weights(UserGroups.of(np.array([label for label, _ in labelled])))
            sums.append(given(plan, np.array([row for _, row in labelled]), weights))
    assert 0.9 < moved(plan, np.array(sums)) <= 1


@BOTH
def test_pairs_out_of_order_or_listed_twice_have_noise_of_their_own(promise) -> None:
    """In one matrix they would be no second moments of a record, and a record would move it by up to 1.8 times more."""
    shape, pairs = (3,) * 20, [*combinations(range(20), 2)]
    assert noisy_tables.plan(Marginals(shape, tuple(pairs)), 10_000, promise).joint
    for wrong in (tuple(pairs[::-1]), (*pairs[:-1], pairs[0]), (pairs[1], pairs[0], *pairs[2:])):
        assert not noisy_tables.plan(Marginals(shape, wrong), 10_000, promise).joint
        with pytest.raises(InvalidParameterError, match="once and in order"):
            noisy_tables.plan(Marginals(shape, wrong), 10_000, promise, relations="all", noise="matrix")


def test_rounding_of_sums_is_charged() -> None:
    with_delta = PROMISES[1]
    few, many = planned((2, 5), 10, with_delta), planned((2, 5), 10**15, with_delta)
    assert many.releases[0].sensitivity.value > few.releases[0].sensitivity.value + 0.2
    few, many = planned((2, 5), 10), planned((2, 5), 10**15)
    assert 2 < few.releases[0].sensitivity.value < 2 * (1 + 1e-9)
    assert many.releases[0].sensitivity.value > 2.5
    codes = np.random.default_rng(0).integers(0, (2, 5), (1000, 2))
    counts = [table * 10**12 + 1.0 for table in noisy_tables.table_counts(codes, (2, 5), many.subsets)]
    exact = np.array(counts[2], dtype=object).reshape(2, 5)
    parts = [w * latent_classes.coordinates(k) for w, k in zip(many._matrix.weights[1:], (2, 5), strict=True)]
    entry = parts[0].astype(object).T @ exact @ parts[1].astype(object)
    with mock.patch.object(noisy_tables, "table_counts", return_value=tuple(counts)):
        assert np.abs(given(many, codes)[1, 2:] - entry.astype(float)).max() < 0.25


@BOTH
def test_noise_has_the_stated_deviations_and_tables_the_known_total(promise) -> None:
    shape, n = (2, 3, 2, 5), 400
    plan, codes = planned(shape, n, promise), np.random.default_rng(0).integers(0, shape, (n, 4))
    found = [plan.release(codes, SeededSource(k), Ledger(plan.privacy, plan.releases)) for k in range(400)]
    assert found[0].subsets == plan.subsets
    for k, subset in enumerate(plan.subsets):
        noise = np.array([each.noisy[k] for each in found])
        truth = noisy_tables.table_counts(codes, shape, (subset,))[0].reshape(noise[0].shape) / n
        np.testing.assert_allclose(noise.sum(axis=tuple(range(1, noise.ndim))), 1, atol=1e-9)
        noise -= truth
        deviation = found[0].deviations[k]
        assert noise.std() == pytest.approx(deviation, rel=0.2), subset
        assert np.abs(noise.mean(axis=0)).max() < 5 * deviation / 400**0.5, subset
        if len(subset) == 2:  # tables agree with those of columns, and coordinates have uncorrelated noise
            np.testing.assert_allclose(found[0].noisy[k].sum(axis=1), found[0].noisy[subset[0]], atol=1e-9)
            U, V = (latent_classes.coordinates(shape[axis]) for axis in subset)
            inner = (U.T @ noise @ V).reshape(400, -1)
            assert inner.std() == pytest.approx(found[0].coordinates[k], rel=0.2)
            assert np.abs(np.corrcoef(inner.T) - np.eye(inner.shape[1])).max() < 0.35


@BOTH
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.dear("False")
def test_intervals_hold_as_often_as_they_say(together, promise) -> None:
    """200 releases of 10 tables: a standard error of at most 0.02 for whole tables, of 0.005 for cells."""
    shape, n = (2, 3, 2, 4), 5000
    plan, codes = planned(shape, n, promise), np.random.default_rng(1).integers(0, shape, (n, 4))
    truth = [noisy_tables.table_counts(codes, shape, (s,))[0] / n for s in plan.subsets]
    held = []
    for seed in range(200):
        tables = plan.release(codes, SeededSource(seed), Ledger(plan.privacy, plan.releases))
        for subset, shares in zip(plan.subsets, truth, strict=True):
            table = shares.reshape([shape[axis] for axis in subset])
            found = tables.interval(subset, table, 0.9, together)
            inside = (found.low <= table) & (table <= found.high)
            held.append(inside.all() if together else inside.mean())
    assert 0.88 < np.mean(held) < (0.985 if together else 0.92)


@pytest.mark.parametrize(
    ("shape", "law", "joint"),
    [((2,) * 12, "matrix", True), ((3,) * 5, "matrix", False), ((16, 16, 16), "laplace", False)],
)
def test_the_smaller_noise_is_taken(shape, law, joint) -> None:
    queries = Marginals.of_order(shape, 2)
    plan = noisy_tables.plan(queries, 10_000, PrivacyParams(1.0), relations="all")
    assert plan.law == law
    assert fits(plan.releases, plan.privacy)
    with_delta = noisy_tables.plan(queries, 10_000, PrivacyParams(0.1, 1e-2), relations="all")
    assert (with_delta.law, with_delta.joint) == ("gaussian", joint)
    assert fits(with_delta.releases, with_delta.privacy)


def test_one_matrix_needs_all_pairs_replaced_units_and_with_a_delta_no_impossible_values() -> None:
    shape, promise = (2,) * 12, PrivacyParams(1.0)
    queries = Marginals.of_order(shape, 2)
    some = Marginals(shape, queries.subsets[:-1])
    zeros = replace(queries, impossible=(((0, 1), (1, 1)),))
    cases = (
        (some, promise),
        (zeros, PrivacyParams(1.0, 1e-6)),
        (queries, PrivacyParams(1.0, neighboring=Neighboring.ADD_OR_REMOVE_ONE)),
        (Marginals.of_order((200, 200, 200), 2), promise),
    )
    for each, privacy in cases:
        assert not noisy_tables.plan(each, 10_000, privacy, relations="all").joint
        with pytest.raises(InvalidParameterError, match="noise"):
            noisy_tables.plan(each, 10_000, privacy, noise="matrix")
    assert noisy_tree.plan(queries, 10_000, promise).law == "laplace"
    plan = noisy_tables.plan(zeros, 10_000, promise, relations="all")
    assert plan.law == "matrix"
    model = plan.run(np.random.default_rng(0).integers(0, 2, (10_000, 12)), SeededSource(0)).model
    assert model.marginal((0, 1))[1, 1] == 0.0
    drawn = model.sample(2000, np.random.default_rng(0))
    assert not ((drawn[:, 0] == 1) & (drawn[:, 1] == 1)).any()


def test_ranges_are_found_besides() -> None:
    """What is left of epsilon goes to one matrix: all of it is spent, and a run is certified."""
    shape, n = (4, *(2,) * 12), 3000
    queries, open_ = Marginals.of_order(shape, 2), Open((0,))
    plan = plan_queries(queries, n, PrivacyParams(1.0), "noisy_tables", open=open_)[0]
    assert isinstance(plan, FoundBinsPlan)
    assert plan.noise_name == "matrix"
    assert 0.99 < total_epsilon(plan.releases, 0.0) <= 1
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.uniform(0, 50, n), rng.integers(0, 2, (n, 12))])
    source, ledger = SeededSource(0), Ledger(plan.privacy, plan.releases)
    begun = plan._begun(records, None, source, ledger)
    released = begun.then.release(begun.binned(records), source, ledger)
    assert (released.law, ledger.recorded[-1].label) == ("matrix", matrix_tables.LABEL)
    assert "one noise" in begun.certificate(source).theorem.lower()
    np.testing.assert_allclose(released.noisy[0], 0.25, atol=0.1)


def test_slopes_are_those_of_the_objective_in_its_coordinates() -> None:
    shape, rng = (2, 3, 4), np.random.default_rng(0)
    plan = planned(shape, 50, PrivacyParams(1.0))
    tables = plan.release(rng.integers(0, shape, (50, 3)), SeededSource(0), Ledger(plan.privacy, plan.releases))
    target = latent_classes._Target(tables, ())
    for name in ("shares", "inverse", "one", "one_weight", "basis"):
        setattr(target, name, getattr(target, name).astype(np.float64))
    raw: list[latent_classes.Floats] = [rng.standard_normal((5, 9)), rng.standard_normal(5)]

    def objective() -> float:
        """From the tables of cells: their coordinates, weighted by the noise."""
        state, total = latent_classes._state(target, raw), 0.0
        starts = np.cumsum((0, *shape))
        for subset, noisy, spread in zip(tables.subsets, tables.noisy, tables.coordinates, strict=True):
            parts = [state.values[:, starts[axis] : starts[axis + 1]] for axis in subset]
            weight = (min(tables.coordinates) / spread) ** 2
            if len(subset) == 1:
                total += weight * ((state.weights @ parts[0] - noisy) ** 2).sum() / 2
                continue
            gap = parts[0].T @ (state.weights[:, None] * parts[1]) - noisy
            U, V = (latent_classes.coordinates(shape[axis]) for axis in subset)
            total += weight * ((U.T @ gap @ V) ** 2).sum() / 2
        return total

    slopes = latent_classes._slopes(target, latent_classes._state(target, raw), target.inverse)
    for part, slope in zip(raw, slopes, strict=True):
        for place in rng.integers(0, part.size, 6):
            step, flat = 1e-6, part.reshape(-1)
            flat[place] += step
            above = objective()
            flat[place] -= 2 * step
            below = objective()
            flat[place] += step
            assert slope.reshape(-1)[place] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7)


def test_a_model_of_many_columns_of_two_values_is_nearer_than_with_noise_on_every_table() -> None:
    """Sixteen columns that two hidden classes relate: mean error of a cell of a pair, one seed, short fits."""
    rng, n, p = np.random.default_rng(0), 20_000, 16
    rates = rng.uniform(0.1, 0.9, (2, p))
    codes = (rng.random((n, p)) < rates[rng.integers(0, 2, n)]).astype(int)
    queries = Marginals.of_order((2,) * p, 2)
    truth, errors = queries.record_sums(codes) / n, {}
    for noise in ("tables", "matrix"):
        plan = noisy_tables.plan(queries, n, PrivacyParams(1.0), relations="all", noise=noise)
        released = plan.release(codes, SeededSource(0), Ledger(plan.privacy, plan.releases))
        model = latent_classes.fit(released, FitPlan(10, 2, 200, False, False, 0))
        answers = model.answers(queries.subsets)
        errors[noise] = np.abs(answers - truth).mean()
    assert errors["matrix"] < 0.75 * errors["tables"]
    assert plan.fitting.fixed
    assert matrix_tables.LABEL in {release.label for release in plan.releases}
