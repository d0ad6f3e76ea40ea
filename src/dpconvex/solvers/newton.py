"""Newton's method with a Cholesky factor, for smooth losses and moderate dimension."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dpconvex._types import FloatArray, Status
from dpconvex.losses.base import SmoothLoss
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.objective import Bounds, Objective
from dpconvex.sets.base import ConvexSet
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Solver, needs_whole_space
from dpconvex.solvers.result import SolverResult

_SLOW = 0.3  # a step that leaves more than this share of the gradient norm makes the Hessian be renewed
_HALVINGS = 40


@final
@dataclass(frozen=True)
class NewtonCholesky(Solver):
    """Damped Newton steps; on many records the Hessian is that of a fixed subset of them.

    With n much larger than dim the problem is first solved on every `n / m`-th record, ``m = max(50 dim, n /
    16)``. Its Hessian there is the metric of the full steps, whose gradients are exact; a full Hessian replaces it
    when the gradient norm does not fall by a factor of 3 in a step.

    Parameters
    ----------
    max_steps : int
        Bound on the number of full steps.

    Notes
    -----
    Proof of accuracy: C1 (gradient norm). No step count is guaranteed; `Guaranteed` adds that.
    Steps are accepted where they halve the smallest gradient norm so far (which spares the value), on the Armijo
    condition, or, where rounding hides value differences, on a smaller gradient norm.
    """

    treats_tilt: ClassVar[bool] = True

    max_steps: int = 60

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        """Smooth losses without a constraint."""
        return needs_whole_space(constraint) if isinstance(loss, SmoothLoss) else "needs a smooth linear-model loss"

    def _solve(
        self, objective: Objective, radius: float, constraint: ConvexSet, start: FloatArray | None
    ) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        w = np.zeros(objective.dim) if start is None else start
        metric: FloatArray | None = None
        stride = objective.records.n // max(50 * objective.dim, objective.records.n // 16)
        if stride >= 4:
            sketch = objective.subset(stride)
            # Rough: the subset's minimiser is itself off by its sampling error.
            rough = 1e-4 * float(np.linalg.norm(sketch.gradient(w))) / objective.l2
            w = _descend(sketch, max(radius, rough), 20, w, None).point
            metric = _cholesky(sketch.hessian(w))
        return _descend(objective, radius, self.max_steps, w, metric)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        """Return instances for the contract tests."""
        return (cls(),)


@dataclass(frozen=True, eq=False)
class _Point:
    objective: LinearModelObjective
    w: FloatArray

    @cached_property
    def g(self) -> FloatArray:
        return self.objective.gradient(self.w)

    @cached_property
    def value(self) -> float:
        return self.objective.value(self.w)

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.g))


def _descend(
    objective: LinearModelObjective, radius: float, max_steps: int, start: FloatArray, metric: FloatArray | None
) -> SolverResult:
    """Damped steps from `start`; `metric` is the lower Cholesky factor of a Hessian, None to compute it."""
    point, calls, renewed = _Point(objective, start), 1, False
    accuracy, status, steps = certificates.gradient_norm(objective, point.w, point.g), Status.STEP_LIMIT, 0
    smallest = point.gradient_norm
    while accuracy.bound > radius and steps < max_steps:
        if metric is None:
            metric, renewed = _cholesky(objective.hessian(point.w)), True
        step = None if metric is None else -cho_solve((metric, True), point.g, check_finite=False)
        new, trials = (None, 0) if step is None else _search(objective, point, step, smallest)
        calls += trials
        if new is None and renewed:
            status = Status.STALLED
            break
        if new is None or new.gradient_norm > _SLOW * point.gradient_norm:
            metric = None
        if new is not None:
            point, steps, smallest = new, steps + 1, min(smallest, new.gradient_norm)
            accuracy = certificates.gradient_norm(objective, point.w, point.g)
        renewed = False
    status = Status.CERTIFIED if accuracy.bound <= radius else status
    return SolverResult(point.w, accuracy, status, steps, calls)


def _search(
    objective: LinearModelObjective, point: _Point, step: FloatArray, smallest: float
) -> tuple[_Point | None, int]:
    """Halve the step until it is accepted; return None if no length is, and the number of trials."""
    slope = float(point.g @ step)
    for trial in range(_HALVINGS):
        t = 0.5**trial
        new = _Point(objective, point.w + t * step)
        if new.gradient_norm <= 0.5 * smallest:  # not of the last point: that could go round in circles
            return new, trial + 1
        noise = objective.value_rounding(point.value, point.w)
        if new.value <= point.value + 1e-4 * t * slope and t * abs(slope) > noise:
            return new, trial + 1
        if abs(new.value - point.value) <= noise and new.gradient_norm < point.gradient_norm:
            return new, trial + 1
    return None, _HALVINGS


def _cholesky(hessian: FloatArray) -> FloatArray | None:
    """Lower factor, with a shift of the size of its rounding; None where rounding has spoilt the matrix."""
    hessian[np.diag_indices_from(hessian)] += 1e-14 * np.trace(hessian)
    try:
        return cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)[0]
    except LinAlgError:
        return None
