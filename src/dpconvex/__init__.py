"""Differentially private convex optimization, with certificates that anybody can verify.

The names below are the public interface; everything else may change. ``dpconvex.errors`` holds the exceptions.
"""

from dpconvex.data import (
    CategoricalColumn,
    NumericColumn,
    Schema,
    adult_schema,
    draft_schema,
    load_adult,
    read_table,
)
from dpconvex.estimators import (
    PrivateHuberRegressor,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
)
from dpconvex.estimators.persistence import load_model, save_model
from dpconvex.privacy import (
    Neighboring,
    PrivacyCertificate,
    PrivacyParams,
    Unit,
    Verification,
    verify,
)
from dpconvex.problems import Block, DataDomain

__version__ = "0.1.0"

__all__ = [
    "Block",
    "CategoricalColumn",
    "DataDomain",
    "Neighboring",
    "NumericColumn",
    "PrivacyCertificate",
    "PrivacyParams",
    "PrivateHuberRegressor",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "Schema",
    "Unit",
    "Verification",
    "__version__",
    "adult_schema",
    "draft_schema",
    "load_adult",
    "load_model",
    "read_table",
    "save_model",
    "verify",
]
