r"""Objective perturbation with approximate minima, for linear models: the plan's constants and its run.

Guarantee
    Epsilon-DP (norm-exponential ``b``) or (epsilon, delta)-DP (Gaussian ``b``) for neighbors that replace one record,
    or one user; with norm-exponential ``b`` also for neighbors that add or remove one.
Lemma
    Theorems 1 to 4 and formulas (1.1) to (5.2) of the docs, "Objective perturbation", which prove them. Gradients of
    two records differ by at most ``2 A X_K`` in the noise's norm; the determinant of the change of variables costs
    ``r log(1 + t tau / r)``, ``tau = X_2^2 / (n l2)``, nothing for losses whose curvature vanishes as the slope
    saturates, and for the logistic loss as in (1.4) and (3.4). The solver's point is within ``gamma / l2`` of the exact
    minimizer for every data set and every ``b``; output noise of sensitivity ``2 gamma / l2`` hides the difference.
Users
    A user's gradient is within ``A X_K`` and the trace of its Hessian within a record's, but its rank is not 1: ``dim``
    takes the place of r (docs, Methods of records). Gaussian ``b`` is Theorem U4: gradients of a user with m distinct
    records lie in a simplex of m + 1 vertices that no minimizer moves; the plan pays for a union over pairs of these.
    Here m is `most_rows`, which the run enforces (line 1); it is never `records_per_user`, a guess.
Added or removed units
    The number of units is private: ``n`` is declared, and the objective is the sum of losses over ``n``. Gradients
    differ by one unit's, ``A X_K``; `AddedObjectivePerturbation` states the cost of curvature. Solvers certify for up
    to 1000 times as many units (`MOST_TIMES`); with more, a run may stop and release nothing, which reveals just that.
Assumptions
    Records are clipped into the domain; the intercept is a constant feature inside the bounds and is regularized;
    `l2`, the norm, `gamma` and the comparator norm come from public facts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex._types import Array, Floats, attributes, final_dataclass
from dpconvex.algorithms import PredictedError, PrivateResult, StatedPlan, require, uses
from dpconvex.algorithms.base import USER_LOSS
from dpconvex.algorithms.predicted_error import reach_quantile, simulations
from dpconvex.mechanisms import GaussianObjectiveNoise, NormNoiseMechanism, ObjectiveNoise, Planned
from dpconvex.privacy import Assumption, Ledger, Neighboring
from dpconvex.problems import LinearModelProblem, Records, UserGroups
from dpconvex.problems.data.domain import is_centered
from dpconvex.problems.data.users import distinct_within
from dpconvex.problems.linear.expected_risk import evenness
from dpconvex.randomness import BitSource
from dpconvex.solvers import Solver

MINIMIZER, MASK = "minimizer of the perturbed objective", "solver inaccuracy"
"""Labels of the releases, in ledgers and certificates."""
CAPPED = Assumption(
    "no user has more than most_rows distinct records, features and target together",
    "of whoever has more, so many stay, drawn by coins, after records are clipped and before weights are made",
)
MANY = Assumption(
    "there are at most 1000 times as many units as declared",
    "not enforced: with more the solver may fail to certify its tolerance, and that nothing is released then tells so",
)
LONGEST = 30
"""Largest length of the linear term, in root mean squares. Runs stop at a longer term, of probability below 1e-17."""


@final_dataclass
class SeparateOutput:
    """Output noise that is epsilon-DP by itself (Theorem 3: ``epsilon = epsilon_obj + epsilon_out``)."""

    mechanism: NormNoiseMechanism  #: In the l2 norm, of sensitivity ``2 gamma / l2``
    mechanisms = uses({MASK: "mechanism"})  #: The mechanism that is charged beside the minimizer's own

    @property
    def deviation(self) -> float:
        """Standard deviation of every coordinate."""
        return self.mechanism.scale * math.sqrt(self.mechanism.norm.dim + 1)

    def simulate(self, dim: int, size: int, generator: np.random.Generator) -> Floats:
        """Return `size` noise vectors of the law, (size, dim): for pictures, not for a run."""
        return self.mechanism.simulate(size, generator)

    def release(self, minimizer: Floats, source: BitSource, ledger: Ledger) -> Floats:
        """Return the minimizer (dim,) with noise."""
        return self.mechanism.release(minimizer, MASK, source, ledger)


@final_dataclass
class JointGaussianOutput:
    """Gaussian noise priced inside the minimizer's own event (formula 3.3)."""

    noise: GaussianObjectiveNoise  #: Its event holds ``rho``, twice the solver radius over this deviation
    deviation: float  #: Standard deviation of every coordinate
    mechanisms: ClassVar[Mapping[str, Planned]] = {}

    def simulate(self, dim: int, size: int, generator: np.random.Generator) -> Floats:
        """Return normal numbers, a little wider for the grid of the release."""
        return self.deviation * (1 + 2**-9) * generator.standard_normal((size, dim))

    def release(self, minimizer: Floats, source: BitSource, ledger: Ledger) -> Floats:
        """Return the minimizer (dim,) with noise."""
        return self.noise.add_output_noise(minimizer, self.deviation, MINIMIZER, source, ledger)


@dataclass(frozen=True, eq=False)
class ObjectivePerturbationPlan(StatedPlan):
    """Constants of one run of objective perturbation."""

    l2: float
    noise_name: str  #: Kind of noise
    noise: ObjectiveNoise  #: Law of the linear term, with its privacy event
    copies: int  #: Independent copies of the linear term, one for each output; 1 where one law covers all outputs
    deviations: Floats  #: Standard deviations of the linear term, (dim,)
    #: Noise that hides how far the solver stopped from the exact minimizer; its sensitivity is twice that distance.
    output: SeparateOutput | JointGaussianOutput
    gradient_tolerance: float  #: Gradient norm that the solver certifies
    bound: float  #: Upper bound of the expected excess mean loss
    solver: Solver  #: A fast solver, and the guaranteed solver that takes over if it fails
    most_rows: int | None = None  #: Most distinct records of a user that are kept; for Gaussian noise for users
    neighbors = tuple(Neighboring)  # pyright: ignore[reportAssignmentType]
    constants: str = "calibrated"  #: ``"calibrated"``; this family has one constant set
    algorithm: ClassVar[str] = "objective_perturbation"

    @property
    def solver_radius(self) -> float:
        """Distance to the exact minimizer that the solver certifies, ``gamma / l2``."""
        return self.gradient_tolerance / self.l2

    @property
    def predicted_error(self) -> PredictedError:
        trivial, source = self.problem.trivial, "objective perturbation, bound (5.1)"
        return PredictedError(self.bound, trivial, source, expected=self.expected)

    @cached_property
    def expected(self) -> float:
        """Expected excess on typical data, from the ridge's shrinkage, the noise ``b`` and the output noise."""
        typical = self.problem.typical
        noise = typical.gradient_noise(self.l2, self.deviations / self.problem.n)
        return typical.unlearned(self.l2) + noise + self.output_excess

    @property
    def output_excess(self) -> float:
        """The part of the expected error that comes from the output noise."""
        return self.problem.typical.released_noise(np.full(self.problem.dim, self.output.deviation))

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {MINIMIZER: self.noise, **self.output.mechanisms}

    @property
    def theorem(self) -> str:
        number = "Theorems 1 to 3" if self.noise.event.pure_epsilon is not None else "Theorem 4 with (3.3)"
        number += " for users" if self.problem.grouped else ""
        number = "Theorem U4 with (3.3)" if self.most_rows else number
        released = "the minimizer under a random linear term, plus noise that covers the certified solver accuracy"
        return f"Objective perturbation with approximate minima ({number}): {released}."

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        proved = "proved for the loss on all of R; features are clipped, so they hold for every record"
        norm = "the gradient norm at the solver's point is at most the tolerance, for every data set and every b"
        some = (USER_LOSS, self.problem.grouped), (CAPPED, self.most_rows), (MANY, self.problem.private_n)
        return (
            Assumption("the objective is l2-strongly convex, the intercept included", "the regularizer is part of it"),
            Assumption("slope and curvature bounds of the loss", proved),
            Assumption(norm, "the norm is checked, with rounding slack, before anything is released"),
            *(assumption for assumption, holds in some if holds),
        )

    @property
    def coefficient_deviation(self) -> Floats:
        """A guess of the released parameters' deviations, from the curvature of typical data. Only for pictures."""
        # It takes columns as independent, numeric ones as uniform, levels as equally frequent, and half the largest
        # curvature. Without the ridge, block means and the constant are collinear: their system is solved exactly.
        factor = self.problem.factor
        assert factor is not None  # the planner sets it
        blocks, n = self.problem.domain.all_blocks, self.problem.n
        loss = self.problem.loss
        curvature = loss.curvature_bound / 2 * evenness(loss.told)  # public rates: rare classes have little
        # Second moment of a column: the squared bound over the number of levels, and a third of that if it is uniform.
        size = np.array(factor.ranks)
        square = factor.mean_squares * np.array([block.bound**2 for block in blocks])
        categorical = np.array([block.categorical for block in blocks])  # the constant too: a block of one level
        share = square * np.array([1.0 if block.norm == "linf" else 1 / block.size for block in blocks])
        share = np.where(categorical, share, share / 3)
        one_hot = categorical & ~np.array([is_centered(factor.domain, block) for block in blocks])
        noise = self.deviations[np.cumsum(size) - size] / n
        mean = np.where(one_hot, np.sqrt(square / size), 0.0)
        system = np.diag(self.l2 + curvature * np.where(one_hot, 0.0, share)) + curvature * np.outer(mean, mean)
        common = np.sqrt(np.linalg.inv(system) ** 2 @ noise**2)
        within = noise / (self.l2 + curvature * share)
        each = np.hypot(within * np.sqrt(1 - one_hot / size), common / np.sqrt(size))
        k = self.problem.loss.n_outputs
        if k > 1:  # adding the same vector to all outputs changes no prediction: along it only the regularizer curves
            each = np.hypot(each * math.sqrt(1 - 1 / k), noise / self.l2 / math.sqrt(k))
        return np.tile(factor.deviations(np.hypot(np.repeat(each, size), self.output.deviation)), k)

    @property
    def only_sums(self) -> bool:
        return self.solver.only_sums and self.problem.only_sums and self.most_rows is None

    def noise_reach(self) -> Floats:
        """``(|F_j| ||b||_2 + |F_j b|) / (2 n l2)``, plus output noise and solver radius (docs, Proposition 5)."""
        size, generator = simulations(self.problem.dim)
        b = self.noise.simulate(self.copies, size, generator)
        length = np.linalg.norm(b, axis=1, keepdims=True)
        outer = self.output.simulate(self.problem.dim, size, generator)
        moved = (length * self._lengths + np.abs(self._model(b))) / (2 * self.problem.n * self.l2)
        moved += np.abs(self._model(outer)) + self.solver_radius * self._lengths
        return reach_quantile(moved)

    def _model(self, v: Floats) -> Floats:
        """Return the model's parameters (size, outputs * domain.dim) for rows of the factor's coordinates."""
        factor, k = self.problem.factor, self.problem.loss.n_outputs
        return v if factor is None else factor.parameters(v.reshape(len(v) * k, -1)).reshape(len(v), -1)

    @property
    def _lengths(self) -> Floats | float:
        """Most that a step of length 1 in the factor's coordinates moves each parameter of the model."""
        factor = self.problem.factor
        return 1.0 if factor is None else np.tile(factor.deviations(np.ones(factor.rank)), self.problem.loss.n_outputs)

    def describe(self) -> Mapping[str, Any]:
        laws = {"noise": self.noise_name, "curvature_law": str(self.problem.loss.curvature_law)}
        cap = {"most_rows": self.most_rows} if self.most_rows else {}
        return {**laws, **attributes(self, "gradient_tolerance", "solver_radius"), **cap}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> PrivateResult:
        ledger, problem = Ledger(self.privacy, self.releases), self.problem
        records, targets = problem.clipped(X, y)  # line 1: records of the public domain
        if self.most_rows is not None:  # Theorem U4: at most `most_rows` records of a user, before weights are made
            assert isinstance(records, Records)
            assert targets is not None
            assert groups is not None
            rows = records.rows(slice(None))
            kept, groups = distinct_within(rows, targets, groups, self.most_rows, source.generator())
            records, targets = Records.of_rows(problem.domain, rows[kept]), targets[kept]
        b = self.noise.draw(self.copies, MINIMIZER, source, ledger)  # line 2: independent of the data
        risk = problem.on(records, targets, self.l2, groups, b / problem.n)  # line 3: J
        solved = require(self.solver.solve(risk, self.solver_radius), self.solver_radius)  # line 4: |grad J| <= gamma
        released = self.output.release(solved, source, ledger)  # line 5: hide the inaccuracy
        return self.finish(problem.parameters(released), source)  # in the model's own coordinates


def gradient_tolerance(problem: LinearModelProblem, l2: float, energy: float, output_energy: float) -> float:
    """Return the gradient norm to certify: formula (2.3), or the smallest that rounding allows if that is larger.

    So the solver succeeds for every data set and every ``b`` of at most `LONGEST` root mean squares. `energy` is
    ``E||b||_2^2``; `output_energy` is that of the output noise, over the squared solver radius.
    """
    root = math.sqrt(energy)
    wanted = 0.1 * l2 * root / (problem.n * (problem.smoothness + l2) * math.sqrt(output_energy))  # (2.3)
    return max(wanted, l2 * problem.certifiable_radius(l2, LONGEST * root / problem.n))
