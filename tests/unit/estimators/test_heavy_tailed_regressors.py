"""Regressors for targets without a largest value: units, what is clipped, certificates, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpconvex import (
    NumericColumn,
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    Schema,
    load_model,
    save_model,
    verify,
)
from dpconvex.data import NumericTarget
from dpconvex.errors import DpconvexError, InvalidParameterError
from dpconvex.estimators import ESTIMATORS

REGRESSORS = (PrivateLinearRegression, PrivateHuberRegressor, PrivateQuantileRegressor)
LOW, HIGH = 0.0, 40.0
BOUNDS = {"feature_bounds": (-1, 1), "target_bounds": (LOW, HIGH)}


def heavy(n: int = 20_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noise of barely finite variance: one record in 10,000 is about 100 off."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, 20 + 8 * X[:, 0] + 2 * rng.standard_t(2.1, n)


def test_all_regressors_have_the_parameter_and_classifiers_do_not() -> None:
    for estimator in ESTIMATORS:
        assert ("heavy_tailed" in estimator().get_params()) == issubclass(estimator, REGRESSORS)


@pytest.mark.parametrize("algorithm", ["auto", "clipped_gradient"])
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_one_certificate_for_both_releases(regressor: Any, algorithm: str) -> None:
    model = regressor(1.0, heavy_tailed=2, algorithm=algorithm, **BOUNDS).fit(*heavy(500))
    certificate = model.certificate_
    assert verify(certificate).passed
    assert certificate.spent_epsilon == pytest.approx(1.0)
    assert certificate.releases[0].label == "histogram of gradient bounds"
    assert len(certificate.releases) > 1
    assert certificate.releases == model.plan_.releases
    assert certificate.public["private_moments"]["estimated"]
    assert "histogram" in certificate.explain()


@pytest.mark.parametrize("regressor", REGRESSORS[1:])
def test_heavy_targets_are_learned_at_epsilon_one(regressor: Any) -> None:
    """Over 50 seeds the largest error of a coefficient was 0.6 (Huber) and 0.4 (median); the first is 8."""
    model = regressor(1.0, heavy_tailed=2, random_state=0, **BOUNDS).fit(*heavy())
    np.testing.assert_allclose(model.coef_, [8, 0, 0], atol=1.5)
    assert model.intercept_ == pytest.approx(20, abs=1.5)


@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize("tails", [(2, 3.0), 2.0])
def test_units_of_target_and_features_do_not_matter(regressor: Any, tails: Any) -> None:
    X, y = heavy(600)
    one = regressor(1.0, heavy_tailed=tails, random_state=1, **BOUNDS).fit(X, y)
    bounds = {"feature_bounds": (-100, 100), "target_bounds": (LOW * 1e-3 + 7, HIGH * 1e-3 + 7)}
    other = regressor(1.0, heavy_tailed=tails, random_state=1, **bounds).fit(X * 100, y * 1e-3 + 7)
    np.testing.assert_allclose(other.coef_, one.coef_ * 1e-5, rtol=1e-5, atol=1e-10)
    assert other.intercept_ == pytest.approx(one.intercept_ * 1e-3 + 7, rel=1e-6)


def spikes(n: int = 40_000) -> np.ndarray:
    """0 for nine records of ten, 490 for the tenth, in no order (phases read every second, fourth, ... record)."""
    return np.where(np.random.default_rng(5).permutation(n) < n / 10, 490.0, 0.0)


def test_targets_are_not_clipped_into_the_bounds_of_predictions() -> None:
    """The mean of a target of which a tenth is far above the range: with clipping 4 is learned, without 49."""
    y = spikes()
    X = np.zeros((len(y), 1))
    given = {"feature_bounds": (-1, 1), "target_bounds": (0.0, 100.0), "coefficient_norm": 2.0, "random_state": 0}
    clipped = PrivateLinearRegression(10.0, **given).fit(X, y)
    free = PrivateLinearRegression(10.0, heavy_tailed=(4, 1.0), **given).fit(X, y)
    assert clipped.intercept_ == pytest.approx(10.0, abs=1.0)
    assert free.intercept_ == pytest.approx(49.0, abs=4.0)
    assert PrivateLinearRegression(10.0, heavy_tailed=2, **given).fit(X, y + 1e9).predict(X).max() <= 100


def test_a_schema_s_target_is_not_clipped_either() -> None:
    y = spikes()
    table = pd.DataFrame({"x": np.zeros(len(y)), "cost": y})
    schema = Schema((NumericColumn("x", -1, 1),), target=NumericTarget("cost", 0, 100))
    given = {"schema": schema, "heavy_tailed": (4, 1.0), "coefficient_norm": 2.0, "random_state": 0}
    assert PrivateLinearRegression(10.0, **given).fit(table).intercept_ == pytest.approx(49.0, abs=4.0)


@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_content_never_speaks(regressor: Any, value: float) -> None:
    X, y = heavy(300)
    y[:50], X[100:150] = value, value
    model = regressor(1.0, heavy_tailed=2, random_state=0, **BOUNDS).fit(X, y)
    assert np.isfinite(model.coef_).all()


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_a_plan_sees_public_facts_only_and_says_what_is_left(regressor: Any) -> None:
    (plan,) = regressor(1.0, heavy_tailed=2, **BOUNDS).plan(20_000, 3)
    assert not plan.public["private_moments"]["estimated"]
    assert plan.public["target"] == "population"
    model = regressor(1.0, heavy_tailed=2, **BOUNDS).fit(*heavy(500))
    assert model.plan_.public["private_moments"]["bound"] < plan.public["private_moments"]["bound"] * (1 + 1e-9)
    (declared,) = regressor(1.0, heavy_tailed=(2, 0.3), **BOUNDS).plan(20_000, 3)
    assert declared.public["moment_bounds"][0] == 0.3


def test_plans_at_another_epsilon_keep_the_moments() -> None:
    for tails in (2, (2, 0.3)):
        model = PrivateHuberRegressor(1.0, heavy_tailed=tails, random_state=0, **BOUNDS).fit(*heavy(500))
        (same,) = model.plans_at(1.0)
        assert same.predicted_error.bound == pytest.approx(model.plan_.predicted_error.bound, rel=1e-9)
        assert model.plans_at(4.0)[0].predicted_error.bound < same.predicted_error.bound


@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize("tails", [2, (2, 0.3), [3.0, 0.5], (np.float64(2.0), np.float64(0.3)), np.int64(2)])
def test_saved_models_predict_the_same(regressor: Any, tails: Any, tmp_path: Path) -> None:
    X, y = heavy(200)
    model = regressor(1.0, heavy_tailed=tails, random_state=0, **BOUNDS).fit(X, y)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(np.asarray(loaded.get_params()["heavy_tailed"]), np.asarray(tails))
    loaded.plan(200, 3)


REFUSED: dict[str, dict[str, Any]] = {
    "heavy_tailed": {"heavy_tailed": 1.5},
    "heavy_tailed, infinite": {"heavy_tailed": np.inf},
    "heavy_tailed, text": {"heavy_tailed": "2"},
    "heavy_tailed, three": {"heavy_tailed": (2, 1.0, 1.0)},
    "heavy_tailed, negative": {"heavy_tailed": (2, -1.0)},
    "moments.bound": {"heavy_tailed": (2, 1e-200)},
    "tilt": {"heavy_tailed": 2, "tilt": 1.0},
    "l2": {"heavy_tailed": 2, "l2": 0.1},
    "noise": {"heavy_tailed": 2, "noise": "l1"},
    "algorithm": {"heavy_tailed": 2, "algorithm": "objective_perturbation"},
    "algorithm, without": {"algorithm": "heavy_tailed"},
    "constants": {"heavy_tailed": 2, "constants": "paper", "algorithm": "clipped_gradient"},
}


@pytest.mark.parametrize(("case", "given"), REFUSED.items(), ids=REFUSED)
def test_refusals_name_the_parameter_and_a_remedy(case: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        PrivateLinearRegression(1.0, **BOUNDS, **given).fit(*heavy(100))
    assert caught.value.name == case.partition(",")[0]
    assert caught.value.remedy


def test_adversaries_and_classifiers_are_refused() -> None:
    with pytest.raises(DpconvexError, match="adversarial_radius"):
        PrivateQuantileRegressor(1.0, smoothing=0, adversarial_radius=0.1, heavy_tailed=2, **BOUNDS).plan(100, 3)
    with pytest.raises(TypeError, match="heavy_tailed"):
        PrivateLogisticRegression(1.0, heavy_tailed=2)  # pyright: ignore[reportCallIssue]


CHECKED = [
    r(1e6, feature_norm=20.0, target_bounds=(-5.0, 5.0), heavy_tailed=2, coefficient_norm=1, random_state=0)
    for r in REGRESSORS
]
CONTENT = "an exception that depends on the content of y would leak it; targets are mapped by a stated rule"
EXEMPT = {
    "check_supervised_y_no_nan": CONTENT,
    "check_dtype_object": "whether a cell of an object array is a number is data content; object arrays are refused",
}


@pytest.mark.filterwarnings("ignore")  # the checks themselves use deprecated names
@parametrize_with_checks(CHECKED[1:2], expected_failed_checks=lambda estimator: EXEMPT, xfail_strict=True)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
