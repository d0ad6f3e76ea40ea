"""X7 and X8: worst excess of the accelerated method over signal strengths, against n, m, epsilon and d."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpconvex.algorithms.erm.user_level import plan_accelerated
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.heavy_tails._common import LinearLoss
from dpconvex_experiments.shared import lines, panels, streams, unit_vectors
from dpconvex_experiments.user_level._common import PAPER, promise, same_size, user_problem

STRENGTHS = (0.0, 0.02, 0.04, 0.08, 0.3)
THEORY = {"n": -1.0, "m": -0.5, "epsilon": -1.0, "d": 0.5}


@dataclass(frozen=True)
class Point:
    """One setting."""

    n: int
    m: int
    dim: int
    epsilon: float

    @property
    def unit(self) -> float:
        """The private term of the lower bound, for ``L = R = 1``."""
        return float(np.sqrt(self.dim / self.m)) / (self.epsilon * self.n)


def sweeps(base: Point, *, quick: bool) -> dict[str, tuple[Point, ...]]:
    """Return the settings of every sweep, all through `base`."""
    some = slice(None, None, 2 if quick else 1)
    return {
        "n": tuple(replace(base, n=n) for n in (500, 1000, 2000)[some]),
        "m": tuple(replace(base, m=m) for m in (4, 8, 16, 32, 64)[some]),
        "epsilon": tuple(replace(base, epsilon=epsilon) for epsilon in (2.0, 4.0, 8.0)[some]),
        "d": tuple(replace(base, dim=dim) for dim in (10, 20, 40, 80, 160)[some]),
    }


def worst_excess(point: Point, runs: int, seed: int) -> tuple[Estimate, Estimate, float]:
    """Return the largest mean excess *on the data* over signal strengths, that at the strongest, and the plan's bound.

    Records are ``r e_1 + (1 - r) V`` with V uniform on the sphere, the loss is linear over the unit ball: the excess of
    w is ``<w, g> + |g|`` for the mean record g. For a fixed r a method may be faster than the rate. With a strong
    signal the excess is noise and nothing else; the worst is the descent's as well.
    """
    plan = plan_accelerated(
        user_problem(LinearLoss(), point.dim, point.n, point.m, 1.0),
        promise(point.epsilon),
        test="tested",
        outliers=0.02,
    )
    excess = np.zeros((runs, len(STRENGTHS)))
    for run in range(runs):
        rng, source = streams(seed, run, point.n, point.m, point.dim, int(8 * point.epsilon))
        V = unit_vectors(rng, point.n * point.m, point.dim)
        for j, r in enumerate(STRENGTHS):
            X = (1 - r) * V
            X[:, 0] += r
            g = X.mean(axis=0)
            w = plan.run(X, np.zeros(len(X)), source, same_size(point.n, point.m)).point
            excess[run, j] = w @ g + np.linalg.norm(g)
    worst = excess[:, excess.mean(axis=0).argmax()]
    return Estimate.of(worst), Estimate.of(excess[:, -1]), plan.bound


@experiment(
    "user-level/rates",
    "Does the worst excess have the exponents of the theory in users, records, epsilon and d?",
    f"{PAPER}, Theorem 3.2 and the lower bound it quotes",
)
def rates(setting: Setting) -> Outcome:
    """Measure every sweep."""
    runs = 2 if setting.quick else 8
    plans = sweeps(Point(2000, 16, 20, 8.0), quick=setting.quick)
    points = dict.fromkeys(p for chosen in plans.values() for p in chosen)
    found = {p: worst_excess(p, runs, setting.seed) for p in setting.track(points, "Measuring")}
    rows, slopes = [], {}
    for name, chosen in plans.items():
        x = [_x(p, name) for p in chosen]
        slopes[name] = exponent(x, [found[p][0] for p in chosen])
        rows += [
            (name, value, *found[p][0][:2], found[p][2], found[p][0].value / p.unit, slopes[name].value, THEORY[name])
            for value, p in zip(x, chosen, strict=True)
        ]

    def draw(figure: Figure) -> None:
        for axes, name in zip(panels(figure, len(plans)), plans, strict=True):
            x = [_x(p, name) for p in plans[name]]
            curves = {"measured": [found[p][0].value for p in plans[name]]}
            lines(axes, x, curves, (name, "worst excess"), dashed={"bound": [found[p][2] for p in plans[name]]})

    off = 0.3 if setting.quick else 0.2
    anchors = Anchors("user-level/rates", setting.quick)
    where = {p: f"n = {p.n}, m = {p.m}, d = {p.dim}, epsilon = {p.epsilon:g}" for p in points}
    return Outcome(
        ("sweep", "value", "excess", "s.e.", "bound", "of unit", "slope", "theory"),
        tuple(rows),
        f"slopes are within {off} of -1 in n and epsilon, -1/2 in m, 1/2 in d; no excess is above its bound or below a "
        "tenth of the lower bound's private term; each is near its anchor",
        (
            *(
                anchors.within(f"exponent of {name}", a, THEORY[name] - off, THEORY[name] + off, linear=True)
                for name, a in slopes.items()
            ),
            *(
                anchors.within(f"excess, {where[p]}", excess, 0.1 * p.unit, bound, "plan")
                for p, (excess, _, bound) in found.items()
            ),
            *anchors.near({f"excess, {where[p]}": excess for p, (excess, _, _) in found.items()}),
            *anchors.near(
                {f"excess at r = {STRENGTHS[-1]}, {where[p]}": strong for p, (_, strong, _) in found.items()}
            ),
        ),
        draw,
        (
            "Linear loss over the unit ball; records r e_1 + (1 - r) V, V uniform on the sphere; largest mean of "
            f"{runs} runs over {len(STRENGTHS)} strengths r. Not swept: n = 2000, m = 16, d = 20, epsilon = 8. Test "
            "and release at every step, 2.5 L/sqrt(m) apart.",
            "Unit: sqrt(d)/(epsilon n sqrt(m)), the private term of the lower bound, of which the logarithm of 1/delta "
            "is no part; that logarithm makes the slope in epsilon a little flatter, and the fixed cost of the test a "
            "little steeper than theory's in n and epsilon.",
        ),
    )


def _x(point: Point, name: str) -> float:
    return {"n": point.n, "m": point.m, "epsilon": point.epsilon, "d": point.dim}[name]
