"""Linear regressors: targets in a public range, predictions in the target's unit, and the losses."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self, cast, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, forwarded
from dpconvex.algorithms import check_relation
from dpconvex.algorithms.erm.heavy_tailed.registry import HEAVY_METHODS, Shape, constraint_set, heavy_plans
from dpconvex.algorithms.erm.heavy_tailed.surrogates import surrogate_named
from dpconvex.algorithms.erm.registry import Found
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.search.scores import Score
from dpconvex.algorithms.select import Options
from dpconvex.data import NumericTarget, Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators import _targets
from dpconvex.estimators._descriptions import REGRESSOR, final_estimator
from dpconvex.estimators._features import wide
from dpconvex.estimators._intervals import INFERENCE, WithIntervals
from dpconvex.estimators._streams import open_rows
from dpconvex.estimators._targets import number_array
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.losses import HuberLoss, LinearModelLoss, PinballLoss, PseudoHuberLoss, SmoothedPinballLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem
from dpconvex.problems.data.sources.cluster import predicted
from dpconvex.problems.linear.expected_risk import ORDINARY
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import source_from
from dpconvex.sets import ConvexSet

REGRESSION_RADIUS = 1 / 6
"""Comparator norm as a share of a classifier's: about a third of the target's range a block instead of two logits.

Ours. On three public tables (``benchmarks/regression.py``) shares of 1/3 to 1/10 stay within 0.012 of it in R^2 at
epsilon 1; at 0.1 smaller shares win where there is little to learn, and lose where there is much.
"""
HEAVY_REACH = 1e6
"""Number of range widths at which targets without a bound are clipped, for floats' sake: it does not affect noise."""
CAPS = (0.5, 0.35, 0.25, 0.18, 0.125, 0.09, 0.0625)
"""Residual caps that are tried, in units of the target's range; without a cap slopes reach the whole range."""
DEFAULT_WIDTH = 0.2  #: Default width of the pseudo-Huber loss, as a share of the target's range (our choice).
DEFAULT_SMOOTHING = 0.075
"""Length of the quadratic piece of the pinball loss as a share of the target's range (`benchmarks/consistency.py`)."""
LEAST_SMOOTHING = 1e-5
SHORTER, SHORTEST = 2_000.0, 0.0005
"""Records, times epsilon, for each feature from which on it is shorter, in proportion, and the least length
(`benchmarks/quantiles.py`). Beyond epsilon 10 too few records would lie on it for a solver."""
IN_TARGET_UNITS = ("residual_cap", "width", "smoothing", "heavy_tailed")
"""Parameters in units of the target's range: if one is given, a fit does not look at the target's declared range."""

EXAMPLE = """
>>> import numpy as np
>>> from dpconvex import {class}
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(-1, 1, size=(5000, 2))
>>> y = 20 + 5 * X[:, 0] + rng.normal(size=5000)
>>> model = {class}(epsilon=1.0, feature_bounds=(-1, 1), target_bounds=(0, 40))
>>> model.fit(X, y).score(X, y) > 0.7
True
"""
SHARED = REGRESSOR | {"example": EXAMPLE}
INFERS = SHARED | {"parameters": f"{REGRESSOR['parameters'].rstrip()}{INFERENCE}"}


def capped(reach: float, delta: float) -> tuple[LinearModelLoss, ...]:
    """Return surrogates of the squared loss; with `delta` > 0 also for methods that do not pay for curvature."""
    kinds = (True, False) if delta else (True,)
    return tuple(HuberLoss(cap, reach, of_mean=True, saturating=each) for cap in CAPS for each in kinds)


@dataclass(eq=False, repr=False)
class PrivateLinearRegressor(_targets.Regressor, PrivateLinearModel):
    """A linear regressor. Inside, targets are clipped (not if `heavy_tailed`) to a range and mapped to [-1/2, 1/2]."""

    effect: ClassVar[str] = "the prediction"
    _scores: ClassVar[tuple[str, ...]] = ("squared_error", "absolute_error", "pinball")
    _own_score: ClassVar[str] = "squared_error"
    _: KW_ONLY
    target_bounds: tuple[float, float] | None = None
    heavy_tailed: str | float | tuple[float, float] | None = None
    failure: float | None = None
    surrogate: str = "truncated"
    constraint: ConvexSet | tuple[float, float] | None = None

    @abstractmethod
    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        """Return the loss of targets in [-reach, reach]; `width` is that of the range, in the target's unit."""

    def _declared_loss(self) -> LinearModelLoss:
        if self._finds_target:
            for name in IN_TARGET_UNITS:
                if (given := getattr(self, name, None)) not in (None, 0):
                    what = "is in the unit of the target's range, which is not known before the fit"
                    raise InvalidParameterError(name, given, what, "Leave it out, or declare target_bounds")
        return self._loss(self._declared().width, self._reach())

    @final
    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        source = source_from(self.random_state)
        loss, opened, weights = self._declared_loss(), open_rows(self, X, y, groups, sample_weight, apart=True), None
        if opened is None:
            features, encoded = self._encoded(X, reset=True)
            targets, whose, weights = self._targets_of(X, y), self._groups(X, groups), self._weights(X, sample_weight)
        else:
            features, encoded, targets, whose = opened
        self._learn(features, encoded, targets, loss, source, whose, weights)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])  # as scikit-learn's regressors
        return self._named()

    def _weighted(self, loss: LinearModelLoss) -> LinearModelLoss:
        if self._weighs and self.heavy_tailed is not None:
            raise InvalidParameterError("weight_cap", self._cap, "cannot be given with heavy_tailed", "Use one")
        if self._weighs and self._finds_target:
            what = "needs a declared range of the target"
            raise InvalidParameterError("weight_cap", self._cap, what, "Give target_bounds")
        return super()._weighted(loss)

    @final
    def predict(self, X: Any) -> Floats:
        if (lazy := predicted(self.predict, X)) is not None:
            return lazy
        linear, bounds = self._linear(X)[:, 0], self._range()
        return np.clip(linear, bounds.lower, bounds.upper)

    def _default_radius(self, domain: DataDomain, loss: LinearModelLoss) -> float:
        return REGRESSION_RADIUS * default_radius(domain)

    def _explained(self, share: float, look: bool) -> float | None:
        variance = ORDINARY.explained_in_part if look else ORDINARY.explained_variance
        return None if self.heavy_tailed is not None else variance * share**2 or None

    def _of_size(self, loss: LinearModelLoss, n: int, epsilon: float, dim: int) -> LinearModelLoss:
        if not isinstance(loss, SmoothedPinballLoss) or getattr(self, "smoothing", None) is not None:
            return loss
        records = n * min(epsilon, 10.0) / dim  # for each feature; see `SHORTER`
        return replace(loss, width=max(SHORTEST, DEFAULT_SMOOTHING / max(1.0, records / SHORTER)))

    def plans_at(self, epsilon: float) -> Found:
        """Return all plans of the fitted problem at another epsilon; heavy tails: the method that ran, same moments."""
        tails, plan = self._tails(), self.plan_
        if tails is None:
            return super().plans_at(epsilon)
        privacy = replace(plan.privacy, epsilon=epsilon)
        if tails[1] is None:
            return (cast(TwoStagePlan, plan).at(privacy),)
        shape, options = self._shape(plan.problem), Options(self.constants)
        return heavy_plans(plan.problem, privacy, *tails, plan.algorithm, options, self.failure, shape)

    def _choices(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> Found:
        if (tails := self._tails()) is None:
            self._refuse_methods()
            return super()._choices(problem, privacy, options)
        for name, value in (("tilt", problem.tilt), ("attack_radius", problem.attack_radius)):
            if value:
                raise InvalidParameterError(name, value, "must be 0 with heavy_tailed", "Leave one of the two out")
        check_relation(privacy)
        if self._open(self._feature_map(problem.domain.n_features)):
            what = "is for columns without any bound, not for ranges that a fit finds"
            raise InvalidParameterError("heavy_tailed", self.heavy_tailed, what, "Leave it out, or declare them")
        return heavy_plans(problem, privacy, *tails, self.algorithm, options, self.failure, self._shape(problem))

    def _check(self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options) -> PrivacyParams:
        if self._tails() is not None:
            return self._choices(problem, privacy, options)[0].privacy
        self._refuse_methods()
        return super()._check(problem, privacy, options)

    def _refuse_methods(self) -> None:
        """Raise `InvalidParameterError` for parameters that are for heavy tails only."""
        if self.algorithm in HEAVY_METHODS:
            remedy = "Give heavy_tailed=2"
            raise InvalidParameterError("algorithm", self.algorithm, "needs the order of a bounded moment", remedy)
        for name, usual in (("failure", None), ("surrogate", "truncated"), ("constraint", None)):
            if (value := getattr(self, name)) != usual:
                remedy = "Give heavy_tailed=2, or leave it out"
                raise InvalidParameterError(name, value, "is for heavy tails only", remedy)

    def _shape(self, problem: LinearModelProblem) -> Shape | None:
        """Return the surrogate and the constraint set; None if both are the default."""
        if self.surrogate == "truncated" and self.constraint is None:
            return None
        return Shape(surrogate_named(self.surrogate).name, constraint_set(self.constraint, problem))

    def _tails(self) -> tuple[float | None, float | None] | None:
        """Return the order of the bounded moment and its bound, as far as declared; None for targets in a range."""
        if self.heavy_tailed is None:
            return None
        if self.heavy_tailed == "auto":
            return None, None
        given = self.heavy_tailed if isinstance(self.heavy_tailed, tuple | list) else (self.heavy_tailed, None)
        what = "must be 'auto', an order k >= 2, or (k, G_k) with the bound of that moment"
        try:
            k, bound = given
            k = _validate.real("heavy_tailed", k, at_least=2.0, at_most=1e3)
            bound = None if bound is None else _validate.real("heavy_tailed", bound, above=0.0)
        except (TypeError, ValueError):
            raise InvalidParameterError("heavy_tailed", self.heavy_tailed, what, "2 suits most data") from None
        return k, bound

    def _reach(self) -> float:
        """Return where targets are clipped, in units of their range: at its ends, or far beyond any target."""
        return 0.5 if self._tails() is None else HEAVY_REACH

    @property
    def _may_look(self) -> bool:
        if not super()._may_look or any(getattr(self, name, None) for name in IN_TARGET_UNITS) or self._finds_target:
            return False
        bounds = self._declared()
        return wide(bounds.lower, bounds.upper)

    def _constant(self, domain: DataDomain, unit: Unit) -> float:
        """Return the constant feature; with heavy tails it is 1, for the largest feature may be far from typical."""
        given = super()._constant(domain, unit)
        return given if self._tails() is None else min(1.0, given)

    @property
    def target_schema(self) -> Schema | None:
        if self._finds_target:
            return self.found_schema_
        target = None if self.schema is None else self.schema.target
        if self.schema is None or self._tails() is None or not isinstance(target, NumericTarget):
            return self.schema
        width, middle = target.upper - target.lower, target.lower / 2 + target.upper / 2
        wide = replace(target, lower=middle - HEAVY_REACH * width, upper=middle + HEAVY_REACH * width)
        return replace(self.schema, target=wide)

    def _truth(self, X: Any, y: Any) -> Floats:
        return self._range().scale(self._numbers(X, y))

    def _losses(self, score: Score, X: Any, truth: Floats) -> Floats:
        return score.of_residuals(truth - score.range.scale(self.predict(X)))

    def _targets_of(self, X: Any, y: Any) -> Array:
        numbers = self._numbers(X, y)
        if not self._finds_target:
            return self._declared().scale(numbers, self._reach())
        with np.errstate(all="ignore"):  # long doubles beyond float64 become infinities
            return np.array(numbers, dtype=np.float64)

    def _numbers(self, X: Any, y: Any) -> Array:
        if self.schema is not None and y is None:
            if self.schema.target is not None and not self.schema.target.numeric:
                raise InvalidParameterError("y", None, "must be given: the schema's target is a class, not a number")
            return (self.schema if self._finds_target else cast(Schema, self.target_schema)).encode_target(X)
        return number_array(self._required(y))


@final_estimator(**INFERS)
class PrivateLinearRegression(WithIntervals, PrivateLinearRegressor):
    """Least-squares regression under differential privacy, with an l2 penalty (ridge).

    Beyond the target's range the squared loss continues along its tangent, so its slope is bounded by the range and
    coefficients need no bound of their own (with `heavy_tailed` slopes are cut record by record instead). With a delta
    there is also ``algorithm="sufficient_statistics"``, which is AdaSSP with ``constants="paper"``.

    {guarantee}

    Parameters
    ----------
    residual_cap : float, optional
        Largest pull of a residual, in the target's unit, positive: residuals up to two thirds of it count in full, and
        beyond the loss tends to a line (Huber's, saturating; with `inference` Huber's). Noise falls in proportion, but
        means of skewed targets are biased towards the bulk. Default: no cap, or one between a sixteenth and a half of
        the range, by the least expected error; with `inference` half of it. The range or more: no cap.
    {parameters}
    adversarial_radius, adversarial_norm : optional
        Only radius 0 (no attack): the worst case of this loss is neither smooth nor piecewise linear.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011); Kifer, Smith and Thakurta (2012). Proofs: "Algorithms" in the docs.

    Examples
    --------
    {example}
    """

    kind: ClassVar[str] = "linear"
    _: KW_ONLY
    residual_cap: float | None = None

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        if self.residual_cap is None:
            return SquaredLoss(reach, prediction_bound=reach)
        cap = _validate.real("residual_cap", self.residual_cap, above=0.0) / width
        if self.heavy_tailed is not None:
            what = "must be left out with heavy_tailed, which cuts residuals by their moments"
            raise InvalidParameterError("residual_cap", self.residual_cap, what)
        if cap >= 2 * reach:  # no residual exceeds the cap
            return SquaredLoss(reach, prediction_bound=reach)
        return HuberLoss(max(cap, 1 / _validate.LARGEST), target_bound=reach, of_mean=True, saturating=True)

    def _surrogates(self, problem: LinearModelProblem) -> tuple[LinearModelLoss, ...]:
        if not (self.residual_cap is None and self.heavy_tailed is None) or self.algorithm == "sufficient_statistics":
            return ()
        return capped(self._reach(), self.delta)


@final_estimator(**INFERS)
class PrivateHuberRegressor(WithIntervals, PrivateLinearRegressor):
    """Robust regression under differential privacy: the pseudo-Huber loss.

    Squared for small residuals, linear for large ones. Its slope is at most `width`, so noise is smaller than for least
    squares, and its curvature costs nothing in objective perturbation.

    {guarantee}

    Parameters
    ----------
    width : float, optional
        Residual at which the loss turns linear, in the target's unit, positive. Default: a fifth of the target's range.
    {parameters}
    adversarial_radius, adversarial_norm : optional
        Only radius 0 (no attack): the worst case of this loss is neither smooth nor piecewise linear.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Awan and Slavkovic (2020). Proofs: "Objective perturbation", Theorem 2, in the docs.

    Examples
    --------
    {example}
    """

    kind: ClassVar[str] = "huber"
    _own_score: ClassVar[str] = "absolute_error"
    _: KW_ONLY
    width: float | None = None

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        share = DEFAULT_WIDTH if self.width is None else _validate.real("width", self.width, above=0.0) / width
        return PseudoHuberLoss(min(max(share, 1 / _validate.LARGEST), _validate.LARGEST), target_bound=reach)


@final_estimator(**SHARED)
class PrivateQuantileRegressor(PrivateLinearRegressor):
    """Regression of a quantile under differential privacy: the pinball loss.

    The kink of the loss is replaced by a parabola, so that objective perturbation applies; ``smoothing=0`` keeps the
    kink, by output perturbation alone. What the parabola moves predictions by, were targets spread evenly over it, is
    added to them: a public number.

    {guarantee}

    Parameters
    ----------
    quantile : float, default=0.5
        Which quantile of the target given the features, in (0, 1); 0.5 is the median.
    smoothing : float, optional
        Length of the quadratic piece that replaces the kink, in the target's unit; 0: none. Default: .075 of its range,
        divided by ``n epsilon / (2000 d)`` where that is above 1, for d features and epsilon up to 10; .0005 at least.
    {parameters}
    adversarial_radius, adversarial_norm : optional
        As in `PrivateLogisticRegression`, with ``smoothing=0`` only.

    Attributes
    ----------
    {attributes}

    `score` is R^2, as in scikit-learn; `sklearn.metrics.mean_pinball_loss` measures quantiles on public records, and
    `private_metrics` pinball loss and coverage on private ones.

    References
    ----------
    Koenker and Bassett (1978) for the loss. Proofs: "Algorithms" in the docs.

    Examples
    --------
    {example}
    """

    kind: ClassVar[str] = "quantile"
    _own_score: ClassVar[str] = "pinball"
    _: KW_ONLY
    quantile: float = 0.5
    smoothing: float | None = None
    _level = forwarded("quantile")

    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        share = DEFAULT_SMOOTHING
        if self.smoothing is not None:
            share = _validate.real("smoothing", self.smoothing, at_least=0.0) / width
        if share == 0:
            return PinballLoss(self.quantile, target_bound=reach)
        smooth = min(max(share, 1 / _validate.LARGEST), _validate.LARGEST)
        return SmoothedPinballLoss(self.quantile, smooth, target_bound=reach, saturating=True)

    def _declared_loss(self) -> LinearModelLoss:
        loss = super()._declared_loss()
        if isinstance(loss, SmoothedPinballLoss) and loss.width < LEAST_SMOOTHING:  # solvers would take hours
            least = LEAST_SMOOTHING * self._declared().width
            what = f"must be 0, or at least {LEAST_SMOOTHING:g} of the target's range, {least:g}"
            raise InvalidParameterError("smoothing", self.smoothing, what, "Its unit is that of the target")
        return loss
