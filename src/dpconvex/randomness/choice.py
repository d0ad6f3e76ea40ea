"""Exact draws from weights: of an index, and of a point from a density that is constant on intervals.

Cumulative sums in floats err by a known amount. A uniform number further than that from both ends of its cell has the
index that exact arithmetic would give. Any other is drawn with more bits: by sums of integers where the weights are the
floats themselves (`draw`), by Arb's ball arithmetic where they are masses that floats only approximate (`draw_point`),
with as many bits as it takes.
"""

import itertools
from bisect import bisect_left, bisect_right
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import Floats
from dpconvex.randomness import real
from dpconvex.randomness.source import BitSource

_BITS = 62  # of the first look at a uniform number
_MORE_BITS = 2560
"""Bits of a refined uniform number: 200 more than the sum of 2^64 floats can have, so its law errs by 2^-200."""
_ERROR = 2.0**-36
"""Of a mass, relative: its logarithm is a sum of three numbers below 2^12, each to four units or better."""
_WORD = 32  # bytes of a further look


def draw(weights: Floats, count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return independent indices (count,), of probabilities proportional to positive, finite weights (d,)."""
    ends = np.cumsum(weights)
    total = ends[-1]
    prefixes = generator.integers(0, 2**_BITS, size=count)
    at = prefixes * (total / 2.0**_BITS)
    indices = np.searchsorted(ends, at, side="right")
    margin = total * (len(weights) + 8) * 2.0**-52
    inside = indices < len(weights)
    cells = np.where(inside, indices, 0)
    starts = np.where(cells > 0, ends[cells - 1], -np.inf)
    stops = np.where(cells < len(weights) - 1, ends[cells], np.inf)
    clear = inside & (at - starts > margin) & (stops - at > margin)
    if not clear.all():
        indices[~clear] = _refined(weights, prefixes[~clear], generator)
    return indices


def _refined(weights: Floats, prefixes: NDArray[np.int64], generator: np.random.Generator) -> list[int]:
    """Indices of uniform numbers that begin with the given bits, by exact sums."""
    mantissas, exponents = np.frexp(weights)
    shifts = (exponents - exponents.min()).tolist()
    whole = (mantissas * 2.0**53).astype(np.int64).tolist()
    ends = list(itertools.accumulate(m << s for m, s in zip(whole, shifts, strict=True)))
    found = []
    for prefix in prefixes.tolist():
        rest = int.from_bytes(generator.bytes(_MORE_BITS // 8), "little")
        threshold = (((prefix << _MORE_BITS) | rest) * ends[-1]) >> (_BITS + _MORE_BITS)
        found.append(bisect_right(ends, threshold))
    return found


def draw_point(ends: Floats, rate: float, step: float, source: BitSource) -> float:
    """Return a point of density ``exp(-rate |k - n/2|)`` between ``ends[k]`` and the next, rounded once to a grid."""
    from flint import arb

    k = draw_interval(ends, rate, source.generator())
    lower, upper = map(arb, ends[k : k + 2].tolist())
    uniform: Any = SimpleNamespace(uniforms=1, transform=lambda numbers: [lower + numbers[0] * (upper - lower)])
    return float(real.add_noise(np.zeros(1), uniform, 1.0, step, source)[0])


def draw_interval(ends: Floats, rate: float, generator: np.random.Generator) -> int:
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
    return _refined_interval(ends.tolist(), rate, away.tolist(), prefix, generator)


def _refined_interval(ends: list[float], rate: float, away: list[float], prefix: int, bits: np.random.Generator) -> int:
    """Return the interval of a uniform number that begins with the given bits."""
    from flint import arb, ctx

    known = _BITS
    while True:
        prefix = (prefix << 8 * _WORD) | int.from_bytes(bits.bytes(_WORD), "little")
        known += 8 * _WORD
        with ctx.workprec(known + 64):
            pairs = itertools.pairwise(map(arb, ends))
            masses = [(b - a) * (-arb(rate) * arb(j)).exp() for (a, b), j in zip(pairs, away, strict=True)]
            shares = list(itertools.accumulate(masses))
            at = shares[-1] * arb((2 * prefix + 1, -known - 1), (1, -known - 1))
            k = bisect_left(shares, True, key=lambda share: bool(share > at))  # true only where no doubt is left
            if k < len(shares) and (k == 0 or bool(shares[k - 1] < at)):
                return k
