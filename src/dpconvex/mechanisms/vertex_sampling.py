r"""Sampling of vertices: the exponential mechanism, many times in one run, with exact probabilities.

A vertex j of a simplex is drawn with probability proportional to ``exp(s_j)``. What floating point could break:

- *Probabilities that underflow to 0*: scores are raised to the largest minus 700, which keeps ``s_j - s'_j`` in the
  same interval, so neither range nor sensitivity grows.
- *Rounding of scores*, to a public power of two: ranges grow by a factor of at most ``1 + 2^-18``, which the event
  includes. Multiples of the step add up exactly, so a state that is kept on the grid adds no rounding of its own.
- *The exponential* errs by units in the last place, absolutely and not relative to the range: ranges below `SMALLEST`
  on average are refused, for others it is charged with the grid.
- *The sampler* is exact (`randomness.exact`): nothing has to be added to delta.
"""

import math
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, IntArray, final_dataclass, finite
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms.base import Planned, check_norm, exact_as_reals
from dpconvex.privacy import Ledger, PureMechanism, Sensitivity, VertexDraws
from dpconvex.randomness import BitSource, exact

FLOOR = 700.0  #: Scores are raised to the largest score minus this: a bias of ``e^-700`` a vertex, and no underflow.
ENLARGEMENT = 1.0 + 2.0**-18  #: Factor on all ranges that accounts for rounding.
SMALLEST = 2.0**-30  #: Least mean range of a draw: an error of ``2^-50`` in each exponential is ``2^-20`` of it.
_FINENESS = 2.0**-22


@final_dataclass
class VertexSampling(Planned):
    """Adaptive draws of vertices in one run, charged as one release.

    zCDP with ``rho = square_sum/8`` (times ``ENLARGEMENT^2``), hence (epsilon, delta); or epsilon-DP with the sum of
    the ranges. Provided that the scores of every draw move by vectors of the stated ranges between neighbors that
    share the earlier draws: that is the algorithm's lemma, quoted in the sensitivity.
    """

    sensitivity: Sensitivity  #: largest range `max_j (s - s')_j - min_j (s - s')_j` of one draw, norm `"range"`
    draws: int  #: largest number of draws that depend on one record, i.e. whose scores contain its gradient
    square_sum: float  #: largest sum of the squared ranges of these draws; `draws sensitivity^2` if all are alike
    limit: int  #: number of all draws of a run, also those that depend on no record; a session makes no more
    # Largest sum of the ranges of these draws: they are then charged as one pure mechanism. None: charged in zCDP.
    range_sum: float | None = None
    name: ClassVar[str] = "vertex sampling"
    exact_bits = exact_as_reals  # indices carry no bits of their own, and their law is exact

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, "range")
        _validate.integer("draws", self.draws, at_least=1)
        _validate.integer("limit", self.limit, at_least=1)
        _validate.real("square_sum", self.square_sum, above=0.0)
        most = _rounding.product_up(self.sensitivity.value, self.sensitivity.value, float(self.draws), 1 + 1e-12)
        if self.square_sum > most:
            raise InvalidParameterError("square_sum", self.square_sum, f"must be at most draws * largest^2 = {most:g}")
        _validate.optional(_validate.real, {"range_sum": self.range_sum}, above=0.0)
        if self.step < SMALLEST * _FINENESS:
            what = f"must be at least {SMALLEST:.1e} on average over the draws: exponentials of floats are no finer"
            remedy = "Use a larger epsilon, or fewer draws"
            raise InvalidParameterError("sensitivity", self.sensitivity.value, what, remedy)

    @cached_property
    def step(self) -> float:
        """Step of the grid of scores: a power of two at most ``2^-22`` times a mean of the ranges.

        Rounding two scores, or two increments of them, moves their difference by at most one step: ranges grow by two.
        """
        root = math.sqrt(self.square_sum / self.draws) * (1 - 1e-12)
        mean = math.inf if self.range_sum is None else self.range_sum / self.draws
        return _rounding.power_of_two_at_most(min(root, mean, self.sensitivity.value, 1.0)) * _FINENESS

    @cached_property
    def charged(self) -> VertexDraws:
        """All draws with their enlarged ranges."""
        largest = _rounding.product_up(self.sensitivity.value + 4 * self.step, ENLARGEMENT)
        return VertexDraws(largest, self.draws, _rounding.product_up(self.square_sum, ENLARGEMENT, ENLARGEMENT))

    @property
    def event(self) -> VertexDraws | PureMechanism:
        """`charged`, or the sum of the enlarged ranges."""
        if self.range_sum is None:
            return self.charged
        return PureMechanism(_rounding.product_up(self.range_sum, ENLARGEMENT))

    def on_grid(self, scores: Floats) -> Floats:
        """Round to multiples of the step; NaN becomes 0, and magnitudes saturate where sums would cease to be exact."""
        return np.rint(finite(scores, 2.0**51 * self.step) / self.step) * self.step

    def start(self, label: str, source: BitSource, ledger: Ledger, block: str | None = None) -> "VertexSession":
        """Record the release of all draws, and return the session that makes them."""
        ledger.record(self.planned(label, block))
        return VertexSession(self, source.generator())


@final
class VertexSession:
    """The draws of one run; obtained from `VertexSampling.start`."""

    def __init__(self, mechanism: VertexSampling, generator: np.random.Generator) -> None:
        self._mechanism, self._generator = mechanism, generator
        self.left = mechanism.limit

    def draw(self, scores: Floats, count: int = 1) -> IntArray:
        """Return `count` independent vertices, each with probability proportional to ``exp(scores)``.

        Scores, shape (d,), are of any content: NaN counts as 0, infinities saturate. A multinomial of `count` is
        `count` draws; beyond the planned number `BudgetExceededError` is raised.
        """
        if not 1 <= count <= self.left:
            raise BudgetExceededError(f"vertex sampling: {self.left} draws are left of the plan, {count} asked for")
        self.left -= count
        return exact.draw(soft_weights(self._mechanism.on_grid(scores)), count, self._generator)


def soft_weights(scores: Floats) -> Floats:
    """Return ``exp(scores - max)``, shape (d,), never below ``exp(-FLOOR)``."""
    return np.exp(np.maximum(scores - scores.max(), -FLOOR))
