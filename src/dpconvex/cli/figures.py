"""Figures of the report, as inline SVG whose colours are the page's CSS variables (light and dark alike)."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpconvex.algorithms.predicted_error import PredictedError

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
_WIDTH = 5.4  # inches; the page scales it to its column, which may be that of a telephone
TRIVIAL_DASH, EVEN_DASH, EXPECTED_DASH = (0, (4, 3)), (0, (1, 2)), (0, (6, 2))


def loss_figure(
    epsilons: Sequence[float],
    bounds: Sequence[float],
    expected: Sequence[float],
    error: PredictedError,
    epsilon: float,
    even_loss: float | None = None,
) -> str:
    """Excess loss of one method over epsilon: its bound, and what it expects on typical data, with yardsticks.

    Parameters
    ----------
    epsilons : sequence of float
        Increasing.
    bounds, expected : sequence of float
        One each; NaN where there is none.
    error : PredictedError
        Of the fitted model.
    epsilon : float
        Of the fitted model.
    even_loss : float, optional
        What equal probabilities lose, where public rates give the trivial loss.
    """
    figure, axes = _axes("loss", 3.3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    trivial, chosen = error.trivial, [value for value in (error.bound, error.expected) if value is not None]
    finite = [value for value in (*bounds, *expected, *chosen) if math.isfinite(value) and value > 0]
    low = min([trivial, even_loss or trivial, *finite]) / 2.2
    high = max([6 * trivial, min(60 * trivial, max([trivial, *finite])), *(1.5 * v for v in chosen if v in finite)])
    axes.set_ylim(low, high)
    axes.set_xlim(epsilons[0], epsilons[-1])
    axes.axhspan(trivial, high, color=WASH, linewidth=0)
    levels = [trivial] if even_loss is None else [trivial, even_loss]
    for level, dash in zip(levels, (TRIVIAL_DASH, EVEN_DASH), strict=False):
        axes.axhline(level, color=MUTED, linewidth=1.2, linestyle=dash)
    room = 0.12 * math.log(high / low)  # height of a name, and its distance from the line
    # The lines fall, so above right of the upper one and below left of the lower one there is room.
    curves = (
        ("bound" if error.proved else "estimate", bounds, error.bound, ACCENT, "-", (6, 5), _LEFT, 1),
        ("expected", expected, error.expected, SECOND, EXPECTED_DASH, (-6, -12), _RIGHT, -1),
    )
    for name, line, own, colour, dash, place, side, way in curves:
        if own is None:
            continue
        axes.plot(epsilons, line, color=colour, linewidth=2, linestyle=dash)
        visible = [k for k, value in enumerate(line) if low < value < high][::way][1:]
        free = [k for k in visible if not any(0 < way * math.log(level / line[k]) < room for level in levels)]
        for k in (free or visible)[:1]:
            axes.annotate(name, (epsilons[k], line[k]), place, **side, color=colour)
        if math.isfinite(own):
            axes.plot(epsilon, own, "o", markersize=8, markerfacecolor=colour, markeredgecolor=INK, zorder=5)
    _log_ticks(axes)
    axes.set_xlabel("epsilon")
    axes.set_ylabel("excess loss")
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


def _log_ticks(axes: Axes) -> None:
    low, high = axes.get_xlim()
    steps = (1, 2, 5) if high / low < 1e4 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [t for d in decades for t in (step * 10.0**d for step in steps) if low * 0.999 <= t <= high * 1.001]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.minorticks_off()
