r"""Methods for heavy tails by name, and plans that first find their moment bound with a part of the budget.

Guarantee
    That of the method, for neighbours that replace one record. A `TunedPlan` makes two runs on the same records: a
    histogram at `SHARE` of epsilon (pure), then the method at the rest. Basic adaptive composition: epsilons add up,
    delta is the method's.
Sensitivity
    Of each release its own; the second run's constants are functions of the released histogram and of public facts.
Assumptions
    Those of the method. Moments, estimated or declared, are for accuracy: privacy holds with any.
Choice
    ``"auto"`` compares sizes, not bounds, which are of two kinds (on the data, on new records): `chosen`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast, final

from dpconvex import _rounding, _validate
from dpconvex._types import AnyArray
from dpconvex.algorithms import LinearModelPlan, PredictedError, PrivateResult, continued, recorded, within_floats
from dpconvex.algorithms.erm import heavy_tailed
from dpconvex.algorithms.erm.heavy_tailed import MomentPlan, Moments, clipped_gradient, clipped_residuals
from dpconvex.algorithms.erm.two_stage.base import TwoStagePlan
from dpconvex.algorithms.recipes import NAMED
from dpconvex.algorithms.select import LARGEST, SMALLEST, Options
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Assumption, Ledger, PrivacyParams
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

SHARE = 0.1
"""Of epsilon, for the moment bound. Ours: 0.05 to 0.2 lose the same within noise from n = 2,000 on."""

WIDEST, NARROW = 0.3, 4.0
"""Longest record, in units of a typical one, up to which ``"auto"`` prefers clipped residuals: the larger of NARROW and
``WIDEST sqrt(n epsilon / d)``. Ours, measured: the two methods cross near 0.3 to 0.45 of that root."""


@final
@dataclass(frozen=True)
class HeavyMethod:
    """A method for heavy tails."""

    #: From problem, promise and moments to the plan; with another constant set as the keyword `constants`
    planner: Callable[..., LinearModelPlan]
    #: False: it needs moments of gradients. True: of slopes at the prediction 0, and those where slopes are unbounded.
    slopes: bool = False
    printed: bool = True  #: Whether it has the paper's constants

    def __call__(
        self, problem: LinearModelProblem, privacy: PrivacyParams, moments: Moments, constants: str
    ) -> LinearModelPlan:
        """Return the plan."""
        if constants == "calibrated":
            return self.planner(problem, privacy, moments)
        if not self.printed:
            remedy = "Use algorithm='heavy_tailed'"
            raise InvalidParameterError("constants", constants, "must be 'calibrated' for this algorithm", remedy)
        return self.planner(problem, privacy, moments, constants=constants)

    def settled(self, problem: LinearModelProblem, k: float) -> Moments | None:
        """Return the moments that public facts tell already: slopes bounded by the loss; None where data must tell."""
        bound = problem.loss.slope_bound
        known = self.slopes and problem.loss.cut(SMALLEST) is None
        return Moments(k, bound) if known else None

    def adapted(self, problem: LinearModelProblem, moments: Moments) -> Moments:
        """Return what the method needs of declared moments of gradients."""
        if not self.slopes:
            return moments
        return self.settled(problem, moments.k) or clipped_residuals.slope_moments(problem, moments)


HEAVY_METHODS: Mapping[str, HeavyMethod] = {
    "heavy_tailed": HeavyMethod(heavy_tailed.plan),
    "clipped_residuals": HeavyMethod(clipped_residuals.plan, slopes=True),
    "clipped_gradient": HeavyMethod(clipped_gradient.plan, printed=False),
}
"""By the name used in estimators and on the command line; ``"auto"`` is one of the first two, by `chosen`."""
NAMED.update({f"heavy-tailed method {name}": method for name, method in HEAVY_METHODS.items()})


def chosen(problem: LinearModelProblem, privacy: PrivacyParams, constants: str = "calibrated") -> str:
    """Return the method that ``"auto"`` stands for: clipped residuals, unless records may be far longer than typical.

    A typical record is taken to consist of the constant and the one-hot columns. Without a constant, nothing tells.
    Localization, too, where slopes are unbounded and cannot be cut, and for the paper's constants, which are its own.
    """
    loss = problem.loss
    if constants == "paper" or (math.isinf(loss.slope_bound) and loss.cut(SMALLEST) is None):
        return "heavy_tailed"
    unit = problem.domain.intercept
    typical = math.sqrt(math.fsum(min(b.bound, unit) ** 2 for b in problem.domain.all_blocks if b.categorical))
    widest = max(NARROW, WIDEST * math.sqrt(problem.n * privacy.epsilon / problem.dim))
    return "clipped_residuals" if problem.domain.l2 <= widest * typical else "heavy_tailed"


@final
@dataclass(frozen=True)
class TunedPlan(TwoStagePlan):
    """A moment bound from the data, then a method that uses it: one promise for both."""

    problem: LinearModelProblem
    privacy: PrivacyParams  #: The promise for everything
    first: MomentPlan  #: The histogram, at its share of epsilon
    #: The method at the rest. Before a run: for a moment bound that holds for all data; in a result: for the estimate.
    then: LinearModelPlan
    method: HeavyMethod  #: Plans `then`
    moments: Moments  #: Those of `then`
    known: bool = False  #: Whether they are estimates; False: the largest gradient that the domain and targets admit
    adaptive: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleMethodOverride]

    def __post_init__(self) -> None:
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def algorithm(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.then.algorithm

    @property
    def predicted_error(self) -> PredictedError:
        """For the moment bound of `then`; in a result, if the estimate is right."""
        return self.then.predicted_error

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {self.first.label: self.first.mechanism}

    @property
    def course(self) -> tuple[Any, ...]:
        return (self.moments, *self.then.course) if self.known else ()

    def resumed(self, *course: Any) -> TunedPlan:
        """Return the plan for estimated moments; what the method released since goes to it."""
        moments, *later = course
        largest, smallest = (float(edge) for edge in self.first.edges[[0, -1]])
        if moments.k != self.first.k or not smallest * (1 - 1e-9) <= moments.bound <= largest * (1 + 1e-9):
            raise InvalidParameterError("moments", moments, "must be of the histogram's order and inside its bins")
        plan = self.informed(moments)
        return plan.after(cast(LinearModelPlan, plan.then.resumed(*later))) if later else plan

    @property
    def theorem(self) -> str:
        return (
            f"Basic composition of a private moment bound (a histogram over public bins with Laplace noise, epsilon "
            f"{self.first.privacy.epsilon:.6g}) and of a method that uses it. {self.then.theorem}"
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The method's, and that it learns of the data through the noisy histogram alone."""
        only = Assumption(
            "the second run's constants depend on the data through the first release only",
            "it is planned from the moments computed from the noisy histogram",
        )
        return (*self.then.assumptions, only)

    def describe(self) -> Mapping[str, Any]:
        return {
            **self.then.describe(),
            "private_moments": {
                "epsilon": self.first.privacy.epsilon,
                "order": self.first.k,
                "bound": self.moments.bound,
                "estimated": self.known,
            },
        }

    def informed(self, moments: Moments) -> TunedPlan:
        """Return the plan for estimated moments, with the same budgets."""
        then = self.method(self.problem, self.then.privacy, moments, self.then.constants)
        return continued(self, then=then, moments=moments, known=True)

    def at(self, privacy: PrivacyParams) -> TunedPlan:
        """Return the plan of another promise for the same moments."""
        return tuned(self.problem, privacy, self.first.k, self.method, self.constants).informed(self.moments)

    def _run(self, X: AnyArray, y: AnyArray, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        moments, _ = self.first.run(X, y, source)
        plan = self.informed(moments)
        result = plan.then.run(X, y, source)
        return plan.restored(result, result.point, source)


@recorded("tuned")
def tuned(
    problem: LinearModelProblem, privacy: PrivacyParams, k: float, method: HeavyMethod, constants: str = "calibrated"
) -> TunedPlan:
    """Return the plan of a run that first bounds moments of order k, at least 2, itself; the promise is for both.

    Raises `InvalidParameterError` unless the method can be planned for the smallest and for the largest moments that
    the histogram can tell of.
    """
    share = _rounding.product_down(SHARE, privacy.epsilon)
    alone = replace(privacy, epsilon=share, delta=0.0)
    first = heavy_tailed.plan_moments(problem, alone, k, slopes=method.slopes)
    rest = replace(privacy, epsilon=_rounding.difference_down(privacy.epsilon, share))
    smallest, largest = (Moments(k, float(edge)) for edge in first.edges[[-1, 0]])
    method(problem, rest, smallest, constants)  # refuse here, from public facts, what would be refused later
    return TunedPlan(problem, privacy, first, method(problem, rest, largest, constants), method, largest)


def heavy_plans(
    problem: LinearModelProblem,
    privacy: PrivacyParams,
    k: float,
    bound: float | None,
    algorithm: str = "auto",
    options: Options | None = None,
) -> tuple[LinearModelPlan, ...]:
    """Return the valid plans for heavy tails, the chosen one first. Sees no data.

    The loss has one prediction and is smooth or piecewise linear. `bound` is ``G_k``, on the moment of order `k`, at
    least 2, of the gradients; None: estimated by the run, for `SHARE` of epsilon, where the method needs it. Of the
    options only `constants` may be fixed: weights of the ridge, noise and target are the method's.
    """
    options = options or Options()
    _validate.choice("algorithm", algorithm, ("auto", *HEAVY_METHODS), "These are for heavy tails")
    _validate.real("epsilon", privacy.epsilon, at_least=SMALLEST)
    _validate.real("radius", problem.radius, at_least=SMALLEST, at_most=LARGEST)
    if options.l2 is not None:
        raise InvalidParameterError("l2", options.l2, "is chosen by the method for heavy tails", "Leave it out")
    if options.noise != "auto":
        raise InvalidParameterError("noise", options.noise, "must be 'auto' for heavy tails", "Leave it out")
    method = HEAVY_METHODS[chosen(problem, privacy, options.constants) if algorithm == "auto" else algorithm]
    with within_floats(problem.name):
        moments = method.settled(problem, k) if bound is None else method.adapted(problem, Moments(k, bound))
        if moments is None:
            return (tuned(problem, privacy, k, method, options.constants),)
        return (method(problem, privacy, moments, options.constants),)
