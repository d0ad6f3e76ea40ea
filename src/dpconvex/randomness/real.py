"""Real-valued noise, rounded once: interval arithmetic on random bits that are drawn as they are needed.

A law of noise is a function of independent uniform numbers. Of each we know the first bits, hence an interval; Arb's
ball arithmetic then encloses the noise, all of its own rounding included. As long as the enclosure leaves open how the
result rounds, more bits are drawn. What comes out is therefore the real noise rounded once, as if all its bits had been
known: a theorem about real numbers applies to it, by post-processing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.randomness.source import BitSource

_WORDS = 2  # of 8 bytes, drawn for every uniform number at a time; one draw decides but with probability below d 2^-60
_GUARD = 32  # bits of working precision beyond those of the uniform numbers
_RELATIVE_BITS = 60  # to which `draw` knows a number before it becomes a float of 53

T = TypeVar("T")


class Law(Protocol):
    """A law of noise vectors, as a function of uniform numbers."""

    @property
    def uniforms(self) -> int:
        """How many independent uniform numbers of (0, 1) it takes."""
        ...

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Return the noise, with ``+ - * /``, ``log``, ``sqrt``, ``sin_cos_pi``, ``abs`` and ``sgn`` only."""
        ...


def add_noise(value: FloatArray, law: Law, scale: float, step: float, source: BitSource) -> FloatArray:
    """Return the multiples of `step` nearest to ``value + scale * noise``, shape (d,).

    Parameters
    ----------
    value : array of shape (d,)
        Finite.
    law : Law
        Of d numbers.
    scale, step : float
        Positive.
    source : BitSource
        Of the bits.

    Returns
    -------
    array of shape (d,)
        Whole numbers of steps, as floats: those beyond 2^53 are rounded once more, as a function of themselves.
    """
    from flint import arb

    half = arb(0.5)
    centre, factor = [arb(v) / step for v in value.tolist()], scale / arb(step)

    def nearest(noise: list[Any]) -> list[int] | None:
        units: list[int] = []
        for c, z in zip(centre, noise, strict=True):
            unit = (c + factor * z + half).floor().unique_fmpz()
            if unit is None:
                return None
            units.append(int(unit))
        return units

    limit = 2**1000  # whole numbers that are floats
    units = _decided(law, source.generator(), nearest)
    return np.array([float(max(-limit, min(limit, unit))) for unit in units]) * step + 0.0  # no negative zero


def draw(law: Law, size: int, source: BitSource) -> FloatArray:
    """Return `size` independent vectors of floats within a relative ``2**-52`` of the noise, shape (size, d)."""

    def close(noise: list[Any]) -> list[float] | None:
        if any(z.rel_accuracy_bits() < _RELATIVE_BITS for z in noise):
            return None
        return [float(z.mid()) for z in noise]

    generator = source.generator()
    return np.array([_decided(law, generator, close) for _ in range(size)])


def _decided(law: Law, generator: np.random.Generator, decide: Callable[[list[Any]], list[T] | None]) -> list[T]:
    """Give `decide` ever smaller enclosures of the noise until it has an answer."""
    from flint import arb, ctx

    width = 8 * _WORDS
    numerators, bits = [0] * law.uniforms, 0
    while True:
        raw = generator.bytes(width * law.uniforms)
        words = (int.from_bytes(raw[k : k + width], "little") for k in range(0, len(raw), width))
        numerators = [(old << 8 * width) | new for old, new in zip(numerators, words, strict=True)]
        bits += 8 * width
        with ctx.workprec(bits + _GUARD):
            # (k + 1/2 +- 1/2) / 2^bits
            noise = law.transform([arb((2 * k + 1, -bits - 1), (1, -bits - 1)) for k in numerators])
            answer = decide(noise)
        if answer is not None:
            return answer
