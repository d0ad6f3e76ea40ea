"""Additive models: shapes, contributions, exports, monotone and missing values, pairs, and what the plan may know."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import sqlite3
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from typer.testing import CliRunner

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateSearchCV,
    Schema,
    verify,
)
from dpconvex.cli._output import json_text
from dpconvex.cli.main import app
from dpconvex.data import ClassTarget, NumericTarget, UnrangedColumn
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.estimators import ADDITIVE_ESTIMATORS, additive
from dpconvex.estimators._digest import model_digest
from dpconvex.estimators._shapes import ShapeMap, planned_deviations
from dpconvex.estimators._streams import promise_of
from dpconvex.estimators.persistence import load_model, save_model
from dpconvex.problems import NumberRange
from dpconvex.problems.linear import shapes

CLASSIFIER = {"epsilon": 1e6, "feature_bounds": (-20.0, 20.0), "classes": "infer", "random_state": 0, "knots": 8}
REGRESSOR = {"epsilon": 1e6, "feature_bounds": (-20.0, 20.0), "target_bounds": (-5.0, 5.0), "random_state": 0}
INSTANCES = [PrivateAdditiveClassifier(**CLASSIFIER), PrivateAdditiveRegressor(**REGRESSOR)]
CONTENT = "an exception that depends on the content of y would leak it; targets are mapped by a stated rule"
COUNTED = "a record of weight 0 is still a record: their public number sizes noise and regularization"
EXEMPT = {
    "check_all_zero_sample_weights_error": CONTENT,
    "check_sample_weight_equivalence_on_dense_data": COUNTED,
    "check_supervised_y_no_nan": CONTENT,
    "check_classifiers_regression_target": CONTENT,
    "check_dtype_object": "whether a cell of an object array is a number is data content; object arrays are refused",
}

SCHEMA = Schema(
    (
        NumericColumn("age", 0, 100),
        NumericColumn("gain", 0, 1000, "log1p", indicator=False),
        CategoricalColumn("color", ("red", "green", "blue"), other=True),
        CategoricalColumn("flag", ("no", "yes")),
    ),
    ClassTarget("good", ("no", "yes")),
)


def frame_of(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, gain = rng.uniform(0, 100, n), rng.exponential(50, n) * rng.integers(0, 2, n)
    color = rng.choice(["red", "green", "blue", "pink"], n)
    logit = -3 * np.cos(age / 16) + (gain > 20) + 1.5 * (color == "red") - 1
    good = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-logit)), "yes", "no")
    return pd.DataFrame({"age": age, "gain": gain, "color": color, "flag": rng.choice(["no", "yes"], n), "good": good})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_of_levels_alone_it_is_a_linear_model(epsilon: float) -> None:
    """No shape can bend: lines are planned, and are fitted as a linear model's."""
    levels = (SCHEMA.columns[2], SCHEMA.columns[3], NumericColumn("gain", 0, 1, step=1))
    frame = frame_of(3000).assign(gain=np.arange(3000) % 2)
    for target, kinds in (
        (SCHEMA.target, (PrivateLogisticRegression, PrivateAdditiveClassifier)),
        (NumericTarget("age", 0.0, 300.0), (PrivateLinearRegression, PrivateAdditiveRegressor)),
    ):
        schema = Schema(levels, target)
        linear, additive = (kind(epsilon, schema=schema, random_state=0).fit(frame) for kind in kinds)
        assert additive.plan_.predicted_error.expected == linear.plan_.predicted_error.expected
        score = "decision_function" if target is SCHEMA.target else "predict"
        np.testing.assert_allclose(getattr(additive, score)(frame), getattr(linear, score)(frame), rtol=1e-9)


FRAME = frame_of(4000)


@pytest.fixture(scope="module")
def fitted() -> PrivateAdditiveClassifier:
    return PrivateAdditiveClassifier(2.0, schema=SCHEMA, knots=8, random_state=0).fit(FRAME)


def failures(estimator: Any) -> dict[str, str]:
    return {name: why for name, why in EXEMPT.items() if is_classifier(estimator) or "classifiers" not in name}


@pytest.mark.thin  # the same checks as of the others, which meet all of them in quick runs (test_estimators.py)
@parametrize_with_checks(INSTANCES[:1], expected_failed_checks=failures, xfail_strict=True)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.dear(
    "check_classifiers_train",
    "check_estimators_dtypes",
    "check_class_weight_classifiers",
    "check_classifiers_regression_target",
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    if "weight" in check.func.__name__:
        estimator.set_params(weight_cap=1.0)  # without a cap weights are refused
    if check.func.__name__ == "check_classifiers_regression_target":  # every number a class: many, and none is refused
        estimator = clone(estimator).set_params(epsilon=1.0, knots=2)
    check(estimator)


@pytest.mark.gate
@parametrize_with_checks(INSTANCES[1:], expected_failed_checks=failures, xfail_strict=True)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_of_regression(estimator: Any, check: Any) -> None:
    if "weight" in check.func.__name__:
        estimator.set_params(weight_cap=1.0)  # without a cap weights are refused
    check(estimator)


def test_every_additive_model_is_here() -> None:
    assert tuple(type(model) for model in INSTANCES) == ADDITIVE_ESTIMATORS


def score(model: dict[str, Any], record: dict[str, Any]) -> float:
    """What the docs say: a model as JSON scores a record in a few lines."""

    def weights(rule: dict[str, Any]) -> list[float]:
        if rule["kind"] == "pair":
            return [a * b for a in weights(rule["first"]) for b in weights(rule["second"])]
        cell = record[rule["column"]]
        if rule["kind"] == "categories":
            levels = rule["levels"] + ["(other)"] * rule["other"]
            place = levels.index(cell) if cell in rule["levels"] else len(levels) - 1 if rule["other"] else None
            return [1 / len(levels) if place is None else float(k == place) for k in range(len(levels))]
        scale = math.log1p if rule["transform"] == "log1p" else float
        knots, own = rule["knots"], rule["missing"]
        if math.isnan(cell):
            return [0.0] * len(knots) + [1.0] if own else [1 / len(knots)] * len(knots)
        low, high = scale(rule["lower"]), scale(rule["upper"])
        u = (scale(min(max(cell, rule["lower"]), rule["upper"])) - low) / (high - low)
        return [float(np.interp(u, knots, np.eye(len(knots))[k])) for k in range(len(knots))] + [0.0] * own

    terms = [np.dot(weights(shape), shape["values"][0]) for shape in model["shapes"]]
    return model["intercept"][0] + sum(terms)


def test_json_scores_without_the_library(fitted: Any, tmp_path: Any) -> None:
    model = PrivateAdditiveClassifier(2.0, schema=SCHEMA, interactions=[("age", "flag")], knots=6, random_state=0)
    held_out = frame_of(50, 1)
    held_out.loc[3, "age"], held_out.loc[4, "gain"], held_out.loc[5, "flag"] = np.nan, np.nan, "perhaps"
    held_out.loc[6, "age"], held_out.loc[7, "age"] = np.inf, -5.0
    for each in (fitted, model.fit(FRAME)):
        each.to_json(tmp_path / "m.json")
        plain = json.loads((tmp_path / "m.json").read_text())
        found = [score(plain, record) for record in held_out.to_dict("records")]
        np.testing.assert_allclose(found, each.decision_function(held_out), rtol=0, atol=1e-12)


def test_contributions_add_up_and_shapes_are_centered(fitted: Any) -> None:
    parts = fitted.contributions(FRAME)
    assert parts.shape == (len(FRAME), 4)
    np.testing.assert_allclose(parts.sum(1) + fitted.intercept_, fitted.decision_function(FRAME), atol=1e-12)
    for shape in fitted.shapes_:
        assert abs(shape.values.sum()) < 1e-12
        assert shape.values.shape == shape.deviation.shape == (len(shape.vertices),)
        assert (shape.deviation > 0).all()
    assert [shape.kind for shape in fitted.shapes_] == ["numeric", "numeric", "categories", "categories"]
    assert [len(shape.vertices) for shape in fitted.shapes_] == [9, 9, 4, 2]  # missing; a knot near 0
    assert fitted.shapes_[1].vertices[:2] == (0.0, 2**-4)
    assert set(fitted.degrees_of_freedom_) == {"age", "gain", "color", "flag"}
    assert all(0 < fitted.degrees_of_freedom_[s.name] < len(s.vertices) for s in fitted.shapes_)


def test_it_finds_a_shape_that_no_line_has(fitted: Any) -> None:
    line = PrivateAdditiveClassifier(2.0, schema=SCHEMA, knots=2, random_state=0).fit(FRAME)
    held_out = frame_of(3000, 2)
    right = held_out["good"].to_numpy()
    assert fitted.score(held_out, right) > line.score(held_out, right) + 0.1


@pytest.mark.gate
def test_deviations_are_those_of_the_noise() -> None:
    """Fits of one table differ by their noise alone; planned deviations are within a factor of two on average."""
    model = PrivateAdditiveClassifier(1.0, schema=SCHEMA, knots=4, slope_cap=1.0, algorithm="objective_perturbation")
    values = []
    for seed in range(40):
        values.append(model.set_params(random_state=seed).fit(FRAME).encoded_coef_[0])
    ratio = np.std(values, axis=0) / model.shape_deviation_[0]
    assert 0.5 < np.sqrt(np.mean(ratio**2)) < 2


def test_a_declared_step_bounds_the_knots_and_what_is_looked_at() -> None:
    """A column of 0 and 1 had up to 16 knots, and noise at each; one of 1 and 2 was looked at, too."""
    steps = {"sex": (1, 2, 1), "stage": (1, 4, 1), "cents": (0, 9, 0.01), "age": (18, 90, 0)}
    columns = [NumericColumn(name, low, high, step=step) for name, (low, high, step) in steps.items()]
    features = ShapeMap.of(columns, True, False, (("sex", "age"),))
    assert [[len(own) for own in features.at(count).knots] for count in (2, 3, 8)] == [
        [2] * 4,
        [2, 3, 3, 3],
        [2, 4, 8, 8],
    ]
    assert [name for name, *_ in features.divisible] == ["stage", "cents", "age"]
    assert [column.values for column in columns] == ["binary", "any", "any", "any"]
    kept = features.at(8).found((), tuple(NumberRange(4.0, 4.25) for _ in range(3)))  # planned blocks stay
    assert kept.domain == features.at(8).domain
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(1, 3, 4000) for name in steps} | {"y": rng.integers(0, 2, 4000)})
    schema = Schema(tuple(columns), ClassTarget("y", ("0", "1")))
    model = PrivateAdditiveClassifier(3.0, schema=schema, interactions=[("stage", "sex")], random_state=0).fit(frame)
    assert np.isfinite(model.predict_proba(frame)).all()
    assert NumericColumn("x", -1e308, 1e307, step=1e-9).levels == math.inf


@pytest.mark.parametrize("levels", [3, 12])
def test_levels_of_straight_lines_have_the_deviation_of_their_noise(levels: int) -> None:
    """It was that of a level's coefficient less their mean as if both were the same: 1e-14, and every band was sure."""
    schema = Schema((CategoricalColumn("a", tuple(map(str, range(levels)))),), ClassTarget("y", ("0", "1", "2")))
    frame = pd.DataFrame({"a": [str(k % levels) for k in range(600)], "y": [str(k % 3) for k in range(600)]})
    model = PrivateAdditiveClassifier(0.1, schema=schema, random_state=0).fit(frame)
    assert model.plan_.problem.shapes is None
    planned = planned_deviations(model.plan_).reshape(3, -1)[:, :levels]
    np.testing.assert_allclose(model.shape_deviation_, planned * np.sqrt(1 - 1 / levels), rtol=1e-9)


def test_portions_of_a_file_give_the_same_shapes(fitted: Any, tmp_path: Any) -> None:
    FRAME.to_parquet(tmp_path / "t.parquet")
    model = PrivateAdditiveClassifier(**fitted.get_params()).fit(pyarrow.dataset.dataset(tmp_path / "t.parquet"))
    assert model.knots_ == fitted.knots_
    np.testing.assert_allclose(model.coef_, fitted.coef_, rtol=0, atol=1e-7)


def test_table_of_shapes(fitted: Any) -> None:
    table = fitted.shape_table().to_pandas()
    assert list(table.columns) == ["column", "output", "knot", "level", "value", "deviation", "lower", "upper"]
    assert table["lower"].isna().all()  # of intervals, which were not paid for
    assert len(table) == sum(len(shape.vertices) for shape in fitted.shapes_)
    assert (table.knot.isna() != table.level.isna()).all()


def test_monotone_shapes_are_projections_of_the_released_ones(fitted: Any) -> None:
    model = PrivateAdditiveClassifier(2.0, schema=SCHEMA, knots=8, random_state=0, monotone={"age": "decreasing"})
    model.fit(FRAME)
    before, after = fitted.shapes_[0].values, model.shapes_[0].values
    assert (np.diff(after[:8]) <= 1e-12).all()
    assert np.ptp(after[:8]) > 0.1  # the value of missing cells has no order
    assert math.isclose(after.sum(), before.sum(), abs_tol=1e-12)
    plan = model.plan_
    curvature = plan.problem.shapes.curvature(0, plan.problem.loss, plan.problem.factor, plan.l2)
    rng = np.random.default_rng(0)
    for _ in range(200):  # nearest: no monotone shape is nearer, and that of one that is monotone is itself
        other = np.append(-np.sort(-rng.normal(after[:8], rng.choice([1e-3, 0.1, 1]))), after[8] + rng.normal())
        distance = [float((v - before) @ curvature @ (v - before)) for v in (after, other - other.mean())]
        assert distance[0] <= distance[1] + 1e-9
    knots = model._fitted_map().slices[0][0].expected
    np.testing.assert_allclose(knots.monotone(after, False, curvature)[0], after, atol=1e-9)
    mean = knots.prior.mass.sum(1)
    np.testing.assert_allclose(mean @ after + model.intercept_, mean @ before + fitted.intercept_, atol=1e-9)
    np.testing.assert_array_equal(model.shapes_[1].values, fitted.shapes_[1].values)
    assert dataclasses.replace(model.certificate_, model=None) == dataclasses.replace(fitted.certificate_, model=None)


@pytest.mark.parametrize(
    "cells",
    [
        {"age": np.nan},
        {"age": np.inf, "gain": -np.inf},
        {"age": 1e300, "color": "unheard of", "flag": "perhaps"},
        {"gain": np.nan, "color": None},
    ],
)
@pytest.mark.dear("cells2", "cells0")
def test_neighbors_have_the_same_blocks_plan_and_certificate(cells: dict[str, Any]) -> None:
    """All but which parts of declared ranges were chosen, which was released."""
    other = FRAME.copy()
    for name, cell in cells.items():
        other.loc[17, name] = cell
    seen = []
    for frame in (FRAME, other):
        model = PrivateAdditiveClassifier(1.0, schema=SCHEMA, random_state=0).fit(frame)
        public = dict(model.certificate_.public)
        public["column_ranges"] = {**public["column_ranges"], "cells": None}
        told = dataclasses.replace(model.certificate_, model=None, planner=None, public=public)
        seen.append((told, [len(own) for own in model.knots_], model.encoded_coef_.shape))
        assert np.isfinite(model.predict_proba(other)).all()
    assert seen[0] == seen[1]


def test_a_missing_cell_that_changes_the_type_of_a_column_changes_no_block() -> None:
    """Integers become floats when a cell is empty: the vertex of missing cells must not follow."""
    whole = pd.DataFrame({"a": np.arange(200), "b": np.arange(200) % 7})
    holed = whole.astype({"a": float})
    holed.loc[3, "a"] = np.nan
    y = np.arange(200) % 2 == 0
    for missing, size in (("own", 5), ("none", 4), ("auto", 5)):
        model = PrivateAdditiveClassifier(1.0, feature_bounds=(0, 200), knots=4, missing=missing, random_state=0)
        shapes = [[s.vertices for s in model.fit(table, y).shapes_] for table in (whole, holed)]
        assert shapes[0] == shapes[1]
        assert [len(vertices) for vertices in shapes[0]] == [size] * 2


@pytest.mark.parametrize("transform", ["none", "log1p"])
def test_weights_of_any_double_are_a_point_of_the_simplex(transform: Any) -> None:
    column = NumericColumn("x", 0, 1000, transform)
    cells = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-300, 0.03, 1000, 1e308, *np.linspace(0, 1000, 99)])
    for own in (True, False):
        features = ShapeMap.of((column,), False, own, ()).at(8)
        weights = features.expand(features.encode(cells[:, None]))
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(1), 1, rtol=0, atol=1e-15)
        assert ((weights > 0).sum(1)[1:] <= 2).all()
    values = np.array(features.knots[0] if transform == "none" else np.log1p(features.knots[0]))
    inside = np.clip(cells[1:], 0, 1000)
    np.testing.assert_allclose(weights[1:] @ values, inside if transform == "none" else np.log1p(inside), atol=1e-9)


def test_pairs_are_products_and_their_kernel_leaves_columns_alone() -> None:
    features = ShapeMap.of(SCHEMA.columns, True, True, (("age", "color"),)).at(3)
    weights = features.expand(features.encode(FRAME))
    pair = features.blocks[-1]
    assert (pair.name, pair.size) == ("age:color", 5 * 4)
    np.testing.assert_allclose(weights[:, -20:].sum(1), 1, atol=1e-12)
    kernel = pair.expected.prior.kernel
    assert kernel is not None
    table = kernel.reshape(5, 4, 5, 4)
    np.testing.assert_allclose(table.sum(0), 0, atol=1e-12)  # nothing of a single column is in it
    np.testing.assert_allclose(table.sum(1), 0, atol=1e-12)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"interactions": [("age", "age")]}, "interactions"),
        ({"interactions": [("age", "nobody")]}, "interactions"),
        ({"interactions": "age"}, "interactions"),
        ({"monotone": {"color": "increasing"}}, "monotone"),
        ({"monotone": {"age": "up"}}, "monotone"),
        ({"monotone": ["age"]}, "monotone"),
        ({"knots": 1}, "knots"),
        ({"knots": 65}, "knots"),
        ({"knots": "many"}, "knots"),
        ({"missing": "guess"}, "missing"),
        ({"algorithm": "noisy_gradient"}, "algorithm"),
        ({"feature_bounds": (0, 1)}, "schema"),
        ({"slope_cap": 2.0}, "slope_cap"),
    ],
)
def test_refusals_name_the_parameter(given: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameterError) as refused:
        PrivateAdditiveClassifier(1.0, **{"schema": SCHEMA, **given}).plan(1000)
    assert refused.value.name == name


def test_more_knots_than_are_ever_found_may_be_asked_for_in_declared_ranges() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform([0, -20], [90, 100], (3000, 2))
    model = PrivateAdditiveClassifier(1.0, feature_bounds=([0, -20], [90, 100]), classes=[0, 1], knots=17)
    assert model.plan(3000, 2)[0].looked  # a look at columns was refused for what is asked where knots are found
    model.fit(X, (X[:, 0] > 40) * 1)
    assert verify(model.certificate_).passed
    assert [len(knots) for knots in model.knots_] == [17, 17]


@pytest.mark.parametrize(
    ("given", "what"), [({"knots": 1}, "knots=1"), ({"knots": 64, "inference": True}, "at most 40 encoded columns")]
)
def test_what_no_fit_could_use_is_refused_before_anything_is_paid(given: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidParameterError, match=what):
        promise_of(PrivateAdditiveClassifier(1.0, schema=SCHEMA, **given))


def test_declared_knots_and_missing_values_of_a_schema() -> None:
    text = SCHEMA.to_toml().replace("upper = 100\n", "upper = 100\nindicator = true\nknots = [0, 20, 100]\n", 1)
    schema = Schema.from_toml_text(text)
    assert Schema.from_toml_text(schema.to_toml()) == schema
    model = PrivateAdditiveClassifier(1.0, schema=schema, missing="none", random_state=0).fit(FRAME)
    assert model.shapes_[0].vertices == (0.0, 20.0, 100.0, "(missing)")
    for knots in ("[0, 20, 20, 100]", "[1, 100]", "[0]", "3"):
        with pytest.raises(SchemaError, match="knots"):
            Schema.from_toml_text(text.replace("[0, 20, 100]", knots))


@pytest.mark.gate
def test_regressors_of_three_losses() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 2))
    y = 20 * X[:, 0] ** 2 + rng.normal(size=6000)
    for loss in ("squared", "huber", "quantile"):
        model = PrivateAdditiveRegressor(2.0, feature_bounds=(-1, 1), target_bounds=(0, 20), loss=loss, random_state=0)
        assert model.fit(X, y).score(X, y) > 0.8
        total = model.contributions(X).sum(1) + model.intercept_
        np.testing.assert_allclose(np.clip(total, 0, 20), model.predict(X), atol=1e-12)
    with pytest.raises(InvalidParameterError, match="loss"):
        PrivateAdditiveRegressor(1.0, feature_bounds=(-1, 1), target_bounds=(0, 20), loss="cubic").plan(100, 2)


@pytest.mark.gate
def test_many_classes_search_and_saved_models(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 2))
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    model = PrivateAdditiveClassifier(4.0, feature_bounds=(-1, 1), classes=[0, 1, 2], random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.contributions(X).shape == (6000, 2, 3)
    save_model(model, tmp_path / "m")
    loaded: Any = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for mine, theirs in zip(model.shapes_, loaded.shapes_, strict=True):
        np.testing.assert_array_equal(mine.values, theirs.values)
        np.testing.assert_array_equal(mine.deviation, theirs.deviation)
    with pytest.raises(InvalidParameterError, match="monotone"):
        PrivateAdditiveClassifier(classes=[0, 1, 2], feature_bounds=(-1, 1), monotone={"feature 0": "increasing"}).fit(
            X, y
        )
    search = PrivateSearchCV(
        PrivateAdditiveClassifier(2.0, feature_bounds=(-1, 1), random_state=0), {"knots": [2, 8]}
    ).fit(X, y == 1)
    assert search.best_params_ == {"knots": 8}


def test_users_are_protected_together() -> None:
    users = np.arange(len(FRAME)) // 4
    model = PrivateAdditiveClassifier(
        4.0, schema=SCHEMA, knots=4, algorithm="objective_perturbation", records_per_user=4, random_state=0
    )
    model.fit(FRAME, groups=users)
    assert model.certificate_.target.unit == "user"
    assert model.score(FRAME, FRAME["good"].to_numpy()) > 0.6


@pytest.mark.gate
def test_plans_take_more_knots_for_more_records_and_bigger_budgets() -> None:
    def knots(epsilon: float, n: int) -> int:
        model = PrivateAdditiveClassifier(epsilon, schema=SCHEMA, algorithm="objective_perturbation")
        return model.plan(n)[0].problem.domain.blocks[0].size

    by_budget = [knots(epsilon, 5000) for epsilon in (0.3, 1.0, 3.0)]
    by_number = [knots(0.3, n) for n in (5000, 50_000, 500_000)]
    assert by_budget == sorted(by_budget)
    assert by_number == sorted(by_number)
    assert by_number[0] < by_number[-1]


def test_edited_knots_are_of_another_model(fitted: Any) -> None:
    edited = copy.copy(fitted)
    edited.knots_ = ((0.0, 1.0, *fitted.knots_[0][2:]), *fitted.knots_[1:])
    assert model_digest(edited) != model_digest(fitted) == fitted.certificate_.model


@pytest.mark.gate
def test_command_line(tmp_path: Any, monkeypatch: Any) -> None:
    """Plan, fit with a report, and the shapes as a table, JSON and a query that a database agrees with."""
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    FRAME.to_csv("t.csv", index=False)
    (tmp_path / "t.toml").write_text(SCHEMA.to_toml())
    common = [
        "--schema",
        "t.toml",
        "--epsilon",
        "2",
        "--model",
        "additive",
        "--interactions",
        "age,flag",
        "--knots",
        "4",
    ]
    planned = runner.invoke(app, ["plan", "--rows", "4000", *common])
    assert planned.exit_code == 0, planned.output
    assert "degrees of freedom" in planned.output
    done = runner.invoke(app, ["fit", "t.csv", *common, "--monotone=-gain", "--seed", "0"])
    assert done.exit_code == 0, done.output
    assert "noise only" in (tmp_path / "model" / "report.html").read_text()
    assert "<svg" in (tmp_path / "model" / "report.html").read_text()
    printed = runner.invoke(app, ["shapes", "model"])
    assert printed.exit_code == 0, printed.output
    assert "deviation: planned" in printed.output
    table = runner.invoke(app, ["shapes", "model", "--csv"])
    assert table.output.startswith('"column","output"')
    model: Any = load_model("model/model.skops")
    shown = json.loads(runner.invoke(app, ["shapes", "model", "--json"]).output)
    assert shown == {"effect": model.effect, "shapes": json.loads(json_text(model.shape_table().to_pylist()))}
    assert json.loads(runner.invoke(app, ["export", "model"]).output) == json.loads(model.to_json())
    held_out = frame_of(100, 1)
    held_out.loc[3, "age"], held_out.loc[5, "flag"], held_out.loc[6, "gain"] = np.nan, "perhaps", np.nan
    held_out.loc[7, "age"] = 1e9
    with closing(sqlite3.connect(":memory:")) as base:
        held_out.to_sql("people", base, index=False)
        words = ["export", "model", "--format", "sql", "--table", "people"]
        found = pd.read_sql(runner.invoke(app, words).output, base)
    np.testing.assert_allclose(found.score_0, model.decision_function(held_out), atol=1e-9)
    refused = runner.invoke(app, ["plan", "--rows", "9", *common, "--l2", "0.1"])
    assert refused.exit_code != 0
    refused = runner.invoke(app, ["plan", "--rows", "9", "--schema", "t.toml", "--epsilon", "1", "--knots", "4"])
    assert refused.exit_code != 0


@pytest.mark.gate
def test_numbers_of_few_records_have_the_plan_of_lines() -> None:
    """Below epsilon times records of 200 no look tells how far targets reach: lines or a constant, under their law."""
    given: dict[str, Any] = {"feature_bounds": (-1, 1), "target_bounds": (0, 50_000)}
    kinds = PrivateAdditiveRegressor, PrivateLinearRegression
    ours, theirs = (kind(0.1, **given).plan(1500, 17)[0] for kind in kinds)
    assert (ours.algorithm, theirs.algorithm) == ("constant", "constant")
    # Linear models try twice as many caps on residuals.
    assert ours.predicted_error.expected == pytest.approx(theirs.predicted_error.expected, rel=0.01)
    assert PrivateAdditiveRegressor(0.1, **given).plan(6000, 1)[0].problem.shapes is not None


@pytest.mark.parametrize("classes", [("0", "1"), ("0", "1", "2"), ()])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("missing", ["auto", "own"])
def test_straight_lines_are_linear_models_of_missing_numbers_too(classes: Any, private: bool, missing: str) -> None:
    """They left out what `indicator` says, and `missing="own"`: .64 of log-loss where a linear model had .34.

    Where knots were declared, the line ended at the second one.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(0, 9, 1500), "b": rng.choice(["u", "v", "w"], 1500)})
    frame[["c", "d", "e", "f"]] = rng.uniform(0, 9, (1500, 4))
    gone = rng.random(1500) < 0.4
    frame["y"] = (gone * (len(classes) - 1) if classes else 9.0 * gone + 0.5).astype(int if classes else float)
    frame.loc[gone, "a"] = np.nan
    frame["y"] = frame.y.astype(str) if classes else frame.y
    declared: Any = UnrangedColumn("a", "none") if private else NumericColumn("a", 0, 9)
    others = [NumericColumn(name, 0, 9, knots=(0, 1, 5, 9) if name == "d" else ()) for name in "cdef"]
    target: Any = ClassTarget("y", classes) if classes else NumericTarget("y", 0, 10)
    additive, linear = (
        (PrivateAdditiveClassifier, PrivateLogisticRegression)
        if classes
        else (PrivateAdditiveRegressor, PrivateLinearRegression)
    )

    def of(indicator: bool | None) -> Schema:
        first = dataclasses.replace(declared, indicator=indicator)
        rest = [dataclasses.replace(c, indicator=indicator if missing == "own" else None) for c in others]
        return Schema((first, CategoricalColumn("b", ("u", "v", "w")), *rest), target)

    own = None if missing == "own" else True
    lines = additive(0.2, schema=of(own), missing=missing, random_state=0).fit(frame)
    model = linear(0.2, schema=of(True), random_state=0).fit(frame)
    assert lines.plan_.problem.shapes is None
    score = "decision_function" if classes else "predict"
    assert lines.plan_.algorithm == model.plan_.algorithm
    np.testing.assert_allclose(getattr(lines, score)(frame), getattr(model, score)(frame), rtol=1e-9, atol=1e-9)
    assert np.ptp(getattr(lines, score)(frame)) > 0 or lines.plan_.algorithm == "constant"


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateAdditiveClassifier])
def test_a_look_at_a_column_with_declared_knots_keeps_none_that_lie_outside(kind: Any, tmp_path: Any) -> None:
    """A linear model has no use for knots, and failed by them after it was paid, where a look narrowed the range."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 9, (4000, 4)), columns=[*"abcd"]).assign(y=rng.choice(["0", "1"], 4000))
    columns = [NumericColumn(name, 0, 90, knots=(0, 1, 5, 90) if name < "c" else ()) for name in "abcd"]
    model = kind(0.3, schema=Schema(columns, ClassTarget("y", ("0", "1"))), random_state=0).fit(frame)
    assert model.plan_.looked
    assert all(each.upper < 90 for each in model.ranges_)
    save_model(model, tmp_path / "m")
    np.testing.assert_array_equal(load_model(tmp_path / "m").predict_proba(frame), model.predict_proba(frame))


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_more_knots_are_not_tried_where_two_lose_half(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans are the same without that short cut, which wide tables of few records need: 21 s were planned away."""
    given: dict[str, Any] = {"classes": [0, 1]} if kind == "classes" else {"target_bounds": (0, 9)}
    made = PrivateAdditiveClassifier if kind == "classes" else PrivateAdditiveRegressor
    tried, usual = [], ShapeMap.refined
    monkeypatch.setattr(ShapeMap, "refined", lambda own, problem: tried.append(own.n_knots) or usual(own, problem))
    plans, seen = [], []
    for far in (0.5, math.inf):
        monkeypatch.setattr(additive, "FAR", far)
        tried.clear()
        plans.append(made(0.3, feature_bounds=(-1, 1), **given).plan(150, 30))
        seen.append({*tried})
    assert (seen[0], len(seen[1])) == ({2}, len(additive.KNOTS))
    assert list(map(repr, plans[0])) == list(map(repr, plans[1]))
    assert plans[0][0].problem == plans[1][0].problem


def test_straight_lines_are_planned_at_budgets_where_their_method_does_not_apply() -> None:
    """A report shows other budgets: it must not fail once a fit is paid for."""
    model = PrivateAdditiveClassifier(epsilon=5, feature_bounds=(-1, 1), classes=[0, 1, 2], random_state=0)
    model.fit(np.zeros((500, 10)), np.arange(500) % 3)
    assert model.plan_.algorithm == "recentering"
    assert "recentering" not in [plan.algorithm for plan in model.plans_at(0.02)]


def test_what_is_expected_of_many_columns_grows_with_their_number_alone() -> None:
    given = {"feature_bounds": (-1, 1), "classes": [0, 1], "knots": 8, "algorithm": "objective_perturbation"}
    few, many = (PrivateAdditiveClassifier(1.0, **given).plan(300, d)[0].problem.typical for d in (5, 20))
    for name in ("mixing", "lengths"):  # a plan of 400 columns took more than ten gigabytes
        assert getattr(many, name).nnz <= 4.1 * getattr(few, name).nnz


def test_a_wide_category_does_not_slow_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its directions are all alike; a decomposition for each loss and number of knots took half a minute."""
    sizes, root = [], shapes.eigh
    monkeypatch.setattr(shapes, "eigh", lambda of: sizes.append(len(of)) or root(of))
    shapes._directions.cache_clear()
    columns = (*(NumericColumn(f"n{k}", 0, 1) for k in range(3)), CategoricalColumn("k", tuple(map(str, range(700)))))
    plan = PrivateAdditiveRegressor(0.1, schema=Schema(columns, NumericTarget("y", 0, 2))).plan(66_417)[0]
    assert max(sizes) < 50
    assert len(sizes) < 10
    problem, levels = plan.problem, shapes.Levels(700)
    curvature, signal, mixing, lengths = shapes._directions(levels, problem.factor.blocks[3], problem.domain.intercept)
    root_of = problem.factor.matrices[3].toarray()
    h = root(root_of.T @ problem.shapes.moments[3] @ root_of)[0]
    np.testing.assert_allclose(curvature, h, rtol=1e-9)
    back = np.linalg.pinv(root_of)
    np.testing.assert_allclose(signal.sum(), np.trace(back @ levels.prior.signal @ back.T), rtol=1e-9)
    np.testing.assert_allclose(lengths.sum(1), np.square(root_of).sum(1), rtol=1e-9)
    assert mixing.sum() == len(signal)


@pytest.mark.parametrize("inference", [False, True])
def test_what_is_set_after_a_fit_changes_no_prediction(inference: bool) -> None:
    """With `missing="auto"` the number of vertices follows from `inference` at the fit, not from what it is later."""
    X = np.random.default_rng(0).uniform(0, 1, (6000, 2))
    model = PrivateAdditiveClassifier(20.0, feature_bounds=(0, 1), inference=inference, knots=3, random_state=0)
    before = model.fit(X, X[:, 0] > 0.5).decision_function(X)
    np.testing.assert_array_equal(model.set_params(inference=not inference).decision_function(X), before)
    assert {len(shape.vertices) for shape in model.set_params(inference=inference).shapes_} == {3 if inference else 4}
