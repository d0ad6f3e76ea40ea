"""Base of all private saddle-point algorithms: plan, result, and disjoint batches."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dpconvex._types import REQUIRED, Floats, IntArray, final_dataclass
from dpconvex.algorithms import Plan
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import Planned, VertexSampling, VertexSession
from dpconvex.privacy import Assumption, Ledger, PrivacyCertificate, PrivacyParams
from dpconvex.privacy.profiles import largest_rho
from dpconvex.problems import SimplexSaddle
from dpconvex.randomness import BitSource

MOST_ITERATIONS = 2**22  # largest number of iterations: more would take hours, and their schedule gigabytes
SIGNS = (-1.0, 1.0)
"""Signs of the steps: descent in x, ascent in y (erratum E1: the paper has a minus in gradient *and* update)."""
CLIPPED = Assumption("each record's gradient has the stated spread", "clipped record by record before any sum")
PUBLIC_ORDER = Assumption("the order of the records does not depend on their content", "declared")
DRAWN_POINTS = Assumption("gradients are taken at drawn points only", "by the run's listing")


@final_dataclass(eq=False)
class SaddleResult:
    """The result of a run: the pair is released, and nothing else depends on the data."""

    x: Floats  #: (dx,): probability vector, an average of drawn vertices
    y: Floats  #: (dy,): probability vector; ``[1.0]`` for minimization problems
    certificate: PrivacyCertificate  #: states what the release costs
    plan: "SaddlePlan"  #: the plan that ran: public constants


@dataclass(frozen=True, eq=False)
class SaddlePlan(Plan):
    """Public constants of an algorithm that releases an approximate saddle point over two simplices."""

    problem: SimplexSaddle
    privacy: PrivacyParams
    theorem: ClassVar[str]
    #: Typical error as a share of the bound, measured on simulated games and regressions: bounds are unequally loose.
    error_share: ClassVar[float]
    assumptions: ClassVar[tuple[Assumption, ...]] = (CLIPPED,)

    @property
    def expectation(self) -> float:
        return self.error_share * self.predicted_error.bound

    @property
    def yardstick(self) -> float:
        return min(self.predicted_error.trivial, self.problem.constant_excess)

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """JSON-ready public constants beyond the problem's."""

    @abstractmethod
    def _run(self, records: Any, source: BitSource) -> SaddleResult:
        """Run the paper's listing on records of the planned form."""

    @final
    @property
    def public(self) -> Mapping[str, Any]:
        return {**self.problem.describe(), **self.describe()}

    @final
    def run(self, records: Any, source: BitSource) -> SaddleResult:
        """Run the planned algorithm on records of the problem's form, in an order that says nothing of their content.

        Raises `InvalidDataError` if their form (shapes, dtypes; `SimplexSaddle.check`) is not the plan's.
        """
        self.problem.check(records)
        with np.errstate(all="ignore"):  # what floating point meets depends on the data, so it never speaks up
            return self._run(records, source)

    @final
    def finish(self, x: Floats, y: Floats, source: BitSource) -> SaddleResult:
        """Attach the certificate to a released pair."""
        return SaddleResult(x, y, self.certificate(source), self)


class VertexSamplingPlan(SaddlePlan):
    """A plan that releases only drawn vertices, in one ledger entry under its `label`."""

    label: ClassVar[str]
    noise_name = "vertex sampling"
    assumptions = (CLIPPED, PUBLIC_ORDER, DRAWN_POINTS)
    sampling: VertexSampling = REQUIRED  #: All draws of a run

    @property
    def mechanisms(self) -> Mapping[str, Planned]:
        return {self.label: self.sampling}

    @final
    def start(self, source: BitSource) -> VertexSession:
        """Record the draws in a new ledger, and return the session that draws them."""
        return self.sampling.start(self.label, source, Ledger(self.privacy, self.releases))


def drawn(session: VertexSession, state: list[Floats], count: int) -> list[IntArray]:
    """Draw `count` vertices of each block; a block of one vertex needs no draw."""
    return [session.draw(s, count) if len(s) > 1 else np.zeros(count, np.int64) for s in state]


def range_budget(privacy: PrivacyParams) -> float:
    """Return the largest sum of the ranges of all draws (pure promises), or root of the sum of squares (zCDP)."""
    return privacy.epsilon if privacy.pure else math.sqrt(8 * largest_rho(privacy.epsilon, privacy.delta))


def require_records(problem: SimplexSaddle) -> None:
    """Raise `InvalidParameterError` for a problem whose gradients depend on no record."""
    if not any(problem.spread):
        raise InvalidParameterError("problem", problem.name, "must depend on its records", "Solve it without privacy")


def require_single(problem: SimplexSaddle, algorithm: str = "this algorithm") -> None:
    """Raise `InvalidParameterError` unless the problem is minimization over one simplex and depends on records."""
    if problem.dy != 1:
        raise InvalidParameterError("problem.dy", problem.dy, f"must be 1 for {algorithm}", "Use a saddle algorithm")
    require_records(problem)


def affordable(n: int, iterations: float) -> None:
    """Raise `InvalidParameterError` if a schedule for n records has more iterations than are ever planned."""
    if not iterations <= MOST_ITERATIONS:
        what = f"asks for {iterations:.3g} iterations, and at most {MOST_ITERATIONS} are planned"
        raise InvalidParameterError("n", n, what, "Use constants='calibrated', another algorithm, or a random subset")


def batch_sizes(n: int, weights: Floats) -> IntArray:
    """Return sizes ``ceil(level weights_r)`` of disjoint batches of n records, for the largest level they allow."""
    if len(weights) > n:
        raise InvalidParameterError("iterations", len(weights), f"must be at most n={n}", "Use fewer iterations")
    low, high = 0.0, n / float(weights.sum())
    for _ in range(60):
        middle = (low + high) / 2
        fits = int(np.ceil(middle * weights).sum()) <= n
        low, high = (middle, high) if fits else (low, middle)
    sizes = np.maximum(np.ceil(low * weights), 1).astype(np.int64)
    if int(sizes.sum()) > n:
        raise InvalidParameterError("batches", int(sizes.sum()), f"must need at most n={n} records")
    return sizes


def batch_slices(sizes: IntArray) -> list[slice]:
    """Return consecutive slices of these sizes."""
    return [slice(end - size, end) for end, size in zip(np.cumsum(sizes).tolist(), sizes.tolist(), strict=True)]
