"""``neighbors="add_or_remove_one"``: estimators for a private number of records or users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from dpconvex import (
    CategoricalColumn,
    NumericColumn,
    PrivateAdditiveClassifier,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    PrivateSyntheticData,
    Schema,
    budget_context,
    fit_and_evaluate,
    verify,
)
from dpconvex.data import ClassTarget
from dpconvex.errors import DpconvexError, InvalidDataError, InvalidParameterError
from dpconvex.mechanisms import ReportNoisyMax

ADDED: dict[str, Any] = {"neighbors": "add_or_remove_one", "rows": 300, "random_state": 0}
BOUNDS: dict[str, Any] = {"feature_bounds": (-1.0, 1.0), **ADDED}
CLASSES: dict[str, Any] = {"classes": [0, 1], **BOUNDS}
TARGET: dict[str, Any] = {"target_bounds": (-2.0, 2.0), **BOUNDS}
SCHEMA = Schema(
    (CategoricalColumn("town", ("a", "b", "c")), NumericColumn("age", 0.0, 100.0)), ClassTarget("sick", ("no", "yes"))
)

MODELS = [
    (PrivateLogisticRegression, CLASSES, 0.0),
    (PrivateLogisticRegression, {**CLASSES, "algorithm": "noisy_gradient"}, 1e-6),
    (PrivateLogisticRegression, {**CLASSES, "class_weight": {0: 1.0, 1: 3.0}}, 1e-6),
    (PrivateLinearSVC, CLASSES, 1e-6),
    (PrivateAdditiveClassifier, {**CLASSES, "knots": 3}, 0.0),
    (PrivateAdditiveClassifier, CLASSES, 0.0),
    (PrivateLinearRegression, TARGET, 0.0),
    (PrivateLinearRegression, TARGET, 1e-6),
    (PrivateHuberRegressor, TARGET, 1e-6),
    (PrivateQuantileRegressor, TARGET, 1e-6),
]


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize(("kind", "parameters", "delta"), MODELS)
def test_models_are_planned_for_the_declared_number_whatever_the_data_hold(
    kind: Any, parameters: dict[str, Any], delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ReportNoisyMax, "_sample", lambda self, scores, source: len(scores) // 2
    )  # the same parts are released
    model = kind(1.0, delta, **parameters)
    stated = []
    for n in (0, 1, 299, 4000):
        X, y = data(n)
        model.fit(X, y)
        assert np.isfinite(np.ravel(model.coef_)).all()
        assert model.plan_.problem.n == 300
        certificate = model.certificate_
        stated.append({k: v for k, v in certificate.to_dict().items() if k not in ("digest", "model")})
        assert "dding or removing one row" in certificate.explain()
    assert all(each == stated[0] for each in stated)
    assert [check.name for check in verify(certificate).checks if not check.passed] == ["noise is not seeded"]
    assert model.plan(300, 2)[0].privacy == model.plan_.privacy


@pytest.mark.parametrize("kind", ["frame", "polars", "sparse", "array"])
def test_tables_of_every_kind(kind: str) -> None:
    X, y = data(400)
    frame = pd.DataFrame({"town": np.where(X[:, 1] > 0, "a", "b"), "age": 50 * X[:, 0] + 50, "sick": y}).replace(
        {"sick": {0: "no", 1: "yes"}}
    )
    if kind in ("frame", "polars"):
        model = PrivateLogisticRegression(1.0, schema=SCHEMA, **ADDED)
        for part in (frame, frame.iloc[:0]):
            model.fit(part if kind == "frame" else pl.from_pandas(part))
    else:
        model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=[0, 1], **ADDED)
        model.fit(scipy.sparse.csr_array(X) if kind == "sparse" else X, y)
        with pytest.raises(InvalidDataError, match="X is a list"):  # an empty one would have no columns
            model.fit(X.tolist(), y)
    assert model.certificate_.public["declared_n"] == 300


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_users_are_added_with_all_their_records(delta: float) -> None:
    X, y = data(900)
    model = PrivateLogisticRegression(1.0, delta, **CLASSES)
    for n in (0, 9, 900):
        model.fit(X[:n], y[:n], groups=np.arange(n) // 3)
        assert model.plan_.problem.n == 300
        assert (
            "adding or removing everything" in model.certificate_.explain().lower()
            or "user" in model.certificate_.explain()
        )
    assert model.plan(300, 2, unit="user")[0].privacy.neighboring == "add_or_remove_one"


def test_a_unit_more_needs_less_noise_than_a_replaced_one() -> None:
    usual = {k: v for k, v in CLASSES.items() if k not in ("neighbors", "rows")}
    mine, other = (PrivateLogisticRegression(1.0, **given).plan(300, 2)[0] for given in (CLASSES, usual))
    expected: Any = [plan.predicted_error.expected for plan in (mine, other)]
    assert expected[0] < 0.6 * expected[1]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"rows": None}, "rows=None"),
        ({"rows": 0}, "rows=0"),
        ({"neighbors": "other"}, "replace_one"),
        ({"neighbors": "replace_one"}, "Leave it out"),
        ({"algorithm": "output_perturbation"}, "noisy_gradient"),
        ({"tilt": 1.0}, "number of records is private"),
        ({"feature_bounds": "private"}, "Declare the ranges"),
        ({"inference": True}, "neighbors"),
    ],
)
def test_refusals_name_the_parameter_and_no_number_of_the_data(change: dict[str, Any], word: str) -> None:
    X, y = data(777)
    with pytest.raises(InvalidParameterError, match=word) as refused:
        PrivateLogisticRegression(1.0, 1e-6, **{**CLASSES, **change}).fit(X, y)
    assert "777" not in str(refused.value)


def test_refusals_are_the_same_for_any_number_of_records() -> None:
    """A stream without rows, and a search of fewer than two, told by another text how many there are."""
    table = pd.DataFrame({"town": ["a", "b"], "age": [3.0, 4.0], "sick": ["no", "yes"]})
    X, y = data(2)
    given = {**CLASSES, "random_state": None}
    asked = [
        lambda n: PrivateLogisticRegression(1.0, schema=SCHEMA, **ADDED).fit(pl.LazyFrame(table[:n])),
        lambda n: PrivateSyntheticData(1.0, 0.0, schema=SCHEMA, **ADDED).fit(pl.LazyFrame(table[:n])),
        lambda n: PrivateSearchCV(PrivateLogisticRegression(**given), {"slope_cap": [0.5, 1.0]}).fit(X[:n], y[:n]),
    ]
    for ask in asked:
        found = set()
        for n in (0, 1, 2):
            with pytest.raises(InvalidParameterError, match="neighbors") as refused:
                ask(n)
            found.add(str(refused.value))
        assert len(found) == 1
    for kind in (PrivateLogisticRegression, PrivateSyntheticData):  # where it is public, as ever
        with pytest.raises(InvalidDataError, match="0 sample"):
            kind(schema=SCHEMA).fit(pl.LazyFrame(table[:0]))


def test_what_does_not_go_with_it_is_refused_before_anything_is_paid() -> None:
    X, y = data(777)
    given, target = {**CLASSES, "random_state": None}, {**TARGET, "random_state": None}
    model = PrivateLogisticRegression(1.0, **given)
    asked = [
        lambda: PrivateSearchCV(model, {"slope_cap": [0.5, 1.0]}).fit(X, y),
        lambda: fit_and_evaluate(model, X, y, epsilon=1.0),
        lambda: PrivateHuberRegressor(1.0, heavy_tailed=2, **target).fit(X, y),
        lambda: model.fit(X, y[:-1]),
        lambda: PrivateLogisticRegression(1.0, **{**given, "records_per_user": "private"}).fit(X, y, groups=y),
        lambda: model.fit(X, y, groups=y[:-1]),
        lambda: model.fit(X[:, 0], y),
        lambda: model.fit(X[:, :0], y),
        lambda: model.fit(X, np.column_stack([y, y])),
        lambda: model.fit(X, y, groups=np.column_stack([y, y])),
        lambda: PrivateLogisticRegression(1.0, **{**given, "classes": "infer"}).fit(X, y),
    ]
    told = set()
    for rows in (0, 1, 2):  # the same error for any number of records
        with pytest.raises(InvalidParameterError) as refused:
            PrivateLogisticRegression(1.0, **{**given, "classes": "infer"}).fit(X[:rows], y[:rows])
        told.add(str(refused.value))
    assert len(told) == 1
    with budget_context(epsilon=50, delta=1e-3, neighboring="add_or_remove_one") as budget:
        for ask in asked:
            with pytest.raises(DpconvexError) as refused:
                ask()
            assert "777" not in str(refused.value)
        assert budget.account().left[0] == 50
        model.fit(X, y)
        assert budget.account().left[0] == 49
