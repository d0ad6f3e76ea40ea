"""Plans that leave the main run to another plan."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self, cast

from dpconvex._types import FloatArray
from dpconvex.algorithms.base import LinearModelPlan
from dpconvex.algorithms.recipes import continued
from dpconvex.privacy import PrivacyParams


class DelegatingPlan(LinearModelPlan):
    """A plan whose parameters are released by another plan, `then`; its constants are those of that plan."""

    then: LinearModelPlan

    @property
    def constants(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Constant set of `then`."""
        return self.then.constants

    @property
    def noise_name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Kind of noise of `then`."""
        return self.then.noise_name

    @property
    def l2(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Regularisation of `then`."""
        return self.then.l2

    @property
    def adaptive(self) -> bool:
        """Whether `then` is, unless the plan itself makes `then` from what was released."""
        return self.then.adaptive

    @property
    def course(self) -> tuple[Any, ...]:
        """That of `then`."""
        return self.then.course

    def resumed(self, *course: Any) -> LinearModelPlan:
        """Return the plan with `then` resumed."""
        return self.after(cast(LinearModelPlan, self.then.resumed(*course)))

    def after(self, then: LinearModelPlan) -> Self:
        """Return this plan with what `then` became in a run."""
        return continued(self, then=then)

    @property
    def coefficient_deviation(self) -> FloatArray | None:
        """That of `then`, shape (dim,)."""
        return self.then.coefficient_deviation

    @abstractmethod
    def at(self, privacy: PrivacyParams) -> LinearModelPlan:
        """Return the plan of another promise for the same moments."""
