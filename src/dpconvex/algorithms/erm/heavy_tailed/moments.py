r"""Assumed moments of gradients, and bounds on how steep a record's loss is over the ball.

`Moments` are public numbers that affect utility, not privacy. Where none is known, `level.py` finds a level privately,
from the counts of records in public bins of their gradient bounds.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex.algorithms import check_relation, require_average, stored
from dpconvex.algorithms.base import beyond_floats
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem, Records
from dpconvex.problems.linear.truncated import check_loss

BINS, RATIO = 80, math.sqrt(2.0)
"""Number and ratio of the bins, which begin at the domain's largest gradient; the last holds all smaller gradients."""


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
            if (value := getattr(self, name)) is not None and not 0 < value <= larger:
                raise InvalidParameterError(name, value, f"must be positive and at most {larger!r}, as moments grow")

    @property
    def g2(self) -> float:
        """``G_2``."""
        return self.bound if self.second is None else self.second

    @property
    def g1(self) -> float:
        """``G_1``."""
        return self.g2 if self.first is None else self.first

    def describe(self) -> dict[str, Any]:
        """JSON-ready facts."""
        return {"moment_order": self.k, "moment_bounds": [self.bound, self.g2, self.g1]}

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
    """Return the error for public numbers whose constants overflow: it names the moment bound if that is extreme."""
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


def record_bounds(problem: LinearModelProblem, X: Array, y: Array, *, slopes: bool = False) -> Floats:
    """Return every record's largest gradient over the ball, or its slope at the prediction 0, shape (n,): no NaN."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(Records.clipped(X, problem.domain).squared_norms())
        return _bounds(problem, norms, problem.loss.clip_targets(y), slopes)


def bin_edges(problem: LinearModelProblem, *, slopes: bool = False) -> Floats:
    """Return the upper ends of the public bins, falling, shape (BINS,); no record exceeds the first."""
    with np.errstate(all="ignore"):
        targets = problem.loss.clip_targets(np.array([-1.0, 1.0]) * np.finfo(np.float64).max)
        largest = _bounds(problem, np.full(2, problem.domain.l2), targets, slopes).max()
    return float(largest) * RATIO ** -np.arange(BINS, dtype=np.float64)


def _bounds(problem: LinearModelProblem, norms: Floats, targets: Floats, slopes: bool) -> Floats:
    """Return ``|x|`` times the largest slope over predictions up to ``R |x|``, at an end as slopes are monotone."""
    if slopes:  # slopes at the prediction 0
        return np.abs(problem.loss.derivative(np.zeros(len(targets)), targets))
    reach = problem.radius * norms
    ends = [np.abs(problem.loss.derivative(sign * reach, targets)) for sign in (-1.0, 1.0)]
    return np.nan_to_num(norms * np.maximum(*ends), nan=0.0, posinf=1e300)
