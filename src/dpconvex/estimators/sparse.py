"""Linear models over an l1 ball, for many more features than records: base classes and final classes."""

import math
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_is_fitted

from dpconvex import _progress, _validate
from dpconvex._types import Array, Floats
from dpconvex.algorithms import Plan, begin, target_look
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.data import Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _features, _matrices, _targets
from dpconvex.estimators._descriptions import LINEAR, REGRESSOR, SEED, final_estimator
from dpconvex.estimators._streams import able, count, open_rows, shuffled
from dpconvex.estimators.base import FittedModel
from dpconvex.estimators.export import Exported
from dpconvex.losses import LogisticLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, WorstGroupLoss, l1_ball_loss, single_group
from dpconvex.problems.minimax.base import clamped
from dpconvex.randomness import BitSource, source_from

LOGISTIC_THIRD = 1 / (6 * math.sqrt(3))  #: Largest third derivative of the logistic loss


@dataclass(eq=False, repr=False)
class PrivateSparseModel(FittedModel, Exported):
    """A private linear model with coefficients in an l1 ball. Parameters are documented with the final classes."""

    _lists_all = False
    default_radius: ClassVar[float]
    """Default radius (largest l1 norm of the coefficients), times the bound of the features."""
    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    feature_bound: float | None = None
    feature_bounds: Any = None
    schema: Schema | None = None
    radius: float | None = None
    fit_intercept: bool = True
    algorithm: str = "auto"
    constants: str = "calibrated"
    random_state: int | BitSource | None = None
    verbose: bool = False
    plan_: Plan = field(init=False)

    @abstractmethod
    def plan(self, n: int, n_features: int | None = None) -> tuple[Plan, ...]:
        """Return all plans for `n` records, the smallest predicted error first. Sees no data.

        With a schema, `n_features`, the number of columns, is not needed.
        """

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit by the plan with the smallest predicted error at the given budget.

        Data are as in `PrivateLinearModel.fit`; features may be a sparse matrix, too.
        """

    @final
    @property
    def sparsity_(self) -> int:
        """Number of nonzero coefficients of encoded features."""
        check_is_fitted(self)
        return int(np.count_nonzero(self.encoded_coef_))

    @final
    def _privacy(self) -> PrivacyParams:
        return PrivacyParams(self.epsilon, self.delta)

    @final
    def _feature_map(self, n_features: int | None) -> _features.FeatureMap:
        given = {name: getattr(self, name) for name in ("schema", "feature_bound", "feature_bounds")}
        remedy = "Bounds must be public knowledge: data are clipped into them. "
        _features.require_one(given, "feature_bound", remedy + "feature_bound=1.0 declares entries between -1 and 1")
        if isinstance(self.schema, Schema) and (user := self.schema.user) is not None:
            what = "asks to protect all rows of a user together, and this method protects single rows only"
            remedy = "Make a table with one row a user, or drop the schema's `user` if a row is what must be protected"
            raise InvalidParameterError("user", user, what, remedy)
        domain = None
        if self.feature_bound is not None:
            bound = _validate.real("feature_bound", self.feature_bound, at_least=1e-40, at_most=1e40)
            if n_features is None:
                raise InvalidParameterError("n_features", None, "must be given to plan without data")
            domain = DataDomain.box(_validate.integer("n_features", n_features, at_least=1), bound)
        bounds = {"feature_bounds": self.feature_bounds, "feature_norm": None}
        return _features.feature_map(schema=self.schema, domain=domain, **bounds, n_features=n_features)

    @final
    def _radius(self, features: _features.FeatureMap) -> float:
        """Return the radius in the plan's units: for encoded features, and targets with a range of width 1."""
        if self.radius is None:
            return self.default_radius / features.domain.linf
        return _validate.real("radius", self.radius, above=0.0, remedy="It is the largest l1 norm of the coefficients")

    @final
    def _learn(self, features: _features.FeatureMap, records: Any, source: BitSource) -> None:
        """Plan, run on the records in a random order, and store what was released."""
        n = count(records)
        plan: Any = able(self, records).plan(n, features.domain.n_features)[0]
        self._paid = begin(plan, type(self).__name__, _matrices.fitted_columns(self), n, source)
        with _progress.shown(type(self).__name__, self.verbose):
            result = plan.run(shuffled(records, source, plan.only_sums), source)
        self.plan_, self.ranges_ = result.plan, self._target_part(result.plan)
        self._store(features, plan.problem.point(result.x))
        self.certificate_ = result.certificate

    @abstractmethod
    def _targets_of(self, X: Any, y: Any) -> Floats:
        """Return targets and groups of records as plans take them, (n, 2)."""

    @final
    def _store(self, features: _features.FeatureMap, weights: Floats) -> None:
        """Store released weights (p,), the last for the intercept; predictions are ``middle + output_scale * z``."""
        scaled, p, bounds = self.output_scale * weights[None, :], features.domain.n_features, self._target_range()
        middle = 0.0 if bounds is None else bounds.middle
        constant = scaled[:, p] * features.domain.linf if self.fit_intercept else np.zeros(1)
        self.encoded_coef_, self.encoded_intercept_ = scaled[:, :p], middle + constant
        self.coef_, self.intercept_ = features.decode(self.encoded_coef_, self.encoded_intercept_)

    @final
    def _linear(self, X: Any) -> Floats:
        """Return the linear predictions of every record, (n,)."""
        check_is_fitted(self)
        features, encoded = self._encoded(X, reset=False)
        own = encoded.astype(np.float64) if scipy.sparse.issparse(encoded) else encoded  # the copy is clamped in place
        return clamped(own, features.domain.linf) @ self.encoded_coef_[0] + self.encoded_intercept_[0]


@final_estimator(**REGRESSOR, seed=SEED)
class PrivateLasso(_targets.Regressor, PrivateSparseModel):
    """Least squares with coefficients in an l1 ball under differential privacy: many features, few that matter.

    The error grows with the logarithm of the number of features, where l2 methods pay its square root. NumPy arrays,
    data frames and SciPy sparse matrices are all read; a sparse matrix is never made dense.

    Guarantee: everything that `fit` learns from data is (epsilon, delta)-differentially private for neighbors that
    replace one record, with a public number of records; nothing else depends on the data.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one `fit`, positive; smaller is more private.
    delta : float, default=1e-6
        In (0, 1/2) and far below 1/n.
    target_bounds : (lower, upper), optional
        Public range of the target, in its unit. Targets are clipped into it and NaN counts as its middle; predictions
        are clipped too. Default: the schema's numeric target. With default `algorithm`, `constants` and `radius` a fit
        first chooses privately which part of it to keep, where that is expected to gain (docs, Private ranges).
    feature_bound : float, optional
        Public bound on the magnitude of every entry of `X`; entries beyond are clipped, NaN counts as 0. This, or
        `feature_bounds`, or `schema` must be given.
    feature_bounds : (lower, upper), optional
        Public ranges of the columns, two numbers or two arrays; columns are centered and scaled to [-1/2, 1/2]. Not for
        sparse matrices.
    schema : Schema, optional
        Public description of a table with the features.
    radius : float, optional
        Public, positive: largest l1 norm of the coefficients (of encoded features, the intercept included, in units of
        the target's range). A larger radius allows a better fit and needs more noise; privacy is the same. Default: 1
        divided by the features' bound.
    fit_intercept : bool, default=True
        Add a constant feature.
    algorithm : str, default="auto"
        ``"auto"`` takes the plan with the smallest predicted error, from public facts; a constant where no fit could
        pay for a look at the target's range.
    constants : {"calibrated", "paper"}
        Tight constants, or the paper's (repaired) ones. Both are private and certified.
    {seed}

    Attributes
    ----------
    {attributes}
    ranges_ : tuple of NumberRange
        The part of the target's range that the fit kept, if it looked; coefficients and predictions lie in it.

    References
    ----------
    Talwar, Thakurta and Zhang (2015), "Nearly optimal private LASSO"; Gonzalez, Guzman and Paquette, "Mirror Descent
    Algorithms with Nearly Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems".

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateLasso
    >>> rng = np.random.default_rng(0)
    >>> X = rng.choice([-1.0, 1.0], size=(8000, 200))
    >>> y = 3 * X[:, 0] - 2 * X[:, 1] + rng.normal(size=8000)
    >>> model = PrivateLasso(epsilon=2.0, feature_bound=1.0, target_bounds=(-10, 10)).fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    """

    kind: ClassVar[str] = "lasso"
    effect: ClassVar[str] = "the prediction"
    default_radius: ClassVar[float] = 1.0
    _looks_at_columns = False
    _finds_target = False  # pyright: ignore[reportAssignmentType]
    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None

    def plan(self, n: int, n_features: int | None = None) -> tuple[SaddlePlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Predicted errors are in units of the square of the target's range.
        """
        self._declared()
        features = self._feature_map(n_features)
        radius, p, bound = self._radius(features), features.domain.n_features, features.domain.linf
        loss = SquaredLoss(0.5, prediction_bound=max(0.5, radius * bound))
        given = {"intercept": self.fit_intercept, "third_derivative": 0.0}
        problem, privacy = l1_ball_loss(loss, n, p, radius, feature_bound=bound, **given), self._privacy()
        cost, how = self._look_costs(features, privacy, n)[0], {"constants": self.constants, "sums": self._sums}
        found: Any = plan_saddle(problem, privacy.less(cost) if cost else privacy, self.algorithm, **how)
        if not cost:
            return found
        if found[0].hopeless:  # a constant gains nothing from a look; a fit that cannot pay for one may lose far more
            whole: Any = plan_saddle(problem, privacy, self.algorithm, **how)
            return whole.changed(sorted(whole, key=lambda each: each.algorithm != "constant"))
        step = _features.step_of(self._schema_target)
        return found.changed(target_look.plan(each, privacy, step) for each in found)

    def fit(self, X: Any, y: Any = None) -> Self:
        source, bounds, opened = source_from(self.random_state), self._declared(), open_rows(self, X, y, None)
        if opened is None:
            features, encoded = self._encoded(X, reset=True)
            records = single_group(encoded, bounds.scale(self._numbers(X, y)))
        else:
            features, records = opened[:2]
        self._learn(features, records, source)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])  # as scikit-learn's regressors
        return self._named()

    def predict(self, X: Any) -> Floats:
        """Return the prediction for every record, (n,), in the target's unit, clipped to the range that was kept."""
        bounds = self._range()
        return np.clip(self._linear(X), bounds.lower, bounds.upper)

    @property
    def _may_look(self) -> bool:
        usual = self.radius is None and (self.algorithm, self.constants) == ("auto", "calibrated")
        return usual and _features.wide(self._declared().lower, self._declared().upper)

    def _targets_of(self, X: Any, y: Any) -> Floats:
        scaled = self._declared().scale(self._numbers(X, y))
        return np.column_stack([scaled, np.zeros(len(scaled))])

    def _numbers(self, X: Any, y: Any) -> Array:
        if y is None and self.schema is not None and self.schema.target is not None and self.schema.target.numeric:
            return self.schema.encode_target(X)
        return _targets.number_array(self._required(y))


@dataclass(eq=False, repr=False)
class PrivateSparseClassifier(_targets.FromLogits, _targets.Classifier, PrivateSparseModel):
    """A private classifier for two classes, whose logits are linear with coefficients in an l1 ball."""

    effect: ClassVar[str] = "log-odds"
    default_radius: ClassVar[float] = 3.0
    output_scale: ClassVar[float] = 1.0
    _: KW_ONLY
    classes: Any = None
    classes_: Array = field(init=False)

    @final
    def decision_function(self, X: Any) -> Floats:
        """Return the logit of the second class, (n,)."""
        return self._linear(X)

    _log_odds = decision_function

    @final
    def predict(self, X: Any) -> Array:
        """Return the more likely label of every record, (n,)."""
        check_is_fitted(self)
        return self.classes_[(self.decision_function(X) > 0).astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @final
    def _problem(self, features: _features.FeatureMap, n: int, factors: tuple[float, ...] = (1.0,)) -> WorstGroupLoss:
        ball = features.domain.n_features, self._radius(features), features.domain.linf
        return WorstGroupLoss(LogisticLoss(), n, *ball, factors, self.fit_intercept, LOGISTIC_THIRD)

    @final
    def _schema_classes(self) -> Array:
        assert self.schema is not None  # as for tables that are read portion by portion
        return np.asarray(self.schema.classes)

    @final
    def _signs(self, X: Any, y: Any) -> tuple[Floats, Array]:
        """Return targets -1 and 1, (n,), and the two classes."""
        index, classes = self._labels(X, y)
        _targets.require_two("classes", classes.tolist(), len(classes))
        return 2.0 * index - 1.0, classes

    def _targets_of(self, X: Any, y: Any) -> Floats:
        signs = self._signs(X, y)[0]
        return np.column_stack([signs, np.zeros(len(signs))])

    def _labels(self, X: Any, y: Any) -> tuple[Array, Array]:
        target = None if self.schema is None else self.schema.target
        if target is not None and target.labels and self.classes is None:
            codes = self.schema.encode_target(X) if y is None else target.encode(_targets.as_series(y)[0])  # pyright: ignore
            return codes, np.asarray(target.labels)
        y = self._required(y)
        if self.classes is not None:
            classes = _targets.checked_classes(self.classes)
            return _targets.declared_index(y, classes), classes
        return _targets.default_index(y)


@final_estimator(linear=LINEAR)
class PrivateSparseLogisticRegression(PrivateSparseClassifier):
    """Logistic regression with coefficients in an l1 ball under differential privacy: many features, few that matter.

    For text, genes and other data with more features than records: the error grows with the logarithm of the number of
    features, where l2 methods pay its square root. A sparse matrix is never made dense.

    Guarantee and references: as `PrivateLasso`.

    Parameters
    ----------
    classes : array of two labels, optional
        Public, the negative class first; a label that is not listed counts as the first, silently. Default: the
        schema's, or False and True for Boolean labels; labels of another type are refused.
    epsilon, delta, feature_bound, feature_bounds, schema, fit_intercept, algorithm, constants, random_state, verbose
        As in `PrivateLasso`.
    radius : float, optional
        Public, positive: largest l1 norm of the coefficients of encoded features, the intercept included. A larger
        radius allows a better fit and needs more noise; privacy is the same. Default: 3 divided by the features' bound,
        so that the largest logit is 3.

    Attributes
    ----------
    {linear}
    certificate_, plan_, n_features_in_
        As in `PrivateLasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from dpconvex import PrivateSparseLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = sparse.random_array((5000, 10_000), density=0.01, rng=rng, format="lil")
    >>> X[:, 7] = rng.integers(0, 2, (5000, 1))
    >>> y = X[:, [7]].toarray().ravel()
    >>> model = PrivateSparseLogisticRegression(epsilon=2.0, feature_bound=1.0, classes=[0, 1]).fit(X.tocsr(), y)
    >>> model.score(X.tocsr(), y) > 0.9
    True
    """

    kind: ClassVar[str] = "sparse_logistic"

    def plan(self, n: int, n_features: int | None = None) -> tuple[SaddlePlan, ...]:
        problem = self._problem(self._feature_map(n_features), n)
        return plan_saddle(problem, self._privacy(), self.algorithm, constants=self.constants, sums=self._sums)

    def fit(self, X: Any, y: Any = None) -> Self:
        source, opened = source_from(self.random_state), open_rows(self, X, y, None)
        if opened is None:
            features, encoded = self._encoded(X, reset=True)
            targets, classes = self._signs(X, y)
            records = single_group(encoded, targets)
        else:
            features, records, classes = *opened[:2], self._schema_classes()
        self._learn(features, records, source)
        self.classes_ = classes
        return self._named()
