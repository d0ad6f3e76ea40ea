from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpconvex import (
    Block,
    CategoricalColumn,
    DataDomain,
    NumericColumn,
    PrivateLogisticRegression,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    Schema,
    budget_context,
    draft_schema,
    fit_and_evaluate,
    load_model,
    save_model,
    verify,
)
from dpconvex.data import ClassTarget
from dpconvex.errors import (
    DpconvexError,
    HopelessPlanWarning,
    InvalidDataError,
    InvalidParameterError,
    RepeatedFitWarning,
    SchemaError,
)


def data(n: int = 4000, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    y = (rng.random(n) < 1 / (1 + np.exp(-4 * X[:, 0] + X[:, 1] - 0.5))).astype(int)
    return X, y


@pytest.mark.parametrize("algorithm", ["auto", "objective_perturbation", "output_perturbation"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.dear("1e-06-auto")
def test_large_epsilon_recovers_the_regularized_optimum(algorithm: str, delta: float) -> None:
    X, y = data()
    l2 = 1e-3
    model = PrivateLogisticRegression(
        1e5, delta, feature_bounds=(-1, 1), algorithm=algorithm, l2=l2, fit_intercept=False, classes=[0, 1]
    )
    model.fit(X, y)
    # The estimator scales columns to [-1/2, 1/2]; in those units the penalty is the same.
    reference = LogisticRegression(C=1 / (len(X) * l2), fit_intercept=False, tol=1e-10, max_iter=1000).fit(X / 2, y)
    np.testing.assert_allclose(model.encoded_coef_, reference.coef_, atol=0.02)
    np.testing.assert_allclose(model.coef_ * 2, model.encoded_coef_)


def test_three_classes() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (6000, 2))
    y = np.array(["a", "b", "c"])[np.argmax(X @ np.array([[4, -4, 0], [0, 0, 4]]), axis=1)]
    model = PrivateLogisticRegression(5.0, feature_bounds=(-1, 1), classes=["a", "b", "c"]).fit(X, y)
    assert model.coef_.shape == (3, 2)
    assert model.score(X, y) > 0.9
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(np.log(probabilities), model.predict_log_proba(X))


def test_every_fit_draws_fresh_noise_unless_seeded() -> None:
    X, y = data()
    make = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), classes=[0, 1])
    assert not np.array_equal(make.fit(X, y).coef_, make.fit(X, y).coef_)
    make.set_params(random_state=3)
    first = make.fit(X, y)
    assert not first.certificate_.private
    assert not verify(first.certificate_).passed
    np.testing.assert_array_equal(first.coef_.copy(), make.fit(X, y).coef_)


def test_plan_needs_no_data_and_is_what_fit_uses() -> None:
    X, y = data()
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=[0, 1])
    planned = model.plan(len(X), X.shape[1])
    fitted = model.fit(X, y)
    assert fitted.plan_.l2 == planned[0].l2
    errors = [plan.predicted_error.expected for plan in planned]
    assert np.all(np.diff(errors) >= -1e-12)  # some are equal but for rounding
    assert {plan.algorithm for plan in planned} == {"objective_perturbation", "output_perturbation", "constant"}
    assert not any(name.startswith("n_iter") for name in vars(fitted))


CONTENTS = {
    "nan": lambda X: X.__setitem__((slice(None), 0), np.nan),
    "one nan": lambda X: X.__setitem__((3, 1), np.nan),
    "inf": lambda X: X.__setitem__((slice(5), 1), np.inf),
    "-inf": lambda X: X.__setitem__((slice(5), 1), -np.inf),
    "huge": lambda X: X.__setitem__(slice(None), 1e300),
    "tiny": lambda X: X.__setitem__(slice(None), 1e-300),
    "constant": lambda X: X.__setitem__(slice(None), 0.5),
    "zeros": lambda X: X.__setitem__(slice(None), 0.0),
    "duplicates": lambda X: X.__setitem__(slice(None), X[0].copy()),
}
BOUNDS = {
    "norm": {"feature_norm": 1.0},
    "bounds": {"feature_bounds": (-1, 1)},
    "domain": {"domain": DataDomain((Block(2, "l1", 1.0), Block(1, "linf", 2.0)))},
}


@pytest.mark.thin
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("n", [1, 300])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.dear("1e-06-1-norm")
def test_content_never_speaks(bounds: dict[str, Any], n: int, delta: float) -> None:
    X0, y0 = data(n)
    model = PrivateLogisticRegression(1.0, delta, classes=[0, 1], **bounds)
    reference = model.fit(X0, y0).certificate_.public_fields()
    labels = [y0, np.zeros(n, int), np.ones(n, int), np.full(n, 7), np.full(n, np.nan), np.full(n, -np.inf)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for public in (HopelessPlanWarning, RepeatedFitWarning):  # of facts that are the same for every content
            warnings.simplefilter("ignore", public)
        for spoil in CONTENTS.values():
            X = X0.copy()
            if n > 3 or spoil is not CONTENTS["one nan"]:
                spoil(X)
            model.fit(X, y0)
            assert model.certificate_.public_fields() == reference
            assert np.isfinite(model.coef_).all()
            assert np.isfinite(model.predict_proba(X)).all()
        for y in labels:
            assert model.fit(X0, y).certificate_.public_fields() == reference | {"public": reference["public"]}


def test_clipping_makes_an_outlier_worth_one_record() -> None:
    X, y = data(500)
    far = X.copy()
    far[0] = 1e6
    at_bound = X.copy()
    at_bound[0] = 1.0
    make = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), random_state=0, classes=[0, 1])
    np.testing.assert_array_equal(make.fit(far, y).coef_.copy(), make.fit(at_bound, y).coef_)


@pytest.mark.gate
@pytest.mark.parametrize("columns", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_a_million_columns(columns: int) -> None:
    X = np.zeros((4, columns), dtype=np.float32)
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, algorithm="output_perturbation", classes=[0, 1])
    model.fit(X, np.array([0, 1, 0, 1]))
    assert model.coef_.shape == (1, columns)


SCHEMA = Schema(
    (
        NumericColumn("age", 0, 100),
        CategoricalColumn("color", ("red", "green", "blue"), other=True),
        CategoricalColumn("sex", ("F", "M")),
    ),
    ClassTarget("bought", ("no", "yes")),
)
COLUMNS = {
    "age": [10.0, 50.0, None, 1e9, -3.0, 70.0],
    "color": ["red", "blue", "mauve", None, "green", "red"],
    "sex": ["F", "M", "M", "X", None, "F"],
    "bought": ["no", "yes", "yes", "maybe", None, "no"],
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("make_frame", FRAMES.values(), ids=FRAMES)
def test_tables_of_every_library_give_the_same_fit(make_frame: Any) -> None:
    frame, reference = make_frame(COLUMNS), pa.table(COLUMNS)
    model = PrivateLogisticRegression(1.0, schema=SCHEMA, random_state=0)
    expected = model.fit(reference).coef_.copy()
    np.testing.assert_array_equal(model.fit(frame).coef_, expected)
    np.testing.assert_array_equal(model.fit(frame, frame["bought"]).coef_, expected)
    labels = np.array(["" if value is None else value for value in COLUMNS["bought"]])
    np.testing.assert_array_equal(model.fit(frame, labels).coef_, expected)
    assert set(model.predict(frame)) <= {"no", "yes"}
    assert model.coef_.shape == (1, len(SCHEMA.feature_names))


def test_labels_with_missing_values() -> None:
    X, y = data(60)
    for labels in (
        pd.Series(y).astype("boolean").mask(pd.Series(range(60)) == 3),
        pd.Series(y).astype("Int64").mask(pd.Series(range(60)) == 3),
        pl.Series([None, *map(bool, y[1:])]),
        np.array([None, *map(str, y[1:])], dtype=object),
    ):
        classes = None if "bool" in str(labels.dtype).lower() else [0, 1]
        model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes=classes).fit(X, labels)
        assert len(model.classes_) == 2


def test_pipeline() -> None:
    X, y = data()
    model = make_pipeline(
        FunctionTransformer(np.tanh), PrivateLogisticRegression(2.0, feature_bounds=(-1, 1), classes=[0, 1])
    )
    assert model.fit(X, y).score(X, y) > 0.75


def test_inferred_labels_are_stated() -> None:
    X, y = data(100)
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, classes="infer").fit(X, np.where(y == 1, "yes", "no"))
    assert list(model.classes_) == ["no", "yes"]
    assert any("labels occur" in a.statement for a in model.certificate_.assumptions)
    assert verify(model.certificate_).passed


X_OK, Y_OK = data(20)
BAD: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "no bounds": ({}, X_OK, Y_OK, "feature_norm"),
    "two bounds": ({"feature_norm": 1.0, "feature_bounds": (0, 1)}, X_OK, Y_OK, "exactly one"),
    "epsilon zero": ({"epsilon": 0.0, "feature_norm": 1.0}, X_OK, Y_OK, "epsilon=0.0"),
    "epsilon nan": ({"epsilon": float("nan"), "feature_norm": 1.0}, X_OK, Y_OK, "epsilon=nan"),
    "delta half": ({"delta": 0.5, "feature_norm": 1.0}, X_OK, Y_OK, "delta=0.5"),
    "norm negative": ({"feature_norm": -1.0}, X_OK, Y_OK, "feature_norm=-1.0"),
    "bounds reversed": ({"feature_bounds": (1, 0)}, X_OK, Y_OK, "lower < upper"),
    "bounds too close": ({"feature_bounds": (0, 5e-324)}, X_OK, Y_OK, "by 1e-300"),
    "bounds of wrong length": ({"feature_bounds": ([0, 0], [1, 1])}, X_OK, Y_OK, "n_features"),
    "unknown algorithm": ({"feature_norm": 1.0, "algorithm": "sgd"}, X_OK, Y_OK, "algorithm='sgd'"),
    "unknown noise": ({"feature_norm": 1.0, "noise": "pink"}, X_OK, Y_OK, "noise='pink'"),
    "gaussian without delta": ({"feature_norm": 1.0, "noise": "gaussian"}, X_OK, Y_OK, "delta"),
    "l2 negative": ({"feature_norm": 1.0, "l2": -1.0}, X_OK, Y_OK, "l2=-1.0"),
    "seed of wrong type": ({"feature_norm": 1.0, "random_state": "0"}, X_OK, Y_OK, "random_state"),
    "one class": ({"feature_norm": 1.0, "classes": [0]}, X_OK, Y_OK, "two different labels"),
    "text labels without classes": ({"feature_norm": 1.0, "classes": None}, X_OK, Y_OK.astype(str), "classes=None"),
    "numbers without classes": ({"feature_norm": 1.0, "classes": None}, X_OK, Y_OK, "classes=None.*labels of type int"),
    "labels of another type": ({"feature_norm": 1.0, "classes": ["a", "b"]}, X_OK, Y_OK, "same type"),
    "one-dimensional X": ({"feature_norm": 1.0}, X_OK[0], Y_OK, r"\(n,\)"),
    "text X": ({"feature_norm": 1.0}, X_OK.astype(str), Y_OK, "dtype"),
    "object X": ({"feature_norm": 1.0}, X_OK.astype(object), Y_OK, "dtype"),
    "lengths differ": ({"feature_norm": 1.0}, X_OK, Y_OK[:-1], "must agree"),
    "no records": ({"feature_norm": 1.0}, X_OK[:0], Y_OK[:0], "0 sample"),
    "domain of another size": ({"domain": DataDomain.box(2, 1.0)}, X_OK, Y_OK, r"\(n, 2\)"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_parameters_and_shapes(case: tuple[dict[str, Any], Any, Any, str]) -> None:
    parameters, X, y, message = case
    with pytest.raises(ValueError, match=message) as caught:
        PrivateLogisticRegression(**{"classes": [0, 1], **parameters}).fit(X, y)
    # No message quotes a cell of the data.
    assert "0.2739" not in str(caught.value)


def test_text_column_is_refused_by_dtype() -> None:
    frame = pd.DataFrame({"a": ["SECRET", "1"], "b": [1.0, 2.0]})
    with pytest.raises(InvalidDataError, match="column 'a' is not numeric") as caught:
        PrivateLogisticRegression(feature_norm=1.0, classes=[0, 1]).fit(frame, [0, 1])
    assert "SECRET" not in str(caught.value)


def test_errors_share_a_base_and_survive_pickling() -> None:
    import pickle

    with pytest.raises(DpconvexError) as caught:
        PrivateLogisticRegression(epsilon=-1, feature_norm=1.0, classes=[0, 1]).fit(X_OK, Y_OK)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copied, InvalidParameterError)
    assert str(copied) == str(caught.value)


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_units_do_not_matter(scale: float) -> None:
    """Scaling the data and the bound together gives the same model: a scaling mistake in the noise would show."""
    X, y = data(800)
    X /= 2
    one = PrivateLogisticRegression(1.0, feature_norm=1.0, random_state=5, classes=[0, 1]).fit(X, y)
    other = PrivateLogisticRegression(1.0, feature_norm=scale, random_state=5, classes=[0, 1]).fit(X * scale, y)
    np.testing.assert_allclose(other.coef_ * scale, one.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=1e-4, atol=1e-5)
    assert other.plan_.predicted_error.bound == pytest.approx(one.plan_.predicted_error.bound, rel=1e-6)


def test_a_tilt_helps_the_rare_class() -> None:
    """Nearly without noise: the tilted model believes more in a rare class than the plain one."""
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.05).astype(int)
    X = np.clip(rng.normal(0.4 * y[:, None], 0.3, (4000, 2)), -1, 1)
    belief = {}
    for tilt in (0.0, 2.0):
        model = PrivateLogisticRegression(
            1e4, feature_bounds=(-1, 1), algorithm="output_perturbation", l2=1e-2, tilt=tilt, classes=[0, 1]
        ).fit(X, y)
        assert verify(model.certificate_).passed
        assert model.certificate_.public.get("tilt", 0.0) == tilt
        belief[tilt] = model.predict_proba(X)[y == 1, 1].mean()
    assert belief[2.0] > belief[0.0] + 0.05


def test_tilts_out_of_range_or_theory_are_refused() -> None:
    for parameters in ({"tilt": -1.0}, {"tilt": 1.0, "algorithm": "objective_perturbation"}):
        with pytest.raises(InvalidParameterError, match="tilt"):
            PrivateLogisticRegression(1.0, feature_bounds=(-1, 1), classes=[0, 1], **parameters).fit(X_OK, Y_OK)


def test_the_constant_of_users_is_as_large_as_the_largest_feature() -> None:
    """Descent of users takes steps in units of columns: one twice as large as they are would take most noise."""
    schema = Schema((NumericColumn("a", 0, 8), NumericColumn("b", -1, 1)), target=ClassTarget("y", ("0", "1")))
    plans = {
        unit: PrivateLogisticRegression(1.0, 1e-6, schema=schema).plan(1000, unit=unit)[0]
        for unit in ("record", "user")
    }
    constants = {unit: plan.problem.domain.intercept for unit, plan in plans.items()}
    assert constants == {"record": 1.0, "user": 0.5}


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateSparseLogisticRegression])
def test_labels_are_scored_as_fits_read_them(kind: Any) -> None:
    """A schema's classes are texts; a table may hold numbers."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, 400)})
    frame["y"] = (frame.x > 0.4).astype(int)
    schema = Schema((NumericColumn("x", 0, 1),), ClassTarget("y", ("0", "1")))
    fitted = kind(50.0, schema=schema).fit(frame)
    right = np.mean(fitted.predict(frame) == frame.y.astype(str))
    assert fitted.score(frame, frame.y) == fitted.score(frame) == fitted.score(frame, frame.y.astype(str)) == right
    assert fitted.score(frame, frame.y, sample_weight=frame.y) == np.mean(fitted.predict(frame[frame.y == 1]) == "1")
    assert np.isfinite(cross_val_score(kind(5.0, schema=schema), frame, frame.y, cv=2)).all()


def test_a_schema_and_classes_that_are_numbers_make_predictions_numbers(tmp_path: Path) -> None:
    """Metrics of scikit-learn compare them with `y`; without `classes` they are the schema's texts."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, 400)})
    frame["y"] = (frame.x > 0.4).astype(int)
    schema = Schema((NumericColumn("x", 0, 1),), ClassTarget("y", ("0", "1")))
    model = PrivateLogisticRegression(50.0, schema=schema, classes=[0, 1])
    for fitted in (model.fit(frame), model.fit(frame, frame.y)):
        assert fitted.predict(frame).dtype.kind == "i"
    assert cross_val_score(model, frame, frame.y, cv=2, scoring="f1").min() > 0.3
    save_model(model.fit(frame), tmp_path / "model.skops")
    assert load_model(tmp_path / "model.skops").classes_.tolist() == [0, 1]
    for other in ([1, 2], [1, 0], [0, 1, 2]):
        with pytest.raises(InvalidParameterError, match="schema's classes in its order"):
            PrivateLogisticRegression(50.0, schema=schema, classes=other).fit(frame)
    rated = Schema(schema.columns, ClassTarget("y", ("0", "1"), (0.9, 0.1)))
    losses = [PrivateLogisticRegression(1.0, schema=rated, classes=given) for given in (None, [0, 1], [0.0, 1.0])]
    assert len({model.plan(400)[0].problem.loss for model in losses}) == 1  # the public rates count


@pytest.mark.parametrize("fit", ["fit", "evaluate", "synthesize", "search", "sparse"])
def test_no_fit_takes_a_schema_that_nobody_confirmed(fit: str) -> None:
    frame = pd.DataFrame({"x": np.linspace(0, 1, 400), "y": ["a", "b"] * 200})
    draft = Schema.from_toml_text(draft_schema(frame, "y"))
    model = PrivateLogisticRegression(1.0, schema=draft)
    assert model.plan(400)
    runs = {
        "fit": lambda: model.fit(frame),
        "evaluate": lambda: fit_and_evaluate(model, frame, epsilon=1.0),
        "synthesize": lambda: PrivateSyntheticData(1.0, schema=draft).fit(frame),
        "search": lambda: PrivateSearchCV(model, {"coefficient_norm": [1.0, 2.0]}).fit(frame),
        "sparse": lambda: PrivateSparseLogisticRegression(1.0, schema=draft).fit(frame),
    }
    with budget_context(epsilon=5) as budget:
        with pytest.raises(SchemaError, match="confirmed"):
            runs[fit]()
        assert not budget.account().spent
