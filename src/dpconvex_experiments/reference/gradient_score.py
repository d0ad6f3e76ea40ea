r"""Localization with an exponential mechanism on lengths of projected gradients (Lowy 2026, Algorithm 5, Theorem E.2).

Guarantee
    Pure epsilon-DP for neighbors that replace one record, for every data set: no moment has to exist for it.
Lemma
    (Lemma 5 of the docs.) ``s(w) = |w - project(w - gamma (g(w) + lambda (w - c)))| / gamma``, g the mean of the
    gradients of convex C-Lipschitz losses (`problems.linear.truncated`). A replaced record moves ``g(w)`` by at most
    ``2C/m`` and projections do not expand, so every score moves by at most that, for any *public* step gamma. The net
    is a function of the center, released before, and of public numbers: permute-and-flip selects with epsilon, exactly.
Sensitivity
    ``2C/m`` in linf, plus what rounding moves two computed scores by. Every record is read by one part of one phase.
Assumptions
    Level, step, net and assignment of records are public. At most two parameters: nets grow like ``(1/spacing)^d``.
Deviations
    The paper's step for kinks depends on the data (erratum E7), and so does its privacy. Kinks are smoothed by public
    Moreau envelopes, the net is one of the ball of radius ``C/lambda`` around c, slopes are cut, not gradients (docs,
    Heavy tails, The exponential mechanism, which also has the error).
"""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import recorded
from dpconvex.algorithms.base import P
from dpconvex.algorithms.erm.heavy_tailed.localization import To
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, check_heavy
from dpconvex.algorithms.erm.heavy_tailed.schedule import Phase, Scaled, Setting, Stage, sensitivity
from dpconvex.algorithms.erm.heavy_tailed.surrogates import SURROGATES, Data
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.plugins import printed
from dpconvex.privacy import Assumption, PrivacyParams, Release, Sensitivity
from dpconvex.problems import LinearModelProblem, Objective
from dpconvex.problems.base import ROUNDING
from dpconvex.problems.linear.truncated import Truncation
from dpconvex_experiments.reference import localized_mechanism
from dpconvex_experiments.reference.localized_mechanism import NetPlan

LEMMA = "a mean of gradients cut to length C moves by at most 2C/m, and projections do not expand; plus rounding"


@final_dataclass
class GradientScorePlan(NetPlan[P]):
    """Constants of one run: each part of a phase chooses a point of the net by the length of its projected gradient."""

    noise_name: str = "permute-and-flip"
    algorithm: ClassVar[str] = "gradient_score"
    source: ClassVar[str] = "population localization by choices on projected gradients (docs, Heavy tails)"

    def step(self, phase: Phase) -> float:
        """Return gamma, public."""
        problem: Any = self.problem
        return 1 / (phase.truncation.curvature(problem.loss, problem.domain.l2) + phase.l2)

    @cached_property
    def noises(self) -> tuple[tuple[ReportNoisyMax, ...], ...]:
        """What selects in each phase."""
        found: list[tuple[ReportNoisyMax, ...]] = []
        for phase in self.phases:
            size = phase.truncation.level + 2 * (1 / self.step(phase) + phase.l2) * self.problem.radius
            moved = (2 * phase.truncation.level / phase.m + 2 * ROUNDING * size) * (1 + 1e-12)
            found.append((ReportNoisyMax(Sensitivity(moved, "linf", LEMMA), self.privacy.epsilon),))
        return tuple(found)

    @property
    def theorem(self) -> str:
        return (
            "Localized exponential mechanism on projected gradients (Lowy 2026, Algorithms 1 and 5, Theorem E.2): "
            "permute-and-flip selects a point of a public net around the last center; parts read disjoint records."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption("every record's gradient has length at most C", self.method.lipschitz),
            Assumption("net, step and level are public", "they are computed from the plan and released centers"),
            Assumption("records are assigned to phases by position", "fixed strides, whatever the records hold"),
        )

    @property
    def coefficient_deviation(self) -> Floats:
        """Spread of the last choice, at most the net's radius."""
        stage, away = self.phases[-1].stages[0], self.noises[-1][0].scale / self.phases[-1].l2
        return np.full(self.problem.dim, min(away * (1 + self.problem.dim * math.log(stage.side)), stage.confine))

    def describe(self) -> Mapping[str, Any]:
        stages = [phase.stages[0] for phase in self.phases]
        return {**super().describe(), "nets": [{"ball_radius": s.confine, "side": s.side} for s in stages]}

    def scores(self, t: int, risk: Objective, net: Floats) -> Floats:
        """Return minus the lengths of the projected gradients at the points of a net, shape (N,)."""
        gamma = self.step(self.phases[t])
        slopes = np.array([risk.gradient(w) for w in net])
        return -np.linalg.norm(net - self.domain.project_rows(net - gamma * slopes), axis=1) / gamma

    def _part(self, t: int, data: Data, center: Floats, releases: Iterator[Release], to: To) -> Floats:
        net, entry = self.net(t, center), next(releases)  # line 1
        risk = self.method.risk(self.part(self.phases[t]), data, center, 0.0)
        scores = self.scores(t, risk, net)  # lines 2 and 3
        return net[self.noises[t][0].release(scores, entry.label, *to, entry.block)]  # line 4


def choice(setting: Setting, m: int) -> Scaled:
    """Return a phase with one choice; what has the unit of a parameter is times lambda."""
    level = setting.level(m)
    rest = setting.bias(level, m) + setting.moments.g2 / math.sqrt(m)  # surrogates, sampling
    first = (rest + 4 * level / (m * setting.epsilon)) / setting.diameter  # about the first phase's ridge weight

    def phase(layout: tuple[int, int, int], l2: float) -> Phase:
        reach = setting.reach if layout[0] == 0 else setting.diameter  # of W from the center; the first one is public
        confine = min(reach, level / l2)
        error, side, smoothing = best_net(setting, level, m, confine, l2)
        truncation = Truncation(level, setting.problem.radius, smoothing)
        stage = Stage(0.0, sensitivity(level, l2, m, 0.0), 1.0, confine, side)
        return Phase(*layout, m, l2, truncation, (stage,), (error + rest) / l2)

    return Scaled(best_net(setting, level, m, setting.reach, first)[0] + rest, phase)  # by a net of all of W


def best_net(setting: Setting, C: float, m: int, confine: float, l2: float) -> tuple[float, int, float]:
    """Return a bound on lambda times the distance from the minimizer, with the side and smoothing that minimize it."""
    d = setting.problem.dim
    largest = max(3, int(min(2**12, 2**26 // m) ** (1 / d)))  # 2^26 gradients of records take seconds
    sides = np.unique(np.geomspace(3, largest, 30).astype(int) // 2 * 2 + 1)
    sides = sides[sides <= largest]
    eta = 2 * confine / (sides - 1) * math.sqrt(d)
    if setting.smooths:
        smoothing = (4 * eta / (C * math.sqrt(l2))) ** (2 / 3)  # minimizes what depends on it
        off = 2 * (1 / smoothing + l2) * eta + C * np.sqrt(smoothing * l2)
    else:
        smoothing = np.ones(len(sides))
        off = 2 * (setting.problem.loss.curvature_bound * setting.problem.domain.l2**2 + l2) * eta
    errors = 4.0001 * C / (m * setting.epsilon) * np.hypot(1 + d * np.log(sides), math.pi / math.sqrt(6)) + off
    best = int(np.argmin(errors))
    return float(errors[best]), int(sides[best]), float(smoothing[best])


planned = printed("gradient_score, level given")(
    partial(localized_mechanism.planned, kind=GradientScorePlan, scaling=choice)
)
"""To the plan, as `localization.planned`."""


@printed("gradient_score")
@recorded("gradient_score")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments, *, failure: float | None = None
) -> GradientScorePlan[LinearModelProblem]:
    """Return the plan for one or two parameters; it spends pure epsilon. Other parameters as in `localization.plan`."""
    check_heavy(problem, privacy, moments)
    return planned(problem, privacy, moments, SURROGATES["truncated"], "calibrated", failure)
