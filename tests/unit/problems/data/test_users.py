"""Records grouped by user, their weights, and the weighted objective."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from numpy.dtypes import StringDType

from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._matrices import user_labels
from dpconvex.losses import HingeLoss, LogisticLoss, SoftmaxLoss
from dpconvex.problems import DataDomain, LinearModelProblem, Records, RegularizedRisk, UserGroups
from dpconvex.problems.data.users import exact_weights, pick_users, record_weights
from dpconvex.solvers import (
    DualCoordinateAscent,
    Katyusha,
    NewtonCholesky,
    SmoothedAcceleratedGradient,
    StochasticSubgradient,
)


def rows_of(groups: UserGroups, user: int) -> list[int]:
    rows = np.arange(groups.n_records) if groups.order is None else groups.order
    return rows[groups.starts[user] : groups.starts[user + 1]].tolist()


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.sampled_from(["int", "text", "float32", "date"]))
def test_groups_are_those_of_a_dictionary(labels: list[int], kind: str) -> None:
    array = np.array(labels)
    if kind == "date":
        array = array.astype("datetime64[D]")
    elif kind != "int":
        array = array.astype(str if kind == "text" else kind)
    groups = UserGroups.of(array)
    expected = {label: [i for i, one in enumerate(array) if one == label] for label in np.unique(array)}
    assert [rows_of(groups, u) for u in range(groups.n_users)] == list(expected.values())
    assert groups.n_records == len(labels)
    assert groups.sizes.tolist() == [len(rows) for rows in expected.values()]
    values = np.arange(groups.n_users, dtype=float)
    assert groups.spread(values).tolist() == [list(expected).index(one) for one in array]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_picked_users_have_their_own_records_in_order(labels, random) -> None:
    names = np.array(labels)
    groups = UserGroups.of(names)
    present = np.unique(names)
    users = list(range(len(present)))
    random.shuffle(users)
    users = np.array(users[: random.randint(1, len(users))])
    rows, picked = pick_users(groups, users)
    assert picked.n_users == len(users)
    for k, user in enumerate(users):
        mine = rows[picked.starts[k] : picked.starts[k + 1]]
        assert mine.tolist() == np.flatnonzero(names == present[user]).tolist()


def test_grouped_rows_are_not_sorted_again() -> None:
    assert UserGroups.of(np.array([1, 1, 2, 5, 5])).order is None
    assert UserGroups.of(np.array([2, 1])).order is not None


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1.0, np.nan, 1.0, np.nan]),
        np.array(["2020-01-01", "NaT", "2020-01-01", "NaT"], dtype="datetime64[D]"),
        np.array(["a", None, "a", float("nan")], dtype=object),
        *(np.array(["a", none, "a", none], StringDType(na_object=none)) for none in (None, float("nan"), pd.NA)),
        np.array(["a", "", "a", ""], StringDType()),
    ],
)
def test_missing_labels_are_one_user(labels: np.ndarray) -> None:
    groups = UserGroups.of(labels)
    assert sorted(rows_of(groups, u) for u in range(groups.n_users)) == [[0, 2], [1, 3]]


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, pa.array], ids=lambda kind: kind.__module__)
def test_zeros_of_either_sign_are_one_user(kind: Any) -> None:
    groups = UserGroups.of(user_labels(kind([0.0, -0.0, 1.0])))
    assert sorted(groups.sizes) == [1, 2]


ODD = ["NaN", "sNaN", "Infinity", "-Infinity", "1e999999", "1e999999999999999999", "1e-999999999999999999", "-0"]


@pytest.mark.parametrize("kind", [list, lambda x: np.array(x, object), lambda x: pd.Series(x, dtype=object)])
def test_equal_numbers_of_any_type_are_one_user(kind: Any) -> None:
    """Databases return decimals: 5, 5.0 and 5.00 were three users. Odd numbers end at once, and raise nothing."""
    fives = [Decimal("5"), Decimal("5.0"), Decimal("50E-1"), Decimal("0.5E1"), Fraction(5), 5, 5.0, np.float32(5)]
    halves = [Decimal("1.5"), Decimal("1.50"), 1.5]
    large = [Decimal("1e30"), Decimal(10**30), 10**30, Decimal("1e30") + Decimal("0E-1")]
    labels = [*fives, *halves, *large, Fraction(1, 3), 5 + 1j, np.complex128(2)]
    assert sorted(UserGroups.of(user_labels(kind(labels))).sizes) == [1, 1, 1, 3, 4, 8]
    odd = UserGroups.of(user_labels(kind([*map(Decimal, ODD), None])))
    assert sorted(odd.sizes)[-1] >= 3  # neither kind of NaN is a label
    assert [len(UserGroups.of(user_labels(kind([None, Decimal(text)]))).sizes) for text in ODD[:2]] == [1, 1]


def test_missing_durations_in_lists_are_one_user() -> None:
    missing, day = np.timedelta64("NaT"), np.timedelta64(1, "D")
    groups = UserGroups.of(user_labels([missing, day, missing, day]))
    assert sorted(rows_of(groups, u) for u in range(groups.n_users)) == [[0, 2], [1, 3]]


def test_objects_are_told_apart_by_text_in_its_order_however_long_it_is() -> None:
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    long = "x" * 10**6  # as an array of texts of one width this would be 160 GB
    labels = np.array([2, "2", long, Mute(), None, "", 1.5, *range(3, 40_000)], dtype=object)
    groups = UserGroups.of(labels)
    assert groups.n_users == 4 + 40_000 - 3
    firsts = [rows_of(groups, u) for u in (0, 1, groups.n_users - 1)]
    assert firsts == [[3, 4, 5], [6], [2]]  # missing, "1.5", ..., the long one


@pytest.mark.parametrize("labels", [np.zeros((2, 2)), np.zeros((2, 1)), np.array(3)])
def test_labels_that_are_no_vector_are_refused(labels: np.ndarray) -> None:
    with pytest.raises(InvalidDataError, match="groups has shape"):
        UserGroups.of(labels)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_a_users_weights_add_up_to_at_most_one(sizes: list[int]) -> None:
    groups = UserGroups(np.concatenate([[0], np.cumsum(sizes)]))
    weights = record_weights(groups)
    for user, size in enumerate(sizes):
        one = weights[groups.starts[user]]
        assert (weights[groups.starts[user] : groups.starts[user + 1]] == one).all()
        exact = Fraction(1, size)
        assert exact * (1 - Fraction(1, 2**50)) <= Fraction(float(one)) <= exact


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_exact_weights_add_up_exactly_in_any_order(sizes: list[int]) -> None:
    """Those of a user to at most 1, and nearly 1; sums of all of them are floats."""
    groups = UserGroups(np.cumsum([0, *sizes]))
    weights = exact_weights(groups)
    for first, stop in pairwise(groups.starts.tolist()):
        total = (stop - first) * Fraction(weights[first])
        assert 1 - Fraction(stop - first, 2**32) <= total <= 1
    assert float(weights.sum()) == sum(map(Fraction, weights[groups.starts[:-1]] * sizes))


@pytest.mark.gate
def test_exact_weights_of_two_million_users_add_up_exactly() -> None:
    many = exact_weights(UserGroups(3 * np.arange(2**21 + 1)))
    assert sum(map(Fraction, set(many))) * 3 * 2**21 == many.sum() < 2**21


def test_all_users_count_the_same() -> None:
    groups = UserGroups(np.array([0, 1, 5]), np.array([4, 0, 1, 2, 3]))
    assert record_weights(groups) == pytest.approx([*4 * [1 / 4], 1])
    assert record_weights(groups, 0.5) == pytest.approx([*4 * [1 / 8], 1 / 2])


def weighted_and_repeated(loss, rng):
    """An objective with weights k/N, and the average over records repeated k times."""
    counts = rng.integers(1, 5, 60)
    X, domain = rng.uniform(-0.5, 0.5, (60, 3)), DataDomain.l2_ball(3, 1.0).with_intercept(1.0)
    y = rng.integers(0, 3, 60).astype(float) if loss.n_outputs > 1 else rng.choice([-1.0, 1.0], 60)
    dim = loss.n_outputs * 4
    linear = 0.1 * rng.standard_normal(dim)
    weights = counts / counts.sum()
    first = RegularizedRisk(loss, Records.clipped(X, domain), y, 0.1, linear, weights)
    again = np.repeat(np.arange(60), counts)
    return first, RegularizedRisk(loss, Records.clipped(X[again], domain), y[again], 0.1, linear)


@pytest.mark.parametrize("loss", [LogisticLoss(), SoftmaxLoss(3)], ids=lambda loss: loss.name)
def test_weights_are_repetitions(loss) -> None:
    rng = np.random.default_rng(0)
    weighted, repeated = weighted_and_repeated(loss, rng)
    w, v = rng.standard_normal((2, weighted.dim))
    assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-12)
    assert weighted.gradient(w) == pytest.approx(repeated.gradient(w), rel=1e-9)
    value, gradient = weighted.value_and_gradient(w)
    assert value == weighted.value(w)
    assert gradient == pytest.approx(weighted.gradient(w), rel=1e-12)
    assert weighted.hessian(w) == pytest.approx(repeated.hessian(w), rel=1e-4, abs=1e-6)
    assert weighted.hessian_product(w, v) == pytest.approx(repeated.hessian_product(w, v), rel=1e-9)
    found = NewtonCholesky().solve(weighted, 1e-9).point
    assert found == pytest.approx(NewtonCholesky().solve(repeated, 1e-9).point, abs=1e-8)


def test_a_subset_keeps_the_size_of_the_objective() -> None:
    weighted, _ = weighted_and_repeated(LogisticLoss(), np.random.default_rng(1))
    part = weighted.subset(2)
    assert part.weights is not None
    assert set(part.weights) <= set(2 * weighted.weights)
    w = np.ones(4)
    assert part.value(w) == pytest.approx(weighted.value(w), rel=0.5)


@pytest.mark.gate
def test_dual_coordinate_ascent_treats_weights() -> None:
    rng = np.random.default_rng(2)
    weighted, repeated = weighted_and_repeated(HingeLoss(), rng)
    found = DualCoordinateAscent().solve(weighted, 1e-2)
    again = DualCoordinateAscent().solve(weighted, 1e-2, start=found.point)
    other = DualCoordinateAscent().solve(repeated, 1e-2).point
    rough = SmoothedAcceleratedGradient().solve(weighted, 0.1).point
    assert found.accuracy.bound <= 1e-2
    assert np.linalg.norm(found.point - other) <= 2e-2
    assert np.linalg.norm(found.point - again.point) <= 2e-2
    assert np.linalg.norm(found.point - rough) <= 0.11


@pytest.mark.parametrize("solver", [Katyusha(), StochasticSubgradient()], ids=lambda solver: type(solver).__name__)
def test_one_record_at_a_time_methods_refuse_weights(solver) -> None:
    weighted, repeated = weighted_and_repeated(LogisticLoss(), np.random.default_rng(3))
    solver.solve(repeated, 0.1)
    with pytest.raises(InvalidParameterError, match="equal weight"):
        solver.solve(weighted, 0.1)


def test_weights_of_another_length_are_refused() -> None:
    records = Records.clipped(np.zeros((3, 1)), DataDomain.l2_ball(1, 1.0))
    with pytest.raises(InvalidDataError, match="weights have shape"):
        RegularizedRisk(LogisticLoss(), records, np.ones(3), 1.0, weights=np.ones(2))


def user_problem(**changes) -> LinearModelProblem:
    facts = {"loss": LogisticLoss(), "domain": DataDomain.l2_ball(2, 1.0), "n": 3, "radius": 1.0}
    return LinearModelProblem(**{**facts, "records_per_user": 9, **changes})


def test_problems_over_users_want_groups_of_the_planned_number() -> None:
    X, y = np.zeros((4, 2)), np.ones(4)
    groups = UserGroups.of(np.array([0, 0, 1, 2]))
    problem = user_problem()
    assert problem.grouped
    assert problem.weights(groups) == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3])
    assert sum(map(Fraction, problem.weights(groups)[:2].tolist())) <= Fraction(1, 3)
    assert problem.objective(X, y, 0.1, groups).value(np.zeros(2)) == pytest.approx(np.log(2))
    for bad, n in ((None, 3), (groups, 2)):
        with pytest.raises(InvalidDataError, match="groups"):
            user_problem(n=n).objective(X, y, 0.1, bad)
    with pytest.raises(InvalidDataError, match="groups"):
        user_problem(n=4, records_per_user=None).objective(X, y, 0.1, groups)


@pytest.mark.parametrize("change", [{"tilt": 1.0}, {"attack_radius": 0.1}])
def test_users_are_for_plain_averages(change) -> None:
    with pytest.raises(InvalidParameterError, match="users"):
        user_problem(**change)
    with pytest.raises(InvalidParameterError, match="records_per_user"):
        user_problem(records_per_user=0)


def test_no_records_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="holds no records"):
        UserGroups.of(np.array([]))
