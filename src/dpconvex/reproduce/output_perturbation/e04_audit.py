"""E4: what an attacker can prove about epsilon from releases, next to what is claimed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from dpconvex._types import FloatArray
from dpconvex.algorithms import output_perturbation
from dpconvex.audit import proved_epsilon
from dpconvex.losses import SmoothedHingeLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import DataDomain, Records
from dpconvex.problems.linear_model import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex.reproduce.base import Experiment, Outcome, Setting
from dpconvex.reproduce.output_perturbation._common import Noise, laplace, releases

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N, L2 = 3, 4.0
ERROR = 1e-2
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
    count, source = 8_000 if setting.quick else 50_000, SeededSource(setting.seed)
    centres = _centres()
    rows = []
    for attack in setting.track(_attacks(centres, setting.quick), "Attacking"):
        proved = _proved(attack, centres, count, source)
        promise = attack.privacy
        rows.append((attack.name, promise.epsilon, promise.delta, proved, proved / promise.epsilon))
    honest = [row for row in rows if "mutant" not in row[0]]
    tight = [row for row in rows if row[0] == "exact minimiser"]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        labels = [f"{name}\nepsilon {e:g}, delta {d:g}" for name, e, d, _, _ in rows]
        axes.barh(labels, [row[3] for row in rows], color=["C3" if "mutant" in row[0] else "C0" for row in rows])
        axes.plot([row[1] for row in rows], labels, "k|", markersize=18, label="claimed")
        axes.invert_yaxis()
        axes.set_xlabel(f"epsilon proved at confidence {1 - ERROR:g}")
        axes.legend()

    return Outcome(
        ("release", "epsilon claimed", "delta", "epsilon proved", "share"),
        tuple(rows),
        "nothing proved exceeds the claim, the exact minimiser's release is proved to cost 0.9 epsilon, and halved "
        "noise is refuted",
        all(row[4] <= 1 for row in honest) and all(row[4] >= 0.9 for row in tight) and rows[-1][4] > 1,
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


def _proved(attack: _Attack, centres: FloatArray, count: int, source: SeededSource) -> float:
    """Return the epsilon that the counts refute everything below, with probability at least 1 - ERROR."""
    low, high = (releases(attack.mechanism, centre, attack.privacy, count, source) for centre in centres[:, None])
    hits, others = int((high > attack.threshold).sum()), int((low > attack.threshold).sum())
    return proved_epsilon(hits, others, count, attack.privacy.delta, ERROR)


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
