r"""Lower bounds on epsilon from outputs alone: an event is chosen on half of the runs and tested on the other half.

For every event E and every mechanism that is (epsilon, delta)-DP, ``P(E) <= e^epsilon Q(E) + delta``. So with
Clopper-Pearson bounds ``p <= P(E)`` and ``Q(E) <= q``, each wrong with probability at most ``error/2``, the mechanism
costs at least ``log((p - delta) / q)``, but for probability `error`. Nothing is assumed about the mechanism, and a bad
choice of event makes the bound small, never wrong.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError

IntArray = NDArray[np.int64]

MOST_VALUES = 64
"""Different outputs up to which they are counted one by one."""
_QUANTILES = np.linspace(0.005, 0.995, 100)
_BINS = 16
_COORDINATES = 16


@final
@dataclass(frozen=True)
class Counted:
    """What the counts of one event prove.

    Parameters
    ----------
    epsilon : float
        Proved lower bound; ``-inf`` where the event proves nothing.
    event : str
        The event, in words.
    first, second : float
        Its frequencies on the two data sets.
    """

    epsilon: float
    event: str
    first: float
    second: float


def proved_epsilon(hits: int, others: int, runs: int, delta: float, error: float) -> float:
    """Return the lower bound on epsilon from one event, ``-inf`` if it shows nothing.

    Parameters
    ----------
    hits, others : int
        How often the event occurred in `runs` runs on the first, and on the second data set.
    runs : int
        At least 1.
    delta : float
        The claimed one.
    error : float
        Probability with which the bound may be wrong.

    Examples
    --------
    >>> round(proved_epsilon(500, 100, 1000, delta=0.0, error=1e-3), 2)
    1.2
    """
    return float(_proved(np.array([hits]), np.array([others]), runs, delta, error)[0])


def prove(first: FloatArray, second: FloatArray, delta: float, error: float) -> Counted:
    """Return the lower bound on epsilon from outputs on two neighbours.

    Parameters
    ----------
    first, second : array of shape (runs, numbers)
        Outputs of independent runs, at least 4 of each and the same number.
    delta : float
        The claimed one.
    error : float
        Probability with which the bound may be wrong.
    """
    if first.shape != second.shape or len(first) < 4:
        raise InvalidParameterError("runs", len(first), "must be at least 4, the same on both data sets")
    half = len(first) // 2
    tuning, testing = (first[:half], second[:half]), (first[half:], second[half:])
    best: tuple[float, str, _Event] | None = None
    for name, statistic in _statistics(*tuning):
        bound, event = _best_threshold(statistic, *tuning, delta, error)
        if best is None or bound > best[0]:
            best = (bound, name, event)
    assert best is not None
    _, name, event = best
    sides = testing[::-1] if event.swapped else testing
    hits, others = (int(event.of(side).sum()) for side in sides)
    runs = len(first) - half
    epsilon = proved_epsilon(hits, others, runs, delta, error)
    frequencies = (others / runs, hits / runs) if event.swapped else (hits / runs, others / runs)
    return Counted(epsilon, f"{name} {event.words}", *frequencies)


class _Statistic(ABC):
    """A number for every output, fixed on the tuning half."""

    @abstractmethod
    def of(self, outputs: FloatArray) -> FloatArray:
        """Return the numbers of outputs of shape (n, dim), shape (n,)."""


@final
@dataclass(frozen=True, eq=False)
class _Projection(_Statistic):
    direction: FloatArray

    def of(self, outputs: FloatArray) -> FloatArray:
        return outputs @ self.direction


@final
@dataclass(frozen=True, eq=False)
class _BinnedRatio(_Statistic):
    """Estimated log-likelihood ratio of the bin into which a projection falls: near optimal for any law on a line."""

    direction: FloatArray
    edges: FloatArray
    ratios: FloatArray

    def of(self, outputs: FloatArray) -> FloatArray:
        return self.ratios[np.searchsorted(self.edges, outputs @ self.direction, side="right")]


@final
@dataclass(frozen=True)
class _CountedRatio(_Statistic):
    """The same for outputs of few values."""

    ratios: dict[bytes, float]

    def of(self, outputs: FloatArray) -> FloatArray:
        return np.array([self.ratios.get(row.tobytes(), 0.0) for row in outputs])


@final
@dataclass(frozen=True, eq=False)
class _Event:
    statistic: _Statistic
    threshold: float
    sign: float
    swapped: bool

    def of(self, outputs: FloatArray) -> NDArray[np.bool_]:
        return self.sign * self.statistic.of(outputs) > self.sign * self.threshold

    @property
    def words(self) -> str:
        return f"{'above' if self.sign > 0 else 'below'} {self.threshold:.6g}"


def _proved(hits: IntArray, others: IntArray, runs: int, delta: float, error: float) -> FloatArray:
    from scipy.stats import beta

    low = np.where(hits > 0, beta.ppf(error / 2, np.maximum(hits, 1), runs - hits + 1), 0.0) - delta
    high = np.where(others < runs, beta.ppf(1 - error / 2, others + 1, np.maximum(runs - others, 1)), 1.0)
    return np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -math.inf)


def _best_threshold(
    statistic: _Statistic, first: FloatArray, second: FloatArray, delta: float, error: float
) -> tuple[float, _Event]:
    values = [np.sort(statistic.of(side)) for side in (first, second)]
    runs, pooled = len(first), np.concatenate(values)
    thresholds = np.unique(np.quantile(pooled, _QUANTILES, method="lower"))
    best, event = -math.inf, _Event(statistic, float(thresholds[0]), 1.0, False)
    above = [runs - np.searchsorted(v, thresholds, side="right") for v in values]
    below = [np.searchsorted(v, thresholds, side="left") for v in values]
    for sign, hits in ((1.0, above), (-1.0, below)):
        for swapped in (False, True):
            a, b = hits[::-1] if swapped else hits
            bounds = _proved(a, b, runs, delta, error)
            k = int(np.argmax(bounds))
            if bounds[k] > best:
                best, event = float(bounds[k]), _Event(statistic, float(thresholds[k]), sign, swapped)
    return best, event


def _statistics(first: FloatArray, second: FloatArray) -> Iterator[tuple[str, _Statistic]]:
    """Yield candidates: likelihood ratios of values or bins, projections on differences, coordinates."""
    both = np.concatenate([first, second])
    values, inverse = np.unique(both, axis=0, return_inverse=True)
    if len(values) <= MOST_VALUES:
        counts = [np.bincount(part, minlength=len(values)) for part in np.split(inverse.ravel(), 2)]
        ratios = np.log((counts[0] + 0.5) / (counts[1] + 0.5))
        yield (
            "likelihood ratio of the value",
            _CountedRatio({v.tobytes(): float(r) for v, r in zip(values, ratios, strict=True)}),
        )
    for name, direction in _directions(first, second):
        yield f"output along {name}", _Projection(direction)
        edges = np.unique(np.quantile(both @ direction, np.linspace(0, 1, _BINS + 1)[1:-1]))
        counts = [
            np.bincount(np.searchsorted(edges, side @ direction, side="right"), minlength=len(edges) + 1)
            for side in (first, second)
        ]
        yield (
            f"likelihood ratio along {name}",
            _BinnedRatio(direction, edges, np.log((counts[0] + 0.5) / (counts[1] + 0.5))),
        )


def _directions(first: FloatArray, second: FloatArray) -> Iterator[tuple[str, FloatArray]]:
    width = first.shape[1]
    if width == 1:
        yield "its only coordinate", np.ones(1)
        return
    for name, difference in (
        ("the difference of the medians", np.median(first, axis=0) - np.median(second, axis=0)),
        ("the difference of the means", first.mean(axis=0) - second.mean(axis=0)),
    ):
        if difference.any():
            yield name, difference / np.linalg.norm(difference)
    spread = np.abs(first.mean(axis=0) - second.mean(axis=0)) / (first.std(axis=0) + second.std(axis=0) + 1e-300)
    for k in np.argsort(-spread)[:_COORDINATES]:
        yield f"coordinate {k}", np.eye(width)[k]
