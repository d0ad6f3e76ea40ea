"""The public names and where they stand. `lazy_loader` reads this file too: a name is imported at its first use."""

from . import errors as errors
from .data import (
    CategoricalColumn as CategoricalColumn,
)
from .data import (
    NumericColumn as NumericColumn,
)
from .data import (
    Schema as Schema,
)
from .data import (
    adult_schema as adult_schema,
)
from .data import (
    draft_schema as draft_schema,
)
from .data import (
    load_adult as load_adult,
)
from .data import (
    load_cities as load_cities,
)
from .data import (
    read_table as read_table,
)
from .estimators import (
    PrivateGeometricMedian as PrivateGeometricMedian,
)
from .estimators import (
    PrivateHuberRegressor as PrivateHuberRegressor,
)
from .estimators import (
    PrivateLasso as PrivateLasso,
)
from .estimators import (
    PrivateLinearRegression as PrivateLinearRegression,
)
from .estimators import (
    PrivateLinearSVC as PrivateLinearSVC,
)
from .estimators import (
    PrivateLogisticRegression as PrivateLogisticRegression,
)
from .estimators import (
    PrivateQuantileRegressor as PrivateQuantileRegressor,
)
from .estimators import (
    PrivateSearchCV as PrivateSearchCV,
)
from .estimators import (
    PrivateSparseLogisticRegression as PrivateSparseLogisticRegression,
)
from .estimators import (
    PrivateSyntheticData as PrivateSyntheticData,
)
from .estimators import (
    PrivateWorstGroupClassifier as PrivateWorstGroupClassifier,
)
from .estimators.persistence import (
    load_model as load_model,
)
from .estimators.persistence import (
    save_model as save_model,
)
from .estimators.persistence import (
    verify as verify,
)
from .games import (
    private_game as private_game,
)
from .minimize import (
    plan_minimize as plan_minimize,
)
from .minimize import (
    private_minimize as private_minimize,
)
from .privacy import (
    Budget as Budget,
)
from .privacy import (
    Neighboring as Neighboring,
)
from .privacy import (
    PrivacyCertificate as PrivacyCertificate,
)
from .privacy import (
    PrivacyParams as PrivacyParams,
)
from .privacy import (
    Unit as Unit,
)
from .privacy import (
    Verification as Verification,
)
from .problems import (
    Block as Block,
)
from .problems import (
    DataDomain as DataDomain,
)
from .problems import (
    RecordLoss as RecordLoss,
)
from .problems import (
    WholeObjective as WholeObjective,
)
from .problems import (
    attack_constants as attack_constants,
)
from .problems import (
    jax_loss as jax_loss,
)

__version__: str
