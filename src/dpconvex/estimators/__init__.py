"""scikit-learn faces of the algorithms.

A new one is one file and its name in `ESTIMATORS`; the contract tests, saved models and the command line then know it.
"""

from dpconvex.estimators._intervals import WithIntervals
from dpconvex.estimators.additive import AdditiveModel, PrivateAdditiveClassifier, PrivateAdditiveRegressor
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.classifiers import (
    LogisticModel, PrivateLinearClassifier, PrivateLinearSVC, PrivateLogisticRegression, ProbabilisticClassifier,
)  # fmt: skip
from dpconvex.estimators.median import PrivateGeometricMedian
from dpconvex.estimators.regressors import (
    PrivateHuberRegressor, PrivateLinearRegression, PrivateLinearRegressor, PrivateQuantileRegressor,
)  # fmt: skip
from dpconvex.estimators.search import PrivateSearchCV
from dpconvex.estimators.sparse import (
    PrivateLasso, PrivateSparseClassifier, PrivateSparseLogisticRegression, PrivateSparseModel,
)  # fmt: skip
from dpconvex.estimators.synthetic import PrivateSyntheticData
from dpconvex.estimators.worst_group import PrivateWorstGroupClassifier

ESTIMATORS: tuple[type[PrivateLinearModel], ...] = (
    PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression, PrivateHuberRegressor,
    PrivateQuantileRegressor,
)  # fmt: skip
"""Every final linear model; `PrivateLinearModel.kind` is its name on the command line."""
ADDITIVE_ESTIMATORS: tuple[type[AdditiveModel], ...] = (PrivateAdditiveClassifier, PrivateAdditiveRegressor)
"""Every final additive model; ``--model additive`` is the one for the schema's target."""
SPARSE_ESTIMATORS: tuple[type[PrivateSparseModel], ...] = (
    PrivateLasso, PrivateSparseLogisticRegression, PrivateWorstGroupClassifier,
)  # fmt: skip
"""Every final linear model over an l1 ball; `PrivateSparseModel.kind` is its name on the command line."""

__all__ = [
    "ADDITIVE_ESTIMATORS", "ESTIMATORS", "SPARSE_ESTIMATORS", "AdditiveModel", "LogisticModel",
    "PrivateAdditiveClassifier", "PrivateAdditiveRegressor", "PrivateGeometricMedian", "PrivateHuberRegressor",
    "PrivateLasso", "PrivateLinearClassifier", "PrivateLinearModel", "PrivateLinearRegression",
    "PrivateLinearRegressor", "PrivateLinearSVC", "PrivateLogisticRegression", "PrivateQuantileRegressor",
    "PrivateSearchCV", "PrivateSparseClassifier", "PrivateSparseLogisticRegression", "PrivateSparseModel",
    "PrivateSyntheticData", "PrivateWorstGroupClassifier", "ProbabilisticClassifier", "WithIntervals",
]  # fmt: skip
