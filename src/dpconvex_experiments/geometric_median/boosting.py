"""Figures 2 to 5: noisy gradient descent against stable stochastic gradients, from the same start at the same cost."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from scipy.stats import f as f_distribution

from dpconvex._types import Floats
from dpconvex.algorithms.location.base import Booster, WarmStart
from dpconvex.algorithms.location.noisy_descent import plan_settling
from dpconvex.algorithms.location.stable_sgd import Order, Phase, StableSgd, plan_stable_sgd
from dpconvex.privacy import Ledger, PrivacyParams
from dpconvex.solvers import geometric_median
from dpconvex_experiments import checks
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate
from dpconvex_experiments.geometric_median._common import PAPER, Trial, bars
from dpconvex_experiments.reference.location import plan_constant_steps
from dpconvex_experiments.reference.printed_median import plan_printed_descent
from dpconvex_experiments.shared import gaussian_cluster, mean_distance, student_t

DIM, RHO, DELTA = 50, 0.5, 1e-5
MU = math.sqrt(2 * RHO)
SIGMA, INSIDE, INFLATION = 0.1, 0.9, 20.0
LEDGER = PrivacyParams(8.0, 1e-4)  # more than any run needs: methods are compared at equal rho
PASSES = (1, 2, 5, 10, 20)
ANCHORED = (1, 5, 20)


@dataclass(frozen=True)
class Cluster:
    """Gaussian cluster with uniform outliers."""

    n: int
    bound: float

    @property
    def shape(self) -> str:
        """The parameter that figure 4 varies, with its value."""
        return f"R = {self.bound:g}"

    @property
    def radius(self) -> float:
        """The radius that the methods are told: 20 times the cluster's."""
        return INFLATION * SIGMA * math.sqrt(DIM)

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return points (n, DIM) and their center."""
        return gaussian_cluster(self.bound, self.n, DIM, SIGMA, INSIDE, rng)


@dataclass(frozen=True)
class Heavy:
    """Multivariate Student t."""

    n: int
    freedom: float

    @property
    def shape(self) -> str:
        """The parameter that figure 5 varies, with its value."""
        return f"nu = {self.freedom:g}"

    @property
    def radius(self) -> float:
        """The radius that the methods are told: 20 times the quantile 0.75 of the length of a point."""
        return INFLATION * math.sqrt(DIM * float(f_distribution.ppf(0.75, DIM, self.freedom)))

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return points (n, DIM) and their center."""
        return student_t(self.freedom, self.n, DIM, rng), np.zeros(DIM)


Data = Cluster | Heavy


def _printed(n: int, passes: int, order: Order) -> StableSgd:
    """Algorithm 4 as printed, for ``T = 2^K - 1 >= passes n`` visits and this cost."""
    base = plan_printed_descent(passes * n, DIM, math.sqrt(8 * RHO * math.log(2 / DELTA)), DELTA, order=order)
    steps = sum(phase.steps for phase in base.phases)
    m = math.floor(3 * (steps / n + math.log(8 / DELTA))) if order == "random" else -(-steps // n)

    def covering(phase: Phase) -> Phase:
        ball = phase.ball * (2 * m + 1) / (2 * (phase.uses or 0) + 1) if phase.recentered else phase.ball
        return replace(phase, uses=m, ball=ball)

    return replace(base, n=n, phases=tuple(map(covering, base.phases)))


def _descent(n: int, passes: int, tail: float) -> Booster:
    return plan_constant_steps(n, DIM, MU, steps=passes, step=1 / math.sqrt(passes), tail=tail)


METHODS: Mapping[str, Callable[[int, int], Booster]] = {
    "DPGD": lambda n, passes: _descent(n, passes, 1.0),
    "StableDPSGD": lambda n, passes: _printed(n, passes, "random"),
    "FixedOrderDPSGD": lambda n, passes: _printed(n, passes, "fixed"),
    "DPGD, last half (ours)": lambda n, passes: _descent(n, passes, 0.5),
    "descent, settling steps (ours)": lambda n, passes: plan_settling(n, DIM, MU, steps=passes),
    "fixed order, exact counts (ours)": lambda n, passes: plan_stable_sgd(n, DIM, MU, order="fixed", passes=passes),
}
"""Functions from the number of records and of passes over them to the plan. The first three methods are the paper's."""
PRINTED = tuple(METHODS)[:3]


@dataclass(frozen=True)
class _Row:
    data: Data
    passes: int
    method: str
    errors: tuple[float, ...]

    @property
    def error(self) -> Estimate:
        return Estimate.of(self.errors)


def _trial(data: Data, passes: tuple[int, ...], trial: Trial) -> dict[tuple[int, str], float]:
    """Excess objective of every method and budget on one draw, in units of the radius that they are told."""
    rng = trial.data
    points, center = data.draw(rng)
    direction = rng.standard_normal(DIM)
    start = WarmStart(center + 0.75 * data.radius * direction / np.linalg.norm(direction), data.radius, data.radius)
    least = geometric_median(points).value
    errors = {}
    for budget in passes:
        for k, (name, plan) in enumerate(METHODS.items()):
            booster = plan(data.n, budget)
            ledger = Ledger(LEDGER, booster.releases)
            found = booster.refine(points, start, trial.noise(100 * budget + k), ledger).location
            errors[budget, name] = (mean_distance(points, found) - least) / data.radius
    return errors


def _rows(setting: Setting, sweep: tuple[Data, ...]) -> list[_Row]:
    passes = (1, 5) if setting.quick else PASSES
    rows = []
    for k, data in enumerate(setting.track(sweep, "Refining")):
        found = [_trial(data, passes, Trial(setting.seed, (k, t))) for t in range(2 if setting.quick else 20)]
        rows += [
            _Row(data, budget, name, tuple(trial[budget, name] for trial in found))
            for budget in passes
            for name in METHODS
        ]
    return rows


def _outcome(
    anchors: Anchors, rows: list[_Row], label: Callable[[Data], str], criterion: str, claims: tuple[Check, ...],
    reported: str,
) -> Outcome:  # fmt: skip
    """Table, figure and checks: the claims, and every mean error near its anchor."""
    found = {f"{label(r.data)}, {r.passes} passes, {r.method}": r.error for r in rows if r.passes in ANCHORED}
    groups: dict[str, list[_Row]] = {}
    for row in rows:
        groups.setdefault(label(row.data), []).append(row)

    def draw(figure: Figure) -> None:
        plots = np.atleast_1d(figure.subplots(1, len(groups), sharey=True))
        for axes, (title, group) in zip(plots, groups.items(), strict=True):
            passes = list(dict.fromkeys(row.passes for row in group))
            curves = {name: [row.error for row in group if row.method == name] for name in METHODS}
            bars(axes, passes, curves, ("passes over the data", ""))
            axes.set_xticks(passes, map(str, passes))
            axes.set_xticks([], minor=True)
            axes.set_title(title)
        plots[0].set_ylabel("excess objective / told radius")
        figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Outcome(
        ("data", "passes", "method", "mean error", "sd", "trials"),
        tuple((label(r.data), r.passes, r.method, r.error.value, r.error.deviation, r.error.runs) for r in rows),
        f"{criterion}; every mean error is near its anchor",
        (*claims, *anchors.near(found)),
        draw,
        f"The paper reports (plots only, no numbers): {reported}\n{CHOICES}",
    )


CHOICES = (
    "Error: (f(x) - f(x*)) / r with r the radius that the methods are told, 20 times the effective one; error bars: "
    f"one standard deviation. All methods cost rho = {RHO} (zero-concentrated), d = {DIM}.\n"
    "Left open by the paper, chosen here: 90 % of a cluster's points are inside; delta = 1e-5 in m; p passes of n "
    "records are T = 2^K - 1 steps, the least such T >= p n, with a run of its own for every p; step r / (16 sqrt T) "
    "for StableDPSGD and r / (4 sqrt T) for FixedOrderDPSGD (the best of 4^-4..1); the start lies 0.75 r from the "
    "data's center, for about the origin the optimum would lie outside the ball. x* by Weiszfeld's method to 1e-10. "
    "Later phases project onto the repaired balls.\n"
    "Ours: DPGD, last half, averages the second half of the same iterates; descent, settling steps, is the "
    "library's default stage; fixed order, exact counts, has the proved "
    "2 m eta for the printed (2 m + 1) eta, exact counts of every record, two phases and the last half of each."
)


def _ratio(rows: list[_Row], mine: _Row, data: Data, method: str) -> Estimate:
    """Return the log of an error over that of another method or data set, in pairs of trials."""
    other = next(r for r in rows if (r.data, r.passes, r.method) == (data, mine.passes, method))
    return Estimate.of(np.log(np.array(mine.errors) / np.array(other.errors)))


def _fixed_beats(rows: list[_Row], other: str, only: Callable[[Data], bool] = lambda data: True) -> tuple[Check, ...]:
    """Check that the fixed order has the smaller error, at every budget of the chosen data."""
    return tuple(
        checks.mean(
            f"log FixedOrderDPSGD / {other}, n = {row.data.n}, {row.data.shape}, {row.passes} passes", found, -inf, 0
        )
        for row in rows
        if row.method == "FixedOrderDPSGD" and only(row.data)
        for found in (_ratio(rows, row, row.data, other),)
    )


def _over_n(figure_: str, title: str, sweep: tuple[Data, ...]) -> Experiment:
    @experiment(f"geometric-median/{figure_}", f"{PAPER}, {figure_.replace('figure-', 'Figure ')}", title)
    def measure(setting: Setting, anchors: Anchors) -> Outcome:
        rows = _rows(setting, sweep)
        largest = max(data.n for data in sweep)
        return _outcome(
            anchors,
            rows,
            lambda data: f"n = {data.n:,}",
            "FixedOrderDPSGD beats StableDPSGD at every n and budget, and DPGD at every budget of the largest n",
            (*_fixed_beats(rows, "StableDPSGD"), *_fixed_beats(rows, "DPGD", lambda data: data.n == largest)),
            "FixedOrderDPSGD always beats StableDPSGD on the cluster, and beats DPGD clearly once n is large; on heavy "
            "tails it is similar or better for larger n.",
        )

    return measure


def _over_shape(figure_: str, title: str, sweep: tuple[Data, ...]) -> Experiment:
    @experiment(f"geometric-median/{figure_}", f"{PAPER}, {figure_.replace('figure-', 'Figure ')}", title)
    def measure(setting: Setting, anchors: Anchors) -> Outcome:
        rows = _rows(setting, sweep)
        spread = tuple(
            checks.mean(
                f"log of {row.method}, {row.passes} passes: {row.data.shape} / {sweep[0].shape}", found, -TWO, TWO
            )
            for row in rows
            if row.method in PRINTED and row.data != sweep[0]
            for found in (_ratio(rows, row, sweep[0], row.method),)
        )
        return _outcome(
            anchors,
            rows,
            lambda data: data.shape,
            "FixedOrderDPSGD beats StableDPSGD at every setting and budget, and no mean error of the paper's methods "
            "differs by more than a factor 2 from the first setting's",
            (*_fixed_beats(rows, "StableDPSGD"), *spread),
            "the conclusions of the figures before are unchanged across the sweep.",
        )

    return measure


TWO = math.log(2)
FIGURES = (
    _over_n(
        "figure-2",
        "Gaussian cluster: error of the boosting methods over passes, for n = 100, 1,000, 10,000",
        tuple(Cluster(n, 50.0) for n in (100, 1_000, 10_000)),
    ),
    _over_n(
        "figure-3",
        "Heavy tails (nu = 5): error of the boosting methods over passes, for n = 100, 1,000, 10,000",
        tuple(Heavy(n, 5.0) for n in (100, 1_000, 10_000)),
    ),
    _over_shape(
        "figure-4",
        "Gaussian cluster, n = 1,000: error of the boosting methods for R = 25, 50, 100",
        tuple(Cluster(1_000, bound) for bound in (25.0, 50.0, 100.0)),
    ),
    _over_shape(
        "figure-5",
        "Heavy tails, n = 1,000: error of the boosting methods for nu = 2.5, 5, 10",
        tuple(Heavy(1_000, nu) for nu in (2.5, 5.0, 10.0)),
    ),
)
