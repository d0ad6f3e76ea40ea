"""How well a fitted candidate does on held-out records: a mean of losses that lie in a public range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray
from dpconvex.algorithms.recipes import stored
from dpconvex.estimators._targets import TargetRange
from dpconvex.estimators.base import PrivateLinearModel
from dpconvex.estimators.classifiers import PrivateLinearClassifier, ProbabilisticClassifier
from dpconvex.estimators.regressors import PrivateLinearRegressor
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism
from dpconvex.privacy import Sensitivity, Unit
from dpconvex.problems.data.users import UserGroups

BOUNDS = {"error_rate": 1.0, "log_loss": 2.0, "squared_error": 1.0, "absolute_error": 1.0, "pinball": 1.0}
"""Scores, and where their losses are clipped unless the caller says otherwise.

Errors of regressors are in units of the target's public range, so that 1 is the largest there can be.
"""

OWN = {"linear": "squared_error", "huber": "absolute_error", "quantile": "pinball"}
"""What ``"auto"`` means for regressors, by `PrivateLinearModel.kind`; for classifiers it is the error rate."""


@final
@stored
@dataclass(frozen=True)
class Score:
    """A held-out loss.

    Parameters
    ----------
    name : str
        One of `BOUNDS`.
    bound : float
        Losses of single records are clipped into [0, bound].
    level : float
        Of the pinball loss.
    range : TargetRange or None
        Public range of a numeric target.
    """

    name: str
    bound: float
    level: float = 0.5
    range: TargetRange | None = None

    def sensitivity(self, count: int, unit: Unit) -> Sensitivity:
        """Return how far one unit moves the mean over `count` held-out units.

        Sums of floats err by at most ``2^-46`` of ``count * bound``, on either data set.
        """
        each = {"record": "one held-out record", "user": "one held-out user, whose records are averaged first"}[unit]
        value = self.bound / count * (1 + count * 2.0**-45 + 2.0**-50)
        lemma = f"{each} moves the mean of {count:,} losses in [0, {self.bound:g}] by at most bound/n"
        return Sensitivity(value, "absolute", lemma, unit=unit)

    def mean(self, model: PrivateLinearModel, X: Any, targets: FloatArray, groups: UserGroups | None) -> float:
        """Return minus the mean loss of a fitted model, larger is better; every user counts once.

        Parameters
        ----------
        model : PrivateLinearModel
            Fitted.
        X : table of n records
        targets : array of shape (n,)
            As `targets` returns them.
        groups : UserGroups or None
            Whose record it is.
        """
        with np.errstate(all="ignore"):
            losses = np.nan_to_num(self._losses(model, X, targets), nan=self.bound, posinf=self.bound)
        losses = np.clip(losses, 0.0, self.bound)
        if groups is None:
            return -float(losses.mean())
        grouped = losses if groups.order is None else losses[groups.order]
        return -float((np.add.reduceat(grouped, groups.starts[:-1]) / groups.sizes).mean())

    def _losses(self, model: PrivateLinearModel, X: Any, targets: FloatArray) -> FloatArray:
        if isinstance(model, PrivateLinearClassifier):
            if self.name == "log_loss":
                assert isinstance(model, ProbabilisticClassifier)
                return -model.predict_log_proba(X)[np.arange(len(targets)), targets.astype(np.intp)]
            scores = model.decision_function(X)
            return (targets != (np.argmax(scores, axis=1) if scores.ndim == 2 else scores > 0)).astype(np.float64)
        assert self.range is not None
        away = targets - self.range.scale(model.predict(X))
        if self.name == "squared_error":
            return away**2
        return np.abs(away) if self.name == "absolute_error" else np.maximum(self.level * away, (self.level - 1) * away)

    def targets(self, base: PrivateLinearModel, X: Any, y: Any) -> FloatArray:
        """Return what is to be predicted, (n,): positions of classes, or numbers in units of the base's public range.

        Parameters
        ----------
        base : PrivateLinearModel
            The estimator whose parameters are searched, not a candidate: all are scored on one scale.
        X, y
            As in `fit`.
        """
        if isinstance(base, PrivateLinearClassifier):
            return base._labels(X, y)[0].astype(np.float64)
        assert isinstance(base, PrivateLinearRegressor)
        assert self.range is not None
        return self.range.scale(base._numbers(X, y))


def fit_label(k: int, count: int) -> str:
    """Return the ledger's name of the fit of candidate k, counted from 0."""
    return f"fit of candidate {k + 1} of {count}"


def plain(value: Any) -> Any:
    """Return a parameter's value as JSON has it; what JSON has not, as text."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


@final
@stored
@dataclass(frozen=True)
class Repeats:
    """Law of the number of runs, and noise of their scores.

    Parameters
    ----------
    shape, gamma : float
        Of the law.
    epsilon, mu : float or None
        Of the noise on each score: Laplace noise of that epsilon, or Gaussian noise of that mu.
    """

    shape: float
    gamma: float
    epsilon: float | None = None
    mu: float | None = None

    def noise(self, sensitivity: Sensitivity) -> LaplaceMechanism | GaussianMechanism:
        """Return the noise for scores of that sensitivity."""
        if self.mu is not None:
            return GaussianMechanism.of_mu(sensitivity, self.mu, 1)
        assert self.epsilon is not None
        return LaplaceMechanism.calibrate(sensitivity, self.epsilon, 1)


def score_for(model: PrivateLinearModel, scoring: str, bound: float | None) -> Score:
    """Return the score that the parameters of a search mean for this kind of model.

    Raises
    ------
    InvalidParameterError
    """
    classifier = isinstance(model, PrivateLinearClassifier)
    allowed = ("error_rate", "log_loss") if isinstance(model, ProbabilisticClassifier) else ("error_rate",)
    if not classifier:
        allowed = ("squared_error", "absolute_error", "pinball")
    name = _validate.choice("scoring", scoring, ("auto", *allowed))
    if name == "auto":
        name = OWN.get(model.kind, "error_rate")
    largest = BOUNDS[name] if bound is None else _validate.real("score_bound", bound, above=0.0, at_most=1e6)
    level = _validate.real("quantile", model.get_params(deep=False).get("quantile", 0.5), above=0.0, below=1.0)
    return Score(name, largest, level, model._range() if isinstance(model, PrivateLinearRegressor) else None)
