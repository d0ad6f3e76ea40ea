"""Exact draws of an index from weights.

Cumulative sums in floats err by a known amount. A uniform number further than that from both ends of its cell has the
index that exact arithmetic would give. Any other is drawn with more bits, by sums of integers: weights are floats.
"""

import itertools
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import Floats

_BITS = 62  # of the first look at a uniform number
_MORE_BITS = 2560
"""Bits of a refined uniform number: 200 more than the sum of 2^64 floats can have, so its law errs by 2^-200."""


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
