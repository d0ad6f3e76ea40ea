"""Regressors: targets inside a public range, and predictions back in the target's unit."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np
from sklearn.base import RegressorMixin

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import LinearModelPlan
from dpconvex.data import NumericTarget, Schema
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._targets import TargetRange, number_array
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.losses import LinearModelLoss
from dpconvex.problems import DataDomain
from dpconvex.problems.linear_model import default_radius
from dpconvex.randomness import BitSource, source_from

REGRESSION_RADIUS = 1 / 6
"""Comparator norm as a share of a classifier's: about a third of the target's range a block instead of two logits.

Ours. On three public tables (``benchmarks/regression.py``) shares of 1/3 to 1/10 stay within 0.012 of it in R^2 at
epsilon 1; at 0.1 smaller shares win where there is little to learn, and lose where there is much.
"""


class PrivateLinearRegressor(RegressorMixin, PrivateLinearModel):
    """A private linear regressor. Inside, targets are clipped to a public range and mapped to [-1/2, 1/2]."""

    effect: ClassVar[str] = "the prediction"

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        target_bounds: tuple[float, float] | None = None,
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
            random_state=random_state,
        )
        self.target_bounds = target_bounds

    @abstractmethod
    def _loss(self, width: float) -> LinearModelLoss:
        """Return the loss of targets in [-1/2, 1/2]; `width` is that of the range, in the target's unit."""

    @final
    def plan(self, n: int, n_features: int | None = None) -> tuple[LinearModelPlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Predicted errors are in units of the target's range (squared, for quadratic losses).

        Parameters
        ----------
        n : int
            Number of records.
        n_features : int, optional
            Number of columns; not needed with a schema or a domain.
        """
        return self._plans(self._feature_map(n_features), n, self._loss(self._range().width))

    @final
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit with the smallest predicted error at the given budget.

        Parameters
        ----------
        X : array of shape (n, n_features) or data frame
            Features. With a schema: a data frame with the schema's columns.
        y : array of shape (n,), optional
            Targets. With a schema, None takes the schema's target column of `X`.
        """
        source = source_from(self.random_state)
        bounds = self._range()
        features, encoded = self._encoded(X, reset=True)
        targets = bounds.scale(self._numbers(X, y))
        self._learn(features, encoded, targets, self._loss(bounds.width), source, bounds.middle)
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])  # as scikit-learn's regressors
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

    def _numbers(self, X: Any, y: Any) -> AnyArray:
        """Return the targets in their own unit."""
        if self.schema is not None and y is None:
            if self.schema.target is not None and not self.schema.target.numeric:
                raise InvalidParameterError("y", None, "must be given: the schema's target is a class, not a number")
            return self.schema.encode_target(X)
        return number_array(self._required(y))
