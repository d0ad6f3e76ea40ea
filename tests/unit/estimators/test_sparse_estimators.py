"""Models over an l1 ball: they learn, in units, from schemas, with groups whose shares are public or released."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateLasso,
    PrivateSparseLogisticRegression,
    PrivateWorstGroupClassifier,
    Schema,
)
from dpconvex.algorithms.minimax.group_shares import GroupShares
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import PrivacyParams
from dpconvex.randomness import SeededSource

SCHEMA = Schema(
    (NumericColumn("age", 0, 100), CategoricalColumn("side", ("left", "right", "none"))),
    ClassTarget("ill", ("no", "yes")),
)


def table(n: int = 4000) -> pa.Table:
    rng = np.random.default_rng(0)
    age, side = rng.uniform(0, 100, n), rng.choice(["left", "right", "none"], n)
    ill = np.where((age > 50) ^ (side == "none"), "yes", "no")
    return pa.table({"age": age, "side": side, "ill": ill})


def test_a_lasso_finds_few_coefficients_in_the_users_units() -> None:
    """Population slopes 3 and -2; the ball of radius 0.3 times 20 holds them. Errors beyond 1.2 fail."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (8000, 200))
    y = 5 + 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(size=8000)
    model = PrivateLasso(epsilon=4.0, feature_bound=1.0, target_bounds=(-5, 15), radius=0.3, random_state=0).fit(X, y)
    assert np.argsort(-np.abs(model.coef_))[:2].tolist() == [0, 1]
    assert np.abs(model.coef_[:2] - [3, -2]).max() < 1.2
    assert abs(model.intercept_ - 5) < 1
    assert model.predict(1e9 * X).max() <= 15


def test_bounds_of_columns_scale_and_center() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(10, 20, (4000, 3))
    y = X[:, 0] - 15 > 0
    model = PrivateSparseLogisticRegression(
        epsilon=4.0, feature_bounds=(10, 20), radius=10, random_state=0, classes=[0, 1]
    ).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.classes_.tolist() == [False, True]
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(4000))
    np.testing.assert_allclose(np.log(model.predict_proba(X)), model.predict_log_proba(X), atol=1e-9)


@pytest.mark.gate
def test_a_schema_gives_features_targets_and_groups() -> None:
    one = PrivateSparseLogisticRegression(epsilon=4.0, schema=SCHEMA, random_state=0).fit(table())
    assert one.classes_.tolist() == ["no", "yes"]
    assert one.n_features_in_ == 2
    worst = PrivateWorstGroupClassifier(
        epsilon=4.0, schema=SCHEMA, group_column="side", algorithm="vertex_mirror_descent", random_state=0
    ).fit(table())
    assert worst.groups_.tolist() == ["left", "right", "none"]
    assert worst.group_shares_ == pytest.approx(np.full(3, 1 / 3), abs=0.05)
    assert worst.group_weights_.sum() == pytest.approx(1)
    with pytest.raises(InvalidParameterError, match="group_column"):
        PrivateWorstGroupClassifier(schema=SCHEMA, group_column="age").fit(table())
    numeric = Schema((NumericColumn("age", 0, 100),), NumericTarget("age2", 0, 200))
    two = pa.table({"age": np.arange(100.0), "age2": 2 * np.arange(100.0)})
    assert PrivateLasso(epsilon=4.0, schema=numeric, random_state=0).fit(two).predict(two).max() <= 200
    with pytest.raises(InvalidParameterError, match="y"):
        PrivateLasso(schema=SCHEMA, target_bounds=(0, 1)).fit(table())


def groups_data(n: int = 20_000) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    group = (rng.random(n) < 0.2).astype(int)
    return X, (np.where(group, X[:, 1], X[:, 0]) > 0).astype(int), group


@pytest.mark.slow
def test_the_worst_group_gains_over_the_mean() -> None:
    X, y, group = groups_data()
    small = group == 1
    mean = PrivateSparseLogisticRegression(
        epsilon=8.0, feature_bound=1.0, radius=3.0, random_state=0, classes=[0, 1]
    ).fit(X, y)
    worst = PrivateWorstGroupClassifier(
        epsilon=8.0,
        feature_bound=1.0,
        radius=3.0,
        groups=[0, 1],
        group_shares=(0.8, 0.2),
        random_state=0,
        classes=[0, 1],
    ).fit(X, y, groups=group)
    assert worst.score(X[small], y[small]) > mean.score(X[small], y[small]) + 0.05


def test_shares_are_released_for_their_part_of_the_budget() -> None:
    """Noise of scale 2/0.1 = 20 records on 400 and 1600: 0.1 off is 10 scales, chance below 1e-4."""
    plan = GroupShares(2000, 2, PrivacyParams(2.0, 1e-6), 0.05)
    shares = plan.run(np.repeat([0, 1], [1600, 400]), SeededSource(0))
    assert shares == pytest.approx([0.8, 0.2], abs=0.1)
    assert plan.run(np.zeros(2000, dtype=int), SeededSource(1))[1] >= 0.05
    assert plan.rest.epsilon <= 1.9
    assert plan.mechanism.event.to_dict()
    X, y, group = groups_data(2000)
    model = PrivateWorstGroupClassifier(
        epsilon=2.0, feature_bound=1.0, groups=["a", "b"], algorithm="vertex_mirror_descent", classes=[0, 1]
    ).fit(X, y, groups=np.array(["a", "b"])[group])
    assert [release.mechanism for release in model.certificate_.releases] == ["Laplace", "vertex sampling"]
    assert model.certificate_.spent_epsilon <= 2.0
    with mock.patch.object(LaplaceMechanism, "release", return_value=np.array([500.0, 1500.0])):
        model.fit(X, y, groups=np.array(["a", "b"])[group])
    assert model.group_shares_.tolist() == [0.25, 0.75]  # nothing but the noisy counts
    assert model.plan_.problem.factors == pytest.approx((4.0, 4 / 3))


def test_moving_one_record_moves_two_counts_by_one() -> None:
    """The lemma of the shares, over every pair of neighbors of a small data set."""
    first = np.array([0, 1, 2, 2])
    for i in range(4):
        for g in range(3):
            second = first.copy()
            second[i] = g
            change = np.bincount(first, minlength=3) - np.bincount(second, minlength=3)
            assert np.abs(change).sum() <= GroupShares(4, 3, PrivacyParams(1.0), 0.1).mechanism.sensitivity.value


@pytest.mark.parametrize(
    "wrong",
    [
        {"groups": None},
        {"groups": ["a"]},
        {"groups": ["a", "a"]},
        {"group_shares": (0.5,)},
        {"group_shares": (0.5, 0.0)},
        {"smallest_share": 0.0},
        {"smallest_share": 1.0},
        {"classes": [0, 1, 2]},
    ],
)
def test_public_mistakes_are_named(wrong: dict[str, Any]) -> None:
    X, y, group = groups_data(100)
    with pytest.raises(InvalidParameterError):
        PrivateWorstGroupClassifier(**{"feature_bound": 1.0, "groups": [0, 1], "classes": [0, 1], **wrong}).fit(
            X, y, groups=group
        )


def test_groups_must_be_given_and_fit() -> None:
    X, y, group = groups_data(100)
    model = PrivateWorstGroupClassifier(feature_bound=1.0, groups=[0, 1], classes=[0, 1])
    for given in (None, group[:-1], np.array(["a"] * 100)):
        with pytest.raises(InvalidDataError):
            model.fit(X, y, groups=given)


def test_sorted_records_are_learnt_as_well_as_shuffled_ones() -> None:
    """One-pass methods would see one class first; fit shuffles."""
    X, y, _ = groups_data(20_000)
    order = np.argsort(y, kind="stable")
    model = PrivateSparseLogisticRegression(
        epsilon=4.0, feature_bound=1.0, radius=3.0, algorithm="vertex_mirror_descent", random_state=0, classes=[0, 1]
    ).fit(X[order], y[order])
    assert model.score(X, y) > 0.7
