"""Values on a public grid, and exact noise on its integers: discrete Laplace and Gaussian, and the noisy maximum.

Grid
    Values are rounded before noise is added, so that the bits of a release are safe. The step is a power of two, fixed
    by the sensitivity and the noise scale (never by data). It is so fine that rounding enlarges the sensitivity by a
    factor of at most ``1 + FINENESS``, which every event includes.
Noise
    OpenDP draws it exactly wherever bits matter. It adds the noise inside its proof: sums beyond 64 bits saturate,
    which is post-processing. With a seeded source (tests, benchmarks) NumPy draws the same laws, up to rounding.
Indices
    `draw` draws indices with probabilities given by weights. Cumulative sums in floats err by a known amount. A uniform
    number further than that from both ends of its cell has the index that exact arithmetic would give. Any other gets
    more bits and exact sums: weights are floats, so these are sums of integers.
"""

import itertools
from bisect import bisect_right
from typing import Any

import numpy as np

from dpconvex import _rounding
from dpconvex._types import Floats, IntArray, finite
from dpconvex.errors import InvalidParameterError
from dpconvex.randomness.source import BitSource

LIMIT = 2**62  # largest magnitude of an integer that noise is added to
FINENESS = 2.0**-20  # largest relative increase of the sensitivity by rounding to the grid


def enlarged(sensitivity: float) -> float:
    """Sensitivity after rounding two neighboring values to the grid of `spacing`, rounded up."""
    return _rounding.product_up(sensitivity, 1.0 + FINENESS)


def spacing(sensitivity: float, scale: float, stretch: float) -> float:
    """Step of the grid: a power of two at most ``FINENESS`` times the scale and the sensitivity over `stretch`.

    `stretch` is at least the norm of the all-ones vector: rounding moves each coordinate of a difference by at most one
    step.
    """
    finest = min(_rounding.ratio_down(sensitivity, stretch), scale)
    return checked_step(_rounding.power_of_two_at_most(finest) * FINENESS, sensitivity)


def checked_step(step: float, sensitivity: float) -> float:
    """Return a grid step, or raise `InvalidParameterError` where floats have no room for it."""
    if not 1e-300 < step < 1e300:
        what = "must leave room for a finer grid of floats"
        raise InvalidParameterError("sensitivity", sensitivity, what, "Rescale the value")
    return step


def to_units(value: Floats, step: float) -> IntArray:
    """Nearest grid points as integers; beyond ``2**62`` steps they saturate, and NaN becomes 0."""
    # After clipping neither value nor quotient overflows, and no distance in an absolute norm has grown.
    return np.rint(finite(value, min(LIMIT * step, 1e300 * min(step, 1.0))) / step).astype(np.int64)


def from_units(units: IntArray, step: float) -> Floats:
    """Grid points as floats."""
    return units.astype(np.float64) * step


def discrete_laplace(units: IntArray, scale: float, source: BitSource) -> IntArray:
    """Add noise of mass proportional to ``exp(-|z| / scale)`` to each of `units`, shape (d,)."""
    if source.exact:
        return _exact(laplace_measurement(scale), units)
    generator = source.generator()
    success = -np.expm1(-1.0 / scale)
    return _add(units, generator.geometric(success, len(units)) - generator.geometric(success, len(units)))


def discrete_gaussian(units: IntArray, sigma: float, source: BitSource) -> IntArray:
    """Add noise of mass proportional to ``exp(-z^2 / (2 sigma^2))`` to each of `units`, shape (d,)."""
    if source.exact:
        return _exact(gaussian_measurement(sigma), units)
    return _add(units, np.rint(source.generator().standard_normal(len(units)) * sigma))


def noisy_argmax(units: IntArray, scale: float, source: BitSource) -> int:
    """Index of the largest of `units`, each raised by exponential noise of the given scale."""
    if source.exact:
        return int(argmax_measurement(scale)(units.tolist()))
    return int(np.argmax(units + source.generator().exponential(scale, len(units))))


def laplace_measurement(scale: float) -> Any:
    """OpenDP's discrete Laplace on integer vectors; its map takes an l1 distance."""
    from opendp import measurements, metrics

    return measurements.make_laplace(_integers(), metrics.l1_distance(T="i64"), scale=scale)


def gaussian_measurement(sigma: float) -> Any:
    """OpenDP's discrete Gaussian on integer vectors; its map takes an l2 distance."""
    from opendp import measurements, metrics

    return measurements.make_gaussian(_integers(), metrics.l2_distance(T="f64"), scale=sigma)


def argmax_measurement(scale: float) -> Any:
    """OpenDP's permute-and-flip (noisy maximum with exponential noise); its map takes an l-infinity distance."""
    from opendp import measurements, measures, metrics

    distance = metrics.linf_distance(T="i64")
    return measurements.make_noisy_max(_integers(), distance, measures.max_divergence(), scale=scale)


def _integers() -> Any:
    """OpenDP's domain of integer vectors. Not by way of ``opendp.prelude``, which takes seconds to import."""
    from opendp import domains
    from opendp.mod import enable_features

    enable_features("contrib")
    return domains.vector_domain(domains.atom_domain(T="i64"))


def _exact(measurement: Any, units: IntArray) -> IntArray:
    return np.array(measurement(units.tolist()), dtype=np.int64)


def _add(units: IntArray, noise: Floats | IntArray) -> IntArray:
    return units + np.clip(noise, -LIMIT, LIMIT).astype(np.int64)


_BITS = 62  # number of bits of a uniform number that are drawn first
_MORE_BITS = 2560
"""Bits of a refined uniform number: 200 more than a sum of 2^64 floats can have, so the law errs by at most 2^-200."""


def draw(weights: Floats, count: int, generator: np.random.Generator) -> IntArray:
    """Return independent indices (count,) with probabilities proportional to positive, finite weights (d,)."""
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


def _refined(weights: Floats, prefixes: IntArray, generator: np.random.Generator) -> list[int]:
    """Return the indices of uniform numbers that begin with the given bits, by exact sums."""
    mantissas, exponents = np.frexp(weights)
    shifts = (exponents - exponents.min()).tolist()
    whole = (mantissas * 2.0**53).astype(np.int64).tolist()
    ends = list(itertools.accumulate(m << s for m, s in zip(whole, shifts, strict=True)))
    found = []
    for prefix in prefixes.tolist():
        rest = int.from_bytes(generator.bytes(_MORE_BITS // 8), "little")
        found.append(bisect_right(ends, (((prefix << _MORE_BITS) | rest) * ends[-1]) >> (_BITS + _MORE_BITS)))
    return found
