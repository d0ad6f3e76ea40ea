"""What the experiments share: random games with known payoffs, seeds, summaries, slopes, panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.randomness import SeededSource
from dpconvex_experiments.shared import LINE_STYLES, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "Gonzalez, Guzman and Paquette 2024, Mirror Descent Algorithms with Nearly Dimension-Independent Rates"
DELTA = 1e-6
_ROWS = 2**22  # entries of a game drawn at a time


def noise(*key: int) -> SeededSource:
    """Return the source of one run's noise, independent of all other keys'."""
    return SeededSource(int(np.random.SeedSequence(key).generate_state(1)[0]))


@dataclass(frozen=True)
class Game:
    """A random rank-one game: records (a, b) of signs with payoff ``x^T a b^T y`` and known means."""

    rows: FloatArray  # rows, columns: means of the entries of a and of b
    columns: FloatArray

    @classmethod
    def random(cls, rng: np.random.Generator, d: int, informative: int) -> Game:
        """Return a game of d rows and columns: most means near 1/2, the `informative` ones near -0.85."""
        means = rng.uniform(0.4, 0.6, (2, d))
        means[:, :informative] = -rng.uniform(0.75, 0.95, (2, informative))
        rng.permuted(means, axis=1, out=means)
        return cls(means[0], means[1])

    def records(self, rng: np.random.Generator, n: int) -> AnyArray:
        """Return n records, int8 (n, 2 d)."""
        means = np.concatenate([self.rows, self.columns])
        out = np.empty((n, len(means)), dtype=np.int8)
        for first in range(0, n, step := max(1, _ROWS // len(means))):
            part = out[first : first + step]
            part[:] = np.where(rng.random(part.shape, dtype=np.float32) < (1 + means) / 2, 1, -1)
        return out

    def gap(self, x: FloatArray, y: FloatArray) -> float:
        """Return the exact duality gap of strategies (d,) on the population."""
        return float((x @ self.rows * self.columns).max() - (self.columns @ y * self.rows).min())

    @property
    def trivial(self) -> float:
        """Gap of the uniform strategies."""
        uniform = np.full(len(self.rows), 1 / len(self.rows))
        return self.gap(uniform, uniform)


def curves(
    axes: Axes, x: Sequence[float], lines: Mapping[str, Sequence[float | None]], labels: tuple[str, str]
) -> None:
    """Draw lines over logarithmic axes; missing values are left out."""
    for k, (name, values) in enumerate(lines.items()):
        points = [(a, b) for a, b in zip(x, values, strict=True) if b is not None]
        if points:
            axes.plot(*zip(*points, strict=True), LINE_STYLES[k % len(LINE_STYLES)], label=name)
    logarithmic(axes, labels)
    axes.legend(fontsize=7)
