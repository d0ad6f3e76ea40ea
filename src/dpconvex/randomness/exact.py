"""Discrete Laplace and Gaussian noise on integers, and the noisy maximum: by OpenDP, exactly, wherever bits matter.

OpenDP adds the noise inside its proof: sums beyond 64 bits saturate, which is post-processing. With a seeded source
(tests, benchmarks) the same laws are drawn by NumPy, up to floating-point rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpconvex._types import FloatArray
from dpconvex.randomness.source import BitSource

IntArray = NDArray[np.int64]

LIMIT = 2**62
"""Largest magnitude of an integer that noise is added to."""


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


def _add(units: IntArray, noise: FloatArray | IntArray) -> IntArray:
    return units + np.clip(noise, -LIMIT, LIMIT).astype(np.int64)
