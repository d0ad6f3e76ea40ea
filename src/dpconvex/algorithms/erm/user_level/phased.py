r"""Plan of phased one-pass SGD over groups of users (Lowy, Liu and Asi 2024, Algorithm 1).

Guarantee
    (epsilon, delta)-DP for neighbours that replace one *user*: everything that the data hold under one label.
Lemma
    Users are put into disjoint phases, and within a phase into C disjoint groups, by uniform coins. Given the coins and
    what earlier phases released, a user moves the result of one group of one phase. The release of a phase is
    (epsilon, delta)-DP for one replaced result of a group, whatever the results are (`aggregates`): parallel
    composition over phases. Averaging over the coins keeps the guarantee (joint convexity), and as they are uniform,
    it does not matter where a replaced user stands among the others.
Sensitivity
    Of a mean of C points, one of which moves: of length 2 c / C, or kappa times a radius after a noisy test
    (`mechanisms.robust_mean`). In l2; the number of users is public, the number of records of a user is not.
Failure
    The test is part of the release. A run whose test fails stops and returns what it released last (erratum E16), at
    first the origin, with a status. Privacy does not rest on L, on smoothness or on how records are distributed.
Bound
    `phased_schedule`: expected excess population risk of a model whose users have M records each.
Deviations
    Calibrated: h-index test, deterministic weights, exact accounting; sample-and-aggregate where its noise is smaller;
    C, step sizes and number of phases minimise the bound. Radius 0 does not fail: `radius="private"` searches it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import LinearModelPlan, PrivateResult, check_relation, require_average
from dpconvex.algorithms.erm.user_level.phased_printed import paper
from dpconvex.algorithms.erm.user_level.phased_schedule import Facts, Phase, Schedule, calibrated
from dpconvex.algorithms.predicted_error import PredictedError
from dpconvex.algorithms.recipes import recorded
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import Assumption, PrivacyParams, Release, Unit
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource
from dpconvex.solvers import _components as components

RADII = ("practical", "provable", "private")
AGGREGATES = ("auto", "robust", "plain")


@final
@dataclass(frozen=True, eq=False)
class PhasedPlan(LinearModelPlan):
    """Constants of one run.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised, over the ball of its radius; n counts users.
    privacy : PrivacyParams
        The promise, for users.
    schedule : Schedule
        Phases and bound.
    constants : {"calibrated", "paper"}
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    schedule: Schedule
    constants: str = "calibrated"
    noise_name: str = "gaussian"
    l2: float = 0.0
    algorithm: ClassVar[str] = "phased_sgd"

    @property
    def phases(self) -> tuple[Phase, ...]:
        """In the order in which they run."""
        return self.schedule.phases

    @property
    def solver_radius(self) -> float:
        """0: nothing is solved."""
        return 0.0

    @property
    def predicted_error(self) -> PredictedError:
        """Bound on the expected excess population risk."""
        trivial = min(self.problem.trivial, self.problem.lipschitz * self.problem.radius)
        return PredictedError(self.schedule.bound, trivial, self.schedule.source)

    @property
    def gradient_evaluations(self) -> int:
        """Most gradients of single records that a run evaluates: at most one a record, up to the cap of each user."""
        return sum(phase.groups * phase.steps for phase in self.phases)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Those of the phases; every user is in one phase."""
        return tuple(
            release
            for i, phase in enumerate(self.phases, 1)
            for release in phase.aggregate.releases(label_of(i), block_of(i))
        )

    @property
    def theorem(self) -> str:
        """Parallel composition of phases."""
        text = "Phased one-pass SGD over groups of users (Lowy, Liu and Asi 2024, Algorithm 1)"
        if self.constants == "paper":
            return text + ", Theorem 2.1 with the exact sensitivity of Lemma B.2 and an even number of groups."
        return text + ": h-index test with deterministic weights, or sample and aggregate; phases read disjoint users."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What privacy rests on."""
        return (
            Assumption("users are assigned to phases and groups without looking at data", "uniform coins by position"),
            Assumption(
                "a group's result depends on its own users, released values and coins of its own",
                "records are read, drawn and walked over group by group",
            ),
            Assumption("records of one person have one label", "declared: two labels are two users"),
        )

    @property
    def coefficient_deviation(self) -> FloatArray:
        """Standard deviation of the last phase's noise."""
        return np.full(self.problem.dim, self.phases[-1].aggregate.deviation)

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {
            "noise": self.noise_name,
            "gradient_evaluations": self.gradient_evaluations,
            "fallback": "the point released by the phase before, at first the origin",
            "phases": [
                {
                    "groups": phase.groups,
                    "users_per_group": phase.users,
                    "steps": phase.steps,
                    "step_size": phase.step_size,
                    **phase.aggregate.describe(),
                }
                for phase in self.phases
            ],
        }

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system: all noise is discrete Gaussian or Laplace."""
        return source.exact

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        raise NotImplementedError("plans for users are run with groups")

    def _user_listing(self, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups) -> PrivateResult:
        from dpconvex.algorithms.erm.user_level.run import run_phases

        return run_phases(self, X, y, source, groups)


def label_of(phase: int) -> str:
    """Label of a phase's release."""
    return f"mean iterate of phase {phase}"


def block_of(phase: int) -> str:
    """Which users a phase reads."""
    return f"users of phase {phase}"


@recorded("phased_sgd")
def plan_phased(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    *,
    constants: str = "calibrated",
    radius: str | float = "practical",
    aggregate: str = "auto",
    groups: int | None = None,
    phases: int | None = None,
) -> PhasedPlan:
    """Return the plan. Sees no data.

    Parameters
    ----------
    problem : LinearModelProblem
        With `records_per_user`; the loss has one prediction, a bounded slope, and a compiled form.
    privacy : PrivacyParams
        Replace-one, for users, delta positive.
    constants : {"calibrated", "paper"}
        ``"paper"``: printed constants, for more than 100000 users, whose noise exceeds the diameter at every size.
    radius : {"practical", "provable", "private"} or float
        How close groups' results should be, in units of ``eta L sqrt(T)``: 2.5, what is proven (about 18), found
        privately, or a number. Privacy does not depend on it (calibrated constants only).
    aggregate : {"auto", "robust", "plain"}
        Test and robust mean, sample and aggregate, or in each phase whichever has less noise.
    groups, phases : int, optional
        Fix C or the number of phases.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or there are too few users for the promise.
    """
    check_relation(privacy, users=True)
    require_average(problem)
    _require_users(problem, privacy)
    _validate.choice("constants", constants, ("calibrated", "paper"))
    _validate.choice("aggregate", aggregate, AGGREGATES)
    if isinstance(radius, str):
        _validate.choice("radius", radius, RADII)
    else:
        _validate.real("radius", radius, above=0.0)
    for name, number in (("groups", groups), ("phases", phases)):
        if number is not None:
            _validate.integer(name, number, at_least=1)
    facts = Facts.of(problem, privacy, radius, aggregate)
    schedule = paper(facts) if constants == "paper" else calibrated(facts, groups, phases)
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
