"""X10: every method for users on the same data, against records per user; and where their bounds cross."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm import gradient_descent, registry
from dpconvex.algorithms.erm.user_level import plan_accelerated, plan_phased
from dpconvex.losses import LogisticLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exact
from dpconvex_experiments.output_perturbation._common import Risk, logistic_records
from dpconvex_experiments.reference import group_privacy
from dpconvex_experiments.shared import lines, panels, slope, streams
from dpconvex_experiments.user_level.rates import PAPER, promise, same_size, user_problem

DIM, USERS, RADIUS, EPSILON = 10, 2000, 3.0, 2.0
TRUTH = np.full(DIM, 2.0 / math.sqrt(DIM))
LOSS = LogisticLoss()
CROSSINGS = {(1000, 4.0): (32, 128), (2000, 2.0): (32, 128), (2000, 8.0): (16, 64), (20_000, 1.0): (32, 128)}
"""Limits of records per user at the crossing, by (n, epsilon): half and twice the plans' when this was written."""
Method = Callable[[LinearModelProblem, PrivacyParams], LinearModelPlan]


def _tuned(problem: LinearModelProblem, privacy: PrivacyParams) -> LinearModelPlan:
    """Clipped where users' mean gradients are a little shorter, known from the design: the loss is its truth's."""
    assert problem.records_per_user is not None
    return gradient_descent.plan(problem, privacy, clip=min(1.0, 1.5 / math.sqrt(problem.records_per_user)), steps=64)


METHODS: Mapping[str, Method] = {
    "robust": partial(plan_accelerated, test="tested"),
    "threshold": partial(plan_accelerated, test="threshold"),
    "clip L": partial(plan_accelerated, test="clipped"),
    "clip tuned": _tuned,
    "clip": gradient_descent.plan,
    "one pass": plan_phased,
    "group": partial(group_privacy.plan, planner=registry.plans),
}
"""Methods: the accelerated one with three guards, descent with two clips, phased SGD, and group privacy."""


def crossing(n: int, epsilon: float, dim: int) -> int | None:
    """Return the smallest m, a power of 2 up to 2^14, where robust means promise less than clipping at L; or None."""
    for k in range(15):
        problem = user_problem(LOSS, dim, n, 2**k, RADIUS)
        privacy = promise(epsilon)
        if plan_accelerated(problem, privacy).phases[0].guard.name == "tested":
            return 2**k
    return None


def excess_of(m: int, runs: int, seed: int, risk: Risk, least: float) -> dict[str, tuple[Estimate, float]]:
    """Return mean excess risk on fresh records, and predicted error, of every method with `m` records a user."""
    problem, privacy = user_problem(LOSS, DIM, USERS, m, RADIUS), promise(EPSILON)
    plans = {name: method(problem, privacy) for name, method in METHODS.items()}
    found: dict[str, list[float]] = {name: [] for name in plans}
    for run in range(runs):
        rng, _ = streams(seed, 1, run, m)
        X, y = logistic_records(rng, USERS * m, TRUTH)
        for i, (name, plan) in enumerate(plans.items()):
            _, source = streams(seed, 2, run, m, i)
            point = plan.run(X, y, source, same_size(USERS, m)).point
            found[name].append(risk(point) - least)
    return {name: (Estimate.of(found[name]), plans[name].predicted_error.bound) for name in plans}


@experiment("user-level/crossover", f"{PAPER}, Section 1 and footnote 3")
def crossover(setting: Setting, anchors: Anchors) -> Outcome:
    """Which method loses least, and from how many records per user on?"""
    sizes = (4, 64) if setting.quick else (4, 16, 64, 256)
    runs = 2 if setting.quick else 6
    rng, _ = streams(setting.seed, 0)
    risk = Risk(LOSS, *logistic_records(rng, 100_000 if setting.quick else 400_000, TRUTH))
    least = risk.minimum()
    found = {m: excess_of(m, runs, setting.seed, risk, least) for m in setting.track(sizes, "Comparing")}
    zero = risk(np.zeros(DIM)) - least
    rows: list[tuple[Cell, ...]] = [
        (m, name, excess.value, excess.error, predicted)
        for m in sizes
        for name, (excess, predicted) in found[m].items()
    ]
    rows += [(m, "zero", zero, None, None) for m in sizes]
    settings = ((2000, 2.0), (20_000, 1.0)) if setting.quick else ((1000, 4.0), (2000, 2.0), (2000, 8.0), (20_000, 1.0))
    crossings = {(n, epsilon): crossing(n, epsilon, DIM) for n, epsilon in settings}
    flat = {name: (slope(sizes, [found[m][name][1] for m in sizes])) for name in ("clip L", "group")}

    def draw(figure: Figure) -> None:
        left, right = panels(figure, 2)
        for axes, i, label in ((left, 0, "excess risk"), (right, 1, "predicted")):
            curves = {
                name: [max((found[m][name][0].value, found[m][name][1])[i], 1e-6) for m in sizes] for name in METHODS
            }
            lines(axes, sizes, curves, ("records per user", label), legend="lower left")

    last = found[sizes[-1]]
    falling = slope(sizes, [found[m]["robust"][1] for m in sizes])
    return Outcome(
        ("m", "method", "excess", "s.e.", "predicted"),
        tuple(rows),
        "predictions of clipping at L and of group privacy do not fall with records per user, those of robust means "
        "do, and cross the former; with the most records robust means and short clips lose less than clipping at L "
        "predicts; excess and predictions are near their anchors",
        (
            *(exact(f"exponent of m, {name}, predicted", value, -0.05, 0.05, "plan") for name, value in flat.items()),
            exact("exponent of m, robust, predicted", falling, -0.6, -0.3, "plan"),
            *(
                exact(f"records per user at the crossing, {at}", m or math.inf, *CROSSINGS[at])
                for at, m in crossings.items()
            ),
            *(
                anchors.within(f"{name}, m = {sizes[-1]}", last[name][0], 0.0, last["clip L"][1], "plan")
                for name in ("robust", "clip", "clip tuned")
            ),
            *anchors.near({f"{name}, m = {m}": e for m in sizes for name, (e, _) in found[m].items()}),
        ),
        draw,
        f"Logistic regression, n = {USERS} users, d = {DIM}, epsilon = {EPSILON:g}, delta = 1e-6, ball of radius "
        f"{RADIUS:g}, coefficients of norm 2; means of {runs} runs. Predicted: what the plan says, from public "
        "facts; for robust means and short clips under the assumption that users are alike, as they are here.\n"
        "Robust, threshold, clip L: the accelerated method with test and release at every step, AboveThreshold, "
        "and no test. Clip: noisy gradient descent at the planned level; clip tuned: at 1.5 L/sqrt(m), chosen from "
        "the design. One pass: phased SGD. Group: the best method for records at epsilon/m.\n"
        "Robust means promise less than clipping at L from these records per user on (n, epsilon): "
        + ", ".join(f"({n}, {epsilon:g}): {m}" for (n, epsilon), m in crossings.items())
        + ".",
    )
