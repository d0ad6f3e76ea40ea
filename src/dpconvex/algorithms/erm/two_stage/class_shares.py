"""The best constant of several classes, off a noisy histogram of them.

Listing
    1. Count the records, or users, of each class, with noise. 2. Return the constant that is best for the shares that
    were released: each count, not below 0, and a little more, over their sum.
Guarantee
    Pure epsilon, for neighbors that replace one record, or one user.
Lemma
    Lemma F (docs, Private ranges): a record has exactly one class, and the classes of a user's records are averaged to
    a point of the simplex. Features have no part in it, and step 2 is post-processing.
Why not objective perturbation
    It allows for gradients that differ by twice the steepest slope, and pays for curvature. Gradients of one constant
    differ by no more than two classes do, and their curvature is the same for all records: noise is half as large.
Accuracy
    With deviation s of a count, ``a = DOUBT max(s, 1)`` added and k classes, a constant loses at most
    ``k (s + s^2 / a + a) / n`` more than the best one, in expectation (docs, Which algorithm, Shares of classes).
"""

# pyright: reportIncompatibleMethodOverride=false

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dpconvex import algorithms
from dpconvex._types import Array, Floats
from dpconvex.algorithms.erm.two_stage.ranges import counted
from dpconvex.mechanisms import JointHistogram
from dpconvex.privacy import Assumption, Ledger, PrivacyParams
from dpconvex.problems import LinearModelProblem, UserGroups
from dpconvex.randomness import BitSource

CLASSES = "histogram of the classes"
WHOLE = Assumption(
    "every record, or user, counts exactly once",
    "a record has one class, whatever it is; those of a user are averaged to multiples of 2^-24 that add up to 1",
)
DOUBT = 0.5
"""Deviations of noise added to every count: of least mean loss where shares are drawn evenly, for two to nine classes
and noise of 1 to 10 % of the records (`benchmarks/constant.py --doubt`)."""
DRAWS, NUMBERS = (16, 256), 2**16  #: Least and most simulated releases for the error to expect; numbers in them.


@final
@dataclass(frozen=True)
class ClassSharesPlan(algorithms.LinearModelPlan):
    """A noisy histogram, and the constant that follows from it."""

    problem: LinearModelProblem  #: Of the constant feature alone
    privacy: PrivacyParams
    histogram: JointHistogram
    l2: float = 0.0
    constants: str = "calibrated"
    algorithm: ClassVar[str] = "class_shares"
    noise_name: ClassVar[str] = "grouped"  # pyright: ignore[reportIncompatibleVariableOverride]
    theorem: ClassVar[str] = "A histogram of points of a simplex (docs, Private ranges, Lemma F)."  # pyright: ignore[reportIncompatibleVariableOverride]
    assumptions: ClassVar[tuple[Assumption, ...]] = (WHOLE,)  # pyright: ignore[reportIncompatibleVariableOverride]
    only_sums = True  # pyright: ignore[reportAssignmentType]
    mechanisms = algorithms.uses({CLASSES: "histogram"})

    @property
    def predicted_error(self) -> algorithms.PredictedError:
        """The bound from above; expected: the mean over simulated noise, and shares that are drawn evenly."""
        off, added, k, n = self._deviation, self._added, self.histogram.dim, self.problem.n
        bound, expected = k * (off + off**2 / added + added) / n, float(self._simulated[0].mean())
        trivial, source = self.problem.trivial, "noise of the classes' shares"
        return algorithms.PredictedError(bound, trivial, source, expected=min(expected, bound))

    @property
    def coefficient_deviation(self) -> Floats:
        return self._simulated[1].std(0)

    @cached_property
    def _simulated(self) -> tuple[Floats, Floats]:
        """Return excess losses (draws,), and how far parameters move (draws, outputs), by public noise and shares."""
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
        counts = counted(X, y, groups, classes, self.histogram.dim)
        noisy = self.histogram.release(counts, CLASSES, source, ledger)
        return self.finish(loss.best_constant(self._shares(noisy)) / self._feature, source)

    def _shares(self, noisy: Floats) -> Floats:
        """Return the shares (..., classes) that released counts speak for: all positive."""
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
        """The constant feature of every record."""
        return self.problem.domain.blocks[0].bound


def plan(problem: LinearModelProblem, privacy: PrivacyParams) -> ClassSharesPlan:
    """Return the plan for a problem of the constant feature alone, whose loss has `classes`."""
    cells = (len(problem.loss.classes),)
    return ClassSharesPlan(problem, privacy, JointHistogram(cells, privacy.epsilon, privacy.unit))
