r"""A level for gradients, or slopes, found privately where no moment is known, neither its order nor its bound.

Guarantee
    Pure epsilon-DP for neighbors that replace one record; a level of gradients and a second moment get half each.
Lemma (sensitivity)
    ``T_b``, the number of records whose bound A exceeds the public edge ``e_b``, moves by at most 1, so each score
    ``-max(0, T_b - t, t - T_(b+1))`` does. Given the released level C, a sum of ``min(A/C, 1)^2`` moves by at most 1.
Theorem (docs, "No moment known", with its proof), except with probability beta
    For *every* k and G with ``E A^k <= G^k``, cutting at the level costs ``E (A - C)_+ <= G p^(1-1/k)``, p being
    about ``d/(n epsilon)``. Cut residuals, on the same records, have a bias of at most ``2 P M_k ((t + s)/n)^(1-1/k)``.
    constants="paper": ``M = (d + 8 L)/epsilon + 32 L``, from a proof by Chernoff's bounds (specification, 8.7).
"""

import math
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.stats import beta

from dpconvex import _rounding
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.heavy_tailed import clipped_gradient
from dpconvex.algorithms.erm.heavy_tailed.clipped_residuals import fitted
from dpconvex.algorithms.erm.heavy_tailed.localization import planned
from dpconvex.algorithms.erm.heavy_tailed.moments import BINS, Moments, bin_edges, record_bounds
from dpconvex.algorithms.erm.heavy_tailed.surrogates import surrogate_named
from dpconvex.mechanisms import LaplaceMechanism, ReportNoisyMax
from dpconvex.privacy import Ledger, PrivacyParams, Release, Sensitivity
from dpconvex.problems import LinearModelProblem
from dpconvex.problems.data.sources.rows import totals
from dpconvex.randomness import BitSource
from dpconvex.sets import ConvexSet

LEVEL, SLOPES, SQUARES = "level of gradients", "level of slopes", "sum of squared cut gradients"
SCORE = Sensitivity(1.0, "linf", "a replaced record moves every count above an edge by at most 1, so every score")
SUM = Sensitivity(1.0, "absolute", "each summand is in [0, 1], a multiple of 2^-20: the sum is exact")
GRID = 2.0**20  #: Number of grid steps in [0, 1] to which squares are rounded up.
SPREAD = 2.0  #: In the calibrated ``M = SPREAD (d + L)/epsilon + L``. Our choice: 1 to 4 are equal within noise.


@final_dataclass
class Scale:
    """Public constants of the private level C, and of the second moment V of gradients cut there."""

    problem: LinearModelProblem
    n: int  #: number of records that this stage reads
    epsilon: float  #: budget of this stage
    following: float  #: epsilon of the method that uses the level
    failure: float  #: probability beta with which the theorem may fail
    slopes: bool = False  #: whether only a level of slopes at the prediction 0 is found, not one of gradients
    apart: bool = False  #: whether no other release reads these records
    constants: str = "calibrated"

    @cached_property
    def edges(self) -> Floats:
        """Public levels in falling order, shape (BINS,); no record's bound exceeds the first."""
        return bin_edges(self.problem, slopes=self.slopes)

    @property
    def ends(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The least and the largest values that this stage may release."""
        least, largest = (float(edge) for edge in self.edges[[-1, 0]])
        return ((least,), (largest,)) if self.slopes else ((least, self.second(least, 0.0)), (largest, largest))

    @property
    def choice(self) -> ReportNoisyMax:
        """The mechanism that chooses the level."""
        return ReportNoisyMax(SCORE, self.epsilon if self.slopes else _rounding.product_down(0.5, self.epsilon))

    @property
    def noise(self) -> LaplaceMechanism:
        """The noise of the sum of squares."""
        return LaplaceMechanism.calibrate(SUM, _rounding.product_down(0.5, self.epsilon), 1)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Releases of the level and, for gradients, of the sum of squares."""
        if self.slopes:
            return (self.choice.planned(SLOPES, self.block),)
        return (self.choice.planned(LEVEL, self.block), self.noise.planned(SQUARES, self.block))

    @property
    def block(self) -> str | None:
        """Name of the records that this stage reads; None if other releases read them too."""
        return "records of the scale" if self.apart else None

    @property
    def log(self) -> float:
        """L, which is ``log(6 BINS / beta)``."""
        return math.log(6 * BINS / self.failure)

    @property
    def slack(self) -> float:
        """s: how far the chosen level's score may be below the best score."""
        return self.choice.scale * self.log

    @property
    def least(self) -> float:
        """M: at least this number of records exceeds the edge below the chosen one."""
        d, L = self.problem.dim, self.log
        if self.constants == "paper":
            return (d + 8 * L) / self.following + 32 * L
        return SPREAD * (d + L) / self.following + L

    @property
    def enough(self) -> bool:
        """Whether there are 2 t records, t = s + M; with fewer a level is still found, but nothing is proved of it."""
        return self.n >= 2 * (self.slack + self.least)

    @property
    def target(self) -> float:
        """t: the number of records that should exceed the level."""
        return min(self.slack + self.least, self.n / 2)

    @cached_property
    def tail(self) -> tuple[float, float]:
        """Q and p of the theorem, for the law of the records; with `slopes`, p for the records themselves."""
        if not self.enough:
            return 0.0, 1.0
        most, least, sure = math.floor(self.target + self.slack), math.ceil(self.least), math.exp(-self.log)
        q = float(beta.ppf(sure, least, self.n - least + 1))
        return q, most / self.n if self.slopes else float(beta.isf(sure, most + 1, self.n - most))

    def below(self, bounds: Floats) -> Array:
        """Return how many of the records' bounds (n,) lie below each edge."""
        return np.searchsorted(np.sort(bounds), self.edges, side="right")

    def scores(self, below: Array) -> Floats:
        """Return the score of every level from the number of records below it: 0 if it separates t records."""
        above = self.n - below.astype(np.float64)
        above[0] = 0.0  # exact; the computed number may differ by rounding
        return -np.maximum(np.maximum(above - self.target, self.target - np.append(above[1:], self.n)), 0.0)

    def squares(self, bounds: Floats, level: float) -> float:
        """Return the sum of ``min(A/C, 1)^2``, each rounded up to the grid."""
        return float(np.ceil(np.minimum(bounds / level, 1.0) ** 2 * GRID).sum()) / GRID

    def second(self, level: float, total: float) -> float:
        """Return V for the noisy sum: an upper confidence bound, positive and at most C."""
        n, shifted = max(self.n, 1), total + self.noise.scale * math.log(6 / self.failure)
        a = self.log / (2 * n)  # Bernstein's inequality: (V - C sqrt(a))^2 <= C^2 (mean + a)
        return level * min(math.sqrt(a) + math.sqrt(a + max(shifted, 0.0) / n), 1.0)

    def worst(self, moments: Moments) -> tuple[float, ...]:
        """Return the largest values released for a law with these moments, except with the failure probability."""
        level = math.sqrt(2) * moments.bound * max(self.tail[0], 1e-300) ** (-1 / moments.k)
        level = min(float(self.edges[0]), max(float(self.edges[-1]), level))
        if self.slopes:
            return (level,)
        square, a = min(moments.g2 / level, 1.0) ** 2, self.log / max(self.n, 1)
        mean = square + math.sqrt(2 * a * square) + a / 3 + 1 / GRID
        return level, self.second(level, self.n * mean + self.noise.scale * math.log(6 / self.failure))

    def run(self, X: Array, y: Array, source: BitSource, ledger: Ledger) -> tuple[float, ...]:
        """Return the level and, for gradients, the second moment; data (n, ...) are clipped here."""
        bounds = partial(record_bounds, self.problem, slopes=self.slopes)
        label = SLOPES if self.slopes else LEVEL
        below = totals(X, y, lambda X, y: (self.below(bounds(X, y)),))[0]
        level = float(self.edges[self.choice.release(self.scores(below), label, source, ledger, self.block)])
        if self.slopes:
            return (level,)
        squares = totals(X, y, lambda X, y: (np.array([self.squares(bounds(X, y), level)]),))[0]
        total = self.noise.release(squares, SQUARES, source, ledger, self.block)
        return level, self.second(level, float(total[0]))

    def describe(self) -> Mapping[str, Any]:
        """JSON-ready public constants."""
        facts = {"records": self.n, "epsilon": self.epsilon, "failure_probability": self.failure}
        return {**facts, "target": self.target, "tail_mass": self.tail[1], "proved": self.enough}


def localized(
    problem: LinearModelProblem, privacy: PrivacyParams, constants: str, failure: float | None,
    *released: float, surrogate: str = "truncated", constraint: ConvexSet | None = None,
    planner: Callable[..., LinearModelPlan] = planned,
) -> LinearModelPlan:  # fmt: skip
    """Return the localization of a planner with a released level in all phases; its bound is on the cut losses."""
    level, second = released
    method = surrogate_named(surrogate)
    method.check(problem)
    return planner(problem, privacy, Moments(2.0, second), method, constants, failure, constraint, level)


def ordinary(
    problem: LinearModelProblem, privacy: PrivacyParams, constants: str,
    failure: float | None, *released: float, sums: bool = False,
) -> LinearModelPlan:  # fmt: skip
    """Return the best ordinary method on the loss with its slope cut; with `sums`, of those that need sums alone."""
    return fitted(problem, privacy, released[0], constants, sums)


def descent(
    problem: LinearModelProblem, privacy: PrivacyParams, constants: str, failure: float | None, *released: float
) -> LinearModelPlan:
    """Return clipped gradient descent for a released second moment; its own bound chooses its level."""
    return clipped_gradient.plan(problem, privacy, Moments(2.0, released[1]))
