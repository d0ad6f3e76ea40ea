"""Models that leave predict what they predicted here."""

from __future__ import annotations

import json
import math
import sqlite3
import warnings
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateSparseLogisticRegression,
    PrivateWorstGroupClassifier,
    Schema,
)
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import HopelessPlanWarning, InvalidParameterError
from dpconvex.estimators.export import _number, to_card, to_onnx

COLUMNS = (
    NumericColumn("age", 0, 100, source="Form 3"),
    NumericColumn("gain", 0, 1000, "log1p", indicator=True),
    NumericColumn("dose", 0, 9, "sqrt"),
    NumericColumn("debt", -500, 2000, "signed_log", scale=2.5),
    CategoricalColumn("color", ("red", "green", "blue"), other=True, aliases={"rouge": "red"}),
    CategoricalColumn("flag", ("no", "yes")),
    CategoricalColumn("site", ("a", "b", "c")),
)
GRADES = ("low", "middle", "high")


def frame_of(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {"age": rng.uniform(-20, 120, n), "gain": rng.exponential(500, n), "dose": rng.uniform(0, 9, n)}
    )
    table["debt"] = rng.normal(0, 1000, n) ** 3 / 1e6
    table["color"] = rng.choice(["red", "rouge", "blue", "pink"], n)
    table["flag"], table["site"] = rng.choice(["no", "yes", "?"], n), rng.choice(["a", "b", "c", "d"], n)
    table["good"] = np.where(table["age"] + rng.normal(0, 30, n) > 50, "yes", "no")
    table["grade"], table["cost"] = rng.choice(GRADES, n), table["age"] / 10 + rng.normal(size=n)
    for k, name in enumerate(("age", "gain", "dose")):
        table.loc[k::7, name] = np.nan
    return table


HELD_OUT = frame_of(200, 1)
TARGETS = {
    "good": ClassTarget("good", ("no", "yes")),
    "grade": ClassTarget("grade", GRADES),
    "cost": NumericTarget("cost", 0, 8),
}
MODELS: list[tuple[Any, str]] = [
    (PrivateLogisticRegression(3.0, slope_cap=1.0, random_state=0), "good"),
    (PrivateLogisticRegression(3.0, slope_cap=0.7, random_state=0), "good"),
    (PrivateLogisticRegression(3.0, random_state=0), "grade"),
    (PrivateLinearSVC(3.0, random_state=0), "good"),
    (PrivateLinearRegression(3.0, random_state=0), "cost"),
    (PrivateHuberRegressor(3.0, random_state=0), "cost"),
    (PrivateAdditiveClassifier(3.0, knots=5, random_state=0), "good"),
    (PrivateAdditiveRegressor(3.0, knots=4, random_state=0), "cost"),
    (PrivateLasso(3.0, random_state=0), "cost"),
    (PrivateSparseLogisticRegression(3.0, random_state=0), "good"),
    (PrivateWorstGroupClassifier(3.0, group_column="site", random_state=0), "good"),
]


@pytest.fixture(scope="module", params=range(len(MODELS)), ids=lambda k: f"{type(MODELS[k][0]).__name__}-{k}")
def fitted(request: Any) -> Any:
    model, target = MODELS[request.param]
    return model.set_params(schema=Schema(COLUMNS, TARGETS[target])).fit(frame_of(2000))


def scores(model: Any, table: Any) -> np.ndarray:
    found = model.decision_function(table) if "classes_" in vars(model) else model._linear(table)
    return found.reshape(len(table), -1)


@pytest.mark.dear("LogisticRegression-0", "LogisticRegression-1")
def test_scikit_learn_alone_predicts_the_same(fitted: Any) -> None:
    pipeline = fitted.to_sklearn()
    assert all(type(step).__module__.startswith("sklearn.") for _, step in pipeline.steps)
    if "classes_" not in vars(fitted):
        np.testing.assert_allclose(pipeline.predict(HELD_OUT), fitted.predict(HELD_OUT), rtol=0, atol=1e-12)
        return
    np.testing.assert_array_equal(pipeline.predict(HELD_OUT), fitted.predict(HELD_OUT))
    found = pipeline.decision_function(HELD_OUT).reshape(len(HELD_OUT), -1)
    np.testing.assert_allclose(found, scores(fitted, HELD_OUT), rtol=0, atol=1e-12)
    if fitted.to_dict()["probabilities"] == "sigmoid":
        np.testing.assert_allclose(pipeline.predict_proba(HELD_OUT), fitted.predict_proba(HELD_OUT), rtol=0, atol=1e-12)
    else:
        assert not hasattr(pipeline, "predict_proba")


def score(model: dict[str, Any], record: dict[str, Any]) -> list[float]:
    """What the docs say: a model as JSON scores a record in a few lines."""
    found = list(model["intercept"])
    for rule in model["shapes"]:
        cell, values = record[rule["column"]], rule["values"]
        for k, v in enumerate(values):
            if rule["kind"] == "categories":
                level = rule.get("aliases", {}).get(cell, cell)
                rest = v[-1] if rule["other"] else sum(v) / len(v)
                found[k] += v[rule["levels"].index(level)] if level in rule["levels"] else rest
            elif math.isnan(cell):
                found[k] += v[-1] if rule["missing"] else sum(v) / len(v)
            else:
                scales = {"none": float, "log1p": math.log1p, "sqrt": math.sqrt}
                unit = rule.get("scale", 1.0)
                scale = scales.get(rule["transform"], lambda x, s=unit: math.copysign(math.log1p(abs(x) / s), x))
                low, high = scale(rule["lower"]), scale(rule["upper"])
                u = (scale(min(max(cell, rule["lower"]), rule["upper"])) - low) / (high - low)
                found[k] += float(np.interp(u, rule["knots"], v[: len(rule["knots"])]))
    return found


def test_json_is_read_without_the_library(fitted: Any, tmp_path: Any) -> None:
    plain = json.loads(fitted.to_json(tmp_path / "model.json"))
    assert json.loads((tmp_path / "model.json").read_text()) == plain
    assert (plain["format"], plain["version"], plain["model"]) == ("dpconvex-model", 1, fitted.certificate_.model)
    found = [score(plain, record) for record in HELD_OUT.to_dict("records")]
    np.testing.assert_allclose(found, scores(fitted, HELD_OUT), rtol=0, atol=1e-12)


def test_a_data_base_scores_the_same(fitted: Any) -> None:
    with closing(sqlite3.connect(":memory:")) as base:
        base.create_function("LN", 1, lambda x: None if x is None else math.log(x))
        base.create_function("SIGN", 1, lambda x: None if x is None else math.copysign(1, x))
        base.create_function("SQRT", 1, lambda x: None if x is None else math.sqrt(x))
        HELD_OUT.to_sql("people", base, index=False)
        found = pd.read_sql(fitted.to_sql("people"), base)
    columns = [name for name in found if name.startswith("score_")]
    np.testing.assert_allclose(found[columns], scores(fitted, HELD_OUT), rtol=0, atol=1e-10)


def test_a_query_reads_cells_as_the_schema_does_and_says_what_scores_mean() -> None:
    """Truth values, numbers that are levels and blanks were scored as unlisted, -999 as the least number."""
    n, rng = 400, np.random.default_rng(0)
    table = pd.DataFrame({"smokes": rng.random(n) < 0.5, "class": rng.integers(1, 4, n).astype(float)})
    table["sex"], table["age"] = rng.choice(["f", "f ", " m"], n), rng.choice([-999.0, 20.0, 60.0], n)
    table["born"], table["cost"] = "1990-05-01", rng.random(n)
    columns = (
        CategoricalColumn("smokes", ("False", "True")),
        CategoricalColumn("class", ("1", "2", "3")),
        CategoricalColumn("sex", ("f", "m"), other=True),
        NumericColumn("age", 0, 100, missing=("-999", "?"), indicator=True),
        NumericColumn("born", 0, 40000, date="age", at="2020-01-01"),
    )
    model = PrivateLinearRegression(9.0, schema=Schema(columns, NumericTarget("cost", 0, 1)), random_state=0).fit(table)
    days = (pd.Timestamp("2020-01-01") - pd.Timestamp("1990-05-01")).days
    query = model.to_sql("people")
    with closing(sqlite3.connect(":memory:")) as base:
        table.assign(born=days).to_sql("people", base, index=False)
        found = pd.read_sql(query, base)["score_0"].clip(0, 1)
        table.assign(born=days, smokes=table["smokes"].map({True: "true", False: "FALSE"})).to_sql("texts", base)
        again = pd.read_sql(model.to_sql("texts"), base)["score_0"].clip(0, 1)
    np.testing.assert_allclose(found, model.predict(table), rtol=0, atol=1e-12)
    np.testing.assert_allclose(again, found, rtol=0, atol=1e-12)
    prediction, derived = query.splitlines()[:2]
    assert prediction == "-- The prediction is score_0, cut to 0.0 to 1.0"
    assert derived == '-- "born" must hold what is derived: age, 2020-01-01'
    odd = ClassTarget("y", ("no", "yes;\nDROP TABLE people; --"))
    odd_table = table.assign(y=np.where(table["age"] > 0, *odd.classes))
    named = PrivateLogisticRegression(1.0, schema=Schema(columns, odd), random_state=0).fit(odd_table)
    assert [line[:2] for line in named.to_sql("people").splitlines()[:3]] == ["--", "--", "SE"]
    bars = Schema((CategoricalColumn("a|b", ("<i>", "x")),), TARGETS["good"])
    card = to_card(PrivateLogisticRegression(1.0, schema=bars, random_state=0).fit(frame_of(20).assign(**{"a|b": "x"})))
    assert "| a&#124;b | &lt;i&gt;, x | |" in card


def test_onnx_scores_the_same(fitted: Any) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(fitted).SerializeToString())
    inputs = {each.name: HELD_OUT[[each.name]].to_numpy() for each in session.get_inputs()}
    found, labels = session.run(
        None, {name: cells if cells.dtype == float else cells.astype(object) for name, cells in inputs.items()}
    )
    np.testing.assert_allclose(found, scores(fitted, HELD_OUT), rtol=0, atol=1e-12)
    if "classes_" in vars(fitted):
        np.testing.assert_array_equal(np.array(fitted.classes_)[labels[:, 0]], fitted.predict(HELD_OUT))
    else:
        np.testing.assert_allclose(labels[:, 0], fitted.predict(HELD_OUT), rtol=0, atol=1e-12)


def test_names_of_columns_do_not_meet_names_of_an_onnx_model() -> None:
    """Constants and nodes were c0, c1, ... and v0, v1, ..., as columns may be called."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    names = [*(f"c{k}" for k in range(4)), *(f"v{k}" for k in range(4)), "of model ", "of model of model c1"]
    table = pd.DataFrame(np.random.default_rng(0).uniform(0, 1, (50, len(names))), columns=names)
    table["y"] = (table["c0"] > 0.5).astype(int).astype(str)
    target = ClassTarget("y", ("0", "1"))
    model = PrivateLogisticRegression(99.0, schema=Schema([NumericColumn(n, 0, 1) for n in names], target)).fit(table)
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    found = session.run(None, {name: table[[name]].to_numpy() for name in names})[0]
    np.testing.assert_allclose(found[:, 0], model.decision_function(table), rtol=0, atol=1e-12)
    table["score"], schema = table["c0"], Schema((NumericColumn("score", 0, 1),), target)
    with pytest.raises(InvalidParameterError, match="column='score': is the name of an output of ONNX models"):
        to_onnx(PrivateLogisticRegression(1.0, schema=schema).fit(table))


def test_a_card_says_promise_data_metrics_and_limits(fitted: Any) -> None:
    text = to_card(fitted)
    for words in (
        "# Private",
        "epsilon = 3",
        "## Data",
        "| age | 0 to 100 | Form 3 |",
        "evaluate",
        "## Limits",
        "sha256:",
    ):
        assert words in text


def test_a_card_says_which_ranges_were_found() -> None:
    schema = Schema((NumericColumn("age", 0, 1e4, source="Form 3"), COLUMNS[5]), TARGETS["good"], source="Office")
    text = to_card(PrivateLogisticRegression(9.0, schema=schema, random_state=0).fit(frame_of(2000)))
    row = next(line for line in text.splitlines() if line.startswith("| age |"))
    assert row.endswith("| found privately by the fit (released) |")
    assert "| flag | no, yes | Office |" in text


def test_a_card_has_a_short_table_of_metrics(fitted: Any) -> None:
    """With 50 classes it had 3,012 lines, raw noisy cells among them."""
    classes = {f"{name}[{k}]": [0.5, 0.25, 1.0] for k in range(50) for name in ("recall", "precision")}
    metrics = {**classes, "accuracy": [0.75, 0.5, 0.8751], "auc": None}
    text = to_card(fitted, {"metrics": metrics, "cells": [0.125] * 999, "scope": "Classes: [0] <a>.", "promise": None})
    assert "|---|---|---|\n| accuracy | 0.75 | 0.5 to 0.8751 |\n| auc | not known | |\n" in text
    assert "| recall[0] | 0.5 | 0.25 to 1 |" in text
    assert "82 more are in `metrics.json`.\n\nClasses: [0] &lt;a&gt;." in text
    assert "0.125" not in text
    assert text.count("\n") < to_card(fitted).count("\n") + 30


@pytest.mark.gate
def test_matrices_and_refusals() -> None:
    X = np.random.default_rng(0).uniform(-2, 2, (500, 3))
    model = PrivateLinearRegression(3.0, feature_bounds=(-1, 1), target_bounds=(-1, 1), random_state=0).fit(X, X[:, 0])
    np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), rtol=0, atol=1e-12)
    ball = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=[0, 1], random_state=0).fit(X, X[:, 0] > 0)
    with pytest.raises(InvalidParameterError, match="feature_bounds"):
        ball.to_sklearn()
    pair = PrivateAdditiveClassifier(1.0, schema=Schema(COLUMNS, TARGETS["good"]), interactions=[("age", "flag")])
    with pytest.raises(InvalidParameterError, match="interactions"):
        pair.set_params(random_state=0).fit(frame_of(300)).to_sklearn()


@pytest.mark.parametrize("given", [{"feature_bound": 1.5}, {"feature_bounds": (-1.5, 1.5)}], ids=str)
def test_sparse_models_list_the_columns_they_use(given: dict[str, Any]) -> None:
    """Of a thousand columns a query would have a thousand terms that add nothing."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (3000, 200))
    y = 3 * X[:, 3] + X[:, 150]
    model = PrivateLasso(4.0, **given, target_bounds=(-9, 9), random_state=0).fit(X, y)
    shapes = model.to_dict()["shapes"]
    assert [int(rule["column"]) for rule in shapes] == np.flatnonzero(model.coef_).tolist()
    assert 0 < len(shapes) < 100
    rows = np.append(3 * X[:50], np.full((1, 200), np.nan), axis=0)
    np.testing.assert_allclose(model.to_sklearn().predict(rows), model.predict(rows), rtol=0, atol=1e-12)
    model.encoded_coef_ = 0 * model.encoded_coef_
    assert len(model.to_dict()["shapes"]) == 1  # a pipeline needs a column
    np.testing.assert_allclose(model.to_sklearn().predict(rows), model.predict(rows), rtol=0, atol=1e-12)


def test_notebooks_show_promise_and_cost() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    model = PrivateLinearRegression(3.0, feature_bounds=(-1, 1), target_bounds=(-1, 1), random_state=0)
    assert "Privacy certificate" not in model._repr_html_()
    model.fit(X, X[:, 0])
    for each in (model, model.certificate_, model.plan_):
        text = each._repr_html_()
        assert "epsilon 3, delta 0, per record" in text
        assert "<svg" in text
    assert "NO: the noise was seeded" in model._repr_html_()


def test_sql_takes_for_numbers_what_a_schema_does_and_leaves_inputs_of_formulas_to_them() -> None:
    assert [_number(text) for text in ("1e2", "+.5", "TRUE")] == [100.0, 0.5, 1.0]
    assert all(np.isnan(_number(text)) for text in ("1_0", "\uff12", "one", ""))
    columns = (
        NumericColumn("d", 0, 100, formula="w - 10", missing=("-999",)),
        NumericColumn("e", 0, 100, missing=("-999",)),
    )
    schema = Schema(columns, target=ClassTarget("good", ("no", "yes")))
    frame = pd.DataFrame({"w": [5.0, 70.0], "e": [-999.0, 3.0], "good": ["no", "yes"]})
    query = PrivateLogisticRegression(1.0, schema=schema, random_state=0).fit(frame).to_sql("t")
    assert 'NULLIF("e", -999.0)' in query
    assert 'NULLIF("d"' not in query


def test_many_classes_leave_without_a_warning() -> None:
    model = PrivateLogisticRegression(1.0, feature_bounds=(0, 1), classes=range(30))
    X = np.random.default_rng(0).random((300, 2))
    with warnings.catch_warnings(action="ignore", category=HopelessPlanWarning):
        model.fit(X, np.arange(300) % 30)
    with warnings.catch_warnings(action="error"):
        plain = model.to_sklearn()
    assert np.array_equal(plain.predict(X), model.predict(X))
