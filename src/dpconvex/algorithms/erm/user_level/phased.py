r"""Phased one-pass SGD over parts of the users (Lowy, Liu and Asi 2024, Algorithm 1).

Guarantee
    (epsilon, delta)-DP for neighbors that replace one *user*: everything that the data hold under one label.
Lemma
    Users are put into disjoint phases, and within a phase into C disjoint parts, by uniform coins. Given the coins and
    what earlier phases released, a user moves the result of one part of one phase. The release of a phase is
    (epsilon, delta)-DP for one replaced result of a part, whatever the results are (`aggregates`): parallel
    composition over phases. Averaging over the coins keeps the guarantee (joint convexity), and as they are uniform,
    it does not matter where a replaced user stands among the others.
Sensitivity
    A mean of C points, one of which moves, changes in l2 by at most 2 c / C, or by kappa times a radius after a noisy
    test (`mechanisms.robust_mean`). The number of users is public, the number of records of a user is not.
Failure
    The test is part of the release. A run whose test fails stops and returns the point that it released last (erratum
    E16), or the origin, with a status. Privacy does not rest on L, on smoothness or on the law of records.
Deviations
    Calibrated: h-index test, deterministic weights, exact accounting; sample-and-aggregate where its noise is smaller;
    C, step sizes and number of phases minimize the bound. Radius 0 does not fail: `radius="private"` searches it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate, algorithms
from dpconvex._types import Array, Floats, Positions, attributes, final_dataclass, forwarded
from dpconvex.algorithms.erm.user_level.phased_schedule import Facts, Schedule, calibrated
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LinearModelLoss
from dpconvex.plugins import of_paper
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release, Unit
from dpconvex.problems import LinearModelProblem, Records, UserGroups
from dpconvex.problems.data import _threads
from dpconvex.randomness import BitSource
from dpconvex.sets import L2Ball
from dpconvex.solvers import _components as components

_PORTION = 2**19  # least number of floats read at a time (4 MB)
_SHARE = 32  # a portion is at least this part of the data, so that few passes are made
_OWN_GROUP = "a group's result depends on its own users, released values and coins of its own"
RADII = ("practical", "provable", "private")
AGGREGATES = ("auto", "robust", "plain")


@final_dataclass(eq=False)
class PhasedPlan(algorithms.StatedPlan):
    """Constants of one run of phased SGD in the ball of the problem's radius."""

    schedule: Schedule  #: The phases and their bound
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    l2: float = 0.0
    algorithm: ClassVar[str] = "phased_sgd"
    assumptions = (  # pyright: ignore[reportAssignmentType]
        Assumption("users are assigned to phases and groups without looking at data", "uniform coins by position"),
        Assumption(_OWN_GROUP, "records are read, drawn and walked over group by group"),
        Assumption("records of one person have one label", "declared: two labels are two users"),
    )
    phases = forwarded("schedule", "phases")  #: The phases in the order in which they run

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        trivial = min(self.problem.trivial, self.problem.lipschitz * self.problem.radius)
        return algorithms.PredictedError(self.schedule.bound, trivial, self.schedule.source)

    @property
    def gradient_evaluations(self) -> int:
        """Most record gradients that a run evaluates: one for each record, up to each user's cap."""
        return sum(phase.parts * phase.steps for phase in self.phases)

    @property
    def releases(self) -> tuple[Release, ...]:
        return tuple(each for i, phase in enumerate(self.phases, 1) for each in phase.aggregate.releases(*_names(i)))

    @property
    def theorem(self) -> str:
        text = "Phased one-pass SGD over groups of users (Lowy, Liu and Asi 2024, Algorithm 1)"
        if self.constants == "paper":
            return text + ", Theorem 2.1 with the exact sensitivity of Lemma B.2 and an even number of groups."
        return text + ": h-index test with deterministic weights, or sample and aggregate; phases read disjoint users."

    @property
    def coefficient_deviation(self) -> Floats:
        return np.full(self.problem.dim, self.phases[-1].aggregate.deviation)

    def describe(self) -> Mapping[str, Any]:
        phases = [
            {"groups": each.parts, "users_per_group": each.users}
            | {**attributes(each, "steps", "step_size"), **each.aggregate.describe()}
            for each in self.phases
        ]
        facts = {"noise": self.noise_name, "gradient_evaluations": self.gradient_evaluations}
        return {**facts, "fallback": "the point released by the phase before, at first the origin", "phases": phases}

    def exact_bits(self, source: BitSource) -> bool:
        return source.exact  # all noise is discrete Gaussian or Laplace

    def _run(self, X: Array, y: Array, groups: UserGroups, source: BitSource) -> algorithms.PrivateResult:
        """In each phase, run SGD over each part of users from the last released point, and release the mean result."""
        ledger, problem = Ledger(self.privacy, self.releases), self.problem
        records, targets = Records.clipped(X, problem.domain), problem.loss.clip_targets(y)
        data = Pooled(problem.loss, records, targets, groups, problem.radius, problem.records_per_user or 1)
        order, ball = source.generator().permutation(problem.n), L2Ball(problem.radius)
        x = np.zeros(problem.dim)
        for i, phase in enumerate(self.phases, 1):  # line 1
            members = order[phase.first : phase.first + phase.parts * phase.users]  # line 2
            users, (label, block) = members.reshape(phase.parts, -1), _names(i)
            walked = data.displacements(users, x, phase.step_size, source)  # line 3
            moved = phase.aggregate.release(walked, x, label, source, ledger, block)  # lines 4 to 6
            if moved is None:
                return self.finish(x, source, f"the test of phase {i} of {len(self.phases)} failed")
            x = x + moved if i == len(self.phases) and not self.schedule.projected else ball.project(x + moved)
        return self.finish(x, source)


def _names(phase: int) -> tuple[str, str]:
    """Return the label of a phase's release, and the name of the users that it reads."""
    return f"mean iterate of phase {phase}", f"users of phase {phase}"


@final_dataclass(eq=False)
class Pooled:
    """One pass of projected SGD over each part's records, at most `cap` of each user: one user moves one result."""

    loss: LinearModelLoss
    records: Records
    targets: Floats
    groups: UserGroups
    radius: float
    cap: int

    def displacements(self, users: Array, start: Floats, step: float, source: BitSource) -> Floats:
        """Return how far each part's average iterate is from the start, (parts, dim); `users` is (parts, users)."""
        moved, total = np.zeros((2, len(users), len(start)))
        lengths, pieces, size = np.ones((len(users), 1)), [], 0
        portion = max(_PORTION // self.records.dim, self.records.n // _SHARE)
        for j, members in enumerate(users):
            index = drawn_records(self.groups, members, self.cap, source.generator())
            lengths[j] = max(1, len(index))
            for first in range(0, len(index), portion):
                pieces.append((j, index[first : first + portion]))
                size += len(pieces[-1][1])
                if size >= portion:  # so no two pieces of a part are walked at once
                    self._walk(pieces, start, step, moved, total)
                    pieces, size = [], 0
        self._walk(pieces, start, step, moved, total)
        return total / lengths

    def _walk(
        self, pieces: list[tuple[int, Positions]], start: Floats, step: float, moved: Floats, total: Floats
    ) -> None:
        """Continue the SGD of some parts over a piece of each part's records; reading all pieces at once is faster."""
        from dpconvex.solvers import _loops

        if not pieces:
            return
        ends = np.cumsum([0, *(len(index) for _, index in pieces)])
        index = np.concatenate([index for _, index in pieces])
        rows, curve = self.records.take(index), components.slope_curve(self.loss, self.targets[index])
        assert curve is not None  # the plan refused other losses; tells the type checker

        def walk(k: int) -> tuple[()]:
            j, part = pieces[k][0], slice(ends[k], ends[k + 1])
            _loops.one_pass(
                rows[part], curve.records[part], curve.shape, curve.scale, start, step, self.radius, moved[j], total[j]
            )
            return ()

        _threads.total(len(pieces), walk)


def drawn_records(groups: UserGroups, users: Array, cap: int, coins: np.random.Generator) -> Positions:
    """Return the records of some different users, at most `cap` random ones of each, in random order."""
    first, sizes = groups.starts[users], groups.sizes[users]
    ends = np.cumsum(sizes)
    inside = np.arange(int(ends[-1])) - np.repeat(ends - sizes, sizes)  # 0, 1, ... within each user
    places = np.repeat(first, sizes) + inside
    if bool(np.any(sizes > cap)):
        whose = np.repeat(np.arange(len(users)), sizes)
        places = places[np.lexsort((coins.random(len(places)), whose))][inside < cap]
    places = coins.permutation(places)
    return places if groups.order is None else groups.order[places]


@algorithms.recorded("phased_sgd")
def plan_phased(
    problem: LinearModelProblem, privacy: PrivacyParams, *, constants: str = "calibrated",
    radius: str | float = "practical", aggregate: str = "auto", groups: int | None = None, phases: int | None = None,
) -> PhasedPlan:  # fmt: skip
    """Return the plan, for users, delta positive, and losses of one prediction, bounded slope and a compiled form.

    Parameters
    ----------
    constants : {"calibrated", "paper"}
        ``"paper"``: printed constants, for more than 100000 users, whose noise exceeds the diameter at every size.
    radius : {"practical", "provable", "private"} or float
        The radius within which the parts' results should lie, in units of ``eta L sqrt(T)``: 2.5, the proven one (about
        18), one found privately, or a number. Privacy does not depend on it (calibrated constants only).
    aggregate : {"auto", "robust", "plain"}
        Test and robust mean, sample and aggregate, or in each phase the one with less noise.
    groups, phases
        The number C of parts, and the number of phases; by default those of the smallest bound.
    """
    algorithms.check_relation(privacy, users=True)
    algorithms.check_unit(problem, privacy)
    algorithms.require_average(problem)
    _require_users(problem, privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("aggregate", aggregate, AGGREGATES)
    if isinstance(radius, str):
        _validate.choice("radius", radius, RADII)
    else:
        _validate.real("radius", radius, above=0.0)
    _validate.optional(_validate.integer, {"groups": groups, "phases": phases}, at_least=1)
    facts = Facts.of(problem, privacy, radius, aggregate)
    schedule = of_paper("phased_sgd")(facts) if constants == "paper" else calibrated(facts, groups, phases)
    return PhasedPlan(problem, privacy, schedule, constants)


def _require_users(problem: LinearModelProblem, privacy: PrivacyParams) -> None:
    """Raise `InvalidParameterError` unless the problem is one of users that this algorithm can solve."""
    if privacy.unit != Unit.USER or problem.records_per_user is None:
        raise InvalidParameterError("unit", str(privacy.unit), "must be 'user', of a problem with records_per_user")
    if privacy.pure:
        raise InvalidParameterError("delta", privacy.delta, "must be positive", "Use a value far below 1/n")
    refusal = "needs a loss of bounded slope" if np.isinf(problem.lipschitz) else None
    refusal = "needs one output" if problem.loss.n_outputs > 1 else refusal
    refusal = refusal or components.needs_slope_curve(problem.loss)
    if refusal:
        raise InvalidParameterError("loss", problem.loss.name, f"one-pass SGD {refusal}", "Use another algorithm")
