"""The comparison behind ``dpconvex demo``: private fits of public data, a majority vote, a fit without noise."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpconvex.cli._metrics import Metrics, evaluate
from dpconvex.cli.report import ACCENT, LEFT, MUTED, SECOND, new_axes, svg_text
from dpconvex.data import adult_schema, load_adult
from dpconvex.estimators import PrivateLogisticRegression
from dpconvex_experiments.base import Track


class Size(NamedTuple):
    """The size of a demo: how many records are fitted, on how many splits, at which epsilons."""

    rows: int
    splits: int  #: Number of random splits, with seeds 0, 1, ...; on a single one an AUC may be off by .005
    epsilons: tuple[float, ...]


TRAIN, TEST = 36_186, 9_036
FULL, QUICK = Size(TRAIN, 8, (0.1, 0.3, 1.0, 3.0)), Size(8_000, 2, (1.0, 3.0))
KEPT = 1.0  #: Epsilon of the private model that ``dpconvex demo`` writes to a file.
METRICS = {"accuracy": "accuracy", "auc": "AUC", "log_loss": "log-loss"}  #: Metrics, and their column headers.
MAJORITY, NOT_PRIVATE = "majority class", "not private"


def split(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Return `rows` training records and the 9,036 test records of Adult, by a fixed public permutation."""
    table = load_adult()
    order = np.random.default_rng(seed).permutation(len(table))
    return table.take(order[:rows]), table.take(order[TRAIN : TRAIN + TEST])


def compare(
    splits: Sequence[tuple[Any, Any]], epsilons: tuple[float, ...], track: Track
) -> tuple[list[dict[str, Any]], Any]:
    """Return the rows of the table and the private model of the first split at epsilon = `KEPT`."""
    schema = adult_schema()
    found: dict[tuple[str, float | None], list[tuple[Metrics, float]]] = {}
    kept: Any = None
    for train, test in track(splits, "Fitting"):
        right = schema.encode_target(test)
        given = train, schema.encode_target(train)
        plain = make_pipeline(FunctionTransformer(schema.encode), LogisticRegression(max_iter=1000))
        runs: list[Any] = [(MAJORITY, None, DummyClassifier(), given), (NOT_PRIVATE, None, plain, given)]
        runs += [("private", e, PrivateLogisticRegression(e, schema=schema), (train,)) for e in epsilons]
        for name, epsilon, model, records in runs:
            start = time.perf_counter()
            model.fit(*records)
            seconds = time.perf_counter() - start
            chances = model.predict_proba(test)
            metrics = evaluate(chances[:, 1] - 0.5, right, chances)
            found.setdefault((name, epsilon), []).append((metrics, seconds))
            if epsilon == KEPT and kept is None:
                kept = model
    return [_row(*key, measured) for key, measured in found.items()], kept


def _row(model: str, epsilon: float | None, runs: list[tuple[Metrics, float]]) -> dict[str, Any]:
    """Return one line of the table, JSON-ready: means over the splits with their standard errors."""
    fields: dict[str, Any] = {"model": model, "epsilon": epsilon}
    for name in METRICS:
        values = [getattr(metrics, name) for metrics, _ in runs]
        error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
        fields |= {name: float(np.mean(values)), f"{name}_standard_error": error}
    return {**fields, "splits": len(runs), "seconds": float(np.mean([seconds for _, seconds in runs]))}


def accuracy_figure(rows: list[dict[str, Any]]) -> str:
    """Measured test accuracy over epsilon, between the majority vote and the non-private model, as ``<svg>``."""
    accuracy = {(row["model"], row["epsilon"]): row["accuracy"] for row in rows}
    private = {epsilon: value for (_, epsilon), value in accuracy.items() if epsilon is not None}
    epsilons, accuracies = tuple(private), tuple(private.values())
    majority, non_private = accuracy[MAJORITY, None], accuracy[NOT_PRIVATE, None]
    figure, axes = new_axes("accuracy", 3.0)
    reach = [*accuracies, majority, non_private]
    margin = 0.12 * max(max(reach) - min(reach), 0.01)
    axes.set(xscale="log", xlim=(epsilons[0] / 1.6, epsilons[-1] * 1.6))
    axes.set(ylim=(min(reach) - margin, max(reach) + 1.6 * margin), xlabel="epsilon", ylabel="test accuracy")
    others = (non_private, "not private", SECOND), (majority, "larger class only", MUTED)
    for value, text, color in others:
        axes.axhline(value, color=color, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.annotate(f"{text} {100 * value:.1f} %", (epsilons[0] / 1.6, value), (4, 4), **LEFT, color=color)
    axes.plot(epsilons, accuracies, "o-", color=ACCENT, markersize=6)
    for epsilon, accuracy in zip(epsilons, accuracies, strict=True):
        axes.annotate(
            f"{100 * accuracy:.1f} %", (epsilon, accuracy), (0, -15), **{**LEFT, "ha": "center"}, color=ACCENT
        )
    axes.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    return svg_text(figure, "accuracy")
