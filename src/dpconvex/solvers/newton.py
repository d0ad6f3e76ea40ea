"""Newton's method for moderate dimension, on smooth losses (without a constraint or in a ball) and smoothed losses.

For many parameters: L-BFGS, which ends with Newton steps by conjugate gradients.
"""

import contextlib
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from dpconvex._types import Floats, Status, final_dataclass
from dpconvex.losses import PiecewiseLinearLoss, SmoothLoss
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.problems.linear.objective import LinearModelObjective
from dpconvex.problems.linear.truncated import TruncatedBounds, TruncatedRisk
from dpconvex.sets import BallSection, ConvexSet, L2Ball
from dpconvex.solvers.accelerated import SmoothedAcceleratedGradient
from dpconvex.solvers.base import Accuracy, Solver, SolverResult, Start, gradient_norm, needs_whole_space

_SLOW = 0.3  # the Hessian is renewed after a step that leaves more than this share of the gradient norm
_HALVINGS = 40  # largest number of times that a step is halved
_SKETCH = 2**23  # most floats in the subset of records, which is held in memory, unless that is very few records
_BISECTIONS = 100  # number of bisection steps for the multiplier of a ball constraint


@final_dataclass
class NewtonCholesky(Solver):
    """Damped Newton steps; with many records, the Hessian is that of a subset of the records.

    With n much larger than dim the problem is first solved on about m records, ``m = max(50 dim, n / 16)`` or 64 MB,
    that a public hash of what they hold picks (the order of records does not matter). Its Hessian there is the metric
    of the full steps, whose gradients are exact; a full Hessian replaces it when the gradient norm does not fall by a
    factor of 3 in a step.

    Proof of accuracy: C1 (gradient norm). No step count is guaranteed; `Guaranteed` adds that.
    Steps are accepted where they halve the smallest gradient norm so far (which spares the value), on the Armijo
    condition, or, where rounding hides value differences, on a smaller gradient norm.
    """

    treats_tilt = True
    max_steps: int = 60  #: largest number of full steps

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return needs_whole_space(constraint) if isinstance(loss, SmoothLoss) else "needs a smooth linear-model loss"

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        w = np.zeros(objective.dim) if start is None else start
        metric: Floats | None = None
        n, dim = objective.records.n, objective.dim
        stride = n // max(50 * dim, min(n // 16, _SKETCH // objective.records.dim))
        sketch = objective.subset(stride) if stride >= 4 else objective
        if stride >= 4 and sketch.records.n > dim:  # a hash decides: equal records go together
            # A rough solution will do: the subset's minimizer is itself off by a sampling error.
            rough = 1e-4 * float(np.linalg.norm(sketch.gradient(w))) / objective.l2
            w = _descend(sketch, max(radius, rough), 20, w, None).point
            metric = _cholesky(sketch.hessian(w))
        return _descend(objective, radius, self.max_steps, w, metric)


@dataclass(frozen=True, eq=False)
class _Point:
    objective: LinearModelObjective
    w: Floats

    @cached_property
    def g(self) -> Floats:
        return self.objective.gradient(self.w)

    @cached_property
    def value(self) -> float:
        return self.objective.value(self.w)

    @property
    def gradient_norm(self) -> float:
        return float(np.linalg.norm(self.g))


def _descend(
    objective: LinearModelObjective, radius: float, max_steps: int, start: Floats, metric: Floats | None
) -> SolverResult:
    """Take damped steps from `start`; `metric` is the lower Cholesky factor of a Hessian (None: it is computed)."""
    point, calls, renewed = _Point(objective, start), 1, False
    accuracy, status, steps = gradient_norm(objective, point.w, point.g), Status.STEP_LIMIT, 0
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
            accuracy = gradient_norm(objective, point.w, point.g)
        renewed = False
    status = Status.CERTIFIED if accuracy.bound <= radius else status
    return SolverResult(point.w, accuracy, status, steps, calls)


def _search(objective: LinearModelObjective, point: _Point, step: Floats, smallest: float) -> tuple[_Point | None, int]:
    """Halve the step until it is accepted; return the point (None if no length is accepted) and the trials."""
    slope = float(point.g @ step)
    for trial in range(_HALVINGS):
        t = 0.5**trial
        new = _Point(objective, point.w + t * step)
        if new.gradient_norm <= 0.5 * smallest:  # not the last point's norm: that could cycle
            return new, trial + 1
        noise = objective.value_rounding(point.value, point.w)
        if new.value <= point.value + 1e-4 * t * slope and t * abs(slope) > noise:
            return new, trial + 1
        if abs(new.value - point.value) <= noise and new.gradient_norm < point.gradient_norm:
            return new, trial + 1
    return None, _HALVINGS


def _cholesky(hessian: Floats) -> Floats | None:
    """Return the lower Cholesky factor, after a shift of the size of rounding; None where rounding spoils the matrix.

    Operands of exact sums are rounded to a grid of the declared bound: where that hides the ridge, steps are shorter.
    """
    trace, diagonal = np.trace(hessian), np.diag_indices_from(hessian)
    for shift in (1e-14, *np.geomspace(1e-7, 1e-3, 5)):
        shifted = hessian.copy()
        shifted[diagonal] += shift * trace
        with contextlib.suppress(LinAlgError):
            return cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)[0]
    return None


@final_dataclass
class SmoothedNewton(Solver):
    r"""Newton's method on ``loss.smoothed(width)`` for widths that fall tenfold, each run from the last minimizer.

    The last width is `SmoothedAcceleratedGradient.width_for`. It runs before that solver where no dual method applies.

    Proof of accuracy: C1 for the smoothed loss, plus the distance by which smoothing moves the minimizer. No step count
    is guaranteed; `Guaranteed` adds that.
    """

    treats_tilt = True
    max_steps: int = 60  #: largest number of steps at each width

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if not isinstance(loss, PiecewiseLinearLoss):
            return "needs a piecewise linear loss of a linear model"
        return needs_whole_space(constraint)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        assert isinstance(objective, LinearModelObjective)  # `refusal`; tells the type checker
        loss, mu = objective.loss, objective.l2
        assert isinstance(loss, PiecewiseLinearLoss)  # `refusal`; tells the type checker
        slope, newton = loss.slope_bound, NewtonCholesky(self.max_steps)
        width = SmoothedAcceleratedGradient.width_for(slope, mu, radius)
        wide = min(loss.value_at_zero / slope, objective.lipschitz**2 / (mu * slope))  # about the size of predictions
        highest = max(0, math.ceil(math.log10(wide / width)))
        widths = [width * 10.0**power for power in range(highest, -1, -1)]
        moves = [math.sqrt(one / mu) * slope * (1 + 1e-12) for one in widths]
        inner = newton.solve(replace(objective, loss=loss.smoothed(widths[0])), moves[0] / 3, start=start)
        moved, steps, calls = moves[-1], inner.steps, inner.gradient_calls
        for one, move in zip(widths[1:], moves[1:], strict=True):
            inner = newton.solve(replace(objective, loss=loss.smoothed(one)), move / 3, start=inner.point)
            steps, calls = steps + inner.steps, calls + inner.gradient_calls
        bound = inner.accuracy.bound + moved
        accuracy = Accuracy("distance", bound, inner.accuracy.basis, inner.accuracy.lemma + " of the smoothed loss")
        status = Status.CERTIFIED if bound <= radius else inner.status
        return SolverResult(inner.point, accuracy, status, steps, calls)


@final_dataclass
class BallNewton(Solver):
    r"""Each step minimizes the second-order model over the whole ball, then searches towards that point.

    Proof of accuracy: C5 (gradient and normal cone): ``|w - w*| <= |g + nu w| / mu`` for any ``nu >= 0`` at a point of
    the sphere, ``nu = 0`` inside. It is linear in the gradient, so small radii do not drown in rounding as gaps do. No
    step count is guaranteed; `Guaranteed` adds that.
    """

    treats_tilt = True
    max_steps: int = 100

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        if not isinstance(loss, SmoothLoss | TruncatedBounds):
            return "needs a smooth loss of a linear model"
        return None if isinstance(constraint, L2Ball | BallSection) else needs_whole_space(constraint)

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        assert isinstance(objective, LinearModelObjective | TruncatedRisk)  # `refusal`; tells the type checker
        if isinstance(constraint, BallSection):
            return self._in_section(objective, radius, constraint, start)
        w = constraint.project(np.zeros(objective.dim) if start is None else start)
        value, g = objective.value_and_gradient(w)
        accuracy, status, steps, calls = normal_cone(objective, constraint, w, g), Status.STEP_LIMIT, 0, 1
        while accuracy.bound > radius and steps < self.max_steps:
            target = _model_minimizer(objective.hessian(w), g, w, constraint.radius)
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

    def _in_section(self, risk: Objective, radius: float, section: BallSection, start: Floats | None) -> SolverResult:
        """Solve in the outer ball: its minimizer is the section's if all points that near lie in the inner ball."""
        found = self._solve(risk, radius, L2Ball(section.outer), start)
        away = float(np.linalg.norm(found.point - np.asarray(section.center)))
        if (away + found.accuracy.bound) * (1 + 1e-12) <= section.inner:
            return found
        nothing = Accuracy("distance", math.inf, "a posteriori", "the minimizer may lie on the inner sphere")
        return SolverResult(section.project(found.point), nothing, Status.STALLED, found.steps, found.gradient_calls)


def normal_cone(objective: Objective, constraint: ConvexSet, w: Floats, g: Floats) -> Accuracy:
    """C5 (docs, Heavy tails): ``|w - w*| <= |g + nu w| / mu``, `g` a subgradient at a member `w` of a ball around 0."""
    norm = float(np.linalg.norm(w))
    residual = g
    # On the sphere the best nu >= 0 is taken. A point scaled to the sphere is off by rounding, so slack is added.
    if norm >= constraint.radius * (1 - 1e-14):
        residual = g + max(0.0, -float(g @ w) / norm**2) * w
    bound = objective.gradient_norm_bound(residual, w) + 1e-14 * float(np.linalg.norm(g))
    bound = bound / objective.strong_convexity * (1 + 1e-10) + 1e-13 * norm  # the last: rounding off the sphere
    return Accuracy("distance", bound, "a posteriori", "C5 normal cone")


def _model_minimizer(hessian: Floats, g: Floats, w: Floats, radius: float) -> Floats:
    """Minimize ``<g, u - w> + <u - w, H (u - w)> / 2`` over ``|u| <= radius``; H is positive definite."""
    if not np.isfinite(hessian).all():
        return w
    eigenvalues, basis = np.linalg.eigh(hessian)
    eigenvalues = np.maximum(eigenvalues, 1e-14 * eigenvalues[-1])
    b = basis.T @ (hessian @ w - g)

    def point(nu: float) -> Floats:
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


@final_dataclass
class LBFGS(Solver):
    """SciPy's L-BFGS-B, then Newton steps by conjugate gradients where value differences drown in rounding.

    L-BFGS-B needs decreasing values, which float64 stops resolving at a gradient norm of about 1e-8. Newton steps
    from there need gradients only.

    Proof of accuracy: C1 (gradient norm). No step count is guaranteed; `Guaranteed` adds that.
    """

    treats_tilt = True
    max_steps: int = 1000  #: largest number of L-BFGS steps
    polish: int = 20  #: largest number of Newton steps after L-BFGS

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return needs_whole_space(constraint) if math.isfinite(loss.curvature_bound) else "needs a smooth loss"

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        w = np.zeros(objective.dim) if start is None else start
        # L-BFGS-B bounds the gradient's maximum norm; this bound implies the one on its l2 norm.
        tolerance = objective.strong_convexity * radius / np.sqrt(objective.dim) / 2
        options = {"maxiter": self.max_steps, "maxfun": 2 * self.max_steps, "ftol": 0.0, "gtol": tolerance}
        found = minimize(objective.value_and_gradient, w, jac=True, method="L-BFGS-B", options=options)
        w, g, steps, calls = found.x, objective.gradient(found.x), int(found.nit), int(found.nfev) + 1
        accuracy, status = gradient_norm(objective, w, g), Status.STEP_LIMIT
        for _ in range(self.polish if steps < self.max_steps else 0):
            if accuracy.bound <= radius:
                break
            step, products = _newton_step(objective, w, g)
            calls += products + 1
            new_g = objective.gradient(w + step)
            if not np.linalg.norm(new_g) < np.linalg.norm(g):
                status = Status.STALLED
                break
            w, g, steps = w + step, new_g, steps + 1
            accuracy = gradient_norm(objective, w, g)
        status = Status.CERTIFIED if accuracy.bound <= radius else status
        return SolverResult(w, accuracy, status, steps, calls)


def _newton_step(objective: Objective, w: Floats, g: Floats) -> tuple[Floats, int]:
    """Solve ``hessian step = -g`` to 1 percent; return the step and the number of Hessian products."""
    products = 0

    def multiply(v: Floats) -> Floats:
        nonlocal products
        products += 1
        return objective.hessian_product(w, v.ravel())

    hessian = LinearOperator(shape=(len(w), len(w)), matvec=multiply, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    step, _ = cg(hessian, -g, rtol=0.01, maxiter=500)
    return step, products
