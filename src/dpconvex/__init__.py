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
    load_cities,
    read_table,
)
from dpconvex.estimators import (
    PrivateGeometricMedian,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateQuantileRegressor,
    PrivateSearchCV,
    PrivateSparseLogisticRegression,
    PrivateSyntheticData,
    PrivateWorstGroupClassifier,
)
from dpconvex.estimators.persistence import load_model, save_model
from dpconvex.games import private_game
from dpconvex.minimize import plan_minimize, private_minimize
from dpconvex.privacy import (
    Budget,
    Neighboring,
    PrivacyCertificate,
    PrivacyParams,
    Unit,
    Verification,
    verify,
)
from dpconvex.problems import Block, DataDomain, RecordLoss, WholeObjective, attack_constants, jax_loss

__version__ = "0.1.0"

__all__ = [
    "Block",
    "Budget",
    "CategoricalColumn",
    "DataDomain",
    "Neighboring",
    "NumericColumn",
    "PrivacyCertificate",
    "PrivacyParams",
    "PrivateGeometricMedian",
    "PrivateHuberRegressor",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "PrivateSearchCV",
    "PrivateSparseLogisticRegression",
    "PrivateSyntheticData",
    "PrivateWorstGroupClassifier",
    "RecordLoss",
    "Schema",
    "Unit",
    "Verification",
    "WholeObjective",
    "__version__",
    "adult_schema",
    "attack_constants",
    "draft_schema",
    "jax_loss",
    "load_adult",
    "load_cities",
    "load_model",
    "plan_minimize",
    "private_game",
    "private_minimize",
    "read_table",
    "save_model",
    "verify",
]
