"""What the one-record-at-a-time methods share: compiled slopes, random records, the order of a fixed generator.

A slope has the form ``offset_i + amplitude_i s((z - shift_i) / scale)`` with an increasing s between -1 and 1 of three
shapes, or is bent and clipped between ``offset_i`` minus and plus ``amplitude_i``: one compiled function serves all. A
loss of another file joins by ``@slope_curve.register``; until then these methods refuse it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from dpconvex import losses
from dpconvex._types import Array, Floats
from dpconvex.losses.regression import ResidualSplineLoss
from dpconvex.problems import Records

CLIP, TANH, RATIONAL, BENT = 0, 1, 2, 3
_TINY = 1e-300  # a scale at which `CLIP` is a step
_HUGE = 1e150  # an amplitude that no slope reaches
_SAMPLE = 2**20  # floats of the records drawn at a time (8 MB), at least


@dataclass(frozen=True, eq=False)
class SlopeCurve:
    """The slope ``offset + amplitude s((z - shift) / scale)`` of every record.

    Of a saturating spline (`BENT`) it is ``A s`` between ``offset - amplitude`` and ``offset + amplitude``, A the
    larger size of these, with the bent s of `losses.base.Spline` for ``A = 1``.
    """

    shape: int  #: s is ``clip(t, -1, 1)`` (`CLIP`), ``tanh(t)`` (`TANH`) or ``t / sqrt(1 + t^2)`` (`RATIONAL`)
    scale: float
    records: Floats  #: offset, amplitude and shift, shape (n, 3)


@singledispatch
def slope_curve(loss: losses.LinearModelLoss, y: Floats) -> SlopeCurve | None:
    """Return the slopes of a loss for the targets `y` (n,), None where nobody has written them in this form."""
    return None


@slope_curve.register
def _(loss: losses.PiecewiseLinearLoss, y: Floats) -> SlopeCurve:
    lo, hi = loss.slope_interval(y)
    return _curve(CLIP, _TINY, (lo + hi) / 2, (hi - lo) / 2, y)


@slope_curve.register
def _(loss: losses.LogisticLoss, y: Floats) -> SlopeCurve | None:
    # A cap is none of the three shapes.
    return _curve(TANH, 2.0, -y / 2, 0.5, -loss.offset[0]) if loss.cap == 1 else None


@slope_curve.register
def _(loss: losses.SmoothedHingeLoss, y: Floats) -> SlopeCurve:
    if loss.saturating:
        return _curve(BENT, loss.width, -y / 2, 0.5, loss.end * y)
    return _curve(CLIP, loss.width / 2, -y / 2, 0.5, loss.center * y)


@slope_curve.register
def _(loss: ResidualSplineLoss, y: Floats) -> SlopeCurve:
    spline = loss.spline
    middle, half = (spline.lower + spline.upper) / 2, (spline.upper - spline.lower) / 2
    if spline.saturating:
        return _curve(BENT, spline.width * loss.slope_bound, middle, half, y)
    return _curve(CLIP, spline.width * half, middle, half, y + spline.width * middle)


@slope_curve.register
def _(loss: losses.SquaredLoss, y: Floats) -> SlopeCurve:
    bound = min(loss.prediction_bound, _HUGE)
    return _curve(CLIP, bound, -y, bound, 0.0)


@slope_curve.register
def _(loss: losses.PseudoHuberLoss, y: Floats) -> SlopeCurve:
    return _curve(RATIONAL, loss.width, 0.0, loss.width, y)


@slope_curve.register
def _(loss: losses.LogCoshLoss, y: Floats) -> SlopeCurve:
    return _curve(TANH, loss.width, 0.0, loss.width, y)


def _curve(shape: int, scale: float, *offset_amplitude_shift: Floats | float) -> SlopeCurve:
    return SlopeCurve(shape, scale, np.stack(np.broadcast_arrays(*offset_amplitude_shift), axis=-1))


def needs_slope_curve(loss: losses.LinearModelLoss) -> str | None:
    """Return the refusal of a method that runs record by record; None where the slope is compiled."""
    return "needs a loss with a compiled slope" if slope_curve(loss, np.zeros(1)) is None else None


def draws(records: Records, count: int, order: np.random.Generator) -> Iterator[tuple[Array, Floats]]:
    """Yield `count` records, uniform with replacement, in portions of 8 MB or n/16: numbers (m,), copies (m, dim)."""
    most = max(1, _SAMPLE // records.dim, records.n // 16)
    for first in range(0, count, most):
        index = order.integers(records.n, size=min(most, count - first))
        yield index, records.take(index)
