"""scikit-learn faces of the algorithms.

A new one is one file and its name in `ESTIMATORS`; the contract tests, saved models and the command line then know it.
"""

from __future__ import annotations

from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.classifier import PrivateLinearClassifier, ProbabilisticClassifier
from dpconvex.estimators.huber import PrivateHuberRegressor
from dpconvex.estimators.lasso import PrivateLasso, PrivateSparseClassifier, PrivateSparseLogisticRegression
from dpconvex.estimators.linear import PrivateLinearRegression
from dpconvex.estimators.logistic import PrivateLogisticRegression
from dpconvex.estimators.median import PrivateGeometricMedian
from dpconvex.estimators.quantile import PrivateQuantileRegressor
from dpconvex.estimators.regressor import PrivateLinearRegressor
from dpconvex.estimators.search import PrivateSearchCV
from dpconvex.estimators.sparse import PrivateSparseModel
from dpconvex.estimators.svc import PrivateLinearSVC
from dpconvex.estimators.synthetic import PrivateSyntheticData
from dpconvex.estimators.worst_group import PrivateWorstGroupClassifier

ESTIMATORS: tuple[type[PrivateLinearModel], ...] = (
    PrivateLogisticRegression,
    PrivateLinearSVC,
    PrivateLinearRegression,
    PrivateHuberRegressor,
    PrivateQuantileRegressor,
)
"""Every final linear model; `PrivateLinearModel.kind` is its name on the command line."""

SPARSE_ESTIMATORS: tuple[type[PrivateSparseModel], ...] = (
    PrivateLasso,
    PrivateSparseLogisticRegression,
    PrivateWorstGroupClassifier,
)
"""Every final linear model over an l1 ball; `PrivateSparseModel.kind` is its name on the command line."""

__all__ = [
    "ESTIMATORS",
    "SPARSE_ESTIMATORS",
    "PrivateGeometricMedian",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearClassifier",
    "PrivateLinearModel",
    "PrivateLinearRegression",
    "PrivateLinearRegressor",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "PrivateSearchCV",
    "PrivateSparseClassifier",
    "PrivateSparseLogisticRegression",
    "PrivateSparseModel",
    "PrivateSyntheticData",
    "PrivateWorstGroupClassifier",
    "ProbabilisticClassifier",
]
