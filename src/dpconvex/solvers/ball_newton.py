"""Newton's method in a ball, for smooth losses and moderate dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self, final

import numpy as np

from dpconvex._types import FloatArray, Status
from dpconvex.losses.base import SmoothLoss
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.linear.truncated import TruncatedBounds, TruncatedRisk
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.ball_l2 import L2Ball
from dpconvex.sets.ball_section import BallSection
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers.base import Solver, needs_whole_space
from dpconvex.solvers.result import Accuracy, SolverResult

_HALVINGS = 40
_BISECTIONS = 100


@final
@dataclass(frozen=True)
class BallNewton(Solver):
    r"""Each step minimises the second-order model over the whole ball, then searches towards that point.

    Parameters
    ----------
    max_steps : int
        Bound on the number of steps.

    Notes
    -----
    Proof of accuracy: C5 (gradient and normal cone): ``|w - w*| <= |g + nu w| / mu`` for any ``nu >= 0`` at a point of
    the sphere, ``nu = 0`` inside. It is linear in the gradient, so small radii do not drown in rounding as gaps do. No
    step count is guaranteed; `Guaranteed` adds that.
    """

    treats_tilt: ClassVar[bool] = True

    max_steps: int = 100

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Smooth losses of linear models, also truncated; a ball, part of one, or no constraint."""
        if not isinstance(loss, SmoothLoss | TruncatedBounds):
            return "needs a smooth loss of a linear model"
        return None if isinstance(constraint, L2Ball | BallSection) else needs_whole_space(constraint)

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective, LinearModelObjective | TruncatedRisk)  # `refusal`; tells the type checker
        if isinstance(constraint, BallSection):
            return self._in_section(objective, radius, constraint, start)
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        value, g = objective.value_and_gradient(w)
        accuracy, status, steps, calls = normal_cone(objective, constraint, w, g), Status.STEP_LIMIT, 0, 1
        while accuracy.bound > radius and steps < self.max_steps:
            target = _model_minimiser(objective.hessian(w), g, w, constraint.radius)
            slope, noise = float(g @ (target - w)), objective.value_rounding(value, w)
            for trial in range(_HALVINGS):
                t = 0.5**trial
                new = target if trial == 0 else w + t * (target - w)
                new_value, new_g = objective.value_and_gradient(new)
                calls += 1
                proven = normal_cone(objective, constraint, new, new_g)
                falls = new_value <= value + 1e-4 * t * slope and t * abs(slope) > noise
                if falls or (abs(new_value - value) <= 2 * noise and proven.bound < accuracy.bound):
                    break
            else:
                status = Status.STALLED
                break
            w, value, g, accuracy, steps = new, new_value, new_g, proven, steps + 1
        status = Status.CERTIFIED if accuracy.bound <= radius else status
        return SolverResult(w, accuracy, status, steps, calls)

    def _in_section(
        self, objective: Objective, radius: float, section: BallSection, start: FloatArray | None
    ) -> SolverResult:
        """Solve in the outer ball: where the inner ball holds all points that near, the minimiser is the same."""
        found = self._solve(objective, radius, L2Ball(section.outer), start)
        away = float(np.linalg.norm(found.point - np.asarray(section.centre)))
        if (away + found.accuracy.bound) * (1 + 1e-12) <= section.inner:
            return found
        nothing = Accuracy("distance", math.inf, "a posteriori", "the minimiser may lie on the inner sphere")
        status = Status.STALLED
        return SolverResult(section.project(found.point), nothing, status, found.steps, found.gradient_calls)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)


def normal_cone(objective: Objective, constraint: ConvexSet, w: FloatArray, g: FloatArray) -> Accuracy:
    r"""C5: ``|w - w*| <= |g + nu w| / mu`` for a subgradient `g` at a member `w` of a ball around 0.

    ``nu w`` is in the normal cone of the ball at `w` if `w` lies on the sphere; the best ``nu >= 0`` is taken there,
    and 0 inside. The constrained optimum w* has a subgradient ``g*`` with ``<g*, w - w*> >= 0``, and strong convexity
    gives ``mu |w - w*|^2 <= <g - g*, w - w*> <= <g, w - w*> <= <g + nu w, w - w*>``. A point computed by scaling to
    the sphere lies on it up to rounding, which the slack of the gradient covers.
    """
    norm = float(np.linalg.norm(w))
    residual = g
    if norm >= constraint.radius * (1 - 1e-14):
        residual = g + max(0.0, -float(g @ w) / norm**2) * w
    bound = objective.gradient_norm_bound(residual, w) + 1e-14 * float(np.linalg.norm(g))
    off = 1e-13 * norm  # from the sphere
    return Accuracy(
        "distance", bound / objective.strong_convexity * (1 + 1e-10) + off, "a posteriori", "C5 normal cone"
    )


def _model_minimiser(hessian: FloatArray, g: FloatArray, w: FloatArray, radius: float) -> FloatArray:
    """Minimise ``<g, u - w> + <u - w, H (u - w)> / 2`` over ``|u| <= radius``; H is positive definite."""
    if not np.isfinite(hessian).all():
        return w
    eigenvalues, basis = np.linalg.eigh(hessian)
    eigenvalues = np.maximum(eigenvalues, 1e-14 * eigenvalues[-1])
    b = basis.T @ (hessian @ w - g)

    def point(nu: float) -> FloatArray:
        return b / (eigenvalues + nu)

    free = basis @ point(0.0)
    if float(np.linalg.norm(free)) <= radius:
        return free
    low, high = 0.0, float(np.linalg.norm(b)) / radius
    for _ in range(_BISECTIONS):
        nu = 0.5 * (low + high)
        low, high = (nu, high) if float(np.linalg.norm(point(nu))) > radius else (low, nu)
    u = basis @ point(high)
    return u * (radius / float(np.linalg.norm(u)))
