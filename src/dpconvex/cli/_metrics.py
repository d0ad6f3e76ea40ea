"""Quality of a model on a *public* table. Nothing here is private: never call it on protected records."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.cli._output import number


class Measured:
    """Measured quality of a model: without privacy."""

    def to_dict(self) -> dict[str, float | bool | None]:
        """Return JSON-ready fields."""
        return {**asdict(self), "private": False}  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True)
class Metrics(Measured):
    """Measured quality of a classifier."""

    accuracy: float
    auc: float | None  #: with more than two classes, or where only one occurs, there is none
    log_loss: float | None  #: mean negative log-probability of the right class, in nats; None without probabilities

    def text(self) -> str:
        """Return the metrics as part of a sentence."""
        shown = {"accuracy": self.accuracy, "AUC": self.auc, "log-loss": self.log_loss}
        return ", ".join(f"{name} {number(value)}" for name, value in shown.items() if value is not None)


@dataclass(frozen=True)
class RegressionMetrics(Measured):
    """Measured quality of a regressor, in the target's unit, against targets clipped to their public range."""

    r2: float | None  #: None where all targets are equal
    rmse: float
    mae: float

    def text(self) -> str:
        """Return the metrics as part of a sentence."""
        r2 = "" if self.r2 is None else f"R2 {number(self.r2)}, "
        return f"{r2}root mean squared error {number(self.rmse)}, mean absolute error {number(self.mae)}"


def evaluate(probabilities: Floats, index: Array, scores: Floats | None = None) -> Metrics:
    """Compare predicted probabilities (n, k) with the positions (n,) of the right classes.

    With two classes `scores` (n,), where given, decide on labels and on the order of records: probabilities may tie.
    """
    from sklearn.metrics import roc_auc_score

    rows = np.arange(len(index))
    right = np.clip(probabilities[rows, index], np.finfo(np.float64).tiny, 1.0)
    log_loss = float(-np.mean(np.log(right)))
    if scores is not None and scores.ndim == 1:
        return replace(evaluate_scores(scores, index), log_loss=log_loss)
    binary = probabilities.shape[1] == 2 and len(np.unique(index)) == 2
    return Metrics(
        accuracy=float(np.mean(np.argmax(probabilities, axis=1) == index)),
        auc=float(roc_auc_score(index, probabilities[:, 1])) if binary else None,
        log_loss=log_loss,
    )


def evaluate_scores(scores: Floats, index: Array) -> Metrics:
    """Compare scores (n,), positive where the second class is predicted, with the classes' positions (n,)."""
    from sklearn.metrics import roc_auc_score

    both = len(np.unique(index)) == 2
    return Metrics(
        accuracy=float(np.mean((scores > 0) == (index == 1))),
        auc=float(roc_auc_score(index, scores)) if both else None,
        log_loss=None,
    )


def evaluate_regression(predictions: Floats, values: Floats) -> RegressionMetrics:
    """Compare predictions (n,) with values (n,)."""
    errors, variance = predictions - values, float(np.var(values))
    square = float(np.mean(errors**2))
    return RegressionMetrics(
        r2=None if variance == 0 else 1 - square / variance,
        rmse=float(np.sqrt(square)),
        mae=float(np.mean(np.abs(errors))),
    )
