r"""Mechanisms that select: vertices, the largest score, the first query above a threshold, the best of many runs.

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
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar, TypeVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import Floats, IntArray, final_dataclass, finite
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms.base import Mechanism, Planned, check_norm, exact_as_reals, exact_as_source
from dpconvex.privacy import BoundedRange, Ledger, PureMechanism, RepeatedSelection, Sensitivity, VertexDraws
from dpconvex.randomness import BitSource, exact

T = TypeVar("T")
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


@final_dataclass
class ReportNoisyMax(Mechanism[int]):
    """Index of the largest score after exponential noise: at least as accurate as the exponential mechanism.

    With exponential noise of scale ``2 sensitivity / epsilon`` this is *permute-and-flip*, which has the guarantee of
    the exponential mechanism and never a larger expected error. OpenDP draws it exactly, on scores rounded to a grid.
    It costs pure ``epsilon`` for the index alone, whatever the number of candidates.

    Source: McKenna and Sheldon 2020, "Permute-and-flip: a new mechanism for differentially private selection"; Ding et
    al. 2021, "The permute-and-flip mechanism is identical to report-noisy-max with exponential noise".
    """

    sensitivity: Sensitivity  #: largest change of any one score, `"linf"`
    epsilon: float  #: positive
    name: ClassVar[str] = "report noisy max"
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)
        check_norm(self.sensitivity, "linf")
        _ = self.step

    @property
    def scale(self) -> float:
        """Scale of the exponential noise: twice the enlarged sensitivity over epsilon, rounded up."""
        return _rounding.ratio_up(2 * exact.enlarged(self.sensitivity.value), self.epsilon)

    @cached_property
    def step(self) -> float:
        """Step of the grid to which scores are rounded."""
        return exact.spacing(self.sensitivity.value, self.scale, 1.0)

    @property
    def event(self) -> PureMechanism:
        return PureMechanism(self.epsilon)

    def _sample(self, value: Floats, source: BitSource) -> int:
        if value.ndim != 1 or not len(value):
            raise InvalidParameterError("value.shape", value.shape, "must be (candidates,), at least one")
        return exact.noisy_argmax(exact.to_units(value, self.step), self.scale / self.step, source)


@final_dataclass
class ExponentialMechanism(Mechanism[int]):
    """Index of a large score, drawn with probability proportional to ``exp(epsilon score / (2 sensitivity))``.

    Where scores move by at most the sensitivity, the log-ratio of two laws lies in an interval of length epsilon
    (`BoundedRange`), so many uses compose as Gaussians do; `ReportNoisyMax` is better for a pure promise. Rounding of
    scores and exponentials is that of `VertexSampling`, of which this is one draw; its range is enlarged for it.

    Source: McSherry and Talwar 2007; Dong, Durfee and Rogers 2020.
    """

    sensitivity: Sensitivity  #: largest change of any one score, `"linf"`
    epsilon: float  #: positive
    name: ClassVar[str] = "exponential mechanism"
    exact_bits = exact_as_reals

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)
        check_norm(self.sensitivity, "linf")
        _ = self.inner

    @cached_property
    def inner(self) -> VertexSampling:
        """The draw on scores that are multiplied by `factor`, within the range epsilon after its enlargement."""
        eta = _rounding.ratio_down(self.epsilon, 1 + 2.0**-16)
        stated = Sensitivity(eta, "range", self.sensitivity.lemma)
        found = VertexSampling(stated, 1, _rounding.product_up(eta, eta), 1)
        if found.charged.largest > self.epsilon:
            raise InvalidParameterError("epsilon", self.epsilon, "is too small for the grid of scores")
        return found

    @property
    def factor(self) -> float:
        """The factor by which scores are multiplied."""
        return _rounding.ratio_down(self.inner.sensitivity.value, 2 * _rounding.widen_up(self.sensitivity.value))

    @property
    def event(self) -> BoundedRange:
        return BoundedRange(self.epsilon)

    def _sample(self, value: Floats, source: BitSource) -> int:
        if value.ndim != 1 or not len(value):
            raise InvalidParameterError("value.shape", value.shape, "must be (candidates,), at least one")
        scores = np.nan_to_num(value, nan=0.0) * self.factor
        return int(exact.draw(soft_weights(self.inner.on_grid(scores)), 1, source.generator())[0])


@final_dataclass
class AboveThreshold(Mechanism[int]):
    r"""Answer queries one by one with "below" until the first "above", for one pure epsilon in all.

    The threshold gets discrete Laplace noise of scale ``s/e1`` once, each query fresh noise of scale ``2 s/e2``, with
    ``s`` the enlarged sensitivity and ``e1 + e2 = epsilon``. The default ``e1 : e2 = 1 : 2^(2/3)`` minimizes the
    variance of the comparison; textbooks have ``1 : 1``. Proof (Dwork and Roth 2014, Theorem 3.23, with the split of
    Lyu, Su and Li 2017, Theorem 4): for fixed query noises below, moving the noisy threshold by ``s`` (cost ``e1``)
    keeps every "below" a "below" on the neighbor, and moving the last query's noise by ``2 s`` (cost ``e2``) keeps the
    "above". On the grid all shifts are whole numbers of steps. Queries may be chosen adaptively.
    """

    sensitivity: Sensitivity  #: sensitivity of every query, `"absolute"`
    epsilon: float  #: epsilon of all answers together, positive
    threshold: float  #: public threshold
    split: float = 1 / (1 + 2 ** (2 / 3))  #: share `e1 / epsilon` of the threshold, in (0, 1)
    name: ClassVar[str] = "above threshold"
    exact_bits = exact_as_source

    def __post_init__(self) -> None:
        _validate.real("epsilon", self.epsilon, above=0.0)
        _validate.real("threshold", self.threshold)
        _validate.real("split", self.split, above=0.0, below=1.0)
        check_norm(self.sensitivity, "absolute")
        _ = self.step

    @property
    def threshold_epsilon(self) -> float:
        """Share ``e1`` of the noisy threshold."""
        return self.epsilon * self.split

    @property
    def threshold_scale(self) -> float:
        """Scale of the threshold's noise, rounded up."""
        return _rounding.ratio_up(exact.enlarged(self.sensitivity.value), self.threshold_epsilon)

    @property
    def query_scale(self) -> float:
        """Scale of each query's noise, rounded up."""
        rest = _rounding.difference_down(self.epsilon, self.threshold_epsilon)
        return _rounding.ratio_up(2 * exact.enlarged(self.sensitivity.value), rest)

    @cached_property
    def step(self) -> float:
        """Step of the grid of threshold and queries."""
        return exact.spacing(self.sensitivity.value, min(self.threshold_scale, self.query_scale), 1.0)

    @property
    def event(self) -> PureMechanism:
        return PureMechanism(self.epsilon)  # for any number of queries up to the first positive

    def start(self, label: str, source: BitSource, ledger: Ledger, block: str | None = None) -> "ThresholdSession":
        """Record the release, draw the noisy threshold, and return the session that answers queries."""
        ledger.record(self.planned(label, block))
        return ThresholdSession(self, source)

    def _sample(self, value: Floats, source: BitSource) -> int:
        """Index of the first "above" among the queries, or their number if there is none."""
        if value.ndim != 1:
            raise InvalidParameterError("value.shape", value.shape, "must be (queries,)")
        session = ThresholdSession(self, source)
        return next((i for i, query in enumerate(value.tolist()) if session.query(query)), len(value))


@final
class ThresholdSession:
    """One use of `AboveThreshold`; obtained from its `start`, spent at the first positive answer."""

    def __init__(self, mechanism: AboveThreshold, source: BitSource) -> None:
        self._mechanism, self._source = mechanism, source
        self._threshold = self._noisy(mechanism.threshold, mechanism.threshold_scale)
        self.open = True

    def query(self, value: float) -> bool:
        """Whether the noisy value reaches the noisy threshold; the first True ends the session.

        NaN counts as 0; huge values saturate. After the first True the budget is spent: `BudgetExceededError`.
        """
        if not self.open:
            raise BudgetExceededError("above threshold: the session ended with its first positive answer")
        self.open = self._noisy(value, self._mechanism.query_scale) < self._threshold
        return not self.open

    def _noisy(self, value: float, scale: float) -> int:
        step = self._mechanism.step
        units = exact.to_units(np.array([value], dtype=np.float64), step)
        return int(exact.discrete_laplace(units, scale / step, self._source)[0])


@final_dataclass
class BestOfRepeats(Planned):
    """Repeats a private run a random number of times, and returns only the outcome with the best score.

    How many runs count is drawn first, and is secret. All `most` runs are always made, whatever was drawn, so that
    their number does not show in the running time; those beyond the number drawn are thrown away.

    The guarantee is that of `RepeatedSelection`, provided that each run, *with its score*, is one of the event's runs,
    drawn with fresh randomness: scores of private data need noise of their own.

    Source: Papernot and Steinke 2022, "Hyperparameter tuning with Renyi differential privacy".
    """

    sensitivity: Sensitivity  #: sensitivity of a score before its noise, `"absolute"`
    event: RepeatedSelection  #: The cost of a run, and the law of the number of runs.
    name: ClassVar[str] = "best of a secret number of runs"
    exact_bits = exact_as_reals  # the number of runs follows its law exactly; runs have their own `exact_bits`

    def __post_init__(self) -> None:
        check_norm(self.sensitivity, "absolute")

    def release(
        self, attempt: Callable[[], tuple[T, float]], label: str,
        source: BitSource, ledger: Ledger, block: str | None = None,
    ) -> T:  # fmt: skip
        """Record the release, make all runs, and return the best outcome that counts, the first of ties.

        An attempt is one run: it returns an outcome and its noisy score, larger is better; no NaN. All else is as in
        `Mechanism.release`.
        """
        ledger.record(self.planned(label, block))
        count = 1 + int(exact.draw(np.array(self.event.weights), 1, source.generator())[0])
        best, record = attempt()
        for k in range(1, self.event.most):
            outcome, score = attempt()
            if k < count and score > record:
                best, record = outcome, score
        return best
