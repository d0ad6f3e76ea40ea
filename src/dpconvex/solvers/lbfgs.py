"""L-BFGS with a certificate, for smooth losses and many parameters."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from dpconvex._types import Floats, Status
from dpconvex.problems import Objective
from dpconvex.problems.base import Bounds
from dpconvex.sets import ConvexSet
from dpconvex.solvers import _certificates as certificates
from dpconvex.solvers.base import Solver, SolverResult, Start, needs_whole_space


@final
@dataclass(frozen=True)
class LBFGS(Solver):
    """SciPy's L-BFGS-B, then Newton steps by conjugate gradients where value differences drown in rounding.

    L-BFGS-B needs decreasing values, which float64 stops resolving at a gradient norm of about 1e-8. Newton steps
    from there need gradients only.

    Proof of accuracy: C1 (gradient norm). No step count is guaranteed; `Guaranteed` adds that.
    """

    treats_tilt = True

    max_steps: int = 1000  #: of L-BFGS
    polish: int = 20  #: Newton steps after it, at most

    def refusal(self, loss: Bounds, constraint: ConvexSet, dim: int) -> str | None:
        return needs_whole_space(constraint) if math.isfinite(loss.curvature_bound) else "needs a smooth loss"

    def _solve(self, objective: Objective, radius: float, constraint: ConvexSet, start: Start) -> SolverResult:
        w = np.zeros(objective.dim) if start is None else start
        # A maximum norm that implies the l2 norm.
        tolerance = objective.strong_convexity * radius / np.sqrt(objective.dim) / 2
        options = {"maxiter": self.max_steps, "maxfun": 2 * self.max_steps, "ftol": 0.0, "gtol": tolerance}
        found = minimize(objective.value_and_gradient, w, jac=True, method="L-BFGS-B", options=options)
        w, g, steps, calls = found.x, objective.gradient(found.x), int(found.nit), int(found.nfev) + 1
        accuracy, status = certificates.gradient_norm(objective, w, g), Status.STEP_LIMIT
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
            accuracy = certificates.gradient_norm(objective, w, g)
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
