"""The sparse-vector technique: find the first query above a threshold, however many lie below."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.errors import BudgetExceededError, InvalidParameterError
from dpconvex.mechanisms import _grid
from dpconvex.mechanisms.base import Mechanism, check_norm
from dpconvex.privacy import Ledger, PureMechanism, Sensitivity
from dpconvex.randomness import exact
from dpconvex.randomness.source import BitSource


@final
@dataclass(frozen=True)
class AboveThreshold(Mechanism[int]):
    r"""Answer queries one by one with "below" until the first "above", for one pure epsilon in all.

    The threshold gets discrete Laplace noise of scale ``s/e1`` once, each query fresh noise of scale ``2 s/e2``, with
    ``s`` the enlarged sensitivity and ``e1 + e2 = epsilon``. The default ``e1 : e2 = 1 : 2^(2/3)`` minimises the
    variance of the comparison; textbooks have ``1 : 1``. Proof (Dwork and Roth 2014, Theorem 3.23, with the split of
    Lyu, Su and Li 2017, Theorem 4): for fixed query noises below, moving the noisy threshold by ``s`` (cost ``e1``)
    keeps every "below" a "below" on the neighbour, and moving the last query's noise by ``2 s`` (cost ``e2``) keeps the
    "above". On the grid all shifts are whole numbers of steps.

    Guarantees
    ----------
    Pure ``epsilon`` for the whole sequence of answers, queries chosen adaptively.

    Parameters
    ----------
    sensitivity : Sensitivity
        Of every query, ``"absolute"``.
    epsilon : float
        Positive.
    threshold : float
        Public.
    split : float
        Share ``e1 / epsilon`` of the threshold, in (0, 1).
    """

    sensitivity: Sensitivity
    epsilon: float
    threshold: float
    split: float = 1 / (1 + 2 ** (2 / 3))
    name: ClassVar[str] = "above threshold"

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
        return _rounding.ratio_up(_grid.enlarged(self.sensitivity.value), self.threshold_epsilon)

    @property
    def query_scale(self) -> float:
        """Scale of each query's noise, rounded up."""
        rest = _rounding.difference_down(self.epsilon, self.threshold_epsilon)
        return _rounding.ratio_up(2 * _grid.enlarged(self.sensitivity.value), rest)

    @cached_property
    def step(self) -> float:
        """Step of the grid of threshold and queries."""
        return _grid.spacing(self.sensitivity.value, min(self.threshold_scale, self.query_scale), 1.0)

    @property
    def event(self) -> PureMechanism:
        """The stated epsilon, for any number of queries up to the first positive."""
        return PureMechanism(self.epsilon)

    def exact_bits(self, source: BitSource) -> bool:
        """Whether the source is the operating system."""
        return source.exact

    def start(self, label: str, source: BitSource, ledger: Ledger, block: str | None = None) -> ThresholdSession:
        """Record the release, draw the noisy threshold, and return the session that answers queries.

        Raises
        ------
        BudgetExceededError
            If the ledger does not list ``planned(label, block)``.
        """
        ledger.record(self.planned(label, block))
        return ThresholdSession(self, source)

    def _sample(self, value: FloatArray, source: BitSource) -> int:
        """Index of the first "above" among the queries, or their number if there is none."""
        if value.ndim != 1:
            raise InvalidParameterError("value.shape", value.shape, "must be (queries,)")
        session = ThresholdSession(self, source)
        return next((i for i, query in enumerate(value.tolist()) if session.query(query)), len(value))

    @classmethod
    def examples(cls) -> tuple[AboveThreshold, ...]:
        """One small instance."""
        sensitivity = Sensitivity(1.0, "absolute", "example")
        return (cls(sensitivity, 0.9, 2.0), cls(sensitivity, 0.9, 2.0, 0.5))


@final
class ThresholdSession:
    """One use of `AboveThreshold`; obtained from its `start`, spent at the first positive answer."""

    def __init__(self, mechanism: AboveThreshold, source: BitSource) -> None:
        self._mechanism, self._source = mechanism, source
        self._threshold = self._noisy(mechanism.threshold, mechanism.threshold_scale)
        self.open = True

    def query(self, value: float) -> bool:
        """Whether the noisy value reaches the noisy threshold; the first True ends the session.

        Parameters
        ----------
        value : float
            A query of the mechanism's sensitivity. NaN counts as 0; huge values saturate.

        Raises
        ------
        BudgetExceededError
            After the first True: the budget is spent.
        """
        if not self.open:
            raise BudgetExceededError("above threshold: the session ended with its first positive answer")
        self.open = self._noisy(value, self._mechanism.query_scale) < self._threshold
        return not self.open

    def _noisy(self, value: float, scale: float) -> int:
        step = self._mechanism.step
        units = _grid.to_units(np.array([value], dtype=np.float64), step)
        return int(exact.discrete_laplace(units, scale / step, self._source)[0])
