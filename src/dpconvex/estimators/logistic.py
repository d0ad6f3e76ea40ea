"""`PrivateLogisticRegression`: parameters, plan, run, fitted attributes. No mathematics here."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import Plan
from dpconvex.algorithms.selection import Options, plans
from dpconvex.data import Schema
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.estimators._features import (
    FeatureMap,
    as_series,
    default_classes,
    encode_labels,
    feature_map,
    label_array,
    numeric_matrix,
)
from dpconvex.losses import LogisticLoss, SoftmaxLoss
from dpconvex.privacy import Assumption, PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.linear_model import LinearModelProblem, default_radius
from dpconvex.randomness import BitSource, source_from


class PrivateLogisticRegression(ClassifierMixin, BaseEstimator):
    """Logistic regression under differential privacy, binary and multiclass.

    Guarantee: for any two data sets of the same size that differ in one record, the law of everything that `fit`
    learns from data (``coef_``, ``intercept_``) satisfies (epsilon, delta)-differential privacy; with ``delta=0``,
    pure epsilon-DP. ``certificate_`` states and prices it. Nothing else depends on the data: no exception, no
    warning, no iteration count.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one `fit`, positive. Two fits on the same data cost the sum.
    delta : float, default=0.0
        In [0, 1/2). With ``delta > 0`` Gaussian noise is considered too.
    feature_norm : float, optional
        Public bound on the Euclidean length of a row. Longer rows are shortened to it.
    feature_bounds : (lower, upper), optional
        Public bounds on every column, numbers or arrays of shape (n_features,). Values are clipped and the columns
        scaled to [-1/2, 1/2] inside; ``coef_`` is in the original units.
    domain : DataDomain, optional
        Any product of bounded blocks.
    schema : Schema, optional
        Columns, ranges, categories and classes of a table. `fit` then takes data frames (pandas, polars, pyarrow).
        Exactly one of these four must be given, from public knowledge.
    classes : array of labels, "infer" or None, default=None
        The labels, in order; a label that is not listed counts as the first. None: the schema's classes, or (0, 1)
        for numeric and (False, True) for Boolean labels. ``"infer"`` reads the labels off `y`: *which labels occur*
        is then public and outside the guarantee, and the certificate says so.
    fit_intercept : bool, default=True
        Append a constant feature, inside the bounds and regularised like the rest.
    algorithm : {"auto", "objective_perturbation", "output_perturbation"}, default="auto"
        ``"auto"`` takes the smallest predicted error, from public facts.
    constants : {"calibrated", "paper"}, default="calibrated"
        Tight numbers, or the theorems' (output perturbation only). Both are certified.
    noise : str, default="auto"
        Kind of noise; ``"auto"`` considers all that apply.
    l2 : float, optional
        Strength of the penalty ``l2/2 ||w||^2`` on the mean loss. Default: chosen from public facts. A value tuned
        on the private data is not private.
    coefficient_norm : float, optional
        Norm of the coefficients (in encoded units) that the model should be able to reach; steers regularisation,
        never privacy. Default: about two logits a column.
    random_state : None, int or BitSource, default=None
        None: the operating system's generator. A seed makes the result *not private* (the certificate says so); it
        is for tests and benchmarks.

    Attributes
    ----------
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Released coefficients.
    intercept_ : array of shape (1,) or (n_classes,)
        Released intercepts.
    classes_ : array of shape (n_classes,)
        Labels.
    certificate_ : PrivacyCertificate
        What the fit costs and why.
    plan_ : Plan
        The public constants that were used.
    n_features_in_ : int
        Columns seen by `fit`.

    Notes
    -----
    `score` on the training data is not private. Labels, bounds and categories must not be chosen by looking at the
    data. Content never raises: NaN counts as the middle of the range, infinities as the nearest bound.

    References
    ----------
    Lowy and Razaviyayn, "Output Perturbation for Differentially Private Convex Optimization"; Chaudhuri, Monteleoni
    and Sarwate (2011); Awan and Slavkovic (2020); Redberg, Koskela and Wang (2023). Proofs: "Algorithms" in the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(5000, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = PrivateLogisticRegression(epsilon=1.0, feature_bounds=(-1, 1)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> model.certificate_.spent_epsilon <= 1.0
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        feature_norm: float | None = None,
        feature_bounds: Any = None,
        domain: DataDomain | None = None,
        schema: Schema | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        constants: str = "calibrated",
        noise: str = "auto",
        l2: float | None = None,
        coefficient_norm: float | None = None,
        random_state: int | BitSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.feature_norm = feature_norm
        self.feature_bounds = feature_bounds
        self.domain = domain
        self.schema = schema
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.constants = constants
        self.noise = noise
        self.l2 = l2
        self.coefficient_norm = coefficient_norm
        self.random_state = random_state

    def plan(self, n: int, n_features: int | None = None, n_classes: int | None = None) -> tuple[Plan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Parameters
        ----------
        n : int
            Number of records.
        n_features : int, optional
            Number of columns; not needed with a schema or a domain.
        n_classes : int, optional
            Number of classes; default: from ``classes`` or the schema, else 2.
        """
        features = self._feature_map(n_features)
        if n_classes is None:
            given = self._given_classes()
            n_classes = len(given if given is not None else self._schema_classes()) or 2
        return self._plans(features, n, n_classes)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit with the smallest predicted error at the given budget.

        Parameters
        ----------
        X : array of shape (n, n_features) or data frame
            Features. With a schema: a data frame with the schema's columns.
        y : array of shape (n,), optional
            Labels. With a schema, None takes the schema's target column of `X`.
        """
        source = source_from(self.random_state)
        if self.schema is not None:
            features = self._feature_map(None)
            encoded = features.encode(X)
            self.n_features_in_ = len(self.schema.columns)
        else:
            X = validate_data(self, numeric_matrix(X), dtype="numeric", ensure_all_finite=False)
            features = self._feature_map(X.shape[1])
            encoded = features.encode(X)
        index, classes = self._labels(X, y)
        if len(encoded) != len(index):
            raise InvalidDataError(f"X has {len(encoded)} records and y has {len(index)}: they must agree")
        if len(encoded) < 1:
            raise InvalidDataError("Found array with 0 sample(s): at least 1 record is needed")
        plan = self._plans(features, len(encoded), max(len(classes), 2))[0]
        targets = 2.0 * index - 1.0 if len(classes) <= 2 else index.astype(np.float64)
        result = plan.run(encoded, targets, source)
        weights = result.point.reshape(plan.problem.loss.n_outputs, plan.problem.domain.dim)
        constant = plan.problem.domain.intercept
        intercept = weights[:, -1] * constant if constant else np.zeros(len(weights))
        self.encoded_coef_ = weights[:, : plan.problem.domain.n_features]
        self.encoded_intercept_ = intercept
        self.coef_, self.intercept_ = features.decode(self.encoded_coef_, intercept)
        self.classes_ = classes
        self.certificate_, self.plan_ = result.certificate, plan
        if isinstance(self.classes, str):
            read = Assumption("which labels occur is public", "not enforced: read off y, because classes='infer'")
            assumptions = (*result.certificate.assumptions, read)
            self.certificate_ = dataclasses.replace(result.certificate, assumptions=assumptions)
        return self

    def decision_function(self, X: Any) -> FloatArray:
        """Return the logit of the second class, (n,), or the logits of all classes, (n, n_classes)."""
        check_is_fitted(self)
        if self.schema is not None:
            encoded = self._feature_map(None).encode(X)
        else:
            X = validate_data(self, numeric_matrix(X), dtype="numeric", ensure_all_finite=False, reset=False)
            features = self._feature_map(X.shape[1])
            encoded = features.domain.clip(features.encode(X))
        logits = encoded @ self.encoded_coef_.T + self.encoded_intercept_
        return logits[:, 0] if logits.shape[1] == 1 else logits

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every class, (n, n_classes), in the order of ``classes_``."""
        from scipy.special import expit, softmax

        logits = self.decision_function(X)
        if logits.ndim == 2:
            return softmax(logits, axis=1)
        if len(self.classes_) == 1:
            return np.ones((len(logits), 1))
        return np.column_stack([expit(-logits), expit(logits)])

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of `predict_proba`."""
        from scipy.special import log_expit, log_softmax

        logits = self.decision_function(X)
        if logits.ndim == 2:
            return log_softmax(logits, axis=1)
        if len(self.classes_) == 1:
            return np.zeros((len(logits), 1))
        return np.column_stack([log_expit(-logits), log_expit(logits)])

    def predict(self, X: Any) -> AnyArray:
        """Return the most probable label of every record, (n,)."""
        logits = self.decision_function(X)
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(logits))
        return self.classes_[np.argmax(logits, axis=1) if logits.ndim == 2 else (logits > 0).astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        """Declare that NaN is accepted and that results are random."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _feature_map(self, n_features: int | None) -> FeatureMap:
        return feature_map(
            schema=self.schema,
            domain=self.domain,
            feature_bounds=self.feature_bounds,
            feature_norm=self.feature_norm,
            n_features=n_features,
        )

    def _plans(self, features: FeatureMap, n: int, n_classes: int) -> tuple[Plan, ...]:
        privacy = PrivacyParams(self.epsilon, self.delta)
        domain = features.domain
        if self.fit_intercept and domain.intercept == 0:
            # A constant of the size of the largest feature keeps the fit unchanged when all units change.
            domain = domain.with_intercept(1.0 if self.domain is None and self.feature_norm is None else domain.linf)
        loss = LogisticLoss() if n_classes == 2 else SoftmaxLoss(n_classes)
        radius = self.coefficient_norm
        if radius is None:
            radius = default_radius(domain, loss.n_outputs)
        _validate.real("coefficient_norm", radius, above=0.0)
        problem = LinearModelProblem(loss, domain, n, float(radius))
        return plans(problem, privacy, self.algorithm, Options(self.constants, self.noise, self.l2))

    def _given_classes(self) -> AnyArray | None:
        """Return the declared classes, or None where they follow from the schema, the dtype or from `y`."""
        if self.classes is None:
            return None
        if isinstance(self.classes, str):
            _validate.choice("classes", self.classes, ("infer",), "Or give the list of labels")
            return None
        classes = np.asarray(self.classes)
        if classes.ndim != 1 or len(classes) < 2 or len(np.unique(classes)) < len(classes):
            raise InvalidParameterError("classes", self.classes, "must list at least two different labels")
        return classes

    def _schema_classes(self) -> tuple[str, ...]:
        if self.classes is not None or self.schema is None or self.schema.target is None:
            return ()
        return self.schema.classes

    def _labels(self, X: Any, y: Any) -> tuple[AnyArray, AnyArray]:
        """Return the class index of every record and the classes."""
        if self.schema is not None and y is None:
            return self.schema.encode_target(X), np.asarray(self.schema.classes)
        if self.schema is not None and self.schema.target is not None and self._schema_classes():
            return self.schema.target.encode(as_series(y)), np.asarray(self.schema.classes)
        if y is None:
            raise InvalidParameterError(
                "y", None, "This PrivateLogisticRegression estimator requires y to be passed, but the target y is None"
            )
        labels, kind = label_array(y)
        classes = self._given_classes()
        if classes is None:
            classes = np.unique(labels) if self.classes == "infer" else default_classes(kind, labels.dtype)
        return encode_labels(labels, kind, classes), classes
