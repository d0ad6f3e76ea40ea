"""Classifiers: which labels there are, and how they become targets of a loss."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, ClassVar, Self, final

import numpy as np
from sklearn.base import ClassifierMixin

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import LinearModelPlan
from dpconvex.algorithms.search.scores import Score
from dpconvex.data import Schema
from dpconvex.estimators._digest import name_model
from dpconvex.estimators._targets import (
    as_series,
    checked_classes,
    declared_index,
    default_index,
    inferred_classes,
)
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.losses import LinearModelLoss
from dpconvex.privacy import Assumption
from dpconvex.problems import DataDomain
from dpconvex.problems.linear.problem import default_radius
from dpconvex.randomness import BitSource, source_from


class PrivateLinearClassifier(ClassifierMixin, PrivateLinearModel):
    """A private linear classifier; its classes are declared, not learnt."""

    classes_: AnyArray
    _scores: ClassVar[tuple[str, ...]] = ("error_rate",)
    _own_score: ClassVar[str] = "error_rate"

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
        self.classes = classes

    @abstractmethod
    def _loss(self, n_classes: int) -> LinearModelLoss:
        """Return the loss for two or more classes."""

    @final
    def plan(
        self, n: int, n_features: int | None = None, n_classes: int | None = None, *, unit: str | None = None
    ) -> tuple[LinearModelPlan, ...]:
        """Return all plans for data of this size, the smallest predicted error first. Sees no data.

        Parameters
        ----------
        n : int
            Number of records, or of users.
        n_features : int, optional
            Number of columns; not needed with a schema or a domain.
        n_classes : int, optional
            Number of classes; default: from ``classes`` or the schema, else 2.
        unit : {"record", "user"}, optional
            What is protected: a row, or all rows of a user. Default: users if the schema names their column.
        """
        features = self._feature_map(n_features)
        if n_classes is None:
            given = self._given_classes()
            n_classes = len(given if given is not None else self._schema_classes()) or 2
        return self._plans(features, n, self._loss(n_classes), self._unit(unit))

    @final
    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Fit with the smallest predicted error at the given budget.

        Parameters
        ----------
        X : array of shape (n, n_features) or data frame
            Features. With a schema: a data frame with the schema's columns.
        y : array of shape (n,), optional
            Labels. With a schema, None takes the schema's target column of `X`.
        groups : array of shape (n,), optional
            Whose record it is. Then all records of a user are protected together, and the number of users counts as
            public; how many records each has does not. Default: the schema's user column, if it names one.
        """
        source = source_from(self.random_state)
        features, encoded = self._encoded(X, reset=True)
        index, classes = self._labels(X, y)
        loss = self._loss(max(len(classes), 2))
        targets = 2.0 * index - 1.0 if len(classes) <= 2 else index.astype(np.float64)
        self._learn(features, encoded, targets, loss, source, groups=self._groups(X, groups))
        self.classes_ = classes
        if isinstance(self.classes, str):
            read = Assumption("which labels occur is public", "not enforced: read off y, because classes='infer'")
            assumptions = (*self.certificate_.assumptions, read)
            self.certificate_ = dataclasses.replace(self.certificate_, assumptions=assumptions)
        name_model(self)
        return self

    @final
    def decision_function(self, X: Any) -> FloatArray:
        """Return the score of the second class, (n,), or the scores of all classes, (n, n_classes)."""
        scores = self._linear(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @final
    def predict(self, X: Any) -> AnyArray:
        """Return the label with the largest score of every record, (n,)."""
        scores = self.decision_function(X)
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, len(scores))
        return self.classes_[np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0).astype(np.intp)]

    @property
    def output_scale(self) -> float:
        """1: scores are what the loss sees."""
        return 1.0

    def _default_radius(self, domain: DataDomain, loss: LinearModelLoss) -> float:
        return default_radius(domain, loss.n_outputs)

    def _given_classes(self) -> AnyArray | None:
        """Return the declared classes, or None where they follow from the schema, the dtype or from `y`."""
        if self.classes is None:
            return None
        if isinstance(self.classes, str):
            _validate.choice("classes", self.classes, ("infer",), "Or give the list of labels")
            return None
        return checked_classes(self.classes)

    def _schema_classes(self) -> tuple[str, ...]:
        if self.classes is not None or self.schema is None or self.schema.target is None:
            return ()
        return self.schema.classes

    def _labels(self, X: Any, y: Any) -> tuple[AnyArray, AnyArray]:
        """Return the class index of every record and the classes."""
        if self.schema is not None and y is None:
            return self.schema.encode_target(X), np.asarray(self.schema.classes)
        if self.schema is not None and self.schema.target is not None and self._schema_classes():
            return self.schema.target.encode(as_series(y)[0]), np.asarray(self.schema.classes)
        classes = self._given_classes()
        if classes is None and self.classes is None:
            return default_index(self._required(y))
        classes = inferred_classes(self._required(y)) if classes is None else classes
        return declared_index(self._required(y), classes), classes

    def _truth(self, X: Any, y: Any) -> FloatArray:
        return self._labels(X, y)[0].astype(np.float64)

    def _losses(self, score: Score, X: Any, truth: FloatArray) -> FloatArray:
        scores = self.decision_function(X)
        return (truth != (np.argmax(scores, axis=1) if scores.ndim == 2 else scores > 0)).astype(np.float64)


class ProbabilisticClassifier(PrivateLinearClassifier):
    """A private linear classifier that gives probabilities."""

    _scores: ClassVar[tuple[str, ...]] = ("error_rate", "log_loss")

    def _losses(self, score: Score, X: Any, truth: FloatArray) -> FloatArray:
        if score.name == "log_loss":
            return -self.predict_log_proba(X)[np.arange(len(truth)), truth.astype(np.intp)]
        return super()._losses(score, X, truth)

    @abstractmethod
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of every class, (n, n_classes), in the order of ``classes_``."""

    @abstractmethod
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of `predict_proba`."""
