"""Directed rounding: every public constant of a proof is rounded in the direction that makes the proof hold.

Rational operations are done exactly with `fractions.Fraction` and rounded once in the stated direction.
Results of transcendental functions are widened by `SLACK`, far above the C library's error of a few last-place units.
"""

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

SLACK = 1e-13  # relative slack charged for one evaluation of a transcendental function


def float_up(x: Fraction) -> float:
    """Smallest float at or above `x`; infinity beyond the largest."""
    return _quotient_up(x.numerator, x.denominator)


def float_down(x: Fraction) -> float:
    """Largest float at or below `x`."""
    y = float(x)
    return y if Fraction(y) <= x else math.nextafter(y, -math.inf)


def _quotient_up(top: int, bottom: int) -> float:
    """Smallest float at or above ``top / bottom``, for positive `bottom`."""
    try:
        y = top / bottom
    except OverflowError:
        return math.inf if top > 0 else -sys.float_info.max
    numerator, denominator = y.as_integer_ratio()
    return y if top * denominator <= numerator * bottom else math.nextafter(y, math.inf)


def _ratio(x: float) -> tuple[int, int]:
    """Return `x` as a quotient of integers; infinities, and NaN from an earlier overflow, raise `ArithmeticError`."""
    if math.isnan(x):
        raise FloatingPointError("a public constant is NaN")
    return (x if isinstance(x, float) else Fraction(x)).as_integer_ratio()


def _exact(x: float) -> Fraction:
    return Fraction(*_ratio(x))


def sum_up(values: Iterable[float]) -> float:
    """Sum rounded up."""
    top, bottom = 0, 1  # integers, as denominators are powers of two, and `Fraction` would waste time on divisors
    for value in values:
        over, under = _ratio(value)
        if under > bottom:
            top, bottom = top * (under // bottom), under
        top += over * (bottom // under)
    return _quotient_up(top, bottom)


def difference_down(a: float, b: float) -> float:
    """``a - b`` rounded down."""
    return float_down(_exact(a) - _exact(b))


def product_up(*factors: float) -> float:
    """Product rounded up."""
    top, bottom = 1, 1
    for factor in factors:
        over, under = _ratio(factor)
        top, bottom = top * over, bottom * under
    return _quotient_up(top, bottom)


def product_down(*factors: float) -> float:
    """Product rounded down."""
    return float_down(math.prod(map(_exact, factors), start=Fraction(1)))


def ratio_up(a: float, b: float) -> float:
    """``a / b`` rounded up, for positive `b`."""
    (a_top, a_bottom), (b_top, b_bottom) = _ratio(a), _ratio(b)
    return _quotient_up(a_top * b_bottom, a_bottom * b_top)


def ratio_down(a: float, b: float) -> float:
    """``a / b`` rounded down, for positive `b`."""
    return float_down(_exact(a) / _exact(b))


def widen_up(x: float) -> float:
    """`x` rounded up by the slack of one transcendental evaluation."""
    return math.nextafter(x + SLACK * abs(x), math.inf)


def power_of_two_at_most(x: float) -> float:
    """Largest power of two at or below `x > 0`."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(0.5 if mantissa < 1.0 else 1.0, exponent)
