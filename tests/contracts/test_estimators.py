"""scikit-learn's own checks over every estimator; each exemption states its reason."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpconvex import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
)
from dpconvex.estimators import ESTIMATORS
from dpconvex.estimators.persistence import load_model, save_model

# Almost no noise, so that checks of learning pass; labels read off y, because every check has its own.
CLASSIFIER = {"epsilon": 1e6, "feature_norm": 20.0, "classes": "infer", "random_state": 0}
REGRESSOR = {"epsilon": 1e6, "feature_norm": 20.0, "target_bounds": (-5.0, 5.0), "random_state": 0}
INSTANCES = [
    PrivateLogisticRegression(**CLASSIFIER),
    PrivateLinearSVC(**CLASSIFIER),
    PrivateLinearRegression(**REGRESSOR),
    PrivateHuberRegressor(**REGRESSOR),
    PrivateQuantileRegressor(**REGRESSOR),
]
PLAIN = {"epsilon": 1.0, "feature_norm": 1.0}
BY_BOUNDS = [
    type(model)(**PLAIN, **({"classes": [0, 1]} if is_classifier(model) else {"target_bounds": (0, 1)}))
    for model in INSTANCES
]
"""As users write them: classes and bounds are declared."""

CONTENT = "an exception that depends on the content of y would leak it; targets are mapped by a stated rule"
COUNTED = "a record of weight 0 is still a record: their public number sizes noise and regularization"
EXEMPT = {
    "check_all_zero_sample_weights_error": CONTENT,
    "check_sample_weight_equivalence_on_dense_data": COUNTED,
    "check_sample_weight_equivalence_on_sparse_data": COUNTED,
    "check_supervised_y_no_nan": CONTENT,
    "check_dtype_object": "whether a cell of an object array is a number is data content; object arrays are refused",
}
EXEMPT_CLASSIFIERS = EXEMPT | {"check_classifiers_regression_target": CONTENT}


def expected_failures(estimator: Any) -> dict[str, str]:
    return EXEMPT_CLASSIFIERS if is_classifier(estimator) else EXEMPT


def weighed(estimator: Any, check: Any) -> None:
    """Declare a cap where a check gives weights: without one they are refused."""
    if "weight" in check.func.__name__:
        estimator.set_params(weight_cap=1.0)


@parametrize_with_checks(INSTANCES[:3:2], expected_failed_checks=expected_failures, xfail_strict=True)
@pytest.mark.thin
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """A classifier and a regressor; the others, which share nearly all of their code, in the gate."""
    weighed(estimator, check)
    if check.func.__name__ == "check_classifiers_regression_target":  # every number a class: many, and none is refused
        estimator = clone(estimator).set_params(epsilon=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks themselves use deprecated names
        check(estimator)


@pytest.mark.gate
@parametrize_with_checks([*INSTANCES[1:2], *INSTANCES[3:]], expected_failed_checks=expected_failures, xfail_strict=True)
def test_scikit_learn_checks_of_the_others(estimator: Any, check: Any) -> None:
    weighed(estimator, check)
    if check.func.__name__.startswith("check_estimator_sparse"):  # many fits, whose accuracy it does not look at
        estimator.set_params(epsilon=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_every_estimator_is_checked_and_has_its_own_name() -> None:
    assert tuple(type(model) for model in INSTANCES) == ESTIMATORS
    assert len({estimator.kind for estimator in ESTIMATORS}) == len(ESTIMATORS)


@pytest.mark.parametrize("estimator", INSTANCES, ids=lambda model: type(model).__name__)
def test_signature_stores_and_does_nothing_else(estimator: Any) -> None:
    assert set(vars(estimator)) == set(estimator.get_params())
    for name, value in estimator.get_params().items():
        assert getattr(estimator, name) is value


CONTENTS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "huge": 1e300, "tiny": 1e-300, "constant": 0.5}


@pytest.mark.parametrize("model", BY_BOUNDS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n", [1, 140])  # too few for a look
@pytest.mark.thin
def test_content_never_speaks(model: Any, n: int) -> None:
    """No value of features or targets raises, warns, changes the certificate or breaks a prediction."""
    rng = np.random.default_rng(0)
    X0, y0 = rng.uniform(-1, 1, (n, 3)), rng.integers(0, 2, n).astype(float)
    reference = dataclasses.replace(model.fit(X0, y0).certificate_, model=None)  # the digest is of what is released
    for value in CONTENTS.values():
        X, y = X0.copy(), y0.copy()
        X[:, 0], y[: n // 2 + 1] = value, value
        model.fit(X, y)
        assert dataclasses.replace(model.certificate_, model=None) == reference
        assert np.isfinite(model.coef_).all()
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("model", BY_BOUNDS, ids=lambda model: type(model).__name__)
def test_plans_need_no_data_and_are_what_fit_uses(model: Any) -> None:
    planned = model.plan(300, 3)
    ranks = np.array([plan.predicted_error.rank for plan in planned])
    assert (ranks[1:] >= ranks[:-1] * (1 - 1e-8)).all()  # equal ones stand in the order of noises
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    model.fit(X, (X[:, 0] > 0).astype(float))
    assert (model.plan_.l2, model.plan_.noise_name) == (planned[0].l2, planned[0].noise_name)
    assert model.certificate_.spent_epsilon <= model.epsilon


@pytest.mark.parametrize("model", BY_BOUNDS, ids=lambda model: type(model).__name__)
def test_saved_models_come_back(model: Any, tmp_path: Any) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    model.fit(X, (X[:, 0] > 0).astype(float))
    save_model(model, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    np.testing.assert_array_equal(loaded.intercept_, model.intercept_)
    assert type(loaded.intercept_) is type(model.intercept_)
    assert loaded.plan(50, 3)[0].l2 == model.plan(50, 3)[0].l2
