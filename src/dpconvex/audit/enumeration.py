r"""All transcripts of a run that draws from finitely many outcomes, with their probabilities: no sampling, no error.

The real listing runs once for every transcript: a script answers every draw, and the exact log-probabilities of the
answers (`laws`) are added up. From the laws on two neighbours follow the least delta at every epsilon, the largest
loss and all Renyi divergences. Public coins are held fixed, which can only reveal more than the claim covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.audit.laws import finite_law
from dpconvex.audit.replay import coins, tapped
from dpconvex.errors import UnsupportedEventError
from dpconvex.mechanisms import ThresholdSession
from dpconvex.privacy.profiles import epsilon_of

MOST = 300
"""Transcripts up to which all are enumerated."""
_SLACK = 1e-9
"""Absolute, on sums of thousands of probabilities."""

Law = dict[tuple[int, ...], float]
"""Log-probability of every transcript."""


@final
@dataclass(frozen=True, eq=False)
class EnumeratedPair:
    """The laws of all transcripts on two neighbouring data sets.

    Parameters
    ----------
    first, second : array of shape (transcripts,)
        Log-probabilities; ``-inf`` where there is no such transcript.
    """

    first: FloatArray
    second: FloatArray

    @property
    def largest_loss(self) -> float:
        """Epsilon of the pure promise."""
        with np.errstate(invalid="ignore"):
            return float(np.nanmax(np.abs(self.first - self.second)))

    def delta(self, epsilon: float) -> float:
        """Return the least delta at an epsilon, in the direction that needs more.

        Parameters
        ----------
        epsilon : float
        """
        p, q = np.exp(self.first), np.exp(self.second)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond e^700 only outcomes that one law excludes count
            factor = np.exp(epsilon)
            return float(max(np.where(b > 0, np.maximum(a - factor * b, 0), a).sum() for a, b in ((p, q), (q, p))))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at a delta, rounded down.

        Parameters
        ----------
        delta : float
        """
        if delta == 0 or not math.isfinite(self.largest_loss):
            return self.largest_loss
        return epsilon_of(self.delta, delta + _SLACK)

    def renyi(self, order: float) -> float:
        """Return the Renyi divergence of an order, in the larger direction.

        Parameters
        ----------
        order : float
            Above 1.
        """
        sides = ((self.first, self.second), (self.second, self.first))
        return max(float(np.logaddexp.reduce(order * a + (1 - order) * b)) / (order - 1) for a, b in sides)


def enumerated_pair(
    run: Callable[..., Any], first: tuple[Any, ...], second: tuple[Any, ...], most: int = MOST, seed: int = 0
) -> EnumeratedPair:
    """Return the laws of all transcripts on two data sets.

    Parameters
    ----------
    run : callable
        ``run(*data, source)``: the real listing.
    first, second : tuple
        Neighbouring data sets.
    most : int
        Transcripts up to which it is tried.
    seed : int
        Of public coins.

    Raises
    ------
    UnsupportedEventError
        If there are more transcripts, or something else than an index is released.
    """
    p, q = transcript_law(run, first, most, seed), transcript_law(run, second, most, seed)
    keys = sorted(p.keys() | q.keys())
    return EnumeratedPair(*(np.array([law.get(key, -np.inf) for key in keys]) for law in (p, q)))


def transcript_law(run: Callable[..., Any], data: tuple[Any, ...], most: int = MOST, seed: int = 0) -> Law:
    """Return the log-probability of every transcript on one data set.

    Parameters
    ----------
    run, most, seed
        As in `enumerated_pair`.
    data : tuple
        Arguments of the run before its source.
    """
    found: Law = {}
    script: tuple[int, ...] | None = ()
    tap = _Script()
    with tapped(tap):
        while script is not None:
            tap.begin(script)
            run(*data, coins((seed, 0)))
            if not tap.drawn:
                raise UnsupportedEventError("nothing was drawn")
            if len(found) >= most or (not found and math.prod(tap.sizes) > most):
                raise UnsupportedEventError(f"more than {most} transcripts")
            found[tuple(tap.drawn)] = tap.log
            script = tap.next_script()
    return found


@final
class _Script:
    """Answers draws as told, then with the first outcome, and adds up log-probabilities."""

    def __init__(self) -> None:
        self.begin(())

    def begin(self, script: tuple[int, ...]) -> None:
        self.script, self.log = script, 0.0
        self.drawn: list[int] = []
        self.sizes: list[int] = []

    def next_script(self) -> tuple[int, ...] | None:
        """Raise the last draw that has an outcome left; None after all transcripts."""
        for place in reversed(range(len(self.drawn))):
            if self.drawn[place] + 1 < self.sizes[place]:
                return (*self.drawn[:place], self.drawn[place] + 1)
        return None

    def meet(self, mechanism: Any, value: Any, fresh: Any) -> Any:
        law = finite_law(mechanism, value)
        picks = np.array([self._pick(law) for _ in range(np.size(fresh))], dtype=np.int64)
        return picks if np.ndim(fresh) else int(picks[0])

    def ask(self, session: ThresholdSession, mechanism: Any, value: float, fresh: bool) -> bool:
        raise UnsupportedEventError("queries of a session are not enumerated")

    def _pick(self, law: FloatArray) -> int:
        place = len(self.drawn)
        pick = self.script[place] if place < len(self.script) else 0
        self.drawn.append(pick)
        self.sizes.append(len(law))
        self.log += float(law[pick])
        return pick
