"""A constant answer: a method on the constant feature alone, where columns would cost more than they tell.

Guarantee
    That of the method, for neighbors that replace one record, or one user.
Lemma
    Every record's features are replaced by one public number, whatever they are: a map of single records. So neighbors
    become neighbors in the domain of that one column (which differ by the target at most), and the method protects
    them; of users, whose records they are stays as it is. Coefficients of columns are 0, a public number.
    Squared errors: their sum has the same curvature in a constant for all data, so its minimizer, the mean, is released
    with noise and needs no ridge. Targets are clipped into ``[-B, B]``, so a replaced one moves the mean by ``2B/n`` at
    most; so does a replaced user's mean, in the mean of n users'. Sums are of integers, multiples of ``B 2^-31`` (each
    user's mean is rounded down to one), so nothing but a division is rounded: ``2^-50`` covers it, in units of B.
Sensitivity
    The method's, for records of the length of the constant; of the mean as the lemma has it.
Assumptions
    Those of the method.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import _rounding, algorithms
from dpconvex._types import Array, Floats
from dpconvex.algorithms.base import CLEARLY
from dpconvex.algorithms.erm.two_stage.base import Planner, TwoStagePlan
from dpconvex.algorithms.erm.two_stage.centering import UNITS, total
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import L2Norm
from dpconvex.losses import SquaredLoss
from dpconvex.mechanisms import NormNoiseMechanism
from dpconvex.privacy import Assumption, Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.sources.rows import EncodedRows, gathered, mapped, totals
from dpconvex.problems.linear.expected_risk import squared_reach, typical_curvature
from dpconvex.randomness import BitSource

MEAN = "mean of the targets"
MEAN_LEMMA = "the mean of n numbers in [-1, 1], or of users' means, changes by at most 2/n when one is replaced"
SPREAD = 0.4
"""What the square of a mean is taken to be, in units of that of the largest target: means are drawn to 0 by the share
of the noise's variance in the sum of both. Any from .3 to 1 is level on the tables that learn (docs, A constant)."""
REMAINS = {"explained": 0.6, "regression": 0.3, "classification": CLEARLY}
"""What the best constant is taken to lose, as a share of what zero parameters are expected to lose, by task; where
plans know what columns of a regression explain, of that.

Of numbers: chosen on tables that learn (`benchmarks/constant_share.py`). Of classes the share is less on all those
tables, but scores of a noisy model still rank, and equal ones do not: a constant is for plans that are hopeless."""


@final
@dataclass(frozen=True)
class ConstantPlan(TwoStagePlan):
    """A method, `then`, on records that hold the constant feature and nothing else."""

    problem: LinearModelProblem
    privacy: PrivacyParams
    then: algorithms.LinearModelPlan
    planner: Planner
    algorithm: ClassVar[str] = "constant"
    hopeless = True  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    outlook = "no column is used, and the answer is the same for all"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The method's, and what a constant loses to the columns: at most what zero loses; expected: a share of it."""
        given, typical, trivial = self.then.predicted_error, self.problem.typical, self.problem.trivial
        known = math.isfinite(trivial)
        expected = None
        if given.expected is not None and typical is not None:
            columns = self.problem.explained
            lost = typical.at_zero if columns is None else columns * typical_curvature(self.problem.loss.usual) / 2
            share = REMAINS[self.problem.loss.task if columns is None else "explained"]
            expected = given.expected + share * min(trivial, lost)
        bound = given.bound + (trivial if known else 0.0)
        source = f"{given.source}, among constants" + ("" if known else "; an estimate")
        return replace(given, bound=bound, trivial=trivial, expected=expected, source=source, proved=known)

    @property
    def theorem(self) -> str:
        return f"{self.then.theorem} Features are replaced by a public constant, record by record."

    @property
    def coefficient_deviation(self) -> Floats | None:
        found = self.then.coefficient_deviation
        return None if found is None else self._placed(found)

    def describe(self) -> Mapping[str, Any]:
        return {**self.problem.describe(), **self.then.describe(), "constant": {"method": self.then.algorithm}}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        same = partial(constants, value=self.problem.domain.intercept)
        result = self.then.run(*mapped(X, y, same), source, groups)
        return self.restored(result, self._placed(result.point), source)

    def _placed(self, intercepts: Floats) -> Floats:
        """Return flat parameters (outputs * dim,): 0 for all columns."""
        out = np.zeros((self.problem.loss.n_outputs, self.problem.domain.dim))
        out[:, -1] = intercepts
        return out.ravel()


def constants(X: Array, value: float) -> Floats:
    """Return as many records (n, 1) of that one number."""
    return np.full((X.shape[0], 1), value)


@algorithms.recorded("constant")
def plan(problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner) -> tuple[ConstantPlan, ...]:
    """Return the plan; refuse where there is no constant feature."""
    algorithms.check_relation(privacy, users=True)
    algorithms.require_average(problem)
    if not problem.domain.intercept or problem.factor is not None:
        what, remedy = "must have a constant feature, of weight 1, for algorithm='constant'", "Use fit_intercept=True"
        raise InvalidParameterError("intercept", problem.domain.intercept, what, remedy)
    return (ConstantPlan(problem, privacy, planner(alone(problem), privacy)[0], planner),)


def alone(problem: LinearModelProblem) -> LinearModelProblem:
    """Return the problem over records of the constant feature, with its share of the square of the radius."""
    blocks = problem.domain.all_blocks
    own = Block(1, "l1", problem.domain.intercept, "constant")
    share = squared_reach(own) / sum(map(squared_reach, blocks))
    return replace(problem, domain=DataDomain((own,)), radius=problem.radius * math.sqrt(share))


@final
@dataclass(frozen=True)
class MeanPlan(algorithms.LinearModelPlan):
    """The mean of targets in a range, with noise: of a loss for means, over the constant feature alone."""

    problem: LinearModelProblem
    privacy: PrivacyParams
    noise: NormNoiseMechanism  #: of the mean in units of the targets' bound
    l2 = 0.0
    constants = "calibrated"
    noise_name = "l2"
    algorithm: ClassVar[str] = "noisy_mean"
    only_sums = True
    theorem = "A mean of clipped numbers, or of users' means of theirs, with Laplace noise."  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    mechanisms = algorithms.uses({MEAN: "noise"})  # pyright: ignore[reportIncompatibleMethodOverride]

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return ()

    @property
    def _bound(self) -> float:
        """The largest target."""
        loss: Any = self.problem.loss
        return loss.target_bound

    @property
    def _largest(self) -> float:
        """The parameter of the largest target."""
        return self._bound / self.problem.domain.l2

    @property
    def _drawn(self) -> float:
        """The factor of the noisy mean."""
        return SPREAD / (SPREAD + 2 * self.noise.scale**2)

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """Half the mean square of noise and of what is drawn; a cut loss is at most half a square."""
        noise, half = 2 * (self._drawn * self.noise.scale) ** 2, self._bound**2 / 2
        bound, expected = (half * (noise + (1 - self._drawn) ** 2 * square) for square in (1.0, SPREAD))
        cut = 0.0 if isinstance(self.problem.loss, SquaredLoss) else half
        return algorithms.PredictedError(bound + cut, self.problem.trivial, "a noisy mean", expected=expected)

    @property
    def coefficient_deviation(self) -> Floats:
        return np.array([math.sqrt(2) * self._drawn * self.noise.scale * self._largest])

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        ledger = Ledger(self.privacy, self.releases)
        mean = self._units(X, y, groups) / UNITS / self.problem.n  # line 1: of numbers in [-1, 1]
        noisy = self.noise.release(mean, MEAN, source, ledger)  # line 2
        return self.finish(np.clip(self._drawn * noisy, -1.0, 1.0) * self._largest, source)

    def _units(self, X: Any, y: Any, groups: UserGroups | None) -> Array:
        """Return the sum of targets, or of users' means, in whole units, (1,)."""

        def units(X: Array, y: Array) -> Array:
            return np.rint(self.problem.loss.clip_targets(y) / self._bound * UNITS).astype(np.int64)

        if groups is None or not isinstance(X, EncodedRows):
            return totals(X, y, lambda X, y: (np.array([total(units(X, y), groups)]),))[0]
        return np.array([total(np.concatenate(gathered(X, units)), groups)])


@algorithms.recorded("noisy_mean")
def mean(problem: LinearModelProblem, privacy: PrivacyParams) -> tuple[MeanPlan, ...]:
    """Return the plan of a mean; the problem is over the constant feature alone, its loss one for means."""
    if not isinstance(problem.loss.usual, SquaredLoss) or problem.dim != 1:
        raise InvalidParameterError("loss", problem.loss.name, "must be for means, over a constant alone")
    reach = _rounding.sum_up((_rounding.ratio_up(2.0, problem.n), 2.0**-50))
    sensitivity = Sensitivity(reach, "l2", MEAN_LEMMA, unit=privacy.unit)
    return (MeanPlan(problem, privacy, NormNoiseMechanism(L2Norm(1), sensitivity, privacy.epsilon)),)
