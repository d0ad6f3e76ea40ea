"""scikit-learn's own checks over a search; each exemption states its reason."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpconvex import PrivateLinearRegression, PrivateSearchCV

# Almost no noise, so that checks of learning pass.
MODEL = PrivateLinearRegression(1e6, feature_norm=20.0, target_bounds=(-5.0, 5.0), noise="l2", random_state=0)
SEARCH = PrivateSearchCV(MODEL, {"coefficient_norm": [5.0, 20.0]}, method="composition")
EXEMPT = {
    "check_supervised_y_no_nan": "an exception that depends on the content of y would leak it",
    "check_dtype_object": "whether a cell of an object array is a number is data content; object arrays are refused",
}


@pytest.mark.thin  # the same checks as of the others, which meet all of them in quick runs (test_estimators.py)
@parametrize_with_checks([SEARCH], expected_failed_checks=lambda _: EXEMPT, xfail_strict=True)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks themselves use deprecated names
        check(estimator)
