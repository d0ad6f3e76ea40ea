"""Pictures of the shapes of an additive model: one a column, of the released values and the planned noise alone."""

from __future__ import annotations

from typing import Any

import numpy as np

HEIGHT, COLUMNS = 1.9, 2
"""Of a picture, in inches, and how many stand side by side."""


def shapes_figure(estimator: Any, style: Any, colors: tuple[str, str, str, str]) -> Any:
    """Return one figure of all shapes on one scale, those first that are hardly noise; None for other models.

    Hats are broken lines, levels dots; bands are two planned deviations of the noise to either side, and what is
    shorter than that is gray. Nothing of the records is in it: no rug and no histogram.
    """
    from dpconvex.estimators import AdditiveModel

    if not isinstance(estimator, AdditiveModel):
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    shapes = sorted(estimator.shapes_, key=lambda shape: -np.nan_to_num(shape.reach, nan=-np.inf))
    rows = -(-len(shapes) // COLUMNS)
    with rc_context(style):
        figure = Figure(figsize=(2.7 * COLUMNS, HEIGHT * rows), layout="constrained")
        grid: Any = figure.subplots(rows, COLUMNS, sharey=True, squeeze=False)
        for axes in grid.ravel()[len(shapes) :]:
            axes.set_axis_off()
        for axes, shape in zip(grid.ravel(), shapes, strict=False):
            for values, deviation in zip(np.atleast_2d(shape.values), np.atleast_2d(shape.deviation), strict=True):
                _draw(axes, shape, values, 2 * np.nan_to_num(deviation), colors)
            axes.axhline(0, color=colors[3], linewidth=0.8, zorder=0)
            axes.set_title(shape.name[:40], fontsize=9.5, loc="left")
            axes.grid(False)
    return figure


def _draw(axes: Any, shape: Any, values: Any, band: Any, colors: tuple[str, ...]) -> None:
    ink, gray, wash, _ = colors
    knots = [vertex for vertex in shape.vertices if isinstance(vertex, float)]
    m = len(knots)
    beyond = np.abs(values) > band
    if m:
        at = np.array(knots)
        axes.fill_between(at, values[:m] - band[:m], values[:m] + band[:m], color=wash, linewidth=0)
        axes.plot(at, values[:m], color=gray, linewidth=1)
        strong = np.where(beyond[:m], values[:m], np.nan)
        axes.plot(at, strong, color=ink, linewidth=2)
        axes.ticklabel_format(axis="x", useOffset=False)
        if at[0] >= 0 and at[-1] > 100 * max(at[1], 1e-9):
            axes.set_xscale("symlog", linthresh=max(at[1], 1e-9))
        return
    at = np.arange(len(values))
    axes.vlines(at, values - band, values + band, color=wash, linewidth=6)
    axes.scatter(at, values, s=12, c=[ink if sure else gray for sure in beyond], zorder=3)
    axes.set_xticks(at, [str(level)[:10] for level in shape.vertices], rotation=90, fontsize=6)
