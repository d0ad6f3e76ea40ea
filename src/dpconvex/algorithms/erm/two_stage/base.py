"""Plans that prepare a problem, with a release of their own or without, and leave the fit to an ordinary method."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, cast

from dpconvex._types import Floats, forwarded, forwards
from dpconvex.algorithms import LinearModelPlan, PrivateResult, StatedPlan, continued
from dpconvex.algorithms.recipes import PLANNERS, Recipe
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Release
from dpconvex.privacy.params import check_part
from dpconvex.problems import LinearModelProblem
from dpconvex.randomness import BitSource

Planner = Callable[[LinearModelProblem, PrivacyParams], tuple[LinearModelPlan, ...]]
"""A function that plans ordinary methods for a problem and a promise; the first plan it returns is the one to run."""


@forwards("then", "constants noise_name l2 coefficient_deviation only_sums course remark expected_intervals innermost")
class TwoStagePlan(StatedPlan):
    """A plan whose parameters are released by another plan, `then`: its promises and constants are that plan's.

    The `mechanisms` are those of the first stage alone; the `releases` go on with those of `then`.
    """

    then: LinearModelPlan
    mechanisms: ClassVar[Mapping[str, Planned]] = {}
    prepared: ClassVar[str] = ""  #: What `theorem` says before the statement of `then`
    added: ClassVar[str] = ""  #: What it says after that
    presumed: ClassVar[tuple[str, ...]] = ()  #: One assumption more than `then` has: its statement, and why it holds
    adaptive = forwarded("then", "adaptive")  # unless the plan itself makes `then` from what was released

    def __post_init__(self) -> None:
        check_part(self.privacy, self.then.privacy, "then")
        Ledger(self.privacy, self.releases)  # refuses, from public facts, what the promise does not cover

    @property
    def theorem(self) -> str:
        return self.prepared + self.then.theorem + self.added

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return self.then.assumptions + ((Assumption(*self.presumed),) if self.presumed else ())

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*super().releases, *self.then.releases)

    def exact_bits(self, source: BitSource) -> bool:
        return super().exact_bits(source) and self.then.exact_bits(source)

    def resumed(self, *course: Any) -> Self:
        return self.after(cast(LinearModelPlan, self.then.resumed(*course))) if course else self

    def after(self, then: LinearModelPlan) -> Self:
        """Return this plan with the given `then`, for example as it is after a run."""
        return continued(self, then=then)

    def restored(self, result: PrivateResult, point: Floats, source: BitSource) -> PrivateResult:
        """Return this plan's result, given the result of `then` and its parameters `point`, in this plan's problem."""
        return self.after(cast(LinearModelPlan, result.plan)).finish(point, source, result.status)

    def at(self, privacy: PrivacyParams) -> LinearModelPlan:
        """Return the same recipe's plan for another promise; it depends on no data beyond what this plan depends on."""
        made = cast(Recipe, self.recipe)
        return PLANNERS[made.name](**{**made.inputs, "privacy": privacy})[0]


def lacking(problem: LinearModelProblem, epsilon: float, columns: bool, records: bool) -> str:
    """Return what is missing where columns or records are too few, or there is no constant feature; else ""."""
    words = ["there are too few such columns"] * (not columns)
    words += ["there is no constant feature"] * (problem.domain.intercept == 0)
    return " and ".join([*words, *[f"n * epsilon is {problem.n * epsilon:g}"] * (not records)])
