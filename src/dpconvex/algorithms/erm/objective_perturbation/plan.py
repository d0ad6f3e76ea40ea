r"""Constants of objective perturbation with approximate minima, for linear models.

Guarantee
    Epsilon-DP (norm-exponential ``b``) or (epsilon, delta)-DP (Gaussian ``b``) for neighbours that replace one record;
    epsilon-DP also for neighbours that replace one user.
Lemma
    Theorems 1 to 4 and formulas (1.1) to (5.2) of the docs, "Objective perturbation", which prove them (background
    Chaudhuri, Monteleoni and Sarwate 2011, Awan and Slavkovic 2020, Redberg, Koskela and Wang
    2023). Gradients of two records differ by at most ``2 A X_K`` in the noise's norm; the determinant of the change of
    variables costs ``r log(1 + t tau / r)``, or nothing for losses whose curvature vanishes as the slope saturates; for
    the logistic loss with slopes capped at A, which leave curvature ``A (1 - A)``, it costs what (1.4) and (3.4) say.
    The solver's point is within ``gamma / l2`` of the exact minimiser for every data set and every ``b``; output noise
    of sensitivity ``2 gamma / l2`` hides which.
Users
    n counts users and a user's loss is a weighted sum (`problems.data.users`). Its gradient is within ``A X_K`` and the
    trace of its Hessian within that of one record, but its rank is not 1: the determinant then costs
    ``dim log(1 + t tau / dim)``, is free under the same condition as for records, and (1.4) holds with
    ``dim log(1 + tau a (1 - a) / dim)`` in it (docs, Users, which proves all three).
    The union over vertices of Theorem 4 needs records, so there is no Gaussian ``b`` for users.
Assumptions
    Records are clipped into the domain; the intercept is a constant feature inside the bounds and is regularised;
    `l2`, the norm, `gamma` and the comparator norm come from public facts.

====== =========================== ==================================================
Letter Name here                   Meaning
====== =========================== ==================================================
b      ``noise.draw``              random linear term, enters as ``<b, w>/n``
lambda ``l2``                      regularisation
gamma  ``gradient_tolerance``      certified gradient norm
r      ``solver_radius``           ``gamma / lambda``
tau    ``problem.tau(l2)``         ``X_2^2 / (n lambda)``
K      ``noise.norm``              norm of the noise density
====== =========================== ==================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms.base import USER_LOSS, LinearModelPlan, PrivateResult
from dpconvex.algorithms.erm.objective_perturbation.calibration import LONGEST, output_part
from dpconvex.algorithms.erm.objective_perturbation.output import MINIMISER, OutputNoise
from dpconvex.algorithms.predicted_error import PredictedError, reach_quantile, simulations
from dpconvex.mechanisms import ObjectiveNoise
from dpconvex.privacy import Assumption, PrivacyParams, Release
from dpconvex.problems.data.users import UserGroups
from dpconvex.problems.linear.problem import LinearModelProblem
from dpconvex.randomness import BitSource
from dpconvex.solvers import Solver


@dataclass(frozen=True, eq=False)
class ObjectivePerturbationPlan(LinearModelPlan):
    """Constants of one run of objective perturbation.

    Parameters
    ----------
    problem : LinearModelProblem
        What is minimised.
    privacy : PrivacyParams
        The promise.
    l2 : float
        Regularisation.
    noise_name : str
        Kind of noise, as asked for or chosen.
    noise : ObjectiveNoise
        Law of the linear term, with its event.
    copies : int
        Independent copies of the linear term, one an output; 1 where one law covers all outputs.
    deviations : array of shape (dim,)
        Standard deviations of the linear term.
    output : OutputNoise
        Noise that hides the solver's inaccuracy.
    gradient_tolerance : float
        Gradient norm that the solver certifies.
    bound : float
        On the expected excess mean loss.
    solver : Solver
        Fast solver with the guaranteed one that takes over.
    constants : str
        ``"calibrated"``; this family has one constant set.
    """

    problem: LinearModelProblem
    privacy: PrivacyParams
    l2: float
    noise_name: str
    noise: ObjectiveNoise
    copies: int
    deviations: FloatArray
    output: OutputNoise
    gradient_tolerance: float
    bound: float
    solver: Solver
    constants: str = "calibrated"
    algorithm: ClassVar[str] = "objective_perturbation"

    @property
    def solver_radius(self) -> float:
        """``gamma / l2``."""
        return self.gradient_tolerance / self.l2

    @property
    def predicted_error(self) -> PredictedError:
        """Bound (5.1) plus the output noise's share."""
        trivial, source = self.problem.trivial, "objective perturbation, bound (5.1)"
        return PredictedError(self.bound, trivial, source, expected=self.expected)

    @cached_property
    def expected(self) -> float:
        """Excess on typical data: what the ridge shrinks, and the noise of ``b`` and of the output."""
        typical = self.problem.typical
        assert typical is not None  # there is no tilt and no attack here
        noise = typical.gradient_noise(self.l2, self.deviations / self.problem.n)
        return typical.shrinkage(self.l2) + noise + self.output_excess

    @property
    def planned_error(self) -> float:
        """What the constants keep small: the expected error; for users, whose plans rank by it, the bound."""
        return self.bound if self.problem.grouped else self.expected

    @property
    def output_excess(self) -> float:
        """Part of the output noise in the expected error; for users in the bound, ``beta/2 E||z||^2``."""
        typical, deviations = self.problem.typical, self.output_deviations
        if typical is None or self.problem.grouped:
            return output_part(self.problem, self.l2, float(deviations @ deviations))
        return typical.released_noise(deviations)

    @property
    def output_deviations(self) -> FloatArray:
        """Standard deviations of the output noise (dim,)."""
        return np.full(self.problem.dim, self.output.deviation)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The minimiser and, for pure noise, the separate charge for the solver's inaccuracy."""
        return (self.noise.planned(MINIMISER), *self.output.releases)

    @property
    def theorem(self) -> str:
        """Which theorem, by kind of noise."""
        number = "Theorems 1 to 3" if self.noise.event.pure_epsilon is not None else "Theorem 4 with (3.3)"
        number += " for users" if self.problem.grouped else ""
        return (
            f"Objective perturbation with approximate minima ({number}): the minimiser under a random linear term, "
            "plus noise that covers the certified solver accuracy."
        )

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the theorems need."""
        return (
            Assumption("the objective is l2-strongly convex, the intercept included", "the regulariser is part of it"),
            Assumption(
                "slope and curvature bounds of the loss",
                "proved for the loss on all of R; features are clipped, so they hold for every record",
            ),
            Assumption(
                "the gradient norm at the solver's point is at most the tolerance, for every data set and every b",
                "the norm is checked, with rounding slack, before anything is released",
            ),
            *((USER_LOSS,) if self.problem.grouped else ()),
        )

    @property
    def coefficient_deviation(self) -> FloatArray:
        """Approximate: noise of ``b`` through a curvature that public facts allow one to guess. Only for pictures.

        The exact law of the release depends on the data. Guess: columns independent, numeric ones uniform, levels of a
        one-hot block equally frequent, half the loss's largest curvature. Rarer levels have more noise than it says.
        Block means and the constant are collinear but for the regulariser, so their small system is solved exactly;
        the rest of each block is diagonal.
        """
        blocks, n = self.problem.domain.all_blocks, self.problem.n
        curvature = self.problem.loss.curvature_bound / 2
        size = np.array([block.size for block in blocks])
        square = np.array([block.bound**2 for block in blocks])
        one_hot = np.array([block.norm == "l1" for block in blocks])  # the constant too: a block of one level
        share = square * np.array([1.0 if block.norm == "linf" else 1 / block.size for block in blocks])
        share = np.where(one_hot, share, share / 3)
        noise = self.deviations[np.cumsum(size) - size] / n
        mean = np.where(one_hot, np.sqrt(square / size), 0.0)
        system = np.diag(self.l2 + curvature * np.where(one_hot, 0.0, share)) + curvature * np.outer(mean, mean)
        common = np.sqrt(np.linalg.inv(system) ** 2 @ noise**2)
        within = noise / (self.l2 + curvature * share)
        each = np.hypot(within * np.sqrt(1 - 1 / size), common / np.sqrt(size))
        k = self.problem.loss.n_outputs
        if k > 1:  # adding the same vector to all outputs changes no prediction: along it only the regulariser curves
            each = np.hypot(each * math.sqrt(1 - 1 / k), noise / self.l2 / math.sqrt(k))
        return np.hypot(np.tile(np.repeat(each, size), k), self.output.deviation)

    def noise_reach(self) -> FloatArray:
        """``(||b||_2 + |b_j|) / (2 n l2)``, plus the output noise and the solver's radius (docs, Proposition 5)."""
        size, generator = simulations(self.problem.dim)
        b = self.noise.simulate(self.copies, size, generator)
        length = np.linalg.norm(b, axis=1, keepdims=True)
        moved = (length + np.abs(b)) / (2 * self.problem.n * self.l2)
        moved += np.abs(self.output.simulate(self.problem.dim, size, generator)) + self.solver_radius
        return reach_quantile(moved)

    def describe(self) -> Mapping[str, Any]:
        """Constants for the certificate."""
        return {
            "noise": self.noise_name,
            "curvature_law": str(self.problem.loss.curvature_law),
            "gradient_tolerance": self.gradient_tolerance,
            "solver_radius": self.solver_radius,
        }

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the output noise is exact; ``b`` itself is never released."""
        return self.output.exact_bits(source)

    def _listing(self, X: AnyArray, y: AnyArray, source: BitSource) -> PrivateResult:
        from dpconvex.algorithms.erm.objective_perturbation.run import run

        return run(self, X, y, source)

    def _user_listing(self, X: AnyArray, y: AnyArray, source: BitSource, groups: UserGroups) -> PrivateResult:
        from dpconvex.algorithms.erm.objective_perturbation.run import run

        return run(self, X, y, source, groups)


def gradient_tolerance(problem: LinearModelProblem, l2: float, energy: float, output_energy: float) -> float:
    """Gradient norm to certify: formula (2.3), or the smallest that rounding allows where that is larger.

    (2.3) makes the output noise's effect on the gradient a tenth of that of ``b``. The smallest certifiable norm holds
    for every data set and every ``b`` of at most `LONGEST` root mean squares (a longer one has probability below
    1e-17), so that no data set is refused.

    Parameters
    ----------
    problem : LinearModelProblem
        Public facts.
    l2 : float
        Regularisation.
    energy : float
        ``E||b||_2^2``.
    output_energy : float
        ``E||z||_2^2`` of the output noise per unit of squared solver radius.
    """
    root = math.sqrt(energy)
    wanted = 0.1 * l2 * root / (problem.n * (problem.smoothness + l2) * math.sqrt(output_energy))
    return max(wanted, l2 * problem.certifiable_radius(l2, LONGEST * root / problem.n))
