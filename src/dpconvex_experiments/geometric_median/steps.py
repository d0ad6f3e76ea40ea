"""What settling steps gain over printed ones; how far the pipeline is from what privacy allows; slopes of one pass."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.location.base import Booster, WarmStart
from dpconvex.algorithms.location.noisy_descent import plan_settling
from dpconvex.algorithms.location.registry import plan_location
from dpconvex.algorithms.location.stable_sgd import Order
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.privacy.profiles import largest_mu
from dpconvex.problems import PointDomain
from dpconvex.solvers import geometric_median
from dpconvex_experiments import checks
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.geometric_median._common import Trial, bars
from dpconvex_experiments.geometric_median.boosting import DIM, LEDGER, MU, SIGMA
from dpconvex_experiments.reference.location import plan_constant_steps
from dpconvex_experiments.reference.printed_median import plan_printed_descent
from dpconvex_experiments.shared import LINE_STYLES, gaussian_cluster, lines, mean_distance, student_t

STEPS, RECORDS = 60, 4_000
TRUE = SIGMA * math.sqrt(DIM)
SETTLING = "settling steps (ours)"
METHODS: Mapping[str, Callable[[int], Booster]] = {
    "DPGD, all iterates (printed)": lambda n: plan_constant_steps(n, DIM, MU, steps=STEPS, step=STEPS**-0.5),
    "DPGD, last half": lambda n: plan_constant_steps(n, DIM, MU, steps=STEPS, step=STEPS**-0.5, tail=0.5),
    SETTLING: lambda n: plan_settling(n, DIM, MU, steps=STEPS),
}
PRINTED = next(iter(METHODS))
WIDE = (0.75, 1.0, 2.0)
"""The start's distance from the center, its radius and its ball, in units of the radius that methods are told."""


@experiment("geometric-median/steps", "Own statement; the printed step is that of Section 5.2 of the paper")
def steps(setting: Setting, anchors: Anchors) -> Outcome:
    """What do steps that find their size gain over the printed constants, when the told radius is too large?

    Measure excess objectives over the factor by which the radius is too large; pairs of equal data.
    """
    inflations = (1.0, 20.0) if setting.quick else (1.0, 3.0, 10.0, 20.0, 100.0, 1000.0)
    trials = 8 if setting.quick else 20
    errors: dict[tuple[float, str], list[float]] = {(k, name): [] for k in inflations for name in METHODS}
    for j, inflation in enumerate(setting.track(inflations, "Inflating the radius")):
        for t in range(trials):
            trial = Trial(setting.seed, (j, t))
            rng = trial.data
            points, center = gaussian_cluster(50.0, RECORDS, DIM, SIGMA, 0.9, rng)
            way, told = rng.standard_normal(DIM), inflation * TRUE
            begin = WarmStart(center + WIDE[0] * told * way / np.linalg.norm(way), WIDE[2] * told, WIDE[1] * told)
            least = geometric_median(points).value
            for k, (name, plan) in enumerate(METHODS.items()):
                booster = plan(RECORDS)
                found = booster.refine(points, begin, trial.noise(k), Ledger(LEDGER, booster.releases)).location
                errors[inflation, name].append((mean_distance(points, found) - least) / TRUE)
    summaries = {key: Estimate.of(values) for key, values in errors.items()}
    gains = {
        (k, other): Estimate.of(np.log(np.array(errors[k, other]) / np.array(errors[k, SETTLING])))
        for k in inflations
        for other in METHODS
        if other != SETTLING
    }
    worst = Estimate.of(np.log(np.array(errors[20.0, SETTLING]) / np.array(errors[1.0, SETTLING])))
    curves = {name: [summaries[k, name] for k in inflations] for name in METHODS}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        bars(axes, inflations, curves, ("told radius / true radius", "excess objective / true radius"))
        axes.legend()

    return Outcome(
        ("told / true radius", "method", "mean excess / true radius", "s.e.", "gain over it", "trials"),
        tuple(
            (k, name, *s[:2], math.exp(gains[k, name].value) if name != SETTLING else None, trials)
            for (k, name), s in summaries.items()
        ),
        "the printed steps lose 10 to 1e9 times as much from a factor of 10 on (geometric mean of ratios), and "
        "settling steps lose at most 3 times as much at a factor of 20 as at 1; their errors are near their anchors",
        (
            *(
                checks.mean(f"log gain over {other}, factor {k:g}", found, math.log(10), math.log(1e9))
                for (k, other), found in gains.items()
                if k >= 10 and other == PRINTED
            ),
            checks.mean("log of settling steps' loss, factor 20 over 1", worst, -math.log(3), math.log(3)),
            *anchors.near({f"{SETTLING}, factor {k:g}": summaries[k, SETTLING] for k in inflations}),
        ),
        draw,
        f"Gaussian cluster, R = 50, sigma = {SIGMA}, 90 % inside, n = {RECORDS:,}, d = {DIM}; {STEPS} gradients, "
        f"mu = {MU:g}; the start lies {WIDE[0]:g} told radii away and the ball has {WIDE[2]:g}. A measurement, no "
        "theorem.",
    )


# The constant.

CLOUDS: Mapping[str, Callable[[int, int, np.random.Generator], Floats]] = {
    "cluster": lambda n, d, rng: gaussian_cluster(50.0, n, d, SIGMA, 0.9, rng)[0],
    "heavy tails": lambda n, d, rng: student_t(5.0, n, d, rng) + 3.0,
    "skewed": lambda n, d, rng: rng.exponential(size=(n, d)),
}
CELLS = tuple((d, n, epsilon) for d in (5, 50) for n in (1_000, 4_000, 16_000) for epsilon in (0.5, 1.0, 2.0))
DELTA, BOUND, FINEST = 1e-6, 1000.0, 1e-3
ENOUGH, TARGET = 600.0, 2.5


@dataclass(frozen=True)
class _Cell:
    d: int
    n: int
    epsilon: float
    cloud: str
    squares: tuple[float, ...]  #: squared constants, one for each run
    excess: tuple[float, ...]  #: excess objective of each run, as a multiple of ``f sqrt(d) / (n epsilon)``

    @property
    def words(self) -> str:
        """The cell in words, for the names of checks."""
        return f"{self.cloud}, d = {self.d}, n = {self.n}, epsilon = {self.epsilon:g}"

    @property
    def plenty(self) -> float:
        """``n epsilon / sqrt(d)``."""
        return self.n * self.epsilon / math.sqrt(self.d)

    @property
    def constant(self) -> Estimate:
        """Root mean square of the error in units of the floor's half."""
        square = Estimate.of(self.squares)
        return Estimate(math.sqrt(square.value), square.error / (2 * math.sqrt(square.value)), square.runs)


def _cell(d: int, n: int, epsilon: float, cloud: str, trials: int, trial: Callable[[int], Trial]) -> _Cell:
    plan = plan_location(PointDomain(d, BOUND, FINEST), n, PrivacyParams(epsilon, DELTA))
    mu, squares, excess = largest_mu(epsilon, DELTA), [], []
    for t in range(trials):
        points = CLOUDS[cloud](n, d, trial(t).data)
        best = geometric_median(points)
        gaps = points - best.point
        lengths = np.linalg.norm(gaps, axis=1)
        curvature = (np.eye(d) * (1 / lengths).sum() - (gaps / lengths[:, None] ** 3).T @ gaps) / n
        unit = float(np.linalg.norm(np.linalg.inv(curvature)))  # radius times sqrt(d)
        found = plan.run(points, trial(t).noise(0)).location
        squares.append((float(np.linalg.norm(found - best.point)) * n * mu / unit) ** 2)
        excess.append((mean_distance(points, found) / best.value - 1) * n * epsilon / math.sqrt(d))
    return _Cell(d, n, epsilon, cloud, tuple(squares), tuple(excess))


@experiment(
    "geometric-median/constant",
    "Lower bound: Haghifam, Steinke and Ullman 2024; Theorem 1 of the paper has its order. Own measurement",
)
def constant(setting: Setting, anchors: Anchors) -> Outcome:
    """How far is the released median from the lower bound sqrt(d) / (n epsilon)?

    Measure the constant in front of ``r sqrt(d) / (n mu)`` over d, n, epsilon and three kinds of data.
    """
    cells = [c for c in CELLS if c in {(5, 4_000, 1.0), (50, 4_000, 2.0)}] if setting.quick else CELLS
    trials = 32 if setting.quick else 20  # of few cells
    found = [
        _cell(d, n, epsilon, cloud, trials, lambda t, j=j, c=c: Trial(setting.seed, (j, c, t)))
        for j, (d, n, epsilon) in enumerate(setting.track(cells, "The constant"))
        for c, cloud in enumerate(CLOUDS)
    ]
    enough = [cell for cell in found if cell.plenty >= ENOUGH]
    pooled = Estimate.of([square for cell in enough for square in cell.squares])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for style, cloud in zip(LINE_STYLES, CLOUDS, strict=False):
            mine = sorted((c.plenty, *c.constant[:2]) for c in found if c.cloud == cloud)
            x, y, e = np.array(mine).T
            axes.errorbar(x, y, e, fmt=style[0], label=cloud, capsize=2)
        axes.axhline(2.0, color="#666666", label="T averaged gradients")
        axes.set(xscale="log", xlabel="n epsilon / sqrt(d)", ylabel="error n mu / (r sqrt(d))")
        axes.legend()

    return Outcome(
        ("d", "n", "epsilon", "data", "constant", "s.e.", "excess n epsilon / (f sqrt(d))", "trials"),
        tuple((c.d, c.n, c.epsilon, c.cloud, *c.constant[:2], float(np.mean(c.excess)), trials) for c in found),
        f"from n epsilon = {ENOUGH:g} sqrt(d) on the root mean square error, pooled, is 2 to {TARGET} times r sqrt(d) "
        "/ (n mu), with mu that of the whole promise and r the inverse curvature; no excess objective there is above "
        "that multiple of the lower bound's f sqrt(d) / (n epsilon); constants are near their anchors",
        (
            checks.mean("mean square of the constant, pooled", pooled, 4.0, TARGET**2),
            *(checks.mean(f"excess over the lower bound, {c.words}", Estimate.of(c.excess), 0, TARGET) for c in enough),
            *anchors.near({f"constant, {c.words}": c.constant for c in enough}),
        ),
        draw,
        f"delta = {DELTA:g}, R = {BOUND:g}, finest radius {FINEST:g}. 2 is what an average of all gradients knows "
        "of the median; 8 % of it is radius and test, 9 % the approach, which is not averaged. In units of epsilon "
        "the constant is epsilon / mu times as large: 4.2 at epsilon 1.",
    )


# Algorithm 4 alone: one pass over the points from a ball that holds the median, at the data that are worst for it.

ORDERS: tuple[Order, ...] = ("fixed", "random")
MAJORITIES = tuple(2.0 ** (-k / 2) for k in range(10))
"""Majorities that are tried: one of two places has this share of all points more than the other."""


def _two_places(n: int, order: Order, majority: float, trial: Trial) -> float:
    """Return the excess of one pass, in units of the ball, where all points lie at the two ends of a diameter."""
    booster = plan_printed_descent(n, 5, 1.0, DELTA, order=order)
    first = round(n * (1 + majority) / 2)
    points = np.zeros((n, 5))
    points[:first, 0], points[first:, 0] = 1.0, -1.0
    start = WarmStart(np.zeros(5), 1.0, 1.0)
    found = booster.refine(points, start, trial.noise(0), Ledger(LEDGER, booster.releases)).location
    return (first * math.dist(found, points[0]) + (n - first) * (math.dist(found, -points[0]) - 2)) / n


@experiment("geometric-median/one-pass", "Kumar, Liu, Tian and Yang 2025, Lemmas 13 and 14")
def one_pass(setting: Setting, anchors: Anchors) -> Outcome:
    """Does the worst excess of Algorithm 4 fall like one over the root of its steps?

    Measure both orders, with the printed constants, over n = T.
    """
    sizes = tuple(2**k - 1 for k in ((14, 16, 18) if setting.quick else (14, 16, 18, 20)))
    trials = 6 if setting.quick else 10
    worst: dict[Order, list[Estimate]] = {order: [] for order in ORDERS}
    rows: list[tuple[Order, int, float, float, float, float]] = []
    for j, n in enumerate(setting.track(sizes, "Passing")):
        for o, order in enumerate(ORDERS):
            tried = [
                Estimate.of(_two_places(n, order, share, Trial(setting.seed, (j, o, k, t))) for t in range(trials))
                for k, share in enumerate(MAJORITIES)
            ]
            worst[order].append(max(tried))
            value, error, _ = worst[order][-1]
            rows.append((order, n, MAJORITIES[tried.index(worst[order][-1])], value, error, value * math.sqrt(n)))
    slopes = {order: exponent(sizes, worst[order]) for order in ORDERS}

    def draw(figure: Figure) -> None:
        curves = {f"{order} order": [e.value for e in worst[order]] for order in ORDERS}
        theory = {"slope -1/2": [worst["fixed"][-1].value * math.sqrt(sizes[-1] / n) for n in sizes]}
        lines(figure.subplots(), sizes, curves, ("points n", "worst excess / ball"), dashed=theory)

    return Outcome(
        ("order", "n", "worst majority", "excess / ball", "s.e.", "excess sqrt(n)"),
        tuple(rows),
        "the largest mean excess over majorities falls with an exponent of -0.4 to -0.6 in n, in both orders",
        (
            *(
                anchors.within(f"exponent, {order} order", slope, -0.6, -0.4, linear=True)
                for order, slope in slopes.items()
            ),
            *anchors.near({f"{row[0]} order, n = {row[1]}": worst[row[0]][sizes.index(row[1])] for row in rows}),
        ),
        draw,
        "Points at the two ends of a diameter of the told ball, one place with a majority of 1 to "
        f"{MAJORITIES[-1]:.2g} of the points; d = 5, epsilon = 1, delta = {DELTA:g}, one pass, printed constants; "
        f"{trials} runs. A pass that learns nothing has slope 0.",
    )
