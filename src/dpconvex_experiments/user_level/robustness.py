"""X5 and X15: how often tests fail, and what is lost, with hostile users, unlike users and users of unequal size."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm import gradient_descent
from dpconvex.algorithms.erm.user_level import plan_accelerated
from dpconvex.losses import LogisticLoss
from dpconvex.problems import UserGroups
from dpconvex_experiments.base import Cell, Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Check, Estimate, share
from dpconvex_experiments.output_perturbation._common import Risk, logistic_records
from dpconvex_experiments.shared import logistic_labels, panels, streams, unit_vectors
from dpconvex_experiments.user_level.crossover import DIM, RADIUS, TRUTH
from dpconvex_experiments.user_level.rates import PAPER, promise, user_problem

USERS, M, EPSILON = 1000, 64, 4.0
LOSS = LogisticLoss()


@dataclass(frozen=True)
class Crowd:
    """Who the users are."""

    hostile: float = 0.0  #: share of users whose records are all the same one, far from what the model says
    spread: float = 0.0  #: standard deviation of the users' own coefficients around the common ones, in each coordinate
    # If 0, all users have `M` records; else sizes are ``M`` times a Pareto variable of mean 1 with this shape.
    tail: float = 0.0

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Floats, UserGroups]:
        """Return features, labels and whose record each is."""
        sizes = np.full(USERS, M)
        if self.tail:
            sizes = np.maximum(1, M * (self.tail - 1) / self.tail * (1 + rng.pareto(self.tail, USERS))).astype(int)
        groups = UserGroups(np.concatenate([[0], np.cumsum(sizes)]))
        own = TRUTH + self.spread * rng.standard_normal((USERS, DIM))
        X = unit_vectors(rng, groups.n_records, DIM)
        scores = np.einsum("ij,ij->i", X, np.repeat(own, sizes, axis=0))
        y = logistic_labels(rng, scores)
        bad = groups.spread((np.arange(USERS) < self.hostile * USERS).astype(float)) > 0
        X[bad] = np.eye(DIM)[0]
        return X, np.where(bad, -1.0, y), groups


CROWDS: Mapping[str, Crowd] = {
    "alike": Crowd(),
    "2 % hostile": Crowd(hostile=0.02),
    "5 % hostile": Crowd(hostile=0.05),
    "20 % hostile": Crowd(hostile=0.2),
    "unlike": Crowd(spread=2.0),
    "Pareto sizes": Crowd(tail=1.5),
}
QUICK = ("alike", "5 % hostile", "20 % hostile")
Planner = Callable[..., LinearModelPlan]
METHODS: Mapping[str, Planner] = {
    "robust": partial(plan_accelerated, test="tested", outliers=0.05),
    "threshold": partial(plan_accelerated, test="threshold", outliers=0.05),
    "clip L": partial(plan_accelerated, test="clipped"),
    "clip": gradient_descent.plan,
}


@experiment("user-level/robustness", f"{PAPER}, Algorithms 2 and 3; docs, User-level privacy")
def robustness(setting: Setting, anchors: Anchors) -> Outcome:
    """When does a test fail, and what do hostile or unlike users cost?"""
    runs = 3 if setting.quick else 10
    crowds = {name: crowd for name, crowd in CROWDS.items() if not setting.quick or name in QUICK}
    rng, _ = streams(setting.seed, 0)
    risk = Risk(LOSS, *logistic_records(rng, 100_000, TRUTH))
    least = risk.minimum()
    problem = user_problem(LOSS, DIM, USERS, M, RADIUS)
    plans = {name: planner(problem, promise(EPSILON)) for name, planner in METHODS.items()}
    found: dict[tuple[str, str], tuple[int, Estimate]] = {}
    for name, crowd in setting.track(list(crowds.items()), "Running"):
        for i, (method, plan) in enumerate(plans.items()):
            failed, excess = 0, list[float]()
            for run in range(runs):
                data, _ = streams(setting.seed, 1, run)
                _, source = streams(setting.seed, 2, run, i)
                X, y, groups = crowd.draw(data)
                result = plan.run(X, y, source, groups)
                failed += result.status != "ok"
                excess.append(risk(result.point) - least)
            found[name, method] = failed, Estimate.of(excess)
    rows: list[tuple[Cell, ...]] = [(*key, n / runs, *e[:2]) for key, (n, e) in found.items()]
    zero = risk(np.zeros(DIM)) - least

    def draw(figure: Figure) -> None:
        left, right = panels(figure, 2)
        for j, method in enumerate(METHODS):
            where = np.arange(len(crowds)) + 0.2 * j
            left.barh(where, [found[name, method][0] / runs for name in crowds], 0.2, label=method)
            right.barh(where, [max(found[name, method][1].value, 1e-5) for name in crowds], 0.2)
        left.set_yticks(np.arange(len(crowds)) + 0.3, list(crowds))
        left.set_xlabel("share of runs that a test ended")
        right.set(yticks=[], xlabel="excess risk", xscale="log")
        left.legend()

    return Outcome(
        ("users", "method", "failed", "excess", "s.e."),
        tuple(rows),
        "tests fail with probability 0.1 at most up to the planned 5 % of outliers, where robust means lose less than "
        "half of what clipping at L loses, and 0.9 at least with 20 % hostile users; methods without a test never "
        "fail; excess is near its anchor",
        _checks(anchors, runs, found),
        draw,
        f"n = {USERS} users, {M} records each, epsilon = {EPSILON:g}, delta = 1e-6, d = {DIM}; planned for 5 % of "
        f"outliers; {runs} runs. The zero vector loses {zero:.3f}. Excess is on users of the common coefficients.\n"
        "Hostile: all records the first unit vector with the label -1. A failed test ends the run with the point "
        "reached, here the zero vector. Unlike: own coefficients, normal around the common ones with deviation 2 "
        "in each coordinate. Pareto: sizes of shape 1.5 and mean 64; users count the same.",
    )


def _checks(anchors: Anchors, runs: int, found: Mapping[tuple[str, str], tuple[int, Estimate]]) -> tuple[Check, ...]:
    tested = ("robust", "threshold")
    hostile = found["5 % hostile", "clip L"][1]
    # Few runs are too few to count by themselves: crowds, or methods, are counted together.
    groups = {
        **{f"{m}, up to 5 % hostile": ([(c, m) for c in ("alike", "5 % hostile")], 0.0, 0.1) for m in tested},
        "tests, 20 % hostile": ([("20 % hostile", m) for m in tested], 0.9, 1.0),
        "no tests": ([(c, m) for c, m in found if m in ("clip L", "clip")], 0.0, 0.0),
    }
    return (
        *(
            share(f"failed: {name}", sum(found[key][0] for key in keys), len(keys) * runs, low, high)
            for name, (keys, low, high) in groups.items()
        ),
        *(
            anchors.within(f"{m} over clip L, 5 % hostile", found["5 % hostile", m][1].over(hostile), 0.0, 0.5)
            for m in tested
        ),
        *anchors.near({f"{m}, {c}": e for (c, m), (_, e) in found.items()}),
    )
