"""Exact draws from densities that are constant on intervals: an interval first, then a point of it.

Masses are computed in floats whose relative error is known. A uniform number further than that from both ends of its
interval's share has the interval that exact arithmetic would give; for any other, of probability about ``n 2^-35``,
Arb's ball arithmetic encloses the masses, with as many bits as it takes.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.randomness import real
from dpconvex.randomness.source import BitSource

_BITS = 62  # of the first look at a uniform number
_ERROR = (
    2.0**-36
)  # of a mass, relative: its logarithm is a sum of three numbers below 2^12, each to four units or better
_WORD = 32  # bytes of a further look


def draw_point(ends: FloatArray, rate: float, step: float, source: BitSource) -> float:
    """Return a point of density proportional to ``exp(-rate |k - n/2|)`` on interval k, rounded to multiples of `step`.

    Parameters
    ----------
    ends : array of shape (n + 2,)
        Ascending, the last larger than the first; interval k = 0 .. n lies between ``ends[k]`` and ``ends[k + 1]``.
    rate : float
        Not negative.
    step : float
        Positive. The real point is rounded once.
    source : BitSource
        Of the bits.
    """
    k = draw_interval(ends, rate, source.generator())
    between = _Between(float(ends[k]), float(ends[k + 1]))
    return float(real.add_noise(np.zeros(1), between, 1.0, step, source)[0])


def draw_interval(ends: FloatArray, rate: float, generator: np.random.Generator) -> int:
    """Return an interval, its probability proportional to its length times ``exp(-rate |k - n/2|)``, exactly."""
    away = np.abs(np.arange(len(ends) - 1) - (len(ends) - 2) / 2)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        lengths = np.log(np.diff(ends))  # an interval of length 0 has mass 0
        best = np.argmax(lengths - rate * away)
        shares = np.cumsum(np.exp(lengths - lengths[best] - rate * (away - away[best])))
    margin = shares[-1] * (_ERROR + (len(shares) + 8) * 2.0**-52)
    prefix = int(generator.integers(0, 2**_BITS))
    at = prefix * (shares[-1] / 2.0**_BITS)
    k = int(np.searchsorted(shares, at, side="right"))
    if k < len(shares) and shares[k] - at > margin and (k == 0 or at - shares[k - 1] > margin):
        return k
    return _refined(ends.tolist(), rate, away.tolist(), prefix, generator)


def _refined(ends: list[float], rate: float, away: list[float], prefix: int, generator: np.random.Generator) -> int:
    """Return the interval of a uniform number that begins with the given bits."""
    from flint import arb, ctx

    bits = _BITS
    while True:
        prefix = (prefix << 8 * _WORD) | int.from_bytes(generator.bytes(_WORD), "little")
        bits += 8 * _WORD
        with ctx.workprec(bits + 64):
            pairs = itertools.pairwise(map(arb, ends))
            masses = [(b - a) * (-arb(rate) * arb(j)).exp() for (a, b), j in zip(pairs, away, strict=True)]
            shares = list(itertools.accumulate(masses))
            at = shares[-1] * arb((2 * prefix + 1, -bits - 1), (1, -bits - 1))
            k = bisect_left(shares, True, key=lambda share: bool(share > at))  # true only where no doubt is left
            if k < len(shares) and (k == 0 or bool(shares[k - 1] < at)):
                return k


@dataclass(frozen=True)
class _Between:
    """The uniform law on an interval."""

    lower: float
    upper: float

    @property
    def uniforms(self) -> int:
        return 1

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        from flint import arb

        return [arb(self.lower) + uniforms[0] * (arb(self.upper) - arb(self.lower))]
