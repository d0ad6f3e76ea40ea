"""Regressors: targets inside a public range, and predictions back in the target's unit."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self, cast, final

import numpy as np
from sklearn.base import RegressorMixin

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import LinearModelPlan
from dpconvex.algorithms.erm.heavy_tailed.registry import HEAVY_METHODS, heavy_plans
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.search.scores import Score
from dpconvex.algorithms.select import Options
from dpconvex.data import NumericTarget, Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._digest import name_model
from dpconvex.estimators._targets import TargetRange, number_array
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.losses import LinearModelLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import LinearModelProblem, default_radius
from dpconvex.randomness import BitSource, source_from

REGRESSION_RADIUS = 1 / 6
"""Comparator norm as a share of a classifier's: about a third of the target's range a block instead of two logits.

Ours. On three public tables (``benchmarks/regression.py``) shares of 1/3 to 1/10 stay within 0.012 of it in R^2 at
epsilon 1; at 0.1 smaller shares win where there is little to learn, and lose where there is much.
"""


HEAVY_REACH = 1e6
"""Widths of the range at which targets without a bound are clipped: no noise depends on it, floats do."""


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):
    """A private linear regressor. Inside, targets are clipped to a public range and mapped to [-1/2, 1/2].

    With `heavy_tailed` they are mapped likewise, but not clipped into the range.
    """

    effect: ClassVar[str] = "the prediction"
    _scores: ClassVar[tuple[str, ...]] = ("squared_error", "absolute_error", "pinball")
    _own_score: ClassVar[str] = "squared_error"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        target_bounds: tuple[float, float] | None = None,
        heavy_tailed: float | tuple[float, float] | None = None,
        feature_norm: float | None = None,
        feature_bounds: Any = None,
        domain: DataDomain | None = None,
        schema: Schema | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        constants: str = "calibrated",
        noise: str = "auto",
        l2: float | None = None,
        coefficient_norm: float | None = None,
        tilt: float = 0.0,
        adversarial_radius: float = 0.0,
        adversarial_norm: str = "l2",
        risk: str = "empirical",
        records_per_user: int = 1,
        random_state: int | BitSource | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            delta,
            feature_norm=feature_norm,
            feature_bounds=feature_bounds,
            domain=domain,
            schema=schema,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            constants=constants,
            noise=noise,
            l2=l2,
            coefficient_norm=coefficient_norm,
            tilt=tilt,
            adversarial_radius=adversarial_radius,
            adversarial_norm=adversarial_norm,
            risk=risk,
            records_per_user=records_per_user,
            random_state=random_state,
        )
        self.target_bounds = target_bounds
        self.heavy_tailed = heavy_tailed

    @abstractmethod
    def _loss(self, width: float, reach: float) -> LinearModelLoss:
        """Return the loss of targets in [-reach, reach]; `width` is that of the range, in the target's unit."""

    @final
    def plan(self, n: int, n_features: int | None = None, *, unit: str | None = None) -> tuple[LinearModelPlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Predicted errors are in units of the target's range (squared, for quadratic losses).

        Parameters
        ----------
        n : int
            Number of records, or of users.
        n_features : int, optional
            Number of columns; not needed with a schema or a domain.
        unit : {"record", "user"}, optional
            What is protected: a row, or all rows of a user. Default: users if the schema names their column.
        """
        loss = self._loss(self._range().width, self._reach())
        return self._plans(self._feature_map(n_features), n, loss, self._unit(unit))

    @final
    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Fit with the smallest predicted error at the given budget.

        Parameters
        ----------
        X : array of shape (n, n_features) or data frame
            Features. With a schema: a data frame with the schema's columns.
        y : array of shape (n,), optional
            Targets. With a schema, None takes the schema's target column of `X`.
        groups : array of shape (n,), optional
            Whose record it is. Then all records of a user are protected together, and the number of users counts as
            public; how many records each has does not. Default: the schema's user column, if it names one.
        """
        source = source_from(self.random_state)
        bounds, reach = self._range(), self._reach()
        features, encoded = self._encoded(X, reset=True)
        targets = bounds.scale(self._numbers(X, y), reach)
        loss, whose = self._loss(bounds.width, reach), self._groups(X, groups)
        self._learn(features, encoded, targets, loss, source, bounds.middle, whose)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])  # as scikit-learn's regressors
        name_model(self)
        return self

    @final
    def predict(self, X: Any) -> FloatArray:
        """Return the prediction for every record, (n,), in the target's unit, clipped to the target bounds."""
        linear, bounds = self._linear(X)[:, 0], self._range()
        return np.clip(linear, bounds.lower, bounds.upper)

    @property
    def output_scale(self) -> float:
        """Width of the target's range."""
        return self._range().width

    def _default_radius(self, domain: DataDomain, loss: LinearModelLoss) -> float:
        return REGRESSION_RADIUS * default_radius(domain)

    def plans_at(self, epsilon: float) -> tuple[LinearModelPlan, ...]:
        """Return all plans of the fitted problem at another epsilon; heavy tails: the method that ran, same moments.

        Parameters
        ----------
        epsilon : float
        """
        tails, plan = self._tails(), self.plan_
        if tails is None:
            return super().plans_at(epsilon)
        privacy = replace(plan.privacy, epsilon=epsilon)
        if tails[1] is None:
            return (cast(TwoStagePlan, plan).at(privacy),)
        return heavy_plans(plan.problem, privacy, *tails, plan.algorithm, Options(self.constants))

    def _choices(
        self, problem: LinearModelProblem, privacy: PrivacyParams, options: Options
    ) -> tuple[LinearModelPlan, ...]:
        tails = self._tails()
        if tails is None:
            if self.algorithm in HEAVY_METHODS:
                raise InvalidParameterError(
                    "algorithm", self.algorithm, "needs the order of a bounded moment", "Give heavy_tailed=2"
                )
            return super()._choices(problem, privacy, options)
        for name, value in (("tilt", problem.tilt), ("attack_radius", problem.attack_radius)):
            if value:
                raise InvalidParameterError(name, value, "must be 0 with heavy_tailed", "Leave one of the two out")
        return heavy_plans(problem, privacy, *tails, self.algorithm, options)

    def _tails(self) -> tuple[float, float | None] | None:
        """Return the order of the bounded moment and, if declared, its bound; None for targets in a range."""
        if self.heavy_tailed is None:
            return None
        given = self.heavy_tailed if isinstance(self.heavy_tailed, tuple | list) else (self.heavy_tailed, None)
        what = "must be an order k >= 2, or (k, G_k) with the bound of that moment"
        try:
            k, bound = given
            k = _validate.real("heavy_tailed", k, at_least=2.0, at_most=1e3)
            bound = None if bound is None else _validate.real("heavy_tailed", bound, above=0.0)
        except (TypeError, ValueError):
            raise InvalidParameterError("heavy_tailed", self.heavy_tailed, what, "2 suits most data") from None
        return k, bound

    def _reach(self) -> float:
        """Return where targets are clipped, in units of their range: its ends, or beyond all of them."""
        return 0.5 if self._tails() is None else HEAVY_REACH

    def _range(self) -> TargetRange:
        if self.target_bounds is not None:
            return TargetRange.checked(self.target_bounds)
        target = None if self.schema is None else self.schema.target
        if not isinstance(target, NumericTarget):
            raise InvalidParameterError(
                "target_bounds",
                None,
                "must be given as (lower, upper), or by a schema whose [target] has lower and upper",
                "Bounds must be public knowledge: targets are clipped into them",
            )
        return TargetRange.checked((target.lower, target.upper))

    def _constant(self, domain: DataDomain) -> float:
        """Return the constant feature: with heavy tails 1, for the largest feature may be far from typical."""
        given = super()._constant(domain)
        return given if self._tails() is None else min(1.0, given)

    @property
    def target_schema(self) -> Schema | None:
        """The schema, its target's range widened to where targets are clipped; None without a schema."""
        target = None if self.schema is None else self.schema.target
        if self.schema is None or self._tails() is None or not isinstance(target, NumericTarget):
            return self.schema
        width, middle = target.upper - target.lower, target.lower / 2 + target.upper / 2
        wide = replace(target, lower=middle - HEAVY_REACH * width, upper=middle + HEAVY_REACH * width)
        return replace(self.schema, target=wide)

    def _target_range(self) -> TargetRange:
        return self._range()

    def _truth(self, X: Any, y: Any) -> FloatArray:
        return self._range().scale(self._numbers(X, y))

    def _losses(self, score: Score, X: Any, truth: FloatArray) -> FloatArray:
        return score.of_residuals(truth - score.range.scale(self.predict(X)))

    def _numbers(self, X: Any, y: Any) -> AnyArray:
        """Return the targets in their own unit."""
        if self.schema is not None and y is None:
            if self.schema.target is not None and not self.schema.target.numeric:
                raise InvalidParameterError("y", None, "must be given: the schema's target is a class, not a number")
            return cast(Schema, self.target_schema).encode_target(X)
        return number_array(self._required(y))
