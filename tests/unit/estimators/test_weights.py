"""Weights, sparse matrices, and the other things that `fit` and constructors take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone

from dpconvex import (
    NumericColumn,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    Schema,
)
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import bounds_of
from dpconvex.estimators._targets import shares_of_cap
from dpconvex.losses import HuberLoss, LogisticLoss, SoftmaxLoss, WeightedLoss
from dpconvex.problems import Block, DataDomain, LinearModelProblem
from dpconvex.verification import verify

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (400, 3))
Y = (X[:, 0] > 0).astype(int)
W = RNG.uniform(0, 4, 400)


def logistic(**more: Any) -> PrivateLogisticRegression:
    return PrivateLogisticRegression(2.0, feature_bounds=(-1, 1), classes=[0, 1], random_state=0, **more)


@pytest.mark.parametrize("base", [LogisticLoss(), SoftmaxLoss(4), HuberLoss(0.3, 2.0)], ids=repr)
def test_weights_multiply_the_loss_and_never_exceed_the_cap(base: Any) -> None:
    loss = WeightedLoss(base)
    targets = base.clip_targets(RNG.uniform(-3, 5, 50))
    weights = np.array([0, 0.25, 1, 7, -3, np.nan, np.inf, 1e300, -np.inf, 1e-300] * 5)
    z = RNG.normal(size=(50, base.n_outputs)) * 9
    z = z[:, 0] if base.n_outputs == 1 else z
    packed = loss.packed(targets, weights)
    np.testing.assert_array_equal(loss.clip_targets(packed), packed)
    expected = np.array([0, 0.25, 1, 1, 0, 0, 1, 1, 0, 0] * 5)
    found, shares = loss.unpacked(packed)
    np.testing.assert_allclose(found, targets, atol=1e-7)
    np.testing.assert_allclose(shares, expected, atol=1e-7)
    np.testing.assert_allclose(loss.value(z, packed), shares * base.value(z, found), rtol=1e-12)
    wild = loss.unpacked(loss.clip_targets(RNG.uniform(-1e12, 1e12, 99)))
    assert np.all((wild[1] >= 0) & (wild[1] <= 1))


def test_shares_of_the_cap_lie_between_0_and_1_whatever_weights_hold() -> None:
    weights = np.array([0, 1, 2, 7, -3, np.nan, np.inf, 1e300, -np.inf])
    np.testing.assert_array_equal(shares_of_cap(None, X, weights, 2.0), [0, 0.5, 1, 1, 0, 0, 1, 1, 0])


def test_a_weight_of_zero_is_within_the_range_of_losses() -> None:
    """A record of weight 1 in the place of one of weight 0 adds all of its loss: tilts and searches count that."""
    loss, domain = WeightedLoss(LogisticLoss()), DataDomain.l2_ball(2, 1.0)
    largest = float(loss.value(np.array([-3.0]), loss.packed(np.ones(1), np.ones(1)))[0])
    assert LinearModelProblem(loss, domain, 100, 3.0).loss_range(3.0) >= largest


def test_equal_weights_are_a_ridge_that_is_scaled() -> None:
    """Weights c of cap 2c minimize half of the loss: the same point as twice the ridge, where there is no noise."""
    common = {"l2": 0.02, "algorithm": "output_perturbation"}
    half = logistic(weight_cap=2.0, **common).set_params(epsilon=1e6).fit(X, Y, sample_weight=np.ones(400))
    full = logistic(slope_cap=1.0, algorithm="output_perturbation", l2=0.04).set_params(epsilon=1e6).fit(X, Y)
    np.testing.assert_allclose(half.coef_, full.coef_, rtol=1e-2, atol=1e-2)
    default = logistic(weight_cap=2.0, **common).set_params(epsilon=1e6).fit(X, Y)  # no weight is 1
    np.testing.assert_allclose(default.coef_, half.coef_, rtol=1e-2, atol=1e-2)


def test_noise_is_that_of_the_cap_whatever_weights_hold() -> None:
    plans = []
    for weights in (W, np.full(400, 1e300), np.full(400, np.nan), [None, "x", -1, np.inf] * 100):
        model = logistic(weight_cap=2.0).fit(X, Y, sample_weight=weights)
        plans.append(model.plan_)
        checks = verify(model.certificate_).checks
        assert [check.name for check in checks if check.passed is False] == ["noise is not seeded"]
    assert all(plan.mechanisms == plans[0].mechanisms for plan in plans)
    capped = logistic(weight_cap=2.0).fit(X, Y, sample_weight=np.minimum(W, 2))
    np.testing.assert_array_equal(logistic(weight_cap=2.0).fit(X, Y, sample_weight=W).coef_, capped.coef_)


ONES = np.random.default_rng(1).uniform(0, 1, (4000, 3))
PRICES = 20 * ONES[:, 0] - 9 * ONES[:, 1] + np.random.default_rng(2).normal(size=4000)
ROOMY = {"feature_bounds": ([0, -5, 0], [1, 5, 9]), "random_state": 0}


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(2000), 2)], ids=["records", "users"])
@pytest.mark.parametrize("kind", [PrivateLinearRegression, PrivateLogisticRegression, PrivateAdditiveRegressor])
def test_weights_of_one_are_no_weights(kind: Any, groups: Any, epsilon: float) -> None:
    """Caps, looks and expectations are those of a fit without them, to the rounding of targets."""
    numbers = kind is not PrivateLogisticRegression
    own = {"target_bounds": (-100.0, 200.0)} if numbers else {"classes": [False, True]}
    plain, weighted = (kind(epsilon, **ROOMY, **own, **more) for more in ({}, {"weight_cap": 1.0}))
    y = PRICES if numbers else PRICES > 5
    plain.fit(ONES, y, groups=groups)
    weighted.fit(ONES, y, groups=groups, sample_weight=np.ones(4000))
    assert weighted.plan_.algorithm == plain.plan_.algorithm
    assert weighted.plan_.problem.loss.unweighted == plain.plan_.problem.loss
    assert weighted.plan_.predicted_error.expected == plain.plan_.predicted_error.expected
    assert weighted.ranges_ == plain.ranges_
    np.testing.assert_allclose(weighted.coef_, plain.coef_, rtol=1e-5)


def test_weights_travel_through_a_look_at_the_target() -> None:
    """A record's weight is what it was, and no weight, nor a wild target, moves what the look counts."""
    weights = np.where(np.arange(4000) % 2, 0.0, 0.5)
    model = PrivateLinearRegression(2.0, target_bounds=(-100, 200), weight_cap=1.0, **ROOMY)
    model.fit(ONES, np.where(weights > 0, PRICES, -90.0), sample_weight=weights)
    plan = model.plan_
    loss = plan.problem.loss
    assert plan.target_cells
    kept, found = loss.unpacked(plan._kept(loss.packed(PRICES / 300 - 1 / 6, weights)))
    np.testing.assert_allclose(found, weights, atol=1e-7)
    lower, upper = model.ranges_[0].lower, model.ranges_[0].upper
    np.testing.assert_allclose(kept, np.clip((PRICES - lower) / (upper - lower), 0, 1) - 0.5, atol=1e-5)
    hostile = np.array([np.nan, np.inf, -np.inf, 1e300, -0.0])
    for y in (hostile, np.repeat(hostile, 9)):
        assert np.isfinite(plan._kept(y)).all()
        assert (np.abs(plan._weighed(y)[0]) <= 0.5).all()
    light = PrivateLinearRegression(2.0, target_bounds=(-100, 200), weight_cap=1.0, **ROOMY)
    light.fit(ONES, np.where(weights > 0, PRICES, -90.0), sample_weight=1 - weights)
    assert light.ranges_ == model.ranges_


def test_class_weights_are_public_and_move_the_boundary() -> None:
    even, tilted = logistic().fit(X, Y), logistic(class_weight={0: 1, 1: 9}).fit(X, Y)
    assert tilted.predict(X).mean() > even.predict(X).mean()
    both = logistic(class_weight=[1, 9], weight_cap=3).fit(X, Y, sample_weight=W)
    assert np.isfinite(both.coef_).all()
    for wrong in ("balanced", {0: 1}, [1], [1, 0], [1, -1], {0: 1, 1: float("nan")}):
        with pytest.raises(InvalidParameterError, match="class_weight"):
            logistic(class_weight=wrong).fit(X, Y)


def test_refusals_name_the_remedy() -> None:
    with pytest.raises(InvalidParameterError, match="weight_cap"):
        logistic().fit(X, Y, sample_weight=W)
    with pytest.raises(InvalidDataError, match="sample_weight"):
        logistic(weight_cap=1).fit(X, Y, sample_weight=W[:-1])
    with pytest.raises(InvalidParameterError, match="smooth loss"):
        PrivateLinearSVC(1.0, feature_norm=1, classes=[0, 1], smoothing=0, weight_cap=1).plan(100, 3)
    with pytest.raises(InvalidParameterError, match="heavy_tailed"):
        PrivateLinearRegression(1.0, feature_norm=1, target_bounds=(0, 1), heavy_tailed=2.0, weight_cap=1).plan(900, 3)
    with pytest.raises(AttributeError, match="call fit once"):
        logistic().partial_fit(X, Y)


def test_a_schema_names_the_weights(tmp_path: Path) -> None:
    columns = tuple(NumericColumn(name, -1, 1) for name in "abc")
    schema = Schema(columns, ClassTarget("y", ("0", "1")), weight="w", weight_cap=2.0)
    table = pa.table({**dict(zip("abc", X.T, strict=True)), "y": Y, "w": W})
    (tmp_path / "s.toml").write_text(schema.to_toml())
    given = [schema, str(tmp_path / "s.toml"), tmp_path / "s.toml"]
    models = [PrivateLogisticRegression(2.0, schema=each, random_state=0).fit(table) for each in given]
    expected = logistic(weight_cap=2.0).fit(X, Y, sample_weight=W)
    for model in models:
        np.testing.assert_array_equal(model.encoded_coef_, expected.encoded_coef_)
        assert model.get_params()["schema"] == schema
    with pytest.raises(InvalidParameterError, match="weight_cap"):
        Schema(columns, weight="w")


def test_bounds_may_be_a_list_of_pairs() -> None:
    pairs = PrivateLogisticRegression(2.0, feature_bounds=[(-1, 1), (-1, 2), (-1, 1)], classes=[0, 1], random_state=0)
    arrays = PrivateLogisticRegression(2.0, feature_bounds=([-1] * 3, [1, 2, 1]), classes=[0, 1], random_state=0)
    np.testing.assert_array_equal(pairs.fit(X, Y).coef_, arrays.fit(X, Y).coef_)
    made = pairs.set_params(feature_bounds=np.array(pairs.feature_bounds)).fit(X, Y)
    np.testing.assert_array_equal(made.coef_, arrays.coef_)
    with pytest.raises(InvalidParameterError, match="two pairs may"):
        bounds_of(np.array([[0, 1], [2, 3]]), 2)
    with pytest.raises(InvalidParameterError, match="two pairs may also be lower and upper bounds"):
        PrivateLogisticRegression(2.0, feature_bounds=[(0, 1), (2, 3)], classes=[0, 1]).plan(100, 2)
    with pytest.raises(InvalidParameterError, match="two pairs may"):
        bounds_of([tuple(np.float32([0, 1])), tuple(np.int64([2, 3]))], 2)
    for pairs, lower in (([(140, 210), (30, 140)], [140, 30]), ([(0, 0), (1, 1)], [0, 0])):  # one reading is possible
        np.testing.assert_array_equal(bounds_of(pairs, 2)[0], lower)
    for wrong in ([], [(0, 1)], [(0, 1)] * 3):
        with pytest.raises(InvalidParameterError, match="for each of 2 columns"):
            bounds_of(wrong, 2)


def test_an_array_with_bounds_is_planned_as_a_schema_of_the_same_columns() -> None:
    bounds = ([0, 0, -5, 0, 3], [1, 1, 5, 9, 8])
    columns = tuple(NumericColumn(f"x{k}", *ends) for k, ends in enumerate(zip(*bounds, strict=True)))
    schema = Schema(columns, NumericTarget("y", 0.0, 1.0))
    for epsilon in (0.05, 0.5, 4.0):
        array = PrivateLinearRegression(epsilon, feature_bounds=bounds, target_bounds=(0, 1)).plan(3000, 5)
        table = PrivateLinearRegression(epsilon, schema=schema).plan(3000)
        assert [each.algorithm for each in array] == [each.algorithm for each in table]
        expected = [each.predicted_error.expected for each in table]
        np.testing.assert_allclose([each.predicted_error.expected for each in array], expected, rtol=1e-9)


@pytest.mark.parametrize("algorithm", ["output_perturbation", "objective_perturbation", "random_projection"])
def test_sparse_matrices_give_what_dense_ones_give(algorithm: str) -> None:
    cells = np.where(RNG.random((300, 40)) < 0.2, RNG.normal(size=(300, 40)), 0)
    cells[0, :3] = np.nan, np.inf, -1e308
    sparse: Any = scipy.sparse.csr_array(cells)
    y = (cells[:, 5] > 0).astype(int)

    def fit(data: Any, **bounds: Any) -> PrivateLogisticRegression:
        return PrivateLogisticRegression(2.0, **bounds, classes=[0, 1], algorithm=algorithm, random_state=0).fit(
            data, y
        )

    words = DataDomain((Block(40, "l2", 1.0, values="sparse"),))
    dense, found = fit(cells, domain=words), fit(sparse, feature_norm=1.0)
    np.testing.assert_array_equal(found.coef_, dense.coef_)
    np.testing.assert_allclose(found.decision_function(sparse), dense.decision_function(cells), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fit(scipy.sparse.coo_array(cells), feature_norm=1.0).coef_, dense.coef_)


@pytest.mark.parametrize("algorithm", ["recentering", "joint_bound"])
@pytest.mark.parametrize("mixed", [False, True])
def test_sparse_rows_of_a_box_are_moved_as_dense_ones_are(algorithm: str, mixed: bool) -> None:
    """A quick test of rows in a domain reads arrays alone: it raised for a sparse matrix, once the fit was paid for."""
    kinds: Any = "binary" if algorithm == "joint_bound" else "any"
    blocks = [Block(20, "linf", 0.5, values=kinds), *[Block(3, "simplex", 1.0)] * mixed]
    cells = np.hstack(
        [RNG.choice([-0.5, 0.5], (4000, 20), p=[0.9, 0.1]), *[np.eye(3)[RNG.integers(0, 3, 4000)]] * mixed]
    )
    model = PrivateLogisticRegression(
        3.0, domain=DataDomain(tuple(blocks)), classes=[0, 1], algorithm=algorithm, random_state=0
    )
    y = (cells[:, 0] > 0).astype(int)
    dense = clone(model).fit(cells, y).coef_
    np.testing.assert_array_equal(clone(model).fit(scipy.sparse.csr_array(cells), y).coef_, dense)
    users = np.repeat(np.arange(2000), 2)
    model.set_params(algorithm="informed_gradient", delta=1e-6, records_per_user=2)
    dense = clone(model).fit(cells, y, groups=users).coef_
    np.testing.assert_array_equal(clone(model).fit(scipy.sparse.csr_array(cells), y, groups=users).coef_, dense)
