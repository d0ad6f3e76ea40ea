"""Quality of a classifier on a *public* table. Nothing here is private: never call it on protected records."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from dpconvex._types import AnyArray, FloatArray


@dataclass(frozen=True)
class Metrics:
    """Measured quality.

    Parameters
    ----------
    accuracy : float
        Share of right answers.
    auc : float or None
        Area under the ROC curve; None with more than two classes, or where only one occurs.
    log_loss : float
        Mean negative log-probability of the right class, in nats.
    """

    accuracy: float
    auc: float | None
    log_loss: float

    def to_dict(self) -> dict[str, float | None]:
        """JSON-ready fields."""
        return asdict(self)


def evaluate(probabilities: FloatArray, index: AnyArray) -> Metrics:
    """Compare predicted probabilities (n, k) with the positions (n,) of the right classes."""
    from sklearn.metrics import roc_auc_score

    rows = np.arange(len(index))
    right = np.clip(probabilities[rows, index], np.finfo(np.float64).tiny, 1.0)
    binary = probabilities.shape[1] == 2 and len(np.unique(index)) == 2
    return Metrics(
        accuracy=float(np.mean(np.argmax(probabilities, axis=1) == index)),
        auc=float(roc_auc_score(index, probabilities[:, 1])) if binary else None,
        log_loss=float(-np.mean(np.log(right))),
    )
