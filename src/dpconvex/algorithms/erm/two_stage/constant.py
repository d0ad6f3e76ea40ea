"""A constant answer: a method on the constant feature alone, where columns would cost more than they tell.

Guarantee
    That of the method, for neighbors that replace one record, or one user.
Lemma
    Every record's features are replaced by one public number, whatever they are: a map of single records. So neighbors
    become neighbors in the domain of that one column (which differ by the target at most), and the method protects
    them; of users, whose records they are stays as it is. Coefficients of columns are 0, a public number.
    Squared errors: the mean, of targets in ``[-B, B]``, moves by at most ``2B/n`` when one is replaced, and so does
    that of users' means of theirs. Sums are of integers, multiples of ``B 2^-31`` (a user's mean is rounded down to
    one), so nothing but a division is rounded: ``2^-50`` covers it, in units of B.
Sensitivity
    The method's, for records of the length of the constant; of the mean as the lemma has it.
Assumptions
    Those of the method.
"""

# pyright: reportAssignmentType=false, reportIncompatibleMethodOverride=false

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
from dpconvex.algorithms.erm.two_stage.centering import UNITS
from dpconvex.errors import InvalidParameterError
from dpconvex.geometry import L2Norm
from dpconvex.losses import SquaredLoss
from dpconvex.mechanisms import NormNoiseMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.sources.rows import mapped, totals
from dpconvex.problems.data.users import integer_means
from dpconvex.problems.linear.expected_risk import squared_reach, typical_curvature
from dpconvex.randomness import BitSource

MEAN = "mean of the targets"
MEAN_LEMMA = "the mean of n numbers in [-1, 1], or of users' means, changes by at most 2/n when one is replaced"
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
    hopeless = True
    outlook = "no column is used, and the answer is the same for all"

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
    """The mean of targets in a range, with noise: of squared errors, over the constant feature alone."""

    problem: LinearModelProblem
    privacy: PrivacyParams
    noise: NormNoiseMechanism  #: of the mean in units of the largest target
    largest: float  #: target
    l2, assumptions = 0.0, ()
    constants, noise_name, only_sums = "calibrated", "l2", True
    algorithm: ClassVar[str] = "noisy_mean"
    theorem = "A mean of clipped numbers, or of users' means of theirs, with Laplace noise."
    mechanisms = algorithms.uses({MEAN: "noise"})

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        half = (self.largest * self.noise.scale) ** 2  # of the variance of the noise
        return algorithms.PredictedError(half, self.problem.trivial, "a noisy mean", expected=half)

    def _run(self, X: Any, y: Any, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        def units(y: Array) -> Array:
            return np.rint(self.problem.loss.clip_targets(y)[:, None] / self.largest * UNITS).astype(np.int64)

        if groups is None:
            whole = totals(X, y, lambda X, y: (units(y).sum(0),))[0]
        else:
            whole = integer_means(y, units, groups, 1).sum(0)
        mean, ledger = whole / UNITS / self.problem.n, Ledger(self.privacy, self.releases)
        noisy = np.clip(self.noise.release(mean, MEAN, source, ledger), -1.0, 1.0)
        return self.finish(noisy * self.largest / self.problem.domain.l2, source)


@algorithms.recorded("noisy_mean")
def mean(problem: LinearModelProblem, privacy: PrivacyParams) -> tuple[MeanPlan, ...]:
    """Return the plan of a mean; the problem is over the constant feature alone."""
    if not isinstance(problem.loss, SquaredLoss) or problem.dim != 1:
        raise InvalidParameterError("loss", problem.loss.name, "must be squared, over a constant alone")
    reach = _rounding.sum_up((_rounding.ratio_up(2.0, problem.n), 2.0**-50))
    noise = NormNoiseMechanism(L2Norm(1), Sensitivity(reach, "l2", MEAN_LEMMA, unit=privacy.unit), privacy.epsilon)
    return (MeanPlan(problem, privacy, noise, problem.loss.target_bound),)
