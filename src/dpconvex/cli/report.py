"""``report.html``: one self-contained page for people, made of the released model and public facts."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import dpconvex
from dpconvex import _validate
from dpconvex.cli._output import number, write_page
from dpconvex.cli.plan import loss_name, loss_words, risk_name, variations
from dpconvex.cli.schema import public_range
from dpconvex.cli.shapes import shapes_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpconvex._types import Floats
    from dpconvex.algorithms import PredictedError
    from dpconvex.cli.budget import Paid
    from dpconvex.estimators import PrivateLinearModel
    from dpconvex.estimators.sparse import PrivateSparseModel
    from dpconvex.privacy import Release
    from dpconvex.privacy.budget import Account

SHOWN = 30  #: Number of coefficients that are visible at first; readers can unfold the others.
NOT_STATED = "not stated"
ROWS_OF = (
    "Then say whose row it is (--user-column, groups= in Python), and all rows of a person are protected together."
)
LISTED = 300  #: Number of coefficients of a sparse model that its page lists
GRID = (0.05, 10.0, 9)
"""First and last epsilon, and number of epsilons, in the figure of planned losses; widened to the model's epsilon."""


class Measured(NamedTuple):
    """Accuracies measured on *public* data, for the report of a demonstration."""

    figure: str  #: the picture, an ``<svg>`` element
    note: str  #: the name of the public data


@dataclass(frozen=True)
class Origin:
    """The origin of a model, for a report: data set, purpose in words, payment and date of the fit."""

    data: str = ""  #: The data set, in words
    purpose: str = ""
    paid: Paid | None = None  #: The payment from a budget
    evaluated: dpconvex.PrivateMetrics | None = None  #: Private metrics on records that were held out
    date: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())


def write_report(
    estimator: PrivateLinearModel | PrivateSparseModel, path: str | Path, origin: Origin | None = None,
    measured: Measured | None = None,
) -> None:  # fmt: skip
    """Write the report of an estimator fitted in this process: released numbers and public facts alone."""
    from sklearn.utils.validation import check_is_fitted

    from dpconvex.estimators.sparse import PrivateSparseModel

    check_is_fitted(estimator, "plan_")
    origin = origin or Origin()
    if isinstance(estimator, PrivateSparseModel):
        return write_page(path, "sparse.html.j2", **_sparse_content(estimator, origin))
    write_page(path, "report.html.j2", **_content(estimator, origin, measured))


def _sparse_content(estimator: PrivateSparseModel, origin: Origin) -> dict[str, Any]:
    """Return what the page of a sparse model says: the largest coefficients, and weights of groups if it has any."""
    plan: Any = estimator.plan_
    remedy, found = "Then make a table with one row a person.", vars(estimator)
    shared = _released(estimator, origin, estimator.encoded_coef_.size + estimator.fit_intercept, remedy)
    *rows, intercept = _rows(estimator, None, None)
    listed = [row for row in sorted(rows, key=lambda row: -abs(row["value"]))[:LISTED] if row["value"]]
    drawn = [*listed, *[intercept] * bool(intercept["value"])]
    drawn = [row | {"left": min(50.0, row["at"]), "width": abs(row["at"] - 50)} for row in drawn]  # bars from 0
    groups = [found[name] for name in ("groups_", "group_shares_", "group_weights_") if name in found]
    own = {"plan": plan, "sparsity": estimator.sparsity_, "columns": estimator.encoded_coef_.size}
    own |= {"listed": listed, "parts": _parts(drawn), "end": intercept["end"], "bar": "amount"}
    return {**shared, **own, "unit": loss_words(plan)[1], "groups": list(zip(*groups, strict=True))}


def _released(
    estimator: PrivateLinearModel | PrivateSparseModel, origin: Origin, parameters: int, remedy: str
) -> dict[str, Any]:
    """Return what the page of every model says; `remedy` is for records of which one person has several."""
    from dpconvex.privacy.verify import NOT_CHECKED

    plan: Any = estimator.plan_
    certificate, classes = estimator.certificate_, _classes(estimator)
    return {
        "certificate": certificate, "promise": promise(certificate), "caution": caution(certificate, remedy),
        "facts": _facts(certificate, plan, parameters), "origin": _origin(estimator, origin), "number": number,
        "bounds": _bounds(estimator.schema, estimator.found_schema_), "not_checked": NOT_CHECKED,
        "loss": loss_name(plan) + " loss",
        "error": plan.predicted_error, "hopeless": plan.outlook if plan.hopeless else "",
        "releases": [_release_row(release) for release in certificate.releases],
        "direction": classes[-1] if len(classes) == 2 else "", "effect": estimator.effect,
        "scaled": estimator.schema is not None or estimator.feature_bounds is not None,
    }  # fmt: skip


def _content(estimator: PrivateLinearModel, origin: Origin, measured: Measured | None) -> dict[str, Any]:
    from dpconvex.estimators._intervals import summary_of

    plan = estimator.plan_
    figure = shapes_figure(estimator, _style("shapes"), (ACCENT, MUTED, WASH, RULE))
    coefficients = _coefficients(estimator) if figure is None else [{"end": 0.0, "reach": None, "sure": False}]
    (zero, scaled), even = loss_words(plan), even_loss(estimator)
    half = estimator.kind == "logistic" and len(_classes(estimator)) == 2 and plan.predicted_error.trivial > 0.69
    return _released(estimator, origin, plan.problem.dim, ROWS_OF) | {
        "shapes_figure": "" if figure is None else svg_text(figure, "shapes"),
        "coefficients": coefficients, "sure": sum(row["sure"] for row in coefficients), "parts": _parts(coefficients),
        "end": coefficients[0]["end"], "known": coefficients[0]["reach"] is not None, "exact": plan.exact_deviation,
        "guessed": plan.coefficient_deviation is not None and not plan.exact_deviation,
        "risk": risk_name(plan), "unit": scaled, "trivial_is_half": half,
        "trivial": zero if even is None else "predicting the public rates of the classes",
        "even_loss": even, "loss_figure": _loss_figure(estimator),
        "measured": measured, "intervals": summary_of(estimator),
        "evaluated": None if origin.evaluated is None else evaluation_content(origin.evaluated),
    }  # fmt: skip


def _parts(rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Return the rows that are visible at first, and those that readers can unfold."""
    return [part for part in (rows[:SHOWN], rows[SHOWN:]) if part]


def _origin(estimator: PrivateLinearModel | PrivateSparseModel, origin: Origin) -> list[tuple[str, str]]:
    """Return rows about data, date, purpose, sources, budget and model, for each of these that was stated."""
    schema, certificate = estimator.schema, estimator.certificate_.to_dict()
    found = [
        ("data set", origin.data or NOT_STATED),
        ("date", origin.date),
        ("purpose", origin.purpose or NOT_STATED),
        ("source of bounds and categories", (schema.source if schema is not None else "") or NOT_STATED),
    ]
    if origin.paid is not None:
        found.append(("budget", origin.paid.text()))
    model = certificate.get("model", "")  # digest of coefficients and encoding, if stated
    return [*found, ("digest of the model", model) if model else ("digest of the certificate", certificate["digest"])]


def _bounds(declared: dpconvex.Schema | None, found: dpconvex.Schema | None) -> list[tuple[str, str]]:
    """Return each column's range or categories, what was kept of them, and their source where it is stated."""
    if declared is None or found is None:
        return []
    rows = []
    for part, after in zip(declared.parts, found.parts, strict=True):
        told, kept = (public_range(each.to_dict()) for each in (part, after))
        narrower = f"{told}, of which {kept} was kept" if part.to_dict().keys() == after.to_dict().keys() else kept
        rows.append((part.name, (told if told == kept else narrower) + f" (source: {part.source})" * bool(part.source)))
    return rows


def even_loss(estimator: PrivateLinearModel) -> float | None:
    """Return the loss (nats) of equal probabilities for all classes; None unless a better constant is known."""
    return None if (rates := estimator.plan_.problem.loss.rates) is None else math.log(len(rates))


def promise(certificate: dpconvex.PrivacyCertificate) -> str:
    """Say in one sentence what the certificate promises."""
    target = certificate.target
    unit = {"record": "one row", "user": "everything that one person contributed"}[target.unit]
    change = {"replace_one": "Replacing", "add_or_remove_one": "Adding or removing"}[target.neighboring]
    extra = f", plus {target.delta:g}" if certificate.spent_delta else ""
    factor = _factor(target.epsilon)
    return f"{change} {unit} changes the probability of any result by at most a factor of {factor}{extra}."


def caution(certificate: dpconvex.PrivacyCertificate, remedy: str) -> str:
    """Say what a promise for rows does not cover, and a remedy; nothing where persons are protected."""
    if certificate.target.unit == "user":
        return ""
    double = _factor(2 * certificate.target.epsilon)
    return (
        "One row is protected, not one person. If one person may have several rows, their rows together are protected "
        f"less: two rows by a factor of {double} only, and so on. {remedy}"
    )


def _factor(epsilon: float) -> str:
    """Return e^epsilon, a limit, rounded up to three digits; if it is near 1, to three digits of its excess over 1."""
    if epsilon >= 7:
        return f"e^{epsilon:g}"
    factor = math.exp(epsilon)
    counted = factor if epsilon >= 0.1 else math.expm1(epsilon)
    places = min(2 - math.floor(math.log10(counted)), 12)
    return f"{math.ceil(factor * 10**places) / 10**places:.{max(places, 0)}f}"


def _facts(certificate: dpconvex.PrivacyCertificate, plan: Any, parameters: int) -> list[tuple[str, str]]:
    spent = {"epsilon spent": number(certificate.spent_epsilon, 4), "delta spent": number(certificate.spent_delta, 2)}
    sizes = {f"{plan.privacy.unit}s": f"{plan.problem.n:,}", "parameters": f"{parameters:,}"}
    method = f"{plan.algorithm.replace('_', ' ')}, {plan.constants}"
    ways = {"method": method, "noise": plan.noise_name.replace("_", " ")}
    return [*(spent | sizes | ways).items(), *variations(plan)]


def _release_row(release: Release) -> dict[str, str]:
    pure, norm = release.event.pure_epsilon, release.sensitivity.norm
    return {
        "label": release.label + (f", {release.times} times" if release.times > 1 else ""),
        "mechanism": release.mechanism,
        "sensitivity": "-" if norm == "none" else f"{number(release.sensitivity.value, 4)} ({norm})",
        "lemma": release.sensitivity.lemma,
        "cost": "in the sum below" if pure is None else number(float(pure * release.times), 4),
    }


def _coefficients(estimator: PrivateLinearModel) -> list[dict[str, Any]]:
    """Return every released coefficient in encoded units: those beyond their guaranteed band first, by size."""
    rows = _rows(estimator, estimator.plan_.noise_reach(), estimator.plan_.coefficient_deviation)
    return sorted(rows, key=lambda row: -abs(row["value"]) if row["sure"] else 1.0)  # stable: sizes may be noise


def _rows(
    estimator: PrivateLinearModel | PrivateSparseModel, reach: Floats | None, deviation: Floats | None
) -> list[dict[str, Any]]:
    """Return released coefficients in encoded units, with what is known of their noise in the plan's parameters."""
    # `reach`: the guaranteed band; `typical`: 0 where it is unknown.
    outputs, width = estimator.encoded_coef_.shape
    values: Floats = np.column_stack([estimator.encoded_coef_, estimator.encoded_intercept_])
    reaches = None if reach is None else _in_units(estimator, reach)
    typical = np.zeros_like(values) if deviation is None else 2 * _in_units(estimator, deviation)
    given = vars(estimator).get("feature_names_in_", [f"feature {k}" for k in range(width)])  # of tables with names
    names = [*map(str, given if estimator.schema is None else estimator.schema.feature_names), "intercept"]
    prefixes = [f"{label}: " for label in _classes(estimator)] if outputs > 1 else [""]
    end = 1.15 * max(float(np.abs(values).max()), 1e-300)
    rows = []
    for k, prefix in enumerate(prefixes):
        for j, name in enumerate(names):
            value, guess = float(values[k, j]), float(typical[k, j])
            known = None if reaches is None else float(reaches[k, j])
            left, right = (max(-end, min(end, edge)) for edge in (value - guess, value + guess))
            row = {"name": prefix + name, "value": value, "reach": known, "typical": guess, "end": end}
            row["sure"] = known is not None and abs(value) > known
            place = {"at": 50 + 50 * value / end, "left": 50 + 50 * left / end, "width": 50 * (right - left) / end}
            rows.append(row | place)
    return rows


def _in_units(estimator: Any, parameters: Floats) -> Floats:
    """Convert lengths of the plan's parameters to encoded coefficients and intercepts, (outputs, width + 1)."""
    domain = estimator.plan_.problem.domain
    lengths = estimator.output_scale * parameters.reshape(len(estimator.encoded_coef_), -1)
    constant = lengths[:, -1:] * domain.intercept if domain.intercept else np.zeros((len(lengths), 1))
    return np.hstack([lengths[:, : domain.n_features], constant])


def _classes(estimator: Any) -> list[str]:
    return [str(label) for label in getattr(estimator, "classes_", ())]


def _loss_figure(estimator: PrivateLinearModel) -> str:
    """Draw bound and expectation of the loss, planned again from public facts over a grid of epsilon."""
    plan = estimator.plan_
    first, last, count = GRID
    grid = np.geomspace(min(first, plan.privacy.epsilon / 2), max(last, 2 * plan.privacy.epsilon), count).tolist()
    bounds, expected = list[float](), list[float]()
    for epsilon in grid:
        errors = [p.predicted_error for p in estimator.plans_at(epsilon) if p.algorithm == plan.algorithm]
        best = min(errors, key=lambda error: error.rank, default=None)
        bounds.append(math.nan if best is None else best.bound)
        expected.append(math.nan if best is None or best.expected is None else best.expected)
    return loss_figure(grid, bounds, expected, plan.predicted_error, plan.privacy.epsilon, even_loss(estimator))


# Figures, as inline SVG whose colors are the page's CSS variables (light and dark alike).

INK, MUTED, RULE, ACCENT, SECOND, WASH = "#010101", "#020202", "#030303", "#040404", "#050505", "#060606"
_VARIABLES = {INK: "ink", MUTED: "muted", RULE: "rule", ACCENT: "accent", SECOND: "second", WASH: "wash"}
"""Stand-in colors that matplotlib draws with, and the page's variables that replace them."""
_STYLE = {
    "font.family": "sans-serif", "font.size": 9.5, "svg.fonttype": "none", "text.color": INK,
    "axes.edgecolor": RULE, "axes.labelcolor": MUTED, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.axisbelow": True, "grid.color": RULE, "grid.linewidth": 0.6,
    "xtick.color": RULE, "ytick.color": RULE, "xtick.labelcolor": MUTED, "ytick.labelcolor": MUTED,
    "lines.linewidth": 1.8, "lines.solid_capstyle": "round",
}  # fmt: skip
TRIVIAL_DASH, EVEN_DASH, EXPECTED_DASH = (0, (4, 3)), (0, (1, 2)), (0, (6, 2))


def loss_figure(
    epsilons: Sequence[float], bounds: Sequence[float], expected: Sequence[float],
    error: PredictedError, epsilon: float, even_loss: float | None = None,
) -> str:  # fmt: skip
    """Draw a method's excess loss over epsilon: its bound and its expectation on typical data, with yardsticks."""
    from matplotlib.ticker import LogLocator

    figure, axes = new_axes("loss", 3.3)
    trivial, chosen = error.trivial, [value for value in (error.bound, error.expected) if value is not None]
    finite = [value for value in (*bounds, *expected, *chosen) if math.isfinite(value) and value > 0]
    low = min([trivial, even_loss or trivial, *finite]) / 2.2
    high = max([6 * trivial, min(60 * trivial, max([trivial, *finite])), *(1.5 * v for v in chosen if v in finite)])
    axes.set(xscale="log", yscale="log", xlim=(epsilons[0], epsilons[-1]), ylim=(low, high))
    axes.axhspan(trivial, high, color=WASH, linewidth=0)
    levels = [trivial] if even_loss is None else [trivial, even_loss]
    for level, dash in zip(levels, (TRIVIAL_DASH, EVEN_DASH), strict=False):
        axes.axhline(level, color=MUTED, linewidth=1.2, linestyle=dash)
    room = 0.12 * math.log(high / low)  # height of a curve's name, and its distance from the curve
    # The curves fall, so there is room above right of the upper curve and below left of the lower curve.
    curves = (
        ("bound" if error.proved else "estimate", bounds, error.bound, ACCENT, "-", (6, 5), LEFT, 1),
        ("expected", expected, error.expected, SECOND, EXPECTED_DASH, (-6, -12), RIGHT, -1),
    )
    for name, line, own, color, dash, place, side, way in curves:
        if own is None:
            continue
        axes.plot(epsilons, line, color=color, linewidth=2, linestyle=dash)
        visible = [k for k, value in enumerate(line) if low < value < high][::way][1:]
        free = [k for k in visible if not any(0 < way * math.log(level / line[k]) < room for level in levels)]
        for k in (free or visible)[:1]:
            axes.annotate(name, (epsilons[k], line[k]), place, **side, color=color)
        if math.isfinite(own):
            axes.plot(epsilon, own, "o", markersize=8, markerfacecolor=color, markeredgecolor=INK, zorder=5)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if epsilons[-1] / epsilons[0] < 1e4 else (1,), numticks=99))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.minorticks_off()
    axes.set(xlabel="epsilon", ylabel="excess loss")
    return svg_text(figure, "loss")


def budget_figure(account: Account) -> str:
    """Draw the epsilon that was left, in the period of the payment, after each of the newest payments."""
    shown = range(max(0, len(account.spent) - 60), len(account.spent))
    from matplotlib.ticker import MaxNLocator

    total = account.total.epsilon
    parts = [replace(account, spent=account.spent[: k + 1]) for k in shown]
    current = [account.period if part.spent[-1].period is None else part.spent[-1].period for part in parts]
    left = [float(replace(part, period=each).left[0]) for part, each in zip(parts, current, strict=True)]
    figure, axes = new_axes("budget", 3.0)
    axes.bar([k + 1 for k in shown], left, color=ACCENT, width=0.6)
    axes.axhline(total, color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.annotate(f"total {total:g}", (shown[0] + 0.5, total), (4, 4), **LEFT, color=MUTED)
    axes.set(xlim=(shown[0] + 0.4, shown[-1] + 1.6), ylim=(0, 1.15 * total))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.set(xlabel="line of the budget", ylabel="epsilon left")
    return svg_text(figure, "budget")


LEFT: dict[str, Any] = {"textcoords": "offset points", "ha": "left"}
RIGHT: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}


def _style(salt: str) -> Any:
    """Return matplotlib settings; `salt` makes element names differ between the figures of a page."""
    return {**_STYLE, "svg.hashsalt": salt}


def evaluation_content(found: dpconvex.PrivateMetrics) -> dict[str, Any]:
    """Return what a page shows of an evaluation: metrics with intervals, ROC and calibration, all released."""
    figure, (roc, bins) = new_axes("evaluation", 2.9, 2)
    for axes, title in ((roc, "ROC"), (bins, "calibration")):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=TRIVIAL_DASH)
        axes.set(title=title, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    roc.plot(*found.roc.T, "o-", color=ACCENT, markersize=4)
    roc.set(xlabel="false positive rate", ylabel="true positive rate")
    mean, right, low, high = found.calibration[:, :4].T
    bins.vlines(mean, low, high, color=SECOND, linewidth=5, alpha=0.5)
    bins.plot(mean, right, "o", color=ACCENT, markersize=4)
    bins.set(xlabel="predicted probability", ylabel="share that was right")
    drawn = svg_text(figure, "evaluation") if len(found.roc) or len(found.calibration) else ""
    rows = [(name, each) for name, each in found.items()]
    rows += [(f"{name}, {label}", each) for label, part in found.groups.items() for name, each in part.items()]
    privacy, unit = found.plan_.privacy, f"{found.plan_.privacy.unit}s"
    return {"rows": rows, "figure": drawn, "n": found.plan_.n, "unit": unit, "found": found, "epsilon": privacy.epsilon}


def new_axes(salt: str, height: float, count: int = 1) -> tuple[Figure, Any]:
    """Return an empty figure of the page's width and its axes, or several beside each other."""
    _validate.installed("matplotlib")
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_style(salt)):
        figure = Figure(figsize=(5.4, height), layout="constrained")  # inches; the page scales it to its column
        return figure, figure.subplots(1, count)


def svg_text(figure: Figure, salt: str) -> str:
    """Return the figure as an ``<svg>`` element with the page's colors; same input, same text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(_style(salt)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's fonts are used, not this one
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for stand_in, variable in _VARIABLES.items():
        text = text.replace(stand_in, f"var(--{variable})")
    # The page's own fonts: inline styles would win, and name the fonts of the machine that drew the figure.
    return re.sub(r"font-family: [^;\"]*;? ?", "", text)
