"""Regressors: what they converge to, units, the public range of the target, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import minimize

from dpconvex import (
    NumericColumn,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateQuantileRegressor,
    Schema,
    verify,
)
from dpconvex.data import ClassTarget, NumericTarget
from dpconvex.errors import DpconvexError, InvalidDataError

REGRESSORS = (PrivateLinearRegression, PrivateHuberRegressor, PrivateQuantileRegressor)
LOW, HIGH = 10.0, 50.0
BOUNDS = {"feature_bounds": (-1, 1), "target_bounds": (LOW, HIGH)}
L2 = 1e-3


def data(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, 28 + 6 * X[:, 0] - 3 * X[:, 1] + rng.normal(0, 3, n)


def square(r: np.ndarray) -> np.ndarray:
    return r**2 / 2


def pseudo_huber(r: np.ndarray, width: float) -> np.ndarray:
    return width**2 * (np.sqrt(1 + (r / width) ** 2) - 1)


def smoothed_pinball(r: np.ndarray, quantile: float, width: float) -> np.ndarray:
    """A parabola up to 2/3 of the largest slope A, from there on ``A (1 - exp(-3 past) / 3)``, or the end of a side."""
    t, end, most = np.abs(r) / width, np.where(r < 0, quantile, 1 - quantile), max(quantile, 1 - quantile)
    stop = np.where(end < most, np.minimum(end, 2 / 3 * most), np.inf)  # no side of these ends in between
    inside = np.minimum(t, stop)
    past = np.maximum(inside / most - 2 / 3, 0)
    rise = np.minimum(inside, 2 / 3 * most) ** 2 / 2 + most**2 * (past + np.expm1(-3 * past) / 9)
    return width * (rise + end * (t - inside))


CASES: dict[str, tuple[Any, Any]] = {
    "linear": (PrivateLinearRegression(), square),
    "huber": (PrivateHuberRegressor(), lambda r: pseudo_huber(r, 0.2)),
    "huber, width": (PrivateHuberRegressor(width=2.0), lambda r: pseudo_huber(r, 2 / 40)),
    "quantile": (PrivateQuantileRegressor(), lambda r: smoothed_pinball(r, 0.5, 0.04)),  # 3,750 for each feature
    "quantile, options": (
        PrivateQuantileRegressor(quantile=0.8, smoothing=4.0),
        lambda r: smoothed_pinball(r, 0.8, 4 / 40),
    ),
}


@pytest.mark.parametrize("algorithm", ["objective_perturbation", "output_perturbation"])
@pytest.mark.parametrize(("model", "loss"), CASES.values(), ids=CASES)
def test_large_epsilon_recovers_the_regularized_optimum(model: Any, loss: Any, algorithm: str) -> None:
    X, y = data(1500)
    model.set_params(epsilon=1e6, algorithm=algorithm, l2=L2, **BOUNDS).fit(X, y)
    A, t = np.column_stack([X / 2, np.ones(len(X))]), (y - 30) / 40  # the estimator's inner units

    def risk(w: np.ndarray) -> float:
        return float(np.mean(loss(A @ w - t)) + L2 / 2 * w @ w)

    w = minimize(risk, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose(model.coef_, 40 * w[:3] / 2, atol=0.05)
    # to where an even density has the quantile: by what the sides fall short of their lines
    moved = (5 / 9 * 0.8**2 - 0.2**2 / 2) * 4 if getattr(model, "quantile", 0.5) == 0.8 else 0.0
    assert model.intercept_ == pytest.approx(30 + 40 * w[3] + moved, abs=0.05)


@pytest.mark.parametrize("quantile", [0.05, 0.3, 0.9])
def test_a_smoothed_quantile_is_not_biased_where_targets_are_even(quantile: float) -> None:
    """Without noise that share of the targets lies below, with a parabola of a fifth of the range, too."""
    y = np.linspace(LOW + 6, HIGH - 6, 2000)
    bounds = {
        "feature_bounds": (-1, 1),
        "target_bounds": (LOW, HIGH),
        "l2": 1e-7,
        "algorithm": "objective_perturbation",
    }
    model = PrivateQuantileRegressor(1e6, quantile=quantile, smoothing=4.0, **bounds).fit(np.zeros((2000, 1)), y)
    assert np.mean(y < model.predict(np.zeros((1, 1)))) == pytest.approx(quantile, abs=0.01)


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_units_of_target_and_features_do_not_matter(regressor: Any) -> None:
    X, y = data(400)
    one = regressor(1.0, random_state=1, **BOUNDS).fit(X, y)
    bounds = {"feature_bounds": (-100, 100), "target_bounds": (LOW * 1e-3 + 7, HIGH * 1e-3 + 7)}
    other = regressor(1.0, random_state=1, **bounds).fit(X * 100, y * 1e-3 + 7)
    np.testing.assert_allclose(other.coef_, one.coef_ * 1e-5, rtol=1e-5, atol=1e-12)
    assert other.intercept_ == pytest.approx(one.intercept_ * 1e-3 + 7, rel=1e-6)
    assert other.plan_.predicted_error.bound == pytest.approx(one.plan_.predicted_error.bound)


@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.dear("PrivateQuantileRegressor")
def test_coefficients_are_in_the_units_of_the_user_and_predictions_stay_in_range(regressor: Any) -> None:
    X, y = data(400)
    model = regressor(1e4, **BOUNDS).fit(X, y)
    linear = X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), np.clip(linear, LOW, HIGH), rtol=1e-9)
    assert isinstance(model.intercept_, float)
    narrow = regressor(1e4, feature_bounds=(-1, 1), target_bounds=(27, 29)).fit(X, y).predict(X)
    assert narrow.min() >= 27
    assert narrow.max() <= 29


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_a_target_out_of_range_is_worth_one_record(regressor: Any) -> None:
    X, y = data(300)
    model = regressor(1.0, random_state=0, **BOUNDS)
    for far, inside in ((1e9, HIGH), (-np.inf, LOW), (np.nan, (LOW + HIGH) / 2)):
        spoiled, clipped = y.copy(), y.copy()
        spoiled[0], clipped[0] = far, inside
        np.testing.assert_array_equal(model.fit(X, spoiled).coef_.copy(), model.fit(X, clipped).coef_)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_planned_share_of_targets_lies_below_a_quantile(quantile: float) -> None:
    X, y = data(4000)
    model = PrivateQuantileRegressor(100.0, quantile=quantile, smoothing=0.5, random_state=0, **BOUNDS).fit(X, y)
    assert np.mean(y < model.predict(X)) == pytest.approx(quantile, abs=0.04)


@pytest.mark.parametrize("quantile", [0.25, 0.75])
def test_quantiles_of_a_heavy_tail_converge_in_a_wide_range(quantile: float) -> None:
    """A look spares tails, and the parabola shrinks: else the .25 quantile lay below every target, whatever n."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (40_000, 2)), (rng.pareto(2.2, 40_000) + 0.2) * 2000
    given: dict[str, Any] = {"feature_bounds": (-1, 1), "target_bounds": (0, 500_000), "random_state": 0}
    model = PrivateQuantileRegressor(5.0, quantile=quantile, **given).fit(X, y)
    assert np.mean(y <= model.predict(X)) == pytest.approx(quantile, abs=0.02)
    assert model.ranges_[0].upper <= 31_250
    few = PrivateQuantileRegressor(5.0, quantile=quantile, **given).plan(300, 2)[0].problem.loss
    assert (few.width, model.plan_.problem.loss.width < 0.01) == (0.075, True)
    again = PrivateQuantileRegressor(0.1, quantile=quantile, **given).plan(40_000, 2)[0].problem.loss
    assert model.plans_at(0.1)[0].problem.loss == again  # as a report's other budgets
    own = PrivateQuantileRegressor(5.0, quantile=quantile, smoothing=50_000, **given)
    assert own.plan(40_000, 2)[0].problem.loss.width == pytest.approx(0.1)
    with pytest.raises(DpconvexError, match=r"smoothing=1: must be 0, or at least 1e-05 of the target's range, 5\."):
        own.set_params(smoothing=1).plan(40_000, 2)


def test_hubers_loss_stays_where_it_is_with_many_records() -> None:
    """Its width is a share of the range that a look keeps: predictions drifted towards the mean as records grew."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (60_000, 2)), (rng.pareto(2.2, 60_000) + 0.2) * 2000  # mean 2,070, median 1,140
    given: dict[str, Any] = {"feature_bounds": (-1, 1), "target_bounds": (0, 500_000), "random_state": 0}
    few, many = (PrivateHuberRegressor(4.0, **given).fit(X[:n], y[:n]) for n in (6_000, 60_000))
    assert many.ranges_[0].upper <= 15_625
    assert float(np.mean(many.predict(X))) == pytest.approx(float(np.mean(few.predict(X))), rel=0.05)
    wide = PrivateHuberRegressor(4.0, width=1e9, **given).plan(60_000, 2)[0].problem.loss
    assert wide.spare_tail < 1e-8


def test_no_smoothing_means_output_perturbation() -> None:
    X, y = data(300)
    model = PrivateQuantileRegressor(1.0, smoothing=0, **BOUNDS).fit(X, y)
    assert model.plan_.problem.loss.name == "pinball"
    assert {plan.algorithm for plan in model.plan(300, 3)} == {"output_perturbation"}
    with pytest.raises(DpconvexError, match="smooth"):
        model.set_params(algorithm="objective_perturbation").fit(X, y)


def test_pure_privacy_is_useful_at_epsilon_one() -> None:
    """5,000 records, R^2 without privacy 0.642; over 200 seeds the smallest of the three was 0.633."""
    X, y = data(5000)
    for regressor in REGRESSORS:
        model = regressor(1.0, random_state=0, **BOUNDS).fit(X, y)
        assert model.certificate_.spent_delta == 0
        assert model.score(X, y) > 0.6


def test_a_fit_without_a_seed_is_certified() -> None:
    X, y = data(300)
    assert verify(PrivateHuberRegressor(1.0, 1e-6, **BOUNDS).fit(X, y).certificate_).passed


def test_without_an_intercept_predictions_start_from_the_middle_of_the_range() -> None:
    X, y = data(500)
    model = PrivateLinearRegression(1e6, fit_intercept=False, l2=L2, **BOUNDS).fit(X, y)
    assert model.intercept_ == pytest.approx((LOW + HIGH) / 2)
    assert model.plan_.problem.domain.intercept == 0


SCHEMA = Schema((NumericColumn("a", -1, 1), NumericColumn("b", -1, 1)), NumericTarget("y", LOW, HIGH))


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"])
def test_a_schema_gives_bounds_and_target(make_frame: Any) -> None:
    columns = {"a": [0.1, 0.5, None, -0.9], "b": [1.0, 2.0, -3.0, 0.0], "y": [20.0, 1e9, None, 30.0]}
    model = PrivateLinearRegression(100.0, schema=SCHEMA, random_state=0)
    expected = model.fit(pa.table(columns)).coef_.copy()
    frame = make_frame(columns)
    np.testing.assert_array_equal(model.fit(frame).coef_, expected)
    np.testing.assert_array_equal(model.fit(frame, frame["y"]).coef_, expected)
    np.testing.assert_array_equal(model.fit(frame, np.array([20.0, HIGH, np.nan, 30.0])).coef_, expected)
    assert not np.array_equal(model.set_params(target_bounds=(0, 100)).fit(frame).coef_, expected)


@pytest.mark.parametrize("regressor", [*REGRESSORS, PrivateLasso])
def test_scores_read_a_table_with_a_schema_as_fits_do(regressor: Any) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(-1, 1, 300), "b": rng.uniform(-1, 1, 300)})
    frame["y"] = LOW + (HIGH - LOW) * (frame.a + 1) / 2
    delta = {"delta": 1e-6} if regressor is PrivateLasso else {}
    model = regressor(1e4, **delta, schema=SCHEMA, random_state=0).fit(frame)
    assert model.score(frame) == pytest.approx(model.score(frame, frame["y"]))
    assert model.score(frame) > 0.5
    frame.loc[:9, "y"] = np.nan  # counts as the middle of the range
    assert model.score(frame) == pytest.approx(model.score(frame, frame["y"].fillna((LOW + HIGH) / 2)))


X_OK, Y_OK = data(20)
CLASSES = Schema(SCHEMA.columns, ClassTarget("y", ("no", "yes")))
BAD: dict[str, tuple[Any, Any, str]] = {
    "no range": (PrivateLinearRegression(feature_norm=1.0), Y_OK, "target_bounds=None"),
    "reversed": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(2, 1)), Y_OK, r"target_bounds\[1\]=1"),
    "empty range": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(1, 1)), Y_OK, r"target_bounds\[1\]=1"),
    "one number": (PrivateLinearRegression(feature_norm=1.0, target_bounds=3.0), Y_OK, "two numbers"),  # pyright: ignore
    "nan": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(np.nan, 1)), Y_OK, "target_bounds"),
    "infinite": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, np.inf)), Y_OK, "target_bounds"),
    "text": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1)), Y_OK.astype(str), "numbers are needed"),
    "objects": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1)), Y_OK.astype(object), "numbers are"),
    "two columns": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1)), np.zeros((20, 2)), r"\(n, 2\)"),
    "lengths": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1)), Y_OK[1:], "must agree"),
    "no y": (PrivateLinearRegression(feature_norm=1.0, target_bounds=(0, 1)), None, "requires y"),
    "width": (PrivateHuberRegressor(feature_norm=1.0, target_bounds=(0, 1), width=0), Y_OK, "width=0"),
    "quantile": (PrivateQuantileRegressor(feature_norm=1.0, target_bounds=(0, 1), quantile=1), Y_OK, "quantile=1"),
    "smoothing": (PrivateQuantileRegressor(feature_norm=1.0, target_bounds=(0, 1), smoothing=-1), Y_OK, "smoothing=-1"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_parameters_and_shapes(case: tuple[Any, Any, str]) -> None:
    model, y, message = case
    with pytest.raises(DpconvexError, match=message) as caught:
        model.fit(X_OK, y)
    assert str(Y_OK[3])[:6] not in str(caught.value)


def test_a_schema_of_classes_is_refused() -> None:
    frame = pd.DataFrame({"a": [0.0], "b": [0.0], "y": ["no"]})
    with pytest.raises(DpconvexError, match="lower and upper"):
        PrivateLinearRegression(schema=CLASSES).plan(10)
    with pytest.raises(DpconvexError, match="a class, not a number"):
        PrivateLinearRegression(schema=CLASSES, target_bounds=(0, 1)).fit(frame)
    with pytest.raises(InvalidDataError, match="numbers are needed"):
        PrivateLinearRegression(schema=CLASSES, target_bounds=(0, 1)).fit(frame, frame["y"])


@pytest.mark.parametrize("bounds", [(-1e100, 1e100), (0.0, 1e-300), (1e99, 1.0000001e99)])
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_extreme_ranges_stay_finite(regressor: Any, bounds: tuple[float, float]) -> None:
    X, y = data(50)
    model = regressor(1.0, feature_bounds=(-1, 1), target_bounds=bounds).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.coef_).all()
