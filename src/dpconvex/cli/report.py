"""``report.html``: one self-contained page for people, made of the released model and public facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex.cli import figures
from dpconvex.cli._console import number
from dpconvex.cli.plan import LOSS_WORDS, loss_name, risk_name, variations
from dpconvex.data import write_atomically

if TYPE_CHECKING:
    from dpconvex._types import FloatArray
    from dpconvex.estimators import PrivateLinearModel
    from dpconvex.privacy import PrivacyCertificate, Release

SHOWN = 25
"""Coefficients in the figure; the table below it lists all."""

GRID = (0.05, 10.0, 9)
"""First and last epsilon of the figure of planned losses, and how many; widened where the model's lies outside."""


@dataclass(frozen=True)
class Measured:
    """Accuracies measured on *public* data, for the report of a demonstration.

    Parameters
    ----------
    epsilons, accuracies : tuple of float
        One accuracy an epsilon, epsilon increasing.
    majority, non_private : float
        Accuracy of the larger class alone, and of a fit without privacy.
    note : str
        Which public data.
    """

    epsilons: tuple[float, ...]
    accuracies: tuple[float, ...]
    majority: float
    non_private: float
    note: str


def write_report(estimator: PrivateLinearModel, path: str | Path, measured: Measured | None = None) -> None:
    """Write the report of a fitted estimator.

    It holds what was released and public facts, so it is as private as the model. It loads nothing from elsewhere.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Fitted in this process (a loaded model has no ``plan_``).
    path : str or Path
        HTML file to write, atomically.
    measured : Measured, optional
        Accuracies on public data.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the estimator has not been fitted.
    InvalidParameterError
        If the file cannot be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator, "plan_")
    environment = Environment(
        loader=PackageLoader("dpconvex.cli"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("report.html.j2").render(_content(estimator, measured))
    write_atomically(path, page)


def _content(estimator: PrivateLinearModel, measured: Measured | None) -> dict[str, Any]:
    from dpconvex.privacy.verify import NOT_CHECKED

    certificate, plan = estimator.certificate_, estimator.plan_
    coefficients = _coefficients(estimator)
    words = LOSS_WORDS[plan.problem.loss.task]
    classes = _classes(estimator)
    return {
        "certificate": certificate,
        "promise": promise(certificate),
        "facts": _facts(estimator),
        "error": plan.predicted_error,
        "number": number,
        "releases": [_release_row(release) for release in certificate.releases],
        "coefficients": coefficients,
        "direction": classes[-1] if len(classes) == 2 else "",
        "effect": estimator.effect,
        "loss": loss_name(plan) + " loss",
        "risk": risk_name(plan),
        "trivial": words.trivial,
        "unit": words.unit,
        "scaled": estimator.schema is not None or estimator.feature_bounds is not None,
        "shown": min(SHOWN, len(coefficients)),
        "coefficient_figure": _coefficient_figure(coefficients),
        "loss_figure": _loss_figure(estimator),
        "measured": measured,
        "measured_figure": measured
        and figures.accuracy_figure(measured.epsilons, measured.accuracies, measured.majority, measured.non_private),
        "explanation": certificate.explain(),
        "not_checked": NOT_CHECKED,
        "digest": certificate.to_dict()["digest"],
    }


def promise(certificate: PrivacyCertificate) -> str:
    """Say in one sentence what the certificate promises."""
    target = certificate.target
    unit = {"record": "any one row", "user": "all rows of any one person"}[target.unit]
    change = {"replace_one": "Replacing", "add_or_remove_one": "Adding or removing"}[target.neighboring]
    factor = number(math.exp(target.epsilon), 3) if target.epsilon < 7 else f"e^{target.epsilon:g}"
    extra = f", plus {target.delta:g}" if certificate.spent_delta else ""
    return f"{change} {unit} of the data changes the probability of any result by at most a factor of {factor}{extra}."


def _facts(estimator: PrivateLinearModel) -> list[tuple[str, str]]:
    certificate, plan = estimator.certificate_, estimator.plan_
    return [
        ("epsilon spent", number(certificate.spent_epsilon, 4)),
        ("delta spent", number(certificate.spent_delta, 2)),
        (f"{plan.privacy.unit}s", f"{plan.problem.n:,}"),
        ("parameters", f"{plan.problem.dim:,}"),
        ("method", f"{plan.algorithm.replace('_', ' ')}, {plan.constants}"),
        ("noise", plan.noise_name.replace("_", " ")),
        *variations(plan),
    ]


def _release_row(release: Release) -> dict[str, str]:
    pure = release.event.pure_epsilon
    return {
        "label": release.label + (f", {release.times} times" if release.times > 1 else ""),
        "mechanism": release.mechanism,
        "sensitivity": f"{number(release.sensitivity.value, 4)} ({release.sensitivity.norm})",
        "lemma": release.sensitivity.lemma,
        "cost": "in the sum below" if pure is None else number(float(pure * release.times), 4),
    }


def _coefficients(estimator: PrivateLinearModel) -> list[dict[str, Any]]:
    """Return every released coefficient in encoded units, with the planned noise, the largest first."""
    plan = estimator.plan_
    outputs, width = estimator.encoded_coef_.shape
    deviation = estimator.output_scale * plan.coefficient_deviation.reshape(outputs, -1)
    names = [*_feature_names(estimator, width), "intercept"]
    values: FloatArray = np.column_stack([estimator.encoded_coef_, estimator.encoded_intercept_])
    constant = plan.problem.domain.intercept
    intercept = deviation[:, -1:] * constant if constant else np.zeros((outputs, 1))
    deviation = np.hstack([deviation[:, :width], intercept])
    prefixes = [f"{label}: " for label in _classes(estimator)] if outputs > 1 else [""]
    rows = [
        {"name": prefix + name, "value": float(values[k, j]), "deviation": float(deviation[k, j])}
        for k, prefix in enumerate(prefixes)
        for j, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: -abs(row["value"]))


def _classes(estimator: PrivateLinearModel) -> list[str]:
    from dpconvex.estimators import PrivateLinearClassifier

    return [str(label) for label in estimator.classes_] if isinstance(estimator, PrivateLinearClassifier) else []


def _feature_names(estimator: PrivateLinearModel, width: int) -> Sequence[str]:
    if estimator.schema is not None:
        return estimator.schema.feature_names
    given = vars(estimator).get("feature_names_in_")  # set by scikit-learn for tables with text column names
    return [f"feature {k}" for k in range(width)] if given is None else [str(name) for name in given]


def _coefficient_figure(coefficients: Sequence[dict[str, Any]]) -> str:
    top = coefficients[:SHOWN]
    names, values, deviations = ([row[key] for row in top] for key in ("name", "value", "deviation"))
    return figures.coefficients_figure(names, values, deviations)


def _loss_figure(estimator: PrivateLinearModel) -> str:
    """Plan again over a grid of epsilon, every algorithm at its best, from public facts: expected, or bounds."""
    from dpconvex.algorithms.heavy_selection import METHODS
    from dpconvex.algorithms.selection import ALGORITHMS

    plan = estimator.plan_
    first, last, count = GRID
    grid = np.geomspace(min(first, plan.privacy.epsilon / 2), max(last, 2 * plan.privacy.epsilon), count).tolist()
    bounds: dict[str, list[float]] = {name: [] for name in (*ALGORITHMS, *METHODS)}
    for epsilon in grid:
        found = estimator.plans_at(epsilon)
        for name, line in bounds.items():
            line.append(min((p.predicted_error.rank for p in found if p.algorithm == name), default=math.nan))
    chosen = (plan.privacy.epsilon, plan.predicted_error.rank)
    return figures.loss_figure(grid, bounds, plan.predicted_error.trivial, chosen)
