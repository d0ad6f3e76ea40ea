"""What private linear models over an l1 ball share: features, plan, run, fitted attributes. No mathematics here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import Plan
from dpconvex.data import Schema
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import FeatureMap, feature_map, learned_matrix, records_only
from dpconvex.privacy import CarriesBudgets, PrivacyCertificate, PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.minimax.base import clamped
from dpconvex.randomness import BitSource


class PrivateSparseModel(CarriesBudgets, BaseEstimator, ABC):
    """A linear model with coefficients in an l1 ball, fitted under differential privacy.

    Parameters are documented with the final classes, of which scikit-learn wants every one listed. Constructors only
    store; everything is checked by `plan` and `fit`, from public facts.
    """

    kind: ClassVar[str]
    """Name on the command line; unique among the models."""
    effect: ClassVar[str]
    """What a coefficient changes, for reports."""
    default_radius: ClassVar[float]
    """l1 norm of the coefficients, times the bound of the features, where no radius is given."""

    encoded_coef_: FloatArray
    encoded_intercept_: FloatArray
    coef_: FloatArray
    intercept_: Any
    certificate_: PrivacyCertificate
    plan_: Plan
    n_features_in_: int

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        feature_bound: float | None = None,
        feature_bounds: Any = None,
        schema: Schema | None = None,
        radius: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        constants: str = "calibrated",
        random_state: int | BitSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_bound = feature_bound
        self.feature_bounds = feature_bounds
        self.schema = schema
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.constants = constants
        self.random_state = random_state

    @abstractmethod
    def plan(self, n: int, n_features: int | None = None) -> tuple[Plan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Parameters
        ----------
        n : int
            Number of records.
        n_features : int, optional
            Number of columns; not needed with a schema.
        """

    @abstractmethod
    def predict(self, X: Any) -> AnyArray:
        """Return the prediction for every record, (n,)."""

    @property
    @abstractmethod
    def output_scale(self) -> float:
        """Units of ``encoded_coef_`` per unit of the plan's parameters."""

    @final
    @property
    def sparsity_(self) -> int:
        """Number of coefficients, of encoded features, that are not 0."""
        check_is_fitted(self)
        return int(np.count_nonzero(self.encoded_coef_))

    def __sklearn_tags__(self) -> Any:
        """Declare that NaN and sparse matrices are accepted and that results are random."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        return tags

    @final
    def _privacy(self) -> PrivacyParams:
        return PrivacyParams(self.epsilon, self.delta)

    @final
    def _feature_map(self, n_features: int | None) -> FeatureMap:
        given = {
            "schema": self.schema,
            "feature_bound": self.feature_bound,
            "feature_bounds": self.feature_bounds,
        }
        named = [name for name, value in given.items() if value is not None]
        if len(named) != 1:
            raise InvalidParameterError(
                "feature_bound" if not named else named[0],
                None if not named else given[named[0]],
                f"exactly one of {', '.join(given)} must be given, and {len(named)} are",
                "Bounds must be public knowledge: data are clipped into them. feature_bound=1.0 declares entries "
                "between -1 and 1",
            )
        records_only(self.schema)
        domain = None
        if self.feature_bound is not None:
            bound = _validate.real("feature_bound", self.feature_bound, at_least=1e-40, at_most=1e40)
            count = 1 if n_features is None else _validate.integer("n_features", n_features, at_least=1)
            if n_features is None:
                raise InvalidParameterError("n_features", None, "must be given to plan without data")
            domain = DataDomain.box(count, bound)
        return feature_map(
            schema=self.schema,
            domain=domain,
            feature_bounds=self.feature_bounds,
            feature_norm=None,
            n_features=n_features,
        )

    @final
    def _radius(self, features: FeatureMap) -> float:
        """Return the l1 norm in the plan's units: encoded features, and targets of width 1."""
        if self.radius is None:
            return self.default_radius / features.domain.linf
        return _validate.real("radius", self.radius, above=0.0, remedy="It is the largest l1 norm of the coefficients")

    @final
    def _encoded(self, X: Any, *, reset: bool) -> tuple[FeatureMap, Any]:
        """Return the feature map and the encoded matrix; `reset` (in `fit`) learns the columns' names and number."""
        if self.schema is not None:
            features = self._feature_map(None)
            if reset:
                self.n_features_in_ = len(self.schema.columns)
            return features, features.encode(X)
        X = learned_matrix(self, X, reset=reset, sparse=True)
        features = self._feature_map(X.shape[1])
        if scipy.sparse.issparse(X) and self.feature_bounds is not None:
            raise InvalidParameterError(
                "feature_bounds", self.feature_bounds, "cannot be used with a sparse matrix", "Give feature_bound"
            )
        return features, features.encode(X)

    @final
    def _store(self, features: FeatureMap, weights: FloatArray, middle: float = 0.0) -> Self:
        """Store released weights, (p,) with the intercept's last; predictions are ``middle + output_scale * z``."""
        scaled, p = self.output_scale * weights[None, :], features.domain.n_features
        constant = scaled[:, p] * features.domain.linf if self.fit_intercept else np.zeros(1)
        self.encoded_coef_, self.encoded_intercept_ = scaled[:, :p], middle + constant
        self.coef_, self.intercept_ = features.decode(self.encoded_coef_, self.encoded_intercept_)
        return self

    @final
    def _linear(self, X: Any) -> FloatArray:
        """Return the linear predictions of every record, (n,)."""
        check_is_fitted(self)
        features, encoded = self._encoded(X, reset=False)
        return clip_entries(encoded, features.domain.linf) @ self.encoded_coef_[0] + self.encoded_intercept_[0]


def clip_entries(X: Any, bound: float) -> Any:
    """Return a float64 copy with entries clipped to ``[-bound, bound]``, NaN 0, as training sees them."""
    if not scipy.sparse.issparse(X):
        return clamped(X, bound)
    out: Any = X.astype(np.float64)
    out.sum_duplicates()
    out.data = clamped(out.data, bound)
    return out


def same_length(X: Any, y: AnyArray, what: str = "y") -> None:
    """Raise `InvalidDataError` unless there is one `y` a record, and at least one record."""
    if X.shape[0] != len(y):
        raise InvalidDataError(f"X has {X.shape[0]} records and {what} has {len(y)}: they must agree")
    if X.shape[0] < 1:
        raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")


def shuffled(records: tuple[Any, AnyArray, AnyArray], source: BitSource) -> tuple[Any, AnyArray, AnyArray]:
    """Return records (features, targets, groups) in a random order, copied.

    Methods that read every record once need an order that says nothing about the records; a file sorted by its labels
    would mislead them. The order is a coin of its own, so privacy is not affected.
    """
    order = source.generator().permutation(len(records[1]))
    X, targets, groups = records
    return X[order], targets[order], groups[order]
