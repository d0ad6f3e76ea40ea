"""The localized exponential mechanism, and losses of one's own, beside one output perturbation: rate, bound, price."""

import math
from functools import partial

import numpy as np

from dpconvex._types import Floats, final_dataclass, forwarded
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed import HeavyTailedPlan, Moments, localization
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import CustomProblem, DataDomain, LinearModelProblem, RecordLoss
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate, exponent, mean
from dpconvex_experiments.heavy_tails.rates import PAPER, LinearLoss, Planner, Point, wide_problem, worst_excess
from dpconvex_experiments.reference import gradient_score, localized_mechanism
from dpconvex_experiments.shared import lines

K, EPSILON = 2.0, 0.5
LIMITS = (
    ("exponential mechanism", 1.0, 52.0),
    ("gradient scores", 0.5, 52.0),
    ("Lipschitz extension", 0.5, 4.0),
    ("loss of one's own", 0.5, 4.0),
)
"""Limits of a method's excess over output perturbation's. 52 is Appendix F's; an extension's bias at most double."""


@final_dataclass
class OwnLinear(RecordLoss):
    """``<w, x>``, as somebody would write it who has no linear model."""

    domain: DataDomain
    name = "linear, written by hand"
    dim = forwarded("domain", "n_features")

    def lipschitz(self, radius: float) -> float:
        return self.domain.l2 * (1 + 1e-12)

    def value(self, w: Floats, records: Floats) -> Floats:
        return records @ w

    def gradient(self, w: Floats, records: Floats) -> Floats:
        return records

    def each(self, points: Floats, records: Floats) -> tuple[Floats, Floats]:
        return np.einsum("ij,ij->i", points, records), records


def own(problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments) -> HeavyTailedPlan[CustomProblem]:
    """Return the plan for the loss by its Lipschitz extension."""
    extended = CustomProblem(OwnLinear(problem.domain), problem.n, problem.radius)
    return localization.plan_custom(extended, privacy, moments)


METHODS: dict[str, Planner] = {
    "output perturbation": heavy_tailed.plan,
    "exponential mechanism": localized_mechanism.plan,
    "gradient scores": gradient_score.plan,
    "Lipschitz extension": partial(heavy_tailed.plan, surrogate="extension"),
    "loss of one's own": own,
}
RUNS = {
    "output perturbation": 8,
    "exponential mechanism": 4,
    "gradient scores": 4,
    "Lipschitz extension": 6,
    "loss of one's own": 3,
}
"""Runs of each method in the quick form: most for the method whose noise has the heaviest tail."""
TIMES = {500: 24, 2_000: 24, 8_000: 16}
"""Factors on `RUNS` in the full form, by number of records: smallest where a run takes longest."""


def bound(point: Point, method: str) -> float:
    """Return the proven excess."""
    moments = Moments(point.k, 1.0)
    problem = wide_problem(LinearLoss(), point.d, point.n, moments)
    return METHODS[method](problem, PrivacyParams(point.epsilon), moments).schedule.bound


@experiment("heavy-tails/mechanisms", f"{PAPER}, Algorithms 5 to 7; docs, Heavy tails")
def mechanisms(setting: Setting, anchors: Anchors) -> Outcome:
    """What do exponential mechanisms on values and on gradients cost, and does a loss of one's own reach the same rate?

    Measure the worst excess of every method in one dimension, and compare slopes, bounds and methods.
    """
    sizes = tuple(TIMES)[:2] if setting.quick else tuple(TIMES)
    off = 0.2 if setting.quick else 0.1
    points = [Point(K, n, 1, EPSILON) for n in sizes]
    jobs = [(method, point) for method in METHODS for point in points]
    found: dict[tuple[str, Point], Estimate] = {}
    rows, checks, slopes = [], list[Check](), {}
    for method, point in setting.track(jobs, "Measuring"):
        runs = RUNS[method] * (1 if setting.quick else TIMES[point.n])
        excess, worst, _ = worst_excess(point, runs, setting.seed, METHODS[method])
        found[method, point], proven = excess, bound(point, method)
        rows.append((method, point.n, worst, *excess[:2], excess.value / point.unit, proven))
        name = f"{method}, n = {point.n}: below its bound, above a hundredth of the rate"
        checks.append(mean(name, excess, 0.01 * point.unit, proven))
    for method in METHODS:
        slopes[method] = exponent(sizes, [found[method, point] for point in points])
        ends = [bound(point, method) for point in (points[0], points[-1])]
        logarithms = math.log(ends[1] / ends[0]) / math.log(sizes[-1] / sizes[0])  # of the bound: -1/2 but for these
        low, high = -(1 - 1 / K) - 0.2, max(logarithms, -(1 - 1 / K)) + off
        checks.append(mean(f"exponent of n, {method}", slopes[method], low, high))
    for method, least, most in LIMITS:
        for point in points:
            over = found[method, point].over(found["output perturbation", point])
            name = f"{method} over output perturbation, n = {point.n}"
            checks.append(anchors.within(name, over, least, most))
    checks += anchors.near({f"{method}, n = {point.n}": excess for (method, point), excess in found.items()})

    def draw(figure: Figure) -> None:
        curves = {method: [found[method, point].value for point in points] for method in METHODS}
        lines(
            figure.subplots(),
            sizes,
            curves,
            ("records", "worst excess risk"),
            dashed={"rate": [p.unit for p in points]},
        )

    return Outcome(
        ("method", "n", "worst r", "excess", "s.e.", "of rate", "proven"),
        tuple(rows),
        f"every mean is below its bound; slopes are at least -0.7, and at most {off} above that of the bound with its "
        "logarithm; the exponential mechanism is 1 to 52 times (Appendix F) as far off as output perturbation, "
        "gradient scores 0.5 to 52 times, a loss of one's own and the extension 0.5 to 4 times (its bias is at most "
        "twice that of truncation); all are near their anchors",
        tuple(checks),
        draw,
        f"Linear loss over [-1, 1], Pareto(2.2) records with G_2 = 1 and a signal r, the worst of nine, epsilon = "
        f"{EPSILON:g}, means of {min(RUNS.values())} to {max(RUNS.values())} runs, in the full form "
        f"{min(TIMES.values())} (most records) to {max(TIMES.values())} (fewest) times as many. Loss of one's own: "
        "the same function as a RecordLoss, whose Lipschitz extension is computed by certified planes.",
    )
