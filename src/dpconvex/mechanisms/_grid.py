"""The public grid on which values are rounded before noise is added, so that the bits of a release are safe.

A grid step is a power of two, fixed by the sensitivity and the noise scale (never by data). It is so fine that
rounding enlarges the sensitivity by a factor of at most ``1 + FINENESS``, which every event includes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpconvex import _rounding
from dpconvex._types import FloatArray
from dpconvex.errors import InvalidParameterError
from dpconvex.randomness.exact import LIMIT

FINENESS = 2.0**-20
"""What rounding costs, relative to the sensitivity."""


def enlarged(sensitivity: float) -> float:
    """Sensitivity after rounding two neighbouring values to the grid of `spacing`, rounded up."""
    return _rounding.product_up(sensitivity, 1.0 + FINENESS)


def spacing(sensitivity: float, scale: float, stretch: float) -> float:
    """Step of the grid: a power of two at most ``FINENESS`` times the scale and the sensitivity over `stretch`.

    Parameters
    ----------
    sensitivity : float
        In the norm of the mechanism.
    scale : float
        Of the noise.
    stretch : float
        Norm of the all-ones vector, at least. Rounding moves each coordinate of a difference by at most one step.
    """
    finest = min(_rounding.ratio_down(sensitivity, stretch), scale)
    step = _rounding.power_of_two_at_most(finest) * FINENESS
    if not 1e-300 < step < 1e300:
        raise InvalidParameterError(
            "sensitivity", sensitivity, "must leave room for a finer grid of floats", "Rescale the value"
        )
    return step


def to_units(value: FloatArray, step: float) -> NDArray[np.int64]:
    """Nearest grid points as integers; beyond ``2**62`` steps they saturate, and NaN becomes 0."""
    return _nearest(value, step, LIMIT * step).astype(np.int64)


def from_units(units: NDArray[np.int64], step: float) -> FloatArray:
    """Grid points as floats."""
    return units.astype(np.float64) * step


def rounded(value: FloatArray, step: float) -> FloatArray:
    """Nearest grid points as floats, for noise that is drawn in floats; NaN becomes 0, only infinity saturates."""
    return _nearest(value, step, np.inf) * step + 0.0  # no negative zero


def _nearest(value: FloatArray, step: float, largest: float) -> FloatArray:
    """Nearest multiples of the step, in steps. Clipping coordinates never increases an absolute norm's distance."""
    largest = min(largest, 1e300 * min(step, 1.0))  # neither value nor quotient overflows
    return np.rint(np.clip(np.nan_to_num(value, nan=0.0), -largest, largest) / step)
