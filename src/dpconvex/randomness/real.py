"""Real-valued noise, rounded once: interval arithmetic on random bits that are drawn as they are needed.

A law of noise is a function of independent uniform numbers. The first bits of each give an interval that holds it;
Arb's ball arithmetic then encloses the noise, its own rounding included (a ball is a midpoint with a radius). As long
as the enclosure does not decide how the result rounds, more bits are drawn. The result is thus the real noise, rounded
once, so theorems about real numbers apply to it, by post-processing.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from dpconvex._types import Floats
from dpconvex.randomness.source import BitSource

_WORDS = 2  # words of 8 bytes drawn per uniform number at a time; one draw fails to decide with probability < d 2^-60
_GUARD = 32  # number of bits of working precision beyond the bits of the uniform numbers
_RELATIVE_BITS = 60  # relative precision, in bits, to which `draw` knows a number before it becomes a float of 53 bits
T = TypeVar("T")


class Law(Protocol):
    """A law of noise vectors, as a function of uniform numbers."""

    @property
    def uniforms(self) -> int:
        """Number of independent uniform numbers of (0, 1) that `transform` takes."""
        ...

    def transform(self, uniforms: Sequence[Any]) -> list[Any]:
        """Return the noise, computed with ``+ - * /``, ``log``, ``sqrt``, ``sin_cos_pi``, ``abs`` and ``sgn`` only."""
        ...


def add_noise(value: Floats, law: Law, scale: float, step: float, source: BitSource) -> Floats:
    """Return the multiples of `step` nearest to ``value + scale * noise``, (d,), as floats; `value` is finite."""
    from flint import arb

    half = arb(0.5)
    center, factor = [arb(v) / step for v in value.tolist()], scale / arb(step)

    def nearest(noise: list[Any]) -> list[int] | None:
        units: list[int] = []
        for c, z in zip(center, noise, strict=True):
            if (unit := (c + factor * z + half).floor().unique_fmpz()) is None:
                return None
            units.append(int(unit))
        return units

    limit = 2**1000  # integers up to this size become finite floats
    units = _decided(law, source.generator(), nearest)
    return np.array([float(max(-limit, min(limit, unit))) for unit in units]) * step + 0.0  # no negative zero


def draw(law: Law, size: int, source: BitSource) -> Floats:
    """Return `size` independent vectors of floats within a relative ``2**-52`` of the noise, shape (size, d)."""

    def close(noise: list[Any]) -> list[float] | None:
        if any(z.rel_accuracy_bits() < _RELATIVE_BITS for z in noise):
            return None
        return [float(z.mid()) for z in noise]

    generator = source.generator()
    return np.array([_decided(law, generator, close) for _ in range(size)])


def simulate(law: Law, size: int, generator: np.random.Generator) -> Floats:
    """Return `size` vectors of approximately this law, (size, d), to show what noise does; never use them as noise.

    The generator gives the uniform numbers; it must not be a generator from which noise is drawn.
    """
    uniforms = [_Floats.positive(1 - generator.random(size)) for _ in range(law.uniforms)]  # in (0, 1]
    return np.column_stack([noise.values for noise in law.transform(uniforms)])


def gram(first: list[list[Any]], second: list[list[Any]]) -> list[list[Any]]:
    """Return the product of a matrix of balls and another one's transpose, both given by rows, in one call of Arb."""
    if isinstance(first[0][0], _Floats):
        return [[sum(a * b for a, b in zip(x, y, strict=True)) for y in second] for x in first]
    from flint import arb_mat

    return (arb_mat(first) * arb_mat(second).transpose()).tolist()


def _lifted(function: Callable[..., Floats]) -> Any:
    """Return a method that applies a function of NumPy to the values of `_Floats`, and of other operands."""
    return lambda own, *others: _Floats(function(*map(_values, (own, *others))))


class _Floats:
    """Arrays of floats with the operations that laws apply to balls; products of uniform numbers do not underflow."""

    def __init__(self, values: Floats, logs: Floats | None = None) -> None:
        self.values, self.logs = values, logs

    @classmethod
    def positive(cls, values: Floats) -> Self:
        return cls(values, np.log(values))

    __add__ = __radd__ = _lifted(np.add)
    __sub__, __neg__, __abs__ = _lifted(np.subtract), _lifted(np.negative), _lifted(np.abs)
    __rsub__ = _lifted(lambda own, other: other - own)
    __truediv__, sqrt, sgn = _lifted(np.divide), _lifted(np.sqrt), _lifted(np.sign)

    def __mul__(self, other: Any) -> "_Floats":
        logs = other.logs if isinstance(other, _Floats) else math.log(other) if other > 0 else None
        return _Floats(self.values * _values(other), None if self.logs is None or logs is None else self.logs + logs)

    __rmul__ = __mul__

    def log(self) -> "_Floats":
        return _Floats(np.log(self.values) if self.logs is None else self.logs)

    def sin_cos_pi(self) -> "tuple[_Floats, _Floats]":
        return _Floats(np.sin(np.pi * self.values)), _Floats(np.cos(np.pi * self.values))


def _values(number: Any) -> Any:
    return number.values if isinstance(number, _Floats) else number


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
            answer = decide(law.transform([arb((2 * k + 1, -bits - 1), (1, -bits - 1)) for k in numerators]))
        if answer is not None:
            return answer
