"""A constant prediction: a method on the constant feature alone, where columns would add more noise than information.

Guarantee
    The method's guarantee, for neighbors that replace one record, or one user.
Lemma
    Every record's features are replaced by one public number, whatever they are: a map of single records. So neighbors
    become neighbors in the domain of that one column (they differ in the target at most), and the method protects them;
    each record still belongs to its user. Coefficients of the dropped columns are 0, a public number.
Sensitivity
    The method's sensitivity, for records that hold the constant feature alone.
Assumptions
    Those of the method.
Shares of classes: a method for the constant feature and several classes, pure epsilon (`ClassSharesPlan`)
    1. Count the records, or users, of each class, with noise. 2. Raise negative counts to 0, add `a` (below) to each
    count, divide by the sum, and return the constant that is best for these shares of the classes.
    Lemma F (docs, Private ranges): a record has exactly one class, and the classes of a user's records are averaged to
    a point of the simplex. Features have no part in it, and step 2 is post-processing.
    Why not objective perturbation: its sensitivity allows for gradients that differ by twice the steepest slope, and it
    pays for curvature. Gradients at one constant differ only by the classes, and all records have one curvature: noise
    is half as large.
    Accuracy: with deviation s of a count, ``a = DOUBT max(s, 1)`` added and k classes, a constant loses at most
    ``k (s + s^2 / a + a) / n`` more than the best one, in expectation (docs, Which algorithm, Shares of classes).
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from dpconvex import algorithms
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms.base import CLEARLY
from dpconvex.algorithms.erm.two_stage.base import Planner, TwoStagePlan
from dpconvex.algorithms.erm.two_stage.ranges import counted
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import Assumption, Ledger, PrivacyParams
from dpconvex.problems import Block, DataDomain, LinearModelProblem, UserGroups
from dpconvex.problems.data.sources.rows import mapped
from dpconvex.problems.linear.expected_risk import squared_reach, typical_curvature
from dpconvex.randomness import BitSource

REMAINS = {"explained": 0.6, "regression": 0.3, "classification": CLEARLY, "users": 0.25, "several": 0.6, "few": 0.35}
"""Assumed loss of the best constant, as a share of the loss expected of zero parameters, by task. "explained" is for
regressions where the plan knows what the columns explain, as a share of that; "users" is for two classes with users.

For regressions chosen on learning tables (`benchmarks/constant_share.py`). For two classes the true share is smaller on
all these tables, but a noisy model's scores still rank records, and a constant's do not: a constant is only for
hopeless plans. Users are far fewer than records, and fits are often much worse than a constant: the share is that of
least loss (`benchmarks/user_constant.py`). With several classes .3 is better by 3.5 % on learning tables, but takes
constants of tables whose columns tell the classes well; "few" is for up to `FEW` records times epsilon, where most
fits lose more than a constant, and goes over into "several" up to twice of it (`benchmarks/many_classes.py`)."""

FEW = 300.0


@final_dataclass
class ConstantPlan(TwoStagePlan):
    """A method, `then`, on records that hold the constant feature and nothing else."""

    then: algorithms.LinearModelPlan
    algorithm: ClassVar[str] = "constant"
    added = " Features are replaced by a public constant, record by record."
    hopeless = True  # pyright: ignore[reportAssignmentType]
    outlook = (  # pyright: ignore[reportAssignmentType]
        "no column is used, and the answer is the same for all: with ordinary columns a fit is expected to lose more "
        "(algorithm='objective_perturbation' makes it: it ranks records, and loses far less if columns tell nearly all)"
    )

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The method's error plus the constant's loss: bounded by the loss of zero, expected as a share of it."""
        given, trivial = self.then.predicted_error, self.problem.trivial
        usual = replace(self.problem, loss=self.problem.loss.usual)  # columns explain as much without a cap
        typical = usual.typical
        known = math.isfinite(trivial)
        expected = None
        if given.expected is not None and typical is not None:
            columns = self.problem.explained
            lost = typical.at_zero if columns is None else columns * typical_curvature(usual.loss) / 2
            task = "explained" if columns is not None else self.problem.loss.task
            if task == "classification":
                own = "users" if self.problem.grouped else task
                task = "several" if self.problem.loss.n_outputs > 1 else own
            share = REMAINS[task]
            if task == "several":
                records = self.problem.n * self.privacy.epsilon
                share = float(np.interp(records, (FEW, 2 * FEW), (REMAINS["few"], share)))
            expected = given.expected + share * min(usual.trivial, lost)
        bound = given.bound + (trivial if known else 0.0)
        source = f"{given.source}, among constants" + ("" if known else "; an estimate")
        return replace(given, bound=bound, trivial=trivial, expected=expected, source=source, proved=known)

    @property
    def coefficient_deviation(self) -> Floats | None:
        return None if (found := self.then.coefficient_deviation) is None else self._placed(found)

    def describe(self) -> Mapping[str, Any]:
        return {**self.problem.describe(), **self.then.describe(), "constant": {"method": self.then.algorithm}}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        result = self.then.run(*mapped(X, y, partial(constants, value=self.problem.domain.intercept)), source, groups)
        apart = self.then.problem.loss.offset - self.problem.loss.offset  # the method starts from the rates as told
        return self.restored(result, self._placed(result.point + apart / self.problem.domain.intercept), source)

    def _placed(self, intercepts: Floats) -> Floats:
        """Return flat parameters (outputs * dim,) with the given intercepts and coefficients 0."""
        out = np.zeros((self.problem.loss.n_outputs, self.problem.domain.dim))
        out[:, -1] = intercepts
        return out.ravel()


def constants(X: Array, value: float) -> Floats:
    """Return n records of one feature, (n, 1), all of which equal `value`."""
    return np.full((X.shape[0], 1), value)


@algorithms.recorded("constant")
def plan(
    problem: LinearModelProblem, privacy: PrivacyParams, planner: Planner, counted: bool = False
) -> tuple[ConstantPlan, ...]:
    """Return the plan; refuse where there is no constant feature.

    `counted`: where the loss has `classes`, the constant follows from a noisy histogram of them (`plan_shares`).
    """
    algorithms.check_average(problem, privacy)
    if not problem.domain.intercept:
        what, remedy = "must have a constant feature, of weight 1, for algorithm='constant'", "Use fit_intercept=True"
        raise InvalidParameterError("intercept", problem.domain.intercept, what, remedy)
    own = alone(problem)
    then = plan_shares(own, privacy) if counted and own.loss.classes.size else planner(own, privacy)[0]
    return (ConstantPlan(problem, privacy, then),)


def alone(problem: LinearModelProblem) -> LinearModelProblem:
    """Return the problem over the constant feature alone, whose squared radius is that feature's share of the whole.

    Public rates are a constant's start as they were told: there are no columns whose slopes a rare start would lower.
    """
    own = Block(1, "l1", problem.domain.intercept, "constant")
    own_radius = problem.radius * math.sqrt(squared_reach(own) / sum(map(squared_reach, problem.domain.all_blocks)))
    return replace(problem, loss=problem.loss.as_told, domain=DataDomain((own,)), radius=own_radius)


CLASSES = "histogram of the classes"
WHOLE = Assumption(
    "every record, or user, counts exactly once",
    "a record has one class, whatever it is; those of a user are averaged to multiples of 2^-24 that add up to 1",
)
DOUBT = 0.5
"""Each count is raised by this many deviations of its noise: the value of least mean loss for evenly drawn shares, two
to nine classes, and noise of 1 to 10 % of the records (`benchmarks/constant.py --doubt`)."""
DRAWS, NUMBERS = (16, 256), 2**16  #: Limits of the number of simulated releases; noisy counts simulated in all.


@final_dataclass
class ClassSharesPlan(algorithms.StatedPlan):
    """A noisy histogram, and the constant that follows from it: the only feature of the problem is the constant."""

    histogram: JointHistogram
    l2: float = 0.0
    constants: str = "calibrated"
    algorithm: ClassVar[str] = "class_shares"
    noise_name: ClassVar[str] = "grouped"
    theorem: ClassVar[str] = "A histogram of points of a simplex (docs, Private ranges, Lemma F)."
    assumptions: ClassVar[tuple[Assumption, ...]] = (WHOLE,)
    only_sums = True  # pyright: ignore[reportAssignmentType]
    mechanisms = algorithms.uses({CLASSES: "histogram"})

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The bound of the module docstring; `expected` is a mean over simulated noise and evenly drawn shares."""
        off, added, k, n = self._deviation, self._added, self.histogram.dim, self.problem.n
        bound, expected = k * (off + off**2 / added + added) / n, float(self._simulated[0].mean())
        trivial, source = self.problem.trivial, "noise of the classes' shares"
        return algorithms.PredictedError(bound, trivial, source, expected=min(expected, bound))

    @property
    def coefficient_deviation(self) -> Floats:
        return self._simulated[1].std(0)

    @cached_property
    def _simulated(self) -> tuple[Floats, Floats]:
        """Excess losses (draws,) and moves of the parameters (draws, outputs), for simulated noise and class shares."""
        generator, loss = np.random.default_rng(0), self.problem.loss
        size = int(np.clip(NUMBERS // self.histogram.dim, *DRAWS))
        noise = self.histogram.simulate(size, generator)
        shares = generator.dirichlet(np.ones(self.histogram.dim), size)
        released = self._shares(self.problem.n * shares + noise - noise.mean(1, keepdims=True))
        excess = np.sum(shares * np.log(np.maximum(shares, 1e-300) / released), 1)
        return excess, (loss.best_constant(released) - loss.best_constant(shares)) / self._feature

    def describe(self) -> Mapping[str, Any]:
        return {"noise": self.noise_name, "classes": self.histogram.dim}

    def _run(self, X: Array, y: Array, groups: UserGroups | None, source: BitSource) -> algorithms.PrivateResult:
        ledger, loss = Ledger(self.privacy, self.releases), self.problem.loss
        classes = lambda _, y: np.searchsorted(loss.classes, loss.clip_targets(y))[None]  # noqa: E731
        noisy = self.histogram.release(counted(X, y, groups, classes, self.histogram.dim), CLASSES, source, ledger)
        return self.finish(loss.best_constant(self._shares(noisy)) / self._feature, source)

    def _shares(self, noisy: Floats) -> Floats:
        """Return the classes' shares (..., classes), all positive, estimated from released counts."""
        counts = np.maximum(noisy, 0.0) + self._added
        return counts / counts.sum(-1, keepdims=True)

    @property
    def _deviation(self) -> float:
        return float(self.histogram.deviations[0])

    @property
    def _added(self) -> float:
        return DOUBT * max(self._deviation, 1.0)

    @property
    def _feature(self) -> float:
        """The value of the constant feature, equal in all records."""
        return self.problem.domain.blocks[0].bound


def plan_shares(problem: LinearModelProblem, privacy: PrivacyParams) -> ClassSharesPlan:
    """Return the plan for a problem whose only feature is the constant and whose loss has `classes`."""
    cells = (len(problem.loss.classes),)
    return ClassSharesPlan(problem, privacy, JointHistogram(cells, privacy.epsilon, privacy.unit))
