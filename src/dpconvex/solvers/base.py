"""What a solver is and returns: a point, and a proof of how far it can be from the minimizer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.problems.data._threads import one_blas_thread
from dpconvex.sets import ConvexSet, WholeSpace


@final_dataclass
class Accuracy:
    """A proven bound on the error of a point."""

    kind: Literal["distance", "gap"]  #: l2 distance to the minimizer, or value minus minimum
    #: The bound, rounded up. It depends on the data, so it must not be released. Noise is calibrated to the radius that
    #: was asked for, never to this bound.
    bound: float
    #: What proves the bound: numbers computed at the point, or a step count that suffices for every data set.
    basis: Literal["a posteriori", "a priori"]
    lemma: str  #: the certificate or theorem that proves it


@final_dataclass(eq=False)
class SolverResult:
    """The outcome of a solver."""

    point: Floats  #: the point found, a member of the constraint; shape (dim,)
    accuracy: Accuracy  #: A valid bound in every case, at most the requested radius if and only if ``CERTIFIED``
    #: ``STEP_LIMIT`` and ``STALLED`` (rounding stops all progress) are failures; raising is the caller's choice.
    status: Status
    steps: int  #: Number of iterations. It depends on the data, so it must not be released.
    gradient_calls: int  #: Number of full passes over the data. It must not be released either.


Start = Floats | None  #: Point at which a solver begins, (dim,); None: it begins at 0


class Solver(ABC):
    """A deterministic method with its settings; `solve` never raises because of what the data hold.

    `max_steps` bounds the number of steps. Where it may be None, the bound is the number that `steps_for` returns: then
    success is guaranteed, while a smaller number may fail.
    """

    treats_tilt: ClassVar[bool] = False  #: whether the method works for objectives other than the average of the losses
    only_sums: bool = True  #: whether a step needs sums over all records only, never single records
    treats_weights: ClassVar[bool] = True  #: whether the method works where records have fixed weights

    @final
    def solve(
        self, objective: Objective, radius: float, constraint: ConvexSet | None = None, start: Floats | None = None
    ) -> SolverResult:
        """Look for a point within `radius` of the minimizer, and prove that it is.

        The `radius` is an l2 distance to the minimizer over the constraint (None: the whole space); the status is
        ``CERTIFIED`` if and only if that is proven. The solver begins at `start` (dim,), or at 0. It raises
        `InvalidParameterError` if ``l2 = 0``, `radius` is not positive, or it cannot treat this problem (public facts).
        """
        constraint = WholeSpace() if constraint is None else constraint
        _validate.real("radius", radius, above=0.0)
        _validate.real("l2", objective.strong_convexity, above=0.0, remedy="Certificates rest on strong convexity")
        reason = self.refusal(objective.bounds, constraint, objective.dim)
        reason = self.unfit(tilted=objective.tilt > 0, weighted=objective.weighted) or reason
        if not (objective.everywhere or np.isfinite(constraint.radius)):
            reason = "needs the set on which the objective is defined as its constraint"
        if reason is not None:
            raise InvalidParameterError("solver", self, reason)
        if start is not None and start.shape != (objective.dim,):
            raise InvalidDataError(f"start has shape {start.shape}; the parameters need ({objective.dim},)")
        with one_blas_thread():
            return self._solve(objective, radius, constraint, start)

    @final
    def unfit(self, *, tilted: bool, weighted: bool) -> str | None:
        """Return why the solver cannot treat tilted or weighted losses, if they are so; None if it can."""
        if weighted and not self.treats_weights:
            return "needs records of equal weight"
        return "needs an average of losses, not a tilted one" if tilted and not self.treats_tilt else None

    @property
    def last(self) -> "Solver":
        """The solver that runs last: here this one."""
        return self

    @abstractmethod
    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Return why such problems cannot be solved, from public facts alone; None if they can.

        `loss` is `Objective.bounds`: the loss of a linear model, or the bounds of another objective; `dim` is the
        length of a parameter vector, all outputs together.
        """

    @abstractmethod
    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        """As `solve`, after its checks."""


@dataclass(frozen=True)
class Counted:
    """A method, for tilted losses too, whose number of steps is known before: `Solver`, where `max_steps` is None."""

    treats_tilt: ClassVar[bool] = True
    max_steps: int | None = None


def needs_whole_space(constraint: ConvexSet) -> str | None:
    """Return why a solver without constraints cannot treat this one; None for the whole space."""
    return None if isinstance(constraint, WholeSpace) else "must be able to project: it solves without constraints"
