"""What families share: random numbers, exponents, figures on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.randomness import SeededSource
from dpconvex_experiments.base import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_STYLES = ("o-", "s-", "^-", "D-", "v-", "P-", "X-")


def streams(*key: int) -> tuple[np.random.Generator, SeededSource]:
    """Return the random numbers of the data and, independent of them, of the noise; each key has its own."""
    data, noise = np.random.SeedSequence(key).spawn(2)
    return np.random.default_rng(data), SeededSource(int(noise.generate_state(1, np.uint64)[0]))


def unit_vectors(rng: np.random.Generator, n: int, dim: int) -> FloatArray:
    """Return `n` independent uniform unit vectors, shape (n, dim)."""
    X = rng.standard_normal((n, dim))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def logistic_labels(rng: np.random.Generator, scores: FloatArray) -> FloatArray:
    """Return labels -1 and 1 with these log-odds, shape (n,)."""
    return np.where(rng.random(len(scores)) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of the power law that fits best (least squares of logarithms)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def logarithmic(axes: Axes, labels: tuple[str, str], log: str = "xy") -> None:
    """Give the axes their labels, and make those named in `log` logarithmic."""
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])


def lines(
    axes: Axes,
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    labels: tuple[str, str],
    *,
    dashed: Mapping[str, Sequence[float]] | None = None,
    legend: Literal["best", "upper left", "lower left"] = "best",
) -> None:
    """Draw curves over logarithmic axes; `dashed` ones (bounds, claims) take the colours in the same order."""
    for k, (name, y) in enumerate(curves.items()):
        axes.plot(x, y, LINE_STYLES[k % len(LINE_STYLES)], color=f"C{k}", label=name)
    for k, (name, y) in enumerate((dashed or {}).items()):
        axes.plot(x, y, "--", color=f"C{k}", label=name, linewidth=1.2)
    logarithmic(axes, labels)
    axes.legend(loc=legend)


def panels(figure: Figure, count: int) -> list[Axes]:
    """Return `count` plots side by side."""
    return list(np.atleast_1d(figure.subplots(1, count)))
