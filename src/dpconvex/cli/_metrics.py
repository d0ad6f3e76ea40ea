"""Quality of a model on a *public* table. Nothing here is private: never call it on protected records."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.cli._output import number


class Quality:
    """Measured quality of a model: without privacy."""

    def to_dict(self) -> dict[str, float | bool | None]:
        """Return JSON-ready fields."""
        return {**asdict(self), "private": False}  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Metrics(Quality):
    """Measured quality of a classifier."""

    accuracy: float
    auc: float | None  #: None with more than two classes, or where only one class occurs
    log_loss: float | None  #: mean negative log-probability of the right class, in nats; None without probabilities

    def text(self) -> str:
        """Return the metrics as part of a sentence."""
        shown = {"accuracy": self.accuracy, "AUC": self.auc, "log-loss": self.log_loss}
        return ", ".join(f"{name} {number(value)}" for name, value in shown.items() if value is not None)


@dataclass(frozen=True)
class RegressionMetrics(Quality):
    """Measured quality of a regressor, in the target's unit, against targets clipped to their public range."""

    r2: float | None  #: None where all targets are equal
    rmse: float
    mae: float
    pinball: float | None = None  #: mean pinball loss, for quantile models only
    coverage: float | None = None  #: share of targets that are at most the prediction, for quantile models only
    clipped: tuple[float, float] | None = None  #: the public range of targets

    def text(self) -> str:
        """Return the metrics as part of a sentence."""
        shown: dict[str, float | None] = {"pinball loss": self.pinball, "coverage": self.coverage}
        if self.pinball is None:
            shown |= {"R2": self.r2, "root mean squared error": self.rmse}
        shown["mean absolute error"] = self.mae
        told = ", ".join(f"{name} {number(value)}" for name, value in shown.items() if value is not None)
        return told if self.clipped is None else "{} (of targets clipped to {:g} to {:g})".format(told, *self.clipped)


def evaluate(scores: Floats, index: Array, probabilities: Floats | None = None) -> Metrics:
    """Compare scores with the positions (n,) of the right classes, and their probabilities (n, k) where there are any.

    Scores are those of the second of two classes (n,), positive where it is predicted, or those of all classes (n, k).
    """
    from sklearn.metrics import roc_auc_score

    predicted = scores.argmax(axis=1) if scores.ndim == 2 else scores > 0
    both = scores.ndim == 1 and len(np.unique(index)) == 2
    auc, log_loss = float(roc_auc_score(index, scores)) if both else None, None
    if probabilities is not None:
        right = probabilities[np.arange(len(index)), index]
        log_loss = float(-np.mean(np.log(np.clip(right, np.finfo(np.float64).tiny, 1.0))))
    return Metrics(float(np.mean(predicted == index)), auc, log_loss)


def evaluate_regression(predictions: Floats, values: Floats, level: float | None = None) -> RegressionMetrics:
    """Compare predictions (n,), of a quantile of that level if there is one, with values (n,)."""
    from sklearn.metrics import mean_pinball_loss

    errors, variance = predictions - values, float(np.var(values))
    square = float(np.mean(errors**2))
    r2 = None if variance == 0 else 1 - square / variance
    found = RegressionMetrics(r2=r2, rmse=float(np.sqrt(square)), mae=float(np.mean(np.abs(errors))))
    if level is None:
        return found
    pinball = float(mean_pinball_loss(values, predictions, alpha=level))
    return replace(found, pinball=pinball, coverage=float(np.mean(errors >= 0)))
