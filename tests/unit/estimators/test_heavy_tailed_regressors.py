"""Regressors for targets without a largest value: units, what is clipped, certificates, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpconvex import (
    DataDomain,
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


@pytest.mark.parametrize("algorithm", ["heavy_tailed", "clipped_gradient"])
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_one_certificate_for_both_releases(regressor: Any, algorithm: str) -> None:
    model = regressor(1.0, heavy_tailed=2, algorithm=algorithm, **BOUNDS).fit(*heavy(500))
    certificate = model.certificate_
    assert verify(certificate).passed
    assert certificate.spent_epsilon == pytest.approx(1.0)
    assert certificate.releases[0].label == "level of gradients"
    assert len(certificate.releases) > 1
    assert certificate.releases == model.plan_.releases
    assert certificate.public["private_level"]["level"] > 0
    assert "level" in certificate.explain()


def test_only_least_squares_needs_to_know_where_slopes_are_cut() -> None:
    """Slopes of the other losses are bounded: all of epsilon goes to the model, and the plan knows its error."""
    X, y = heavy(500)
    for regressor in REGRESSORS:
        model = regressor(1.0, heavy_tailed=2, **BOUNDS).fit(X, y)
        assert model.plan_.algorithm == "clipped_residuals"
        assert verify(model.certificate_).passed
        assert model.certificate_.spent_epsilon == pytest.approx(1.0)
        estimated = regressor is PrivateLinearRegression
        assert (model.certificate_.releases[0].label == "level of slopes") == estimated
        assert ("private_level" in model.certificate_.public) == estimated


def test_the_mean_of_heavy_targets_is_learned_with_the_slopes_cut() -> None:
    """Squared distance from the truth, means of three fits, over 18 seeds: 0.4 to 0.9, localization 4.4 to 11.8."""
    X, y = heavy()
    truth = 20 + 8 * X[:, 0]
    errors = {}
    for algorithm in ("auto", "heavy_tailed"):
        models = (
            PrivateLinearRegression(1.0, heavy_tailed=2, algorithm=algorithm, random_state=s, **BOUNDS)
            for s in range(3)
        )
        errors[algorithm] = np.mean([np.square(model.fit(X, y).predict(X) - truth).mean() for model in models])
    assert errors["auto"] < min(0.25 * errors["heavy_tailed"], 0.1 * truth.var())


def test_the_constant_feature_is_one_however_wide_the_norm_is() -> None:
    given = {"target_bounds": (LOW, HIGH), "coefficient_norm": 1.0}
    wide = PrivateLinearRegression(1.0, heavy_tailed=2, feature_norm=1000.0, **given).plan(1000, 3)[0]
    assert wide.problem.domain.intercept == 1.0
    assert wide.algorithm == "heavy_tailed"
    assert PrivateLinearRegression(1.0, feature_norm=1000.0, **given).plan(1000, 3)[0].problem.domain.intercept == 1000
    small = PrivateLinearRegression(1.0, heavy_tailed=2, feature_norm=0.1, **given).plan(1000, 3)[0]
    assert small.problem.domain.intercept == 0.1
    fixed = PrivateLinearRegression(1.0, heavy_tailed=2, domain=DataDomain.box(3, 50.0).with_intercept(5.0), **given)
    assert fixed.plan(1000)[0].problem.domain.intercept == 5.0


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


@pytest.mark.gate
def test_targets_are_not_clipped_into_the_bounds_of_predictions() -> None:
    """The mean of a target of which a tenth is far above the range: with clipping 4 is learned, without 49."""
    y = spikes()
    X = np.zeros((len(y), 1))
    given = {"feature_bounds": (-1, 1), "target_bounds": (0.0, 100.0), "coefficient_norm": 2.0, "random_state": 0}
    clipped = PrivateLinearRegression(10.0, residual_cap=100.0, **given).fit(X, y)  # of the targets only
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


@pytest.mark.parametrize(
    ("regressor", "algorithm"), [*((r, "heavy_tailed") for r in REGRESSORS), (REGRESSORS[0], "auto")]
)
def test_a_plan_sees_public_facts_only_and_says_what_is_left(regressor: Any, algorithm: str) -> None:
    given = {"algorithm": algorithm, **BOUNDS}
    (plan,) = regressor(1.0, heavy_tailed=2, **given).plan(20_000, 3)
    assert "level" not in plan.public["private_level"]
    assert plan.public.get("target") == ("population" if algorithm == "heavy_tailed" else None)
    model = regressor(1.0, heavy_tailed=2, **given).fit(*heavy(500))
    assert model.plan_.public["private_level"]["level"] <= plan.scale.edges[0]
    (declared,) = regressor(1.0, heavy_tailed=(2, 0.3), **given).plan(20_000, 3)
    assert declared.public["moment_bounds"][0] == 0.3


def test_failure_needs_a_declared_moment_or_a_proof(tmp_path: Path) -> None:
    X, y = heavy(3000)
    for tails in ((2, 0.3), "auto", 2):
        model = PrivateHuberRegressor(1.0, heavy_tailed=tails, failure=0.1, random_state=0, **BOUNDS).fit(X, y)
        assert model.plan_.algorithm == "heavy_tailed"
        assert model.certificate_.public["failure_probability"] == 0.1
        assert model.certificate_.public["repetition_price"] > 3
        assert model.plans_at(2.0)[0].failure == 0.1
        save_model(model, tmp_path / "model.skops")
        assert load_model(tmp_path / "model.skops").failure == 0.1
    for wrong in ({"heavy_tailed": None}, {"algorithm": "clipped_residuals"}, {"failure": 0.7}):
        given = {"heavy_tailed": (2, 0.3), "failure": 0.1, **BOUNDS, **wrong}
        with pytest.raises(InvalidParameterError) as caught:
            PrivateHuberRegressor(1.0, **given).fit(X, y)
        assert caught.value.name == "failure"


@pytest.mark.gate
def test_plans_at_another_epsilon_keep_the_moments() -> None:
    for regressor, algorithm, tails in itertools.product(REGRESSORS, ("auto", "heavy_tailed"), (2, (2, 0.3))):
        model = regressor(1.0, heavy_tailed=tails, algorithm=algorithm, random_state=0, **BOUNDS).fit(*heavy(500))
        (same,) = model.plans_at(1.0)
        assert same.predicted_error.bound == pytest.approx(model.plan_.predicted_error.bound, rel=1e-9)
        assert model.plans_at(4.0)[0].predicted_error.bound < same.predicted_error.bound


@pytest.mark.thin
@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize("tails", [2, "auto", (2, 0.3), [3.0, 0.5], (np.float64(2.0), np.float64(0.3)), np.int64(2)])
def test_saved_models_predict_the_same(regressor: Any, tails: Any, tmp_path: Path) -> None:
    X, y = heavy(1000)
    model = regressor(1.0, heavy_tailed=tails, random_state=0, **BOUNDS).fit(X, y)
    save_model(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(np.asarray(loaded.get_params()["heavy_tailed"]), np.asarray(tails))
    loaded.plan(1000, 3)


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
WEIGHTS = "sample weights have no moments that anybody declared: refused with heavy tails"
EXEMPT = {
    **{f"check_sample_weights_{name}": WEIGHTS for name in ("pandas_series", "not_an_array", "list", "shape")},
    **{f"check_sample_weight_equivalence_on_{kind}_data": WEIGHTS for kind in ("dense", "sparse")},
    "check_sample_weights_not_overwritten": WEIGHTS,
    "check_all_zero_sample_weights_error": WEIGHTS,
    "check_supervised_y_no_nan": CONTENT,
    "check_dtype_object": "whether a cell of an object array is a number is data content; object arrays are refused",
}


@pytest.mark.gate  # tests/contracts/test_estimators.py has the same for ordinary tails
@pytest.mark.filterwarnings("ignore")  # the checks themselves use deprecated names
@parametrize_with_checks(CHECKED[1:2], expected_failed_checks=lambda estimator: EXEMPT, xfail_strict=True)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)
