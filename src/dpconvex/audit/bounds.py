r"""Lower bounds on epsilon from the exact privacy losses of sampled runs.

A pure promise is refuted by one loss. Under (epsilon, delta) the least delta at epsilon is the mean of
``x = max(0, 1 - e^(epsilon - loss))`` over runs on the first data set. Three ways, the best of which counts:

*Formula.* All releases are Gaussian and their shifts, in standard deviations, are the same in all transcripts:
``mu^2 = sum of squared shifts`` gives the whole profile.

*Gaussian releases whose shifts depend on earlier releases.* Let S be their sum of squares in a transcript. If
``S >= s`` always, delta is at least that of ``mu^2 = s``: stop at the release with which S reaches s, blurred so that
it reaches s and no more, which is post-processing; then the loss is ``N(s/2, s)`` because a sum ``sum m_t z_t`` of
standard normal z with predictable m and ``sum m_t^2 = s`` is ``N(0, s)``. If ``S >= s`` but for probability b, append a
release that makes up for it: delta falls by at most b. For s the smallest of n independent values,
``b <= 1 - error^(1/n)``, but for probability `error`.

*A bet.* If the mean of x is at most delta, then ``prod (1 + l (x_i - delta))`` is at least ``1/error`` with probability
at most `error` (Markov; Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting").
Epsilon and the stake l are chosen on some of the transcripts, and the bet is made on the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.privacy.profiles import epsilon_of, gaussian_delta

_TUNING = 0.3
"""Share of the transcripts on which a bet is chosen."""
_STAKES = np.geomspace(0.01, 0.95, 24)
"""Of the largest stake, ``1/delta``."""
_CAUTION = (0.5, 1.5, 3.0)
"""Standard deviations by which a chosen bet has to win; one bet for each."""
_BEYOND = 1e4
"""An epsilon that only infinite losses exceed."""
_EXACT = 1 - 1e-9


@final
@dataclass(frozen=True, eq=False)
class Losses:
    """Privacy losses of transcripts.

    Parameters
    ----------
    losses : array of shape (transcripts,)
        Exact; ``inf`` where the neighbour cannot produce the transcript.
    shifts : array of shape (transcripts,)
        Where every release was Gaussian: the sum of squared shifts in standard deviations; nan elsewhere.
    releases : int
        In the longest transcript.
    taken, told : int
        Steps on secret samples that read the changed unit, of those that tell.
    """

    losses: FloatArray
    shifts: FloatArray
    releases: int
    taken: int = 0
    told: int = 0

    @cached_property
    def mu(self) -> float | None:
        """Root of the sum of squared shifts, if it was the same in all transcripts."""
        low, high = float(self.shifts.min()), float(self.shifts.max())
        return math.sqrt(low) if high - low <= 1e-9 * high else None  # false for nan

    @cached_property
    def divergence(self) -> float:
        """Estimated mean loss, which ranks pairs: that of the shifts if all releases are Gaussian."""
        mean = float(self.shifts.mean()) / 2
        return float(self.losses.mean()) if math.isnan(mean) else mean


def epsilon_of_losses(found: Losses, delta: float, error: float) -> float:
    """Return the lower bound on epsilon at `delta` that losses prove; exact for ``delta = 0`` and for fixed shifts.

    Parameters
    ----------
    found : Losses
    delta : float
        The claimed one.
    error : float
        Probability with which the bound may be wrong.
    """
    if delta == 0:
        return float(np.abs(found.losses).max())  # a pure promise bounds the ratio from both sides
    if found.mu is not None:
        return gaussian_epsilon(found.mu**2, delta)
    beyond = -math.expm1(math.log(error / 2) / len(found.shifts))
    adaptive = gaussian_epsilon(float(found.shifts.min()), delta + beyond)  # nothing for nan
    return max(adaptive, bet(found.losses, delta, error / 2))


def gaussian_epsilon(square: float, delta: float) -> float:
    """Return the epsilon at `delta` of Gaussian releases, ``-inf`` if it is not positive.

    Parameters
    ----------
    square : float
        Sum of squared shifts in standard deviations.
    delta : float
        At least 0.
    """
    mu = math.sqrt(square) if square > 0 else 0.0
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return -math.inf
    return epsilon_of(lambda epsilon: gaussian_delta(epsilon, mu), delta) * _EXACT


def bet(losses: FloatArray, delta: float, error: float) -> float:
    """Return an epsilon for which `delta` is shown to be too small, ``-inf`` if there is none.

    Parameters
    ----------
    losses : array of shape (transcripts,)
    delta : float
        In (0, 1).
    error : float
        Probability with which the bound may be wrong.
    """
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


def _gains(losses: FloatArray, epsilon: float, delta: float) -> FloatArray:
    """Logarithms of what every stake makes of 1, shape (stakes, losses)."""
    x = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return np.log1p(_STAKES[:, None] / delta * (x - delta))
