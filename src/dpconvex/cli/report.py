"""``report.html``: one self-contained page for people, made of the released model and public facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex.cli import figures
from dpconvex.cli._console import number
from dpconvex.cli.plan import LOSS_WORDS, loss_name, risk_name, variations
from dpconvex.cli.schema import public_range
from dpconvex.data import write_atomically

if TYPE_CHECKING:
    from dpconvex._types import FloatArray
    from dpconvex.cli.budget import Paid
    from dpconvex.data import Schema
    from dpconvex.estimators import PrivateLinearModel
    from dpconvex.privacy import PrivacyCertificate, Release

SHOWN = 30
"""Coefficients that are open to view; the others unfold."""
NOT_STATED = "not stated"

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


@dataclass(frozen=True)
class Origin:
    """What a report says of where a model comes from.

    Parameters
    ----------
    data : str
        Name of the data set.
    purpose : str
        What the model is for, in words.
    paid : Paid, optional
        What the fit took from a budget.
    date : str
        Of the fit; today by default.
    """

    data: str = ""
    purpose: str = ""
    paid: Paid | None = None
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())


def write_report(
    estimator: PrivateLinearModel, path: str | Path, origin: Origin | None = None, measured: Measured | None = None
) -> None:
    """Write the report of a fitted estimator.

    It holds what was released and public facts, so it is as private as the model. It loads nothing from elsewhere.

    Parameters
    ----------
    estimator : PrivateLinearModel
        Fitted in this process (a loaded model has no ``plan_``).
    path : str or Path
        HTML file to write, atomically.
    origin : Origin, optional
        Data set, date, purpose and budget, as far as they are to be named.
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
    page = environment.get_template("report.html.j2").render(_content(estimator, origin or Origin(), measured))
    write_atomically(path, page)


def _content(estimator: PrivateLinearModel, origin: Origin, measured: Measured | None) -> dict[str, Any]:
    from dpconvex.privacy.verify import NOT_CHECKED

    certificate, plan = estimator.certificate_, estimator.plan_
    coefficients = _coefficients(estimator)
    words, even = LOSS_WORDS[plan.problem.loss.task], even_loss(estimator)
    classes = _classes(estimator)
    sure = sum(row["sure"] for row in coefficients)
    return {
        "certificate": certificate,
        "promise": promise(certificate),
        "caution": caution(certificate),
        "facts": _facts(estimator),
        "origin": _origin(estimator, origin),
        "bounds": [] if estimator.schema is None else _bounds(estimator.schema),
        "error": plan.predicted_error,
        "hopeless": plan.outlook if plan.hopeless else "",
        "number": number,
        "releases": [_release_row(release) for release in certificate.releases],
        "coefficients": coefficients,
        "parts": [part for part in (coefficients[:SHOWN], coefficients[SHOWN:]) if part],
        "sure": sure,
        "end": coefficients[0]["end"],
        "known": coefficients[0]["reach"] is not None,
        "exact": plan.exact_deviation,
        "guessed": plan.coefficient_deviation is not None and not plan.exact_deviation,
        "direction": classes[-1] if len(classes) == 2 else "",
        "effect": estimator.effect,
        "loss": loss_name(plan) + " loss",
        "risk": risk_name(plan),
        "trivial": words.trivial if even is None else "predicting the public rates of the classes",
        "trivial_is_half": estimator.kind == "logistic" and len(classes) == 2 and plan.predicted_error.trivial > 0.69,
        "unit": words.unit,
        "scaled": estimator.schema is not None or estimator.feature_bounds is not None,
        "even_loss": even,
        "loss_figure": _loss_figure(estimator),
        "measured": measured,
        "measured_figure": measured
        and figures.accuracy_figure(measured.epsilons, measured.accuracies, measured.majority, measured.non_private),
        "explanation": certificate.explain(),
        "not_checked": NOT_CHECKED,
        "digest": certificate.to_dict()["digest"],
    }


def _origin(estimator: PrivateLinearModel, origin: Origin) -> list[tuple[str, str]]:
    """Return what the report says of data, date, purpose, sources, budget and model, whatever of it was stated."""
    schema, certificate = estimator.schema, estimator.certificate_.to_dict()
    found = [
        ("data set", origin.data or NOT_STATED),
        ("date", origin.date),
        ("purpose", origin.purpose or NOT_STATED),
        ("source of bounds and categories", (schema.source if schema is not None else "") or NOT_STATED),
    ]
    if origin.paid is not None:
        found.append(("budget", origin.paid.text()))
    model = model_digest(certificate)
    return [*found, ("digest of the model", model) if model else ("digest of the certificate", certificate["digest"])]


def model_digest(certificate: Mapping[str, Any]) -> str:
    """Return the digest of the model's coefficients and encoding, if a certificate (as a dictionary) states one."""
    return str(certificate.get("model", ""))


def _bounds(schema: Schema) -> list[tuple[str, str]]:
    """Return every column of a schema with its public range or categories."""
    return [(part.name, public_range(part.to_dict())) for part in (*schema.columns, schema.target) if part is not None]


def even_loss(estimator: PrivateLinearModel) -> float | None:
    """Return what equal probabilities for all classes lose (nats) where another constant is known to lose less."""
    rates = estimator.plan_.problem.loss.rates
    return None if rates is None else math.log(len(rates))


def promise(certificate: PrivacyCertificate) -> str:
    """Say in one sentence what the certificate promises."""
    target = certificate.target
    unit = {"record": "one row", "user": "everything that one person contributed"}[target.unit]
    change = {"replace_one": "Replacing", "add_or_remove_one": "Adding or removing"}[target.neighboring]
    extra = f", plus {target.delta:g}" if certificate.spent_delta else ""
    factor = _factor(target.epsilon)
    return f"{change} {unit} changes the probability of any result by at most a factor of {factor}{extra}."


def caution(certificate: PrivacyCertificate) -> str:
    """Say what a promise for rows does not cover; nothing where persons are protected."""
    if certificate.target.unit == "user":
        return ""
    double = _factor(2 * certificate.target.epsilon)
    return (
        "One row is protected, not one person. If one person may have several rows, their rows together are protected "
        f"less: two rows by a factor of {double} only, and so on. Then say whose row it is (--user-column, groups= in "
        "Python), and everything that a person contributed is protected together."
    )


def _factor(epsilon: float) -> str:
    """Return e^epsilon rounded up, for it is a limit: three digits, or, where it is near 1, of what it exceeds 1 by."""
    if epsilon >= 7:
        return f"e^{epsilon:g}"
    factor = math.exp(epsilon)
    counted = factor if epsilon >= 0.1 else math.expm1(epsilon)
    places = min(2 - math.floor(math.log10(counted)), 12)
    return f"{math.ceil(factor * 10**places) / 10**places:.{max(places, 0)}f}"


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
    """Return every released coefficient in encoded units: those beyond their guaranteed band first, by size.

    The others keep the order of the columns: their sizes may be noise. ``reach``: the guaranteed band, or None;
    ``typical``: the typical one, 0 where no one knows; ``at``, ``left``, ``width``: places in the chart, in percent.
    """
    plan = estimator.plan_
    outputs, width = estimator.encoded_coef_.shape
    values: FloatArray = np.column_stack([estimator.encoded_coef_, estimator.encoded_intercept_])
    reach = plan.noise_reach()
    reaches = None if reach is None else _in_units(estimator, reach)
    deviation = plan.coefficient_deviation
    typical = np.zeros_like(values) if deviation is None else 2 * _in_units(estimator, deviation)
    names = [*_feature_names(estimator, width), "intercept"]
    prefixes = [f"{label}: " for label in _classes(estimator)] if outputs > 1 else [""]
    end = 1.15 * max(float(np.abs(values).max()), 1e-300)
    rows = []
    for k, prefix in enumerate(prefixes):
        for j, name in enumerate(names):
            value, guess = float(values[k, j]), float(typical[k, j])
            known = None if reaches is None else float(reaches[k, j])
            left, right = (max(-end, min(end, edge)) for edge in (value - guess, value + guess))
            rows.append(
                {
                    "name": prefix + name,
                    "value": value,
                    "reach": known,
                    "typical": guess,
                    "sure": known is not None and abs(value) > known,
                    "end": end,
                    "at": 50 + 50 * value / end,
                    "left": 50 + 50 * left / end,
                    "width": 50 * (right - left) / end,
                }
            )
    return sorted(rows, key=lambda row: -abs(row["value"]) if row["sure"] else 1.0)  # stable


def _in_units(estimator: PrivateLinearModel, parameters: FloatArray) -> FloatArray:
    """Return lengths of the plan's parameters as those of encoded coefficients and intercepts, (outputs, width + 1)."""
    domain = estimator.plan_.problem.domain
    lengths = estimator.output_scale * parameters.reshape(len(estimator.encoded_coef_), -1)
    constant = lengths[:, -1:] * domain.intercept if domain.intercept else np.zeros((len(lengths), 1))
    return np.hstack([lengths[:, : domain.n_features], constant])


def _classes(estimator: PrivateLinearModel) -> list[str]:
    from dpconvex.estimators import PrivateLinearClassifier

    return [str(label) for label in estimator.classes_] if isinstance(estimator, PrivateLinearClassifier) else []


def _feature_names(estimator: PrivateLinearModel, width: int) -> Sequence[str]:
    if estimator.schema is not None:
        return estimator.schema.feature_names
    given = vars(estimator).get("feature_names_in_")  # set by scikit-learn for tables with text column names
    return [f"feature {k}" for k in range(width)] if given is None else [str(name) for name in given]


def _loss_figure(estimator: PrivateLinearModel) -> str:
    """Plan the same method again over a grid of epsilon, from public facts: bound and expectation."""
    plan = estimator.plan_
    first, last, count = GRID
    grid = np.geomspace(min(first, plan.privacy.epsilon / 2), max(last, 2 * plan.privacy.epsilon), count).tolist()
    bounds, expected = list[float](), list[float]()
    for epsilon in grid:
        errors = [p.predicted_error for p in estimator.plans_at(epsilon) if p.algorithm == plan.algorithm]
        best = min(errors, key=lambda error: error.rank, default=None)
        bounds.append(math.nan if best is None else best.bound)
        expected.append(math.nan if best is None or best.expected is None else best.expected)
    return figures.loss_figure(grid, bounds, expected, plan.predicted_error, plan.privacy.epsilon, even_loss(estimator))
