r"""Localization with an exponential mechanism around each release (Lowy 2026, Algorithms 6 and 7), in finite form.

Guarantee
    Pure epsilon-DP for neighbors that replace one record, for every data set: no moment has to exist for it.
Lemma
    (8.6 of the specification.) Stage 1 releases c with epsilon/2, as in `localization`. Stage 2 selects from a finite
    net of ``W cap B(c, r_0)``, a function of c and public numbers, with epsilon/2, by computed values of the objective
    ``V(u) <= computed <= V(u) + B`` at every point of the net, for every data set. From one data set to a neighbor
    ``V(u) - V(c)`` moves by at most ``2 C r_0 / m`` and, up to a common constant, the errors by at most B: their middle
    is such a constant. Adding a constant to all scores changes no choice, so permute-and-flip with sensitivity ``2 C
    r_0 / m + B`` is epsilon/2-DP: ``epsilon_EM + 2 chi B = epsilon/2`` with ``chi = epsilon_EM m / (4 C r_0)``.
Sensitivity
    As stated, of scores up to a constant; c as in `localization`. Scores are taken off a multiple of the grid that they
    are rounded to, which for neighbors costs half a step more: a factor ``1 + 2^-20``.
Assumptions
    Those of `localization`; at most two parameters: for more, a net is too large, and ordinary Markov chains for the
    density of Algorithm 7 are not pure DP (docs, A net around each release, which also has the error).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import Floats, final_dataclass
from dpconvex.algorithms import recorded
from dpconvex.algorithms.base import P
from dpconvex.algorithms.erm.heavy_tailed import localization
from dpconvex.algorithms.erm.heavy_tailed.localization import CustomExtension, LocalizationPlan, To, check_custom
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, check_heavy
from dpconvex.algorithms.erm.heavy_tailed.schedule import TUNING, Phase, Scaled, Setting, Stage, sensitivity
from dpconvex.algorithms.erm.heavy_tailed.surrogates import SURROGATES, Data, Part, Surrogate
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import ReportNoisyMax
from dpconvex.plugins import printed
from dpconvex.privacy import PrivacyParams, Release, Sensitivity
from dpconvex.problems import CustomProblem, LinearModelProblem, Objective
from dpconvex.problems.base import inner_product_rounding
from dpconvex.problems.custom.extension import ExtendedRisk, own_rounding
from dpconvex.randomness.exact import FINENESS
from dpconvex_experiments.reference.exponential_mechanism import RADII, Ball, ball_grid, overshoot

MAX_DIM = 2
TOGETHER = 2**21  #: Most pairs of a record and a point whose planes are computed at a time.
LEMMA = "up to a constant, values in a ball of radius r move by 2 C r / m, their errors by B (Lowy 2026, Algorithm 7)"


@dataclass(frozen=True)
class NetPlan(LocalizationPlan[P]):
    """Constants of one run whose phases choose from nets."""

    compares_values: ClassVar[bool] = False  #: of the objective, for the choice

    def net(self, t: int, center: Floats) -> Floats:
        """Return the net of phase t around a center, (N, dim): a grid, projected, which brings no point farther off."""
        stage = self.phases[t].stages[0]
        return self.domain.project_rows(center + ball_grid(self.problem.dim, stage.side, stage.confine))


@final_dataclass
class LocalizedMechanismPlan(NetPlan[P]):
    """Constants of one run: each phase releases a center, then a point of the net around it."""

    compares_values: ClassVar[bool] = True
    noise_name: str = "localized permute-and-flip"
    algorithm: ClassVar[str] = "localized_exponential_mechanism"
    theorem = (  # pyright: ignore[reportAssignmentType]
        "Localized exponential mechanism in finite form (Lowy 2026, Algorithms 1, 6 and 7): output perturbation "
        "releases a center with epsilon/2, permute-and-flip a point of a public net of the ball around it with "
        "epsilon/2, scores including the error of their evaluation; parts read disjoint records."
    )

    @cached_property
    def errors(self) -> tuple[float, ...]:
        """B of each phase."""
        return tuple(evaluator_error(self.method, self.part(phase), phase.stages[0].radius) for phase in self.phases)

    @cached_property
    def choices(self) -> tuple[ReportNoisyMax, ...]:
        """What selects from the net in each phase, with half of epsilon."""
        found: list[ReportNoisyMax] = []
        for phase, error in zip(self.phases, self.errors, strict=True):
            moved = (2 * phase.truncation.level * phase.stages[0].confine / phase.m + error) * (1 + 2 * FINENESS)
            found.append(ReportNoisyMax(Sensitivity(moved, "linf", LEMMA), self.privacy.epsilon / 2))
        return tuple(found)

    @property
    def releases(self) -> tuple[Release, ...]:
        """A center and a choice for each part of each phase; every record is read by one part."""
        return tuple(
            each.planned(f"{name} of phase {t}, part {j}", f"records of phase {t}, part {j}")
            for t, (phase, (center,), choice) in enumerate(zip(self.phases, self.noises, self.choices, strict=True), 1)
            for j in range(1, phase.repetitions + 1)
            for name, each in (("center", center), ("point of the net", choice))
        )

    @property
    def coefficient_deviation(self) -> Floats:
        """Spread of the last choice where the ridge alone bends the objective, at most the ball's radius."""
        phase, choice = self.phases[-1], self.choices[-1]
        sharpness = choice.epsilon / (2 * choice.sensitivity.value) * phase.l2
        return np.full(self.problem.dim, min(1 / math.sqrt(sharpness), phase.stages[0].confine))

    def describe(self) -> Mapping[str, Any]:
        nets = [
            {"ball_radius": phase.stages[0].confine, "side": phase.stages[0].side, "evaluator_error": error}
            for phase, error in zip(self.phases, self.errors, strict=True)
        ]
        return {**super().describe(), "nets": nets}

    def scores(self, t: int, risk: Objective, net: Floats, center: Floats) -> Floats:
        """Return minus the computed values on the net (Algorithm 6), less a multiple of the grid of scores."""
        step = self.choices[t].step
        return np.rint(upper_values(risk, center[None]) / step) * step - upper_values(risk, net)

    def _part(self, t: int, data: Data, center: Floats, releases: Iterator[Release], to: To) -> Floats:
        part, (stage,), (mechanism,) = self.part(self.phases[t]), self.phases[t].stages, self.noises[t]
        solved = self.method.minimize(part, data, center, (self.domain, stage.radius, center))  # Algorithm 7, line 1
        entry = next(releases)
        found = self.domain.project(mechanism.release(solved, entry.label, *to, entry.block))
        net, entry = self.net(t, found), next(releases)
        scores = self.scores(t, self.method.risk(part, data, center, stage.radius), net, found)
        return net[self.choices[t].release(scores, entry.label, *to, entry.block)]  # line 7


def evaluator_error(method: Surrogate, part: Part, radius: float) -> float:
    """Return B: how far computed values of the risk, up to a constant, are from the exact ones, for every data set."""
    if isinstance(method, CustomExtension):
        extender = method.extender(part, radius)
        return extender.tolerance + own_rounding(extender, part.l2)
    R, slack = part.problem.radius, inner_product_rounding(part.problem.dim)
    return 4 * slack * (part.problem.loss.value_at_zero + (part.level + 4 * part.l2 * R) * R)


def upper_values(risk: Objective, points: Floats) -> Floats:
    """Return values at points (k, dim) of the ball, above the risk by at most its `oracle_error` and rounding."""
    if not isinstance(risk, ExtendedRisk):
        return np.array([risk.value(w) for w in points])
    size = max(1, TOGETHER // len(risk.rows))
    parts = [risk.planes(points[k : k + size]).upper for k in range(0, len(points), size)]
    means = np.concatenate(parts).reshape(len(points), -1).mean(1)
    return means + risk.l2 / 2 * np.square(points - risk.center).sum(1)


def net_release(setting: Setting, m: int) -> Scaled:
    """Return a phase with a center and a choice; what has the unit of a parameter is times lambda."""
    level = setting.level(m)
    tau = TUNING.accuracy * level / m
    shift = TUNING.smoothing * setting.problem.dim * 4 * (level / m + tau) / setting.epsilon * setting.smooths
    rest = shift + setting.bias(level, m) + setting.moments.g2 / math.sqrt(m)  # smoothing, surrogates, sampling

    def phase(layout: tuple[int, int, int], l2: float) -> Phase:
        truncation = setting.truncation(level, l2, shift)
        radius = max(TUNING.accuracy * level / (l2 * m), setting.finest(truncation, l2, m))
        error = evaluator_error(setting.surrogate, setting.part(truncation, l2, m), radius)
        net = best_net(setting, level, m, radius * l2, error * l2)
        stage = Stage(radius, sensitivity(level, l2, m, radius), 0.5, net.radius / l2, net.side)
        return Phase(*layout, m, l2, truncation, (stage,), (net.bound + rest) / l2)

    return Scaled(best_net(setting, level, m, tau, 0.0).bound + rest, phase)  # by exact values; a phase adds rounding


def best_net(setting: Setting, C: float, m: int, tau: float, error: float) -> Ball:
    """Return the net of the smallest error; all but the side, and what is given of solver and values, times lambda."""
    d, half = setting.problem.dim, setting.epsilon / 2
    theta = (2 * C / m + 2 * tau) / half
    most = min(2**8, 2**22 // m) if isinstance(setting.surrogate, CustomExtension) else min(2**14, 2**30 // m)
    largest = int(max(9, most) ** (1 / d))  # so many values of the risk are computed in acceptable time
    sides = np.unique(np.geomspace(3, max(3, largest), 30).astype(int) // 2 * 2 + 1)
    sides = sides[sides <= max(3, largest)][None, :]
    confine = tau + theta * RADII[:, None]
    first, second = overshoot(d, RADII[:, None])
    first, second = theta * first, theta**2 * second
    g = 2 * confine / (sides - 1) * math.sqrt(d)
    moved = 2 * C * (g + first) + (g**2 + 2 * g * first + second) / 2
    squares = 2 * (2 / half * (2 * C * confine / m + error) * d * np.log(sides) + moved)
    i, j = np.unravel_index(int(np.argmin(squares)), squares.shape)
    return Ball(math.sqrt(float(squares[i, j])), float(confine[i, 0]), int(sides[0, j]))


@printed("localized_exponential_mechanism, level given")
def planned(
    problem: Any, *given: Any, kind: Any = LocalizedMechanismPlan, scaling: Callable[..., Scaled] = net_release
) -> Any:
    """Return the plan, of this kind, for a surrogate that fits the problem; `given` as in `localization.planned`."""
    if problem.dim > MAX_DIM:
        what = f"must be at most {MAX_DIM}, a constant included: larger nets are unaffordable, pure samplers unknown"
        raise InvalidParameterError("dim", problem.dim, what, "Use algorithm='heavy_tailed'")
    if kind.compares_values and math.isinf(problem.value_at_zero):
        what = "must have bounded targets for this algorithm, or values round without a bound"
        raise InvalidParameterError("loss", problem.name, what, "Give it a target_bound")
    return localization.planned(problem, *given, kind=kind, scaling=scaling)


@printed("localized_exponential_mechanism")
@recorded("localized_exponential_mechanism")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments, *, failure: float | None = None
) -> LocalizedMechanismPlan[LinearModelProblem]:
    """Return the plan for one or two parameters; it spends pure epsilon. Other parameters as in `localization.plan`."""
    check_heavy(problem, privacy, moments)
    return planned(problem, privacy, moments, SURROGATES["truncated"], "calibrated", failure)


@printed("localized_exponential_mechanism_custom")
@recorded("localized_exponential_mechanism_custom")
def plan_custom(
    problem: CustomProblem, privacy: PrivacyParams, moments: Moments, *, failure: float | None = None
) -> LocalizedMechanismPlan[CustomProblem]:
    """Return the plan for a loss of one's own, by its Lipschitz extension."""
    check_custom(problem, privacy, moments)
    return planned(problem, privacy, moments, CustomExtension(), "calibrated", failure)
