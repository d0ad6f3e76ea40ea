"""What the one-record-at-a-time methods share: compiled slopes, and random records in the order of a fixed generator.

The slope of record i at a prediction z is ``offset_i + amplitude_i s((z - shift_i) / scale)``, with s increasing from
-1 to 1 in one of three shapes, or it is bent and clipped to ``offset_i`` plus or minus ``amplitude_i``; one compiled
function computes all four. Losses of other files register with ``@slope_curve.register``; all others are refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

import numpy as np

from dpconvex import losses
from dpconvex._types import Array, Floats
from dpconvex.losses.regression import ResidualSplineLoss
from dpconvex.problems import Records

CLIP, TANH, RATIONAL, BENT = 0, 1, 2, 3  # shapes of slopes, see `SlopeCurve`
_TINY = 1e-300  # scale that turns `CLIP` into a step function
_HUGE = 1e150  # amplitude that no slope reaches
_SAMPLE = 2**20  # floats that the records drawn at a time hold (8 MB), or n/16 records if that is more


@dataclass(frozen=True, eq=False)
class SlopeCurve:
    """The slope ``offset + amplitude s((z - shift) / scale)`` of every record.

    For a saturating spline (`BENT`) it is ``A s`` between ``offset - amplitude`` and ``offset + amplitude``, where A is
    the larger magnitude of these two bounds and s the slope of `losses.base.Spline` for ``A = 1``.
    """

    shape: int  #: s is ``clip(t, -1, 1)`` (`CLIP`), ``tanh(t)`` (`TANH`) or ``t / sqrt(1 + t^2)`` (`RATIONAL`)
    scale: float
    records: Floats  #: offset, amplitude and shift, shape (n, 3)


@singledispatch
def slope_curve(loss: losses.LinearModelLoss, y: Floats) -> SlopeCurve | None:
    """Return the slopes of a loss for the targets `y` (n,); None for losses that are not written in this form."""
    return None


@slope_curve.register
def _(loss: losses.PiecewiseLinearLoss, y: Floats) -> SlopeCurve:
    lo, hi = loss.slope_interval(y)
    return _curve(CLIP, _TINY, (lo + hi) / 2, (hi - lo) / 2, y)


@slope_curve.register
def _(loss: losses.LogisticLoss, y: Floats) -> SlopeCurve | None:
    # A capped logistic slope has none of the shapes.
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
    """Return why a method that runs record by record cannot treat a loss; None if the loss has a compiled slope."""
    return "needs a loss with a compiled slope" if slope_curve(loss, np.zeros(1)) is None else None


def draws(records: Records, count: int, order: np.random.Generator) -> Iterator[tuple[Array, Floats]]:
    """Yield `count` records drawn with replacement, in portions of m (`_SAMPLE`): indices (m,) and copies (m, dim)."""
    most = max(1, _SAMPLE // records.dim, records.n // 16)
    for first in range(0, count, most):
        index = order.integers(records.n, size=min(most, count - first))
        yield index, records.take(index)
