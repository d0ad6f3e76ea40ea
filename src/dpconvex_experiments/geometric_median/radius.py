"""Figure 1 and table 1: the effective radius by subsampled scores against the earlier search over all pairs."""

import itertools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import f as f_distribution

from dpconvex._types import Floats
from dpconvex.algorithms.location.radius_and_center import plan_radius
from dpconvex.privacy import Ledger, PrivacyParams, Unit
from dpconvex.problems import PointDomain
from dpconvex.randomness import BitSource
from dpconvex_experiments import checks
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.geometric_median._common import PAPER, Trial, bars
from dpconvex_experiments.reference.halving import plan_radius as plan_radius_finder
from dpconvex_experiments.reference.printed_median import plan_printed_radius
from dpconvex_experiments.shared import gaussian_cluster, student_t

DIM, RECORDS = 10, 1_000
GROUP, LEVEL = 64, 0.775  # records in a group; share of the records that the radius must hold, as in the paper
PRIVACY = PrivacyParams(1.0, 1e-5)
SIGMA, INSIDE, QUANTILE = 0.1, 0.9, 0.75
Search: TypeAlias = Callable[[Floats, PointDomain, BitSource], float]


def _fast(points: Floats, domain: PointDomain, source: BitSource) -> float:
    stage = plan_printed_radius(domain, len(points), PRIVACY.epsilon, PRIVACY.delta, Unit.RECORD)
    return stage.find(points, source, Ledger(PRIVACY, stage.releases)).radius


def _pairs(points: Floats, domain: PointDomain, source: BitSource) -> float:
    stage = plan_radius_finder(domain, len(points), PRIVACY.epsilon)
    return stage.find(points, source, Ledger(PRIVACY, stage.releases)).radius


def _groups(points: Floats, domain: PointDomain, source: BitSource) -> float:
    stage = plan_radius(domain, len(points), PRIVACY.epsilon, level=LEVEL, group_size=GROUP)
    return stage.find(points, source, Ledger(PRIVACY, stage.releases)).radius


SEARCHES: Mapping[str, Search] = {"RadiusFinder": _pairs, "FastRadius": _fast, "FastRadius, groups (ours)": _groups}
"""Searches for the effective radius, by name; the first two are the paper's."""


@dataclass(frozen=True)
class Draw:
    """Points with their true effective radius and the bound that the search is told."""

    points: Floats
    radius: float
    bound: float


def cluster(bound: float, n: int, rng: np.random.Generator) -> Draw:
    """Gaussian cluster with uniform outliers in a ball of radius `bound`."""
    return Draw(gaussian_cluster(bound, n, DIM, SIGMA, INSIDE, rng)[0], SIGMA * math.sqrt(DIM), bound)


def heavy(freedom: float, n: int, rng: np.random.Generator) -> Draw:
    """Multivariate Student t."""
    points = student_t(freedom, n, DIM, rng)
    radius = math.sqrt(DIM * float(f_distribution.ppf(QUANTILE, DIM, freedom)))
    return Draw(points, radius, float(np.linalg.norm(points, axis=1).max()))


@dataclass(frozen=True)
class Panel:
    """One of the two sweeps."""

    name: str
    axis: str
    values: tuple[float, ...]
    draw: Callable[[float, int, np.random.Generator], Draw]  #: ``(value, n, rng) -> Draw``
    paper: Mapping[str, tuple[float, float]]  #: seconds and their deviation in table 1, by search


PANELS = (
    Panel(
        "cluster",
        "R",
        (0.5, 1.0, 2.0, 4.0, 8.0, 10.0),
        cluster,
        {"RadiusFinder": (1.192, 0.047), "FastRadius": (0.0411, 0.002)},
    ),
    Panel(
        "heavy tails",
        "nu",
        tuple(np.arange(2.0, 21.0, 2.0).tolist()),
        heavy,
        {"RadiusFinder": (1.204, 0.171), "FastRadius": (0.0413, 0.007)},
    ),
)


@dataclass(frozen=True)
class Ratios:
    """Ratios of the released radius to the true one, which figure 1 shows."""

    panel: Panel
    value: float
    search: str
    ratio: Estimate
    seconds: tuple[float, ...]


def _sweep(setting: Setting, trials: int) -> list[Ratios]:
    found = []
    for p, panel in enumerate(PANELS):
        for v, value in enumerate(setting.track(panel.values[:: 3 if setting.quick else 1], f"Radius: {panel.name}")):
            measured = {name: [] for name in SEARCHES}
            for t in range(trials):
                trial = Trial(setting.seed, (p, v, t))
                rng = trial.data
                draw = panel.draw(value, RECORDS, rng)
                domain = PointDomain(DIM, draw.bound, float(rng.uniform(0.005, 0.02)))
                for k, (name, search) in enumerate(SEARCHES.items()):
                    start = time.process_time()
                    radius = search(draw.points, domain, trial.noise(k))
                    measured[name].append((radius / draw.radius, time.process_time() - start))
            for name, pairs in measured.items():
                ratios, seconds = zip(*pairs, strict=True)
                found.append(Ratios(panel, value, name, Estimate.of(ratios), seconds))
    return found


OPEN = (
    "Left open by the paper, chosen here: 90 % of a cluster's points are inside; on heavy tails, where the data have "
    "no bound, the search is told the largest length of a point (for this reproduction only: it is not private); true "
    "radius by the quantile function of F(d, nu), where the text says CDF; failure probability 0.05 in RadiusFinder's "
    "threshold (with delta the threshold exceeds n and nothing is found); no clipping. Ours: groups of 64 records and "
    "all pairs in them, pure DP."
)
LOW, HIGH = 1.0, 3.6


@experiment("geometric-median/figure-1", f"{PAPER}, Figure 1")
def figure_1(setting: Setting, anchors: Anchors) -> Outcome:
    """How far is the released radius from the true one?"""
    trials = 4 if setting.quick else 100
    found = _sweep(setting, trials)
    reported: Mapping[str, str] = dict.fromkeys(PANELS[0].paper, "1.2 to 3")
    ratios = {f"{f.search}, {f.panel.axis} = {f.value:g}": f.ratio for f in found}

    def draw(figure: Figure) -> None:
        plots = figure.subplots(1, 2, sharey=True)
        for axes, panel in zip(plots, PANELS, strict=True):
            mine = [f for f in found if f.panel == panel]
            axes.axhspan(1.2, 3.0, color="#eeeeee", label="the paper: roughly 1.2 to 3")
            values = list(dict.fromkeys(f.value for f in mine))
            curves = {name: [f.ratio for f in mine if f.search == name] for name in SEARCHES}
            bars(axes, values, curves, (panel.axis, "released / true radius"), log="")
            axes.set_title(panel.name)
        plots[0].legend(loc="lower right")

    return Outcome(
        ("data", "parameter", "value", "search", "mean ratio", "s.e.", "trials", "paper"),
        tuple(
            (f.panel.name, f.panel.axis, f.value, f.search, *f.ratio[:2], trials, reported.get(f.search)) for f in found
        ),
        f"every mean ratio lies between {LOW} and {HIGH}, the reported 'roughly 1.2 to 3', give or take a fifth, and "
        "near its anchor",
        (
            *(anchors.within(name, ratio, LOW, HIGH, linear=True) for name, ratio in ratios.items()),
            *anchors.near(ratios, linear=True),
        ),
        draw,
        f"Error bars: one standard deviation over {trials} draws, n = {RECORDS}, d = {DIM}.\n{OPEN}",
    )


@dataclass(frozen=True)
class Timing:
    """Seconds of a search at one size, beside the paper's where it has any."""

    data: str
    n: int
    search: str
    seconds: Estimate
    paper: tuple[float, float] | None


def _growth(setting: Setting) -> list[Timing]:
    """Times over n on the cluster with R = 8, five times each."""
    found = []
    for n in setting.track((1_000, 4_000, 8_000) if setting.quick else (1_000, 4_000, 16_000), "Time over n"):
        trial = Trial(setting.seed, (9, n))
        points, domain = cluster(8.0, n, trial.data).points, PointDomain(DIM, 8.0, 0.01)
        for k, (name, search) in enumerate(SEARCHES.items()):
            times = []
            for _ in range(5):
                start = time.process_time()
                search(points, domain, trial.noise(k))
                times.append(time.process_time() - start)
            found.append(Timing("cluster, n varies", n, name, Estimate.of(times), None))
    return found


@experiment("geometric-median/table-1", f"{PAPER}, Table 1")
def table_1(setting: Setting, _anchors: Anchors) -> Outcome:
    """How long does the search for the radius take, and how does that grow?"""
    _sweep(Setting(True, setting.seed), 1)  # compiles
    swept = _sweep(Setting(True, setting.seed, setting.track), 3 if setting.quick else 30)
    found = []
    for panel, name in itertools.product(PANELS, SEARCHES):
        spent = Estimate.of(s for f in swept if f.panel == panel and f.search == name for s in f.seconds)
        found.append(Timing(f"{panel.name}, {panel.axis} varies", RECORDS, name, spent, panel.paper.get(name)))
    grown = _growth(setting)
    sizes = list(dict.fromkeys(t.n for t in grown))
    seconds = {name: [t.seconds for t in grown if t.search == name] for name in SEARCHES}
    curves = {name: [t.value for t in times] for name, times in seconds.items()}
    slopes = {name: exponent((sizes[0], sizes[-1]), (times[0], times[-1])) for name, times in seconds.items()}
    gain = seconds["RadiusFinder"][-1].over(seconds["FastRadius"][-1])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for name, curve in curves.items():
            axes.loglog(sizes, curve, "o-", label=f"{name}: slope {slopes[name].value:.2f}")
        for name, (seconds, _) in PANELS[0].paper.items():
            axes.plot(RECORDS, seconds, "x", color="#666666")
            axes.annotate(f"{name}, the paper", (RECORDS, seconds), (6, -3), textcoords="offset points", fontsize=8)
        axes.set(xlabel="records", ylabel="seconds")
        axes.legend()

    return Outcome(
        ("data", "n", "search", "mean seconds", "sd", "runs", "paper: mean", "paper: sd"),
        tuple(
            (t.data, t.n, t.search, t.seconds.value, t.seconds.deviation, t.seconds.runs, *(t.paper or (None, None)))
            for t in (*found, *grown)
        ),
        "processor time grows like n^1.6 to n^2.4 for all pairs and n^0.7 to n^1.3 for FastRadius, which is 4 to 400 "
        "times as fast at the largest n",
        (
            checks.mean("exponent, RadiusFinder", slopes["RadiusFinder"], 1.6, 2.4),
            checks.mean("exponent, FastRadius", slopes["FastRadius"], 0.7, 1.3),
            checks.mean("RadiusFinder over FastRadius, largest n", gain, 4.0, 400.0),
        ),
        draw,
        "The paper's 29-fold gain at n = 1,000 is not there against compiled code for all pairs; a gain appears "
        "at larger n, and grows, as quadratic against nearly linear time must. Seconds are the machine's: they "
        f"have no anchors, and the false alarms hold where each of five runs is disturbed alike.\n{OPEN}",
    )
