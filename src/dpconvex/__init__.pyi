"""The public names and where they stand. `lazy_loader` reads this file too: a name is imported at its first use."""

from . import errors as errors
from .audit import attack_constants as attack_constants
from .data import (
    CategoricalColumn as CategoricalColumn,
    NumericColumn as NumericColumn,
    Schema as Schema,
    adult_schema as adult_schema,
    draft_schema as draft_schema,
    load_adult as load_adult,
    load_cities as load_cities,
    open_files as open_files,
    read_table as read_table,
)
from .estimators import (
    PrivateAdditiveClassifier as PrivateAdditiveClassifier,
    PrivateAdditiveRegressor as PrivateAdditiveRegressor,
    PrivateGeometricMedian as PrivateGeometricMedian,
    PrivateHuberRegressor as PrivateHuberRegressor,
    PrivateLasso as PrivateLasso,
    PrivateLinearRegression as PrivateLinearRegression,
    PrivateLinearSVC as PrivateLinearSVC,
    PrivateLogisticRegression as PrivateLogisticRegression,
    PrivateQuantileRegressor as PrivateQuantileRegressor,
    PrivateSearchCV as PrivateSearchCV,
    PrivateSparseLogisticRegression as PrivateSparseLogisticRegression,
    PrivateSyntheticData as PrivateSyntheticData,
    PrivateWorstGroupClassifier as PrivateWorstGroupClassifier,
)
from .estimators.advice import Advice as Advice, required_epsilon as required_epsilon, required_rows as required_rows
from .estimators.evaluation import (
    PrivateMetrics as PrivateMetrics,
    fit_and_evaluate as fit_and_evaluate,
    private_metrics as private_metrics,
)
from .estimators.persistence import load_model as load_model, save_model as save_model
from .games import private_game as private_game
from .minimize import plan_minimize as plan_minimize, private_minimize as private_minimize
from .privacy import (
    Budget as Budget,
    Neighboring as Neighboring,
    PrivacyCertificate as PrivacyCertificate,
    PrivacyParams as PrivacyParams,
    Unit as Unit,
    Verification as Verification,
    budget_context as budget_context,
)
from .problems import (
    Block as Block,
    DataDomain as DataDomain,
    RecordLoss as RecordLoss,
    WholeObjective as WholeObjective,
    jax_loss as jax_loss,
)
from .verification import verify as verify

__version__: str
