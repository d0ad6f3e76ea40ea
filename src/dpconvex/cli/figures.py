"""Figures of the report, as inline SVG whose colours are the page's CSS variables (light and dark alike)."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpconvex.cli._console import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, RULE, ACCENT, SECOND, WASH = "#010101", "#020202", "#030303", "#040404", "#050505", "#060606"
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    ACCENT: "var(--accent)",
    SECOND: "var(--second)",
    WASH: "var(--wash)",
}
"""Stand-in colours that matplotlib draws with, and what the page replaces them by."""

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 9.5,
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}
_WIDTH = 7.2  # inches; the page scales it to its column


def coefficients_figure(names: Sequence[str], values: Sequence[float], deviations: Sequence[float]) -> str:
    """Dots with bands of two standard deviations of the noise, the largest value on top.

    Parameters
    ----------
    names, values, deviations : sequences of equal length
        Of the coefficients to show, in any order.
    """
    order = sorted(range(len(values)), key=lambda k: values[k])
    figure, axes = _axes("coefficients", 0.75 + 0.23 * len(order))
    for row, k in enumerate(order):
        value, reach = values[k], 2 * deviations[k]
        colour = ACCENT if value >= 0 else SECOND
        axes.plot([value - reach, value + reach], [row, row], color=colour, alpha=0.28, linewidth=7)
        clear = abs(value) > reach
        axes.plot(value, row, "o", markersize=5, markeredgecolor=colour, markerfacecolor=colour if clear else "none")
    axes.axvline(0, color=MUTED, linewidth=0.9)
    axes.set_yticks(range(len(order)), [_shortened(names[k]) for k in order])
    axes.set_ylim(-0.8, len(order) - 0.2)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("released coefficient")
    return _svg(figure, "coefficients")


def loss_figure(
    epsilons: Sequence[float], bounds: Mapping[str, Sequence[float]], trivial: float, chosen: tuple[float, float]
) -> str:
    """Planned excess loss over epsilon, one line an algorithm, with the loss of knowing nothing.

    Parameters
    ----------
    epsilons : sequence of float
        Increasing.
    bounds : mapping of str to sequence of float
        One bound an epsilon; NaN where there is no plan.
    trivial : float
        Loss of equal probabilities.
    chosen : (float, float)
        Epsilon and bound of the fitted model.
    """
    figure, axes = _axes("loss", 3.4)
    axes.set_xscale("log")
    axes.set_yscale("log")
    finite = [b for line in bounds.values() for b in line if math.isfinite(b) and b > 0]
    low = min([trivial, chosen[1], *finite]) / 1.8
    high = max(6 * trivial, min(60 * trivial, max([trivial, *finite])))
    if math.isfinite(chosen[1]):
        high = max(high, 1.5 * chosen[1])
    axes.set_ylim(low, high)
    axes.set_xlim(epsilons[0], epsilons[-1])
    axes.axhspan(trivial, high, color=WASH, linewidth=0)
    axes.axhline(trivial, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
    for k, (name, line) in enumerate(bounds.items()):
        colour = (ACCENT, SECOND, INK, MUTED)[k % 4]
        axes.plot(epsilons, line, color=colour, linewidth=2)
        at = _label_position(line, low, high)
        if at is not None:
            axes.annotate(name.replace("_", " "), (epsilons[at], line[at]), (7, 4), **_LEFT, color=colour)
    axes.plot(*chosen, "o", markersize=8, markerfacecolor=ACCENT, markeredgecolor=INK, clip_on=False, zorder=5)
    early = chosen[0] < math.sqrt(epsilons[0] * epsilons[-1])  # the lines fall: above right and below left are free
    place, side = ((9, 5), _LEFT) if early else ((-9, -13), _RIGHT)
    axes.annotate(f"this model: {number(chosen[1])}", chosen, place, **side, color=INK)
    _log_ticks(axes)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("planned excess loss")
    return _svg(figure, "loss")


def accuracy_figure(epsilons: Sequence[float], accuracies: Sequence[float], majority: float, non_private: float) -> str:
    """Measured test accuracy over epsilon, between the majority vote and the non-private model."""
    figure, axes = _axes("accuracy", 3.0)
    axes.set_xscale("log")
    reach = [*accuracies, majority, non_private]
    margin = 0.12 * max(max(reach) - min(reach), 0.01)
    axes.set_ylim(min(reach) - margin, max(reach) + 1.6 * margin)
    axes.set_xlim(epsilons[0] / 1.6, epsilons[-1] * 1.6)
    for value, text, colour in ((non_private, "not private", SECOND), (majority, "larger class only", MUTED)):
        axes.axhline(value, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.annotate(f"{text} {100 * value:.1f} %", (epsilons[0] / 1.6, value), (4, 4), **_LEFT, color=colour)
    axes.plot(epsilons, accuracies, "o-", color=ACCENT, markersize=6)
    for epsilon, accuracy in zip(epsilons, accuracies, strict=True):
        axes.annotate(f"{100 * accuracy:.1f} %", (epsilon, accuracy), (0, -15), **_CENTRE, color=ACCENT)
    axes.set_xticks(list(epsilons), [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("epsilon")
    axes.set_ylabel("test accuracy")
    return _svg(figure, "accuracy")


_LEFT: dict[str, Any] = {"textcoords": "offset points", "ha": "left"}
_RIGHT: dict[str, Any] = {"textcoords": "offset points", "ha": "right"}
_CENTRE: dict[str, Any] = {"textcoords": "offset points", "ha": "center"}


def _style(salt: str) -> Any:
    """Return matplotlib settings; `salt` makes element names differ between the figures of a page."""
    return {**_STYLE, "svg.hashsalt": salt}


def _axes(salt: str, height: float) -> tuple[Figure, Axes]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_style(salt)):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        return figure, figure.subplots()


def _svg(figure: Figure, salt: str) -> str:
    """Return the figure as an ``<svg>`` element with the page's colours; same input, same text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(_style(salt)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the page's fonts are used, not this one
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    for stand_in, variable in _VARIABLES.items():
        text = text.replace(stand_in, variable)
    # The page's own fonts: inline styles would win, and name the fonts of the machine that drew the figure.
    return re.sub(r"font-family: [^;\"]*;? ?", "", text)


def _label_position(line: Sequence[float], low: float, high: float) -> int | None:
    """Index of a point a third along the visible part of a line."""
    visible = [k for k, bound in enumerate(line) if low < bound < high]
    return visible[len(visible) // 3] if visible else None


def _log_ticks(axes: Axes) -> None:
    low, high = axes.get_xlim()
    steps = (1, 2, 5) if high / low < 1e4 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [t for d in decades for t in (step * 10.0**d for step in steps) if low * 0.999 <= t <= high * 1.001]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.minorticks_off()


def _shortened(name: str, width: int = 34) -> str:
    """Return a name as literal text of limited width (matplotlib reads ``$`` as mathematics)."""
    short = name if len(name) <= width else name[: width - 1] + "…"
    return short.replace("$", r"\$")
