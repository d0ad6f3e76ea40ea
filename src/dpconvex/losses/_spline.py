"""The quadratic spline behind all smoothed piecewise linear losses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray


@dataclass(frozen=True)
class Spline:
    """``r -> max of u r - width u^2 / 2 over u in [lower, upper]``.

    Parameters
    ----------
    lower, upper : float
        Extreme slopes.
    width : float
        Positive; the slope goes from `lower` to `upper` over a stretch of ``width (upper - lower)``.
    """

    lower: float
    upper: float
    width: float

    def slope(self, r: FloatArray) -> FloatArray:
        """Return ``clip(r / width, lower, upper)``, the maximising ``u``."""
        return np.clip(r / self.width, self.lower, self.upper)

    def value(self, r: FloatArray) -> FloatArray:
        """Return the value, of the shape of `r`."""
        u = self.slope(r)
        return u * (r - 0.5 * self.width * u)

    def curvature(self, r: FloatArray) -> FloatArray:
        """Return ``1 / width`` where the slope lies between its extremes, else 0."""
        u = r / self.width
        return np.where((u >= self.lower) & (u <= self.upper), 1.0 / self.width, 0.0)


def check_width(width: float) -> None:
    """Raise `InvalidParameterError` unless `width` lies in [1e-100, 1e100]."""
    _validate.real("width", width, at_least=1e-100, at_most=1e100)
