"""What the experiments share: seeds, cases, curves with error bars."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpconvex._types import Floats
from dpconvex.randomness import SeededSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments.checks import Estimate
from dpconvex_experiments.shared import LINE_STYLES, logarithmic, mean_distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAPER = "Kumar, Liu, Tian and Yang 2025 (arXiv 2505.20189)"


@dataclass(frozen=True)
class Trial:
    """The random streams of one repetition, each independent of all others."""

    seed: int  #: seed of the experiment
    key: tuple[int, ...]  #: which repetition of which setting

    @property
    def data(self) -> np.random.Generator:
        """Random numbers of the data and of the start."""
        return np.random.default_rng([self.seed, *self.key])

    def noise(self, method: int) -> SeededSource:
        """Return the random numbers of a method's noise and coins."""
        return SeededSource(int(np.random.SeedSequence([self.seed, *self.key, method, 1]).generate_state(1)[0]))


@dataclass(frozen=True)
class Case:
    """A data set, and the function that measures the error of a location."""

    points: Floats
    error: Callable[[Floats], float]  #: returns the error of a location, (d,) -> float


def excess(points: Floats) -> Case:
    """Return a case whose error is the relative excess over the least objective (Weiszfeld's method to 1e-10)."""
    least = geometric_median(points).value
    return Case(points, lambda z: max(0.0, mean_distance(points, z) / least - 1))


def bars(
    axes: "Axes", x: Sequence[float], curves: Mapping[str, Sequence[Estimate]], labels: tuple[str, str],
    *, log: str = "xy",
) -> None:  # fmt: skip
    """Draw curves with error bars of one standard deviation, cut off where a logarithmic axis ends."""
    for k, (name, means) in enumerate(curves.items()):
        mean = np.array([each.value for each in means])
        deviation = np.array([each.deviation for each in means])
        below = np.minimum(deviation, 0.9 * mean) if "y" in log else deviation
        axes.errorbar(x, mean, (below, deviation), fmt=LINE_STYLES[k % len(LINE_STYLES)], label=name, capsize=2)
    logarithmic(axes, labels, log)
