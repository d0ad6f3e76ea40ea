r"""Proofs that a point is near the minimizer, from quantities computed at the point.

Certificates C1 to C4 of the docs page Solver certificates, C6 of the page Saddle problems, which have the proofs;
``mu`` is the ridge weight, known and never estimated. Every bound is rounded up: the slacks of `Objective` are added to
each computed gradient and value.
"""

import math
from typing import final

import numpy as np

from dpconvex._types import Floats
from dpconvex.problems import Objective
from dpconvex.problems.minimax.adversarial import SaddleObjective
from dpconvex.sets import ConvexSet
from dpconvex.solvers.base import Accuracy

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
