"""Plans that prepare a problem, with a release of their own or without, and leave the fit to an ordinary method."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, Self, cast, runtime_checkable

from dpconvex._types import FloatArray
from dpconvex.algorithms import LinearModelPlan, PrivateResult, continued
from dpconvex.mechanisms import Planned
from dpconvex.privacy import Assumption, PrivacyParams, Release
from dpconvex.problems import LinearModelProblem
from dpconvex.randomness import BitSource

Planner = Callable[[LinearModelProblem, PrivacyParams], tuple[LinearModelPlan, ...]]
"""Plans of the ordinary methods for a problem and a promise, the one to run first in front."""


@runtime_checkable
class Checking(Protocol):
    """Planners that can say at the price of one plan whether they have any."""

    def check(self, problem: LinearModelProblem, privacy: PrivacyParams) -> None:
        """Raise as a call would."""


class TwoStagePlan(LinearModelPlan):
    """A plan whose parameters are released by another plan, `then`: its promises and constants are that plan's.

    The `mechanisms` are those of the first stage alone; the `releases` go on with those of `then`.
    """

    then: LinearModelPlan
    mechanisms: ClassVar[Mapping[str, Planned]] = {}  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def releases(self) -> tuple[Release, ...]:
        return (*super().releases, *self.then.releases)

    def exact_bits(self, source: BitSource) -> bool:
        return super().exact_bits(source) and self.then.exact_bits(source)

    @property
    def constants(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.then.constants

    @property
    def noise_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.then.noise_name

    @property
    def l2(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.then.l2

    @property
    def coefficient_deviation(self) -> FloatArray | None:
        return self.then.coefficient_deviation

    @property
    def only_sums(self) -> bool:
        return self.then.only_sums

    @property
    def theorem(self) -> str:
        return self.then.theorem

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return self.then.assumptions

    @property
    def adaptive(self) -> bool:
        """Whether `then` is, unless the plan itself makes `then` from what was released."""
        return self.then.adaptive

    @property
    def course(self) -> tuple[Any, ...]:
        return self.then.course

    def resumed(self, *course: Any) -> Self:
        return self.after(cast(LinearModelPlan, self.then.resumed(*course)))

    def after(self, then: LinearModelPlan) -> Self:
        """Return this plan with what `then` became in a run."""
        return continued(self, then=then)

    def restored(self, result: PrivateResult, point: FloatArray, source: BitSource) -> PrivateResult:
        """Return the result of a run of `then` as that of this plan; `point` holds its parameters in this problem."""
        return self.after(cast(LinearModelPlan, result.plan)).finish(point, source, result.status)

    @abstractmethod
    def at(self, privacy: PrivacyParams) -> LinearModelPlan:
        """Return the plan of another promise, which has seen no more of the data than this one."""
