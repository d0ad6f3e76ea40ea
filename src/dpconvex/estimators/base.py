"""Base classes of private linear models: features, plan, run, fitted attributes, digest. No mathematics here."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast

import numpy as np
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dpconvex import _progress, _validate
from dpconvex._types import REQUIRED, Array, Floats, forwarded
from dpconvex.algorithms import LinearModelPlan, begin
from dpconvex.algorithms.base import beyond_floats
from dpconvex.algorithms.erm import registry
from dpconvex.algorithms.erm.registry import ERM_METHODS, Found, Methods, check, expected_of_first, plans
from dpconvex.algorithms.erm.two_stage import typical_user
from dpconvex.algorithms.erm.two_stage.constant import ConstantPlan
from dpconvex.algorithms.search.scores import Score
from dpconvex.algorithms.select import LARGEST, SMALLEST, Options, Plans
from dpconvex.data import Schema
from dpconvex.data.targets import PRIVATE
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _features, _matrices
from dpconvex.estimators._digest import model_digest, with_sources
from dpconvex.estimators._features import FeatureMap, feature_map
from dpconvex.estimators._private import PrivateEstimator
from dpconvex.estimators._ranges import IN_MODEL_UNITS, FindsRanges
from dpconvex.estimators._streams import able, expanded, users_of
from dpconvex.estimators._targets import packed, shares_of_cap, weighted
from dpconvex.estimators.export import Exported
from dpconvex.losses import LinearModelLoss
from dpconvex.privacy import Payment, PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, Records, UserGroups
from dpconvex.randomness import BitSource

T = TypeVar("T")
SAY_WHOSE = "Say whose row it is (groups, --user-column, the schema's user; in plan unit), or leave it at "
CALLED = {"attack_radius": "adversarial_radius", "attack_norm": "adversarial_norm", "target": "risk"}
CALLED |= {"test": "user_test", "smoothing": "user_smoothing", "neighboring": "neighbors"}
"""What the estimators call parameters of problems and planners; a ``target`` is a column here."""

LEAST_BIAS = 0.8
"""Every plan for a surrogate expects at least this share of its bias, the excess of a perfect fit in the usual loss."""


class FittedModel(FindsRanges, PrivateEstimator, ABC):
    """A fitted linear model: encoding, prediction and the results of a fit."""

    kind: ClassVar[str]  #: Name on the command line; unique among the models.
    effect: ClassVar[str]  #: What a coefficient changes, for reports.
    encoded_coef_: Floats
    encoded_intercept_: Floats
    coef_: Floats
    intercept_: Any
    plan_: Any
    status_: str
    schema: Schema | None
    feature_bounds: Any
    _ready: Any = None  #: The plan that `fit` runs if a search has made it already; set on the search's own copies.
    _paid: Payment | None = None  #: The budget entry that paid for a fit, until the certificate names it.
    _sums: bool = False  #: Whether plans may only need sums: set on copies, for data that are read portion by portion.
    _weighs: bool = False  #: Whether records have weights.
    _sparse: ClassVar[bool] = True
    _level: float | None = None  #: The quantile that the model predicts, if it predicts a quantile.
    output_scale: float = REQUIRED  #: Factor from the plan's parameters to ``encoded_coef_``.

    @abstractmethod
    def predict(self, X: Any) -> Array:
        """Return the prediction for every record, (n,)."""

    def _blind(self, by_row: bool = False) -> Self:
        """Return a copy that encodes and predicts, without noise source or ledger, so that workers may have it.

        With `by_row` a prediction depends on its row alone, to the last bit.
        """
        other = copy(self)
        if by_row:
            vars(other)["_linear"] = partial(_features.scores_of_rows, other)
        for name in ("certificate_", "plan_", "_ready"):
            vars(other).pop(name, None)
        return other.set_params(random_state=None)

    def _encoded(self, X: Any, *, reset: bool) -> tuple[FeatureMap, Any]:
        """Return the feature map and the encoded matrix; `reset` (in `fit`) learns the columns' names and number."""
        found = ((), ()) if reset else self._told
        missing = self._missing if reset else 0.0
        if self.schema is not None:
            features = self._feature_map(None).found(*found)
            if reset:
                self.n_features_in_ = len(self.schema.columns)
            return features, features.encode(X, missing)
        X = _matrices.learned_matrix(self, X, reset=reset, sparse=self._sparse)
        features = self._feature_map(X.shape[1]).found(*found)
        if scipy.sparse.issparse(X) and self.feature_bounds is not None:
            other = "feature_norm" if hasattr(self, "feature_norm") else "feature_bound"
            what, remedy = "cannot be used with a sparse matrix", f"Give {other}, or make the matrix dense"
            raise InvalidParameterError("feature_bounds", self.feature_bounds, what, remedy)
        if scipy.sparse.issparse(X) and reset:  # the form of X is public, and plans take such rows for words
            kinds = [(b, "sparse" if (b.norm, b.values) == ("l2", "any") else b.values) for b in features.domain.blocks]
            words = tuple(replace(each, values=values) for each, values in kinds)
            features = _features.Declared(replace(features.domain, blocks=words))
        return features, features.encode(X, missing)

    def _required(self, y: Any) -> Any:
        """Return `y`, or raise with the message that scikit-learn expects."""
        if y is None:
            what = f"This {type(self).__name__} estimator requires y to be passed, but the target y is None"
            raise InvalidParameterError("y", None, what)
        return y

    def _named(self) -> Self:
        """Enter the model's digest and what paid for it into its certificate, and return it: the end of every `fit`."""
        paid = vars(self).pop("_paid", None)
        if self.certificate_ is not None:  # audits leave certificates out
            named = replace(self.certificate_, model=model_digest(self))
            self.certificate_ = named if paid is None else paid.named(named)
        return self


@dataclass(eq=False, repr=False)
class PrivateLinearModel(FittedModel, Exported):
    """A linear model fitted under differential privacy.

    Parameters are documented with the final classes. Constructors only store; everything is checked by `plan` and
    `fit`, from public facts.
    """

    epsilon: float = 1.0
    delta: float = 0.0
    _: KW_ONLY
    feature_norm: float | None = None
    feature_bounds: Any = None
    domain: DataDomain | None = None
    schema: Schema | None = None
    fit_intercept: bool = True
    algorithm: str = "auto"
    constants: str = "calibrated"
    noise: str = "auto"
    l2: float | None = None
    coefficient_norm: float | None = None
    tilt: float = 0.0
    adversarial_radius: float = 0.0
    adversarial_norm: str = "l2"
    risk: str = "empirical"
    solver: str = "auto"
    user_test: str = "auto"
    user_smoothing: str = "auto"
    most_rows: int | None = None
    records_per_user: int | str = 1
    neighbors: str = "replace_one"
    rows: int | None = None
    weight_cap: float | None = None
    random_state: int | BitSource | None = None
    verbose: bool = False
    plan_: LinearModelPlan = field(init=False)
    _scores: ClassVar[tuple[str, ...]]  #: Held-out losses by which a search may choose.
    _own_score: ClassVar[str]  #: The loss by which a search chooses by default.
    target_schema = forwarded("schema")  #: The schema with the range that targets are clipped into; None without one.

    def plan(self, n: int, n_features: int | None = None, *, unit: str | None = None) -> tuple[LinearModelPlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Predicted errors are in units of the loss, for regressors on a target scaled to a range of width 1. The plans
        show themselves as one table, with the methods that do not apply and why.

        Parameters
        ----------
        n : int
            Number of records, or of users.
        n_features : int, optional
            Number of columns; not needed with a schema or a domain.
        unit : {"record", "user"}, optional
            What is protected: a row, or all rows of a user. Default: users if the schema names their column.
        """
        loss = self._declared_loss()
        return self._plans(self._feature_map(n_features), n, loss, self._unit(unit))

    @abstractmethod
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Fit with the smallest predicted error at the given budget.

        Parameters
        ----------
        X : array of shape (n, n_features) or data frame
            Features. With a schema: a data frame with the schema's columns.
        y : array of shape (n,), optional
            Targets or labels. With a schema, None takes the schema's target column of `X`.
        groups : array of shape (n,), optional
            Whose record it is. Then all records of a user are protected together, and the number of users counts as
            public; how many records each has does not. Default: the schema's user column, if it names one.
        sample_weight : array of shape (n,), optional
            How much each record counts, clipped to [0, `weight_cap`]; a missing weight counts as 0. Default: the
            schema's weight column, if it names one, else 1.
        """

    @property
    def partial_fit(self) -> NoReturn:
        """Not offered: every call would be a release of its own."""
        raise AttributeError(
            "partial_fit: is not offered: every call would pay and add noise. Collect the records and call fit once"
        )

    @abstractmethod
    def _declared_loss(self) -> LinearModelLoss:
        """Return the loss that follows from the parameters."""

    @abstractmethod
    def _default_radius(self, domain: DataDomain, loss: LinearModelLoss) -> float:
        """Return the comparator norm that is used if none is given."""

    def _feature_map(self, n_features: int | None) -> FeatureMap:
        given = {name: getattr(self, name) for name in ("schema", "domain", "feature_bounds", "feature_norm")}
        return feature_map(**given, n_features=n_features, finds=True)

    def _constant(self, domain: DataDomain, unit: Unit) -> float:
        """Return the value of the constant feature that carries the intercept.

        If users scale features themselves, it equals the largest feature, so that a fit does not depend on units.
        """
        encoded = self.domain is None and self.feature_norm is None
        return 1.0 if encoded and unit == Unit.RECORD else domain.linf

    def _unit(self, unit: str | None) -> Unit:
        """Return the protected unit, by default that of the schema."""
        if unit is not None:
            return Unit(_validate.choice("unit", unit, tuple(Unit)))
        if self.schema is not None and self.schema.user is not None:
            return Unit.USER
        if self.records_per_user != 1:  # a caller who gives it believes that users are protected
            raise InvalidParameterError("records_per_user", self.records_per_user, "is for users", f"{SAY_WHOSE}1")
        return Unit.RECORD

    def _groups(self, X: Any, groups: Any) -> UserGroups | None:
        """Return each record's user, from labels or the schema's user column; None where records are protected."""
        if groups is None and self._unit(None) == Unit.RECORD:
            return None
        return users_of(self.schema, X, groups, empty=not self._relation.fixes_size)

    @property
    def _cap(self) -> float | None:
        """The public cap on weights; None where records are not weighted."""
        schema = None if self.schema is None else _features.checked_schema(self.schema)  # the first that a fit asks for
        cap = schema.weight_cap if self.weight_cap is None and schema is not None else self.weight_cap
        return None if cap is None else _validate.real("weight_cap", cap, at_least=SMALLEST, at_most=LARGEST)

    @property
    def _weighs(self) -> bool:
        return self._cap is not None or getattr(self, "class_weight", None) is not None

    def _weighted(self, loss: LinearModelLoss) -> LinearModelLoss:
        return weighted(loss, self.weight_cap) if self._weighs else loss

    def _weights(self, X: Any, sample_weight: Any) -> Floats | None:
        return shares_of_cap(self.schema, X, sample_weight, self._cap)

    def _plans(self, features: FeatureMap, n: int, loss: LinearModelLoss, unit: Unit = Unit.RECORD) -> Found:
        found = self._asked(self._least_expected, features, n, loss, unit)
        return self._with_ranges(features, found, self._promise(unit))

    def _promise(self, unit: Unit) -> PrivacyParams:
        return PrivacyParams(self.epsilon, self.delta, self._relation, unit)

    def _asked(
        self, question: Callable[[LinearModelProblem, PrivacyParams, Options], T], features: FeatureMap, n: int,
        loss: LinearModelLoss, unit: Unit,
    ) -> T:  # fmt: skip
        """Return a planner's result for the problem that the parameters describe; refusals name the parameters."""
        whole, declared = self._promise(unit), not self._relation.fixes_size
        if declared and self._open(features):
            what = "is for neighbors='replace_one': no private range is proved for these"
            raise InvalidParameterError("ranges", PRIVATE, what, "Declare the ranges of all columns and of the target")
        privacy = self._rest(features, whole, n)
        defaults = {"user_test": "auto", "user_smoothing": "auto", "most_rows": None}
        own: dict[str, Any] = {name: getattr(self, name) for name in defaults}
        for name, given in own.items():
            if unit == Unit.RECORD and given != defaults[name]:
                raise InvalidParameterError(name, given, "is for users", f"{SAY_WHOSE}{defaults[name]!r}")
        if unit == Unit.RECORD and self._asks_users:
            raise InvalidParameterError("records_per_user", self.records_per_user, "is for users", f"{SAY_WHOSE}1")
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidParameterError("fit_intercept", self.fit_intercept, "must be true or false")
        domain = features.domain
        if self.fit_intercept and domain.intercept == 0:
            domain = domain.with_intercept(self._constant(domain, unit))
        try:
            usual = self._default_radius(domain, loss)
            radius = usual if self.coefficient_norm is None else self.coefficient_norm
            _validate.real("coefficient_norm", radius, at_least=SMALLEST, at_most=LARGEST)
            attack: tuple[float, Any] = self.adversarial_radius, self.adversarial_norm  # checked there
            typical = typical_user.TYPICAL[typical_user.GUESS] if self._asks_users else self.records_per_user
            how: Any = {"at_least": 1, "remedy": "Or 'private': then a fit finds it"}
            many = None if unit == Unit.RECORD else _validate.integer("records_per_user", typical, **how)
            loss = self._of_size(loss, n, privacy.epsilon, domain.dim)
            facts = self._weighted(loss), domain, n, float(radius), self.tilt, *attack, many
            problem = LinearModelProblem(*facts, private_n=declared)
            problem = self._expecting(problem, radius / usual, self._look_costs(features, whole, n)[0] > 0)
            l2 = None if self.l2 is None else _validate.real("l2", self.l2, above=0.0)
            fixed = (self.constants, self.noise, l2, self.risk, self.solver, *own.values())
            return question(features.refined(problem), privacy, Options(*fixed, sums=self._sums))
        except InvalidParameterError as error:
            name = CALLED.get(error.name, error.name)
            raise InvalidParameterError(name, error.value, error.requirement, error.remedy) from None
        except ArithmeticError as error:
            raise beyond_floats(loss.name) from error

    def _of_size(self, loss: LinearModelLoss, n: int, epsilon: float, dim: int) -> LinearModelLoss:
        """Return the loss for n records or users and so many features: the one given, if it depends on none."""
        return loss

    def plans_at(self, epsilon: float) -> Found:
        """Return all plans of the fitted problem at another epsilon, with every algorithm that applies."""
        problem = replace(self.plan_.problem, factor=None)  # every plan chooses its own coordinates
        whole, features = replace(self.plan_.privacy, epsilon=epsilon), self._feature_map(self.n_features_in_)
        own, rest = problem.loss.unweighted, self._rest(features, whole, problem.n).epsilon
        if (loss := self._of_size(own, problem.n, rest, problem.domain.dim)) is not own:
            problem = replace(problem, loss=self._weighted(loss))
        return self._planned(features, problem, whole, "auto", Options(target=self.risk))

    def _linked(self, ends: Floats) -> Floats:
        """Return bands of predictions from bands of linear predictions."""
        return ends

    def _least_expected(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> Found:
        """Return the plans for the loss or for a surrogate of it, whichever has the smallest expected error."""
        best = self._choices(problem, privacy, options)
        usual = options.target == "empirical" and options.constants == "calibrated" and problem.typical is not None
        if not usual:
            return best
        for loss in self._surrogates(problem):
            surrogate = replace(problem, loss=self._weighted(loss))
            if surrogate.typical is not None and LEAST_BIAS * surrogate.typical.bias > expected_of_first(best):
                continue  # not even a perfect fit of this surrogate would be better
            with suppress(InvalidParameterError):  # some options suit only the loss itself
                found = self._choices(surrogate, privacy, options)
                if privacy.unit == Unit.USER:  # cutting gradients of users gains more than a cap; it only biases rates
                    rates = ConstantPlan if loss.task == "classification" else ()
                    fit = [plan for plan in found if registry.is_pure(plan) and not isinstance(plan, rates)]
                    made = {plan.algorithm for plan in fit}  # the other methods fit the loss itself
                    fit += [plan for plan in best if plan.algorithm not in made]
                    found = Plans(sorted(fit, key=registry.cautious), getattr(found, "refused", ()))
                best = min(best, found, key=registry.cautious_of_first)
        return best

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        """Return surrogates of the problem's loss that need less noise; none by default."""
        return ()

    def _choices(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> Found:
        """Return the plans for a problem; the first is the one to run."""
        found = plans(problem, privacy, self.algorithm, options)
        if not self._asks_users:
            return found
        return typical_user.plan(problem, privacy, Methods(options, ERM_METHODS.names(self.algorithm)))

    @property
    def _asks_users(self) -> bool:
        """Whether a fit finds privately how many records a typical user has."""
        return self.records_per_user == PRIVATE

    @property
    def _may_look(self) -> bool:
        fixed = any(getattr(self, name) for name in IN_MODEL_UNITS)
        usual = self.algorithm == "auto" and self.constants == "calibrated"
        return self._looks and usual and not fixed

    def _smallest(self, features: FeatureMap) -> FeatureMap:
        """Return the features of the plan with the fewest columns: if it is refused, so are all."""
        return features

    def _check(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> PrivacyParams:
        """Return the promise, or raise as `_choices` would."""
        if self._asks_users:
            return self._choices(problem, privacy, options)[0].privacy
        check(problem, privacy, self.algorithm, options)
        return privacy

    def _learn(
        self, features: FeatureMap, encoded: Any, targets: Any, loss: LinearModelLoss, source: BitSource,
        groups: UserGroups | None = None, weights: Floats | None = None,
    ) -> None:  # fmt: skip
        """Plan, run, and store what was released; predictions are ``middle + output_scale * z``."""
        declared = not self._relation.fixes_size
        _matrices.same_length(encoded.shape[0], len(targets), private=declared or groups is not None)
        if groups is not None:
            _matrices.same_length(len(targets), groups.n_records, "groups", private=True)
        if self._weighs:
            targets = packed(self._weighted(loss), targets, weights, self._cap)
        n, unit = (len(targets), Unit.RECORD) if groups is None else (groups.n_users, Unit.USER)
        n = self._public_count(None if declared else n)
        plan: LinearModelPlan = self._ready or able(self, encoded)._plans(features, n, loss, unit)[0]
        if self._ready is None:  # a search has paid for all its fits
            self._paid = begin(plan, type(self).__name__, _matrices.fitted_columns(self), n, source)
        domain = plan.problem.domain
        rows = expanded(self._fitting(features, plan), encoded, targets, plan.only_sums)
        with _progress.shown(type(self).__name__, self.verbose):
            result = plan.run(*rows, source, groups)
        ran = cast(LinearModelPlan, result.plan)  # a plan may have released constants of its own first
        self.ranges_ = self._found(features, ran)
        features = self._fitting(features, ran).found(*self._told)
        weights = self.output_scale * result.point.reshape(loss.n_outputs, domain.dim)
        constant = weights[:, -1] * domain.intercept if domain.intercept else np.zeros(len(weights))
        bounds, offset = self._target_range(), self.output_scale * plan.problem.loss.offset
        start = offset + (0.0 if bounds is None else bounds.middle)  # the prediction of parameters 0
        self.encoded_coef_, self.encoded_intercept_ = weights[:, : domain.n_features], start + constant
        self.coef_, self.intercept_ = features.decode(self.encoded_coef_, self.encoded_intercept_)
        self.certificate_, self.plan_ = with_sources(result.certificate, self.schema), ran
        self.status_ = result.status
        self._learned()

    def _fitting(self, features: FeatureMap, plan: LinearModelPlan) -> FeatureMap:
        return features  # the features that the plan is for

    def _learned(self) -> None:
        """Store, after a fit, whatever predictions need beyond the coefficients; by default nothing."""

    def _linear(self, X: Any) -> Floats:
        """Return the linear predictions of every record and output, (n, n_outputs)."""
        check_is_fitted(self)
        if len(pieces := _features.pieces(self.schema, X)) > 1:
            return np.concatenate([self._linear(piece) for piece in pieces])
        features, encoded = self._encoded(X, reset=False)
        if scipy.sparse.issparse(encoded):
            return Records.clipped(encoded, features.domain).predict(self.encoded_coef_) + self.encoded_intercept_
        inside = encoded if self.schema is not None else features.domain.clip(encoded)  # a schema's tables lie inside
        return inside @ self.encoded_coef_.T + self.encoded_intercept_

    @abstractmethod
    def _truth(self, X: Any, y: Any) -> Floats:
        """Return the truth that a search scores against: class positions, or numbers in units of the public range."""

    @abstractmethod
    def _losses(self, score: Score, X: Any, truth: Floats) -> Floats:
        """Return the loss of this fitted model on every record, (n,)."""

    def _fitted_as(self, plan: LinearModelPlan, X: Any, y: Any, labels: Array | None, source: BitSource) -> Self:
        """Return a copy fitted as planned, without its noise source; `labels` name each record's user."""
        model = cast(Self, clone(self))
        model.set_params(random_state=source)  # only now: a clone would copy a seeded stream
        model._ready = plan
        cast(Any, model).fit(X, y, groups=labels)
        del model._ready
        return model.set_params(random_state=None)
