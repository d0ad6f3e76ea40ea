"""The best constant prediction for several classes, computed from a noisy histogram of the classes.

Listing
    1. Count the records, or users, of each class, with noise. 2. Raise negative counts to 0, add `a` (below) to each
    count, divide by the sum, and return the constant that is best for these shares of the classes.
Guarantee
    Pure epsilon, for neighbors that replace one record, or one user.
Lemma
    Lemma F (docs, Private ranges): a record has exactly one class, and the classes of a user's records are averaged to
    a point of the simplex. Features have no part in it, and step 2 is post-processing.
Why not objective perturbation
    Its sensitivity allows for gradients that differ by twice the steepest slope, and it pays for curvature. Gradients
    at one constant differ only by the classes, and all records have one curvature: noise is half as large.
Accuracy
    With deviation s of a count, ``a = DOUBT max(s, 1)`` added and k classes, a constant loses at most
    ``k (s + s^2 / a + a) / n`` more than the best one, in expectation (docs, Which algorithm, Shares of classes).
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpconvex import algorithms
from dpconvex._types import Array, Floats, final_dataclass
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


def plan(problem: LinearModelProblem, privacy: PrivacyParams) -> ClassSharesPlan:
    """Return the plan for a problem whose only feature is the constant and whose loss has `classes`."""
    cells = (len(problem.loss.classes),)
    return ClassSharesPlan(problem, privacy, JointHistogram(cells, privacy.epsilon, privacy.unit))
