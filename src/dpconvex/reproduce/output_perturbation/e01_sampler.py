"""E1: the l2 Laplace sampler has the moments, the radius and the direction of its density."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpconvex._types import FloatArray
from dpconvex.privacy import PrivacyParams
from dpconvex.randomness import SeededSource
from dpconvex.reproduce.base import Experiment, Outcome, Setting
from dpconvex.reproduce.output_perturbation._common import laplace, releases

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = 0.3
DIMS = (1, 2, 10, 200)


def measure(setting: Setting) -> Outcome:
    """Compare draws with Gamma radii and uniform directions."""
    count, source = 3_000 if setting.quick else 20_000, SeededSource(setting.seed)
    drawn = {}
    for dim in setting.track(DIMS, "Sampling"):
        drawn[dim] = releases(laplace(dim, SCALE, 1.0), np.zeros(dim), PrivacyParams(1.0), count, source)
    rows = tuple(_row(dim, points) for dim, points in drawn.items())
    passed = all(abs(row[2]) < 4 and abs(row[4]) < 4 and min(row[5], row[6]) > 1e-4 for row in rows)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, (dim, points) in enumerate(drawn.items()):
            radius = np.linalg.norm(points, axis=1) / (dim * SCALE)
            x = np.linspace(0, 4 if dim < 10 else 2, 300)
            axes.hist(radius, 60, density=True, range=(0, x[-1]), alpha=0.3, color=f"C{k}")
            axes.plot(x, stats.gamma.pdf(x, dim, scale=1 / dim), color=f"C{k}", label=f"d = {dim}")
        axes.set_ylim(0, 3)
        axes.set_xlabel("length of the noise over its mean")
        axes.set_ylabel("density")
        axes.legend()

    return Outcome(
        ("d", "mean length", "z length", "mean square", "z square", "p radius", "p direction"),
        tuple(tuple(row) for row in rows),
        "mean length and square within 4 standard errors; Kolmogorov-Smirnov p of the radius against Gamma(d) and "
        "chi-squared p of the mean direction above 1e-4",
        passed,
        draw,
        (
            f"{count} draws of scale theta = {SCALE} in each dimension. Lengths in units of d theta, squares of "
            "d (d + 1) theta^2, z in standard errors. A correct sampler fails with probability 0.2 %.",
        ),
    )


def _row(dim: int, points: FloatArray) -> list[float]:
    count, lengths = len(points), np.linalg.norm(points, axis=1)
    mean, square = dim * SCALE, dim * (dim + 1) * SCALE**2
    z1 = (lengths.mean() - mean) / (lengths.std() / np.sqrt(count))
    z2 = ((lengths**2).mean() - square) / ((lengths**2).std() / np.sqrt(count))
    radius = float(stats.kstest(lengths, stats.gamma(dim, scale=SCALE).cdf).pvalue)
    direction = (points / lengths[:, None]).mean(0)
    uniform = float(stats.chi2(dim).sf(count * dim * (direction**2).sum()))
    return [dim, lengths.mean() / mean, z1, (lengths**2).mean() / square, z2, radius, uniform]


E1 = Experiment(
    "output-perturbation/e1-sampler",
    "Does the l2 Laplace sampler have the density of the theorem?",
    "Lowy and Razaviyayn, Lemma B.3",
    measure,
)
