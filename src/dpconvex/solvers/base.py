r"""What a solver is and returns: a point, and a proof of how far it can be from the minimizer.

The proofs use quantities computed at the point: certificates C1 to C4 of the docs page Solver certificates, C6 of the
page Saddle problems; ``mu`` is the ridge weight, known and never estimated. Every bound is rounded up: the slacks of
`Objective` are added to each computed gradient and value.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.problems.data.summation import one_blas_thread
from dpconvex.problems.minimax.adversarial import SaddleObjective
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


_UP = 1 + 1e-10  # factor that covers the rounding of a bound


def gradient_norm(objective: Objective, w: Floats, g: Floats) -> Accuracy:
    """C1, no constraint: ``|w - w*| <= |g| / mu`` for any subgradient `g` at `w`."""
    bound = objective.gradient_norm_bound(g, w) / objective.strong_convexity
    return Accuracy("distance", bound * _UP, "a posteriori", "C1 gradient norm")


def constrained_gap(objective: Objective, constraint: ConvexSet, w: Floats, g: Floats) -> Accuracy:
    """C2: ``J(w) - min J <= <g, w - u> - mu/2 |w - u|^2`` with ``u = project(w - g / mu)``; `w` must be a member."""
    gap = _model_gap(objective.strong_convexity, constraint, w, g, objective.gradient_rounding(w))
    return Accuracy("gap", gap * _UP, "a posteriori", "C2 constrained gap")


def saddle_gap(
    objective: SaddleObjective, constraint: ConvexSet, w: Floats, v: Floats, g: Floats, a: Floats
) -> Accuracy:
    """C6: ``J(w) - min J`` is at most the attacks' Frank-Wolfe gap plus C2's; g, a: `payoff_gradients` at members."""
    gap = _model_gap(objective.l2, constraint, w, g, 0.0) + max(objective.attack_gap(v, a), 0.0)
    slack = objective.function.rounding(objective.l2, constraint.radius)
    return Accuracy("gap", gap * _UP + slack, "a posteriori", "C6 saddle gap")


def _model_gap(mu: float, constraint: ConvexSet, w: Floats, g: Floats, rounding: float) -> float:
    step = w - constraint.project(w - g / mu)
    length = float(np.linalg.norm(step))
    # Rounding of g moves the model by slack * |step|, rounding of the projection by a relative 1e-14.
    slack = rounding + 1e-14 * float(np.linalg.norm(g))
    return max(float(g @ step) - mu / 2 * length**2 + slack * length, 0.0)


def projected_step(objective: Objective, w: Floats, image: Floats, projection_error: float = 0.0) -> Accuracy:
    """C2: ``|image - w*| <= (beta - mu)/mu |w - image|`` for ``image = project(w - gradient(w) / beta)``, any `w`."""
    mu, beta = objective.strong_convexity, objective.smoothness
    moved = float(np.linalg.norm(w - image)) * _UP
    bound = ((beta - mu) * moved + objective.gradient_rounding(w) + objective.gradient_rounding(image)) / mu
    bound += (beta + mu) / mu * projection_error  # |image - w*| <= |Tw - w*| + e, |w - Tw| <= |w - image| + e
    return Accuracy("distance", bound * _UP, "a posteriori", "C2 projected step (contraction)")


def duality_gap(objective: Objective, w: Floats, gap: float, value: float) -> Accuracy:
    """C4: `gap` is the computed primal value `value` at `w` minus a dual value."""
    bound = max(gap, 0.0) * _UP + objective.value_rounding(value, w)
    return Accuracy("gap", bound, "a posteriori", "C4 duality gap")


def as_distance(accuracy: Accuracy, strong_convexity: float) -> Accuracy:
    """Turn a gap into a distance: ``|w - w*| <= sqrt(2 gap / mu)``."""
    if accuracy.kind == "distance":
        return accuracy
    bound = math.sqrt(2 * accuracy.bound / strong_convexity) * _UP
    return Accuracy("distance", bound, accuracy.basis, accuracy.lemma)


@final
class LowerModel:
    """C3: ``1/A sum_t a_t [J(w_t) + <g_t, u - w_t> + mu/2 |u - w_t|^2] <= J(u)`` for a method's iterates ``w_t``."""

    def __init__(self, objective: Objective, constraint: ConvexSet) -> None:
        self._mu, self._constraint, self._objective = objective.strong_convexity, constraint, objective
        self._weight, self._offset, self._slack = 0.0, 0.0, 0.0
        self._slope, self._points = np.zeros(objective.dim), np.zeros(objective.dim)
        self._best, self._values = math.inf, 0.0

    def add(self, weight: float, w: Floats, value: float, g: Floats) -> None:
        """Add the model at `w` (a member, so that `value` is also an upper bound on the minimum)."""
        self._weight += weight
        self._points += weight * w
        self._slope += weight * (g - self._mu * w)
        self._offset += weight * (value - float(g @ w) + self._mu / 2 * float(w @ w))
        # Rounding of the value, of the gradient over distances up to |u - w|, and of the products with w.
        rounding = self._objective.value_rounding(value, w)
        size = float(np.linalg.norm(g)) + self._mu * float(np.linalg.norm(w))
        self._slack = max(self._slack, rounding + 1e-14 * size * float(np.linalg.norm(w)))
        self._best = min(self._best, value + rounding)
        self._values += weight * (value + rounding)

    @property
    def average(self) -> Floats:
        """Weighted average of all points that were added, shape (dim,)."""
        return self._points / self._weight

    def gap(self, *, average: bool = False) -> Accuracy:
        """Return the certified gap of the best point that was added; with `average`, of their average (convexity)."""
        slope, mu = self._slope / self._weight, self._mu
        u = self._constraint.project(-slope / mu)
        lower = mu / 2 * float(u @ u) + float(slope @ u) + self._offset / self._weight
        products = (float(np.linalg.norm(slope)) + mu * float(np.linalg.norm(u))) * float(np.linalg.norm(u))
        upper = self._values / self._weight if average else self._best
        bound = upper - lower + self._slack + 1e-14 * products
        return Accuracy("gap", max(bound, 0.0) * _UP, "a posteriori", "C3 aggregated lower model")
