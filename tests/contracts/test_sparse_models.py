"""What every linear model over an l1 ball must keep: scikit-learn's checks, plans without data, silent content."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpconvex import PrivateLasso, PrivateSparseLogisticRegression, PrivateWorstGroupClassifier, verify
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators import SPARSE_ESTIMATORS, sparse as models
from dpconvex.estimators.persistence import load_model, save_model

pytestmark = pytest.mark.together

PLAIN = {"epsilon": 2.0, "feature_bound": 1.0, "random_state": 0}
LASSO = PrivateLasso(**PLAIN, target_bounds=(0, 1))
LOGISTIC = PrivateSparseLogisticRegression(**PLAIN, classes=[0, 1])
WORST = PrivateWorstGroupClassifier(**PLAIN, classes=[0, 1], groups=[0, 1], algorithm="vertex_mirror_descent")
MODELS = [LASSO, LOGISTIC, WORST]
EVERY = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)

CONTENT = "an exception that depends on the content of y would leak it; targets are mapped by a stated rule"
DECLARED = "classes are declared, here 0 and 1: the check's texts are refused, its other numbers are the first class"
EXEMPT = {
    "check_supervised_y_no_nan": CONTENT,
    "check_dtype_object": "whether a cell of an object array is a number is data content; object arrays are refused",
}
EXEMPT_CLASSIFIERS = EXEMPT | {
    "check_classifiers_regression_target": CONTENT,
    "check_classifier_not_supporting_multiclass": DECLARED,
    "check_classifiers_classes": DECLARED,
}
CHECKED = [
    PrivateLasso(epsilon=1e4, feature_bound=5.0, target_bounds=(-5.0, 5.0), radius=0.3, random_state=0),
    PrivateSparseLogisticRegression(epsilon=100.0, feature_bound=5.0, random_state=0, classes=[0, 1]),
]


@pytest.fixture(autouse=True, scope="module")
def _plans_are_made_once() -> Iterator[None]:
    """A hundred checks fit the same few tables."""
    with mock.patch.object(models, "plan_saddle", lru_cache(models.plan_saddle)):
        yield


def expected_failures(model: Any) -> dict[str, str]:
    return EXEMPT_CLASSIFIERS if is_classifier(model) else EXEMPT


@pytest.mark.gate
@parametrize_with_checks(CHECKED[:1], expected_failed_checks=expected_failures, xfail_strict=True)
def test_scikit_learn_checks_of_the_lasso(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.thin  # the same checks as of the others, which meet all of them in quick runs (test_estimators.py)
@parametrize_with_checks(CHECKED[1:], expected_failed_checks=expected_failures, xfail_strict=True)
@pytest.mark.dear("check_estimator_sparse_array", "check_classifiers_train(readonly_memmap=True)")
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks themselves use deprecated names
        check(estimator)


def test_every_model_is_here_and_has_its_own_name() -> None:
    assert tuple(type(model) for model in MODELS) == SPARSE_ESTIMATORS
    assert len({model.kind for model in SPARSE_ESTIMATORS}) == len(SPARSE_ESTIMATORS)


@EVERY
def test_signature_stores_and_does_nothing_else(model: Any) -> None:
    assert set(vars(type(model)(epsilon=0.5))) == set(model.get_params())
    assert clone(model).get_params() == model.get_params()


def data(n: int = 400, d: int = 5) -> tuple[Any, Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    return X, (X[:, 0] > 0).astype(float), {"groups": rng.integers(0, 2, n)}


def extra(model: Any, more: dict[str, Any]) -> dict[str, Any]:
    return more if isinstance(model, PrivateWorstGroupClassifier) else {}


@EVERY
@pytest.mark.dear("PrivateWorstGroupClassifier")
def test_a_sparse_matrix_gives_what_its_dense_form_gives(model: Any) -> None:
    X, y, more = data()
    X[np.random.default_rng(1).random(X.shape) < 0.7] = 0.0
    first = clone(model).fit(X, y, **extra(model, more))
    for make in (sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix):
        second = clone(model).fit(make(X), y, **extra(model, more))
        np.testing.assert_allclose(second.coef_, first.coef_, atol=1e-12)
        np.testing.assert_allclose(second.predict(make(X)), first.predict(X), atol=1e-12)


@EVERY
def test_certificates_are_within_budget_and_verify(model: Any) -> None:
    X, y, more = data()
    fitted = clone(model).set_params(random_state=None).fit(X, y, **extra(model, more))
    assert 0 < fitted.certificate_.spent_epsilon <= 2.0
    checked = verify(json.dumps(fitted.certificate_.to_dict()))
    assert checked.passed, [check for check in checked.checks if not check.passed]


@EVERY
def test_coefficients_stay_in_the_ball(model: Any) -> None:
    X, y, more = data()
    fitted = clone(model).set_params(radius=0.7).fit(X, y, **extra(model, more))
    length = np.abs(fitted.encoded_coef_).sum() + abs(float(np.ravel(fitted.encoded_intercept_)[0] - middle(fitted)))
    assert length <= 0.7 * fitted.output_scale * (1 + 1e-12)
    assert fitted.sparsity_ == np.count_nonzero(fitted.coef_)


def middle(model: Any) -> float:
    return 0.5 if isinstance(model, PrivateLasso) else 0.0


CONTENTS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf, "huge": 1e300, "constant": 0.5}


@EVERY
@pytest.mark.parametrize("make", [np.array, sparse.csr_matrix], ids=["dense", "sparse"])
def test_content_never_speaks(model: Any, make: Any) -> None:
    """No value of features, targets or groups raises, warns or breaks a prediction."""
    X0, y0, more = data(200)
    public = None
    for value in CONTENTS.values():
        X, y, g = X0.copy(), y0.copy(), more["groups"].astype(float)
        X[:, 0], y[:101], g[:50] = value, value, value
        fitted = clone(model)
        if isinstance(fitted, PrivateWorstGroupClassifier):
            fitted.set_params(group_shares=(0.5, 0.5))  # else the released shares enter the plan
        fitted.fit(make(X), y, **extra(model, {"groups": g}))
        certificate = fitted.certificate_.public_fields()
        public = certificate if public is None else public
        assert certificate == public
        assert np.isfinite(fitted.coef_).all()
        assert np.isfinite(fitted.predict(make(X))).all()


@EVERY
def test_plans_need_no_data_and_the_first_is_used(model: Any) -> None:
    auto = clone(model).set_params(algorithm="auto")
    plans = auto.plan(400, 5)
    assert len(plans) >= 2
    X, y, more = data()
    assert auto.fit(X, y, **extra(model, more)).plan_.algorithm == plans[0].algorithm


@pytest.mark.parametrize(
    "wrong",
    [
        {"feature_bound": None},
        {"feature_bounds": (0, 1)},
        {"feature_bound": 0.0},
        {"radius": 0.0},
        {"algorithm": "magic"},
        {"constants": "lucky"},
        {"epsilon": -1.0},
        {"delta": 0.6},
        {"random_state": "x"},
    ],
)
@EVERY
def test_parameters_are_checked(model: Any, wrong: dict[str, Any]) -> None:
    X, y, more = data(50)
    with pytest.raises(InvalidParameterError):
        clone(model).set_params(**wrong).fit(X, y, **extra(model, more))


@EVERY
def test_forms_are_checked(model: Any) -> None:
    X, y, more = data(50)
    more = extra(model, more)
    with pytest.raises(InvalidDataError):
        clone(model).fit(X, y[:-1], **more)
    with pytest.raises(InvalidDataError):
        clone(model).fit(X.astype(str), y, **more)
    with pytest.raises(InvalidParameterError, match="requires y"):
        clone(model).fit(X, None, **more)


@EVERY
def test_saved_models_come_back(model: Any, tmp_path: Any) -> None:
    X, y, more = data(100)
    fitted = clone(model).fit(X, y, **extra(model, more))
    save_model(fitted, tmp_path / "m.skops")
    loaded = load_model(tmp_path / "m.skops")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.coef_, fitted.coef_)
    assert loaded.certificate_ == fitted.certificate_ or loaded.certificate_.to_json() == fitted.certificate_.to_json()
