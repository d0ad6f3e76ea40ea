r"""What is assumed of the tails: declared, or found in the data with a part of the budget.

`Moments` are public numbers, on which utility rests and privacy does not. `plan_moments` finds usable ones:

Guarantee
    Pure epsilon-DP for neighbors that replace one record.
Lemma
    Every record falls into one bin of a public grid, by its gradient bound ``|x| max |phi'|`` over the ball or by the
    slope of its loss at the prediction 0: functions of the record alone. Replacing a record moves one count down by 1
    and one up by 1: l1 sensitivity 2. The moments are post-processing of the noisy counts.
Use
    ``moments, certificate = plan_moments(...).run(X, y, source)``, then a plan with the rest of epsilon: the two runs
    read the same records, so their epsilons add up. Moments are for utility: an unlucky histogram costs accuracy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpconvex import _validate
from dpconvex._types import AnyArray, FloatArray
from dpconvex.algorithms import Recipe, check_relation, recorded, require_average, stored
from dpconvex.algorithms.base import DATA_ASSUMPTIONS, beyond_floats, require_arrays
from dpconvex.algorithms.recipes import stored_recipe
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.mechanisms import LaplaceMechanism
from dpconvex.privacy import Ledger, NoiseSource, PrivacyCertificate, PrivacyParams, Release, Sensitivity, certify
from dpconvex.problems import LinearModelProblem, Records
from dpconvex.problems.linear.truncated import check_loss
from dpconvex.randomness import BitSource

LABEL, SLOPES_LABEL = "histogram of gradient bounds", "histogram of slopes"
LEMMA = "every record is counted in one bin: one count falls by 1 and another grows by 1"
BINS, RATIO = 80, math.sqrt(2.0)
"""From the largest gradient that the domain allows down to ``RATIO^-BINS`` of it; all smaller ones in the last bin."""
FALSE_TOP = 0.05
"""Probability that an empty bin counts as occupied."""


@stored
@dataclass(frozen=True)
class Moments:
    """Bounds on the moments of ``A(z) = sup over the ball of |grad loss(w, z)|`` for a random record z.

    Public numbers: from knowledge of the field, a public sample or earlier studies, never from the private data. A
    bound that is too small costs accuracy (bias), one that is too large costs noise; privacy holds with any.
    """

    k: float  #: Order, at least 2: at least the variance of the gradients is finite
    bound: float  #: ``G_k``, at least ``(E A^k)^(1/k)``, in the unit of the gradient
    second: float | None = None  #: ``G_2``, at least ``(E A^2)^(1/2)``; default `bound`, its upper bound
    first: float | None = None  #: ``G_1``, at least ``E A``; default `second`

    def __post_init__(self) -> None:
        _validate.real("k", self.k, at_least=2.0, at_most=1e3, remedy="The theory needs a second moment")
        _validate.real("bound", self.bound, above=0.0)
        for name, larger in (("second", self.bound), ("first", self.g2)):
            value = {"second": self.second, "first": self.first}[name]
            if value is not None and not 0 < value <= larger:
                raise InvalidParameterError(name, value, f"must be positive and at most {larger!r}, as moments grow")

    @property
    def g2(self) -> float:
        """``G_2``."""
        return self.bound if self.second is None else self.second

    @property
    def g1(self) -> float:
        """``G_1``."""
        return self.g2 if self.first is None else self.first

    def excess(self, level: float) -> float:
        """Bound on ``E (A - C)_+`` for the level C: ``G_k^k / ((k - 1) C^(k-1))``, at most ``G_1``."""
        return min(self.bound * (self.bound / level) ** (self.k - 1) / (self.k - 1), self.g1)

    def tail(self, level: float) -> float:
        """Bound on ``E A 1(A > C)``: ``G_k^k / C^(k-1)``, at most ``G_1``."""
        return min(self.bound * (self.bound / level) ** (self.k - 1), self.g1)

    def tail_square(self, level: float) -> float:
        """Bound on ``E A^2 1(A > C)``: ``G_k^k / C^(k-2)``, at most ``G_2^2``."""
        return min(self.bound**2 * (self.bound / level) ** (self.k - 2), self.g2**2)

    def excess_square(self, level: float) -> float:
        """Bound on ``E (A - C)_+^2``: ``2 G_k^k C^(2-k) / ((k-1)(k-2))`` for k > 2, at most ``G_2^2``."""
        if self.k == 2:
            return self.g2**2
        k = self.k
        return min(2 * self.bound**2 * (self.bound / level) ** (k - 2) / ((k - 1) * (k - 2)), self.g2**2)


def check_moments(moments: object) -> None:
    """Raise `InvalidParameterError` unless these are `Moments`: a bare number does not say of which order."""
    if not isinstance(moments, Moments):
        raise InvalidParameterError("moments", moments, "must be Moments", "Write Moments(k=2, bound=6.5)")


def check_heavy(problem: LinearModelProblem, privacy: PrivacyParams, moments: object) -> None:
    """Raise `InvalidParameterError` unless methods for heavy tails apply to these public facts."""
    check_moments(moments)
    check_relation(privacy)
    require_average(problem)
    check_loss(problem.loss)


def extreme(problem: str, moments: Moments) -> InvalidParameterError:
    """Return the error for public numbers whose constants no float holds: it names the moment bound if that is odd."""
    if 1e-30 <= moments.bound <= 1e30:
        return beyond_floats(problem)
    what = "must have constants whose squares, ratios and products are floats"
    return InvalidParameterError("moments.bound", moments.bound, what, "Rescale the data, or correct the bound")


def record_cap(moments: Moments, n: int, failure: float = 0.01) -> float:
    """Return a gradient norm that no record exceeds with probability ``1 - failure``: ``G_k (n / failure)^(1/k)``.

    For choosing the domain that records are clipped into: with heavy tails it should be wide, since no noise is
    proportional to it, but not infinite, since the worst-case time of the solver is. `n` counts the records.
    """
    _validate.records("n", n)
    _validate.real("failure", failure, above=0.0, below=1.0)
    return moments.bound * (n / failure) ** (1 / moments.k)


@dataclass(frozen=True)
class MomentPlan:
    """Constants of one private estimate of the k-th moment of gradients over the ball, or of slopes at prediction 0."""

    problem: LinearModelProblem
    privacy: PrivacyParams
    k: float
    slopes: bool = False
    recipe: ClassVar[Recipe | None] = None
    course: ClassVar[tuple[Any, ...]] = ()

    @property
    def label(self) -> str:
        """Names the release."""
        return SLOPES_LABEL if self.slopes else LABEL

    @property
    def mechanism(self) -> LaplaceMechanism:
        """Noise of the counts."""
        return LaplaceMechanism.calibrate(Sensitivity(2.0, "l1", LEMMA), self.privacy.epsilon, BINS)

    @property
    def releases(self) -> tuple[Release, ...]:
        """One: the histogram."""
        return (self.mechanism.planned(self.label),)

    @property
    def edges(self) -> FloatArray:
        """Upper ends of the bins, falling, shape (BINS,)."""
        problem, ends = self.problem, np.finfo(np.float64).max
        with np.errstate(all="ignore"):
            targets = problem.loss.clip_targets(np.array([-ends, ends]))
            largest = self._bounds(np.full(2, problem.domain.l2), targets).max()
        return float(largest) * RATIO ** -np.arange(BINS, dtype=np.float64)

    def run(self, X: AnyArray, y: AnyArray, source: BitSource) -> tuple[Moments, PrivacyCertificate]:
        """Return the moments and the certificate, for arrays of exactly the planned shapes, clipped here."""
        require_arrays(X, y)
        if len(X) != self.problem.n or len(y) != self.problem.n:
            raise InvalidDataError(f"X has {len(X)} records and y {len(y)}, but the plan is for n={self.problem.n}")
        ledger = Ledger(self.privacy, self.releases)
        with np.errstate(all="ignore"):
            norms = np.sqrt(Records.clipped(X, self.problem.domain).squared_norms())
            bounds = self._bounds(norms, self.problem.loss.clip_targets(y))
            counts = self.mechanism.release(self.histogram(bounds), self.label, source, ledger)
        return self.moments(counts), self.certificate(source)

    def _bounds(self, norms: FloatArray, targets: FloatArray) -> FloatArray:
        if self.slopes:
            return np.abs(self.problem.loss.derivative(np.zeros(len(targets)), targets))
        return _gradient_bounds(self.problem, norms, targets)

    def histogram(self, bounds: FloatArray) -> FloatArray:
        """Return how many bounds (n,) fall into each bin, shape (BINS,)."""
        smallest = np.searchsorted(-self.edges, -bounds, side="right") - 1
        return np.bincount(np.clip(smallest, 0, BINS - 1), minlength=BINS).astype(np.float64)

    def moments(self, counts: FloatArray) -> Moments:
        """Return the moments of noisy counts (BINS,): bins above the highest clearly occupied one count as empty."""
        threshold = self.mechanism.scale * math.log(BINS / FALSE_TOP)
        occupied = np.flatnonzero(counts > threshold)
        top = int(occupied[0]) if len(occupied) else BINS - 1
        edges, weights = self.edges[top:], np.maximum(counts[top:], 0.0)
        weights[0] = max(weights[0], 1.0)
        shares, ratios = weights / weights.sum(), edges / edges[0]
        kth, second, first = (float(edges[0]) * float(shares @ ratios**q) ** (1 / q) for q in (self.k, 2.0, 1.0))
        second = min(second, kth)
        return Moments(self.k, kth, second, min(first, second))

    def certificate(self, source: BitSource) -> PrivacyCertificate:
        """Return the certificate of a run."""
        exact = self.mechanism.exact_bits(source)
        return certify(
            algorithm="private_moments",
            constants="calibrated",
            theorem="A histogram over public bins with Laplace noise; moments are computed from it.",
            target=self.privacy,
            releases=self.releases,
            assumptions=DATA_ASSUMPTIONS,
            noise_source=NoiseSource(source.name, source.private, exact, "Discrete Laplace noise on a public grid."),
            public={**self.problem.describe(), "moment_order": self.k, "bins": BINS, "slopes": self.slopes},
            planner=stored_recipe(self),
        )


@recorded("private_moments")
def plan_moments(
    problem: LinearModelProblem, privacy: PrivacyParams, k: float = 2.0, *, slopes: bool = False
) -> MomentPlan:
    """Return the plan of a private moment estimate, for problems as in `localization`, with targets or slope bounded.

    A tenth of epsilon is plenty for n in the thousands. Larger orders k, at least 2, give faster rates and rest on
    fewer, larger records. `slopes` asks for moments of slopes at the prediction 0, whatever the features are, in the
    place of gradients.
    """
    check_relation(privacy)
    require_average(problem)
    check_loss(problem.loss)
    _validate.real("k", k, at_least=2.0, at_most=1e3)
    return MomentPlan(problem, privacy, k, slopes)


def _gradient_bounds(problem: LinearModelProblem, norms: FloatArray, targets: FloatArray) -> FloatArray:
    """``|x|`` times the largest slope over predictions up to ``R |x|``, which is at an end: slopes are monotone."""
    reach = problem.radius * norms
    ends = [np.abs(problem.loss.derivative(sign * reach, targets)) for sign in (-1.0, 1.0)]
    return np.nan_to_num(norms * np.maximum(*ends), nan=0.0, posinf=1e300)
