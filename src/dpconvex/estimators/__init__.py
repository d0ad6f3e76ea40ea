"""scikit-learn faces of the algorithms."""

from dpconvex.estimators.logistic import PrivateLogisticRegression

ESTIMATORS = (PrivateLogisticRegression,)
"""Read by contract tests and docs."""

__all__ = ["ESTIMATORS", "PrivateLogisticRegression"]
