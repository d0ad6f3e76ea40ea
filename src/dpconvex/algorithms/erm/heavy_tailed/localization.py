r"""Pure-DP stochastic convex optimization with heavy tails: population localization (Lowy 2026, Algorithms 1, 2, 4).

Guarantee
    Pure epsilon-DP for neighbors that replace one record, for every data set: no moment has to exist for it.
Lemma
    Per-record surrogates are convex and C-Lipschitz (losses with their slopes cut, `dpconvex.losses.derived`), so
    the ridge risk of m records is lambda-strongly convex and two neighbors' exact minimizers over the ball differ by
    at most ``2C/(lambda m)``; the certified point by at most ``2C/(lambda m) + 2 tau`` (docs, Heavy tails). Noise of
    density ``exp(-|b| / beta)``, ``beta = (2C/(lambda m) + 2 tau)/epsilon``, makes each release epsilon-DP. Every
    record is read by one release only, and later releases use earlier ones as public centers: parallel composition.
Sensitivity
    In l2, for one replaced record, n and the assignment of records to phases by their position being public.
Assumptions
    Levels, weights and sizes are functions of public numbers. Moments are declared; privacy does not use them.
Deviations
    Slopes are truncated instead of losses extended, and records are interleaved in phases by position. Calibrated
    constants: one stage instead of two (erratum E1: the second is not needed for the rate), and those of the docs.
Custom losses (`CustomExtension`): their Lipschitz extensions over the ball, pure epsilon too
    Lemma A.1 of the specification: the extension ``f_C(w) = min over |y| <= R of f(y) + C |w - y|`` of a convex f is
    convex and C-Lipschitz, with the sensitivity above. Certified points come from cutting planes on planes of Lemma 8.3
    (`problems.custom.extension`). The declared largest slope A decides step counts and the rounding floor alone. The
    oracle's error and rounding are planned to be below ``alpha/4``, ``alpha = lambda tau^2 / 2``, so cutting planes end
    with a certificate on every data set (docs, Losses of your own).
    Declared, not enforced: every record's loss is finite and convex, its subgradients are true and at most A long. A
    record is clipped into the domain before anything is solved, and never replaced for what the function returned.
    A function that breaks its promise ends the run with an error, a violated assumption. Without convexity the
    sensitivity is the diameter, so there is no such mode for ``trusted=False``.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, attributes, final_dataclass, forwarded
from dpconvex.algorithms import ConvexPlan, PredictedError, PrivateResult, check_relation, recorded
from dpconvex.algorithms.base import P, beyond_floats
from dpconvex.algorithms.erm.heavy_tailed import schedule as schedules, surrogates
from dpconvex.algorithms.erm.heavy_tailed.moments import Moments, check_heavy, check_moments, extreme
from dpconvex.algorithms.erm.heavy_tailed.surrogates import SURROGATES, Data, Part, Surrogate, surrogate_named
from dpconvex.algorithms.erm.output_perturbation.plan import DECLARED, RETURNS
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import L2Norm
from dpconvex.mechanisms import NormNoiseMechanism
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.problems import CustomProblem, LinearModelProblem, Records, UserGroups
from dpconvex.problems.custom.extension import ExtendedRisk, Extender, own_rounding
from dpconvex.randomness import BitSource
from dpconvex.sets import BallSection, ConvexSet, L2Ball, Section

To = tuple[BitSource, Ledger]
LEMMA = (
    "strong convexity of a ridge risk of convex C-Lipschitz losses (Lowy 2026, Section 2, with {losses}): "
    "2C/(l2 m), plus 2 tau for the certified solver accuracy"
)


@dataclass(frozen=True)
class LocalizationPlan(ConvexPlan[P]):
    """Constants of one run of population localization, over the ball of the problem's radius; `_part` is its ERM."""

    problem: P
    privacy: PrivacyParams  #: the promise, whose delta is not used
    moments: Moments
    schedule: schedules.Schedule
    failure: float | None = None  #: probability with which the bound may fail; None: it holds in expectation
    constants: str = "calibrated"
    method: Surrogate = SURROGATES["truncated"]  #: the surrogate that a part of a phase minimizes, with its solver
    constraint: ConvexSet | None = None  #: None: the ball of the problem's radius
    noise_name: str = "l2"
    source: ClassVar[str] = "population localization by output perturbation (docs, Heavy tails)"
    phases = forwarded("schedule", "phases")

    def __post_init__(self) -> None:
        self.schedule.check(self.problem.n)

    @property
    def l2(self) -> float:
        return self.phases[0].l2

    @property
    def domain(self) -> ConvexSet:
        """The set W of parameters, over which losses are extended."""
        return L2Ball(self.problem.radius) if self.constraint is None else self.constraint

    def part(self, phase: schedules.Phase) -> Part:
        """Return the public facts of one minimization."""
        return Part(self.problem, self.domain, phase.truncation, phase.l2, phase.m, self.moments)

    @cached_property
    def noises(self) -> tuple[tuple[NormNoiseMechanism, ...], ...]:
        """The noise of each stage of each phase."""
        norm, epsilon, lemma = L2Norm(self.problem.dim), self.privacy.epsilon, LEMMA.format(losses=self.method.losses)
        return tuple(
            tuple(NormNoiseMechanism(norm, Sensitivity(s.reach, "l2", lemma), epsilon * s.share) for s in phase.stages)
            for phase in self.phases
        )

    def near(self, point: Floats, stage: schedules.Stage) -> ConvexSet:
        """Return the set in which the stage after `stage`, which released `point`, minimizes."""
        if math.isinf(stage.confine):
            return self.domain
        if self.constraint is None:
            return BallSection(self.problem.radius, stage.confine, point)
        return Section(self.constraint, stage.confine, point)

    @property
    def predicted_error(self) -> PredictedError:
        but = "" if self.failure is None else f"; it holds but for probability {self.failure:.3g}"
        trivial = min(self.problem.value_at_zero, self.moments.g1 * self.problem.radius)
        return PredictedError(self.schedule.bound, trivial, self.source + but)

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """One release for each stage of each part of each phase; every record is read by one part."""
        return tuple(
            mechanism.planned(f"minimizer of phase {t}, part {j}, stage {i}", f"records of phase {t}, part {j}")
            for t, (phase, mechanisms) in enumerate(zip(self.phases, self.noises, strict=True), 1)
            for j in range(1, phase.repetitions + 1)
            for i, mechanism in enumerate(mechanisms, 1)
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        claims = [Assumption(claim, DECLARED) for claim in self.problem.claims]
        return (
            Assumption("every record's loss is convex and C-Lipschitz", self.method.lipschitz),
            Assumption("the objective of each phase is l2-strongly convex", "the ridge is part of the objective"),
            Assumption("the solver's point is within tau of the minimizer for all data sets", self.method.reached),
            Assumption("records are assigned to phases by position", "fixed strides, whatever the records hold"),
            *([*claims, RETURNS] if claims else ()),
        )

    @property
    def coefficient_deviation(self) -> Floats:
        return np.full(self.problem.dim, self.noises[-1][-1].scale * math.sqrt(self.problem.dim + 1))

    def describe(self) -> Mapping[str, Any]:
        chosen: dict[str, Any] = {} if self.method is SURROGATES["truncated"] else {"surrogate": self.method.name}
        if self.constraint is not None:
            chosen["constraint"] = repr(self.constraint)
        price = {} if self.schedule.price == 1 else {"repetition_price": self.schedule.price}
        facts = {"noise": self.noise_name, "target": "population", **chosen, **self.moments.describe()}
        phases = []
        for phase, mechanisms in zip(self.phases, self.noises, strict=True):
            own = {"records": phase.m, **attributes(phase, "repetitions", "l2")}
            own |= attributes(phase.truncation, "level", "smoothing")
            own |= {"solver_radius": [stage.radius for stage in phase.stages]}
            own |= {"noise_scale": [mechanism.scale for mechanism in mechanisms]}
            phases.append({**own, **self.method.work(self.part(phase), phase.stages[-1].radius)})
        return {**facts, "failure_probability": self.failure, **price, "phases": phases}

    def exact_bits(self, source: BitSource) -> bool:
        """Return False: the noise is drawn in floating point, guarded by two grids."""
        return False

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        problem: Any = self.problem
        releases = iter(self.releases)
        center = self.domain.project(np.zeros(problem.dim))  # line 1
        for t, phase in enumerate(self.phases):  # lines 5-7
            found = []
            for j in range(phase.repetitions):  # lines 8-10
                start, step = phase.first + j * phase.step, phase.repetitions * phase.step
                rows = slice(start, start + step * phase.m, step)
                data = Records.clipped(X[rows], problem.domain), y[rows]
                found.append(self._part(t, data, center, releases, (source, ledger)))
            center = middle(np.array(found))  # line 11
        return self.finish(center, source)

    @abstractmethod
    def _part(self, t: int, data: Data, center: Floats, releases: Iterator[Release], to: To) -> Floats:
        """Return the point that one part of phase t releases; `releases` yields the planned releases still to come."""


@final_dataclass
class HeavyTailedPlan(LocalizationPlan[P]):
    """Constants of one run of population localization by output perturbation."""

    algorithm: ClassVar[str] = "heavy_tailed"

    @property
    def theorem(self) -> str:
        return (
            "Localized output perturbation (Lowy 2026, Algorithm 1, with one output perturbation a part of a phase, or "
            "two that share epsilon): the certified minimizer moves by at most 2C/(l2 m) + 2 tau between neighbors, C "
            f"being the slope that no record's loss exceeds ({self.method.lipschitz}); parts read disjoint records."
        )

    def _part(self, t: int, data: Data, center: Floats, releases: Iterator[Release], to: To) -> Floats:
        phase, region, point = self.phases[t], self.domain, center
        source, ledger = to
        for stage, mechanism in zip(phase.stages, self.noises[t], strict=True):
            solved = self.method.minimize(self.part(phase), data, center, (region, stage.radius, point))
            entry = next(releases)
            noisy = mechanism.release(solved, entry.label, source, ledger, entry.block)
            point = region.project(noisy)
            region = self.near(point, stage)
        return point


def middle(points: Floats) -> Floats:
    """Return the point with the smallest ball around it that holds more than half of all points; the first of ties.

    If more than half of the points (J, dim) are within r of some place, the result is within 3 r of that place.
    """
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    return points[np.argmin(np.sort(distances, axis=1)[:, len(points) // 2])]


def check_constraint(problem: LinearModelProblem, constraint: ConvexSet | None) -> None:
    """Raise `InvalidParameterError` unless the set fits the problem, from public facts."""
    if constraint is None:
        return
    if constraint.dim not in (None, problem.dim) or not 1e-100 < constraint.diameter < math.inf:
        what = f"must be a bounded set of more than one vector of length {problem.dim}, the constant's entry last"
        raise InvalidParameterError("constraint", constraint, what, "Use a Box, Ellipsoid, L2Ball or Polytope")


@recorded("heavy_tailed")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments, *, constants: str = "calibrated",
    failure: float | None = None, surrogate: str = "truncated", constraint: ConvexSet | None = None,
) -> HeavyTailedPlan[LinearModelProblem]:  # fmt: skip
    """Return the plan, which spends pure epsilon, whatever delta is.

    The domain should be wide (`record_cap`): no noise depends on it. The loss has one prediction and is smooth or
    piecewise linear; its slope need not be bounded. Moments are of the gradients over the ball of the problem's radius.

    ``constants="calibrated"``: one output perturbation a phase. ``"paper"``: the printed double output perturbation
    with its repetitions, useful for n in the millions only; `failure` is 0.1 if not given. `failure`, in (0, 1/2), lets
    the bound hold but for this probability, by repetitions in each phase, which cost records; None: in expectation.

    `surrogate` stands in for every record's loss. ``"truncated"``: its slope is cut. ``"extension"``, ``"structured"``,
    ``"joint"``, ``"fixed_steps"``, ``"printed_steps"``: its Lipschitz extension over the set, with exact planes from
    proximal points or from weights of affine pieces, by the joint problem, or by Theorem D.4's fixed steps; the last
    three for some dozens to hundreds of records. `constraint` is a bounded set of parameters (the constant last), by
    default the ball; the problem's radius has to be its radius.
    """
    check_heavy(problem, privacy, moments)
    method = surrogate_named(surrogate)
    method.check(problem)
    check_constraint(problem, constraint)
    if constraint is not None and constraint.radius > problem.radius:
        raise InvalidParameterError("radius", problem.radius, f"must be at least the set's, {constraint.radius!r}")
    return planned(problem, privacy, moments, method, constants, failure, constraint)


def planned(
    problem: Any, privacy: PrivacyParams, moments: Moments, method: Surrogate, constants: str, failure: float | None,
    constraint: ConvexSet | None = None, level: float | None = None, *, kind: Callable[..., Any] = HeavyTailedPlan,
    scaling: Callable[[schedules.Setting, int], schedules.Scaled] = schedules.one_release,
) -> Any:  # fmt: skip
    """Return the plan, of class `kind`; with a `level` all phases cut there, and `moments` are of the cut losses."""
    _validate.optional(_validate.real, {"failure": failure}, above=0.0, below=0.5)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    try:
        setting = schedules.Setting.of(problem, privacy.epsilon, moments, method, constraint, level)
        if constants == "paper" and level is None:
            failure = 0.1 if failure is None else failure
            schedule = of_paper("heavy_tailed")(setting, failure)
        else:
            schedule = schedules.calibrated(setting, failure, scaling)
        found = kind(problem, privacy, moments, schedule, failure, constants, method, constraint)
        _ = [release.event for release in found.releases]  # noise scales, too, are floats
        return found
    except (ArithmeticError, ValueError) as error:  # constants that no float holds
        if isinstance(error, InvalidParameterError) and error.name in ("n", "surrogate"):
            raise
        raise (extreme(problem.name, moments) if level is None else beyond_floats(problem.name)) from None


@final_dataclass
class CustomExtension(surrogates.Extension):
    """Lipschitz extensions over the ball of losses with a declared slope."""

    name: str = "extension of any convex loss"
    lipschitz = "it is the Lipschitz extension over the ball of a loss that is declared convex"

    def finest(self, part: Part) -> float:
        return math.sqrt(32 * own_rounding(self.extender(part), part.l2) / part.l2)  # rounding <= alpha / 16

    def risk(self, part: Part, data: Data, center: Floats, radius: float) -> ExtendedRisk:
        return ExtendedRisk(part.problem.function, data[0], part.l2, self.extender(part, radius), center)

    def work(self, part: Part, radius: float) -> dict[str, Any]:
        return {"evaluations_of_a_record": 1 + self.extender(part, radius).steps_for(part.problem.dim)}

    def extender(self, part: Part, radius: float = math.inf) -> Extender:
        """Return the extender of a part, whose planes are accurate to ``alpha / 8``."""
        problem = part.problem
        return Extender(part.level, problem.lipschitz, problem.radius, part.l2 * radius**2 / 16)


def check_custom(problem: CustomProblem, privacy: PrivacyParams, moments: object) -> None:
    """Raise `InvalidParameterError` unless methods for heavy tails apply to these public facts."""
    check_moments(moments)
    check_relation(privacy)
    if not problem.trusted:
        what = "must be True with heavy_tailed: without convexity one record moves minimizers across the ball"
        raise InvalidParameterError("trusted", False, what, "Leave heavy_tailed out: noise then covers the ball")
    if problem.aggregation != "average":
        what = "must be an average over records for heavy_tailed: moments are of the slopes of single records"
        raise InvalidParameterError("function", problem.name, what, "Write a RecordLoss")


@recorded("heavy_tailed_custom")
def plan_custom(
    problem: CustomProblem, privacy: PrivacyParams, moments: Moments,
    *, constants: str = "calibrated", failure: float | None = None,
) -> HeavyTailedPlan[CustomProblem]:  # fmt: skip
    """Return the plan, which spends pure epsilon, whatever delta is; parameters as in `plan`."""
    check_custom(problem, privacy, moments)
    return planned(problem, privacy, moments, CustomExtension(), constants, failure)
