"""E4: what an attacker can prove about epsilon from releases, next to what is claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpconvex._types import FloatArray
from dpconvex.algorithms.erm import output_perturbation
from dpconvex.audit import proved_epsilon
from dpconvex.losses import SmoothedHingeLoss
from dpconvex.mechanisms import GaussianMechanism
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, Records
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex_experiments import checks
from dpconvex_experiments.base import Experiment, Figure, Outcome, Setting
from dpconvex_experiments.checks import SINGLE, Check
from dpconvex_experiments.output_perturbation._common import Noise, laplace, releases

N, L2 = 3, 4.0
LIMITS = {"exact minimiser": (0.6, 1.0), "solver radius charged": (0.4, 1.0), "mutant: half the noise": (1.0, 2.0)}
"""Of the epsilon that is proved, as a share of what is claimed."""
DELTA = 0.05
"""Large, so that the best events are frequent enough to be counted."""


@dataclass(frozen=True)
class _Attack:
    """A release of one number, and the half line above `threshold` as the event."""

    name: str
    privacy: PrivacyParams
    mechanism: Noise
    threshold: float


def measure(setting: Setting) -> Outcome:
    """Release the two minimisers of the worst neighbours, and count the worst event."""
    count, source = 5_000 if setting.quick else 50_000, SeededSource(setting.seed)
    centres = _centres()
    rows, found = [], list[Check]()
    for attack in setting.track(_attacks(centres, setting.quick), "Attacking"):
        counts = _counts(attack, centres, count, source)
        promise = attack.privacy
        proved = proved_epsilon(*counts, count, promise.delta, SINGLE)
        rows.append((attack.name, promise.epsilon, promise.delta, proved, proved / promise.epsilon))
        name = f"{attack.name}, epsilon = {promise.epsilon:g}, delta = {promise.delta:g}"
        for k, (hits, centre) in enumerate(zip(counts, centres[::-1], strict=True)):
            p = _above(attack, float(centre))
            found.append(checks.share(f"above, neighbour {k}: {name}", hits, count, p, p))
        low, high = LIMITS[attack.name]
        share, error = proved / promise.epsilon, math.sqrt(sum(1 / max(n, 1) for n in counts)) / promise.epsilon
        found.append(Check(f"share proved: {name}", share, error, count, low, high, "theorem", "binomial", SINGLE))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        labels = [f"{name}\nepsilon {e:g}, delta {d:g}" for name, e, d, _, _ in rows]
        axes.barh(labels, [row[3] for row in rows], color=["C3" if "mutant" in row[0] else "C0" for row in rows])
        axes.plot([row[1] for row in rows], labels, "k|", markersize=18, label="claimed")
        axes.invert_yaxis()
        axes.set_xlabel(f"epsilon proved at confidence 1 - {SINGLE:g}")
        axes.legend()

    return Outcome(
        ("release", "epsilon claimed", "delta", "epsilon proved", "share"),
        tuple(rows),
        "nothing proved exceeds the claim, the exact minimiser's release is proved to cost 0.6 epsilon at least, "
        "halved noise is refuted, and events are as frequent as the noise says",
        tuple(found),
        draw,
        (
            f"{count} releases of each of two neighbours (n = {N}, one label turned). The event is the half line that "
            "separates the two densities best, known in advance; Clopper-Pearson bounds on its two probabilities.",
        ),
    )


def _attacks(centres: FloatArray, quick: bool) -> list[_Attack]:
    distance, top = float(centres[1] - centres[0]), float(centres[1])
    pure, one = [2.0] if quick else [0.5, 1.0, 2.0], PrivacyParams(1.0)
    attacks = [_Attack("exact minimiser", PrivacyParams(e), laplace(1, distance, e), top) for e in pure]
    if not quick:
        attacks.append(_Attack("solver radius charged", one, _plan(one).mechanism, top))
    approximate = PrivacyParams(1.0, DELTA)
    plan = _plan(approximate)
    attacks.append(_Attack("solver radius charged", approximate, plan.mechanism, _best(centres, plan.deviation)))
    return [*attacks, _Attack("mutant: half the noise", one, laplace(1, distance / 2, 1.0), top)]


def _plan(privacy: PrivacyParams) -> output_perturbation.OutputPerturbationPlan:
    problem = LinearModelProblem(SmoothedHingeLoss(0.5), DataDomain.l2_ball(1, 1.0), N, 1.0)
    kind = "l2" if privacy.pure else "gaussian"
    return output_perturbation.plan(problem, privacy, l2=L2, noise=kind)[0]


def _centres() -> FloatArray:
    """Minimisers of two neighbours: the labels' mean over l2, as all margins stay in the linear part of the loss."""
    plan = _plan(PrivacyParams(1.0))
    records = Records.clipped(np.ones((N, 1)), plan.problem.domain)
    labels = ([1.0, -1.0, -1.0], [1.0, -1.0, 1.0])
    risks = [plan.problem.on(records, np.array(y), L2) for y in labels]
    return np.array([plan.solver.solve(risk, 1e-10).point[0] for risk in risks])


def _counts(attack: _Attack, centres: FloatArray, count: int, source: SeededSource) -> tuple[int, int]:
    """Return how often the event happens, for the upper minimiser and for the lower."""
    low, high = (releases(attack.mechanism, centre, attack.privacy, count, source) for centre in centres[:, None])
    return int((high > attack.threshold).sum()), int((low > attack.threshold).sum())


def _above(attack: _Attack, centre: float) -> float:
    """Return the probability of the event."""
    mechanism = attack.mechanism
    if isinstance(mechanism, GaussianMechanism):
        return float(stats.norm.sf(attack.threshold, centre, mechanism.sigma))
    return float(stats.laplace.sf(attack.threshold, centre, mechanism.scale))


def _best(centres: FloatArray, sigma: float) -> float:
    """Return the threshold of the half line that shows most of a Gaussian's epsilon at DELTA."""
    points = np.linspace(centres[0], centres[1] + 3 * sigma, 200)
    likely, rare = (stats.norm.sf(points, centre, sigma) for centre in (centres[1], centres[0]))
    return float(points[np.argmax(np.where(likely > 2 * DELTA, (likely - DELTA) / rare, 0.0))])


E4 = Experiment(
    "output-perturbation/e4-audit",
    "What epsilon can an attacker prove?",
    "Lowy and Razaviyayn, Proposition 3.1",
    measure,
)
