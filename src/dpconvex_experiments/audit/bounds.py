r"""Lower bounds on epsilon: from the exact privacy losses of sampled runs, and from outputs alone (docs, Audits).

Losses
    A pure promise is refuted by one. Under (epsilon, delta) the best counts of the formula of Gaussian releases with
    fixed shifts; of the least sum of squares s for other shifts, below which a transcript falls with ``b <= 1 -
    error^(1/n)`` (append a release that makes up for it: delta falls by at most b); and of a bet on the mean of ``x =
    max(0, 1 - e^(epsilon - loss))``, ``prod (1 + l (x_i - delta)) >= 1/error`` with probability at most `error`
    (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting").
Outputs (`prove`)
    With Clopper-Pearson bounds ``p <= P(E)``, ``Q(E) <= q``, each wrong with probability at most ``error/2``, of an
    event chosen on half of the runs and tested on the other half, epsilon is at least ``log((p - delta) / q)``.
"""

import math
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from dpconvex._types import BoolArray, Floats, IntArray, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta

Statistic = Callable[[Floats], Floats]
"""A function from outputs, shape (n, dim), to one number each, shape (n,); it is chosen on half of the runs."""
_TUNING = 0.3  #: Share of the transcripts on which a bet is chosen; the others test it.
_STAKES = np.geomspace(0.01, 0.95, 24)  #: Stakes that are tried, as shares of the largest one, ``1/delta``.
_CAUTION = (0.5, 1.5, 3.0)  #: For each, one bet is chosen: it must win even if its gain is this many deviations low.
_BEYOND = 1e4  #: An epsilon so large that only infinite losses exceed it.
_EXACT = 1 - 1e-9
MOST_VALUES = 64  #: Up to this many different outputs, every output is counted by itself; more are binned.
_QUANTILES = np.linspace(0.005, 0.995, 100)
_BINS = 16
_COORDINATES = 16


@final_dataclass(eq=False)
class Losses:
    """Privacy losses of transcripts, arrays of shape (transcripts,)."""

    losses: Floats  #: exact privacy losses; infinite where the neighbor cannot produce the transcript
    shifts: Floats  #: squared shifts in standard deviations, summed, where every release was Gaussian; else nan
    releases: int  #: number of releases in the longest transcript
    taken: int = 0  #: number of steps, among those that `told` counts, that read the changed unit
    told: int = 0  #: number of steps on secret samples whose input shows whether they read the changed unit

    @cached_property
    def mu(self) -> float | None:
        """Square root of the sum of squared shifts, if this sum was the same in all transcripts; else None."""
        low, high = float(self.shifts.min()), float(self.shifts.max())
        return math.sqrt(low) if high - low <= 1e-9 * high else None  # false for nan

    @cached_property
    def divergence(self) -> float:
        """Estimated mean loss, by which pairs are ranked; computed from the shifts if all releases are Gaussian."""
        mean = float(self.shifts.mean()) / 2
        return float(self.losses.mean()) if math.isnan(mean) else mean


def epsilon_of_losses(found: Losses, delta: float, error: float) -> float:
    """Return the epsilon that losses prove but for probability `error`; exact without delta or with fixed shifts."""
    if delta == 0:
        return float(np.abs(found.losses).max())  # a pure promise bounds the ratio from both sides
    if found.mu is not None:
        return gaussian_epsilon(found.mu**2, delta)
    beyond = -math.expm1(math.log(error / 2) / len(found.shifts))
    adaptive = gaussian_epsilon(float(found.shifts.min()), delta + beyond)  # nothing for nan
    return max(adaptive, bet(found.losses, delta, error / 2))


def gaussian_epsilon(square: float, delta: float) -> float:
    """Return the epsilon at `delta` of Gaussian releases, ``-inf`` if it is not positive."""
    mu = math.sqrt(square) if square > 0 else 0.0
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return -math.inf
    return epsilon_of(lambda epsilon: gaussian_delta(epsilon, mu), delta) * _EXACT


def bet(losses: Floats, delta: float, error: float) -> float:
    """Return an epsilon for which `delta` is shown to be too small, ``-inf`` if there is none."""
    first = max(4, math.ceil(_TUNING * len(losses)))
    tuning, testing = losses[:first], losses[first:]
    needed = math.log(len(_CAUTION) / error)
    highest = float(np.max(tuning, where=np.isfinite(tuning), initial=1e-9))
    grid = np.append(np.linspace(0, highest, 81), _BEYOND)  # the last: losses that are infinite
    chosen: dict[float, tuple[float, int]] = {}
    for epsilon in grid.tolist():
        gains = _gains(tuning, epsilon, delta)
        means, spreads = len(testing) * gains.mean(axis=1), math.sqrt(len(testing)) * gains.std(axis=1)
        for caution in _CAUTION:
            stake = int(np.argmax(means - caution * spreads))
            if means[stake] - caution * spreads[stake] >= needed:
                chosen[caution] = epsilon, stake  # the largest epsilon is the last
    won = [e for e, stake in chosen.values() if _gains(testing, e, delta)[stake].sum() >= needed]
    return max(won, default=-math.inf)


def _gains(losses: Floats, epsilon: float, delta: float) -> Floats:
    """Logarithms of what every stake makes of 1, shape (stakes, losses)."""
    x = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return np.log1p(_STAKES[:, None] / delta * (x - delta))


@final_dataclass
class Counted:
    """What the counts of one event prove."""

    epsilon: float  #: a lower bound; -inf where the event proves nothing
    event: str  #: the event, in words
    first: float  #: its frequencies on the two data sets
    second: float


def proved_epsilon(hits: int, others: int, runs: int, delta: float, error: float) -> float:
    """Return the lower bound on epsilon from one event, ``-inf`` if it shows nothing; wrong with probability `error`.

    The event occurred in `hits` of `runs` runs on the first data set, and in `others` on the second.

    >>> round(proved_epsilon(500, 100, 1000, delta=0.0, error=1e-3), 2)
    1.2
    """
    return float(_proved(np.array([hits]), np.array([others]), runs, delta, error)[0])


def prove(first: Floats, second: Floats, delta: float, error: float) -> Counted:
    """Return the lower bound on epsilon from outputs on two neighbors, wrong with probability at most `error`.

    Outputs, shape (runs, numbers), are of independent runs, at least 4 of each and the same number.
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


def _projection(direction: Floats) -> Statistic:
    return lambda outputs: outputs @ direction


def _binned_ratio(direction: Floats, edges: Floats, ratios: Floats) -> Statistic:
    """Estimated log-likelihood ratio of the bin into which a projection falls: near optimal for any law on a line."""
    return lambda outputs: ratios[np.searchsorted(edges, outputs @ direction, side="right")]


def _counted_ratio(ratios: dict[bytes, float]) -> Statistic:
    """Estimated log-likelihood ratio of an output, where outputs have few different values."""
    return lambda outputs: np.array([ratios.get(row.tobytes(), 0.0) for row in outputs])


@final_dataclass(eq=False)
class _Event:
    statistic: Statistic
    threshold: float
    sign: float
    swapped: bool

    def of(self, outputs: Floats) -> BoolArray:
        return self.sign * self.statistic(outputs) > self.sign * self.threshold

    @property
    def words(self) -> str:
        return f"{'above' if self.sign > 0 else 'below'} {self.threshold:.6g}"


def _proved(hits: IntArray, others: IntArray, runs: int, delta: float, error: float) -> Floats:
    from scipy.stats import beta

    low = np.where(hits > 0, beta.ppf(error / 2, np.maximum(hits, 1), runs - hits + 1), 0.0) - delta
    high = np.where(others < runs, beta.ppf(1 - error / 2, others + 1, np.maximum(runs - others, 1)), 1.0)
    return np.where(low > 0, np.log(np.maximum(low, 1e-300) / high), -math.inf)


def _best_threshold(
    statistic: Statistic, first: Floats, second: Floats, delta: float, error: float
) -> tuple[float, _Event]:
    values = [np.sort(statistic(side)) for side in (first, second)]
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


def _statistics(first: Floats, second: Floats) -> Iterator[tuple[str, Statistic]]:
    """Yield candidates: likelihood ratios of values or bins, projections on differences, coordinates."""
    both = np.concatenate([first, second])
    values, inverse = np.unique(both, axis=0, return_inverse=True)
    if len(values) <= MOST_VALUES:
        counts = [np.bincount(part, minlength=len(values)) for part in np.split(inverse.ravel(), 2)]
        ratios = np.log((counts[0] + 0.5) / (counts[1] + 0.5))
        yield (
            "likelihood ratio of the value",
            _counted_ratio({v.tobytes(): float(r) for v, r in zip(values, ratios, strict=True)}),
        )
    for name, direction in _directions(first, second):
        yield f"output along {name}", _projection(direction)
        edges = np.unique(np.quantile(both @ direction, np.linspace(0, 1, _BINS + 1)[1:-1]))
        counts = [
            np.bincount(np.searchsorted(edges, side @ direction, side="right"), minlength=len(edges) + 1)
            for side in (first, second)
        ]
        yield (
            f"likelihood ratio along {name}",
            _binned_ratio(direction, edges, np.log((counts[0] + 0.5) / (counts[1] + 0.5))),
        )


def _directions(first: Floats, second: Floats) -> Iterator[tuple[str, Floats]]:
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
