"""E1: the l2 Laplace sampler has the moments, the radius and the direction of its density."""

from __future__ import annotations

import numpy as np
from scipy import stats

from dpconvex._types import FloatArray
from dpconvex.privacy import PrivacyParams
from dpconvex.randomness import SeededSource
from dpconvex_experiments import checks
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import Check, Estimate
from dpconvex_experiments.output_perturbation._common import laplace, releases

SCALE = 0.3
DIMS = (1, 2, 10, 200)


def measure(setting: Setting) -> Outcome:
    """Compare draws with Gamma radii and uniform directions."""
    count, source = 2_000 if setting.quick else 20_000, SeededSource(setting.seed)
    drawn = {}
    for dim in setting.track(DIMS, "Sampling"):
        drawn[dim] = releases(laplace(dim, SCALE, 1.0), np.zeros(dim), PrivacyParams(1.0), count, source)
    judged = [_judged(dim, points) for dim, points in drawn.items()]
    rows = tuple(
        (dim, *(n for c in found[:2] for n in (c.value, c.error)), found[2].value, found[3].value)
        for dim, found in zip(drawn, judged, strict=True)
    )

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
        ("d", "mean length", "s.e.", "mean square", "s.e. 2", "p radius", "p direction"),
        rows,
        "mean length and square agree with the exact ones; neither a Kolmogorov-Smirnov test of the radius against "
        "Gamma(d) nor a chi-squared test of the mean direction rejects",
        tuple(check for found in judged for check in found),
        draw,
        (
            f"{count} draws of scale theta = {SCALE} in each dimension. Lengths in units of d theta, squares of "
            "d (d + 1) theta^2.",
        ),
    )


def _judged(dim: int, points: FloatArray) -> tuple[Check, ...]:
    count, lengths = len(points), np.linalg.norm(points, axis=1)
    length, square = Estimate.of(lengths / (dim * SCALE)), Estimate.of(lengths**2 / (dim * (dim + 1) * SCALE**2))
    radius = float(stats.kstest(lengths, stats.gamma(dim, scale=SCALE).cdf).pvalue)
    direction = (points / lengths[:, None]).mean(0)
    uniform = float(stats.chi2(dim).sf(count * dim * (direction**2).sum()))
    return (
        checks.mean(f"mean length, d = {dim}", length, 1.0, 1.0),
        checks.mean(f"mean square, d = {dim}", square, 1.0, 1.0),
        checks.p_value(f"p of the radius, d = {dim}", radius, count, "Kolmogorov-Smirnov"),
        checks.p_value(f"p of the direction, d = {dim}", uniform, count, "chi-squared"),
    )


E1 = Experiment(
    "output-perturbation/e1-sampler",
    "Does the l2 Laplace sampler have the density of the theorem?",
    "Lowy and Razaviyayn, Lemma B.3",
    measure,
)
